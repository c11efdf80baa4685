/* Probes: everything that a sandbox's file tree is made of. Each attempt runs in a mount namespace of its own. */
#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "cell/host-probe.h"

/* A detached tmpfs with these two sizes; a descriptor or -errno. */
static int make_tmpfs(const char *size, const char *inodes) {
        _cleanup_fd_ int fs = kernel_fsopen("tmpfs");
        if (fs < 0)
                return fs;
        int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        return r < 0 ? r : kernel_fsmount(fs, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
}

/* The same, attached to /tmp of this child and entered. */
static int enter_tmpfs(void) {
        int r = host_unshare(CLONE_NEWNS);
        if (r < 0)
                return r;
        _cleanup_fd_ int tmp = make_tmpfs("1m", "64");
        if (tmp < 0)
                return tmp;
        r = kernel_move_mount(tmp, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
        return r == 0 && fchdir(tmp) < 0 ? -errno : r;
}

static int try_mount(void *argument) {
        (void)argument;
        int r = enter_tmpfs();
        if (r < 0)
                return r;
        _cleanup_fd_ int tree = kernel_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (tree < 0)
                return tree;
        if (mkdir("usr", 0755) < 0)
                return -errno;
        return kernel_move_mount(tree, "", AT_FDCWD, "usr", MOVE_MOUNT_F_EMPTY_PATH);
}

static void probe_mount(struct host_fact *f) {
        host_judge(f, host_try(try_mount, NULL), "open_tree, fsopen, fsmount, move_mount", "no sandbox can start",
                   "a kernel of 5.12 or newer; in a container: allow mounting");
}

static int try_setattr(void *argument) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

        (void)argument;
        int r = host_unshare(CLONE_NEWNS);
        if (r < 0)
                return r;
        _cleanup_fd_ int tree = kernel_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (tree < 0)
                return tree;
        r = kernel_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr);
        if (r < 0)
                return r;
        struct statfs fs;
        if (fstatfs(tree, &fs) < 0)
                return -errno;
        return fs.f_flags & 1 /* read-only */ ? 0 : -EIO;
}

static void probe_setattr(struct host_fact *f) {
        host_judge(f, host_try(try_setattr, NULL), "whole trees become read-only at once", "no sandbox can start",
                   "a kernel of 5.12 or newer");
}

