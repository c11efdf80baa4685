/* The table of system calls, and the walk through it.
 *
 * Order of thought for each call: does ordinary software need it (allow), does software ask for it and cope without
 * (ENOSYS, so that libraries take their other way), or is it something that only a privileged program would try (EPERM,
 * which such programs report in words). Never a kill: a refused call is an answer, not a crash.
 *
 * The filter is one layer of several. It keeps code away from parts of the kernel that have been a way out before, and
 * it closes what the other layers cannot see: socket families that no namespace covers, set-id bits on files of a bound
 * host directory, ioctls on an inherited terminal.
 *
 * Knowingly left out, and so ENOSYS:
 *   openat2               its mode and flags lie behind a pointer that a filter cannot follow; libraries use openat
 *   clone3                the same for its flags; glibc, Go and Rust fall back to clone
 *   io_uring_*            runs other calls past this filter, and has had a hole in most kernels
 *   io_setup and kin      the limit on contexts is one for the whole host; databases have a fallback
 *   add_key, keyctl, request_key   keyrings are shared beyond namespaces, and request_key starts a host program
 *   memfd_secret          memory that a supervisor cannot inspect
 *   vmsplice              no caller without a fallback, several holes
 *   mbind, move_pages, set_mempolicy and kin   ENOSYS tells libnuma that there is no NUMA; EPERM makes it complain
 *   modify_ldt, remap_file_pages, uselib, ustat, sysfs, _sysctl, nfsservctl, lookup_dcookie, vserver   obsolete
 *   statmount, listmount, listns, lsm_*   news about the host; callers read /proc instead
 *   file_getattr, file_setattr   inode flags, for which see the ioctl rule
 *   process_mrelease, set_thread_area and other calls of supervisors or other architectures
 *   whatever a kernel newer than this table adds
 *
 * Knowingly allowed although not harmless: sync and syncfs (they cost the host i/o; without them a program would
 * believe that its data is on disk), cachestat and mincore (they tell what is in the page cache; reading with
 * RWF_NOWAIT does too), nearly all of setsockopt (its privileged half is guarded by capabilities that nobody inside
 * has).
 */
#include "policy/syscalls.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <seccomp.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#endif
#ifndef TIOCVHANGUP
#define TIOCVHANGUP 0x5437
#endif

#define LOW(a, c, m, v)   ((struct syscall_test){.argument = (a), .compare = (c), .mask = (m), .value = (uint32_t)(v)})
#define IS(a, v)          LOW(a, COMPARE_EQUAL, 0, v)
#define IS_NOT(a, v)      LOW(a, COMPARE_OTHER, 0, v)
#define PART_IS(a, m, v)  LOW(a, COMPARE_EQUAL, m, v)
#define PART_NOT(a, m, v) LOW(a, COMPARE_OTHER, m, v)
#define AT_MOST(a, v)     LOW(a, COMPARE_AT_MOST, 0, v)
#define HAS(a, bits)      LOW(a, COMPARE_ANY_BIT, 0, bits)
#define HIGH_HALF(a)      ((struct syscall_test){.argument = (a), .high = true, .compare = COMPARE_OTHER})

#define ALLOW_IF(...)                                                                                                  \
        { .tests = {__VA_ARGS__}, .action = SYSCALL_ALLOW }
#define REFUSE_IF(e, ...)                                                                                              \
        { .tests = {__VA_ARGS__}, .action = SYSCALL_REFUSE(e) }
#define RULE(t, list, o)                                                                                               \
        { .text = (t), .clauses = (list), .count = ELEMENTSOF(list), .otherwise = (o) }

/* Set-id bits. A host directory can be bound writable into a sandbox, and there is a user outside who might run what
 * lies in it: a set-user-ID file of the sandbox's owner would be a way out. So no call can create one. The kernel takes
 * the mode as 16 bits. mkdir ignores these bits anyway; refusing says so. */
#define SET_ID        (S_ISUID | S_ISGID)
#define SET_ID_TEXT   "EPERM with a set-user-ID or set-group-ID bit"
#define CREATING_BITS (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

