/* The keeper: a fork of the launcher that outlives it only when it was killed, to remove what it could not.
 *
 * It waits for one byte or for the end of the socket. A byte: the launcher cleaned up itself. The end without a byte:
 * the launcher is dead; the sandbox died with it (parent death signal) or dies now, its cgroups are removed, and the
 * caller's terminal gets its settings back. It is in a session of its own, so that what kills the launcher's process
 * group does not reach it, and it keeps none of the caller's streams open. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/kernel.h"
#include "cli/run.h"

static void pause_ms(long ms) {
        struct timespec t = {.tv_nsec = ms * 1000000};
        (void)nanosleep(&t, NULL);
}

/* The cell's process may still be on its way to notice that its parent is gone: look again until nothing is left. */
static void clean_up(void) {
        for (int i = 0, quiet = 0; i < 200 && quiet < 5; i++) {
                quiet = cgroup_sweep() > 0 ? 0 : quiet + 1;
                pause_ms(i < 5 ? 2 : 20);
        }
}

_noreturn_ static void keep(int socket, int terminal, const struct termios *settings) {
        char byte;
        ssize_t n;

        do
                n = read(socket, &byte, 1);
        while (n < 0 && errno == EINTR);
        if (n == 1)
                _exit(0);
        if (terminal >= 0)
                (void)tcsetattr(terminal, TCSANOW, settings);
        clean_up();
        _exit(0);
}

int keeper_start(struct run *r, struct err *err) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, -errno, "could not make a socket pair");
        pid_t pid = fork();
        if (pid < 0) {
                int error = -errno;
                (void)close(ends[0]);
                (void)close(ends[1]);
                return err_set(err, error, "could not start the keeper");
        }
        if (pid == 0) {
                sigset_t all;

                (void)setsid();
                (void)sigfillset(&all);
                (void)sigprocmask(SIG_SETMASK, &all, NULL);
                (void)prctl(PR_SET_NAME, "stockade-keeper");
                (void)prctl(PR_SET_DUMPABLE, 0);
                /* 3: the socket, 4: the terminal if it has to be put right, 5: the lock on the ids */
                int terminal = r->cell.tty ? fcntl(STDIN_FILENO, F_DUPFD, 64) : -EBADF;
                int lock = r->id_lock >= 0 ? fcntl(r->id_lock, F_DUPFD, 64) : -EBADF;
                int socket = fcntl(ends[1], F_DUPFD, 64);
                (void)dup2(socket, 3);
                if (terminal >= 0)
                        (void)dup2(terminal, 4);
                else
                        (void)close(4);
                if (lock >= 0)
                        (void)dup2(lock, 5);
                else
                        (void)close(5);
                (void)kernel_close_range(6, ~0U, 0);
                (void)kernel_close_range(0, 2, 0);
                (void)chdir("/");
                keep(3, terminal >= 0 ? 4 : -EBADF, &r->terminal);
        }
        (void)close(ends[1]);
        r->keeper = ends[0];
        r->keeper_pid = pid;
        return 0;
}

void keeper_done(struct run *r) {
        if (r->keeper < 0)
                return;
        (void)send(r->keeper, "d", 1, MSG_NOSIGNAL);
        fd_close(&r->keeper);
}
