/* Locking ourselves in: before the first foreign byte, and once more for each connection. */
#include "ssh/confine.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lockdown.h"

/* Whatever the arguments, for all of us. */
#define COMMON                                                                                                         \
        SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg, SYS_getsockopt, SYS_setsockopt, SYS_getpeername,           \
                SYS_getsockname, SYS_shutdown, SYS_read, SYS_readv, SYS_write, SYS_writev, SYS_close, SYS_close_range, \
                SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_dup3, SYS_ppoll, SYS_munmap, SYS_mremap, SYS_madvise,        \
                SYS_brk, SYS_mlock, SYS_munlock, SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep,                \
                SYS_gettimeofday, SYS_getrandom, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getuid, SYS_geteuid,         \
                SYS_getgid, SYS_getegid, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_uname,         \
                SYS_restart_syscall, SYS_rt_sigreturn, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack,          \
                SYS_setitimer, SYS_wait4, SYS_exit, SYS_exit_group

#ifdef __x86_64__
#define OLDER , SYS_poll, SYS_dup2, SYS_alarm, SYS_time
#else
#define OLDER
#endif

#define THREAD_OR_NEW                                                                                                  \
        (CLONE_VM | CLONE_THREAD | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |          \
         CLONE_NEWUTS | CLONE_NEWCGROUP)

/* A child is a copy of us, with nothing new. */
#define TESTED                                                                                                         \
        {SYS_clone, 0, LOCKDOWN_NONE_OF, {THREAD_OR_NEW}, 1}, {SYS_clone3, 0, LOCKDOWN_ABSENT, {0}, 0},                \
                {SYS_mmap, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1}, {SYS_mprotect, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},  \
                {SYS_socketpair, 0, LOCKDOWN_ANY_OF, {AF_UNIX}, 1}, {                                                  \
                SYS_fcntl, 1, LOCKDOWN_ANY_OF, {F_GETFD, F_SETFD, F_GETFL, F_SETFL}, 4                                 \
        }

/* Only the listener ends others: what talks to a client could end those of other clients. */
#define TO_END                                                                                                         \
        { SYS_kill, 1, LOCKDOWN_ANY_OF, {SIGKILL}, 1 }

int confine_listener(struct err *err) {
        static const int plain[] = {COMMON OLDER, SYS_accept4, SYS_prlimit64, SYS_seccomp};
        static const struct lockdown_call tested[] = {
                TESTED,
                TO_END,
                {SYS_prctl, 0, LOCKDOWN_ANY_OF, {PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_NO_NEW_PRIVS}, 3}};
        static const struct {
                int (*step)(void);
                const char *name;
        } steps[] = {
                {lockdown_bounding, "empty the bounding set of capabilities"},
                {lockdown_capabilities, "give up capabilities"},
                {lockdown_no_new_privileges, "refuse new privileges"},
                {lockdown_private, "keep others from looking into it"},
        };

        if (getuid() == 0 || geteuid() == 0)
                return err_set(err, ERR_REFUSED, "stockade-ssh does not run as root");
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int r = steps[i].step();

                if (r < 0)
                        return err_set(err, r, "stockade-ssh cannot confine itself: could not %s", steps[i].name);
        }
        int r = MIN(lockdown_files(NULL, 0), 0);
        if (r == 0)
                r = lockdown_calls(plain, ELEMENTSOF(plain), tested, ELEMENTSOF(tested));
        return r < 0 ? err_set(err, r, "stockade-ssh cannot confine itself: could not limit what it can reach") : 0;
}

int confine_connection(void) {
        static const int plain[] = {COMMON OLDER};
        static const struct lockdown_call tested[] = {TESTED};
        static const struct {
                int what;
                rlim_t most;
        } limits[] = {{RLIMIT_AS, 512 << 20}, {RLIMIT_NOFILE, 128}, {RLIMIT_CORE, 0}, {RLIMIT_FSIZE, 0}};

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                struct rlimit l = {limits[i].most, limits[i].most};

                if (setrlimit((unsigned)limits[i].what, &l) < 0)
                        return -errno;
        }
        return lockdown_calls(plain, ELEMENTSOF(plain), tested, ELEMENTSOF(tested));
}
