/* Places. The child builds its root in a mount namespace of its own and says over a pipe which step failed; the pipe's
 * end without a word is the exec. */
#include "driver/vm-place.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/kernel.h"

#define ATTACH_POINT "/sys" /* of the host's tree: nothing below it is shown */
#define NEW(path)    ATTACH_POINT path
#define FILES_MAX    65536 /* virtiofsd holds one for each file that the machine's kernel remembers */

struct failure {
        int error;
        char what[60];
};

_noreturn_ static void fail(int pipe, int error, const char *what) {
        struct failure f = {.error = error};

        (void)snprintf(f.what, sizeof f.what, "%s", what);
        (void)!write(pipe, &f, sizeof f);
        _exit(125);
}

/* Folders of the new root, up to the last part of path. */
static int make_parents(const char *path) {
        char part[256];

        for (const char *slash = strchr(path + strlen(ATTACH_POINT) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                size_t n = (size_t)(slash - path);
                if (n >= sizeof part)
                        return -ENAMETOOLONG;
                memcpy(part, path, n);
                part[n] = '\0';
                if (mkdir(part, 0755) < 0 && errno != EEXIST)
                        return -errno;
        }
        return 0;
}

static int attach(int tree, const char *at, bool folder) {
        int r = make_parents(at);

        if (r < 0)
                return r;
        if (folder && mkdir(at, 0755) < 0 && errno != EEXIST)
                return -errno;
        if (!folder && mknod(at, S_IFREG | 0644, 0) < 0 && errno != EEXIST)
                return -errno;
        return kernel_move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH);
}

/* A read-only view of a host path, links on the way to it followed; a device keeps working. 0 also if there is none. */
static int show(const char *from, const char *at, bool device) {
        char to[256];
        struct stat st;
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_RDONLY |
                                              (device ? 0U : (unsigned)MOUNT_ATTR_NODEV)};
        _cleanup_fd_ int source = open(from, O_PATH | O_CLOEXEC), tree = -EBADF;

        if (source < 0)
                return errno == ENOENT ? 0 : -errno;
        if (fstat(source, &st) < 0)
                return -errno;
        tree = kernel_open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
                return tree;
        int r = kernel_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
        if (r < 0)
                return r;
        int n = snprintf(to, sizeof to, ATTACH_POINT "%s", at);
        return n > 0 && (size_t)n < sizeof to ? attach(tree, to, S_ISDIR(st.st_mode)) : -ENAMETOOLONG;
}

/* Where Debian's programs look for their loader. */
static int make_links(void) {
        static const char *const names[] = {"bin", "lib", "lib64"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char target[16], at[32];
                (void)snprintf(target, sizeof target, "usr/%s", names[i]);
                (void)snprintf(at, sizeof at, NEW("/%s"), names[i]);
                if (symlink(target, at) < 0)
                        return -errno;
        }
        return 0;
}

static int show_all(const struct place *p) {
        int r = make_links();

        for (size_t i = 0; r == 0 && i < p->show_count; i++)
                r = show(p->shows[i], p->shows[i], false);
        if (r == 0)
                r = show("/dev/null", "/dev/null", true);
        if (r == 0 && p->kvm)
                r = show("/dev/kvm", "/dev/kvm", true);
        if (r == 0 && p->folder)
                r = show(p->folder, p->folder_at, false);
        return r;
}

