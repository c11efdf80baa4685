/* Starting processes. The child is a plain fork: a guest is small, so that costs little more than sharing its memory,
 * and nobody has to wait for it. Code inside can stop any process of the sandbox but PID 1, the child too: a parent
 * that waits for it to execute could be held for ever. How it went comes over a pipe that executing closes.
 *
 * What always holds: nothing of a run is executed outside its leaf or family; a run inherits its three streams and no
 * other descriptor; signals are as a fresh process expects them. Nothing here waits for a child. */
#include "guest/spawn.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "guest/family.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

#define SPARE (2 * GUEST_FDS_MAX)

/* Both ends of each stream, and of the pipe that tells how it went. */
struct ends {
        int ours[3], theirs[3];
        int outcome, tell;
};

/* What the child says when it cannot execute; in one piece, since it is shorter than PIPE_BUF. */
struct outcome {
        int error;
        char text[sizeof(((struct err *)0)->text)];
};
static_assert(sizeof(struct outcome) <= PIPE_BUF, "an outcome is written at once");

static void close_ends(struct ends *e) {
        for (size_t i = 0; i < 3; i++) {
                if (i == 0 || e->theirs[i] != e->theirs[0]) /* a terminal is one for all */
                        fd_close(&e->theirs[i]);
                fd_close(&e->ours[i]);
        }
        fd_close(&e->outcome);
        fd_close(&e->tell);
}

