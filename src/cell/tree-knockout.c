/* Test builds only: what building the tree leaves out when the layers "mounts", "flags" and "proc" are off.
 *
 * Without "mounts" the root is the host's own tree, writable as far as the host lets the user inside. Only what a run
 * cannot start without is put on top: the guest, what the caller shares, /proc, the gate's files. The host's tree stays
 * as it is even so: a mount point that it does not have is made on a tmpfs over the folder above, which the host never
 * sees, because propagation was cut before. */
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "cell/tree.h"

static dev_t covers[8]; /* file systems of the covers */
static size_t cover_count;

unsigned tree_knockout_flags(unsigned attributes) {
        if (knockout_off(KNOCKOUT_FLAGS))
                attributes &= ~(unsigned)(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        if (knockout_off(KNOCKOUT_MOUNTS))
                attributes &= ~(unsigned)MOUNT_ATTR_RDONLY;
        return attributes;
}

static bool is_needed(const struct plan_step *s) {
        switch ((int)s->op) {
        case OP_HOSTNAME:
        case OP_ROOT_TMPFS:
        case OP_ROOT_BIND:
        case OP_ROOT_OVERLAY:
        case OP_OVERLAY:
        case OP_PROC:
        case OP_LOOPBACK:
        case OP_NETWORK:
                return true;
        case OP_BIND:
                return (s->flags & STEP_EXACT) || str_eq(s->text[1], CELL_GUEST_PATH);
        case OP_LINK:
                return str_starts(s->text[0], "/run/stockade/");
        case OP_MASK:
                return str_starts(s->text[0], "/proc/");
        default:
                return false;
        }
}

bool tree_knockout_skips(const struct plan_step *s) {
        if (knockout_off(KNOCKOUT_PROC) && s->op == OP_MASK && str_starts(s->text[0], "/proc/"))
                return true;
        /* to change the host's own interfaces is not what the layer's absence means */
        if (knockout_off(KNOCKOUT_NETNS) && (s->op == OP_LOOPBACK || s->op == OP_NETWORK))
                return true;
        return knockout_off(KNOCKOUT_MOUNTS) && !is_needed(s);
}

static bool is_cover(dev_t device) {
        for (size_t i = 0; i < cover_count; i++)
                if (covers[i] == device)
                        return true;
        return false;
}

int tree_knockout_cover(const struct cell_context *c, const char *path) {
        _cleanup_fd_ int point = -ENOENT, cover = -EBADF;
        char above[PATH_MAX];
        struct stat st;

        if (!knockout_off(KNOCKOUT_MOUNTS))
                return 0;
        if (strlen(path) >= sizeof above || cover_count == ELEMENTSOF(covers))
                return -ENAMETOOLONG;
        memcpy(above, path, strlen(path) + 1);
        while (point == -ENOENT) {
                char *slash = strrchr(above, '/');

                if (slash == above)
                        return -ENOENT; /* the root itself is not covered */
                *slash = '\0';
                point = tree_inside(c, above);
        }
        if (point < 0 || fstat(point, &st) < 0)
                return point < 0 ? point : -errno;
        if (is_cover(st.st_dev))
                return 0;
        cover = tree_tmpfs(c, 4 << 20, 256, 0755, false, 0);
        if (cover < 0 || fstat(cover, &st) < 0)
                return cover < 0 ? cover : -errno;
        covers[cover_count++] = st.st_dev;
        return kernel_move_mount(cover, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}
