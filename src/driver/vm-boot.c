/* Files, disk and limits of a microVM. vm-link.c has its network. */
#include "driver/vm-boot.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include "base/kernel.h"
#include "driver/vm-forget.h"
#include "driver/vm-fuse.h"
#include "driver/vm-plan.h"

#define STAGE  "/stage"
#define CGROUP "/cgroup"

static int make_mount(const char *type, const char *source, const char *at, unsigned long flags, const char *options,
                      struct err *err) {
        if (mkdir(at, 0755) < 0 && errno != EEXIST)
                return err_set(err, -errno, "cannot make '%s'", at);
        if (mount(source, at, type, flags, options) < 0)
                return err_set(err, -errno, "cannot mount %s at '%s'", type, at);
        return 0;
}

static int load_module(int folder, const char *name) {
        _cleanup_fd_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        return (int)kernel_result(syscall(SYS_finit_module, fd, "", 0));
}

int vm_boot_modules(const char *path, struct err *err) {
        struct dirent **names;
        int r = 0, count = scandir(path, &names, NULL, alphasort);
        _cleanup_fd_ int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (count < 0 || folder < 0)
                return err_set(err, -errno, "the machine's image has no modules");
        for (int i = 0; i < count; i++) {
                if (r == 0 && names[i]->d_name[0] != '.')
                        r = load_module(folder, names[i]->d_name);
                if (r < 0 && err->code == 0)
                        (void)err_set(err, r, "cannot load module '%s'", names[i]->d_name);
                free(names[i]);
        }
        free(names);
        return r;
}

int vm_boot_mounts(struct err *err) {
        int r = make_mount("devtmpfs", "dev", "/dev", MS_NOSUID, "", err);

        if (r == 0)
                r = make_mount("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", err);
        if (r == 0)
                r = make_mount("cgroup2", "cgroup", CGROUP, MS_NOSUID | MS_NODEV | MS_NOEXEC, "", err);
        return r;
}

/* Counted as full entropy, and used from the next number on. */
static int seed_random(const uint8_t seed[64]) {
        struct {
                int bits, bytes;
                uint8_t seed[64];
        } pool = {.bits = 64 * 8, .bytes = 64};
        _cleanup_fd_ int random = open("/dev/random", O_RDWR | O_CLOEXEC);

        if (random < 0)
                return -errno;
        memcpy(pool.seed, seed, sizeof pool.seed);
        int r = ioctl(random, RNDADDENTROPY, &pool) < 0 || ioctl(random, RNDRESEEDCRNG) < 0 ? -errno : 0;
        explicit_bzero(&pool, sizeof pool);
        return r;
}

int vm_boot_fresh(const struct carry_fresh *f, struct err *err) {
        const struct timespec now = {.tv_sec = (time_t)f->seconds, .tv_nsec = (long)f->nanoseconds};
        int r = seed_random(f->seed);

        if (r < 0)
                return err_set(err, r, "the machine's random numbers could not begin anew");
        return clock_settime(CLOCK_REALTIME, &now) < 0 ? err_set(err, -errno, "the machine's clock could not be set")
                                                       : 0;
}

