/* Blank disks that are on a loop device and mounted before anybody asks for one. Attaching and mounting are most of
 * what a disk costs, and nearly all of it is waiting for the kernel; what is left when a sandbox wants a disk is a
 * rename.
 *
 * One is the folder <blank>/disks/<name> with the same files as a disk has, and a mount that is attached nowhere. The
 * mount is its owner's, who passes it on with the disk: when he dies, the mount and the device go with him, and
 * whoever opens the state next removes the folder. A folder that became a disk meanwhile is an ordinary disk, not
 * mounted. */
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include "base/kernel.h"
#include "disk/tree.h"
#include "disk/volume-internal.h"

/* What the first mount of a disk looks at is in memory from here on. */
static int look(int mount) {
        static const char *const names[] = {"upper", "work"};
        struct stat st;

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (fstatat(mount, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return -errno;
        return 0;
}

static int fill(struct volumes *v, const char *name, uint64_t size, uint64_t inodes, bool settled, struct err *err) {
        _cleanup_volume_ struct volume d = {.id = name, .folder = -EBADF, .image = -EBADF};

        d.folder = openat(v->warm, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (d.folder < 0)
                return err_set(err, -errno, "cannot make a disk");
        int r = volume_blank(v, size, inodes, d.folder, VOLUME_IMAGE, err);
        if (r < 0)
                return r;
        d.image = openat(d.folder, VOLUME_IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (d.image < 0 || fstat(d.image, &d.st) < 0)
                return err_set(err, -errno, "cannot open a blank disk");
        _cleanup_fd_ int mount = volume_ext4(v, &d, VOLUME_WRITE, err);
        if (mount < 0)
                return mount;
        r = look(mount);
        if (r == 0 && settled)
                r = volume_settle(&d);
        return r < 0 ? err_set(err, r, "cannot look at a blank disk") : TAKE_FD(mount);
}

int volume_warm(struct volumes *v, const char *name, uint64_t size, uint64_t inodes, bool settled, int *ret_mount,
                struct err *err) {
        int r = volume_check_id(name, err);

        if (r < 0)
                return r;
        if (mkdirat(v->warm, name, 0700) < 0)
                return err_set(err, -errno, "cannot make a disk");
        r = fill(v, name, size, inodes, settled, err);
        if (r < 0) {
                volume_warm_drop(v, name);
                return r;
        }
        *ret_mount = r;
        return 0;
}

int volume_make_warm(struct volumes *v, const char *id, const char *name, struct err *err) {
        int r = volume_check_id(id, err);

        if (r == 0)
                r = volume_check_id(name, err);
        if (r < 0)
                return r;
        r = (int)kernel_result(syscall(SYS_renameat2, v->warm, name, v->disks, id, RENAME_NOREPLACE));
        return r < 0 ? err_set(err, r, "cannot make the disk %s", id) : 0;
}

void volume_warm_drop(struct volumes *v, const char *name) {
        (void)tree_remove(v->warm, name);
}

void volume_warm_sweep(struct volumes *v) {
        struct tree_names names = {0};

        if (tree_list(v->warm, 1 << 16, &names) < 0)
                return;
        for (size_t i = 0; i < names.count; i++)
                volume_warm_drop(v, names.name[i]);
        tree_names_free(&names);
}
