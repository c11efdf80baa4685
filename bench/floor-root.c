/* The floor's root: a tmpfs that is filled here, or a template directory bound read-only, with /usr, /dev, /tmp and
 * /proc mounted in it.
 *
 * The root is attached first and everything else is moved onto it by descriptor, which works from kernel 5.12 on; to
 * compose it detached needs 6.15 and is not faster. Sources are looked up in the new mount namespace: a descriptor from
 * before the clone cannot be cloned there. */
#include <fcntl.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "bench/floor.h"
#include "bench/tree.h"

#define FLOOR_SAFE      (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define FLOOR_READ_ONLY (FLOOR_SAFE | MOUNT_ATTR_RDONLY)

/* What the host's tree is called until it is gone: any directory of the host will do as the place to build at. */
#define FLOOR_PLACE "/tmp"

static const char *const floor_root_read_only[] = {"proc/sys", "proc/bus", "proc/fs", "proc/irq", "proc/sysrq-trigger"};
static const char *const floor_root_hidden[] = {"proc/keys", "proc/timer_list", "proc/kcore", "proc/sched_debug"};

/* A new file system as a detached mount. options: key, value, ..., NULL. */
static int floor_root_new(const char *type, const char *const *options, unsigned attributes) {
        _cleanup_fd_ int fs = kernel_fsopen(type);
        if (fs < 0)
                return fs;
        for (; options && options[0]; options += 2) {
                int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, options[0], options[1], 0);
                if (r < 0)
                        return r;
        }
        int r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        return r < 0 ? r : kernel_fsmount(fs, attributes);
}

/* A bind of dir/path as a detached mount. */
static int floor_root_clone(int dir, const char *path, uint64_t attributes) {
        _cleanup_fd_ int tree = kernel_open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
                return tree;
        struct mount_attr attr = {.attr_set = attributes};
        int r = kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
        return r < 0 ? r : TAKE_FD(tree);
}

/* Attaches a detached mount and closes it; a negative mount is an error passed through. */
static int floor_root_attach(int mount, int dir, const char *path) {
        _cleanup_fd_ int owned = mount;
        return owned < 0 ? owned : kernel_move_mount(owned, "", dir, path, MOVE_MOUNT_F_EMPTY_PATH);
}

static int floor_root_base(const struct floor_inside *in, int *ret_root) {
        static const char *const options[] = {"size", "1048576", "nr_inodes", "256", "mode", "0755", NULL};
        struct mount_attr private = {.propagation = MS_PRIVATE};
        int r = kernel_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private);
        if (r < 0)
                return r;
        _cleanup_fd_ int root = in->root == FLOOR_TEMPLATE
                                        ? floor_root_clone(AT_FDCWD, in->f->template, FLOOR_READ_ONLY)
                                        : floor_root_new("tmpfs", options, FLOOR_SAFE);
        if (root < 0)
                return root;
        r = floor_done(in->f->trace, "root mount",
                       kernel_move_mount(root, "", AT_FDCWD, FLOOR_PLACE, MOVE_MOUNT_F_EMPTY_PATH));
        if (r == 0 && in->root == FLOOR_TMPFS)
                r = floor_done(in->f->trace, "fill the root", tree_fill(root));
        if (r == 0)
                *ret_root = TAKE_FD(root);
        return r;
}

static int floor_root_dev(const struct floor_inside *in, int root) {
        static const char *const options[] = {"ptmxmode", "0666", "mode", "0620", NULL};
        for (size_t i = 0; i < ELEMENTSOF(tree_devices); i++) {
                char from[32], to[32];
                (void)snprintf(from, sizeof(from), "/dev/%s", tree_devices[i]);
                (void)snprintf(to, sizeof(to), "dev/%s", tree_devices[i]);
                int r = floor_root_attach(floor_root_clone(AT_FDCWD, from, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), root,
                                          to);
                if (r < 0)
                        return r;
        }
        (void)floor_done(in->f->trace, "6 device binds", 0);
        int pts = floor_root_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
        return floor_done(in->f->trace, "devpts", floor_root_attach(pts, root, "dev/pts"));
}

static int floor_root_proc(const struct floor_inside *in, int root) {
        int proc = floor_root_new("proc", NULL, FLOOR_SAFE | MOUNT_ATTR_NOEXEC);
        int r = floor_done(in->f->trace, "proc", floor_root_attach(proc, root, "proc"));
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(floor_root_read_only); i++) {
                int bind = floor_root_clone(root, floor_root_read_only[i], FLOOR_READ_ONLY | MOUNT_ATTR_NOEXEC);
                r = bind == -ENOENT ? 0 : floor_root_attach(bind, root, floor_root_read_only[i]);
        }
        /* Probed first: an unattached clone of /dev/null that is thrown away costs a grace period. */
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(floor_root_hidden); i++)
                if (faccessat(root, floor_root_hidden[i], F_OK, 0) == 0)
                        r = floor_root_attach(floor_root_clone(root, "dev/null", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID),
                                              root, floor_root_hidden[i]);
        return floor_done(in->f->trace, "proc masks", r);
}

/* Everything below root is in place: make it read-only, make it "/", let the host's tree go. */
static int floor_root_pivot(const struct floor_inside *in, int root) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        int r = kernel_mount_setattr(root, "", AT_EMPTY_PATH, &attr);
        if (r < 0)
                return r;
        if (fchdir(root) < 0)
                return -errno;
        r = floor_done(in->f->trace, "pivot_root", kernel_pivot_root(".", "."));
        if (r < 0)
                return r;
        r = syscall(SYS_umount2, ".", 2 /* MNT_DETACH */) < 0 || chdir("/") < 0 ? -errno : 0;
        return floor_done(in->f->trace, "drop the host's tree", r);
}

int floor_root_build(const struct floor_inside *in) {
        static const char *const tmp[] = {"size", "67108864", "nr_inodes", "8192", "mode", "1777", NULL};
        _cleanup_fd_ int root = -EBADF;
        struct floor_trace *t = in->f->trace;
        int r = floor_root_base(in, &root);
        if (r < 0)
                return r;
        r = floor_done(t, "/usr", floor_root_attach(floor_root_clone(AT_FDCWD, "/usr", FLOOR_READ_ONLY), root, "usr"));
        if (r == 0)
                r = floor_root_dev(in, root);
        if (r == 0)
                r = floor_done(t, "/tmp", floor_root_attach(floor_root_new("tmpfs", tmp, FLOOR_SAFE), root, "tmp"));
        if (r == 0)
                r = floor_root_proc(in, root);
        return r < 0 ? r : floor_root_pivot(in, root);
}
