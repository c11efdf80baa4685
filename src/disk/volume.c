/* The folders of disks: opening, dropping, walking, and what is asked of a disk while somebody has it mounted.
 *
 * A disk is there when its disk.img is: it comes to its place by a rename, and leaves by a rename of its folder.
 * Everything else that is found is half-made, and goes when the state is opened. */
#include <dirent.h> /* first: it declares a function that banned.h forbids */

#include "disk/volume.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/kernel.h"
#include "disk/copy.h"
#include "disk/loopdev.h"
#include "disk/superblock.h"
#include "disk/tree.h"
#include "disk/volume-internal.h"

/* Files up to this many bytes on the host are removed at once: it takes a millisecond or two. */
#define REMOVE_NOW (16ULL << 20)

#define SHUTDOWN_NO_LOG 2U /* of FS_IOC_SHUTDOWN: write nothing any more, the journal neither */
#define SHUTDOWN        _IOR('X', 125, uint32_t)

bool volume_is_id(const char *id) {
        return id && strlen(id) == VOLUME_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == VOLUME_ID_SIZE - 1;
}

int volume_check_id(const char *id, struct err *err) {
        return volume_is_id(id) ? 0 : err_set(err, ERR_INPUT, "a disk's id is sixteen hexadecimal digits");
}

static int open_folder(int dir, const char *name, struct err *err) {
        if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
                return err_set(err, -errno, "cannot make the folder '%s'", name);
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? err_set(err, -errno, "cannot open the folder '%s'", name) : fd;
}

int volume_discard(struct volumes *v, int dir, const char *name) {
        uint64_t random;
        char to[64];

        if (getrandom(&random, sizeof random, 0) != sizeof random)
                return -EAGAIN;
        (void)snprintf(to, sizeof to, "%.17s-%016llx", name, (unsigned long long)random);
        return renameat(dir, name, v->trash, to) < 0 ? -errno : 0;
}