static const struct syscall_clause mode1_clauses[] = {REFUSE_IF(EPERM, HAS(1, SET_ID))};
static const struct syscall_clause mode2_clauses[] = {REFUSE_IF(EPERM, HAS(2, SET_ID))};
static const struct syscall_clause open_clauses[] = {REFUSE_IF(EPERM, HAS(1, CREATING_BITS), HAS(2, SET_ID))};
static const struct syscall_clause openat_clauses[] = {REFUSE_IF(EPERM, HAS(2, CREATING_BITS), HAS(3, SET_ID))};
static const struct syscall_rule mode1_rule = RULE(SET_ID_TEXT, mode1_clauses, SYSCALL_ALLOW);
static const struct syscall_rule mode2_rule = RULE(SET_ID_TEXT, mode2_clauses, SYSCALL_ALLOW);
static const struct syscall_rule open_rule = RULE(SET_ID_TEXT " when creating", open_clauses, SYSCALL_ALLOW);
static const struct syscall_rule openat_rule = RULE(SET_ID_TEXT " when creating", openat_clauses, SYSCALL_ALLOW);

/* Nodes: no devices, which includes the 0:0 character device that overlayfs takes for "deleted". */
#define NODE_CLAUSES(a)                                                                                                \
        {                                                                                                              \
                REFUSE_IF(EPERM, HAS(a, SET_ID)), ALLOW_IF(PART_IS(a, S_IFMT, 0)),                                     \
                        ALLOW_IF(PART_IS(a, S_IFMT, S_IFREG)), ALLOW_IF(PART_IS(a, S_IFMT, S_IFIFO)),                  \
                        ALLOW_IF(PART_IS(a, S_IFMT, S_IFSOCK)),                                                        \
        }
#define NODE_TEXT "only regular files, fifos and sockets, without set-id bits; else EPERM"
static const struct syscall_clause mknod_clauses[] = NODE_CLAUSES(1);
static const struct syscall_clause mknodat_clauses[] = NODE_CLAUSES(2);
static const struct syscall_rule mknod_rule = RULE(NODE_TEXT, mknod_clauses, SYSCALL_REFUSE(EPERM));
static const struct syscall_rule mknodat_rule = RULE(NODE_TEXT, mknodat_clauses, SYSCALL_REFUSE(EPERM));

static const struct syscall_clause renameat2_clauses[] = {REFUSE_IF(EPERM, HAS(4, RENAME_WHITEOUT))};
static const struct syscall_rule renameat2_rule = RULE("EPERM with RENAME_WHITEOUT", renameat2_clauses, SYSCALL_ALLOW);

/* clone takes only the low half of its flags (a negative int from a wrapper arrives with the high half set), and its
 * low byte is the exit signal, so CLONE_NEWTIME cannot be asked for here. unshare looks at all 64 bits, so we do too.
 */
#define NAMESPACES                                                                                                     \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define UNSHARE_OK (CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)
static const struct syscall_clause clone_clauses[] = {REFUSE_IF(EPERM, HAS(0, NAMESPACES))};
static const struct syscall_clause unshare_clauses[] = {
        REFUSE_IF(EPERM, HAS(0, ~UNSHARE_OK)),
        REFUSE_IF(EPERM, HIGH_HALF(0)),
};
static const struct syscall_rule clone_rule = RULE("EPERM with a new namespace", clone_clauses, SYSCALL_ALLOW);
static const struct syscall_rule unshare_rule = RULE("EPERM with a new namespace", unshare_clauses, SYSCALL_ALLOW);

/* Watching files for being read. /usr inside is the host's own: who watches it for that sees by name which programs the
 * host and other sandboxes start. Watching for changes, which editors and build tools do, is as harmless as looking.
 * Some watchers ask for everything and cope badly without, so only the low tier refuses it. */
static const struct syscall_clause watch_clauses[] = {
        REFUSE_IF(EPERM, HAS(2, IN_ACCESS | IN_OPEN | IN_CLOSE_NOWRITE)),
};
static const struct syscall_rule watch_rule = RULE("EPERM when it asks for opens and reads", watch_clauses,
                                                   SYSCALL_ALLOW);

/* Huge pages come from one pool of the whole host, which no memory limit counts: where a host keeps some for a
 * database, a sandbox could take them all. Whoever asks for them does without when there are none. */
#define HUGE_TEXT "EPERM for pages of the host's huge page pool"
static const struct syscall_clause huge_mmap_clauses[] = {REFUSE_IF(EPERM, HAS(3, MAP_HUGETLB))};
static const struct syscall_clause huge_memfd_clauses[] = {REFUSE_IF(EPERM, HAS(1, MFD_HUGETLB))};
static const struct syscall_clause huge_shmget_clauses[] = {REFUSE_IF(EPERM, HAS(2, SHM_HUGETLB))};
static const struct syscall_rule huge_mmap_rule = RULE(HUGE_TEXT, huge_mmap_clauses, SYSCALL_ALLOW);
static const struct syscall_rule huge_memfd_rule = RULE(HUGE_TEXT, huge_memfd_clauses, SYSCALL_ALLOW);
static const struct syscall_rule huge_shmget_rule = RULE(HUGE_TEXT, huge_shmget_clauses, SYSCALL_ALLOW);