/* One entry of the tree's top, in the stage. */
static int show_entry(const char *name) {
        char from[280], to[280], target[256];
        struct stat st;

        (void)snprintf(from, sizeof from, "/tree/%s", name);
        (void)snprintf(to, sizeof to, STAGE "/%s", name);
        if (lstat(from, &st) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode)) {
                ssize_t n = readlink(from, target, sizeof target - 1);
                if (n < 0)
                        return -errno;
                target[n] = '\0';
                return symlink(target, to) < 0 ? -errno : 0;
        }
        if (!S_ISDIR(st.st_mode))
                return 0; /* plans have none there */
        if (mkdir(to, 0755) < 0)
                return -errno;
        return mount(from, to, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* What is the machine's own, whatever the tree has under these names. The cell attaches its new root at /sys. */
static bool is_own(const char *name) {
        return str_eq(name, "dev") || str_eq(name, "proc") || str_eq(name, "sys") || name[0] == '.';
}

static int show_tree(struct err *err) {
        DIR *top = opendir("/tree");
        const struct dirent *entry;
        int r = 0;

        if (!top)
                return err_set(err, -errno, "cannot read the tree");
        while (r == 0 && (entry = readdir(top)))
                if (!is_own(entry->d_name))
                        r = show_entry(entry->d_name);
        (void)closedir(top);
        return r < 0 ? err_set(err, r, "cannot show the tree to the sandbox") : 0;
}

static int move_own(const char *from, const char *to, struct err *err) {
        if (mkdir(to, 0755) < 0 || mount(from, to, NULL, MS_MOVE, NULL) < 0)
                return err_set(err, -errno, "cannot move '%s'", from);
        return 0;
}

static int enter_stage(void) {
        if (mkdir(STAGE "/sys", 0755) < 0 || chdir(STAGE) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 ||
            chroot(".") < 0 || chdir("/") < 0)
                return -errno;
        return 0;
}

/* What is served under this name, or over this stream. */
static int mount_files(enum vm_streams streams, const char *name, enum vm_stream number, const char *at,
                       struct err *err) {
        if (streams == VM_STREAMS_LINE)
                return make_mount("virtiofs", name, at, MS_NOSUID | MS_NODEV, "", err);
        if (mkdir(at, 0755) < 0 && errno != EEXIST)
                return err_set(err, -errno, "cannot make '%s'", at);
        int stream = vm_stream_open(streams, number, err);
        return stream < 0 ? stream : vm_fuse_mount(at, stream, err);
}

int vm_boot_root(enum vm_streams streams, bool live, struct err *err) {
        int r = mount_files(streams, "tree", VM_STREAM_TREE, "/tree", err);

        if (r == 0)
                r = vm_forget_watch(err);
        if (r == 0)
                r = make_mount("tmpfs", "stage", STAGE, MS_NOSUID | MS_NODEV, "mode=755,size=1m", err);
        if (r == 0)
                r = show_tree(err);
        if (r == 0 && live)
                r = mount_files(streams, "live", VM_STREAM_LIVE, STAGE VM_LIVE, err);
        if (r == 0)
                r = move_own("/dev", STAGE "/dev", err);
        if (r == 0)
                r = move_own("/proc", STAGE "/proc", err);
        if (r < 0)
                return r;
        _cleanup_fd_ int tree = kernel_open_tree(AT_FDCWD, "/tree", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        r = tree < 0 ? tree : enter_stage();
        return r < 0 ? err_set(err, r, "cannot enter the tree") : TAKE_FD(tree);
}

int vm_boot_disk(struct err *err) {
        _cleanup_fd_ int fs = kernel_fsopen("ext4");
        int r = fs < 0 ? fs : kernel_fsconfig(fs, FSCONFIG_SET_STRING, "source", VM_DISK, 0);

        if (r == 0)
                r = kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r == 0)
                r = kernel_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        return r < 0 ? err_set(err, r, "cannot mount the disk") : r;
}

static int write_limit(int group, const char *file, uint64_t value) {
        char text[32];

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        return fd_write_at(group, file, text);
}

/* The guest is in a leaf of its own: where there are leaves, nobody is beside them. */
static int make_groups(int *ret_group, int *ret_guest) {
        int r = fd_write_at(AT_FDCWD, CGROUP "/cgroup.subtree_control", "+memory +pids");

        if (r == 0 && (mkdir(CGROUP "/sandbox", 0755) < 0 || mkdir(CGROUP "/sandbox/guest", 0755) < 0))
                r = -errno;
        if (r == 0)
                r = fd_write_at(AT_FDCWD, CGROUP "/sandbox/cgroup.subtree_control", "+memory +pids");
        if (r < 0)
                return r;
        *ret_group = open(CGROUP "/sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *ret_guest = open(CGROUP "/sandbox/guest", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret_group < 0 || *ret_guest < 0 ? -errno : 0;
}

int vm_boot_cgroup(const struct plan *p, struct cgroup *ret, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;
        _cleanup_fd_ int group = -EBADF, guest = -EBADF;
        int r = make_groups(&group, &guest);

        while (r == 0 && plan_next(p, &walk, &s)) {
                if (s.op == OP_LIMIT && str_eq(s.text[0], "limits.memory"))
                        r = write_limit(group, "memory.max", s.number[0]);
                if (s.op == OP_LIMIT && str_eq(s.text[0], "limits.processes"))
                        r = write_limit(group, "pids.max", s.number[0]);
        }
        /* as on a host with more: what is reserved may be more than there is, and what is used is limited by the cgroup
         */
        if (r == 0)
                r = fd_write_at(AT_FDCWD, "/proc/sys/vm/overcommit_memory", "1");
        if (r < 0)
                return err_set(err, r, "cannot limit the sandbox");
        *ret = CGROUP_INIT;
        ret->into = TAKE_FD(group);
        ret->guest = TAKE_FD(guest);
        ret->home[CGROUP_MEMORY] = ret->home[CGROUP_PIDS] = ret->home[CGROUP_CPU] = ret->into;
        return 0;
}