static int open_pipe(int *read_end, int *write_end, int *ours) {
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        *read_end = pair[0];
        *write_end = pair[1];
        return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_pipes(struct ends *e, bool input) {
        int r = 0;

        if (input)
                r = open_pipe(&e->theirs[0], &e->ours[0], &e->ours[0]);
        if (r == 0)
                r = open_pipe(&e->ours[1], &e->theirs[1], &e->ours[1]);
        if (r == 0)
                r = open_pipe(&e->ours[2], &e->theirs[2], &e->ours[2]);
        return r;
}

/* The other end of a terminal, by descriptor; by its name where the kernel (of a gvisor box) has no such call. */
static int open_other_end(int master) {
        char path[32];
        int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

        if (fd >= 0 || errno != ENOTTY)
                return fd < 0 ? -errno : fd;
        int r = ptsname_r(master, path, sizeof path);
        if (r != 0)
                return -r;
        fd = open(path, O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int open_terminal(struct ends *e, unsigned rows, unsigned cols) {
        struct winsize size = {.ws_row = (unsigned short)(rows ? rows : 24),
                               .ws_col = (unsigned short)(cols ? cols : 80)};
        struct termios t;
        int unlocked = 0;

        e->ours[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (e->ours[0] < 0)
                return -errno;
        if (ioctl(e->ours[0], TIOCSPTLCK, &unlocked) < 0)
                return -errno;
        e->theirs[0] = open_other_end(e->ours[0]);
        if (e->theirs[0] < 0)
                return e->theirs[0];
        if (tcgetattr(e->theirs[0], &t) == 0) {
                t.c_iflag |= IUTF8; /* so that erasing takes whole characters */
                (void)tcsetattr(e->theirs[0], TCSANOW, &t);
        }
        (void)ioctl(e->ours[0], TIOCSWINSZ, &size);
        e->theirs[1] = e->theirs[2] = e->theirs[0];
        return 0;
}

/* Some descriptors stay free for what a guest must always be able to take: a new connection, the leaves of a run. */
static int check_spare(const struct ends *e) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return -errno;
        for (size_t i = 0; i < 3; i++)
                if ((rlim_t)MAX(e->ours[i], e->theirs[i]) + SPARE >= limit.rlim_cur)
                        return -EMFILE;
        return (rlim_t)MAX(e->outcome, e->tell) + SPARE >= limit.rlim_cur ? -EMFILE : 0;
}

struct child {
        const char *cwd;
        const char **argv, **envp;
        const struct ends *ends;
        const int *leaves;
        size_t leaf_count;
        uint32_t family; /* the run that it joins the family of; 0: none */
        bool terminal;
};

_noreturn_ static void fail(const struct child *c, const char *why, const char *what) {
        struct outcome o = {.error = -errno};
        struct err err;

        (void)err_set(&err, o.error, "%s '%.200s'", why, what);
        memcpy(o.text, err.text, sizeof o.text);
        if (o.error == -ENOENT && what == c->cwd)
                o.error = -ENOTDIR; /* that there is none is said of programs: a shell's 127 */
        (void)!write(c->ends->tell, &o, sizeof o);
        _exit(127);
}

/* In the child. */
_noreturn_ static void become(const struct child *c) {
        extern char **environ;
        sigset_t none;

        for (size_t i = 0; i < c->leaf_count; i++)
                if (write(c->leaves[i], "0", 1) != 1)
                        fail(c, "cannot enter the cgroup of", c->argv[0]);
        if (c->family) {
                errno = -family_join(c->family);
                if (errno)
                        fail(c, "cannot be told from other runs:", c->argv[0]);
        }
        if (setsid() < 0)
                fail(c, "cannot make a session for", c->argv[0]);
        for (int i = 0; i < 3; i++)
                if (c->ends->theirs[i] >= 0 && dup2(c->ends->theirs[i], i) < 0)
                        fail(c, "cannot pass the streams of", c->argv[0]);
        if (c->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
                fail(c, "cannot make a terminal for", c->argv[0]);
        if (chdir(c->cwd) < 0)
                fail(c, errno == ENOENT ? "there is no such folder:" : "cannot change to the folder", c->cwd);
        (void)umask(022);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        environ = (char **)(uintptr_t)c->envp; /* the program is looked for in the PATH of the run, which is not ours */
        (void)execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
        fail(c, "cannot execute", c->argv[0]);
}

static int go(const struct guest_message *m, struct child *c, struct err *err) {
        _cleanup_free_ const char **words = reallocarray(NULL, (size_t)m->argc + m->envc + 2, sizeof(const char *));

        if (!words)
                return err_set(err, -ENOMEM, "could not start a process");
        c->argv = words;
        c->envp = words + m->argc + 1;
        guest_strings(m, c->argv, c->envp);
        pid_t pid = fork();
        if (pid == 0)
                become(c);
        return pid < 0 ? err_set(err, -errno, "cannot start a process for '%.200s'", c->argv[0]) : pid;
}

int spawn(const struct guest_message *m, const int *leaves, size_t leaf_count, bool family, struct spawned *ret,
          struct err *err) {
        bool terminal = m->flags & GUEST_TERMINAL;
        _cleanup_(close_ends) struct ends e = {.ours = {-EBADF, -EBADF, -EBADF},
                                               .theirs = {-EBADF, -EBADF, -EBADF},
                                               .outcome = -EBADF,
                                               .tell = -EBADF};
        struct child c = {.cwd = m->path,
                          .ends = &e,
                          .leaves = leaves,
                          .leaf_count = leaf_count,
                          .family = family ? m->channel : 0,
                          .terminal = terminal};

        int r = terminal ? open_terminal(&e, m->rows, m->cols) : open_pipes(&e, m->flags & GUEST_STDIN);
        if (r == 0)
                r = open_pipe(&e.outcome, &e.tell, &e.outcome);
        if (r == 0)
                r = check_spare(&e);
        if (r < 0)
                return err_set(err, r, "cannot make the streams of a run in '%.200s'", m->path);
        pid_t pid = go(m, &c, err);
        if (pid < 0)
                return pid;
        *ret = (struct spawned){
                .pid = pid, .outcome = TAKE_FD(e.outcome), .terminal = terminal ? TAKE_FD(e.ours[0]) : -EBADF};
        ret->in = TAKE_FD(e.ours[0]);
        ret->out = TAKE_FD(e.ours[1]);
        ret->err = TAKE_FD(e.ours[2]);
        return 0;
}

int spawn_outcome(int fd, struct err *err) {
        struct outcome o;
        ssize_t n = read(fd, &o, sizeof o);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return SPAWN_WAITS;
        if (n != (ssize_t)sizeof o || o.error >= 0)
                return SPAWN_EXECUTES;
        o.text[sizeof o.text - 1] = '\0';
        *err = (struct err){.code = o.error};
        memcpy(err->text, o.text, sizeof err->text);
        return o.error;
}
