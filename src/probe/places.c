/* Attempts on places and files that are reached in less usual ways: cgroups and hardware by their file systems, names
 * that were not there when the sandbox began, races, and calls on files that go past their permissions.
 *
 * What would change the host is done only in a sandbox; all else opens without writing, or works on a file of our own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "probe/probe.h"

#ifndef F_SETLEASE
#define F_SETLEASE 1024
#endif
#ifndef F_NOTIFY
#define F_NOTIFY 1026
#endif

/* A file of our own that has no name any more, or a note. */
static int nameless(struct result *r, const char *stem) {
        char path[PATH_MAX];
        int fd = probe_scratch(path, sizeof path, stem);

        if (fd < 0)
                probe_note(r, "no scratch file: %s", strerror(-fd));
        else
                (void)unlink(path);
        return fd;
}

/* Moving a process by writing its number into another cgroup. */
static void cgroup_move(struct result *r) {
        static const char *const paths[] = {"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cgroup.threads",
                                            "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
                                            "/sys/fs/cgroup/pids/tasks"};
        int error = ENOENT;

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                int opened = probe_open(paths[i], O_WRONLY);

                if (opened == 0) {
                        probe_done(r, "%s can be opened for writing", paths[i]);
                        return;
                }
                if (opened != -ENOENT)
                        error = -opened;
        }
        probe_refused(r, error, "%s", strerror(error));
}

/* Being born in another one. Where there is no folder of one, the call is still made. */
static void cgroup_born(struct result *r) {
        static const char *const paths[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
        _cleanup_fd_ int fd = -EBADF;

        for (size_t i = 0; i < ELEMENTSOF(paths) && fd < 0; i++) {
                char procs[64];

                (void)snprintf(procs, sizeof procs, "%s/cgroup.procs", paths[i]);
                if (access(procs, F_OK) == 0)
                        fd = open(paths[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        }
        struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)fd};
        pid_t pid = kernel_clone3(&args);
        if (pid == 0)
                _exit(0);
        probe_answer(r, pid);
}

/* What the hardware and the kernel say of themselves: serial numbers, addresses, the layout of the host. */
static void sysfs_read(struct result *r) {
        static const char *const paths[] = {"/sys/kernel/notes",  "/sys/class/dmi/id/product_uuid", "/sys/class/net",
                                            "/sys/firmware/acpi", "/sys/kernel/debug/tracing",      "/sys/module",
                                            "/sys/devices"};
        int error = ENOENT, seen = 0;

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                struct stat st;

                /* only looked at: what is mounted by being opened stays away */
                if (fstatat(AT_FDCWD, paths[i], &st, AT_NO_AUTOMOUNT) < 0)
                        error = errno;
                else if (access(paths[i], R_OK) == 0) {
                        seen++;
                        probe_note(r, "%s", paths[i]);
                }
        }
        if (seen)
                probe_done(r, "%d of %zu can be read", seen, ELEMENTSOF(paths));
        else
                probe_refused(r, error, "none is there");
}

/* Could a name be made in this folder? Outside a sandbox a file without a name tells. */
static int make_nameless(const char *folder) {
        int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

        if (fd < 0)
                return -errno;
        (void)close(fd);
        return 0;
}

static int swap(const char *link, const char *place) {
        char aside[PATH_MAX];

        (void)snprintf(aside, sizeof aside, "%s.aside", place);
        if (syscall(SYS_renameat2, AT_FDCWD, link, AT_FDCWD, place, RENAME_EXCHANGE) == 0)
                return (int)syscall(SYS_renameat2, AT_FDCWD, link, AT_FDCWD, place, RENAME_EXCHANGE);
        if (rename(place, aside) == 0)
                return rename(aside, place);
        if (symlink("/proc/self/mem", aside) == 0)
                return unlink(aside);
        return -errno;
}

