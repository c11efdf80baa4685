/* The system calls that the gate needs, as a filter. Refused calls fail with EPERM: libraries try this and that, and
 * live without it. Nothing here opens a file, starts a program, or reaches another process. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lockdown.h"
#include "gate/confine.h"

/* Whatever the arguments. */
static const int plain[] = {
        /* sockets */
        SYS_recvfrom,
        SYS_sendto,
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_recvmmsg,
        SYS_sendmmsg,
        SYS_accept4,
        SYS_connect,
        SYS_getsockname,
        SYS_getpeername,
        SYS_getsockopt,
        SYS_setsockopt,
        SYS_shutdown,
        /* descriptors */
        SYS_read,
        SYS_readv,
        SYS_write,
        SYS_writev,
        SYS_pread64,
        SYS_pwrite64,
        SYS_close,
        SYS_lseek,
        SYS_fstat,
        SYS_newfstatat,
        SYS_ftruncate,
        SYS_memfd_create,
        SYS_epoll_ctl,
        SYS_epoll_pwait,
#ifdef SYS_epoll_wait
        SYS_epoll_wait,
#endif
#ifdef SYS_poll
        SYS_poll,
#endif
        SYS_ppoll,
        /* memory; no page becomes executable, see below */
        SYS_munmap,
        SYS_mremap,
        SYS_madvise,
        SYS_brk,
        SYS_mlock,
        SYS_mlock2,
        SYS_munlock,
        /* time, chance, ourselves */
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
        SYS_futex,
        SYS_sched_yield,
        SYS_restart_syscall,
        SYS_rt_sigreturn,
        SYS_sigaltstack,
        SYS_rt_sigprocmask,
        SYS_rt_sigaction,
        SYS_exit,
        SYS_exit_group,
};

#define HOW(type) (type), (type) | SOCK_CLOEXEC, (type) | SOCK_NONBLOCK, (type) | SOCK_CLOEXEC | SOCK_NONBLOCK

int confine_calls(struct err *err) {
        /* Sockets are streams and datagrams, TCP and UDP. Other protocols are parts of the kernel that a gate has no
         * use for, and asking for one may load it. */
        static const struct lockdown_call tested[] = {
                {SYS_socket, 0, LOCKDOWN_ANY_OF, {AF_INET, AF_INET6}, 2, .more = true},
                {SYS_socket, 1, LOCKDOWN_ANY_OF, {HOW(SOCK_STREAM), HOW(SOCK_DGRAM)}, 8, .more = true},
                {SYS_socket, 2, LOCKDOWN_ANY_OF, {0, IPPROTO_TCP, IPPROTO_UDP}, 3},
                {SYS_mmap, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_mprotect, 2, LOCKDOWN_NONE_OF, {PROT_EXEC}, 1},
                {SYS_fcntl, 1, LOCKDOWN_ANY_OF, {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_ADD_SEALS, F_GET_SEALS}, 6},
        };
        int r = lockdown_calls(plain, ELEMENTSOF(plain), tested, ELEMENTSOF(tested));

        return r < 0 ? err_set(err, r, "the gate cannot confine itself: could not limit its system calls") : 0;
}
