/* Attempts on the tree itself: mounts, roots, namespaces, devices, and a walk over everything that can be written.
 * Mounts are made only on folders of our own, and as a control only in a mount namespace of our own; the walk opens
 * without writing and makes files without names. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "probe/probe.h"

#ifndef RENAME_WHITEOUT
#define RENAME_WHITEOUT (1 << 2)
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

/* A folder of our own to mount on. */
static const char *folder(char path[PATH_MAX]) {
        (void)snprintf(path, PATH_MAX, "%s/probe-dir-%d", probe_folder(), getpid());
        (void)mkdir(path, 0755);
        return path;
}

static void mount_tmpfs(struct result *r) {
        char path[PATH_MAX];

        if (!probe_own_mounts(r))
                return;
        probe_call(r, mount("none", folder(path), "tmpfs", 0, "size=4k"));
        (void)umount2(path, MNT_DETACH);
        (void)rmdir(path);
}

static void mount_bind(struct result *r) {
        char path[PATH_MAX];

        if (!probe_own_mounts(r))
                return;
        probe_call(r, mount("/usr", folder(path), NULL, MS_BIND, NULL));
        (void)umount2(path, MNT_DETACH);
        (void)rmdir(path);
}

static void mount_remount(struct result *r) {
        if (probe_own_mounts(r))
                probe_call(r, mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static void mount_cgroup(struct result *r) {
        char path[PATH_MAX];

        if (!probe_own_mounts(r))
                return;
        /* in the first cgroup namespace root would set the options of the host's own mount by it */
        if (probe_guard() && unshare(CLONE_NEWCGROUP) < 0 && errno != EPERM) {
                probe_note(r, "no cgroup namespace of its own to try it in: %s", strerror(errno));
                return;
        }
        if (mount("none", folder(path), "cgroup2", 0, NULL) == 0 || mount("none", path, "cgroup", 0, "memory") == 0)
                probe_done(r, "mounted");
        else
                probe_refused(r, errno, "%s", strerror(errno));
        (void)umount2(path, MNT_DETACH);
        (void)rmdir(path);
}

/* What is mounted already and could be taken away. A name that is no mount says whether the call is open at all. */
static void umount_mask(struct result *r) {
        int error = EPERM;

        if (!probe_guard()) {
                static const char *const places[] = {"/proc/keys", "/proc", "/usr", "/dev/null", "/tmp"};
                for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                        if (umount2(places[i], MNT_DETACH) == 0) {
                                probe_done(r, "unmounted %s", places[i]);
                                return;
                        }
                        error = errno;
                }
                probe_refused(r, error, "%s", strerror(error));
                return;
        }
        char path[PATH_MAX];
        long value = umount2(folder(path), 0); /* EINVAL: permitted, but no mount */
        probe_gate(r, value);
        (void)rmdir(path);
}

static void new_mount_api(struct result *r) {
        int fs = kernel_fsopen("tmpfs"), tree = kernel_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
        int set = probe_guard() ? -EPERM : kernel_mount_setattr(AT_FDCWD, "/usr", 0, &attr);
        int pick = (int)kernel_result(syscall(SYS_fspick, AT_FDCWD, "/", 1));
        int with = (int)kernel_result(
                syscall(SYS_open_tree_attr, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC, &attr, sizeof attr));

        if (fs >= 0 || tree >= 0 || set >= 0 || pick >= 0 || with >= 0)
                probe_done(r, "fsopen %d open_tree %d mount_setattr %d fspick %d open_tree_attr %d", fs, tree, set,
                           pick, with);
        else
                probe_refused(r, -set, "%s", strerror(-set));
}

static void classic_chroot(struct result *r) {
        char path[PATH_MAX];
        const char *canary = probe_fact("canary-home");
        int top = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (chroot(folder(path)) < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
        } else {
                if (top >= 0)
                        (void)fchdir(top);
                for (int i = 0; i < 64; i++)
                        (void)chdir("..");
                probe_done(r, "chroot worked; canary %s",
                           canary && access(canary + 1, F_OK) == 0 ? "seen" : "not seen");
                (void)chroot(".");
        }
        (void)rmdir(path);
}

static void pivot(struct result *r) {
        char path[PATH_MAX];

        /* not a mount: EINVAL where it is permitted */
        probe_gate(r, kernel_pivot_root(folder(path), path));
        (void)rmdir(path);
}

static void set_namespace(struct result *r, const char *const *paths, size_t count) {
        int error = EPERM;

        for (size_t i = 0; i < count; i++) {
                _cleanup_fd_ int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
                if (fd < 0) {
                        error = errno;
                        continue;
                }
                if (setns(fd, 0) == 0) {
                        probe_done(r, "entered %s", paths[i]);
                        return;
                }
                error = errno;
        }
        probe_refused(r, error, "%s", strerror(error));
}

static void setns_own(struct result *r) {
        static const char *const paths[] = {"/proc/self/ns/net", "/proc/self/ns/mnt", "/proc/self/ns/uts",
                                            "/proc/self/ns/ipc"};

        set_namespace(r, paths, ELEMENTSOF(paths));
}

static void setns_init(struct result *r) {
        static const char *const paths[] = {"/proc/1/ns/mnt", "/proc/1/ns/net", "/proc/1/ns/user", "/proc/1/ns/pid"};
        long pidfd = syscall(SYS_pidfd_open, 1, 0);

        set_namespace(r, paths, ELEMENTSOF(paths));
        if (r->outcome == REFUSED && pidfd >= 0 && setns((int)pidfd, CLONE_NEWNET) == 0)
                probe_done(r, "entered PID 1's network by pidfd");
}

/* Who owns or made a namespace: a descriptor of an outer one would be a start. */
static void namespace_ioctl(struct result *r) {
        enum { NS_GET_USERNS = 0xb701, NS_GET_PARENT = 0xb702 };
        static const char *const names[] = {"user", "mnt", "net", "pid"};
        char path[64];
        int error = EPERM;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
                _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                for (int k = 0; fd >= 0 && k < 2; k++) {
                        int owner = ioctl(fd, k ? NS_GET_PARENT : NS_GET_USERNS);
                        struct stat ours, theirs;
                        if (owner >= 0 && stat("/proc/self/ns/user", &ours) == 0 && fstat(owner, &theirs) == 0 &&
                            ours.st_ino != theirs.st_ino) {
                                probe_done(r, "%s %s is a namespace outside ours", path, k ? "parent" : "owner");
                                return;
                        }
                        if (owner < 0)
                                error = errno;
                }
        }
        probe_refused(r, error, "%s", strerror(error));
}

