/* User namespaces made ahead of the cell that joins them.
 *
 * A helper that shares our memory is cloned into the namespace and blocks; its maps are written from outside, the
 * namespace is opened through /proc, and the helper goes. About 0.1 ms. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "cell/cell.h"
#include "cell/kernel.h"

static int hold(void *arg) {
        const int *gate = arg;
        char byte;

        /* until the parent closes its end; shares descriptors, so it must not close any itself */
        while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
                ;
        syscall(SYS_exit, 0);
        return 0;
}

static int write_maps(pid_t pid, const char *uid_map, const char *gid_map, int *ret_fd) {
        char path[48];

        (void)snprintf(path, sizeof path, "/proc/%d", pid);
        _cleanup_fd_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0)
                return -errno;
        int r = fd_write_at(proc, "uid_map", uid_map);
        if (r == 0)
                r = fd_write_at(proc, "gid_map", gid_map);
        if (r < 0)
                return r;
        int fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

int cell_user_namespace(const char *uid_map, const char *gid_map, struct err *err) {
        static char stack[4096] __attribute__((aligned(16)));
        int gate[2], fd = -EBADF;

        if (pipe2(gate, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        pid_t pid = clone(hold, stack + sizeof stack, CLONE_VM | CLONE_NEWUSER | SIGCHLD, gate);
        int r = pid < 0 ? -errno : write_maps(pid, uid_map, gid_map, &fd);
        (void)close(gate[0]);
        if (pid > 0) {
                (void)kill(pid, SIGKILL);
                (void)close(gate[1]);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        } else
                (void)close(gate[1]);
        if (r < 0) {
                (void)err_set(err, r, "could not make a user namespace");
                return err_hint(err, "'stockade doctor' shows whether this host permits user namespaces");
        }
        return fd;
}