/* Things that others mount over, or rely on, replaced by links of our own. */
static void mask_swap(struct result *r) {
        static const char *const places[] = {"/dev/null", "/dev/pts",    "/dev/ptmx",
                                             "/proc",     "/etc/passwd", "/run/stockade"};
        char link[PATH_MAX];
        int error = EROFS;

        if (probe_guard()) {
                probe_answer(r, make_nameless("/dev"));
                return;
        }
        (void)snprintf(link, sizeof link, "%s/probe-swap-%d", probe_folder(), getpid());
        if (symlink("/proc/self/mem", link) < 0) {
                probe_note(r, "no link of our own: %s", strerror(errno));
                return;
        }
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                int swapped = swap(link, places[i]);

                if (swapped >= 0)
                        probe_done(r, "%s can be replaced, or a link made beside it", places[i]);
                else
                        error = -swapped;
        }
        (void)unlink(link);
        if (r->outcome != DONE)
                probe_refused(r, error, "none of %zu: %s", ELEMENTSOF(places), strerror(error));
}

static int make_named(const char *folder, const char *name) {
        char path[PATH_MAX];

        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        (void)close(fd);
        return unlink(path);
}

/* Names that are not there and that others would obey. */
static void create_absent(struct result *r) {
        static const char *const names[][2] = {{"/etc", "ld.so.preload"},
                                               {"/etc", "gitconfig"},
                                               {"/etc/profile.d", "probe.sh"},
                                               {"/etc/cron.d", "probe"},
                                               {"/usr/local/bin", "probe"},
                                               {"/run", "probe"},
                                               {"/", "probe"}};
        int error = EROFS;

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int made = probe_guard() ? make_nameless(names[i][0]) : make_named(names[i][0], names[i][1]);

                if (made >= 0) {
                        probe_done(r, "%s/%s could be made", names[i][0], names[i][1]);
                        return;
                }
                if (made != -ENOENT && made != -EEXIST && made != -EOPNOTSUPP)
                        error = -made;
        }
        probe_refused(r, error, "none: %s", strerror(error));
}

/* A name that is now a folder of our own and now a link out, while somebody walks through it. */
static void symlink_race(struct result *r) {
        enum { LINKS = 50, ROUNDS = 20000 };
        const char *canary = probe_fact("canary-home");
        char name[PATH_MAX], other[PATH_MAX + 8], path[2 * PATH_MAX];
        int error = ENOENT, links = 0, rounds = 0;
        struct stat st;

        if (!canary) {
                probe_note(r, "no canary-home=PATH given");
                return;
        }
        (void)snprintf(name, sizeof name, "%s/probe-race-%d", probe_folder(), getpid());
        (void)snprintf(other, sizeof other, "%s-link", name);
        (void)snprintf(path, sizeof path, "%s%s", name, canary);
        if (mkdir(name, 0700) < 0 || symlink("/", other) < 0) {
                probe_note(r, "no folder and link of our own: %s", strerror(errno));
                return;
        }
        pid_t swapper = fork();
        if (swapper == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (int i = 0; i < ROUNDS; i++) {
                        (void)syscall(SYS_renameat2, AT_FDCWD, name, AT_FDCWD, other, RENAME_EXCHANGE);
                        (void)sched_yield();
                }
                _exit(0);
        }
        for (; swapper > 0 && links < LINKS && rounds < ROUNDS && r->outcome != DONE; rounds++) {
                int opened = probe_open(path, O_RDONLY);

                if (opened == 0)
                        probe_read(r, path);
                else if (opened != -ENOENT)
                        error = -opened;
                links += lstat(name, &st) == 0 && S_ISLNK(st.st_mode);
        }
        if (swapper > 0) {
                (void)kill(swapper, SIGKILL);
                (void)waitpid(swapper, NULL, 0);
        }
        (void)remove(name);
        (void)remove(other);
        if (r->outcome != DONE)
                probe_refused(r, error, "never in %d rounds, and it was a link in %d of them", rounds, links);
}