/* A user namespace with a map, held by a child of the child. */
static int try_idmap(void *argument) {
        int ready[2];
        char path[64];

        (void)argument;
        int r = host_unshare(CLONE_NEWNS);
        if (r < 0)
                return r;
        if (pipe2(ready, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                bool made = unshare(CLONE_NEWUSER) == 0;

                (void)!write(ready[1], made ? "y" : "n", 1);
                while (made)
                        (void)pause();
                _exit(1);
        }
        char answer = 'n';
        if (pid < 0 || read(ready[0], &answer, 1) != 1 || answer != 'y') {
                if (pid > 0)
                        (void)waitpid(pid, NULL, 0);
                return -EPERM;
        }
        (void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
        r = fd_write_at(AT_FDCWD, path, "0 1073741824 65536");
        (void)snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
        if (r == 0)
                r = fd_write_at(AT_FDCWD, path, "0 1073741824 65536");
        (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
        _cleanup_fd_ int userns = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_fd_ int tree = kernel_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (__u64)userns};
        if (r == 0)
                r = userns < 0 || tree < 0 ? -EBADF : kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return r;
}

static void probe_idmap(struct host_fact *f) {
        if (geteuid() != 0) {
                host_say(f, FACT_LIMITED, "root only");
                host_cost(f, "files inside belong to one id");
                return;
        }
        host_judge(f, host_try(try_idmap, NULL), "on the file system of /usr",
                   "image files must be owned by the mapped ids",
                   "a kernel of 5.12 or newer and ext4, xfs, btrfs or tmpfs");
        if (f->state == FACT_MISSING)
                f->state = FACT_LIMITED;
}

static int mount_overlay(bool user) {
        static const char *const dirs[] = {"lower", "upper", "work", "merged"};

        for (size_t i = 0; i < ELEMENTSOF(dirs); i++)
                if (mkdir(dirs[i], 0755) < 0)
                        return -errno;
        _cleanup_fd_ int fs = kernel_fsopen("overlay");
        if (fs < 0)
                return fs;
        int r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", "/tmp/lower", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", "/tmp/upper", 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", "/tmp/work", 0);
        if (r == 0 && geteuid() == 0)
                (void)kernel_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0);
        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        _cleanup_fd_ int mount = r < 0 ? r : kernel_fsmount(fs, 0);
        if (mount < 0)
                return mount;
        _cleanup_fd_ int fd = openat(mount, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        /* without root the marks on removed and replaced folders are user attributes; tmpfs has them since Linux 6.6 */
        return user && setxattr("/tmp/upper", "user.overlay.probe", "y", 1, 0) < 0 ? -errno : 0;
}

static int try_overlay(void *argument) {
        (void)argument;
        int r = enter_tmpfs();
        return r < 0 ? r : mount_overlay(false);
}

static int try_overlay_user(void *argument) {
        unsigned uid = geteuid(), gid = getegid();

        (void)argument;
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return -errno;
        int r = host_map_self(uid, gid);
        if (r == 0)
                r = enter_tmpfs();
        return r < 0 ? r : mount_overlay(true);
}

static void probe_overlay(struct host_fact *f) {
        host_judge(f, host_try(try_overlay, NULL), "copy-on-write views", "--workspace and the tier high do not work",
                   "as root: modprobe overlay");
}

static void probe_overlay_user(struct host_fact *f) {
        host_judge(f, host_try(try_overlay_user, NULL), "works without root", "--workspace needs root",
                   "a kernel of 6.6 or newer; as root: modprobe overlay");
}

static int try_pivot(void *argument) {
        (void)argument;
        int r = enter_tmpfs();
        if (r < 0)
                return r;
        if (chdir("/tmp") < 0)
                return -errno;
        return kernel_pivot_root(".", ".");
}

static void probe_pivot(struct host_fact *f) {
        host_judge(f, host_try(try_pivot, NULL), "the host's tree can be left for good", "no sandbox can start",
                   "do not start from an initramfs root (boot with a real root file system)");
}

static int try_inodes(void *argument) {
        struct statfs fs;

        (void)argument;
        int r = enter_tmpfs();
        if (r < 0)
                return r;
        if (statfs("/tmp", &fs) < 0)
                return -errno;
        return fs.f_files == 64 && (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize == 1 << 20 ? 0 : -EIO;
}

static void probe_inodes(struct host_fact *f) {
        host_judge(f, host_try(try_inodes, NULL), "with limits on bytes and on inodes", "writable places have no limit",
                   "a kernel with CONFIG_TMPFS");
}

static int try_loop(void *argument) {
        (void)argument;
        _cleanup_fd_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        if (control < 0)
                return -errno;
        _cleanup_fd_ int file = memfd_create("probe", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, 1 << 20) < 0)
                return -errno;
        for (int attempt = 0; attempt < 10; attempt++) { /* others may take the free one first */
                char path[32];
                int number = ioctl(control, LOOP_CTL_GET_FREE);
                if (number < 0)
                        return -errno;
                (void)snprintf(path, sizeof path, "/dev/loop%d", number);
                _cleanup_fd_ int loop = open(path, O_RDWR | O_CLOEXEC);
                struct loop_config config = {.fd = (__u32)file, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
                if (loop < 0)
                        return -errno;
                if (ioctl(loop, LOOP_CONFIGURE, &config) == 0)
                        return 0;
                if (errno != EBUSY)
                        return -errno;
        }
        return -EBUSY;
}

static void probe_loop(struct host_fact *f) {
        host_judge(f, host_try(try_loop, NULL), "disk images can be attached",
                   geteuid() == 0 ? "no disks with a hard quota" : "no disks with a hard quota without root",
                   geteuid() == 0 ? "modprobe loop; in a container: give it /dev/loop-control and loop devices"
                                  : "run as root, or keep writable places on tmpfs");
        if (f->state == FACT_MISSING)
                f->state = FACT_LIMITED;
}

const struct host_probe host_mount_probes[] = {
        {"mount by descriptor", probe_mount, true},
        {"mount_setattr", probe_setattr, true},
        {"pivot_root", probe_pivot, true},
        {"tmpfs", probe_inodes, true},
        {"idmapped mounts", probe_idmap, false},
        {"overlayfs", probe_overlay, false},
        {"overlayfs rootless", probe_overlay_user, false},
        {"loop devices", probe_loop, false},
        {NULL, NULL, false},
};
