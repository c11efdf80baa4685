/* PHASE_MOUNT: builds the sandbox's file tree, in the child, while it still sees the host's.
 *
 * Always holds: host paths are looked up below `host` and paths inside below `root`, each by descriptor; inside, no
 * symbolic link is followed, so that an image cannot send a mount elsewhere. Every mount is nosuid and nodev, device
 * binds aside, and gets its flags before it is attached. Nothing here is visible on the host: propagation was cut
 * before the first step. */
#include <fcntl.h>
#include <limits.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "cell/net.h"
#include "cell/tree.h"

#define INSIDE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* Where the new root is attached until it is pivoted to. Nothing below it can be a bind's source. With a box it stays
 * attached, and the box's program may need the host's /sys: there it is the sandbox's own folder. */
#define ATTACH_POINT "/sys"

#define COPY_MAX (1 << 20)

/* Path relative to a root descriptor: "/usr" as "usr", "/" as ".". */
static const char *relative(const char *path) {
        return path[1] ? path + 1 : ".";
}

int tree_inside(const struct cell_context *c, const char *path) {
        return kernel_openat2(c->root, relative(path), O_PATH | O_CLOEXEC | O_NOFOLLOW, 0, INSIDE);
}

/* Makes the directories of path up to its last part and returns a descriptor of the parent; *ret_name is the rest. */
static int make_parents(const struct cell_context *c, const char *path, const char **ret_name) {
        _cleanup_fd_ int dir = fcntl(c->root, F_DUPFD_CLOEXEC, 0);
        const char *part = path + 1;
        char name[256];

        if (dir < 0)
                return -errno;
        for (;;) {
                const char *slash = strchrnul(part, '/');
                size_t n = (size_t)(slash - part);

                if (*slash == '\0') {
                        *ret_name = part;
                        return TAKE_FD(dir);
                }
                if (n >= sizeof name)
                        return -ENAMETOOLONG;
                memcpy(name, part, n);
                name[n] = '\0';
                int next = kernel_openat2(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, INSIDE);
                if (next == -ENOENT) {
                        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
                                return -errno;
                        next = kernel_openat2(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, INSIDE);
                }
                if (next < 0)
                        return next;
                (void)close(dir);
                dir = next;
                part = slash + 1;
        }
}

/* A place to mount on: what is there, or a new empty directory or file. */
static int mount_point(const struct cell_context *c, const char *path, bool directory) {
        int fd = tree_inside(c, path);
        if (fd != -ENOENT)
                return fd;
        int r = tree_knockout_cover(c, path);
        if (r < 0)
                return r;

        const char *name;
        _cleanup_fd_ int parent = make_parents(c, path, &name);
        if (parent < 0)
                return parent;
        if (directory) {
                if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
                        return -errno;
        } else {
                _cleanup_fd_ int file = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                               0644);
                if (file < 0)
                        return -errno;
        }
        return kernel_openat2(parent, name, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0, INSIDE);
}

int tree_attach(const struct cell_context *c, int mount, const char *path, bool directory) {
        _cleanup_fd_ int point = mount_point(c, path, directory);
        if (point < 0)
                return point;
        return kernel_move_mount(mount, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int tree_tmpfs(const struct cell_context *c, uint64_t size, uint64_t inodes, uint64_t mode, bool owned,
               unsigned attributes) {
        char text[32];
        _cleanup_fd_ int fs = kernel_fsopen("tmpfs");
        if (fs < 0)
                return fs;

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)size);
        int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "size", text, 0);
        if (r == 0) {
                (void)snprintf(text, sizeof text, "%llu", (unsigned long long)inodes);
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", text, 0);
        }
        if (r == 0) {
                (void)snprintf(text, sizeof text, "%llo", (unsigned long long)mode);
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "mode", text, 0);
        }
        if (r == 0 && owned) {
                (void)snprintf(text, sizeof text, "%u", c->tree_uid);
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "uid", text, 0);
                (void)snprintf(text, sizeof text, "%u", c->tree_gid);
                if (r == 0)
                        r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "gid", text, 0);
        }
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0)
                return r;
        return kernel_fsmount(fs, tree_knockout_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attributes));
}

