/* User namespaces made ahead of the cell that joins them.
 *
 * A helper that shares our memory is cloned into the namespace and ends at once; as long as it is not reaped, /proc
 * still has its maps, which are written from outside, and its namespace, which is opened. Nothing waits for anybody. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/kernel.h"
#include "cell/cell.h"

static int end(void *arg) {
        (void)arg;
        return 0; /* libc's clone leaves by exit, not exit_group */
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

/* The helper of an earlier call may still be on its way out: each has a stack of its own. */
static char stacks[CELL_OWNER_MAX + 1][2048] __attribute__((aligned(16)));
static pid_t helpers[ELEMENTSOF(stacks)];
static size_t used;

void cell_user_namespace_reap(void) {
        while (used > 0)
                if (waitpid(helpers[used - 1], NULL, 0) >= 0 || errno != EINTR)
                        used--;
}

int cell_user_namespace(const char *uid_map, const char *gid_map, struct err *err) {
        int fd = -EBADF;

        if (used >= ELEMENTSOF(stacks))
                return err_set(err, ERR_LIMIT, "more than %zu user namespaces", ELEMENTSOF(stacks));
        pid_t pid = clone(end, stacks[used] + sizeof stacks[0], CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
        int r = pid < 0 ? -errno : write_maps(pid, uid_map, gid_map, &fd);
        if (pid > 0)
                helpers[used++] =
                        pid; /* reaped by cell_user_namespace_reap, when we end, or by whoever waits for all */
        if (r < 0) {
                (void)err_set(err, r, "could not make a user namespace");
                return err_hint(err, "'stockade doctor' shows whether this host permits user namespaces");
        }
        return fd;
}
