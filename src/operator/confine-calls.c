/* The system calls that the operator needs: files of its own folder, the sockets that it was given or accepted, memory,
 * threads of its own. It makes no socket (but pairs of them, which lead nowhere) and no process, and executes
 * nothing. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lockdown.h"
#include "operator/confine.h"

/* Whatever the arguments. Paths are Landlock's to judge. */
static const int plain[] = {
        /* sockets that there are */
        SYS_accept4,
        SYS_recvfrom,
        SYS_recvmsg,
        SYS_sendto,
        SYS_sendmsg,
        SYS_getsockopt,
        SYS_getsockname,
        SYS_shutdown,
        /* descriptors */
        SYS_read,
        SYS_readv,
        SYS_write,
        SYS_writev,
        SYS_pread64,
        SYS_preadv,
        SYS_pwrite64,
        SYS_pwritev,
        SYS_close,
        SYS_lseek,
        SYS_fstat,
        SYS_dup,
        SYS_dup3,
        SYS_pipe2,
        SYS_eventfd2,
        SYS_memfd_create,
        SYS_epoll_create1, /* of libmicrohttpd */
        SYS_epoll_ctl,
        SYS_epoll_pwait,
        SYS_ppoll,
        SYS_flock,
        SYS_fsync,
        SYS_fdatasync,
        SYS_ftruncate,
        SYS_fallocate,
        SYS_fadvise64,
        SYS_sendfile,
        SYS_splice,
        SYS_fchmod,
        SYS_fstatfs,
        SYS_getdents64,
        /* files by name */
        SYS_openat,
        SYS_openat2,
        SYS_newfstatat,
        SYS_statx,
        SYS_faccessat,
        SYS_faccessat2,
        SYS_readlinkat,
        SYS_mkdirat,
        SYS_unlinkat,
        SYS_renameat,
        SYS_renameat2,
        SYS_linkat,
        SYS_getcwd,
        SYS_umask,
#ifdef __x86_64__
        SYS_epoll_wait,
        SYS_poll,
        SYS_open,
        SYS_stat,
        SYS_lstat,
        SYS_access,
        SYS_readlink,
        SYS_mkdir,
        SYS_rmdir,
        SYS_unlink,
        SYS_rename,
        SYS_time,
#endif
        /* memory; no page becomes executable, see below */
        SYS_munmap,
        SYS_mremap,
        SYS_madvise,
        SYS_brk,
        SYS_msync,
        SYS_mlock,
        SYS_munlock,
        /* threads, time, chance, ourselves */
        SYS_futex,
        SYS_set_robust_list,
        SYS_rseq,
        SYS_sched_yield,
        SYS_sched_getaffinity,
        SYS_clock_gettime,
        SYS_clock_nanosleep,
        SYS_nanosleep,
        SYS_gettimeofday,
        SYS_getrandom,
        SYS_getpid,
        SYS_gettid,
        SYS_getuid,
        SYS_geteuid,
        SYS_getgid,
        SYS_getegid,
        SYS_getrusage,
        SYS_sysinfo,
        SYS_uname,
        SYS_restart_syscall,
        SYS_rt_sigreturn,
        SYS_rt_sigaction,
        SYS_rt_sigprocmask,
        SYS_sigaltstack,
        SYS_exit,
        SYS_exit_group,
};

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

int confine_calls(void) {
        const struct lockdown_call tested[] = {
                {SYS_clone, 0, LOCKDOWN_ALL_OF, {THREAD}, 1},
                {SYS_clone3, 0, LOCKDOWN_ABSENT, {0}, 0}, /* its flags lie behind a pointer */
                {SYS_mmap, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_mprotect, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_prlimit64, 0, LOCKDOWN_ANY_OF, {0}, 1}, /* of ourselves: a new thread asks for its stack's size */
                {SYS_prctl, 0, LOCKDOWN_ANY_OF, {PR_SET_NAME}, 1},
                {SYS_setsockopt, 1, LOCKDOWN_ANY_OF, {IPPROTO_TCP}, 1},    /* when what is sent goes on its way */
                {SYS_socketpair, 0, LOCKDOWN_ANY_OF, {AF_UNIX}, 1},        /* between TLS and HTTP: api/tls-link.c */
                {SYS_tgkill, 0, LOCKDOWN_ANY_OF, {(uint32_t)getpid()}, 1}, /* abort */
                {SYS_fcntl,
                 1,
                 LOCKDOWN_ANY_OF,
                 {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETLK, F_SETLK, F_ADD_SEALS, F_GET_SEALS,
                  F_SETPIPE_SZ, F_OFD_SETLK, F_OFD_GETLK},
                 12},
        };

        return lockdown_calls(plain, ELEMENTSOF(plain), tested, ELEMENTSOF(tested));
}