static void make_node(struct result *r, mode_t type, dev_t device) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s/probe-node-%d", probe_folder(), getpid());
        probe_call(r, mknod(path, type | 0600, device));
        (void)unlink(path);
}

static void node_block(struct result *r) {
        make_node(r, S_IFBLK, makedev(254, 0));
}

static void node_char(struct result *r) {
        make_node(r, S_IFCHR, makedev(1, 1));
}

static void node_whiteout(struct result *r) {
        make_node(r, S_IFCHR, makedev(0, 0));
}

static void rename_whiteout(struct result *r) {
        char from[PATH_MAX], to[PATH_MAX + 8];
        _cleanup_fd_ int fd = probe_scratch(from, sizeof from, "white");

        if (fd < 0) {
                probe_note(r, "no scratch file: %s", strerror(-fd));
                return;
        }
        (void)snprintf(to, sizeof to, "%s.to", from);
        probe_call(r, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_WHITEOUT));
        (void)unlink(from);
        (void)unlink(to);
}

static void file_handle(struct result *r) {
        struct {
                unsigned bytes;
                int type;
                unsigned char data[128];
        } handle = {.bytes = 128};
        int id = 0;

        if (syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &handle, &id, 0) < 0) {
                int error = errno;
                probe_refused(r, error, "name_to_handle_at: %s", strerror(error));
                return;
        }
        _cleanup_fd_ int at = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        long fd = syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
                probe_done(r, "opened by handle");
        else
                probe_done(r, "got a handle, but open_by_handle_at: %s", strerror(errno));
}

