/* The view that a sandbox gets: upper/ of its disk, or an overlay over what is below it.
 *
 * Each part is a mount of its own, attached nowhere, that shows canonical ids as those of the sandbox's range. The
 * overlay works with the ids of whoever makes it, and those must be in the map: otherwise it comes up read-only without
 * a word. So we take the mapped root's file system ids for that one call, and look at the result.
 *
 * Kernels before 6.15 cannot clone or stack mounts that are attached nowhere. For them the same is done by a child in a
 * mount namespace of its own, where the parts are attached below a small tmpfs; it shares our descriptors, puts the
 * result where we wait for it, and is gone with its namespace. */
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "disk/volume-internal.h"

#define PARTS_MAX (VOLUME_LAYERS_MAX + 2)
#define USER_ID   1000
#define STAGE     "/usr" /* exists everywhere, and is covered in the child's mount namespace only */

/* What is stacked, from the top. Of a disk its upper/ counts, of an image all. */
struct parts {
        int mount[PARTS_MAX];
        bool disk[PARTS_MAX];
        size_t count;
        bool writable; /* the first one takes what is written */
        bool lent;     /* the first one is somebody else's */
};

static void parts_end(struct parts *p) {
        for (size_t i = p->lent ? 1 : 0; i < p->count; i++)
                fd_close(&p->mount[i]);
}

static bool given(const char *id) {
        return id && id[0];
}

static void add(struct parts *p, int mount, bool disk) {
        p->mount[p->count] = mount;
        p->disk[p->count++] = disk;
}

static int add_disk(struct volumes *v, const char *id, enum volume_use use, struct parts *p, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};

        int r = volume_open(v, id, &d, err);
        if (r < 0)
                return r;
        r = volume_ext4(v, &d, use, err);
        if (r < 0)
                return r;
        add(p, r, true);
        return 0;
}

