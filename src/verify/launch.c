/* Starts what is judged, waits for it, and ends it.
 *
 * What is started gets nothing of the judge's but what a launch names: its descriptors are closed, its environment is
 * made anew, it is in a session of its own and dies with the judge. It is known by its pidfd: a pid that was used again
 * is never mistaken for it. Nothing here waits without an end. Between clone and exec there are system calls only. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/kernel.h"
#include "verify/judge.h"
#include "verify/launch-private.h"

enum {
        TIMEOUT_MS = 30 * 1000,
        REST_US = 250 * 1000,        /* after its end, for others that still hold its streams */
        DEATH_US = 10 * 1000 * 1000, /* from SIGKILL to the end */
        OUTPUT_MAX = 4 << 20,
        ERRORS_MAX = 1 << 20,
        RECORD_MAX = 4 << 20,
        LIVE_MAX = 64,
        NOBODY = 65534,
};

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* Launches that have not been waited for. */
static pid_t live[LIVE_MAX];

/* --- in the child ---------------------------------------------------------------------------------------------- */

enum step { STEP_STREAMS, STEP_GO, STEP_IDS, STEP_MOUNTS, STEP_PROC, STEP_PROGRAM };

static const char *const steps[] = {
        [STEP_STREAMS] = "could not set up its streams", [STEP_GO] = "could not wait for its ids to be mapped",
        [STEP_IDS] = "could not take its ids on",        [STEP_MOUNTS] = "could not make a mount namespace",
        [STEP_PROC] = "could not mount /proc",           [STEP_PROGRAM] = "cannot execute it",
};

struct failure {
        enum step step;
        int error;
};

struct child {
        const struct launch *launch;
        char **argv, **env;
        int streams[3];
        int program; /* LAUNCH_INIT: by descriptor, as it may be in a folder that only we can look into */
        int go;      /* LAUNCH_INIT: a byte comes when its ids are mapped */
        int failed;  /* a struct failure, or closed by exec */
        bool drop_groups;
};

static _noreturn_ void give_up(const struct child *c, enum step step) {
        struct failure f = {.step = step, .error = errno};

        (void)!write(c->failed, &f, sizeof f);
        _exit(127);
}

/* A copy out of the way of 0 to 3. */
static int lift(const struct child *c, int fd) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 10);

        if (high < 0)
                give_up(c, STEP_STREAMS);
        return high;
}

