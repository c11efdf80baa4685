/* A disk's own file system: mounted, shared with those who have it mounted already, sealed, repaired.
 *
 * A file system is opened by its device, so that a second mount of a device is the same file system in the kernel. An
 * open descriptor of the device is held from the moment at which we know what is behind it until the mount holds it. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "disk/loopdev.h"
#include "disk/superblock.h"
#include "disk/volume-internal.h"

/* How long volume_ext4 waits for a device that is about to go with its last user. */
enum { WAIT_MS = 100 };

static int set_flags(int fs, const char *const *flags) {
        int r = 0;

        for (; r == 0 && *flags; flags++)
                r = kernel_fsconfig(fs, FSCONFIG_SET_FLAG, *flags, NULL, 0);
        return r;
}

static int mount_device(unsigned number, bool readonly) {
        /* No thread of its own that fills inode tables with zeros; blocks that are freed are freed on the host, too;
         * and mounting waits for no disk: volume_order comes later. */
        static const char *const writing[] = {"noinit_itable", "discard", "nobarrier", NULL};
        static const char *const reading[] = {"ro", "noload", NULL};
        char path[LOOPDEV_PATH_SIZE];
        _cleanup_fd_ int fs = kernel_fsopen("ext4");

        if (fs < 0)
                return fs;
        int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "source", loopdev_path(number, path), 0);
        if (r == 0)
                r = set_flags(fs, readonly ? reading : writing);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0)
                return r;
        return kernel_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
}