static int add_image(struct volumes *v, const char *id, struct parts *p, struct err *err) {
        char path[VOLUME_ID_SIZE + 8];
        char about[4];

        int r = volume_check_id(id, err);
        if (r < 0)
                return r;
        r = image_about(v, id, about, sizeof about);
        if (r < 0)
                return err_set(err, r, "cannot open the image %s", id);
        (void)snprintf(path, sizeof path, "%s/root", id);
        r = kernel_open_tree(v->images, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
        if (r < 0)
                return err_set(err, r, "cannot open the image %s", id);
        add(p, r, false);
        return 0;
}

/* The directory of a part that is stacked; O_PATH. */
static int part_directory(const struct parts *p, size_t i) {
        int fd = openat(p->mount[i], p->disk[i] ? "upper" : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

/* The root of a disk that was never mounted shows nothing to anybody (volume-blank.c). Its owner does not count:
 * whoever adopts it may be killed after he gave it one. */
static bool is_blank(const struct stat *root) {
        return (root->st_mode & 07777) == 0;
}

/* From the first mount on the root of a disk is as that of what is below it, or the user's. */
static int adopt_root(const struct parts *p) {
        struct stat top, below = {0};
        _cleanup_fd_ int upper = openat(p->mount[0], "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (upper < 0 || fstat(upper, &top) < 0)
                return -errno;
        if (!is_blank(&top))
                return 0;
        for (size_t i = 1; i < p->count && is_blank(&below); i++) {
                _cleanup_fd_ int next = part_directory(p, i);
                if (next < 0)
                        return next;
                if (fstat(next, &below) < 0)
                        return -errno;
        }
        if (is_blank(&below)) {
                below = (struct stat){.st_mode = S_IFDIR | 0755, .st_uid = USER_ID, .st_gid = USER_ID};
                if (clock_gettime(CLOCK_REALTIME, &below.st_mtim) < 0)
                        return -errno;
                below.st_atim = below.st_mtim;
        }
        const struct timespec times[2] = {below.st_atim, below.st_mtim};
        if (fchown(upper, below.st_uid, below.st_gid) < 0 || futimens(upper, times) < 0 ||
            fchmod(upper, below.st_mode & 01777) < 0) /* last: it says that all of this is done */
                return -errno;
        return 0;
}

static int map_ids(const struct parts *p, const struct volume_view *view) {
        for (size_t i = 0; i < p->count; i++) {
                bool readonly = i > 0 || !p->writable;
                struct mount_attr attr = {
                        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME |
                                    (readonly ? MOUNT_ATTR_RDONLY : 0),
                        .attr_clr = MOUNT_ATTR__ATIME,
                        .userns_fd = (unsigned long long)view->user_ns,
                };
                int r = kernel_mount_setattr(p->mount[i], "", AT_EMPTY_PATH, &attr);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The ids that files are made with, without losing a capability; *old says how to go back. */
struct ids {
        int bits, uid, gid;
};

static int take_ids(uint32_t base, struct ids *old) {
        int bits = prctl(PR_GET_SECUREBITS);

        if (bits < 0 || prctl(PR_SET_SECUREBITS, (unsigned long)bits | SECBIT_NO_SETUID_FIXUP) < 0)
                return -errno;
        *old = (struct ids){bits, setfsuid(base), setfsgid(base)};
        /* these two never say whether they worked; asking for an id that cannot be says what it is now */
        return setfsuid((uid_t)-1) == (int)base && setfsgid((gid_t)-1) == (int)base ? 0 : -EPERM;
}

/* To go on with ids that are not ours would be worse than to end. */
static void return_ids(const struct ids *old) {
        (void)setfsgid((gid_t)old->gid);
        (void)setfsuid((uid_t)old->uid);
        if (setfsuid((uid_t)-1) != old->uid || setfsgid((gid_t)-1) != old->gid ||
            prctl(PR_SET_SECUREBITS, (unsigned long)old->bits) < 0)
                abort();
}

static int set_layer(int fs, const char *key, int dir) {
        return kernel_fsconfig(fs, FSCONFIG_SET_FD, key, NULL, dir);
}

/* redirect_dir: a folder of a layer can be renamed without copying what is in it. index would tie a disk to the one
 * layer that it was first mounted on. xino: numbers of files stay when they are written to. */
static int set_options(int fs) {
        static const char *const options[][2] = {
                {"redirect_dir", "on"}, {"index", "off"}, {"metacopy", "off"}, {"xino", "on"}, {"nfs_export", "off"}};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ELEMENTSOF(options); i++)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0);
        return r;
}

static int stack(const struct parts *p, uint32_t base) {
        struct ids old;
        _cleanup_fd_ int fs = kernel_fsopen("overlay");

        if (fs < 0)
                return fs;
        int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "source", "stockade", 0);
        for (size_t i = 0; r == 0 && i < p->count; i++) {
                _cleanup_fd_ int dir = part_directory(p, i);
                r = dir < 0 ? dir : set_layer(fs, p->writable && i == 0 ? "upperdir" : "lowerdir+", dir);
        }
        if (r == 0 && p->writable) {
                _cleanup_fd_ int work = openat(p->mount[0], "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                r = work < 0 ? -errno : set_layer(fs, "workdir", work);
        }
        if (r == 0)
                r = set_options(fs);
        if (r < 0)
                return r;
        r = take_ids(base, &old);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        return_ids(&old);
        return r < 0 ? r : kernel_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
}

/* One part and nothing to stack it on: its directory is the view. */
static int show_one(const struct parts *p) {
        return kernel_open_tree(p->mount[0], p->disk[0] ? "upper" : "",
                                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (p->disk[0] ? 0 : AT_EMPTY_PATH));
}

/* --- the same for older kernels, in a child --- */

static int attach_parts(const struct parts *p) {
        char name[8];

        for (size_t i = 0; i < p->count; i++) {
                (void)snprintf(name, sizeof name, "%zu", i);
                if (mkdir(name, 0700) < 0)
                        return -errno;
                int r = kernel_move_mount(p->mount[i], "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH);
                if (r < 0)
                        return r;
        }
        return mkdir("view", 0700) < 0 ? -errno : 0;
}

/* Options of overlayfs as text, since it knew nothing else then: short names, relative to where we are. */
static int stack_attached(const struct parts *p, uint32_t base) {
        char options[PARTS_MAX * 12 + 256];
        struct ids old;
        size_t n = 0;

        for (size_t i = p->writable ? 1 : 0; i < p->count; i++)
                n += (size_t)snprintf(options + n, sizeof options - n, "%s%zu%s", n == 0 ? "lowerdir=" : ":", i,
                                      p->disk[i] ? "/upper" : "");
        if (p->writable)
                n += (size_t)snprintf(options + n, sizeof options - n, ",upperdir=0/upper,workdir=0/work");
        (void)snprintf(options + n, sizeof options - n, ",redirect_dir=on,index=off,metacopy=off,xino=on");
        int r = take_ids(base, &old);
        if (r == 0 && mount("stockade", "view", "overlay", MS_NOSUID | MS_NODEV | MS_NOATIME, options) < 0)
                r = -errno;
        return_ids(&old);
        return r < 0 ? r : kernel_open_tree(AT_FDCWD, "view", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int compose_attached(const struct parts *p, uint32_t base) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", STAGE, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=64k,nr_inodes=128") < 0 ||
            chdir(STAGE) < 0)
                return -errno;
        int r = attach_parts(p);
        if (r < 0)
                return r;
        if (p->count > 1)
                return stack_attached(p, base);
        return kernel_open_tree(AT_FDCWD, p->disk[0] ? "0/upper" : "0", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* The child has our descriptors, not copies of them: what it puts at `slot` is there when it is gone. */
static int compose_in_child(const struct parts *p, uint32_t base) {
        struct clone_args args = {.flags = CLONE_FILES | CLONE_NEWNS};
        _cleanup_fd_ int slot = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int status;

        if (slot < 0)
                return -errno;
        pid_t pid = kernel_clone3(&args);
        if (pid < 0)
                return pid;
        if (pid == 0) {
                int fd = compose_attached(p, base);
                if (fd >= 0) {
                        int r = dup3(fd, slot, O_CLOEXEC) < 0 ? -errno : 0;
                        (void)close(fd);
                        fd = r;
                }
                _exit(fd < 0 ? -fd : 0);
        }
        while (waitpid(pid, &status, __WALL) < 0)
                if (errno != EINTR)
                        return -errno;
        if (!WIFEXITED(status))
                return -ECHILD;
        return WEXITSTATUS(status) ? -WEXITSTATUS(status) : TAKE_FD(slot);
}

static int compose(struct volumes *v, const struct parts *p, uint32_t base) {
        if (!v->detached)
                return compose_in_child(p, base);
        return p->count > 1 ? stack(p, base) : show_one(p);
}

/* Whether it came up as it was asked for. */
static int look(int mount, bool writable) {
        struct statvfs fs;

        if (fstatvfs(mount, &fs) < 0)
                return -errno;
        return writable && (fs.f_flag & ST_RDONLY) ? -EROFS : 0;
}

static int collect(struct volumes *v, const struct volume_view *view, struct parts *p, struct err *err) {
        int r = 0;

        if (view->layer_count > VOLUME_LAYERS_MAX)
                return err_set(err, ERR_LIMIT, "more than %d layers", VOLUME_LAYERS_MAX);
        if (given(view->disk) && view->warm && p->writable) {
                add(p, *view->warm, true);
                p->lent = true;
        } else if (given(view->disk))
                r = add_disk(v, view->disk, p->writable ? VOLUME_WRITE : VOLUME_READ, p, err);
        for (size_t i = 0; r == 0 && i < view->layer_count; i++)
                r = add_disk(v, view->layers[i], p->writable ? VOLUME_SEAL : VOLUME_READ, p, err);
        if (r == 0 && given(view->image))
                r = add_image(v, view->image, p, err);
        if (r == 0 && p->count == 0)
                return err_set(err, ERR_INPUT, "a view of nothing");
        return r;
}

static int mount_view(struct volumes *v, const struct volume_view *view, bool writable, int *ret_mount,
                      struct err *err) {
        _cleanup_(parts_end) struct parts p = {.writable = writable};
        _cleanup_fd_ int mount = -EBADF;

        int r = collect(v, view, &p, err);
        if (r < 0)
                return r;
        const char *name = given(view->disk) ? view->disk : view->layer_count > 0 ? view->layers[0] : view->image;
        if (writable)
                r = adopt_root(&p);
        if (r == 0)
                r = map_ids(&p, view);
        if (r < 0) {
                (void)err_set(err, r, "could not show the disk %s under other ids", name);
                return r == -EINVAL ? err_hint(err, "the state folder's file system does not know idmapped mounts") : r;
        }
        mount = compose(v, &p, view->id_base);
        r = mount < 0 ? mount : look(mount, writable);
        if (r < 0)
                return err_set(err, r, "could not mount the disk %s with %zu layers", name, view->layer_count);
        *ret_mount = TAKE_FD(mount);
        return 0;
}

int volume_mount(struct volumes *v, const struct volume_view *view, int *ret_mount, struct err *err) {
        if (!given(view->disk))
                return err_set(err, ERR_INPUT, "a sandbox's view needs a disk of its own");
        return mount_view(v, view, true, ret_mount, err);
}

int volume_mount_readonly(struct volumes *v, const struct volume_view *view, int *ret_mount, struct err *err) {
        return mount_view(v, view, false, ret_mount, err);
}