static int watch(struct cell_context *c, int mount) {
        if (c->watch_count >= CELL_WATCH_MAX)
                return -E2BIG;
        int fd = openat(mount, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        c->watch[c->watch_count++] = fd;
        return 0;
}

/* A host path, looked up once: what is judged is what is bound. */
static int open_host(const struct cell_context *c, const char *path, unsigned flags) {
        return kernel_openat2(c->host, relative(path), O_PATH | O_CLOEXEC, 0,
                              flags & STEP_EXACT ? RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS : 0);
}

/* Is what a host path led to within the ceiling? */
static bool permitted(const struct cell_context *c, const struct plan_step *s, int source) {
        return !c->base || !c->base->permits || c->base->permits(c->base->data, s, source);
}

/* A copy of the mounts at a descriptor, flags set, not attached. */
static int clone_at(int source, unsigned flags, int owner_ns) {
        _cleanup_fd_ int tree = kernel_open_tree(source, "",
                                                 AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID};

        if (tree < 0)
                return tree;
        if (!(flags & STEP_DEVICE))
                attr.attr_set |= MOUNT_ATTR_NODEV;
        if (!(flags & STEP_WRITE))
                attr.attr_set |= MOUNT_ATTR_RDONLY;
        if (flags & STEP_NOEXEC)
                attr.attr_set |= MOUNT_ATTR_NOEXEC;
        attr.attr_set = tree_knockout_flags((unsigned)attr.attr_set);
        if (owner_ns >= 0) {
                attr.attr_set |= MOUNT_ATTR_IDMAP;
                attr.userns_fd = (unsigned long long)owner_ns;
        }
        int r = kernel_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr);
        return r < 0 ? r : TAKE_FD(tree);
}

static int clone_host(const struct cell_context *c, const char *path, unsigned flags, int owner_ns) {
        _cleanup_fd_ int source = open_host(c, path, flags);

        return source < 0 ? source : clone_at(source, flags, owner_ns);
}

/* The namespace that maps this owner to the user. Rootless the kernel does it: there is only one id. */
static int owner_namespace(const struct cell_context *c, const struct stat *st) {
        if (c->rootless)
                return -EBADF;
        for (size_t i = 0; i < c->owner_count; i++)
                if (c->owners[i].uid == st->st_uid && c->owners[i].gid == st->st_gid)
                        return c->owners[i].user_ns;
        return -ESTALE; /* it changed hands between the launcher's look and ours */
}

static int step_bind(struct cell_context *c, const struct plan_step *s) {
        struct stat st;
        int owner = -EBADF;
        _cleanup_fd_ int source = open_host(c, s->text[0], s->flags), tree = -EBADF;

        if (source < 0)
                return source == -ENOENT && (s->flags & STEP_OPTIONAL) ? 0 : source;
        if (!permitted(c, s, source))
                return CELL_NOT_PERMITTED;
        if (fstat(source, &st) < 0)
                return -errno;
        if ((s->flags & STEP_DEVICE) && !S_ISCHR(st.st_mode))
                return -ENODEV; /* a name in /dev that is no device: do not hide it behind ours */
        if (s->flags & STEP_OWNED) {
                owner = owner_namespace(c, &st);
                if (owner < 0 && owner != -EBADF)
                        return owner;
        }
        tree = clone_at(source, s->flags, owner);
        if (tree < 0)
                return tree;
        return tree_attach(c, tree, s->text[1], S_ISDIR(st.st_mode));
}

/* A program (or a directory of them) that keeps its right to be executed in a tree that is noexec: bound onto itself,
 * where its links end. One that the host does not have is not needed. */
