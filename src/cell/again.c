/* Sockets of a sandbox again: see the header. */
#include "cell/again.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/kernel.h"
#include "wire/packet.h"

#ifndef PIDFD_GET_NET_NAMESPACE
#define PIDFD_GET_NET_NAMESPACE _IO(0xFF, 4)
#endif
#define DENIALS_FOLDER "run/stockade/net" /* where every plan's network says what it refused */

/* The process's network namespace: from the pidfd, or by its number where the kernel cannot say. */
static int network_of(int pidfd) {
        char path[64], text[512];

        int fd = ioctl(pidfd, PIDFD_GET_NET_NAMESPACE, 0);
        if (fd >= 0)
                return fd;
        (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return -ESRCH;
        const char *line = strstr(text, "\nPid:");
        long pid = line ? strtol(line + 5, NULL, 10) : 0;
        if (pid <= 0)
                return -ESRCH;
        (void)snprintf(path, sizeof path, "/proc/%ld/ns/net", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* Without root: the user namespace that owns the network comes first; its owner is us. */
static int enter_network(int pidfd, bool rootless) {
        _cleanup_fd_ int network = network_of(pidfd);

        if (network < 0)
                return network;
        if (rootless) {
                _cleanup_fd_ int owner = ioctl(network, NS_GET_USERNS);
                if (owner < 0 || setns(owner, CLONE_NEWUSER) < 0)
                        return -errno;
        }
        return setns(network, CLONE_NEWNET) < 0 ? -errno : 0;
}

/* Ours, as the cell made it, and not something that code inside put in its place: only root has ever written there. */
static bool is_ours(int fd, mode_t type) {
        struct stat st;
        struct statfs fs;

        return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == 0 && !(st.st_mode & 022) &&
               (type == S_IFDIR || st.st_nlink == 1) && fstatfs(fd, &fs) == 0 && (long)fs.f_type == TMPFS_MAGIC;
}

/* The file is on a mount that is read-only inside. We own the mount namespace, so a copy of the mount can be writable.
 */
static int open_denials(int pidfd, const char *tree) {
        struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};

        if (setns(pidfd, CLONE_NEWNS) < 0)
                return -errno;
        _cleanup_fd_ int root = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return -errno;
        _cleanup_fd_ int folder = kernel_openat2(root, DENIALS_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                                                 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (folder < 0)
                return folder;
        if (!is_ours(folder, S_IFDIR))
                return -EPERM;
        _cleanup_fd_ int mount = kernel_open_tree(folder, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
        if (mount < 0)
                return mount;
        _cleanup_fd_ int file = openat(mount, "denials", O_PATH | O_CLOEXEC | O_NOFOLLOW);
        if (file < 0)
                return -errno;
        if (!is_ours(file, S_IFREG))
                return -EPERM;
        int r = kernel_mount_setattr(mount, "", AT_EMPTY_PATH, &writable);
        if (r < 0)
                return r;
        int fd = openat(mount, "denials", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int make(int pidfd, bool rootless, const char *tree, int fds[NET_FDS]) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int r = enter_network(pidfd, rootless);

        if (r == 0)
                r = net_sockets(fds);
        if (r < 0)
                return r;
        fds[GATE_DENIALS] = rootless ? -EPERM : open_denials(pidfd, tree);
        if (fds[GATE_DENIALS] < 0)
                fds[GATE_DENIALS] = null;
        return fds[GATE_DENIALS] < 0 ? -EBADF : 0;
}

int again_network(int pidfd, bool rootless, const char *tree, int ret[NET_FDS]) {
        int ends[2], fds[NET_FDS], status = -1;
        size_t count = 0;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        _cleanup_fd_ int ours = ends[0], theirs = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                status = make(pidfd, rootless, tree, fds);
                _exit(packet_send(theirs, &(struct iovec){&status, sizeof status}, 1, fds,
                                  status < 0 ? 0 : (size_t)NET_FDS) < 0);
        }
        fd_close(&theirs);
        ssize_t n = packet_receive(ours, &status, sizeof status, fds, NET_FDS, &count);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        if (n == (ssize_t)sizeof status && status == 0 && count == NET_FDS) {
                memcpy(ret, fds, sizeof fds);
                return 0;
        }
        packet_close(fds, count);
        return n < 0 ? (int)n : n != (ssize_t)sizeof status ? -EPIPE : status < 0 ? status : -EBADMSG;
}