/* Execution domains: asking, the plain one, a 32-bit or 2.6 uname, and no address randomisation, which debuggers and
 * sanitizers set for their own children. Not READ_IMPLIES_EXEC, not MMAP_PAGE_ZERO. */
static const struct syscall_clause personality_clauses[] = {
        ALLOW_IF(IS(0, 0xffffffff)),
        REFUSE_IF(EPERM, HAS(0, ~(PER_LINUX32 | UNAME26 | ADDR_NO_RANDOMIZE))),
};
static const struct syscall_rule personality_rule = RULE(
        "only the query, PER_LINUX, PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE; else EPERM", personality_clauses,
        SYSCALL_ALLOW);

/* prctl by option number, so that options of newer kernels are refused as if unknown. Refused among those that exist:
 * PR_SET_MM (rewrites what /proc shows of a process), PR_SET_IO_FLUSHER, PR_SET_SYSCALL_USER_DISPATCH (57 to 59),
 * PR_SCHED_CORE (idles the sibling processors of the host), PR_SET_MEMORY_MERGE (page sharing tells about others'
 * pages). PR_SET_PTRACER stays: it only widens who inside may trace the caller, and crash handlers use it. 74 to 76 are
 * shadow stacks on arm64. */
static const struct syscall_clause prctl_clauses[] = {
        REFUSE_IF(EPERM, IS(0, PR_SET_MM)), ALLOW_IF(AT_MOST(0, 56)),
        REFUSE_IF(EINVAL, AT_MOST(0, 59)),  REFUSE_IF(EPERM, IS(0, PR_SCHED_CORE)),
        ALLOW_IF(AT_MOST(0, PR_GET_MDWE)),  ALLOW_IF(IS(0, PR_SET_VMA)),
        ALLOW_IF(IS(0, PR_SET_PTRACER)),    ALLOW_IF(IS(0, PR_GET_AUXV)),
        REFUSE_IF(EINVAL, AT_MOST(0, 73)),  ALLOW_IF(AT_MOST(0, 76)),
};
static const struct syscall_rule prctl_rule = RULE(
        "EPERM for PR_SET_MM and PR_SCHED_CORE, EINVAL for PR_SET_IO_FLUSHER, PR_SET_SYSCALL_USER_DISPATCH, "
        "PR_SET_MEMORY_MERGE and options newer than this list",
        prctl_clauses, SYSCALL_REFUSE(EINVAL));

/* A program may tighten its own filter. A listener would answer for others, and could hold them for ever. */
static const struct syscall_clause seccomp_clauses[] = {
        REFUSE_IF(EPERM, IS(0, SECCOMP_SET_MODE_FILTER), HAS(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)),
};
static const struct syscall_rule seccomp_rule = RULE("EPERM with a new listener", seccomp_clauses, SYSCALL_ALLOW);

/* A lease on a file that is shared with the host, or with other sandboxes, holds up whoever opens it there; a directory
 * notification keeps a watch on it. Nobody needs either. */
static const struct syscall_clause fcntl_clauses[] = {
        REFUSE_IF(EINVAL, IS(1, F_SETLEASE)),
        REFUSE_IF(EINVAL, IS(1, F_NOTIFY)),
};
static const struct syscall_rule fcntl_rule = RULE("EINVAL for leases and directory notification", fcntl_clauses,
                                                   SYSCALL_ALLOW);

/* Sockets. Families that no network namespace covers (vsock), that are a way to kernel code which nobody needs (alg,
 * packet, can, tipc…), and netlink beyond routes do not exist. Within the internet families only TCP and UDP do: no raw
 * and ping sockets, no SCTP, no MPTCP (Go falls back). The kernel takes type from the low four bits. */
