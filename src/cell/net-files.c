/* What the gate says to the sandbox, as files below one path: `denials`, the last refusals as text; and where the gate
 * opens TLS, the authority that it signs with (ca.pem, ca-bundle.pem, ca.jks), which is also put in the place of the
 * system's list of authorities.
 *
 * The files are on a tmpfs of their own with two mounts. Through the lower one `denials` was opened for writing, and
 * that descriptor is handed out. The upper one covers it and is read-only. Nobody inside owns the mount namespace, or
 * without root every mount in it is locked: what is covered cannot be reached. (To detach the lower one instead would
 * wait for every processor of the host, a millisecond when it is busy.) */
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "cell/net.h"
#include "cell/tree.h"

#define FILES_SIZE   (2 << 20) /* bytes, of which only those in use are there */
#define FILES_INODES 8

static const char nothing_yet[] = "nothing was refused yet\n";

static const char *const authority_names[] = {
        [GATE_CA_PEM] = "ca.pem", [GATE_CA_BUNDLE] = "ca-bundle.pem", [GATE_CA_JAVA] = "ca.jks"};
static_assert(ELEMENTSOF(authority_names) == ELEMENTSOF(((struct cell_context *)NULL)->authority), "one name for each");

/* Where distributions keep the list of authorities that programs trust. A link among them leads to another one. */
static const char *const system_lists[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ca-certificates/extracted/tls-ca-bundle.pem",
        "/var/lib/ca-certificates/ca-bundle.pem",
};

static int make_file(int mount, const char *name, int flags) {
        _cleanup_fd_ int fd = openat(mount, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

        /* whatever the caller's umask is */
        return fd < 0 || fchmod(fd, 0644) < 0 ? -errno : TAKE_FD(fd);
}

/* From the beginning, whatever others have read of the same open file. */
static int copy_file(int mount, const char *name, int from) {
        _cleanup_fd_ int to = make_file(mount, name, O_WRONLY);
        off_t at = 0;
        ssize_t n;

        if (to < 0)
                return to;
        do
                n = sendfile(to, from, &at, FILES_SIZE);
        while (n > 0);
        return n < 0 ? -errno : 0;
}

/* The bundle in the place of the system's list, where the sandbox has one. */
static int cover_list(const struct cell_context *c, int mount, const char *path) {
        struct stat st;
        _cleanup_fd_ int point = tree_inside(c, path), file = -EBADF;

        if (point == -ENOENT || point == -ENOTDIR || point == -ELOOP)
                return 0;
        if (point < 0)
                return point;
        if (fstat(point, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return 0;
        file = kernel_open_tree(mount, authority_names[GATE_CA_BUNDLE],
                                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
        if (file < 0)
                return file;
        return kernel_move_mount(file, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int net_files(const struct cell_context *c, const char *path, bool trust) {
        struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};
        _cleanup_fd_ int lower = tree_tmpfs(c, FILES_SIZE, FILES_INODES, 0755, false, MOUNT_ATTR_NOEXEC),
                         upper = -EBADF, denials = -EBADF;

        if (lower < 0)
                return lower;
        denials = make_file(lower, "denials", O_RDWR);
        if (denials < 0)
                return denials;
        int r = fd_write_full(denials, nothing_yet, sizeof nothing_yet - 1);
        for (size_t i = 0; r == 0 && trust && i < ELEMENTSOF(authority_names); i++)
                r = copy_file(lower, authority_names[i], c->authority[i]);
        if (r < 0)
                return r;

        /* attached first: before Linux 6.15 nothing else can be cloned */
        r = tree_attach(c, lower, path, true);
        if (r < 0)
                return r;
        upper = kernel_open_tree(lower, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (upper < 0)
                return upper;
        r = kernel_mount_setattr(upper, "", AT_EMPTY_PATH, &readonly);
        if (r == 0)
                r = tree_attach(c, upper, path, true);
        for (size_t i = 0; r == 0 && trust && i < ELEMENTSOF(system_lists); i++)
                r = cover_list(c, upper, system_lists[i]);
        return r < 0 ? r : TAKE_FD(denials);
}
