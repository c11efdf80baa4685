/* The victim: a process of the caller's that must not notice anything. It counts the signals that it gets; everything
 * else about it (priority, limits, processors, tracer, state) is compared from outside with what it was at the last
 * world_forget. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/world-own.h"

static struct world_victim *counters; /* in the victim's process only */

static void count(int number) {
        (void)atomic_fetch_add(&counters->signals[number], 1);
}

_noreturn_ static void live(struct world_victim *v, pid_t judge) {
        counters = v;
        world_child_begin(judge, -1, -1);
        (void)prctl(PR_SET_NAME, "verify-victim", 0, 0, 0);
        for (int i = 1; i < WORLD_SIGNALS; i++) {
                struct sigaction a = {.sa_handler = count, .sa_flags = SA_RESTART};

                (void)sigaction(i, &a, NULL); /* two cannot be caught, and libc keeps a few */
        }
        sigset_t none;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        atomic_store(&v->up, true);
        for (;;)
                (void)pause();
}

/* The numbers of /proc/PID/stat behind the name. Returns the state, '\0' if there is no such process. */
static char read_stat(pid_t pid, struct world_before *b) {
        char path[48], text[1024], state = '\0';

        (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) < 0)
                return '\0';
        const char *rest = strrchr(text, ')');
        if (!rest || sscanf(rest, ") %c %*d %ld %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %ld", &state,
                            &b->group, &b->session, &b->nice) != 4)
                return '\0';
        return state;
}

static char observe(pid_t pid, struct world_before *b) {
        char path[48], text[4096];
        cpu_set_t processors;
        size_t used = 0;

        *b = (struct world_before){0};
        char state = read_stat(pid, b);
        (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) > 0) {
                const char *tracer = strstr(text, "TracerPid:");
                b->tracer = tracer ? strtol(tracer + strlen("TracerPid:"), NULL, 10) : 0;
        }
        (void)snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) > 0)
                b->adjustment = strtol(text, NULL, 10);
        for (int i = 0; i < (int)ELEMENTSOF(b->limits); i++) {
                struct rlimit limit = {0};

                if (syscall(SYS_prlimit64, pid, i, NULL, &limit) == 0) {
                        b->limits[i][0] = limit.rlim_cur;
                        b->limits[i][1] = limit.rlim_max;
                }
        }
        CPU_ZERO(&processors);
        if (sched_getaffinity(pid, sizeof processors, &processors) == 0)
                for (size_t i = 0; i < CPU_SETSIZE && used + 8 < sizeof b->processors; i++)
                        if (CPU_ISSET(i, &processors))
                                used += (size_t)snprintf(b->processors + used, sizeof b->processors - used, " %zu", i);
        return state;
}

int world_victim_start(struct world *w, struct err *err) {
        struct world_own *own = world_own(w);
        pid_t judge = getpid();

        own->victim = mmap(NULL, sizeof *own->victim, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (own->victim == MAP_FAILED) {
                own->victim = NULL;
                return err_set(err, -errno, "could not share memory with the victim");
        }
        w->victim = fork();
        if (w->victim == 0)
                live(own->victim, judge);
        if (w->victim < 0) {
                w->victim = 0;
                return err_set(err, -errno, "could not start the victim");
        }
        for (int i = 0; !atomic_load(&own->victim->up); i++) {
                if (i == 5000)
                        return err_set(err, -ETIMEDOUT, "the victim did not start");
                (void)usleep(1000);
        }
        (void)observe(w->victim, &own->before);
        return 0;
}

void world_victim_forget(struct world *w) {
        struct world_own *own = world_own(w);

        for (int i = 0; i < WORLD_SIGNALS; i++)
                atomic_store(&own->victim->signals[i], 0);
        (void)observe(w->victim, &own->before); /* a control may have changed it; a dead one stays dead */
}

/* One thing that is not as it was. */
_printf_(3, 4) static void say(char *ret, size_t size, const char *format, ...) {
        size_t used = strlen(ret);
        va_list args;

        if (used > 0 && used + 2 < size)
                used += (size_t)snprintf(ret + used, size - used, "; ");
        va_start(args, format);
        (void)vsnprintf(ret + used, size - used, format, args);
        va_end(args);
}

static void say_number(char *ret, size_t size, const char *what, long before, long now) {
        if (before != now)
                say(ret, size, "%s: %ld, was %ld", what, now, before);
}

bool world_victim_changed(const struct world *w, char *ret, size_t size) {
        struct world_own *own = world_own(w);
        const struct world_before *b = &own->before;
        struct world_before now;
        char state = observe(w->victim, &now);

        ret[0] = '\0';
        if (state == '\0' || state == 'Z' || state == 'X') {
                say(ret, size, "it is dead");
                return true;
        }
        for (int i = 1; i < WORLD_SIGNALS; i++)
                if (atomic_load(&own->victim->signals[i]) > 0)
                        say(ret, size, "signal %d (%s) arrived", i, strsignal(i));
        if (state != 'S' && state != 'R' && state != 'D')
                say(ret, size, "it is stopped (%c)", state);
        say_number(ret, size, "priority", b->nice, now.nice);
        say_number(ret, size, "process group", b->group, now.group);
        say_number(ret, size, "session", b->session, now.session);
        say_number(ret, size, "tracer", b->tracer, now.tracer);
        say_number(ret, size, "badness when memory is short", b->adjustment, now.adjustment);
        for (int i = 0; i < (int)ELEMENTSOF(now.limits); i++)
                if (now.limits[i][0] != b->limits[i][0] || now.limits[i][1] != b->limits[i][1])
                        say(ret, size, "limit %d: %llu, was %llu", i, (unsigned long long)now.limits[i][0],
                            (unsigned long long)b->limits[i][0]);
        if (!str_eq(now.processors, b->processors))
                say(ret, size, "processors:%s, were%s", now.processors, b->processors);
        return ret[0] != '\0';
}

void world_victim_stop(struct world *w) {
        struct world_own *own = world_own(w);

        world_child_end(&w->victim);
        if (own->victim)
                (void)munmap(own->victim, sizeof *own->victim);
        own->victim = NULL;
}