#define TYPE_BITS 0xfU
static const struct syscall_clause socket_clauses[] = {
        ALLOW_IF(IS(0, AF_NETLINK), IS(2, NETLINK_ROUTE)),
        REFUSE_IF(EAFNOSUPPORT, IS_NOT(0, AF_UNIX), IS_NOT(0, AF_INET), IS_NOT(0, AF_INET6)),
        ALLOW_IF(IS(0, AF_UNIX), PART_IS(1, TYPE_BITS, SOCK_SEQPACKET)),
        REFUSE_IF(EPERM, PART_NOT(1, TYPE_BITS, SOCK_STREAM), PART_NOT(1, TYPE_BITS, SOCK_DGRAM)),
        ALLOW_IF(IS(0, AF_UNIX)),
        REFUSE_IF(EPROTONOSUPPORT, IS_NOT(2, 0), IS_NOT(2, IPPROTO_TCP), IS_NOT(2, IPPROTO_UDP)),
};
static const struct syscall_clause socketpair_clauses[] = {REFUSE_IF(EAFNOSUPPORT, IS_NOT(0, AF_UNIX))};
static const struct syscall_rule socket_rule = RULE(
        "only unix, TCP and UDP over IPv4 and IPv6, and netlink routes; else EAFNOSUPPORT for the family, EPERM for "
        "the type, EPROTONOSUPPORT for the protocol",
        socket_clauses, SYSCALL_ALLOW);
static const struct syscall_rule socketpair_rule = RULE("only unix; else EAFNOSUPPORT", socketpair_clauses,
                                                        SYSCALL_ALLOW);

/* Upper-layer protocols on TCP load kernel modules (kernel TLS); OpenSSL goes on without. */
static const struct syscall_clause setsockopt_clauses[] = {
        REFUSE_IF(ENOPROTOOPT, IS(1, IPPROTO_TCP), IS(2, TCP_ULP)),
};
static const struct syscall_rule setsockopt_rule = RULE("ENOPROTOOPT for TCP_ULP", setsockopt_clauses, SYSCALL_ALLOW);

/* ioctl. Devices are not visible, so what is left is terminals and files.
 * Terminals: pushing input (TIOCSTI, TIOCLINUX), redirecting the console, changing the line discipline (loads modules),
 * hanging up, locking others out, and all of the virtual-console calls (0x4bxx, 0x56xx), because standard input can be
 * a terminal of the host.
 * Files: the file-system calls are grouped by their type byte: 'f' (ext4, fscrypt, verity, inode flags), 'X' (xfs,
 * freeze, project ids), 0x94 (btrfs). In a bound host directory they could make files that the host cannot change or
 * that escape a quota; only reading flags and extents, and cloning, remain. The request is 32 bits to the kernel. */
#define TYPE_BYTE     0x0000ff00U
#define CONSOLE_CALLS 0xffffff00U
static const struct syscall_clause ioctl_clauses[] = {
        REFUSE_IF(EPERM, IS(1, TIOCSTI)),
        REFUSE_IF(EPERM, IS(1, TIOCLINUX)),
        REFUSE_IF(EPERM, IS(1, TIOCCONS)),
        REFUSE_IF(EPERM, IS(1, TIOCSETD)),
        REFUSE_IF(EPERM, IS(1, TIOCEXCL)),
        REFUSE_IF(EPERM, IS(1, TIOCVHANGUP)),
        ALLOW_IF(IS(1, FS_IOC_GETFLAGS)),
        ALLOW_IF(IS(1, FS_IOC_FIEMAP)),
        ALLOW_IF(IS(1, FS_IOC_FSGETXATTR)),
        ALLOW_IF(IS(1, FICLONE)),
        ALLOW_IF(IS(1, FICLONERANGE)),
        ALLOW_IF(IS(1, FIDEDUPERANGE)),
        REFUSE_IF(EPERM, PART_IS(1, TYPE_BYTE, 'f' << 8)),
        REFUSE_IF(EPERM, PART_IS(1, TYPE_BYTE, 'X' << 8)),
        REFUSE_IF(EPERM, PART_IS(1, TYPE_BYTE, 0x94 << 8)),
        REFUSE_IF(EPERM, PART_IS(1, CONSOLE_CALLS, 'K' << 8)),
        REFUSE_IF(EPERM, PART_IS(1, CONSOLE_CALLS, 'V' << 8)),
};
static const struct syscall_rule ioctl_rule = RULE(
        "EPERM for TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, TIOCEXCL, TIOCVHANGUP, virtual consoles, and file-system "
        "calls that change more than contents",
        ioctl_clauses, SYSCALL_ALLOW);

struct row {
        const char *group;
        const char *names; /* separated by spaces; "name=number" for calls that libseccomp may be too old to know */
        uint32_t action;
        const struct syscall_rule *rule; /* decides instead of action */
        enum syscall_when when;
};