/* Every mount is nosuid, and nodev unless it is one device or the terminals. */
static void mount_flags(struct result *r) {
        FILE *f = fopen("/proc/self/mountinfo", "re");
        char line[4096], where[1024], options[512];
        unsigned bad = 0, seen = 0;
        struct stat st;

        if (!f) {
                probe_note(r, "no mountinfo: %s", strerror(errno));
                return;
        }
        while (fgets(line, sizeof line, f)) {
                if (sscanf(line, "%*d %*d %*s %*s %1023s %511s", where, options) != 2)
                        continue;
                seen++;
                bool device = stat(where, &st) == 0 && S_ISCHR(st.st_mode), pts = strstr(line, " - devpts ") != NULL;
                if (!strstr(options, "nosuid") || (!strstr(options, "nodev") && !device && !pts)) {
                        if (bad++ < 4)
                                probe_note(r, "%s is %s", where, options);
                }
        }
        (void)fclose(f);
        if (bad)
                probe_done(r, "%u of %u mounts may carry devices or set-id programs", bad, seen);
        else
                probe_refused(r, EPERM, "all %u mounts are nosuid, and nodev but for single devices", seen);
}

struct walk {
        struct result *r;
        unsigned found, looked;
};

static bool is_allowed(const char *path) {
        char list[1024], *rest = list, *part;

        (void)snprintf(list, sizeof list, "%s", probe_fact("writable") ? probe_fact("writable") : "");
        while ((part = strsep(&rest, ",")))
                if (part[0] && str_starts(path, part) && (path[strlen(part)] == '/' || path[strlen(part)] == '\0'))
                        return true;
        return false;
}

static void found(struct walk *w, const char *path, const char *what) {
        if (w->found++ < 6)
                probe_note(w->r, "%s %s", path, what);
}

static void look_at_folder(struct walk *w, const char *path) {
        char name[PATH_MAX + 32];
        int fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

        if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
                (void)snprintf(name, sizeof name, "%s/.probe-%d", path, getpid());
                fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (fd >= 0)
                        (void)unlink(name);
        }
        if (fd < 0)
                return;
        (void)close(fd);
        found(w, path, "takes new files");
}

/* The whole tree, but for /proc, which other attempts look at. */
static void walk_tree(struct walk *w, const char *path, int depth) {
        DIR *dir = opendir(path[0] ? path : "/");
        char name[PATH_MAX];

        if (!dir || depth > 40)
                return;
        if (!is_allowed(path))
                look_at_folder(w, path[0] ? path : "/");
        for (struct dirent *e; (e = readdir(dir));) {
                int n = snprintf(name, sizeof name, "%s/%s", path, e->d_name);

                if (n < 0 || (size_t)n >= sizeof name || str_eq(e->d_name, ".") || str_eq(e->d_name, "..") ||
                    str_eq(name, "/proc") || is_allowed(name))
                        continue;
                w->looked++;
                if (e->d_type == DT_DIR)
                        walk_tree(w, name, depth + 1);
                else if (e->d_type != DT_LNK && probe_open(name, O_WRONLY) == 0)
                        found(w, name, "opens for writing");
        }
        (void)closedir(dir);
}

static void writable_sweep(struct result *r) {
        struct walk w = {.r = r};

        walk_tree(&w, "", 0);
        if (w.found)
                probe_done(r, "%u places besides the allowed ones, %u looked at", w.found, w.looked);
        else
                probe_refused(r, EROFS, "nothing but the allowed places, %u looked at", w.looked);
}

