/* Who is of which run stands in two hard limits of each process: the run's number in one, what is left to the highest
 * number in the other. Children have the limits of their parent, and nobody inside can raise one. Who lowers one has a
 * pair that fits nowhere: it is then of the run of its nearest ancestor that has one, and without such an ancestor of
 * every run, so that it goes with the first that is ended.
 *
 * They are found in /proc and held before they are killed: a process that stands still starts no other, so that after a
 * few rounds nothing new appears. Rounds are bounded, and so is what one sees: somebody may fork faster than we look.
 * Such a one leaves traces: numbers that were listed and are gone, orphans that nobody has reaped yet. */
#include "guest/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#define ROUNDS   16
#define SEEN     8192 /* processes */
#define DEPTH    1024 /* of ancestors */
#define HOLDS    3    /* who was just being born is held by the next */
#define FIRST    (UINT64_C(1) << 62)
#define NOBODYS  0 /* no run has this number */
#define NUMBER   RLIMIT_RSS
#define OPPOSITE RLIMIT_DATA

struct seen {
        pid_t pid, parent;
        uint32_t run; /* or NOBODYS: its pair fits nowhere */
        bool mine;
};

struct sight {
        struct seen *all;
        size_t count, mine;
        bool moves; /* somebody came or went meanwhile */
};

/* --- limits --- */

static uint64_t opposite_of(uint32_t run) {
        return FIRST + (UINT32_MAX - run);
}

bool family_is_told(void) {
        struct rlimit number, opposite;

        return getrlimit(NUMBER, &number) == 0 && getrlimit(OPPOSITE, &opposite) == 0 &&
               number.rlim_max == RLIM_INFINITY && opposite.rlim_max == RLIM_INFINITY;
}

int family_join(uint32_t run) {
        const struct rlimit number = {FIRST + run, FIRST + run}, opposite = {opposite_of(run), opposite_of(run)};

        return setrlimit(NUMBER, &number) < 0 || setrlimit(OPPOSITE, &opposite) < 0 ? -errno : 0;
}

/* 0; 1: none of a run's, ourselves or one that has not joined yet; -ESRCH. */
static int read_run(pid_t pid, uint32_t *ret) {
        struct rlimit number, opposite;

        if (prlimit(pid, NUMBER, NULL, &number) < 0 || prlimit(pid, OPPOSITE, NULL, &opposite) < 0)
                return -ESRCH;
        if (number.rlim_max == RLIM_INFINITY)
                return 1;
        uint64_t run = number.rlim_max - FIRST;
        bool fits = number.rlim_max > FIRST && run <= UINT32_MAX && opposite.rlim_max == opposite_of((uint32_t)run);
        *ret = fits ? (uint32_t)run : NOBODYS;
        return 0;
}

/* --- looking --- */

/* As read_run; -ESRCH also for an orphan that is dead and will be reaped. */
static int read_one(int proc, pid_t pid, struct seen *ret) {
        char path[32], text[512], state;
        int parent;

        (void)snprintf(path, sizeof path, "%d/stat", (int)pid);
        if (fd_read_at(proc, path, text, sizeof text) <= 0)
                return -ESRCH;
        const char *p = strrchr(text, ')'); /* the name may have anything in it */
        if (!p || sscanf(p, ") %c %d", &state, &parent) != 2)
                return -ESRCH;
        if (state == 'Z' || state == 'X')
                return parent == getpid() ? -ESRCH : 1;
        *ret = (struct seen){.pid = pid, .parent = parent};
        return read_run(pid, &ret->run);
}

static int by_pid(const void *a, const void *b) {
        const struct seen *x = a, *y = b;

        return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void look(struct sight *s) {
        DIR *d = opendir("/proc");
        struct dirent *e;

        s->count = 0;
        s->moves = !d;
        while (d && s->count < SEEN && (e = readdir(d))) {
                pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
                int r = pid <= 0 || pid == getpid() ? 1 : read_one(dirfd(d), pid, &s->all[s->count]);

                s->count += r == 0;
                s->moves |= r < 0;
        }
        if (d)
                (void)closedir(d);
        qsort(s->all, s->count, sizeof *s->all, by_pid);
}

static uint32_t run_of(const struct sight *s, const struct seen *one) {
        for (unsigned depth = 0; one && one->run == NOBODYS && depth < DEPTH; depth++) {
                struct seen wanted = {.pid = one->parent};

                one = bsearch(&wanted, s->all, s->count, sizeof *s->all, by_pid);
        }
        return one ? one->run : NOBODYS;
}

static void look_for(struct sight *s, uint32_t run) {
        look(s);
        s->mine = 0;
        for (size_t i = 0; i < s->count; i++) {
                uint32_t whose = run_of(s, &s->all[i]);

                s->all[i].mine = whose == run || whose == NOBODYS;
                s->mine += s->all[i].mine;
        }
}

/* --- ending --- */

static size_t send_all(const struct sight *s, int number) {
        size_t sent = 0;

        for (size_t i = 0; i < s->count; i++)
                sent += s->all[i].mine && kill(s->all[i].pid, number) == 0;
        return sent;
}

static void kill_all(struct sight *s, uint32_t run) {
        size_t before = 0;

        for (unsigned i = 0; i < ROUNDS; i++) {
                size_t held = send_all(s, SIGSTOP);

                if (held == before)
                        break;
                before = held;
                look_for(s, run);
        }
        (void)send_all(s, SIGKILL);
}

/* Everybody else inside, at once: nobody outruns that by being born. */
static void signal_everybody(int number, unsigned times) {
        while (times-- > 0)
                (void)kill(-1, number);
}

/* We are everybody's ancestor. */
static bool is_alone(void) {
        siginfo_t info;

        return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

static enum family_state state_of(const struct sight *s, bool held) {
        if (s->mine > 0)
                return FAMILY_LIVES;
        return s->moves && !held ? FAMILY_PERHAPS : FAMILY_GONE;
}

enum family_state family_end(uint32_t run, enum family_end end) {
        const bool hold = end == FAMILY_HOLD_AND_KILL;
        _cleanup_free_ struct seen *all = NULL;
        struct sight s = {0};

        if (is_alone())
                return FAMILY_GONE;
        s.all = all = calloc(SEEN, sizeof *all);
        if (!all)
                return FAMILY_PERHAPS;
        if (hold)
                signal_everybody(SIGSTOP, HOLDS);
        look_for(&s, run);
        enum family_state found = state_of(&s, hold);
        if (found == FAMILY_LIVES && end != FAMILY_LOOK)
                kill_all(&s, run);
        if (hold)
                signal_everybody(SIGCONT, 1);
        return found;
}