#define ALLOW(g, n)                                                                                                    \
        { .group = (g), .names = (n), .action = SYSCALL_ALLOW }
#define REFUSE(g, n, e)                                                                                                \
        { .group = (g), .names = (n), .action = SYSCALL_REFUSE(e) }
#define DECIDE(g, n, r)                                                                                                \
        { .group = (g), .names = (n), .rule = &(r) }
#define ALLOW_WHEN(g, n, w)                                                                                            \
        { .group = (g), .names = (n), .action = SYSCALL_ALLOW, .when = (w) }

static const struct row rows[] = {
        ALLOW("files",
              "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range lseek "
              "dup dup2 dup3 flock pipe pipe2 poll ppoll select pselect6 sendfile splice tee "
              "copy_file_range fsync fdatasync sync syncfs sync_file_range fallocate truncate ftruncate "
              "readahead fadvise64 cachestat=451"),
        ALLOW("files",
              "stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat "
              "getdents getdents64 getcwd chdir fchdir rename renameat rmdir link linkat unlink unlinkat "
              "symlink symlinkat chown fchown lchown fchownat umask utime utimes futimesat utimensat"),
        ALLOW("files", "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr "
                       "removexattr lremovexattr fremovexattr setxattrat=463 getxattrat=464 listxattrat=465 "
                       "removexattrat=466"),
        DECIDE("files", "fcntl", fcntl_rule),
        DECIDE("files", "open", open_rule),
        DECIDE("files", "openat", openat_rule),
        DECIDE("files", "creat chmod fchmod mkdir", mode1_rule),
        DECIDE("files", "fchmodat fchmodat2=452 mkdirat", mode2_rule),
        DECIDE("files", "mknod", mknod_rule),
        DECIDE("files", "mknodat", mknodat_rule),
        DECIDE("files", "renameat2", renameat2_rule),
        DECIDE("files", "ioctl", ioctl_rule),
        ALLOW("events", "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 "
                        "inotify_init inotify_init1 inotify_rm_watch signalfd signalfd4 "
                        "timerfd_create timerfd_settime timerfd_gettime"),

        ALLOW_WHEN("events", "inotify_add_watch", SYSCALL_IF_PTRACE),
        {.group = "events", .names = "inotify_add_watch", .rule = &watch_rule, .when = SYSCALL_IF_NO_PTRACE},

        ALLOW("processes", "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid "
                           "getpgrp setpgid getsid setsid getrusage times getrlimit setrlimit prlimit64 getpriority "
                           "setpriority ioprio_get ioprio_set arch_prctl set_tid_address set_robust_list "
                           "get_robust_list rseq uname sysinfo getcpu getrandom pidfd_open pidfd_send_signal"),
        ALLOW("processes", "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
                           "sched_getscheduler sched_setscheduler sched_getattr sched_setattr sched_get_priority_max "
                           "sched_get_priority_min sched_rr_get_interval"),
        DECIDE("processes", "clone", clone_rule),
        DECIDE("processes", "unshare", unshare_rule),
        DECIDE("processes", "prctl", prctl_rule),
        DECIDE("processes", "personality", personality_rule),
        ALLOW("identity", "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid "
                          "setresuid setresgid setfsuid setfsgid setgroups capget capset"),
        ALLOW("memory", "brk munmap mremap mprotect madvise msync mincore mlock mlock2 mlockall munlock munlockall "
                        "membarrier pkey_alloc pkey_free pkey_mprotect map_shadow_stack=453 mseal=462"),
        DECIDE("memory", "mmap", huge_mmap_rule),
        {.group = "memory", .names = "memfd_create", .rule = &huge_memfd_rule, .when = SYSCALL_IF_MEMFD},
        /* sealed against execution or not, the dynamic loader maps it as a program: with an exec allowlist there is
           none */
        {.group = "memory", .names = "memfd_create", .action = SYSCALL_REFUSE(ENOSYS), .when = SYSCALL_IF_NO_MEMFD},
        ALLOW("threads", "futex futex_waitv=449 futex_wake=454 futex_wait=455 futex_requeue=456"),
        ALLOW("signals", "kill tkill tgkill pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask "
                         "rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack"),
        ALLOW("time",
              "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer "
              "timer_create timer_delete timer_getoverrun timer_gettime timer_settime"),
        ALLOW("network",
              "connect accept accept4 bind listen shutdown getsockname getpeername getsockopt sendto recvfrom "
              "sendmsg recvmsg sendmmsg recvmmsg"),
        DECIDE("network", "socket", socket_rule),
        DECIDE("network", "socketpair", socketpair_rule),
        DECIDE("network", "setsockopt", setsockopt_rule),
        ALLOW("ipc", "shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open "
                     "mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"),
        DECIDE("ipc", "shmget", huge_shmget_rule),
        ALLOW("sandbox", "landlock_create_ruleset landlock_add_rule landlock_restrict_self"),
        DECIDE("sandbox", "seccomp", seccomp_rule),

        ALLOW_WHEN("inspect", "ptrace process_vm_readv process_vm_writev", SYSCALL_IF_PTRACE),
        {.group = "inspect",
         .names = "ptrace process_vm_readv process_vm_writev",
         .action = SYSCALL_REFUSE(EPERM),
         .when = SYSCALL_IF_NO_PTRACE},
        REFUSE("inspect",
               "kcmp pidfd_getfd process_madvise perf_event_open userfaultfd bpf fanotify_init fanotify_mark "
               "syslog",
               EPERM),
        REFUSE("mounts",
               "mount umount2 pivot_root chroot setns open_tree move_mount fsopen fsconfig fsmount fspick "
               "mount_setattr open_tree_attr=467 name_to_handle_at open_by_handle_at quotactl quotactl_fd",
               EPERM),
        REFUSE("host",
               "reboot kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff acct "
               "sethostname setdomainname iopl ioperm vhangup settimeofday clock_settime adjtimex clock_adjtime",
               EPERM),
        REFUSE("absent",
               "clone3 openat2 io_uring_setup io_uring_enter io_uring_register io_setup io_destroy io_submit "
               "io_cancel io_getevents io_pgetevents add_key request_key keyctl memfd_secret vmsplice "
               "get_mempolicy set_mempolicy mbind migrate_pages move_pages set_mempolicy_home_node=450 "
               "modify_ldt remap_file_pages uselib ustat sysfs _sysctl nfsservctl lookup_dcookie vserver "
               "process_mrelease statmount=457 listmount=458 lsm_get_self_attr=459 lsm_set_self_attr=460 "
               "lsm_list_modules=461 file_getattr=468 file_setattr=469 listns=470",
               ENOSYS),
};