/* A new /proc has no masks. */
static void mount_proc(struct result *r) {
        char path[PATH_MAX];

        if (!probe_own_mounts(r))
                return;
        (void)snprintf(path, sizeof path, "%s/probe-proc-%d", probe_folder(), getpid());
        (void)mkdir(path, 0700);
        long value = mount("proc", path, "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
        int error = errno;
        if (value == 0)
                (void)umount2(path, MNT_DETACH);
        (void)rmdir(path);
        errno = error;
        probe_call(r, value);
}

/* A file that is ours becomes another id's: by name quotas and owners are no longer true. */
static void give_away(struct result *r) {
        static const uid_t ids[] = {0, 1, 1234, 65533};
        _cleanup_fd_ int fd = nameless(r, "give");
        int error = EPERM;

        for (size_t i = 0; fd >= 0 && i < ELEMENTSOF(ids); i++) {
                if (ids[i] == geteuid())
                        continue;
                if (fchown(fd, ids[i], (gid_t)-1) == 0) {
                        probe_done(r, "a file of ours belongs to %u now", ids[i]);
                        return;
                }
                error = errno;
        }
        if (fd >= 0)
                probe_refused(r, error, "%s", strerror(error));
}

/* Whoever opens a file that has a lease has to wait for us: up to 45 seconds, as often as we like. */
static void file_lease(struct result *r) {
        _cleanup_fd_ int fd = nameless(r, "lease");

        if (fd >= 0)
                probe_call(r, fcntl(fd, F_SETLEASE, F_WRLCK));
}

/* A watch on a folder by signal, which needs no right to read it later. */
static void folder_notify(struct result *r) {
        _cleanup_fd_ int fd = open(probe_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        (void)signal(SIGIO, SIG_IGN);
        if (fd < 0)
                probe_note(r, "no folder: %s", strerror(errno));
        else
                probe_call(r, fcntl(fd, F_NOTIFY, 1 /* access */));
}

/* Who opens what below /usr, which is the host's: the names of programs as they are started. */
static void watch_opens(struct result *r) {
        _cleanup_fd_ int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        probe_call(r, fd < 0 ? -1 : inotify_add_watch(fd, "/usr/bin", IN_OPEN));
}

/* The project that a file is counted for: set what it has. */
static void project_id(struct result *r) {
        _cleanup_fd_ int fd = nameless(r, "project");
        struct fsxattr attributes = {0};

        if (fd < 0)
                return;
        (void)syscall(SYS_ioctl, fd, FS_IOC_FSGETXATTR, &attributes);
        probe_gate(r, syscall(SYS_ioctl, fd, FS_IOC_FSSETXATTR, &attributes));
}

/* Where a file lies on the disk. A block that cannot be is refused after it was looked at who asks. */
static void block_map(struct result *r) {
        _cleanup_fd_ int fd = nameless(r, "map");
        int block = -1;

        if (fd >= 0)
                probe_gate(r, syscall(SYS_ioctl, fd, FIBMAP, &block));
}

/* Where our own memory lies in the machine's: the start of attacks on the memory chips. The number is not printed. */
static void physical_address(struct result *r) {
        static char page[4096];
        uint64_t entry = 0;
        _cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

        page[0] = 1;
        if (fd < 0 || pread(fd, &entry, sizeof entry, (off_t)((uintptr_t)page / 4096 * sizeof entry)) < 0)
                probe_refused(r, errno, "%s", strerror(errno));
        else if (entry & ((1ULL << 55) - 1))
                probe_done(r, "it can be told");
        else
                probe_refused(r, EPERM, "not shown");
}

/* The host's random numbers: take credit for entropy that is not there. A negative number is refused after it was
 * looked at who asks. */
static void random_pool(struct result *r) {
        _cleanup_fd_ int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        int bits = -1;

        if (fd < 0)
                probe_refused(r, errno, "/dev/urandom: %s", strerror(errno));
        else if (syscall(SYS_ioctl, fd, RNDADDTOENTCNT, &bits) < 0 && errno == EACCES) /* Landlock, before the device */
                probe_refused(r, EACCES, "%s", strerror(EACCES));
        else
                probe_gate(r, -1);
}

const struct attempt places_attempts[] = {
        {"cgroup-move", cgroup_move, QUICK},     {"cgroup-born", cgroup_born, QUICK},
        {"sysfs-read", sysfs_read, QUICK},       {"mask-swap", mask_swap, QUICK},
        {"create-absent", create_absent, QUICK}, {"symlink-race", symlink_race, QUICK},
        {"mount-proc", mount_proc, QUICK},       {"give-away", give_away, QUICK},
        {"file-lease", file_lease, QUICK},       {"folder-notify", folder_notify, QUICK},
        {"watch-opens", watch_opens, QUICK},     {"project-id", project_id, QUICK},
        {"block-map", block_map, QUICK},         {"physical-address", physical_address, QUICK},
        {"random-pool", random_pool, QUICK},     {0},
};
