/* Locking ourselves in, step by step. Each step has a name that its failure is reported with. */
#include "gate/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACE "/usr" /* exists everywhere, and is covered in a mount namespace of our own only */

/* struct landlock_ruleset_attr as of ABI 6; older kernels take its beginning. */
struct ruleset {
        uint64_t fs, net, scoped;
};
#define NET_BIND_TCP  (1ULL << 0)
#define SCOPE_UNIX    (1ULL << 0)
#define SCOPE_SIGNALS (1ULL << 1)

static int result(long r) {
        return r < 0 ? -errno : 0;
}

static int step_namespaces(const struct confine *c) {
        int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;

        (void)c;
        if (geteuid() != 0)
                flags |= CLONE_NEWUSER;
        return result(unshare(flags));
}

static int step_root(const struct confine *c) {
        unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

        (void)c;
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", PLACE, "tmpfs", flags, "mode=0555,size=4k,nr_inodes=1") < 0 || chdir(PLACE) < 0 ||
            syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        return result(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL));
}

static int step_bounding(const struct confine *c) {
        (void)c;
        for (unsigned long cap = 0; cap < 64; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return errno == EINVAL ? 0 : -errno; /* past the last one that there is */
        return 0;
}

static int step_ids(const struct confine *c) {
        if (!c->uid)
                return geteuid() == 0 ? -EPERM : 0;
        if (setgroups(0, NULL) < 0 || setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0)
                return -errno;
        return 0;
}

static int step_capabilities(const struct confine *c) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0}, now[_LINUX_CAPABILITY_U32S_3];

        (void)c;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &header, none) < 0 ||
            syscall(SYS_capget, &header, now) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(now); i++)
                if (now[i].effective | now[i].permitted | now[i].inheritable)
                        return -EPERM;
        return 0;
}

static int step_no_new_privileges(const struct confine *c) {
        (void)c;
        return result(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

/* Changing ids clears the parent-death signal and the dumpable flag's meaning, so both come after it. */
static int step_process(const struct confine *c) {
        struct rlimit core = {1, 1}, now;
        static const struct rlimit file = {8 << 20, 8 << 20}; /* of an authority's files, and of denials */

        (void)c;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
            getrlimit(RLIMIT_CORE, &now) < 0)
                return -errno;
        /* a limit of 1 byte also stops handlers behind a pipe; lower is lower */
        core.rlim_max = core.rlim_cur = MIN(core.rlim_max, now.rlim_max);
        return result(setrlimit(RLIMIT_FSIZE, &file) < 0 ? -1 : setrlimit(RLIMIT_CORE, &core));
}

static int step_landlock(const struct confine *c) {
        struct ruleset r = {0};
        size_t size = sizeof r.fs;

        (void)c;
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        if (abi < 0)
                return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
        /* every right that this kernel knows is handled, and none is given */
        r.fs = abi >= 5   ? (1ULL << 16) - 1
               : abi >= 3 ? (1ULL << 15) - 1
               : abi == 2 ? (1ULL << 14) - 1
                          : (1ULL << 13) - 1;
        if (abi >= 4) {
                r.net = NET_BIND_TCP;
                size = 2 * sizeof r.fs;
        }
        if (abi >= 6) {
                r.scoped = SCOPE_UNIX | SCOPE_SIGNALS;
                size = sizeof r;
        }
        int fd = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
        if (fd < 0)
                return -errno;
        int e = result(syscall(SYS_landlock_restrict_self, fd, 0));
        (void)close(fd);
        return e;
}

static const struct {
        int (*step)(const struct confine *c);
        const char *name;
} steps[] = {
        {step_namespaces, "make namespaces of its own"},
        {step_root, "change to an empty root"},
        {step_bounding, "empty the bounding set of capabilities"},
        {step_ids, "become an unprivileged user"},
        {step_capabilities, "give up capabilities"},
        {step_no_new_privileges, "refuse new privileges"},
        {step_process, "keep others from looking into it"},
        {step_landlock, "give up every right to files"},
};

int confine(const struct confine *c, struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int r = steps[i].step(c);

                if (r < 0)
                        return err_set(err, r, "the gate cannot confine itself: could not %s", steps[i].name);
        }
        return confine_calls(err);
}