/* Splits one "name" or "name=number" off row text. Returns the bytes consumed, 0 at the end of the row. */
static int row_word(const char *text, char name[static SYSCALL_NAME_MAX], int *ret_number) {
        size_t skip = strspn(text, " "), length = strcspn(text + skip, " ="), used = skip + length;

        if (length >= SYSCALL_NAME_MAX)
                return -EINVAL;
        memcpy(name, text + skip, length);
        name[length] = '\0';
        *ret_number = -1;
        if (text[used] == '=') {
                char *end;
                long number = strtol(text + used + 1, &end, 10);

                if (number <= 0 || number >= SYSCALL_NUMBERS || (*end != ' ' && *end != '\0'))
                        return -EINVAL;
                *ret_number = (int)number;
                used = (size_t)(end - text);
        }
        return length == 0 ? 0 : (int)used;
}

/* The number of a call here: libseccomp's, else the one in the table (calls that new have one number everywhere), else
 * -1. Negative numbers of libseccomp mean that this architecture has no such call. */
static int syscall_number(const char *name, int fallback) {
        int number = seccomp_syscall_resolve_name(name);

        if (number == __NR_SCMP_ERROR)
                return fallback;
        return number < 0 ? -1 : number;
}

int syscalls_next(struct syscalls_walk *walk, struct syscall_entry *ret, struct err *err) {
        for (; walk->row < ELEMENTSOF(rows); walk->row++, walk->offset = 0) {
                const struct row *row = &rows[walk->row];
                struct syscall_entry entry = {
                        .group = row->group, .when = row->when, .rule = row->rule, .action = row->action};
                int number, used = row_word(row->names + walk->offset, entry.name, &number);

                if (used < 0)
                        return err_set(err, ERR_CORRUPT, "the table of system calls is malformed near '%.40s'",
                                       row->names + walk->offset);
                if (used == 0)
                        continue;
                entry.number = syscall_number(entry.name, number);
                if (entry.number >= SYSCALL_NUMBERS)
                        return err_set(err, ERR_CORRUPT, "system call '%s' has number %d, above the table's %d",
                                       entry.name, entry.number, SYSCALL_NUMBERS);
                walk->offset += (size_t)used;
                *ret = entry;
                return 1;
        }
        return 0;
}
