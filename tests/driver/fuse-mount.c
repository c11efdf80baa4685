/* Mounts what a file server serves, on this host and for one command, as root:
 *
 *     fuse-mount SERVER TREE AT COMMAND…
 *
 * In a mount namespace and a pid namespace of its own: everything is gone when the command has ended. The server runs
 * as it is, with its stream as descriptor 3; ends with the command's status. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "driver/vm-fuse.h"

static int start_server(char **argv, int *ret_stream, struct err *err) {
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_set(err, -errno, "cannot make a pair of sockets");
        pid_t pid = fork();
        if (pid == 0) {
                (void)dup2(pair[1], 3);
                (void)fcntl(3, F_SETFD, 0);
                (void)execl(argv[1], argv[1], argv[2], (char *)NULL);
                _exit(125);
        }
        (void)close(pair[1]);
        *ret_stream = pair[0];
        return pid < 0 ? err_set(err, -errno, "cannot start the server") : 0;
}

static int run(char **argv, struct err *err) {
        int stream = -EBADF, status = -1;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", "/proc", "proc", 0, NULL) < 0)
                return err_set(err, -errno, "cannot make mounts of our own");
        int r = start_server(argv, &stream, err);
        if (r == 0)
                r = vm_fuse_mount(argv[3], stream, err);
        if (r < 0)
                return r;
        pid_t pid = fork();
        if (pid == 0) {
                (void)execvp(argv[4], argv + 4);
                _exit(126);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}

int main(int argc, char **argv) {
        struct err err = {0};
        int status = -1;

        if (argc < 5 || unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
                return 2;
        pid_t pid = fork();
        if (pid == 0) {
                int r = run(argv, &err);
                if (r < 0)
                        err_print(&err);
                _exit(r < 0 ? 123 : r);
        }
        (void)waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}
