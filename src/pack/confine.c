/* stockade-pack's own cell: what it can still do after this is read and write below the trees of its job.
 *
 * As root it joins the user namespace of its trees first, where it is nobody on the host; then an empty root, no
 * network, three capabilities over files of that namespace, Landlock for the trees alone, and a list of system calls.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/lockdown.h"
#include "pack/pack.h"

#define PLACE "/usr" /* exists everywhere, and is covered in a mount namespace of our own only */

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#define MEMORY_MAX (3ULL << 30) /* address space; compressors want up to 2 GiB for their windows */
#define CPU_MAX    (4 * 3600)   /* seconds */
#define FILES_MAX  64

static int step_join(const struct confine *c) {
        if (c->ns < 0)
                return 0;
        if (setns(c->ns, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 ||
            setresuid(0, 0, 0) < 0)
                return -errno;
        return close(c->ns) < 0 ? -errno : 0;
}

static int step_namespaces(const struct confine *c) {
        int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP;

        if (c->ns < 0)
                flags |= CLONE_NEWUSER; /* not root: files are still read as who we are */
        return unshare(flags) < 0 ? -errno : 0;
}

static int step_root(const struct confine *c) {
        unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

        (void)c;
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", PLACE, "tmpfs", flags, "mode=0555,size=4k,nr_inodes=1") < 0 || chdir(PLACE) < 0 ||
            kernel_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0 ? -errno : 0;
}

static int step_capabilities(const struct confine *c) {
        uint64_t keep = c->ns < 0      ? 0
                        : c->write < 0 ? 1ULL << CAP_DAC_READ_SEARCH
                                       : 1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER;
        int r = lockdown_bounding();

        return r < 0 ? r : lockdown_keep_capabilities(keep);
}

static int step_process(const struct confine *c) {
        static const struct {
                int resource;
                rlim_t value;
        } limits[] = {
#ifndef SANITIZED /* it takes terabytes of address space, and no memory */
                {RLIMIT_AS, MEMORY_MAX},
#endif
                {RLIMIT_CPU, CPU_MAX},
                {RLIMIT_NOFILE, FILES_MAX},
                {RLIMIT_NPROC, 0}};
        pid_t parent = getppid();

        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct rlimit now;
                if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
                        return -errno;
                now.rlim_cur = now.rlim_max = MIN(now.rlim_max, limits[i].value);
                if (setrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
                        return -errno;
        }
        /* it goes with whoever started it; changing ids took that back, so it comes after it */
        if (c->ns >= 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent))
                return -ESRCH;
        int r = lockdown_no_new_privileges();
        return r < 0 ? r : lockdown_private();
}

static int step_files(const struct confine *c) {
        struct lockdown_place places[3];
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(c->read); i++)
                if (c->read[i] >= 0)
                        places[n++] = (struct lockdown_place){c->read[i], LOCKDOWN_READ};
        if (c->write >= 0)
                places[n++] = (struct lockdown_place){c->write, LOCKDOWN_TREE};
        return MIN(lockdown_files(places, n), 0);
}

/* Nothing here starts a program, reaches another process or the network, or makes a device. */
static int step_calls(const struct confine *c) {
        static const int plain[] = {
                SYS_read,         SYS_write,          SYS_readv,           SYS_writev,
                SYS_pread64,      SYS_pwrite64,       SYS_lseek,           SYS_close,
                SYS_fstat,        SYS_newfstatat,     SYS_statx,           SYS_openat,
                SYS_openat2,      SYS_mkdirat,        SYS_unlinkat,        SYS_symlinkat,
                SYS_linkat,       SYS_readlinkat,     SYS_getdents64,      SYS_fchown,
                SYS_fchownat,     SYS_fchmod,         SYS_fchmodat,        SYS_utimensat,
                SYS_fsetxattr,    SYS_fgetxattr,      SYS_flistxattr,      SYS_fremovexattr,
                SYS_ftruncate,    SYS_fallocate,      SYS_fadvise64,       SYS_fsync,
                SYS_munmap,       SYS_mremap,         SYS_madvise,         SYS_brk,
                SYS_getrandom,    SYS_getpid,         SYS_gettid,          SYS_clock_gettime,
                SYS_gettimeofday, SYS_futex,          SYS_sysinfo,         SYS_rt_sigreturn,
                SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_restart_syscall, SYS_exit,
                SYS_exit_group,
        };
        static const struct lockdown_call tested[] = {
                {SYS_mmap, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_mprotect, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_mknodat, 2, LOCKDOWN_NONE_OF, {S_IFMT & ~S_IFIFO}, 1}, /* a fifo, and nothing else */
                {SYS_fcntl, 1, LOCKDOWN_ANY_OF, {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC}, 4},
        };

        (void)c;
        return lockdown_calls(plain, ELEMENTSOF(plain), tested, ELEMENTSOF(tested));
}

static const struct {
        int (*step)(const struct confine *c);
        const char *name;
} steps[] = {
        {step_join, "join its user namespace"}, {step_namespaces, "make namespaces of its own"},
        {step_root, "change to an empty root"}, {step_capabilities, "give up capabilities"},
        {step_process, "limit itself"},         {step_files, "give up every right to other files"},
        {step_calls, "limit its system calls"},
};

int confine(const struct confine *c, struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int r = steps[i].step(c);

                if (r < 0)
                        return err_set(err, r, "stockade-pack cannot confine itself: could not %s", steps[i].name);
        }
        return 0;
}