static int step_program(struct cell_context *c, const struct plan_step *s) {
        char link[40], path[PATH_MAX];
        struct stat st;
        _cleanup_fd_ int fd = openat(c->host, relative(s->text[0]), O_PATH | O_CLOEXEC), tree = -EBADF;

        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!permitted(c, s, fd))
                return CELL_NOT_PERMITTED;
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n < 0 || fstat(fd, &st) < 0)
                return -errno;
        if ((size_t)n >= sizeof path - 1 || path[0] != '/')
                return -ENAMETOOLONG;
        path[n] = '\0';
        tree = clone_at(fd, 0, -EBADF);
        if (tree < 0)
                return tree;
        _cleanup_fd_ int point = tree_inside(c, path);
        if (point < 0)
                return point;
        return kernel_move_mount(tree, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int make_link(const struct cell_context *c, const char *path, const char *target, bool optional) {
        const char *name;
        _cleanup_fd_ int parent = make_parents(c, path, &name);
        if (parent < 0)
                return parent;
        return symlinkat(target, parent, name) < 0 && !(optional && errno == EEXIST) ? -errno : 0;
}

static int step_like_host(struct cell_context *c, const struct plan_step *s) {
        char target[256];
        ssize_t n = readlinkat(c->host, relative(s->text[0]), target, sizeof target - 1);

        if (n >= 0) {
                if ((size_t)n >= sizeof target - 1)
                        return -ENAMETOOLONG;
                target[n] = '\0';
                return make_link(c, s->text[0], target, true);
        }
        if (errno == ENOENT)
                return 0;
        if (errno != EINVAL)
                return -errno;
        struct stat st;
        _cleanup_fd_ int source = open_host(c, s->text[0], s->flags);
        if (source < 0)
                return source;
        if (!permitted(c, s, source))
                return CELL_NOT_PERMITTED;
        if (fstat(source, &st) < 0)
                return -errno;
        _cleanup_fd_ int tree = clone_at(source, s->flags, -EBADF);
        if (tree < 0)
                return tree;
        return tree_attach(c, tree, s->text[0], S_ISDIR(st.st_mode));
}

static int step_tmpfs(struct cell_context *c, const struct plan_step *s) {
        _cleanup_fd_ int mount = tree_tmpfs(c, s->number[0], s->number[1], s->number[2], true,
                                            s->flags & STEP_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
        if (mount < 0)
                return mount;
        int r = s->flags & STEP_WATCH ? watch(c, mount) : 0;
        return r < 0 ? r : tree_attach(c, mount, s->text[0], true);
}

/* The sandbox's disk, which whoever started us mounted. */
static int prepare_disk(struct cell_context *c, const struct plan_step *s) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

        if (!c->lives || c->disk < 0)
                return -ENODEV;
        if (s->flags & STEP_NOEXEC)
                attr.attr_set |= MOUNT_ATTR_NOEXEC;
        attr.attr_set = tree_knockout_flags((unsigned)attr.attr_set);
        int r = kernel_mount_setattr(c->disk, "", AT_EMPTY_PATH, &attr);
        return r < 0 || !(s->flags & STEP_WATCH) ? r : watch(c, c->disk);
}

static int step_disk(struct cell_context *c, const struct plan_step *s) {
        int r = prepare_disk(c, s);

        return r < 0 ? r : tree_attach(c, c->disk, s->text[0], true);
}

/* The ids on a disk are the sandbox's. Whoever makes something there (a mount point, a file of ours) has to have one of
 * them: the sandbox's root, until OP_IDS. What we may do stays as it is. */
static int root_disk(struct cell_context *c, const struct plan_step *s) {
        int r = prepare_disk(c, s);

        if (r < 0)
                return r;
        if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
                return -errno;
        (void)syscall(SYS_setfsgid, c->id_base);
        (void)syscall(SYS_setfsuid, c->id_base);
        return fcntl(c->disk, F_DUPFD_CLOEXEC, 0);
}

/* Opens a directory that overlayfs can name: its options are paths. */
static int set_layer(int fs, const char *key, int dir) {
        char path[40];

        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
        return kernel_fsconfig(fs, FSCONFIG_SET_STRING, key, path, 0);
}

static int make_dir(int parent, const char *name, const struct cell_context *c) {
        if (mkdirat(parent, name, 0755) < 0)
                return -errno;
        if (fchownat(parent, name, c->tree_uid, c->tree_gid, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int attach_outside(const struct cell_context *c, int mount) {
        if (c->box)
                return kernel_move_mount(mount, "", c->folder, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
        return kernel_move_mount(mount, "", AT_FDCWD, ATTACH_POINT, MOVE_MOUNT_F_EMPTY_PATH);
}

/* Layers of overlays must be attached somewhere in this namespace. They hang below the anchor: a mount at the attach
 * point, under the new root, that goes with the host's tree at OP_PIVOT. */
static int drop_anchor(struct cell_context *c, int mount) {
        int r = attach_outside(c, mount);
        if (r < 0)
                return r;
        c->anchor = fcntl(mount, F_DUPFD_CLOEXEC, 0);
        return c->anchor < 0 ? -errno : 0;
}

static int attach_stage(struct cell_context *c, int stage) {
        if (c->anchor < 0)
                return drop_anchor(c, stage);
        if (mkdirat(c->anchor, "stage", 0700) < 0)
                return -errno;
        return kernel_move_mount(stage, "", c->anchor, "stage", MOVE_MOUNT_F_EMPTY_PATH);
}

/* An overlay of a host directory with an upper layer on a sized tmpfs. Returns the mount, not attached. */
static int make_overlay(struct cell_context *c, int source, int owner_ns, uint64_t size, uint64_t inodes,
                        unsigned attributes, bool top_is_upper) {
        _cleanup_fd_ int stage = tree_tmpfs(c, size, inodes, 0700, false, 0), lower = -EBADF, upper = -EBADF,
                         work = -EBADF, below = -EBADF, top = -EBADF;
        if (stage < 0)
                return stage;
        int r = attach_stage(c, stage);
        if (r < 0)
                return r;
        if (mkdirat(stage, "lower", 0700) < 0)
                return -errno;
        upper = make_dir(stage, "upper", c);
        work = make_dir(stage, "work", c);
        if (upper < 0 || work < 0)
                return upper < 0 ? upper : work;

        /* without its marks overlayfs would mount and then fail at every second rename */
        if (c->rootless && c->marks && fsetxattr(upper, "user.overlay.probe", "y", 1, 0) < 0)
                return errno == ENOTSUP ? -EOPNOTSUPP : -errno;
        if (c->rootless && c->marks)
                (void)fremovexattr(upper, "user.overlay.probe");

        lower = clone_at(source, 0, owner_ns);
        if (lower < 0)
                return lower;
        r = kernel_move_mount(lower, "", stage, "lower", MOVE_MOUNT_F_EMPTY_PATH);
        if (r < 0)
                return r;
        below = openat(stage, "lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (below < 0)
                return -errno;

        /* the top directory looks as the lower one does */
        struct stat st;
        if (fstat(below, &st) < 0 || fchmod(upper, st.st_mode & 0777) < 0)
                return -errno;
        if (top_is_upper && fchown(upper, st.st_uid, st.st_gid) < 0 && errno != EPERM && errno != EINVAL)
                return -errno;

        _cleanup_fd_ int fs = kernel_fsopen("overlay");
        if (fs < 0)
                return fs;
        r = set_layer(fs, "lowerdir", below);
        if (r == 0)
                r = set_layer(fs, "upperdir", upper);
        if (r == 0)
                r = set_layer(fs, "workdir", work);
        if (r == 0 && c->rootless)
                r = kernel_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0)
                return r;
        top = kernel_fsmount(fs, tree_knockout_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attributes));
        if (top < 0)
                return top;
        r = watch(c, stage);
        if (r < 0)
                return r;
        c->upper = TAKE_FD(upper);
        return TAKE_FD(top);
}

static int step_overlay(struct cell_context *c, const struct plan_step *s) {
        struct stat st;
        int owner = -EBADF;
        _cleanup_fd_ int source = open_host(c, s->text[0], s->flags), top = -EBADF;

        if (source < 0)
                return source;
        if (!permitted(c, s, source))
                return CELL_NOT_PERMITTED;
        if (fstat(source, &st) < 0)
                return -errno;
        if (st.st_dev != c->overlay_dev || st.st_ino != c->overlay_ino)
                return -ESTALE; /* not the directory that the launcher holds and would apply the changes to */
        if (s->flags & STEP_OWNED) {
                owner = owner_namespace(c, &st);
                if (owner < 0 && owner != -EBADF)
                        return owner;
        }
        c->marks = true;
        top = make_overlay(c, source, owner, s->number[0], s->number[1], s->flags & STEP_NOEXEC ? MOUNT_ATTR_NOEXEC : 0,
                           true);
        return top < 0 ? top : tree_attach(c, top, s->text[1], true);
}

/* The new root: attached over a directory of the host's tree that nothing reads, until OP_PIVOT. */
static int step_root(struct cell_context *c, const struct plan_step *s) {
        if (c->overlay && s->op != OP_ROOT_OVERLAY) {
                _cleanup_fd_ int anchor = tree_tmpfs(c, 4096, 8, 0700, false, 0);
                int r = anchor < 0 ? anchor : drop_anchor(c, anchor);
                if (r < 0)
                        return r;
        }
        if (knockout_off(KNOCKOUT_MOUNTS))
                c->root = clone_host(c, "/", STEP_WRITE | STEP_DEVICE, -EBADF);
        else if (s->op == OP_ROOT_TMPFS && c->skeleton)
                c->root = clone_host(c, c->skeleton, STEP_WRITE, -EBADF);
        else if (s->op == OP_ROOT_TMPFS)
                c->root = tree_tmpfs(c, s->number[0], s->number[1], 0755, false, 0);
        else if (s->op == OP_ROOT_DISK)
                c->root = root_disk(c, s);
        else if (s->op == OP_ROOT_BIND)
                c->root = clone_host(c, s->text[0], 0, -EBADF);
        else {
                _cleanup_fd_ int source = open_host(c, s->text[0], s->flags);
                if (source >= 0 && !permitted(c, s, source))
                        return CELL_NOT_PERMITTED;
                c->marks = s->flags &
                           STEP_WATCH; /* written to by the sandbox; otherwise by us alone, and only new names */
                c->root = source < 0 ? source : make_overlay(c, source, -EBADF, s->number[0], s->number[1], 0, true);
        }
        if (c->root < 0)
                return c->root;
        return attach_outside(c, c->root);
}

static int make_proc(void) {
        _cleanup_fd_ int fs = kernel_fsopen("proc");
        if (fs < 0)
                return fs;
        int r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0)
                return r;
        return kernel_fsmount(fs, tree_knockout_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
}

/* With a box: a folder. Whose processes are seen there is the driver's to say. */
static int make_proc_folder(const struct cell_context *c, const struct plan_step *s) {
        _cleanup_fd_ int point = mount_point(c, s->text[0], true);

        return MIN(point, 0);
}

/* /proc, read-only. A second, writable mount of the same instance is kept for OP_NO_NESTING and never attached. */
static int step_proc(struct cell_context *c, const struct plan_step *s) {
        struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};
        _cleanup_fd_ int mount = knockout_off(KNOCKOUT_PIDNS) ? clone_host(c, "/proc", STEP_WRITE | STEP_NOEXEC, -EBADF)
                                                              : make_proc();
        if (mount < 0)
                return mount;
        int r = tree_attach(c, mount, s->text[0], true);
        if (r < 0)
                return r;
        c->proc = kernel_open_tree(mount, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (c->proc < 0 || knockout_off(KNOCKOUT_PROC))
                return MIN(c->proc, 0);
        return kernel_mount_setattr(mount, "", AT_EMPTY_PATH, &readonly);
}

static int step_devpts(struct cell_context *c, const struct plan_step *s) {
        _cleanup_fd_ int fs = kernel_fsopen("devpts");
        if (fs < 0)
                return fs;
        int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "ptmxmode", "0666", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0600", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "max", "64", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0)
                return r;
        _cleanup_fd_ int mount = kernel_fsmount(fs, tree_knockout_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
        return mount < 0 ? mount : tree_attach(c, mount, s->text[0], true);
}

/* The prepared root has an empty folder where /proc goes: it serves all sandboxes. A file system for each would cost
 * the kernel memory in every cgroup of the host. */
static int empty_of_skeleton(struct cell_context *c) {
        char path[PATH_MAX];
        int n = c->skeleton ? snprintf(path, sizeof path, "%s/proc", c->skeleton) : -1;

        return n > 0 && (size_t)n < sizeof path ? clone_host(c, path, STEP_NOEXEC, -EBADF) : -ENOENT;
}

/* An empty directory that nothing can be made in, not attached. One serves all of a sandbox. */
static int empty_directory(struct cell_context *c) {
        if (c->empty < 0)
                c->empty = empty_of_skeleton(c);
        if (c->empty < 0)
                c->empty = tree_tmpfs(c, 4096, 1, 0555, false, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
        if (c->empty < 0)
                return c->empty;
        int fd = kernel_open_tree(c->empty, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (fd != -EINVAL)
                return fd;
        /* before Linux 6.15 only what is attached can be cloned */
        return tree_tmpfs(c, 4096, 1, 0555, false, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
}

/* The null device to cover files with, not attached; likewise. */
static int null_device(struct cell_context *c) {
        if (c->null < 0)
                c->null = clone_host(c, "/dev/null", STEP_DEVICE | STEP_NOEXEC, -EBADF);
        if (c->null < 0)
                return c->null;
        int fd = kernel_open_tree(c->null, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        return fd == -EINVAL ? clone_host(c, "/dev/null", STEP_DEVICE | STEP_NOEXEC, -EBADF) : fd;
}

/* Covers a file with the null device and a directory with an empty one. */
static int step_mask(struct cell_context *c, const struct plan_step *s) {
        struct stat st;
        _cleanup_fd_ int point = tree_inside(c, s->text[0]), cover = -EBADF;

        if (point == -ENOENT && s->op == OP_HIDE) {
                point = mount_point(c, s->text[0], true);
                if (point == -EROFS || point == -EACCES)
                        return 0; /* not there, and nobody can make it */
        }
        if (point < 0)
                return point == -ENOENT ? 0 : point;
        if (fstat(point, &st) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode))
                return -ELOOP; /* to cover the link would leave what it points to in the open */
        if (S_ISDIR(st.st_mode))
                cover = empty_directory(c);
        else
                cover = null_device(c);
        if (cover < 0)
                return cover;
        return kernel_move_mount(cover, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int step_file(struct cell_context *c, const struct plan_step *s) {
        const char *name;
        _cleanup_fd_ int parent = make_parents(c, s->text[0], &name);
        if (parent < 0)
                return parent;
        if ((s->flags & STEP_REPLACE) && unlinkat(parent, name, 0) < 0 && errno != ENOENT)
                return (s->flags & STEP_OPTIONAL) ? 0 : -errno;
        _cleanup_fd_ int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0)
                return errno == EEXIST && (s->flags & STEP_OPTIONAL) ? 0 : -errno;
        return fd_write_full(fd, s->blob, s->blob_size);
}

/* A file that programs only read and that is small enough to copy: cheaper than a mount of its own. */
static int step_copy(struct cell_context *c, const struct plan_step *s) {
        const char *name;
        char block[4096];
        _cleanup_fd_ int in = openat(c->host, relative(s->text[0]), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK),
                         out = -EBADF, parent = -EBADF;
        if (in < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!permitted(c, s, in))
                return CELL_NOT_PERMITTED;
        struct stat st;
        if (fstat(in, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
                return 0; /* what not everybody may read is not for the sandbox either */
        parent = make_parents(c, s->text[0], &name);
        if (parent < 0)
                return parent;
        out = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (out < 0)
                return -errno;
        for (size_t total = 0; total < COPY_MAX;) {
                ssize_t n = read(in, block, sizeof block);
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                int r = fd_write_full(out, block, (size_t)n);
                if (r < 0)
                        return r;
                total += (size_t)n;
        }
        return -EFBIG;
}

static int step_loopback(void) {
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

static int step_dir(struct cell_context *c, const struct plan_step *s) {
        const char *name;
        _cleanup_fd_ int parent = make_parents(c, s->text[0], &name);
        if (parent < 0)
                return parent;
        if (mkdirat(parent, name, (mode_t)s->number[0]) < 0)
                return errno == EEXIST ? 0 : -errno;
        if ((s->flags & STEP_OWNED) && fchownat(parent, name, c->tree_uid, c->tree_gid, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return 0;
}

/* What a skeleton has is not made again. What was removed from it (a cache may be cleaned by anybody) is made anew, in
 * the skeleton: it stays writable until OP_READONLY. */
static bool in_skeleton(const struct cell_context *c, const struct plan_step *s) {
        if (!c->skeleton ||
            (s->op != OP_DIR && s->op != OP_FILE && s->op != OP_COPY && s->op != OP_LINK && s->op != OP_LIKE_HOST))
                return false;
        struct stat st;
        if (fstatat(c->root, relative(s->text[0]), &st, AT_SYMLINK_NOFOLLOW) < 0)
                return false;
        return s->op != OP_LIKE_HOST || S_ISLNK(st.st_mode);
}

/* Makes in an empty directory what would be made in an empty root: files, links, and places to mount on. */
static int skeleton_step(struct cell_context *c, const struct plan_step *s) {
        char byte;
        struct stat st = {.st_mode = S_IFDIR};
        const char *path = s->text[0];

        switch ((int)s->op) {
        case OP_DIR:
        case OP_FILE:
        case OP_COPY:
        case OP_LINK:
                return tree_step(c, s);
        case OP_LIKE_HOST:
                if (readlinkat(c->host, relative(path), &byte, 1) > 0)
                        return tree_step(c, s);
                break;
        case OP_BIND:
        case OP_OVERLAY:
                path = s->text[1];
                break;
        case OP_TMPFS:
        case OP_DISK:
        case OP_PROC:
        case OP_NETWORK:
        case OP_DEVPTS:
                break;
        default:
                return 0;
        }
        if ((s->op == OP_BIND || s->op == OP_LIKE_HOST) && fstatat(c->host, relative(s->text[0]), &st, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        int fd = mount_point(c, path, S_ISDIR(st.st_mode));
        if (fd < 0)
                return fd;
        (void)close(fd);
        return 0;
}

int tree_skeleton(const struct plan *p, const struct cell_base *base, int directory) {
        struct cell_context c = {.root = directory, .base = base};
        struct plan_walk walk = {0};
        struct plan_step s;
        int r = 0;

        c.host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c.host < 0)
                return -errno;
        while (r == 0 && plan_next(p, &walk, &s))
                if (plan_op_phase(s.op) == PHASE_MOUNT)
                        r = skeleton_step(&c, &s);
        (void)close(c.host);
        return r;
}

int tree_step(struct cell_context *c, const struct plan_step *s) {
        if (in_skeleton(c, s) || tree_knockout_skips(s))
                return 0;
        switch ((int)s->op) {
        case OP_HOSTNAME:
                return sethostname(s->text[0], strlen(s->text[0])) < 0 ? -errno : 0;
        case OP_ROOT_TMPFS:
        case OP_ROOT_BIND:
        case OP_ROOT_OVERLAY:
        case OP_ROOT_DISK:
                return step_root(c, s);
        case OP_DIR:
                return step_dir(c, s);
        case OP_LINK:
                return make_link(c, s->text[0], s->text[1], s->flags & STEP_OPTIONAL);
        case OP_FILE:
                return step_file(c, s);
        case OP_COPY:
                return step_copy(c, s);
        case OP_LOOPBACK:
                return step_loopback();
        case OP_NETWORK:
                return net_step(c, s);
        case OP_LIKE_HOST:
                return step_like_host(c, s);
        case OP_BIND:
                return step_bind(c, s);
        case OP_TMPFS:
                return step_tmpfs(c, s);
        case OP_DISK:
                return step_disk(c, s);
        case OP_OVERLAY:
                return step_overlay(c, s);
        case OP_PROC:
                return c->box ? make_proc_folder(c, s) : step_proc(c, s);
        case OP_DEVPTS:
                return step_devpts(c, s);
        case OP_PROGRAM:
                return step_program(c, s);
        case OP_MASK:
        case OP_HIDE:
                return step_mask(c, s);
        default:
                return -EINVAL;
        }
}
