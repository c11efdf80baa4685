/* Attempts on files outside: the host's, a sibling's, those of PID 1, and what the kernel shows of itself in /proc.
 * Nothing here writes to a file that it did not make: writable is what can be opened for writing. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

static void read_fact(struct result *r, const char *key) {
        const char *path = probe_fact(key);

        if (path)
                probe_read(r, path);
        else
                probe_note(r, "no %s=PATH given", key);
}

static void host_root_file(struct result *r) {
        read_fact(r, "canary-root");
}

static void host_home_file(struct result *r) {
        read_fact(r, "canary-home");
}

static void host_tmp_file(struct result *r) {
        read_fact(r, "canary-tmp");
}

/* Not what is in it: a control's words are in a report. */
static void shadow(struct result *r) {
        probe_answer(r, probe_open("/etc/shadow", O_RDONLY));
}

static void sibling_file(struct result *r) {
        char path[PATH_MAX];

        read_fact(r, "sibling-file");
        if (r->outcome == DONE)
                return;
        (void)snprintf(path, sizeof path, "/proc/%lu/root%s", probe_number("sibling-pid", 0),
                       probe_fact("sibling-file") ? probe_fact("sibling-file") : "/");
        probe_read(r, path);
}

/* Every root, cwd and exe that /proc shows, and the way up from there. */
static void proc_root_walk(struct result *r) {
        static const char *const ways[] = {"root", "cwd", "root/..", "root/../..", "cwd/../../../..", "task/1/root"};
        const char *canary = probe_fact("canary-home");
        DIR *proc = opendir("/proc");
        char path[PATH_MAX];
        int error = 0;

        if (!proc || !canary) {
                probe_note(r, "no /proc or no canary-home");
                return;
        }
        for (struct dirent *e; (e = readdir(proc));)
                for (size_t i = 0; e->d_name[0] >= '1' && e->d_name[0] <= '9' && i < ELEMENTSOF(ways); i++) {
                        (void)snprintf(path, sizeof path, "/proc/%s/%s%s", e->d_name, ways[i], canary);
                        if (access(path, F_OK) == 0) {
                                probe_read(r, path);
                                if (r->outcome == DONE)
                                        return;
                        }
                        error = errno;
                }
        (void)closedir(proc);
        probe_refused(r, error, "the canary is under no process's root or cwd");
}

/* Descriptors beyond the three streams, and whether a path leads out of any. */
static void fd_leak(struct result *r) {
        DIR *all = opendir("/proc/self/fd");
        char name[PATH_MAX];
        int extra = 0;

        if (!all) {
                probe_note(r, "the descriptors cannot be listed: %s", strerror(errno));
                return;
        }
        for (struct dirent *e; (e = readdir(all));) {
                int fd = (int)strtol(e->d_name, NULL, 10);
                if (e->d_name[0] == '.' || fd < 3 || fd == dirfd(all))
                        continue;
                ssize_t n = readlinkat(dirfd(all), e->d_name, name, sizeof name - 1);
                name[n > 0 ? n : 0] = '\0';
                extra++;
                probe_note(r, "%d is %s", fd, name);
                if (faccessat(fd, "../../../../../etc/hostname", F_OK, 0) == 0)
                        probe_note(r, "and leads to a tree");
        }
        (void)closedir(all);
        if (extra)
                probe_done(r, "%d descriptors were inherited", extra);
        else
                probe_refused(r, EBADF, "only 0, 1 and 2 are open");
}

static void init_environ(struct result *r) {
        static const char *const names[] = {"environ", "auxv",    "maps", "smaps",
                                            "stack",   "syscall", "io",   "personality"};
        char path[64];
        int error = 0, opened = 0;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(path, sizeof path, "/proc/1/%s", names[i]);
                if (probe_own_init())
                        probe_read(r, path);
                else /* of the host's own PID 1 nothing is printed */
                        probe_answer(r, probe_open(path, O_RDONLY));
                if (r->outcome == DONE)
                        opened++;
                else
                        error = r->error;
                r->outcome = NOT_TRIED;
        }
        if (opened)
                probe_done(r, "%d files of PID 1 could be read", opened);
        else
                probe_refused(r, error, "none could be read");
}