static bool finished(int dir, const char *id, const char *mark) {
        char path[64];
        struct stat st;

        (void)snprintf(path, sizeof path, "%.16s/%s", id, mark);
        return volume_is_id(id) && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Calls fn for every name, with whether it is finished. */
static int walk(int folder, const char *mark, int (*fn)(void *data, const char *name, bool done), void *data) {
        int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        if (fd < 0)
                return -errno;
        DIR *dir = fdopendir(fd);
        if (!dir) {
                (void)close(fd);
                return -ENOMEM;
        }
        for (struct dirent *e; r >= 0 && (errno = 0, e = readdir(dir));)
                if (e->d_name[0] != '.')
                        r = fn(data, e->d_name, finished(folder, e->d_name, mark));
        if (r >= 0 && errno)
                r = -errno;
        (void)closedir(dir);
        return MIN(r, 0);
}

struct sweep {
        struct volumes *v;
        int folder;
};

static int sweep_one(void *data, const char *name, bool done) {
        const struct sweep *s = data;

        return done ? 0 : volume_discard(s->v, s->folder, name);
}

/* Whether a mount that is attached nowhere can be cloned. */
static bool clones_detached(void) {
        _cleanup_fd_ int fs = kernel_fsopen("tmpfs"), mount = -EBADF, clone = -EBADF;

        if (fs < 0 || kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return false;
        mount = kernel_fsmount(fs, 0);
        if (mount >= 0)
                clone = kernel_open_tree(mount, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        return clone >= 0;
}

int volumes_open(struct volumes **ret, int state, struct err *err) {
        struct volumes *v = malloc(sizeof *v);

        if (!v)
                return err_set(err, -ENOMEM, "cannot open the disks");
        *v = (struct volumes){-EBADF, -EBADF, -EBADF, -EBADF, -EBADF, .control = -EBADF};
        v->disks = open_folder(state, "disks", err);
        if (v->disks >= 0)
                v->images = open_folder(state, "images", err);
        if (v->images >= 0)
                v->blank = open_folder(state, "blank", err);
        if (v->blank >= 0)
                v->trash = open_folder(v->blank, "trash", err);
        if (v->trash >= 0)
                v->warm = open_folder(v->blank, "disks", err);
        int r = v->warm < 0 ? MIN(MIN(v->disks, v->images), MIN(MIN(v->blank, v->trash), v->warm)) : 0;
        if (r == 0) {
                r = walk(v->disks, VOLUME_IMAGE, sweep_one, &(struct sweep){v, v->disks});
                if (r == 0)
                        r = walk(v->images, "about", sweep_one, &(struct sweep){v, v->images});
                volume_blank_sweep(v);
                volume_warm_sweep(v);
                if (r < 0)
                        (void)err_set(err, r, "cannot tidy up the disks");
        }
        if (r == 0) {
                v->control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
                if (v->control < 0) {
                        r = err_set(err, -errno, "cannot open /dev/loop-control");
                        (void)err_hint(err, "disks need loop devices: modprobe loop");
                }
        }
        if (r < 0) {
                volumes_close(v);
                return r;
        }
        v->detached = clones_detached();
        *ret = v;
        return 0;
}

void volumes_close(struct volumes *v) {
        if (!v)
                return;
        fd_close(&v->disks);
        fd_close(&v->images);
        fd_close(&v->blank);
        fd_close(&v->trash);
        fd_close(&v->warm);
        fd_close(&v->control);
        free(v);
}

void volumes_alone(const struct volumes *v, int keep) {
        const int kept[] = {v->disks, v->images, v->blank, v->trash, v->warm, v->control, keep};
        unsigned from = STDERR_FILENO + 1;

        for (;;) {
                unsigned next = UINT_MAX; /* the lowest one that stays */

                for (size_t i = 0; i < ELEMENTSOF(kept); i++)
                        if (kept[i] >= 0 && (unsigned)kept[i] >= from)
                                next = MIN(next, (unsigned)kept[i]);
                if (next > from)
                        (void)kernel_close_range(from, next == UINT_MAX ? UINT_MAX : next - 1, 0);
                if (next == UINT_MAX)
                        return;
                from = next + 1;
        }
}

void volume_end(struct volume *d) {
        fd_close(&d->folder);
        fd_close(&d->image);
}

int volume_open(struct volumes *v, const char *id, struct volume *ret, struct err *err) {
        _cleanup_volume_ struct volume d = {.id = id, .folder = -EBADF, .image = -EBADF};

        int r = volume_check_id(id, err);
        if (r < 0)
                return r;
        d.folder = openat(v->disks, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (d.folder < 0)
                return err_set(err, -errno, "cannot open the disk %s", id);
        if (fstatat(d.folder, VOLUME_IMAGE, &d.st, AT_SYMLINK_NOFOLLOW) < 0)
                return err_set(err, -errno, "cannot open the disk %s", id);
        d.sealed = !(d.st.st_mode & S_IWUSR);
        d.image = openat(d.folder, VOLUME_IMAGE, (d.sealed ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC);
        if (d.image < 0)
                return err_set(err, -errno, "cannot open the disk %s", id);
        *ret = d;
        d.folder = d.image = -EBADF;
        return 0;
}

int volume_device(const struct volume *d, struct volume_device *ret) {
        char text[16] = "";
        bool readonly;
        ssize_t n = readlinkat(d->folder, "loop", text, sizeof text - 1);

        if (n < 0)
                return errno == ENOENT ? -ENXIO : -errno;
        char *end;
        unsigned long number = strtoul(text, &end, 10);
        bool reading = end > text && str_eq(end, "r");
        if (n == 0 || (*end && !reading) || number > 1U << 20)
                return -ENXIO;
        int fd = loopdev_open((unsigned)number, &d->st, &readonly);
        if (fd >= 0)
                *ret = (struct volume_device){(unsigned)number, readonly, reading || readonly};
        return fd;
}

int volume_folder(struct volumes *v, const char *id, struct err *err) {
        int r = volume_check_id(id, err);

        if (r < 0)
                return r;
        if (mkdirat(v->disks, id, 0700) < 0)
                return err_set(err, -errno, "cannot make the disk %s", id);
        int fd = openat(v->disks, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
                r = err_set(err, -errno, "cannot make the disk %s", id);
                (void)unlinkat(v->disks, id, AT_REMOVEDIR);
                return r;
        }
        return fd;
}

void volume_unfold(struct volumes *v, const char *id) {
        (void)tree_remove(v->disks, id);
}

int volume_make(struct volumes *v, const char *id, uint64_t size, uint64_t inodes, struct err *err) {
        _cleanup_fd_ int folder = volume_folder(v, id, err);

        if (folder < 0)
                return folder;
        int r = volume_blank(v, size, inodes, folder, VOLUME_IMAGE, err);
        if (r < 0)
                volume_unfold(v, id);
        return r;
}

int volume_busy(struct volumes *v, const char *id) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        struct volume_device at;

        int r = volume_open(v, id, &d, NULL);
        if (r < 0)
                return r;
        _cleanup_fd_ int device = volume_device(&d, &at);
        return device >= 0 ? 1 : device == -ENXIO ? 0 : device;
}

int volume_drop(struct volumes *v, const char *id, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        struct volume_device at;
        struct err local;

        int r = volume_open(v, id, &d, &local);
        if (r == -ENOENT) { /* or half of one, which nobody will complete */
                r = volume_is_id(id) ? volume_discard(v, v->disks, id) : 0;
                return r == -ENOENT ? 0 : r < 0 ? err_set(err, r, "could not drop the disk %.16s", id) : 0;
        }
        if (r < 0)
                return err_prefix(err, err_set(err, r, "could not drop the disk %.16s", id), "disk");
        _cleanup_fd_ int device = volume_device(&d, &at);
        if (device >= 0) {
                (void)err_set(err, -EBUSY, "could not drop the disk %s", id);
                (void)err_hint(err, "a sandbox has it, or a layer above it has: stop it first");
                return -EBUSY;
        }
        if (device != -ENXIO)
                return err_set(err, device, "could not look for users of the disk %s", id);
        if ((uint64_t)d.st.st_blocks * 512 <= REMOVE_NOW && unlinkat(d.folder, VOLUME_IMAGE, 0) == 0) {
                /* it is gone: what is left of the folder is half of nothing */
                (void)unlinkat(d.folder, "loop", 0);
                (void)unlinkat(d.folder, VOLUME_YOUNG, 0);
                if (unlinkat(v->disks, id, AT_REMOVEDIR) == 0)
                        return 0;
        }
        r = volume_discard(v, v->disks, id);
        return r < 0 ? err_set(err, r, "could not drop the disk %s", id) : 0;
}

int volume_reclaim(struct volumes *v, struct err *err) {
        struct tree_names names = {0};

        int r = tree_list(v->trash, 1 << 20, &names);
        for (size_t i = 0; r >= 0 && i < names.count; i++) {
                r = tree_remove(v->trash, names.name[i]);
                if (r == -ENOENT)
                        r = 0; /* another child was faster */
        }
        tree_names_free(&names);
        return r < 0 ? err_set(err, r, "could not remove what was dropped") : 0;
}

int volume_clone(struct volumes *v, const char *id, const char *target, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        _cleanup_fd_ int folder = -EBADF, copy = -EBADF;

        int r = volume_open(v, id, &d, err);
        if (r < 0)
                return r;
        folder = volume_folder(v, target, err);
        if (folder < 0)
                return folder;
        copy = openat(folder, "new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        r = copy < 0 ? -errno : volume_copy(d.image, copy);
        if (r == 0 && renameat(folder, "new", folder, VOLUME_IMAGE) < 0)
                r = -errno;
        if (r < 0) {
                volume_unfold(v, target);
                return err_set(err, r, "could not copy the disk %s", id);
        }
        return 0;
}

int volume_settle(const struct volume *d) {
        if (fsync(d->image) < 0 || fsync(d->folder) < 0) /* the bytes, its name */
                return -errno;
        return unlinkat(d->folder, VOLUME_YOUNG, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int volume_sync(struct volumes *v, const char *id, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};

        int r = volume_open(v, id, &d, err);
        if (r < 0)
                return r;
        r = volume_settle(&d);
        if (r == 0 && fsync(v->disks) < 0) /* its folder's name */
                r = -errno;
        return r < 0 ? err_set(err, r, "could not put the disk %s on the host's disk", id) : 0;
}

static bool is_young(const struct volume *d) {
        struct stat st;

        return fstatat(d->folder, VOLUME_YOUNG, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Its bytes are on their way, and have their places on the host's disk: the first fsync then waits for the journal, and
 * the others find it written. */
void volume_order_begin(struct volumes *v, const char *id) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};

        if (volume_open(v, id, &d, NULL) == 0 && is_young(&d))
                (void)sync_file_range(d.image, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int volume_order_names(struct volumes *v, struct err *err) {
        return fsync(v->disks) < 0 ? err_set(err, -errno, "could not put the names of disks on the host's disk") : 0;
}

int volume_order_late(struct volumes *v, const char *id, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};

        int r = volume_open(v, id, &d, err);
        return r < 0 ? (r == -ENOENT ? 0 : r) : is_young(&d) ? volume_sync(v, id, err) : volume_order_names(v, err);
}

/* Only errors that bytes on a disk can be the cause of. */
bool volume_lost(struct volumes *v, const char *id, int error) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        bool broken = error == -EINVAL || error == -EUCLEAN || error == -EBADMSG || error == -EIO || error == -EROFS ||
                      error == ERR_CORRUPT;

        int r = volume_is_id(id) ? volume_open(v, id, &d, NULL) : -EINVAL;
        return r == -ENOENT || (r == 0 && !d.sealed && broken && is_young(&d));
}

/* One more mount of what is mounted already; -ENXIO if it is not. */
static int attach(struct volumes *v, const char *id, struct volume *d, struct err *err) {
        int r = volume_open(v, id, d, err);

        return r < 0 ? r : volume_ext4(v, d, VOLUME_ATTACH, err);
}

static int open_root(int mount, const char *name) {
        int fd = openat(mount, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int volume_flush(struct volumes *v, const char *id, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        _cleanup_fd_ int mount = attach(v, id, &d, err), root = -EBADF;

        if (mount < 0)
                return mount == -ENXIO ? 0 : mount;
        root = open_root(mount, ".");
        int r = root < 0 ? root : syncfs(root) < 0 ? -errno : 0;
        return r < 0 ? err_set(err, r, "could not write back the disk %s", id) : 0;
}

int volume_abandon(struct volumes *v, const char *id, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        _cleanup_fd_ int mount = attach(v, id, &d, err), root = -EBADF;
        uint32_t how = SHUTDOWN_NO_LOG;

        if (mount < 0)
                return mount == -ENXIO ? 0 : mount;
        if (d.sealed)
                return 0; /* nothing is written to it, and others read it */
        root = open_root(mount, ".");
        int r = root < 0 ? root
                         : (int)kernel_result(syscall(SYS_ioctl, root, SHUTDOWN, &how)); /* musl's ioctl takes an int */
        return r < 0 ? err_set(err, r, "could not give up the disk %s", id) : 0;
}

int volume_space(struct volumes *v, const char *id, struct volume_space *ret, struct err *err) {
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        _cleanup_fd_ int mount = attach(v, id, &d, err), root = -EBADF;
        struct volume_space s = {.host_bytes = (uint64_t)d.st.st_blocks * 512};
        struct superblock sb;
        struct statvfs fs;

        if (mount < 0 && mount != -ENXIO)
                return mount;
        int r = superblock_read(d.image, &sb);
        if (r < 0)
                return err_set(err, r, "could not measure the disk %s", id);
        /* the kernel keeps a fiftieth to itself, or 16 MiB; statvfs leaves that out, the superblock does not */
        uint64_t own = MIN(sb.blocks / 50, 4096U);
        uint64_t blocks = sb.free_blocks - MIN(sb.free_blocks, own), inodes = sb.free_inodes;
        if (mount >= 0) {
                root = open_root(mount, ".");
                if (root < 0 || fstatvfs(root, &fs) < 0)
                        return err_set(err, root < 0 ? root : -errno, "could not measure the disk %s", id);
                blocks = fs.f_bavail;
                inodes = fs.f_ffree;
        }
        s.bytes = sb.quota_blocks * VOLUME_BLOCK;
        s.bytes_used = s.bytes - MIN(s.bytes, blocks * VOLUME_BLOCK);
        s.inodes = sb.quota_inodes;
        s.inodes_used = s.inodes - MIN(s.inodes, inodes);
        *ret = s;
        return 0;
}

struct each {
        int (*fn)(void *data, const char *id);
        void *data;
};

static int each_one(void *data, const char *name, bool done) {
        const struct each *e = data;

        return done ? e->fn(e->data, name) : 0;
}

int volume_each(struct volumes *v, bool images, int (*fn)(void *data, const char *id), void *data) {
        return walk(images ? v->images : v->disks, images ? "about" : VOLUME_IMAGE, each_one, &(struct each){fn, data});
}
