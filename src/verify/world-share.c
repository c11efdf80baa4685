/* Whether a folder can be shared with a sandbox as writable. Root's launcher shows such a folder under the sandbox's
 * own ids, which not every file system can do: overlayfs cannot, nor tmpfs before Linux 6.3. Without root no ids
 * change.
 *
 * The kernel is asked, by the call that the launcher makes; no list of file systems is kept. The mount that it is tried
 * on is a copy that is attached nowhere and gone when this returns. */
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "verify/world-own.h"

/* A process that does nothing, in a user namespace that maps ids. 0: it could not be made. */
static pid_t hold_namespace(void) {
        pid_t judge = getpid();
        int ends[2];
        char ready;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return 0;
        pid_t pid = fork();
        if (pid == 0) {
                struct err ignored;

                if (world_enter_user_namespace(&ignored) < 0)
                        _exit(1);
                world_child_begin(judge, ends[1], ends[1]);
                (void)fd_write_full(ends[1], "y", 1);
                for (;;)
                        (void)pause();
        }
        (void)close(ends[1]);
        ssize_t n = pid < 0 ? -1 : fd_read_full(ends[0], &ready, 1);
        (void)close(ends[0]);
        if (n != 1)
                world_child_end(&pid);
        return MAX(pid, 0);
}

bool world_share_can(const char *folder) {
        char path[64];

        if (geteuid() != 0)
                return true;
        pid_t holder = hold_namespace();
        if (holder == 0)
                return false;
        (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)holder);
        _cleanup_fd_ int ids = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_fd_ int tree = kernel_open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned long long)ids};
        bool can = ids >= 0 && tree >= 0 && kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) == 0;
        world_child_end(&holder);
        return can;
}