static void build_root(const struct place *p, int pipe) {
        char at[256];

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                fail(pipe, -errno, "private mounts");
        if (mount("place", ATTACH_POINT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k") < 0)
                fail(pipe, -errno, "a root");
        int r = show_all(p);
        if (r < 0)
                fail(pipe, r, "its files");
        if (p->tree >= 0) {
                (void)snprintf(at, sizeof at, ATTACH_POINT "%s", p->tree_at);
                r = attach(p->tree, at, true);
                if (r < 0)
                        fail(pipe, r, "the sandbox's tree");
        }
        if (p->proc && (mkdir(NEW("/proc"), 0555) < 0 ||
                        mount("proc", NEW("/proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0))
                fail(pipe, -errno, "/proc");
        if (chdir(ATTACH_POINT) < 0 || kernel_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
            chdir("/") < 0 || mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
                fail(pipe, -errno, "its root");
}

/* First to numbers that nobody wants, then to the right ones; the pipe follows them and closes at exec. */
static int place_descriptors(const struct place *p, int pipe) {
        int given[PLACE_FDS_MAX + 1], last = PLACE_FD_FIRST + (int)p->fd_count;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0)
                return -errno;
        for (size_t i = 0; i <= p->fd_count; i++) {
                given[i] = fcntl(i < p->fd_count ? p->fds[i] : pipe, F_DUPFD_CLOEXEC, 64);
                if (given[i] < 0)
                        return -errno;
        }
        if (dup2(p->errors >= 0 ? p->errors : null, 2) < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
                return -errno;
        for (size_t i = 0; i < p->fd_count; i++)
                if (dup2(given[i], PLACE_FD_FIRST + (int)i) < 0)
                        return -errno;
        if (dup3(given[p->fd_count], last, O_CLOEXEC) < 0)
                return -errno;
        int r = kernel_close_range((unsigned)last + 1, ~0U, 0);
        return r < 0 ? r : last;
}

static int drop_capabilities(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int drop_bounding(void) {
        for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return -errno;
        return 0;
}

/* Either an id of the host without any capability, or root of a namespace that has none over the host. */
static int become(const struct place *p) {
        bool joins = p->user_ns >= 0;
        unsigned id = joins ? 0 : p->id;

        if (joins ? setns(p->user_ns, CLONE_NEWUSER) < 0 : drop_bounding() < 0)
                return -errno;
        if (setgroups(0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
                return -errno;
        if (!joins && drop_capabilities() < 0)
                return -errno;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        return 0;
}

unsigned place_files_max(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return 0;
        return (unsigned)MIN(files.rlim_max, (rlim_t)FILES_MAX); /* nobody may need a right to raise it */
}

static int limit_self(void) {
        const struct rlimit core = {0, 0}, files = {place_files_max(), place_files_max()};

        return setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0 ? -errno : 0;
}

_noreturn_ static void run_child(const struct place *p, char *const argv[], int pipe) {
        static char *const environment[] = {NULL};
        static const uint64_t default_action[4];

        for (int n = 1; n < 65; n++)
                (void)syscall(SYS_rt_sigaction, n, default_action, NULL, 8);
        (void)setsid();
        (void)umask(022);
        build_root(p, pipe);
        int r = limit_self();
        if (r < 0)
                fail(pipe, r, "its limits");
        r = become(p);
        if (r < 0)
                fail(pipe, r, "its ids");
        r = place_descriptors(p, pipe);
        if (r < 0)
                fail(pipe, r, "its descriptors");
        (void)execve(argv[0], argv, environment);
        fail(r, -errno, argv[0]);
}

int place_start(const struct place *p, char *const argv[], pid_t *ret_pid, int *ret_pidfd, struct err *err) {
        _cleanup_fd_ int pidfd = -EBADF, from = -EBADF, to = -EBADF;
        struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID |
                                           CLONE_PIDFD,
                                  .pidfd = (unsigned long long)(uintptr_t)&pidfd,
                                  .exit_signal = SIGCHLD};
        struct failure f = {0};
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not start '%s'", argv[0]);
        from = ends[0];
        to = ends[1];
        pid_t pid = kernel_clone3(&args);
        if (pid == 0)
                run_child(p, argv, to);
        if (pid < 0)
                return err_set(err, pid, "could not make the namespaces of '%s'", argv[0]);
        fd_close(&to);
        if (fd_read_full(from, &f, sizeof f) == sizeof f) {
                (void)waitpid(pid, NULL, 0);
                f.what[sizeof f.what - 1] = '\0';
                return err_set(err, f.error < 0 ? f.error : -EIO, "could not start '%s': %s", argv[0], f.what);
        }
        *ret_pid = pid;
        *ret_pidfd = TAKE_FD(pidfd);
        return 0;
}