int volume_order(struct volumes *v, const char *id, struct err *err) {
        static const char *const flags[] = {"barrier", NULL};
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        _cleanup_fd_ int mount = -EBADF, fs = -EBADF;

        int settled = 0, r = volume_open(v, id, &d, err);
        if (r < 0 || d.sealed)
                return r;
        if (faccessat(d.folder, VOLUME_YOUNG, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                settled = volume_settle(&d);
                if (settled < 0)
                        (void)err_set(err, settled, "could not put the disk %s on the host's disk", id);
        }
        mount = volume_ext4(v, &d, VOLUME_ATTACH, err);
        if (mount < 0)
                return mount == -ENXIO ? settled : mount;
        fs = (int)kernel_result(syscall(SYS_fspick, mount, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
        r = fs < 0 ? fs : set_flags(fs, flags);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
        return r < 0 ? err_set(err, r, "could not order the writes of the disk %s", id) : settled;
}

/* Which device a disk is on, for whoever looks for it later; a link, because that is made in one step. "7r": attached
 * to be read. */
struct birth {
        const struct volume *d;
        bool reading;
};

static int note(void *data, unsigned number) {
        const struct birth *b = data;
        char text[16];

        (void)snprintf(text, sizeof text, "%u%s", number, b->reading ? "r" : "");
        if (unlinkat(b->d->folder, "loop", 0) < 0 && errno != ENOENT)
                return -errno;
        return symlinkat(text, b->d->folder, "loop") < 0 ? -errno : 0;
}

static int note_nothing(void *data, unsigned number) {
        (void)data;
        (void)number;
        return 0;
}

static int mount_new(struct volumes *v, const struct volume *d, bool readonly, bool reading) {
        struct birth b = {d, reading};
        unsigned number = 0;
        _cleanup_fd_ int device = loopdev_attach(v->control, d->image, readonly, note, &b, &number);

        return device < 0 ? device : mount_device(number, readonly);
}

int volume_ext4_plain(struct volumes *v, int image) {
        unsigned number = 0;
        _cleanup_fd_ int device = loopdev_attach(v->control, image, false, note_nothing, NULL, &number);

        return device < 0 ? device : mount_device(number, false);
}

/* Waits shortly until no sandbox writes to a disk. -ENXIO: it is on no device; 0: it is, and is only read from there;
 * -EBUSY: somebody goes on writing. */
static int wait_free(const struct volume *d) {
        struct volume_device at;

        for (unsigned i = 0;; i++) {
                int device = volume_device(d, &at);
                if (device < 0)
                        return device;
                /* our own look at it must not be what keeps it */
                (void)close(device);
                if (at.reading)
                        return 0;
                if (i >= WAIT_MS)
                        return -EBUSY;
                (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
}

/* Replays its journal, by mounting it for writing once. */
static int settle(struct volumes *v, const struct volume *d) {
        struct superblock sb;

        int r = superblock_read(d->image, &sb);
        if (r < 0 || !sb.dirty)
                return r;
        _cleanup_fd_ int mount = mount_new(v, d, false, false);
        if (mount < 0)
                return mount;
        fd_close(&mount);
        r = wait_free(d);
        if (r != -ENXIO)
                return r;
        r = superblock_read(d->image, &sb);
        return r < 0 ? r : sb.dirty ? -EUCLEAN : 0;
}

static int seal(struct volumes *v, const struct volume *d, struct err *err) {
        int r = wait_free(d);

        if (r == -EBUSY) {
                (void)err_set(err, r, "could not seal the disk %s", d->id);
                (void)err_hint(err, "a sandbox writes to it: stop it first");
                return r;
        }
        r = r == -ENXIO ? settle(v, d) : r;
        if (r == 0 && fchmod(d->image, 0400) < 0)
                r = -errno;
        return r < 0 ? err_set(err, r, "could not seal the disk %s", d->id) : 0;
}

/* Shares what is there. A disk that was sealed while somebody read it stays on a device that could be written to until
 * the last of them is gone; nobody has a mount that would. */
static int mount_shared(struct volumes *v, const struct volume *d, bool sealed, bool now_only, struct err *err) {
        struct volume_device at = {0};
        _cleanup_fd_ int device = volume_device(d, &at);
        int r = device;

        if (device >= 0)
                r = mount_device(at.number, at.readonly);
        else if (device == -ENXIO) {
                if (now_only)
                        return -ENXIO;
                r = mount_new(v, d, sealed, true);
        }
        return r < 0 ? err_set(err, r, "could not mount the disk %s", d->id) : r;
}

/* For a sandbox to write to. Whoever reads it meanwhile reads the same file system. */
static int mount_writable(struct volumes *v, const struct volume *d, struct err *err) {
        struct volume_device at = {0};

        if (d->sealed) {
                (void)err_set(err, ERR_REFUSED, "the disk %s is sealed: it is a layer of snapshots", d->id);
                (void)err_hint(err, "put a new disk on top of it");
                return ERR_REFUSED;
        }
        int r = wait_free(d);
        if (r == -EBUSY) {
                (void)err_set(err, r, "could not mount the disk %s", d->id);
                (void)err_hint(err, "another sandbox has it");
                return r;
        }
        _cleanup_fd_ int device = r == 0 ? volume_device(d, &at) : -ENXIO;
        if (device >= 0) {
                struct birth b = {d, false};
                r = note(&b, at.number);
                r = r < 0 ? r : mount_device(at.number, false);
        } else if (r == 0 || r == -ENXIO)
                r = mount_new(v, d, false, false);
        return r < 0 ? err_set(err, r, "could not mount the disk %s", d->id) : r;
}

int volume_ext4(struct volumes *v, const struct volume *d, enum volume_use use, struct err *err) {
        int r;

        switch (use) {
        case VOLUME_WRITE:
                return mount_writable(v, d, err);
        case VOLUME_SEAL:
                r = d->sealed ? 0 : seal(v, d, err);
                return r < 0 ? r : mount_shared(v, d, true, false, err);
        case VOLUME_READ:
                return mount_shared(v, d, d->sealed, false, err);
        case VOLUME_ATTACH:
                return mount_shared(v, d, d->sealed, true, err);
        default:
                return err_set(err, -EINVAL, "could not mount the disk %s", d->id);
        }
}