static void init_descriptor(struct result *r) {
        int a = probe_own_init() ? probe_open("/proc/1/fd/3", O_RDWR) : -ENXIO,
            b = probe_open("/proc/1/fd", O_RDONLY | O_DIRECTORY), c = probe_open("/proc/1/fdinfo/3", O_RDONLY);

        if (a == 0 || b == 0 || c == 0)
                probe_done(r, "fd/3 %d, fd %d, fdinfo/3 %d", a, b, c);
        else
                probe_refused(r, a == -ENXIO ? ENXIO : -b, "%s", strerror(-b));
}

static void init_memory(struct result *r) {
        probe_answer(r, probe_open("/proc/1/mem", O_RDONLY));
}

static void own_memory(struct result *r) {
        probe_answer(r, probe_open("/proc/self/mem", O_WRONLY));
}

/* How many files below path, in the same file system, can be opened for writing. Stays off what would be mounted by
 * being looked at. */
static unsigned sweep(struct result *r, const char *path, int depth, int *error) {
        struct stat proc, st;
        DIR *dir = NULL;
        char name[PATH_MAX];
        unsigned found = 0;

        if (stat("/proc", &proc) == 0 && fstatat(AT_FDCWD, path, &st, AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW) == 0 &&
            (st.st_dev == proc.st_dev || S_ISLNK(st.st_mode)))
                dir = opendir(path);
        if (!dir)
                return 0;
        for (struct dirent *e; (e = readdir(dir));) {
                if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
                        continue;
                int n = snprintf(name, sizeof name, "%s/%s", path, e->d_name);
                if (n < 0 || (size_t)n >= sizeof name)
                        continue;
                if (e->d_type == DT_DIR && depth < 12)
                        found += sweep(r, name, depth + 1, error);
                else if (e->d_type == DT_REG) {
                        int opened = probe_open(name, O_WRONLY);
                        if (opened == 0) {
                                if (found++ < 3)
                                        probe_note(r, "%s", name);
                        } else
                                *error = -opened;
                }
        }
        (void)closedir(dir);
        return found;
}

static void proc_sys(struct result *r) {
        int error = 0;
        unsigned found = sweep(r, "/proc/sys", 0, &error);

        if (found)
                probe_done(r, "%u settings can be opened for writing", found);
        else
                probe_refused(r, error, "no setting can be opened for writing");
}

static void open_write(struct result *r, const char *const *paths, size_t count) {
        int error = 0;

        for (size_t i = 0; i < count; i++) {
                int opened = probe_open(paths[i], O_WRONLY);
                if (opened == 0) {
                        probe_done(r, "%s can be opened for writing", paths[i]);
                        return;
                }
                probe_note(r, "%s: %s", paths[i], strerror(-opened));
                error = -opened;
        }
        probe_refused(r, error, "none");
}

static void core_pattern(struct result *r) {
        static const char *const paths[] = {"/proc/sys/kernel/core_pattern"};

        open_write(r, paths, ELEMENTSOF(paths));
}

static void sysrq(struct result *r) {
        static const char *const paths[] = {"/proc/sysrq-trigger", "/proc/sys/kernel/sysrq"};

        open_write(r, paths, ELEMENTSOF(paths));
}

static void proc_rest(struct result *r) {
        static const char *const places[] = {"/proc/irq", "/proc/bus",  "/proc/fs",  "/proc/acpi",
                                             "/proc/tty", "/proc/scsi", "/proc/self"};
        int error = EROFS;
        unsigned found = 0;

        for (size_t i = 0; i < ELEMENTSOF(places); i++)
                found += sweep(r, places[i], i == ELEMENTSOF(places) - 1 ? 12 : 6, &error);
        if (found)
                probe_done(r, "%u files of /proc can be opened for writing", found);
        else
                probe_refused(r, error, "no other file of /proc can be opened for writing");
}

static void sysfs(struct result *r) {
        static const char *const paths[] = {"/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/debug/x",
                                            "/sys/fs/cgroup/memory/release_agent", "/sys/kernel/mm/ksm/run"};

        if (probe_open("/sys/kernel", O_RDONLY | O_DIRECTORY) == 0)
                probe_note(r, "/sys is there");
        open_write(r, paths, ELEMENTSOF(paths));
}

static void programs_of_ours(struct result *r) {
        static const char *const paths[] = {"/proc/self/exe", "/proc/1/exe", "/run/stockade/guest",
                                            "/usr/lib/os-release"};

        open_write(r, paths, ELEMENTSOF(paths));
        if (r->outcome == REFUSED && !probe_guard() && unlink("/run/stockade/guest") == 0)
                probe_done(r, "removed /run/stockade/guest");
}

