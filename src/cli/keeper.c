/* The keeper: a fork of the launcher that outlives it for a moment and removes the sandbox's cgroups, and the tree that
 * a killed launcher had half prepared.
 *
 * It waits for the end of its socket, which comes with the launcher's, however that ends. A byte before says that all
 * was well: every process of the sandbox is dead already, and what is left to do takes the caller no time. Without it
 * the launcher was killed; the sandbox died with it (parent death signal) or dies now, and the caller's terminal gets
 * its settings back. The keeper is in a process group of its own, so that what kills the launcher's does not reach it,
 * and it keeps none of the caller's streams open. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "cli/run.h"

static void pause_ms(long ms) {
        struct timespec t = {.tv_nsec = ms * 1000000};
        (void)nanosleep(&t, NULL);
}

/* Our own leaves first. After a kill the launcher may have been about to make them, and the cell's process may still be
 * on its way to notice that its parent is gone: look again until nothing comes any more. Leaves of others whose
 * launcher and keeper were both killed are removed by the way. */
static void clean_up(const char *id, bool orderly) {
        bool young = false;

        if (!orderly)
                run_skeleton_forget(id);
        (void)cgroup_sweep(id, &young);
        for (int i = 0; i < 10 && !orderly; i++) {
                pause_ms(i < 5 ? 2 : 20);
                (void)cgroup_sweep(id, &young);
        }
        if (young) {
                pause_ms(350);
                (void)cgroup_sweep(id, NULL);
        }
}

_noreturn_ static void keep(const struct run *r, int socket) {
        /* nothing is read before the other end is gone: what lies in the socket is to stay there until then */
        struct pollfd gone = {.fd = socket, .events = POLLRDHUP};
        char bytes[8];
        ssize_t n;

        while (poll(&gone, 1, -1) < 0 && errno == EINTR)
                ;
        n = read(socket, bytes, sizeof bytes);
        bool orderly = n > 0 && bytes[n - 1] == 'd';
        if (r->cell.tty && !orderly)
                (void)tcsetattr(STDIN_FILENO, TCSANOW, &r->terminal);
        (void)close(socket); /* and with it the sandbox's mounts */
        (void)chdir("/");
        if (!knockout_off(KNOCKOUT_LAUNCHER))
                clean_up(r->id, orderly);
        _exit(0);
}

static void close_all(unsigned first, unsigned last) {
        if (kernel_close_range(first, last == 2 ? 2 : ~0U, 0) == 0)
                return;
        for (unsigned fd = first; fd <= last;
             fd++) /* a kernel without the call: the run will be refused, but not hang */
                (void)close((int)fd);
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

                (void)setpgid(0, 0);
                (void)sigfillset(&all);
                (void)sigprocmask(SIG_SETMASK, &all, NULL);
                (void)prctl(PR_SET_NAME, "stockade-keeper");
                /* 3: the socket, 4: the lock on the ids, 0: the terminal if it has to be put right. No copy of a pipe
                 * may stay, or its reader would never see its end */
                int socket = fcntl(ends[1], F_DUPFD, 5),
                    lock = r->id_lock >= 0 ? fcntl(r->id_lock, F_DUPFD, 5) : -EBADF;
                if (dup2(socket, 3) < 0 || (r->id_lock >= 0 && dup2(lock, 4) < 0))
                        _exit(1); /* no room for descriptors: whoever comes next sweeps up */
                close_all(lock >= 0 ? 5 : 4, 4096);
                close_all(r->cell.tty ? 1 : 0, 2);
                keep(r, 3);
        }
        (void)setpgid(pid, pid); /* at once, and not by itself later: who kills our group must not find it there */
        (void)close(ends[1]);
        r->keeper = ends[0];
        r->keeper_pid = pid;
        return 0;
}

/* The last process of a mount namespace takes it apart while its parent waits: a fifth of a millisecond. A descriptor
 * of it that lies in the keeper's socket, unread until we are gone, moves that work there. */
void keeper_hold(struct run *r, int mounts) {
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
        char byte = 'm';
        struct iovec data = {.iov_base = &byte, .iov_len = 1};
        struct msghdr message = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};

        memcpy(CMSG_DATA(&control.header), &mounts, sizeof mounts);
        (void)sendmsg(r->keeper, &message, MSG_NOSIGNAL);
}

bool keeper_done(struct run *r) {
        /* the descriptor stays open: the keeper begins when we are gone */
        return r->keeper >= 0 && send(r->keeper, "d", 1, MSG_NOSIGNAL) == 1;
}
