/* See fc-jail.h. The jailer binds the root over itself with all that is mounted below it, so that files of the host's
 * can be shown by mounts: nothing is copied but the program, which the jailer insists on. */
#include "driver/fc-jail.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"

#define FILES_MAX 256 /* descriptors that Firecracker may have: its devices, its API, and one for each stream */
#define MARGIN    (1U << 20)

int jail_find(const char *name, char ret[PATH_MAX], struct err *err) {
        static const char *const folders[] = {"/usr/local/bin", "/usr/bin"};
        char path[64];

        for (size_t i = 0; i < ELEMENTSOF(folders); i++) {
                (void)snprintf(path, sizeof path, "%s/%s", folders[i], name);
                if (access(path, X_OK) == 0 && realpath(path, ret))
                        return 0;
        }
        (void)err_set(err, ERR_UNENFORCED, "'%s' is not installed", name);
        (void)err_hint(err, "install firecracker and jailer of one release, 1.16 or a newer 1.x, in /usr/local/bin: "
                            "https://github.com/firecracker-microvm/firecracker/releases");
        return ERR_UNENFORCED;
}

static void add_pair(struct buf *b, const char *option, const char *value) {
        words_add(b, option);
        words_add(b, value);
}

static void add_number(struct buf *b, const char *option, unsigned value) {
        words_add(b, option);
        buf_printf(b, "%u", value);
        words_end(b);
}

int jail_words(const struct jail *j, struct words *ret) {
        _cleanup_buf_ struct buf b = {0};

        words_add(&b, j->jailer);
        add_pair(&b, "--id", j->id);
        add_pair(&b, "--exec-file", j->program);
        add_number(&b, "--uid", j->id_base + 1);
        add_number(&b, "--gid", j->id_base + 1);
        add_pair(&b, "--chroot-base-dir", j->base);
        add_pair(&b, "--netns", j->network);
        words_add(&b, "--resource-limit");
        buf_printf(&b, "no-file=%u", FILES_MAX);
        words_end(&b);
        words_add(&b, "--"); /* the rest is Firecracker's */
        add_pair(&b, "--api-sock", JAIL_SOCKET);
        return words_take(&b, ret);
}

int jail_path(const struct jail *j, const char *inside, char ret[108], struct err *err) {
        int n = snprintf(ret, 108, "%s/%s/%s/root%s", j->base, strrchr(j->program, '/') + 1, j->id, inside);

        return n > 0 && n < 108 ? 0 : err_set(err, ERR_LIMIT, "paths of Firecracker's root are too long");
}

/* Folders on the way to the root, below the base. */
static int make_folders(const struct jail *j, struct err *err) {
        char path[108];
        int r = jail_path(j, "/", path, err);

        if (r < 0)
                return r;
        for (char *slash = strchr(path + strlen(j->base) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (mkdir(path, 0755) < 0)
                        return err_set(err, -errno, "could not make Firecracker's root");
                *slash = '/';
        }
        return 0;
}

/* The program is executed there, and the jailer makes devices there. */
static int make_base(const struct jail *j, struct err *err) {
        char options[48];
        struct stat st;

        if (stat(j->program, &st) < 0)
                return err_set(err, -errno, "cannot look at '%s'", j->program);
        (void)snprintf(options, sizeof options, "mode=755,size=%llu", (unsigned long long)st.st_size + MARGIN);
        if (mount("jail", j->base, "tmpfs", MS_NOSUID, options) < 0)
                return err_set(err, -errno, "could not make a file system for Firecracker");
        return 0;
}

static int show(const char *image, const char *name, const char *at) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                              MOUNT_ATTR_NOEXEC};
        _cleanup_fd_ int folder = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC), file = -EBADF, tree = -EBADF;

        if (folder < 0)
                return -errno;
        file = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (file < 0 || mknod(at, S_IFREG | 0444, 0) < 0)
                return -errno;
        tree = kernel_open_tree(file, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
                return tree;
        int r = kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
        return r < 0 ? r : kernel_move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH);
}

int jail_build(const struct jail *j, const char *image, struct err *err) {
        static const struct { const char *name, *inside; } files[] = {{"kernel", JAIL_KERNEL}, {"initrd", JAIL_INITRD}};
        char at[108];

        int r = make_base(j, err);
        if (r == 0)
                r = make_folders(j, err);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(files); i++) {
                r = jail_path(j, files[i].inside, at, err);
                if (r < 0)
                        return r;
                r = show(image, files[i].name, at);
                if (r < 0)
                        return err_set(err, r, "could not show '%s/%s' to Firecracker", image, files[i].name);
        }
        return r;
}

int jail_listen(const struct jail *j, unsigned port, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        char inside[32];

        (void)snprintf(inside, sizeof inside, JAIL_VSOCK "_%u", port);
        int r = jail_path(j, inside, at.sun_path, err);
        if (r < 0)
                return r;
        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || chmod(at.sun_path, 0600) < 0 ||
            lchown(at.sun_path, j->id_base + 1, j->id_base + 1) < 0 || listen(fd, 1) < 0)
                return err_set(err, -errno, "could not make a socket for the machine's port %u", port);
        return TAKE_FD(fd);
}