static void symlink_out(struct result *r) {
        const char *canary = probe_fact("canary-home");
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s/probe-link-%d", probe_folder(), getpid());
        if (!canary || symlink(canary, path) < 0) {
                probe_note(r, "no canary-home, or no symlink: %s", strerror(errno));
                return;
        }
        probe_read(r, path);
        (void)unlink(path);
}

/* The file that we run from, which is the judge's. */
static const char *own_program(char path[PATH_MAX]) {
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

        path[n > 0 ? n : 0] = '\0';
        return path;
}

/* A second name in a writable place for a file that is read-only here. */
/* A file of the judge's in the host's /tmp, where it is within reach: a link cannot leave the mount that it is in. */
static const char *canary_beside(void) {
        const char *canary = probe_fact("canary-tmp");

        return canary ? canary : "";
}

static void hardlink(struct result *r) {
        static const char *const files[] = {"/run/stockade/guest", "/etc/passwd", "/etc/ld.so.cache", "/usr/bin/id"};
        char path[PATH_MAX], own[PATH_MAX];
        const char *const harmless[] = {own_program(own), canary_beside()};
        bool guarded = probe_guard() != NULL; /* a link would show on the host's file */
        int error = 0;

        (void)snprintf(path, sizeof path, "%s/probe-hard-%d", probe_folder(), getpid());
        for (size_t i = 0; i < (guarded ? ELEMENTSOF(harmless) : ELEMENTSOF(files)); i++) {
                if (link(guarded ? harmless[i] : files[i], path) == 0) {
                        (void)unlink(path);
                        probe_done(r, "linked %s", guarded ? harmless[i] : files[i]);
                        return;
                }
                if (errno != ENOENT)
                        error = errno;
        }
        probe_refused(r, error, "%s", strerror(error));
}

static void hardlink_descriptor(struct result *r) {
        char path[PATH_MAX], own[PATH_MAX];
        const char *harmless = access(canary_beside(), R_OK) == 0 ? canary_beside() : own_program(own);
        _cleanup_fd_ int fd = open(probe_guard() ? harmless : "/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);

        (void)snprintf(path, sizeof path, "%s/probe-fd-%d", probe_folder(), getpid());
        if (fd < 0) {
                probe_note(r, "nothing to link: %s", strerror(errno));
                return;
        }
        char from[64];
        (void)snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
        probe_call(r, linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW));
        (void)unlink(path);
}

static void rename_across(struct result *r) {
        char path[PATH_MAX], back[PATH_MAX];
        _cleanup_fd_ int fd = probe_scratch(path, sizeof path, "rename");

        if (fd < 0) {
                probe_note(r, "no scratch file: %s", strerror(-fd));
                return;
        }
        (void)snprintf(back, sizeof back, "/usr/bin/probe-renamed-%d", getpid());
        if (rename(path, back) == 0) {
                (void)unlink(back);
                probe_done(r, "moved a file into /usr/bin");
        } else
                probe_refused(r, errno, "%s", strerror(errno));
        (void)unlink(path);
}

static void kernel_info(struct result *r) {
        static const char *const paths[] = {"/proc/timer_list", "/proc/keys",     "/proc/modules",
                                            "/proc/kcore",      "/proc/cmdline",  "/proc/interrupts",
                                            "/dev/kmsg",        "/proc/slabinfo", "/proc/vmallocinfo"};
        char text[128];
        int shown = 0;
        struct stat real, kmsg;

        /* what is read from this one is gone for the host's logger: that it opens, and is no mask, is enough */
        _cleanup_fd_ int log = open("/proc/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (log >= 0 && fstat(log, &kmsg) == 0 && stat("/proc/version", &real) == 0 && kmsg.st_dev == real.st_dev) {
                probe_note(r, "/proc/kmsg can be opened");
                shown++;
        }

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                _cleanup_fd_ int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
                if (fd >= 0 && read(fd, text, sizeof text) > 0) {
                        probe_note(r, "%s is readable", paths[i]);
                        shown++;
                }
        }
        if (shown)
                probe_done(r, "%d of %zu", shown, ELEMENTSOF(paths) + 1);
        else
                probe_refused(r, EACCES, "each is absent, empty or closed");
}