/* Can it be executed, or mapped as code? source=PATH is a program that may be read. */
static int copy_program(char *path, size_t size) {
        const char *source = probe_fact("source") ? probe_fact("source") : "/usr/bin/true";
        char data[65536];
        _cleanup_fd_ int from = open(source, O_RDONLY | O_CLOEXEC), to = probe_scratch(path, size, "exec");
        ssize_t n;

        if (from < 0 || to < 0)
                return -ENOENT;
        while ((n = read(from, data, sizeof data)) > 0)
                if (fd_write_full(to, data, (size_t)n) < 0)
                        return -EIO;
        return fchmod(to, 0755) < 0 ? -errno : 0;
}

static void run_copy(struct result *r, const char *const *argv) {
        int report[2], error = 0;

        if (pipe(report) < 0)
                return;
        pid_t pid = fork();
        if (pid == 0) {
                (void)close(report[0]);
                (void)fcntl(report[1], F_SETFD, FD_CLOEXEC);
                int null = open("/dev/null", O_RDWR | O_CLOEXEC);
                (void)dup2(null, 2);
                (void)execv(argv[0], (char *const *)(uintptr_t)argv);
                error = errno;
                (void)write(report[1], &error, sizeof error);
                _exit(99);
        }
        (void)close(report[1]);
        bool failed = read(report[0], &error, sizeof error) == sizeof error;
        int status = 0;
        (void)waitpid(pid, &status, 0);
        (void)close(report[0]);
        if (failed)
                probe_refused(r, error, "%s", strerror(error));
        else if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                probe_done(r, "it ran");
        else
                probe_refused(r, EACCES, "it started but did not run: status %#x", (unsigned)status);
}

static void own_program(struct result *r) {
        char path[PATH_MAX];

        if (copy_program(path, sizeof path) == 0)
                run_copy(r, (const char *const[]){path, NULL});
        (void)unlink(path);
}

static void own_program_loader(struct result *r) {
        char path[PATH_MAX];

        if (copy_program(path, sizeof path) == 0)
                run_copy(r, (const char *const[]){"/lib64/ld-linux-x86-64.so.2", path, NULL});
        (void)unlink(path);
}

/* A page whose every byte is an instruction that returns. */
static int write_code(char *path, size_t size) {
        _cleanup_fd_ int fd = probe_scratch(path, size, "code");
        char page[4096];

        memset(page, 0xc3, sizeof page);
        return fd < 0 ? -ENOENT : fd_write_full(fd, page, sizeof page);
}

/* Does what is mapped there run? A kernel may grant the mapping and kill who uses it. */
static bool code_runs(void *at) {
#ifdef __x86_64__
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
                ((void (*)(void))(uintptr_t)at)();
                _exit(0);
        }
        return pid < 0 || waitpid(pid, &status, 0) < 0 || WIFEXITED(status);
#else
        return at != NULL;
#endif
}

/* As code without execve: mapped, or mapped and then made executable. */
static void map_program(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = write_code(path, sizeof path) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -EBADF;

        if (fd < 0)
                return;
        (void)unlink(path);
        void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) {
                probe_refused(r, errno, "mmap: %s", strerror(errno));
                at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
                if (at == MAP_FAILED || mprotect(at, 4096, PROT_READ | PROT_EXEC) < 0)
                        return;
        }
        if (code_runs(at))
                probe_done(r, "a written file is mapped as code, and runs");
        else
                probe_refused(r, EACCES, "a written file is mapped as code, but whoever executes it is killed");
}

static void shm_program(struct result *r) {
        char data[65536], path[64];
        ssize_t n;

        (void)snprintf(path, sizeof path, "/dev/shm/probe-program-%d", getpid());
        {
                _cleanup_fd_ int from = open("/usr/bin/true", O_RDONLY | O_CLOEXEC),
                                 to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
                while (to >= 0 && (n = read(from, data, sizeof data)) > 0)
                        (void)fd_write_full(to, data, (size_t)n);
        }
        run_copy(r, (const char *const[]){path, NULL});
        (void)unlink(path);
}

