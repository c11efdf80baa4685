/* A library for every program inside (gvisor-preload.c): see stage.h.
 *
 * It is named in /etc/ld.so.preload, by a mount on top of the file, which is made empty where a tree has none. What was
 * named there before stays named. A tree in which that cannot be is left as it is: its programs do without. */
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "driver/stage.h"
#include "wire/box.h"

#define LIBRARY   "preload.so"
#define LIST      "preload"
#define LIST_PATH "etc/ld.so.preload"
#define OLD_MAX   2048
#define STRAIGHT  (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

extern const unsigned char preload_library[];
extern const size_t preload_library_size;

static int write_file(int place, const char *name, const void *bytes, size_t size) {
        _cleanup_fd_ int fd = openat(place, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

        return fd < 0 ? -errno : fd_write_full(fd, bytes, size);
}

static int create_point(int root) {
        _cleanup_fd_ int fd = kernel_openat2(root, LIST_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644, STRAIGHT);

        return fd == -EEXIST ? 0 : MIN(fd, 0);
}

/* On a disk there are the sandbox's ids and no others. */
static int create_as(int root, uint32_t id) {
        (void)setfsgid(id);
        (void)setfsuid(id);
        int r = create_point(root);
        (void)setfsuid(0);
        (void)setfsgid(0);
        return r;
}

/* Through a mount of the root alone, which may be written to: nothing that is mounted below it is reached. */
static int make_point(int tree, uint32_t id_base) {
        struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
        _cleanup_fd_ int root = kernel_open_tree(tree, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

        int r = root < 0 ? root : kernel_mount_setattr(root, "", AT_EMPTY_PATH, &attr);
        if (r < 0)
                return r;
        r = create_point(root);
        return r == -EOVERFLOW ? create_as(root, id_base) : r;
}

/* What the tree's own list has. */
static int copy_old(int tree, int place) {
        char old[OLD_MAX];
        struct stat st;
        _cleanup_fd_ int fd = kernel_openat2(tree, LIST_PATH, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, STRAIGHT);

        if (fd < 0 || fstat(fd, &st) < 0)
                return fd < 0 ? fd : -errno;
        if (!S_ISREG(st.st_mode) || st.st_size > OLD_MAX)
                return -EINVAL;
        ssize_t n = fd_read_full(fd, old, sizeof old);
        return n < 0 ? (int)n : write_file(place, LIST, old, (size_t)n);
}

static int mount_list(int tree, int place) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                              MOUNT_ATTR_NOEXEC};
        _cleanup_fd_ int list = kernel_open_tree(place, LIST, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        _cleanup_fd_ int point = kernel_openat2(tree, LIST_PATH, O_PATH | O_CLOEXEC, 0, STRAIGHT);

        if (list < 0 || point < 0)
                return MIN(list, point);
        int r = kernel_mount_setattr(list, "", AT_EMPTY_PATH, &attr);
        return r < 0 ? r : kernel_move_mount(list, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int stage_preload(int place, bool own_root, uint32_t id_base) {
        static const char line[] = BOX_PLACE "/" LIBRARY "\n";
        _cleanup_fd_ int tree = open(STAGE_TREE, O_PATH | O_DIRECTORY | O_CLOEXEC);

        int r = tree < 0 ? -errno : own_root ? make_point(tree, id_base) : 0;
        if (r == 0)
                r = write_file(place, LIBRARY, preload_library, preload_library_size);
        if (r == 0)
                r = write_file(place, LIST, line, sizeof line - 1);
        if (r == 0)
                r = copy_old(tree, place);
        return r < 0 ? r : mount_list(tree, place);
}