static void kallsyms(struct result *r) {
        static char text[64 * 1024];
        ssize_t n = fd_read_at(AT_FDCWD, "/proc/kallsyms", text, sizeof text);

        /* per-processor symbols come first and are at 0 for everybody */
        for (const char *line = n > 0 ? text : ""; *line;
             line = strchrnul(line, '\n') + (*strchrnul(line, '\n') == '\n'))
                if (strlen(line) > 19 && strspn(line, "0123456789abcdef") == 16 && strncmp(line, "ffff", 4) == 0) {
                        probe_done(r, "the address of %.*s", (int)strcspn(line + 19, "\n"), line + 19);
                        return;
                }
        probe_refused(r, n < 0 ? (int)-n : ENODATA, "no addresses");
}

/* Opening some of them loads a module, or raises a line of a modem: as a control only the first ones, for reading. */
static void devices(struct result *r) {
        enum { HARMLESS = 8 };
        static const char *const paths[] = {
                "/dev/mem",     "/dev/kmem",         "/dev/port",        "/dev/kmsg",          "/dev/vda",
                "/dev/sda",     "/dev/nvme0n1",      "/dev/userfaultfd", "/dev/kvm",           "/dev/fuse",
                "/dev/net/tun", "/dev/loop-control", "/dev/vhost-vsock", "/dev/vsock",         "/dev/console",
                "/dev/ttyS0",   "/dev/cuse",         "/dev/uinput",      "/dev/mapper/control"};
        int error = ENOENT;

        for (size_t i = 0; i < (probe_guard() ? HARMLESS : ELEMENTSOF(paths)); i++) {
                int opened = probe_open(paths[i], O_RDONLY);
                if (opened == 0) {
                        probe_done(r, "%s can be opened", paths[i]);
                        return;
                }
                if (opened != -ENOENT)
                        error = -opened;
        }
        probe_refused(r, error, "none is there");
}

/* The mode that the device already has: harmless, and allowed only to whom it belongs. */
static void chmod_device(struct result *r) {
        struct stat st;

        if (stat("/dev/null", &st) == 0)
                probe_call(r, chmod("/dev/null", st.st_mode & 07777));
}

static void xattr_trusted(struct result *r) {
        char path[PATH_MAX];
        _cleanup_fd_ int fd = probe_scratch(path, sizeof path, "xattr");

        if (fd < 0) {
                probe_note(r, "no scratch file: %s", strerror(-fd));
                return;
        }
        probe_call(r, fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0));
        (void)unlink(path);
}

static void file_capability(struct result *r) {
        /* revision 2: cap_net_raw, permitted and effective */
        static const unsigned char value[20] = {1, 0, 0, 2, 0, 0x20};
        char path[PATH_MAX];
        _cleanup_fd_ int fd = probe_scratch(path, sizeof path, "cap");

        if (fd < 0) {
                probe_note(r, "no scratch file: %s", strerror(-fd));
                return;
        }
        probe_call(r, fsetxattr(fd, "security.capability", value, sizeof value, 0));
        (void)unlink(path);
}

/* The file behind a stream, with rights that the descriptor does not have. stream-token=… is what is written. */
static void reopen(struct result *r, int fd) {
        const char *token = probe_fact("stream-token");
        char path[64], text[200] = "";
        struct stat st;

        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                probe_refused(r, ENXIO, "descriptor %d is no regular file here", fd);
                return;
        }
        _cleanup_fd_ int again = open(path, O_RDWR | O_CLOEXEC);
        if (again < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        (void)pread(again, text, sizeof text - 1, 0);
        if (token)
                (void)pwrite(again, token, strlen(token), 0);
        probe_done(r, "opened read-write, holds: %s", text);
}

static void reopen_stdin(struct result *r) {
        reopen(r, 0);
}

static void reopen_stdout(struct result *r) {
        reopen(r, 1);
}

/* Attributes of the file behind a stream: mode, times, extended attributes. */
static void stream_attributes(struct result *r) {
        struct stat st;

        for (int fd = 0; fd < 3; fd++) {
                if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                        continue;
                if (fchmod(fd, 0666) == 0) {
                        probe_done(r, "changed the mode of the file behind descriptor %d", fd);
                        return;
                }
                if (fsetxattr(fd, "user.probe", "x", 1, 0) == 0) {
                        probe_done(r, "set an attribute of the file behind descriptor %d", fd);
                        return;
                }
                probe_refused(r, errno, "descriptor %d: %s", fd, strerror(errno));
        }
        if (r->outcome == NOT_TRIED)
                probe_refused(r, ENXIO, "no stream is a regular file here");
}

