/* The stage: see the header. */
#include "driver/stage.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "wire/box.h"

#define STAGE_PROC STAGE "/proc"
#define PROC_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* runsc takes a namespace for the host's first one when it has net.core.rmem_default, which newer kernels show
 * everywhere. And a user namespace may only mount a proc where it sees a whole one: STAGE_PROC is that. */
static int make_proc(struct err *err) {
        if (mount("proc", "/proc", "proc", PROC_FLAGS, NULL) < 0 ||
            mount("proc", STAGE_PROC, "proc", PROC_FLAGS, NULL) < 0)
                return err_set(err, -errno, "could not mount /proc for the box");
        if (mount("none", "/proc/sys/net", "tmpfs", PROC_FLAGS | MS_RDONLY, "size=4k,nr_inodes=2") < 0 &&
            errno != ENOENT)
                return err_set(err, -errno, "could not cover /proc/sys/net for the box");
        return 0;
}

int stage_make(uint32_t id_base, struct err *err) {
        static const struct {
                const char *path;
                bool own;
        } folders[] = {{STAGE_TREE, false},
                       {STAGE_BUNDLE, false},
                       {STAGE_PROC, false},
                       {STAGE_ROOT, false},
                       {STAGE_STATE, true}};

        if (mount("none", STAGE, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4m,nr_inodes=256,mode=755") < 0)
                return err_set(err, -errno, "could not make room for the box");
        for (size_t i = 0; i < ELEMENTSOF(folders); i++)
                if (mkdir(folders[i].path, folders[i].own ? 0700 : 0755) < 0 ||
                    (folders[i].own && chown(folders[i].path, id_base, id_base) < 0))
                        return err_set(err, -errno, "could not make the box's '%s'", folders[i].path);
        return make_proc(err);
}

static int loosen_root(int tree) {
        struct mount_attr attr = {.attr_clr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

        return kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
}

int stage_tree(int tree, bool loosen, struct err *err) {
        _cleanup_fd_ int copy = kernel_open_tree(tree, "",
                                                 AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

        int r = copy < 0 ? copy : loosen ? loosen_root(copy) : 0;
        if (r == 0)
                r = kernel_move_mount(copy, "", AT_FDCWD, STAGE_TREE, MOVE_MOUNT_F_EMPTY_PATH);
        return r < 0 ? err_set(err, r, "could not show the tree to the box") : 0;
}

/* A file system of its own in the tree, attached without following links. */
static int mount_place(void) {
        _cleanup_fd_ int fs = kernel_fsopen("tmpfs"), place = -EBADF, root = -EBADF, point = -EBADF;
        int r = fs;

        if (r >= 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "size", "16k", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "8", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "755", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0)
                return r;
        place = kernel_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        root = open(STAGE_TREE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (place < 0 || root < 0)
                return place < 0 ? place : -errno;
        point = kernel_openat2(root, &BOX_PLACE[1], O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        if (point < 0)
                return point;
        r = kernel_move_mount(place, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
        return r < 0 ? r : TAKE_FD(place);
}

/* A mount of our own program, by its path: what /proc/self/exe leads to may be in the namespace that we came from. */
static int clone_ourselves(void) {
        char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

        if (n < 0)
                return -errno;
        path[n] = '\0';
        return kernel_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* Bound, not copied: it is one file on the host, however many boxes there are. */
static int bind_ourselves(int place) {
        _cleanup_fd_ int point = openat(place, STAGE_ENTER, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

        if (point < 0)
                return -errno;
        _cleanup_fd_ int self = clone_ourselves();
        if (self < 0)
                return self;
        int r = kernel_mount_setattr(self, "", AT_EMPTY_PATH, &attr);
        return r < 0 ? r : kernel_move_mount(self, "", place, STAGE_ENTER, MOVE_MOUNT_F_EMPTY_PATH);
}

int stage_place(struct err *err) {
        _cleanup_fd_ int place = mount_place();

        int r = place < 0 ? place : bind_ourselves(place);
        return r < 0 ? err_set(err, r, "could not put our program into the box's tree") : TAKE_FD(place);
}

int stage_seal(int place, struct err *err) {
        struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};
        int r = kernel_mount_setattr(place, "", AT_EMPTY_PATH, &readonly);

        return r < 0 ? err_set(err, r, "could not seal the box's folder") : 0;
}
