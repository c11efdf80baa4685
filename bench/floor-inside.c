/* The floor seen from inside: PID 1 of the new namespaces builds its root, gives up its rights and starts the program.
 *
 * It is a copy of the bench driver, not a program of its own: a fork of something small is cheaper than an exec. The
 * user namespace is joined last, so that nothing inside owns the mounts or the network. After the clone: no allocation,
 * no lock, no output; a failure is a number in the trace. */
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "bench/floor.h"

#define FLOOR_ID          1000 /* user and group inside */
#define FLOOR_SECUREBITS  0xef /* NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, and all four locks */
#define FLOOR_RANGES      74   /* leaves of the filter's tree: with its nodes about 150 instructions */
#define FLOOR_RANGE_WIDTH 7    /* system call numbers per leaf */
#define FLOOR_FS_ABI_2    ((1u << 14) - 1)
#define FLOOR_FS_READ     (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

static struct sock_filter floor_filter[2 * FLOOR_RANGES + 8];
static unsigned short floor_filter_size;

static unsigned floor_filter_add(struct sock_filter instruction) {
        floor_filter[floor_filter_size] = instruction;
        return floor_filter_size++;
}

/* Ranges first..end-1, split in the middle. The real filter has this shape and size; here every leaf allows. */
static unsigned floor_filter_tree(unsigned first, unsigned end) {
        if (end - first == 1)
                return floor_filter_add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        unsigned middle = (first + end) / 2;
        unsigned node = floor_filter_add((struct sock_filter){0});
        unsigned low = floor_filter_tree(first, middle), high = floor_filter_tree(middle, end);
        floor_filter[node] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, middle * FLOOR_RANGE_WIDTH,
                                                          (uint8_t)(high - node - 1), (uint8_t)(low - node - 1));
        return node;
}

void floor_inside_make_filter(void) {
        floor_filter_size = 0;
        (void)floor_filter_add(
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
        (void)floor_filter_add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
        (void)floor_filter_add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
        (void)floor_filter_add(
                (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
        (void)floor_filter_tree(0, FLOOR_RANGES);
}

static int floor_inside_loopback(void) {
        _cleanup_fd_ int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (s < 0)
                return -errno;
        struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
        return ioctl(s, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/* Entered by the process itself through `tasks`: moving it by number from outside waits for a grace period. The cgroup
 * namespace comes after, so that all trees are rooted at the leaves. */
static int floor_inside_cgroups(const struct floor_inside *in) {
        for (size_t i = 0; i < FLOOR_V1 && !in->f->only_v2; i++)
                if (write(in->tasks[i], "0", 1) != 1)
                        return -errno;
        return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

static int floor_inside_identity(int user) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {{0}};
        struct rlimit files = {.rlim_cur = 1024, .rlim_max = 1024}, core = {0};
        if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
                return -errno;
        if (setns(user, CLONE_NEWUSER) < 0)
                return -errno;
        if (setgroups(0, NULL) < 0 || setresgid(FLOOR_ID, FLOOR_ID, FLOOR_ID) < 0 ||
            prctl(PR_SET_SECUREBITS, FLOOR_SECUREBITS, 0, 0, 0) < 0 || setresuid(FLOOR_ID, FLOOR_ID, FLOOR_ID) < 0)
                return -errno;
        if (syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return -errno;
        (void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
        return kernel_close_range(3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */);
}

static int floor_inside_landlock(void) {
        static const struct {
                const char *path;
                uint64_t access;
        } rules[] = {
                {"/usr", FLOOR_FS_READ | LANDLOCK_ACCESS_FS_EXECUTE},
                {"/etc", FLOOR_FS_READ},
                {"/run", FLOOR_FS_READ},
                {"/home", FLOOR_FS_READ},
                {"/proc", FLOOR_FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE},
                {"/dev", FLOOR_FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE},
                {"/tmp", FLOOR_FS_ABI_2},
        };
        struct landlock_ruleset_attr attr = {.handled_access_fs = FLOOR_FS_ABI_2};
        _cleanup_fd_ int set = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
        if (set < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(rules); i++) {
                _cleanup_fd_ int fd = open(rules[i].path, O_PATH | O_CLOEXEC);
                struct landlock_path_beneath_attr rule = {.allowed_access = rules[i].access, .parent_fd = fd};
                if (fd < 0 || syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
                        return -errno;
        }
        return syscall(SYS_landlock_restrict_self, set, 0) < 0 ? -errno : 0;
}

static int floor_inside_seccomp(void) {
        struct sock_fprog program = {.len = floor_filter_size, .filter = floor_filter};
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

/* PDEATHSIG last: the changes of identity clear it. */
static int floor_inside_build(const struct floor_inside *in) {
        struct floor_trace *t = in->f->trace;
        (void)floor_done(t, "clone pid mnt net ipc uts", 0);
        int r = setsid() < 0 || sethostname("sandbox", 7) < 0 ? -errno : 0;
        if (floor_done(t, "session, host name", r) == 0)
                r = floor_done(t, "lo up", floor_inside_loopback());
        if (r == 0 && (r = floor_root_build(in)) < 0)
                (void)floor_done(t, "build the root", r);
        if (r == 0)
                r = floor_done(t, "enter cgroups, cgroup namespace", floor_inside_cgroups(in));
        if (r == 0)
                r = floor_done(t, "join user namespace, ids, capabilities", floor_inside_identity(in->user));
        if (r == 0)
                r = floor_done(t, "Landlock, 7 rules", floor_inside_landlock());
        if (r == 0)
                r = floor_done(t, "seccomp, 151 instructions", floor_inside_seccomp());
        if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                r = -errno;
        return r;
}

_noreturn_ void floor_inside(const struct floor_inside *in) {
        static char name[] = "true", path[] = "PATH=/usr/bin:/bin";
        static char *const argv[] = {name, NULL}, *const env[] = {path, NULL};
        struct floor_trace *t = in->f->trace;
        int status = 0;
        int r = floor_inside_build(in);
        if (r < 0)
                _exit(-r);
        pid_t pid = vfork();
        if (pid == 0) {
                (void)execve("/usr/bin/true", argv, env);
                _exit(errno);
        }
        if (floor_done(t, "vfork, exec", pid < 0 ? -errno : 0) < 0 || waitpid(pid, &status, 0) < 0)
                _exit(errno);
        (void)floor_done(t, "/usr/bin/true runs", 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : EINTR);
}