/* Terminals that are not ours. As a control one of our own stands for those of others, of whom there may be none. */
static void foreign_terminals(struct result *r) {
        _cleanup_fd_ int another = probe_own_init() ? -EBADF : open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
        DIR *dir = opendir("/dev/pts");
        char own[64] = "", path[300];
        unsigned other = 0;
        ssize_t n = readlink("/proc/self/fd/0", own, sizeof own - 1);

        own[n > 0 ? n : 0] = '\0';
        for (struct dirent *e; dir && (e = readdir(dir));) {
                (void)snprintf(path, sizeof path, "/dev/pts/%s", e->d_name);
                if (e->d_name[0] == '.' || str_eq(e->d_name, "ptmx") || str_eq(path, own))
                        continue;
                other++;
                probe_note(r, "%s", path);
        }
        if (other)
                probe_done(r, "%u terminals%s", other, another < 0 ? " of others" : "");
        else
                probe_refused(r, ENOENT, "none but our own");
        if (dir)
                (void)closedir(dir);
}

/* What the launcher was told and the command was not. */
static void environment(struct result *r) {
        const char *name = probe_fact("secret-name");
        const char *value = name ? getenv(name) : NULL;

        if (value)
                probe_done(r, "%s=%s", name, value);
        else
                probe_refused(r, ENOENT, "the variable is not here");
}

/* A stream of bytes cannot be shortened, and what was written before cannot be written again. */
static void stream_truncate(struct result *r) {
        struct stat st;

        if (fstat(1, &st) < 0 || !S_ISREG(st.st_mode)) {
                probe_refused(r, ENXIO, "standard output is no regular file here");
                return;
        }
        probe_call(r, ftruncate(1, 0));
}

/* Locks on files that others share: a launcher that waits for one could be held. */
static void lock_shared(struct result *r) {
        static const char *const paths[] = {"/", "/etc", "/run", "/run/stockade", "/dev", "/proc"};
        int error = EAGAIN;

        for (size_t i = 0; !probe_guard() && i < ELEMENTSOF(paths); i++) {
                _cleanup_fd_ int fd = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        probe_note(r, "%s", paths[i]);
        }
        _cleanup_fd_ int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                probe_done(r, "the root can be locked against others");
        else {
                error = errno;
                probe_refused(r, error, "%s", strerror(error));
        }
}

static void stream_directory(struct result *r) {
        int fd = openat(0, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0 || fchdir(0) == 0)
                probe_done(r, "standard input is a folder");
        else
                probe_refused(r, errno, "%s", strerror(errno));
}

const struct attempt files_attempts[] = {
        {"host-root-file", host_root_file, QUICK},
        {"host-home-file", host_home_file, QUICK},
        {"host-tmp-file", host_tmp_file, QUICK},
        {"shadow", shadow, QUICK},
        {"sibling-file", sibling_file, QUICK},
        {"proc-root-walk", proc_root_walk, QUICK},
        {"fd-leak", fd_leak, QUICK},
        {"init-environ", init_environ, QUICK},
        {"init-descriptor", init_descriptor, QUICK},
        {"init-memory", init_memory, QUICK},
        {"own-memory", own_memory, QUICK},
        {"proc-sys", proc_sys, QUICK},
        {"core-pattern", core_pattern, QUICK},
        {"sysrq", sysrq, QUICK},
        {"proc-rest", proc_rest, QUICK | GUARDED},
        {"sysfs", sysfs, QUICK},
        {"overwrite-ours", programs_of_ours, QUICK},
        {"symlink-out", symlink_out, QUICK},
        {"hardlink-out", hardlink, QUICK},
        {"hardlink-fd", hardlink_descriptor, QUICK},
        {"rename-across", rename_across, QUICK | GUARDED},
        {"kernel-info", kernel_info, QUICK},
        {"kallsyms", kallsyms, QUICK},
        {"devices", devices, QUICK},
        {"chmod-device", chmod_device, QUICK},
        {"xattr-trusted", xattr_trusted, QUICK},
        {"file-capability", file_capability, QUICK},
        {"foreign-terminals", foreign_terminals, QUICK},
        {"environment", environment, QUICK},
        {"reopen-stdin", reopen_stdin, 0},
        {"reopen-stdout", reopen_stdout, 0},
        {"stream-attributes", stream_attributes, 0},
        {"stream-truncate", stream_truncate, 0},
        {"lock-root", lock_shared, QUICK},
        {"stream-directory", stream_directory, 0},
        {0},
};
