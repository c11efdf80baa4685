/* The system calls that the gate needs, as a filter. Refused calls fail with EPERM: libraries try this and that, and
 * live without it. Nothing here opens a file, starts a program, or reaches another process. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate/confine.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the gate's filter does not know this architecture"
#endif

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

/* If one argument is as said. */
enum test { ANY_OF, NONE_OF_BITS };
static const struct {
        int call;
        unsigned argument;
        enum test test;
        uint32_t values[6];
        size_t count;
} tested[] = {
        {SYS_socket, 0, ANY_OF, {AF_INET, AF_INET6}, 2},
        {SYS_mmap, 2, NONE_OF_BITS, {PROT_EXEC}, 1},
        {SYS_mprotect, 2, NONE_OF_BITS, {PROT_EXEC}, 1},
        {SYS_fcntl,
         1,
         ANY_OF,
         {1 /* F_GETFD */, 2 /* F_SETFD */, 3 /* F_GETFL */, 4 /* F_SETFL */, 1033 /* F_ADD_SEALS */,
          1034 /* F_GET_SEALS */},
         6},
};

#define FILTER_MAX 256
#define AT(field)  ((uint32_t)offsetof(struct seccomp_data, field))
#define ADD(...)   program[n++] = (struct sock_filter)__VA_ARGS__

/* The sockets of the socket call: streams and datagrams, TCP and UDP. Other protocols are parts of the kernel that a
 * gate has no use for, and asking for one may load it. */
static size_t add_socket_type(struct sock_filter *program, size_t n) {
        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[1])));
        ADD(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0));
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[2])));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 2, 0));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 1, 0));
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
        return n;
}

static size_t build(struct sock_filter *program) {
        size_t n = 0;

        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(arch)));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(nr)));
        for (size_t i = 0; i < ELEMENTSOF(plain); i++) {
                ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)plain[i], 0, 1));
                ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        }
        for (size_t i = 0; i < ELEMENTSOF(tested); i++) {
                size_t skip = n;

                ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)tested[i].call, 0, 0));
                if (tested[i].call == SYS_socket)
                        n = add_socket_type(program, n);
                ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[0]) + 8 * tested[i].argument));
                for (size_t k = 0; k < tested[i].count; k++) {
                        if (tested[i].test == ANY_OF)
                                ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, tested[i].values[k], 0, 1));
                        else
                                ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, tested[i].values[k], 1, 0));
                        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
                }
                ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
                program[skip].jf = (uint8_t)(n - skip - 1);
        }
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
        return n;
}
static_assert(4 + 2 * ELEMENTSOF(plain) + 16 * ELEMENTSOF(tested) + 11 < FILTER_MAX, "the filter has room");

int confine_calls(struct err *err) {
        struct sock_filter program[FILTER_MAX];
        struct sock_fprog filter = {.len = (unsigned short)build(program), .filter = program};

        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
                return err_set(err, -errno, "the gate cannot confine itself: could not limit its system calls");
        return 0;
}
