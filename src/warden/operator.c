/* The operator's process: started with what it needs and nothing else, started again when it dies, told to end when we
 * end.
 *
 * One at a time, also across our own deaths: the descriptor of its folder that an operator gets carries a lock, which
 * tells a successor of ours that the old one still writes what it has to write. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/knockout.h"
#include "base/log.h"
#include "base/paths.h"
#include "cell/spawn.h"
#include "warden/warden.h"

#define DELAY_LEAST 100
#define DELAY_MOST  10000
#define HEALTHY_MS  60000
#define LOCK_MS     50
#define LOCK_SAY    40    /* looks after which we say that we wait */
#define END_MS      10000 /* for it to end in good order */
#define ENV_MAX     16

/* What an operator may know of our environment. */
static size_t make_environment(const struct warden *w, char pairs[ENV_MAX][PATH_MAX + 64], char *env[ENV_MAX + 2]) {
        static const char *const ours[] = {"STOCKADE_PROFILES",   "SSL_CERT_FILE", "TZ", "LANG",
                                           "STOCKADE_SLOW_FSYNC", "STOCKADE_STEP"};
        static const char *const users[] = {"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "USER"};
        size_t n = 0;

        (void)snprintf(pairs[n++], sizeof pairs[0],
                       "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        for (size_t i = 0; i < ELEMENTSOF(ours) + (w->rootless ? ELEMENTSOF(users) : 0); i++) {
                const char *name = i < ELEMENTSOF(ours) ? ours[i] : users[i - ELEMENTSOF(ours)], *value = getenv(name);

                if (value && strlen(value) < PATH_MAX)
                        (void)snprintf(pairs[n++], sizeof pairs[0], "%s=%s", name, value);
        }
        for (size_t i = 0; i < n; i++)
                env[i] = pairs[i];
        env[n] = knockout_pair();
        return n;
}

static int open_conf(const struct warden *w) {
        int fd = w->config_path[0] ? open(w->config_path, O_RDONLY | O_CLOEXEC) : -1;

        return fd >= 0 ? fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* 1: the lock is ours; 0: an operator of our predecessor still has it. */
static int take_lock(struct warden *w) {
        if (w->operator_lock < 0)
                w->operator_lock = openat(w->state, "operator", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (w->operator_lock < 0)
                return -errno;
        if (flock(w->operator_lock, LOCK_EX | LOCK_NB) == 0)
                return 1;
        return errno == EWOULDBLOCK ? 0 : -errno;
}

static void start_later(struct warden *w, unsigned ms) {
        loop_timer_set(w->loop, &w->operator_timer, loop_now(w->loop) + ms);
}

static void back_off(struct warden *w) {
        bool healthy = w->operator_since > 0 && loop_now(w->loop) - w->operator_since >= HEALTHY_MS;

        w->operator_since = 0;
        w->operator_delay = healthy || w->operator_delay == 0 ? DELAY_LEAST
                                                              : MIN(2 * w->operator_delay, DELAY_MOST + 0U);
        start_later(w, w->operator_delay);
}

static void operator_exited(struct loop_watch *watch, uint32_t events) {
        struct warden *w = LOOP_OWNER(watch, struct warden, operator_exit);
        int status = 0;

        (void)events;
        (void)waitpid(w->operator_pid, &status, WNOHANG);
        loop_unwatch(w->loop, &w->operator_exit);
        fd_close(&w->operator_pidfd);
        w->operator_pid = 0;
        fd_close(&w->operator_lock);
        link_close(w);
        if (w->ending) {
                operator_look(w);
                return;
        }
        if (WIFSIGNALED(status))
                log_line(LOG_LEVEL_ERROR, NULL, "the operator was ended by signal %d; another is started",
                         WTERMSIG(status));
        else
                log_line(LOG_LEVEL_ERROR, NULL, "the operator ended with status %d; another is started",
                         WEXITSTATUS(status));
        back_off(w);
}

static int spawn(struct warden *w, struct err *err) {
        static char pairs[ENV_MAX][PATH_MAX + 64];
        char program[PATH_MAX], *argv[] = {(char *)(uintptr_t) "stockade-operator", NULL}, *env[ENV_MAX + 2] = {NULL};
        int ends[2];

        int r = w->operator_program ? 0 : paths_helper("stockade-operator", program, sizeof program, err);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_set(err, -errno, "could not make a socket pair");
        if (w->operator_delay > 0) /* not the first: they may have been changed */
                secret_again(w);
        _cleanup_fd_ int ours = ends[0], theirs = ends[1], conf = open_conf(w), certificate = certificate_link(w);
        int fds[7 + WARDEN_DOORS] = {theirs, w->listener, w->operator_lock, conf, w->secret};
        for (size_t i = 0; i < WARDEN_DOORS; i++)
                fds[5 + i] = i < w->door_count ? w->doors[i] : -EBADF;
        fds[5 + WARDEN_DOORS] = w->ssh.operators;
        fds[6 + WARDEN_DOORS] = certificate;
        (void)make_environment(w, pairs, env);
        struct spawn_how how = {.program = w->operator_program ? w->operator_program : program,
                                .argv = argv,
                                .env = env,
                                .fds = fds,
                                .fd_count = ELEMENTSOF(fds),
                                .drop = !w->rootless,
                                .uid = w->operator_uid,
                                .gid = w->operator_uid};
        r = spawn_start(&how, &w->operator_pid, &w->operator_pidfd, err);
        if (r < 0)
                return r;
        w->operator_exit.ready = operator_exited;
        r = loop_watch(w->loop, &w->operator_exit, w->operator_pidfd, EPOLLIN);
        if (r < 0)
                return err_set(err, r, "could not watch the operator");
        link_open(w, TAKE_FD(ours));
        return 0;
}

static void try_start(struct warden *w) {
        static unsigned looks;
        struct err err = {0};

        int r = take_lock(w);
        if (r == 0) {
                if (++looks == LOCK_SAY)
                        log_line(LOG_LEVEL_WARNING, NULL, "waiting for the operator of an earlier daemon to end");
                start_later(w, LOCK_MS);
                return;
        }
        looks = 0;
        r = r < 0 ? err_set(&err, r, "cannot lock '%s/operator'", w->state_path) : spawn(w, &err);
        if (r < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &err);
                fd_close(&w->operator_lock);
                back_off(w);
        }
}

/* --- the end --- */

static void finish(struct warden *w) {
        ssh_end(w);
        network_end_gates(w);
        work_end_all(w);
        warm_end(w);
        adopt_leave(w);
        (void)unlinkat(w->run, "operator.sock", 0);
        loop_stop(w->loop);
}

void operator_look(struct warden *w) {
        if (!w->ending)
                return;
        if (w->stop_all && w->sandbox_count > 0)
                return;
        if (w->operator_pid > 0) {
                if (!w->told_to_end) {
                        w->told_to_end = true;
                        link_tell(w, &(struct warden_message){.kind = WARDEN_END});
                        if (!w->hello) /* it would not understand */
                                (void)kernel_pidfd_send_signal(w->operator_pidfd, SIGTERM, NULL);
                        start_later(w, END_MS);
                }
                return;
        }
        finish(w);
}

static void timer_fired(struct loop_timer *t) {
        struct warden *w = LOOP_OWNER(t, struct warden, operator_timer);

        if (!w->ending) {
                try_start(w);
                return;
        }
        if (w->operator_pid > 0) {
                log_line(LOG_LEVEL_WARNING, NULL, "the operator did not end in time: it is killed");
                (void)kernel_pidfd_send_signal(w->operator_pidfd, SIGKILL, NULL);
                start_later(w, END_MS);
        }
}

void operator_end(struct warden *w, bool stop_all) {
        if (w->ending && (w->stop_all || !stop_all))
                return;
        log_line(LOG_LEVEL_INFO, NULL, stop_all ? "ending, with all sandboxes" : "ending; sandboxes go on");
        w->ending = true;
        w->stop_all |= stop_all;
        if (stop_all)
                end_all(w);
        /* from the loop: whoever asked is answered first */
        loop_timer_clear(w->loop, &w->operator_timer);
        loop_later(w->loop, &w->look);
}

static void look_later(struct loop_task *t) {
        operator_look(LOOP_OWNER(t, struct warden, look));
}

/* --- in between --- */

void operator_start(struct warden *w) {
        w->operator_timer.fire = timer_fired;
        w->look.run = look_later;
        try_start(w);
}

void operator_hello(struct warden *w) {
        w->operator_since = loop_now(w->loop);
        if (!w->said_ready)
                log_line(LOG_LEVEL_INFO, NULL, "ready: %zu sandboxes run; clients go to '%s/operator.sock'",
                         w->sandbox_count, w->run_path);
        w->said_ready = true;
        adopt_tell(w);
        if (w->low_on_space)
                link_tell(w, &(struct warden_message){.kind = WARDEN_PRESSURE, .numbers = {1, w->free_bytes}});
}

/* Its socket is broken or it does not behave: whatever it is doing now, it is not for us. */
void operator_failed(struct warden *w) {
        link_close(w);
        if (w->operator_pid > 0)
                (void)kernel_pidfd_send_signal(w->operator_pidfd, w->ending ? SIGTERM : SIGKILL, NULL);
}