static void place_streams(struct child *c) {
        int leak = c->launch->leak;

        c->failed = lift(c, c->failed);
        if (c->program >= 0)
                c->program = lift(c, c->program);
        for (int i = 0; i < 3; i++)
                c->streams[i] = lift(c, c->streams[i]);
        for (int i = 0; i < 3; i++)
                if (dup2(c->streams[i], i) < 0)
                        give_up(c, STEP_STREAMS);
        if (c->launch->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
                give_up(c, STEP_STREAMS);
        if (kernel_close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
                give_up(c, STEP_STREAMS);
        if (leak > 0 && fcntl(leak, F_SETFD, 0) < 0)
                give_up(c, STEP_STREAMS);
}

/* PID 1 of namespaces of a user's own: what an ordinary program is to those that live under it. */
static void become_init(const struct child *c) {
        char byte;
        ssize_t n = read(c->go, &byte, 1);

        if (n != 1)
                give_up(c, STEP_GO);
        if (c->drop_groups && syscall(SYS_setgroups, 0, NULL) < 0)
                give_up(c, STEP_IDS);
        if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
                give_up(c, STEP_IDS);
        if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                give_up(c, STEP_MOUNTS);
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                give_up(c, STEP_PROC);
        int null = open("/dev/null", O_RDWR);
        if (null < 0 || (c->launch->leak != 3 && dup2(null, 3) < 0))
                give_up(c, STEP_STREAMS);
        if (null != 3)
                (void)close(null);
}

static _noreturn_ void run_child(struct child *c) {
        struct pollfd judge;
        sigset_t none;

        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        for (int i = 1; i < _NSIG; i++)
                (void)signal(i, SIG_DFL);
        (void)setsid();
        place_streams(c);
        if (c->launch->where == LAUNCH_INIT)
                become_init(c);
        if (c->launch->where == LAUNCH_ROOT &&
            (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
                give_up(c, STEP_MOUNTS);

        /* After the ids, whose change would take it back. If the judge ended before, nobody is there to read. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        judge = (struct pollfd){.fd = c->failed};
        if (poll(&judge, 1, 0) > 0 && judge.revents & POLLERR)
                _exit(127);
        if (c->program >= 0)
                (void)syscall(SYS_execveat, c->program, "", c->argv, c->env, AT_EMPTY_PATH);
        else
                (void)execvpe(c->argv[0], c->argv, c->env);
        give_up(c, STEP_PROGRAM);
}

/* --- start ------------------------------------------------------------------------------------------------------- */

static int open_pipe(int *ret_read, int *ret_write, struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        *ret_read = ends[0];
        *ret_write = ends[1];
        return 0;
}

/* A pipe whose end that is ours does not block. */
static int open_stream(int *ret_ours, int *ret_theirs, bool we_read, struct err *err) {
        int r = we_read ? open_pipe(ret_ours, ret_theirs, err) : open_pipe(ret_theirs, ret_ours, err);

        if (r == 0 && fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0)
                return err_set(err, -errno, "could not set up a pipe");
        return r;
}

/* theirs: what it gets as 0, 1 and 2; each is ours to close. */
static int open_streams(const struct launch *l, struct running *r, int theirs[3], struct err *err) {
        int e = 0;

        if (l->terminal) {
                e = launch_terminal(&r->out, &theirs[0], err);
                if (e < 0)
                        return e;
                r->in = fcntl(r->out, F_DUPFD_CLOEXEC, 3);
                theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
                theirs[2] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
        } else {
                if (l->in > 0)
                        theirs[0] = fcntl(l->in, F_DUPFD_CLOEXEC, 3);
                else if (l->input)
                        e = open_stream(&r->in, &theirs[0], false, err);
                else
                        theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (e == 0 && l->out > 0)
                        theirs[1] = fcntl(l->out, F_DUPFD_CLOEXEC, 3);
                else if (e == 0)
                        e = open_stream(&r->out, &theirs[1], true, err);
                if (e == 0)
                        e = open_stream(&r->err, &theirs[2], true, err);
        }
        if (e < 0)
                return e;
        for (int i = 0; i < 3; i++)
                if (theirs[i] < 0)
                        return err_set(err, -errno, "could not open its streams");
        return 0;
}

/* The ids of a user namespace that a child of ours is in: the caller is 0 there. The host's root is nobody there, in
 * both senses: an attempt that runs there must not have a file of root's. */
static int map_ids(pid_t pid, struct err *err) {
        bool root = geteuid() == 0;
        const struct {
                const char *name;
                unsigned id;
        } maps[] = {{"uid_map", root ? NOBODY : geteuid()}, {"gid_map", root ? NOBODY : getegid()}};
        char path[64], line[64];

        (void)snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
        int r = root ? 0 : fd_write_at(AT_FDCWD, path, "deny");
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(maps); i++) {
                (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, maps[i].name);
                (void)snprintf(line, sizeof line, "0 %u 1", maps[i].id);
                r = fd_write_at(AT_FDCWD, path, line);
        }
        return r < 0 ? err_set(err, r, "could not map ids, %s", path) : 0;
}

static void forget(pid_t pid) {
        for (size_t i = 0; i < LIVE_MAX; i++)
                if (live[i] == pid)
                        live[i] = 0;
}

/* Everything of a launch but its outcome: what is still open, and its place among the live ones. */
static void release(struct running *r) {
        fd_close(&r->out);
        fd_close(&r->err);
        fd_close(&r->in);
        fd_close(&r->pidfd);
        buf_free(&r->seen);
        buf_free(&r->errors);
        if (r->pid > 0)
                forget(r->pid);
        r->pid = 0;
}
#define _cleanup_running_ _cleanup_(release)

static bool wait_for_death(struct running *r, siginfo_t *ret) {
        struct pollfd p = {.fd = r->pidfd, .events = POLLIN};
        uint64_t until = launch_clock() + DEATH_US, now;

        while ((now = launch_clock()) < until && poll(&p, 1, (int)((until - now) / 1000 + 1)) <= 0)
                ;
        *ret = (siginfo_t){0};
        return waitid(P_PIDFD, (id_t)r->pidfd, ret, WEXITED | WNOHANG) == 0 && ret->si_pid == r->pid;
}

static void end_now(struct running *r) {
        siginfo_t info;

        (void)kernel_pidfd_send_signal(r->pidfd, SIGKILL, NULL);
        (void)wait_for_death(r, &info);
}

/* Clones, and returns when it has executed its program. */
static int start_child(struct child *c, struct running *r, struct err *err) {
        bool init = c->launch->where == LAUNCH_INIT;
        _cleanup_fd_ int failed = -EBADF, failed_theirs = -EBADF, go = -EBADF, go_theirs = -EBADF;
        struct clone_args args = {
                .flags = CLONE_PIDFD | (init ? CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS : 0),
                .pidfd = (uint64_t)(uintptr_t)&r->pidfd,
                .exit_signal = SIGCHLD,
        };
        size_t slot = 0;
        int e = open_pipe(&failed, &failed_theirs, err);

        if (e == 0 && init)
                e = open_pipe(&go_theirs, &go, err);
        if (e < 0)
                return e;
        while (slot < LIVE_MAX && live[slot])
                slot++;
        if (slot == LIVE_MAX)
                return err_set(err, ERR_LIMIT, "more than %d launches at once", LIVE_MAX);

        c->failed = failed_theirs;
        c->go = go_theirs;
        c->drop_groups = init && geteuid() == 0;
        pid_t pid = kernel_clone3(&args);
        if (pid == 0) {
                (void)close(failed);
                if (init)
                        (void)close(go);
                run_child(c);
        }
        if (pid < 0)
                return err_set(err, pid, "could not start '%s'", c->argv[0]);
        r->pid = live[slot] = pid;

        struct failure f;
        fd_close(&failed_theirs);
        e = init ? map_ids(pid, err) : 0;
        if (e == 0 && init)
                (void)!write(go, "g", 1);
        fd_close(&go);
        if (e == 0 && fd_read_full(failed, &f, sizeof f) == sizeof f)
                e = err_set(err, -f.error, "'%.200s': %s", c->argv[0],
                            f.step < ELEMENTSOF(steps) ? steps[f.step] : "could not start it");
        if (e < 0)
                end_now(r);
        return e;
}

int launch_start(struct judge *j, const struct launch *l, struct running *ret, struct err *err) {
        static unsigned count;
        _cleanup_running_ struct running r = {
                .pidfd = -EBADF,
                .out = -EBADF,
                .err = -EBADF,
                .in = -EBADF,
                .launch = l,
                .judge = j,
                .seen.max = l->output_max ? l->output_max : OUTPUT_MAX,
                .errors.max = ERRORS_MAX,
        };
        _cleanup_words_ struct words argv = {0}, env = {0};
        _cleanup_fd_ int in = -EBADF, out = -EBADF, errors = -EBADF, program = -EBADF;
        int theirs[3] = {-EBADF, -EBADF, -EBADF};

        if (l->record && launch_is_ours(j, l))
                (void)snprintf(r.record, sizeof r.record, "%s/record-%u.json", j->world.folder, ++count);
        int e = launch_words(j, l, r.record, &argv, err);
        if (e == 0)
                e = launch_environment(j, l, &env, err);
        if (e < 0)
                return e;
        if (l->where == LAUNCH_INIT) {
                program = open(argv.list[0], O_PATH | O_CLOEXEC);
                if (program < 0)
                        return err_set(err, -errno, "cannot open '%s'", argv.list[0]);
        }
        e = open_streams(l, &r, theirs, err);
        in = theirs[0];
        out = theirs[1];
        errors = theirs[2];
        if (e < 0)
                return e;

        struct child c = {
                .launch = l, .argv = argv.list, .env = env.list, .streams = {in, out, errors}, .program = program};
        (void)signal(SIGPIPE, SIG_IGN); /* for what we type when nobody reads it any more */
        r.start_us = launch_clock();
        e = start_child(&c, &r, err);
        if (e < 0)
                return e;
        *ret = r;
        r = (struct running){.pidfd = -EBADF, .out = -EBADF, .err = -EBADF, .in = -EBADF};
        return 0;
}

/* --- end --------------------------------------------------------------------------------------------------------- */

/* Is it one that was re-parented to us? Our own children are in our session, or known. */
static bool is_stray(const struct judge *j, pid_t pid) {
        const struct world *w = &j->world;

        for (size_t i = 0; i < LIVE_MAX; i++)
                if (live[i] == pid)
                        return false;
        return pid != w->victim && pid != w->sibling && pid != w->listener && getsid(pid) != getsid(0);
}

void launch_reap(const struct judge *j) {
        for (;;) {
                siginfo_t info = {0};

                /* looks first and takes then: what is not ours to take stays for the one who waits for it */
                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
                    !is_stray(j, info.si_pid))
                        return;
                (void)waitpid(info.si_pid, NULL, WNOHANG);
        }
}

static char *read_record(const char *path) {
        char *text = NULL;
        size_t size = 0;

        if (fd_read_file(AT_FDCWD, path, RECORD_MAX, true, &text, &size, NULL) == 0 &&
            json_check(text, size, NULL) < 0) {
                free(text);
                text = NULL;
        }
        (void)unlink(path);
        return text;
}

/* Our launcher alone: the rest goes by itself, which is one of its promises. Others make none: their whole group. */
static void kill_late(const struct running *r) {
        (void)kernel_pidfd_send_signal(r->pidfd, SIGKILL, NULL);
        if (!launch_is_ours(r->judge, r->launch))
                (void)kill(-r->pid, SIGKILL);
}

/* Until it has ended and its streams have, too. True: its time was over. */
static bool run_to_end(struct running *r) {
        const struct launch *l = r->launch;
        uint64_t until = r->start_us + (uint64_t)(l->timeout_ms ? l->timeout_ms : TIMEOUT_MS) * 1000;
        bool late = false, resting = false;

        while (!r->ended || r->out >= 0 || r->err >= 0) {
                if (r->in >= 0 && !l->terminal && (!l->input || !l->input[r->typed]))
                        fd_close(&r->in);
                if (r->ended && !resting) {
                        resting = true;
                        until = launch_clock() + REST_US;
                }
                if (launch_step(r, until))
                        continue;
                if (r->ended || late)
                        break;
                late = true;
                kill_late(r);
                until = launch_clock() + DEATH_US;
        }
        return late;
}

int launch_wait(struct judge *j, struct running *r, struct outcome *ret, struct err *err) {
        struct outcome o = {.status = -1};
        siginfo_t info = {0};

        if (r->pid <= 0)
                return err_set(err, -ESRCH, "nothing was launched");
        o.late = run_to_end(r);
        if (wait_for_death(r, &info) && !o.late)
                o.status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
        o.wall_ms = (unsigned)(((r->ended ? r->end_us : launch_clock()) - r->start_us) / 1000);
        o.out = r->seen;
        o.err = r->errors;
        o.dropped = r->dropped;
        r->seen = r->errors = (struct buf){0};
        if (r->record[0])
                o.record = read_record(r->record);
        release(r);
        launch_reap(j);
        *ret = o;
        return 0;
}

int launch_run(struct judge *j, const struct launch *l, struct outcome *ret, struct err *err) {
        struct running r;
        int e = launch_start(j, l, &r, err);

        return e < 0 ? e : launch_wait(j, &r, ret, err);
}

void launch_kill(struct running *r) {
        if (r->pid <= 0)
                return;
        end_now(r);
        if (r->record[0])
                (void)unlink(r->record);
        release(r);
        launch_reap(r->judge);
}

void outcome_free(struct outcome *o) {
        buf_free(&o->out);
        buf_free(&o->err);
        free(o->record);
        *o = (struct outcome){0};
}