static void memfd_program(struct result *r) {
        char data[65536], path[64];
        long fd = syscall(SYS_memfd_create, "probe", 0);
        _cleanup_fd_ int from = open("/usr/bin/true", O_RDONLY | O_CLOEXEC);
        ssize_t n;

        if (fd < 0) {
                probe_refused(r, errno, "memfd_create: %s", strerror(errno));
                return;
        }
        while ((n = read(from, data, sizeof data)) > 0)
                (void)fd_write_full((int)fd, data, (size_t)n);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%ld", fd);
        run_copy(r, (const char *const[]){path, NULL});
}

/* A copy of this program that is somebody else's and set-user-ID: setid=PATH. */
static void setid_program(struct result *r) {
        const char *path = probe_fact("setid");
        char by_fd[64];
        _cleanup_fd_ int fd = path ? open(path, O_PATH | O_CLOEXEC) : -EBADF;

        if (fd < 0)
                probe_note(r, "no setid=PATH given, or it is not there");
        else {
                (void)snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d", fd);
                run_copy(r, (const char *const[]){by_fd, "am-root", NULL});
        }
        if (r->outcome == REFUSED && r->error == EACCES)
                r->error = EPERM; /* it ran, as nobody special */
}

/* A kernel without ambient capabilities does not list them. */
static bool has_ambient(void) {
        return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0UL, 0UL, 0UL) >= 0 || errno != EINVAL;
}

static void privileges(struct result *r) {
        char text[4096] = "";
        static const char *const keys[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
        unsigned bad = 0;

        (void)fd_read_at(AT_FDCWD, "/proc/self/status", text, sizeof text);
        for (size_t i = 0; i < ELEMENTSOF(keys); i++) {
                const char *at = strstr(text, keys[i]);
                if (!at && str_eq(keys[i], "CapAmb:") && !has_ambient())
                        continue;
                if (!at || strtoull(at + strlen(keys[i]), NULL, 16) != 0) {
                        probe_note(r, "%.24s", at ? at : keys[i]);
                        bad++;
                }
        }
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
                probe_note(r, "new privileges are possible");
                bad++;
        }
        const char *filter = strstr(text, "Seccomp:");
        if (!filter || strtoul(filter + 8, NULL, 10) != 2) {
                probe_note(r, "no system call filter");
                bad++;
        }
        if (bad)
                probe_done(r, "%u things missing", bad);
        else
                probe_refused(r, EPERM, "no capability in any set, no new privileges, filtered");
}

const struct attempt trees_attempts[] = {
        {"mount-tmpfs", mount_tmpfs, QUICK},
        {"mount-bind", mount_bind, QUICK},
        {"mount-remount", mount_remount, QUICK},
        {"mount-cgroup", mount_cgroup, QUICK},
        {"umount-mask", umount_mask, QUICK},
        {"mount-new-api", new_mount_api, QUICK},
        {"chroot", classic_chroot, QUICK},
        {"pivot-root", pivot, QUICK},
        {"setns-own", setns_own, QUICK},
        {"setns-init", setns_init, QUICK},
        {"namespace-owner", namespace_ioctl, QUICK},
        {"mknod-block", node_block, QUICK},
        {"mknod-char", node_char, QUICK},
        {"mknod-whiteout", node_whiteout, QUICK},
        {"rename-whiteout", rename_whiteout, QUICK},
        {"file-handle", file_handle, QUICK},
        {"mount-flags", mount_flags, QUICK},
        {"writable-sweep", writable_sweep, GUARDED},
        {"own-program", own_program, QUICK},
        {"own-program-loader", own_program_loader, QUICK},
        {"map-program", map_program, QUICK},
        {"shm-program", shm_program, QUICK},
        {"memfd-program", memfd_program, QUICK},
        {"setid-program", setid_program, QUICK},
        {"privileges", privileges, QUICK},
        {0},
};
