/* Programs of ours: see the header. The child shares our memory until exec, as vfork's does: it changes nothing but its
 * own stack and the error that it leaves. */
#include "cell/spawn.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/knockout.h"
#include "base/lockdown.h"
#include "base/paths.h"
#include "wire/gate.h"

struct birth {
        const struct spawn_how *how;
        volatile int error;
};

/* Above the numbers that are about to be given away, then down to them. */
static int place_fds(const struct spawn_how *how) {
        int high[SPAWN_FDS_MAX];

        for (size_t i = 0; i < how->fd_count; i++)
                if (how->fds[i] >= 0 && (high[i] = fcntl(how->fds[i], F_DUPFD_CLOEXEC, 32)) < 0)
                        return -errno;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
                return -errno;
        for (size_t i = 0; i < how->fd_count; i++)
                if (how->fds[i] >= 0 && dup2(high[i], 3 + (int)i) < 0)
                        return -errno;
                else if (how->fds[i] < 0)
                        (void)close(3 + (int)i);
        return kernel_close_range((unsigned)(3 + how->fd_count), ~0U, 0);
}

/* raw calls: libc's would signal threads that do not exist */
static int drop_ids(const struct spawn_how *how) {
        int r = lockdown_bounding(); /* who comes after us cannot: it has no capability for that any more */

        if (r < 0)
                return r;
        if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, how->gid, how->gid, how->gid) < 0 ||
            syscall(SYS_setresuid, how->uid, how->uid, how->uid) < 0)
                return -errno;
        return 0;
}

static void run(void *data) {
        struct birth *b = data;
        const struct spawn_how *how = b->how;
        sigset_t mask;

        (void)(how->deaf ? sigfillset(&mask) : sigemptyset(&mask));
        (void)sigprocmask(SIG_SETMASK, &mask, NULL);
        (void)setpgid(0, 0);
        int r = place_fds(how);
        if (r == 0 && how->drop)
                r = drop_ids(how);
        if (r == 0 && how->tied && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                r = -errno;
        if (r == 0) {
                (void)execve(how->program, how->argv, how->env);
                r = -errno;
        }
        b->error = r;
        _exit(127);
}

int spawn_start(const struct spawn_how *how, pid_t *ret_pid, int *ret_pidfd, struct err *err) {
        static char stack[32 * 1024] __attribute__((aligned(16)));
        struct birth b = {.how = how};
        _cleanup_fd_ int pidfd = -EBADF;
        struct clone_args args = {.flags = CLONE_PIDFD,
                                  .pidfd = (unsigned long long)(uintptr_t)&pidfd,
                                  .exit_signal = SIGCHLD,
                                  .stack = (unsigned long long)(uintptr_t)stack,
                                  .stack_size = sizeof stack};

        assert(how->fd_count <= SPAWN_FDS_MAX);
        pid_t pid = kernel_clone3_vfork(&args, run, &b);
        if (pid < 0)
                return err_set(err, pid, "could not start '%s'", how->program);
        if (b.error < 0) {
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                return err_set(err, b.error, "could not start '%s'", how->program);
        }
        *ret_pid = pid;
        if (ret_pidfd)
                *ret_pidfd = TAKE_FD(pidfd);
        return 0;
}

int spawn_gate(uid_t id, bool tls, pid_t *ret_pid, int *ret_pidfd, int *ret_control, struct err *err) {
        char program[PATH_MAX], number[16], store[PATH_MAX + 16];
        char *argv[8] = {(char *)(uintptr_t) "stockade-gate"}, *env[3] = {NULL};
        int ends[2], argc = 1;

        int result = paths_helper("stockade-gate", program, sizeof program, err);
        if (result < 0)
                return result;
        if (id != 0) { /* it becomes that itself: an empty root comes first, and needs root */
                (void)snprintf(number, sizeof number, "%u", id);
                argv[argc++] = (char *)(uintptr_t) "--uid";
                argv[argc++] = number;
                argv[argc++] = (char *)(uintptr_t) "--gid";
                argv[argc++] = number;
        }
        if (tls)
                argv[argc++] = (char *)(uintptr_t) "--tls";
        argv[argc] = NULL;
        const char *bundle = getenv("SSL_CERT_FILE"); /* whom to believe is the caller's choice */
        if (bundle && snprintf(store, sizeof store, "SSL_CERT_FILE=%s", bundle) < (int)sizeof store)
                env[0] = store;
        env[env[0] != NULL] = knockout_pair();

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, -errno, "could not make a socket pair");
        _cleanup_fd_ int ours = ends[0], theirs = ends[1];
        (void)fcntl(ours, F_SETFL, O_RDWR | O_NONBLOCK);
        struct spawn_how how = {
                .program = program, .argv = argv, .env = env, .fds = &theirs, .fd_count = 1, .deaf = true};
        static_assert(GATE_FD == 3, "the first descriptor that is given");
        result = spawn_start(&how, ret_pid, ret_pidfd, err);
        if (result == 0)
                *ret_control = TAKE_FD(ours);
        return result;
}
