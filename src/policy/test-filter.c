/* The system call filter, three times over: the compiled program against a plain walk through the table, the table
 * against what is expected of it in so many words, and the program in the kernel that runs this test. */
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"
#include "policy/bpf.h"
#include "policy/test-filter-walk.h"

static struct walk walk;
static walk_hits hits[SYSCALL_NUMBERS];
static struct walk_step steps[FILTER_ROOM];

static uint64_t random_next(void) {
        static uint64_t state = 0x9e3779b97f4a7c15;

        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return state;
}

static unsigned long compared, mismatched;

static void compare(const struct seccomp_data *data) {
        size_t clause;
        uint32_t expected = walk_table(&walk, data, &clause),
                 actual = walk_program(walk.program, walk.program_size, data, steps);

        compared++;
        if (data->arch == NATIVE && data->nr >= 0 && data->nr < SYSCALL_NUMBERS)
                hits[data->nr][clause]++;
        if (expected == actual)
                return;
        if (mismatched++ < 10)
                (void)printf("# call %d (%#jx, %#jx, %#jx): program says %#x, table %#x\n", data->nr,
                             (uintmax_t)data->args[0], (uintmax_t)data->args[1], (uintmax_t)data->args[2], actual,
                             expected);
}

static void compare_number(uint32_t nr, uint32_t arch) {
        struct seccomp_data data = {.nr = (int)nr, .arch = arch};

        for (unsigned round = 0; round < 8; round++) {
                for (unsigned i = 0; i < 6; i++)
                        data.args[i] = round == 0 ? 0 : round == 1 ? UINT64_MAX : random_next() >> (random_next() % 64);
                compare(&data);
        }
}

static void test_equivalence(void) {
        compared = mismatched = 0;
        for (size_t o = 0; o < ELEMENTSOF(walk_options); o++) {
                CHECK(walk_load(&walk, &walk_options[o]));
                memset(hits, 0, sizeof(hits));
                memset(steps, 0, sizeof(steps));
                for (uint32_t nr = 0; nr <= SYSCALL_NUMBERS + 8; nr++) {
                        compare_number(nr, NATIVE);
                        compare_number(nr, FOREIGN);
                        compare_number(nr | 0x40000000, NATIVE);
                        compare_number(nr | 0x80000000, NATIVE);
                }
                for (unsigned i = 0; i < 2000; i++)
                        compare_number((uint32_t)random_next(), i % 4 ? NATIVE : (uint32_t)random_next());
                for (size_t i = 0; i < walk.entry_count; i++)
                        if (walk.entries[i].rule && walk.entries[i].number >= 0)
                                walk_vectors(&walk.entries[i], compare);
                CHECK(walk_unreached(&walk, hits) == 0);
                CHECK(walk_idle(&walk, steps) == 0);
        }
        (void)printf("# %lu calls compared\n", compared);
        CHECK(mismatched == 0);
}

/* Names that do not resolve would silently change what is allowed, and so would a number that is not the call's. */
static void test_names(void) {
        struct syscalls_walk at = {0};
        struct syscall_entry e;
        size_t count = 0;

        while (syscalls_next(&at, &e, NULL) > 0) {
                count++;
#ifdef __x86_64__
                if (e.number < 0) {
                        (void)printf("# '%s' has no number\n", e.name);
                        CHECK(false);
                }
#endif
                CHECK(e.rule || e.action == SYSCALL_ALLOW || (e.action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
        }
        CHECK(count > 300);
}

static void test_compile(void) {
        struct sock_filter again[FILTER_ROOM];
        struct err err = {0};

        for (size_t o = 0; o < ELEMENTSOF(walk_options); o++) {
                CHECK(walk_load(&walk, &walk_options[o]));
                CHECK(walk.program_size <= 250);
                CHECK(filter_compile(&walk_options[o], again, ELEMENTSOF(again), &err) == (int)walk.program_size);
                CHECK(memcmp(again, walk.program, walk.program_size * sizeof(*again)) == 0);
                CHECK(filter_compile(&walk_options[o], again, walk.program_size - 1, &err) == ERR_LIMIT && err.text[0]);
        }
        (void)printf("# %zu instructions\n", walk.program_size);
}

/* A program longer than a conditional jump can reach: both kinds of stepping stone. */
static void test_far_jumps(void) {
        static struct bpf b;
        unsigned far, next, refuse, wrong = 0;

        memset(&b, 0, sizeof(b));
        (void)bpf_return(&b, 7);
        far = bpf_branch(&b, BPF_JGE, 1000, bpf_return(&b, 9), bpf_return(&b, 7)); /* not a return, and soon far away */
        refuse = next = bpf_return(&b, 3);
        for (uint32_t i = 500; i-- > 0;)
                next = bpf_branch(&b, BPF_JEQ, 3 * i, i % 2 ? far : refuse, next);
        (void)bpf_goto(&b, next);
        (void)bpf_load(&b, 0);
        CHECK(!b.full && b.count > 600);
        for (int i = 0; i < 3000; i++) {
                struct seccomp_data data = {.nr = i};
                bool odd = i % 3 == 0 && i < 1500 && (i / 3) % 2;

                wrong += walk_program(bpf_start(&b), b.count, &data, NULL) != (odd ? i >= 1000 ? 9 : 7 : 3);
        }
        CHECK(wrong == 0);
        for (uint32_t i = 0; i < BPF_ROOM; i++)
                (void)bpf_load(&b, 0);
        CHECK(b.full);
}

#define HIGH 0xffffffff00000000UL
#define HALF 0x0000000100000000UL

/* What is promised, in so many words; 0 is allowed. A second layer under the table: whoever changes a rule changes its
 * line here knowingly. */
static const struct {
        int nr;
        uint64_t args[6];
        int expected;
} promises[] = {
        {SYS_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}, 0},
        {SYS_socket, {AF_UNIX, SOCK_SEQPACKET}, 0},
        {SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6}, 0},
        {SYS_socket, {AF_INET6, SOCK_DGRAM, 17}, 0},
        {SYS_socket, {AF_INET, SOCK_RAW, 1}, EPERM},
        {SYS_socket, {AF_INET | HALF, SOCK_RAW | HALF, 1}, EPERM},
        {SYS_socket, {AF_INET, 10 /* SOCK_PACKET */, 0}, EPERM},
        {SYS_socket, {AF_INET, SOCK_SEQPACKET, 132}, EPERM},
        {SYS_socket, {AF_INET, SOCK_STREAM, 132}, EPROTONOSUPPORT},
        {SYS_socket, {AF_INET, SOCK_DGRAM, 1}, EPROTONOSUPPORT},
        {SYS_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE}, 0},
        {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER}, EAFNOSUPPORT},
        {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_AUDIT}, EAFNOSUPPORT},
        {SYS_socket, {AF_VSOCK, SOCK_STREAM}, EAFNOSUPPORT},
        {SYS_socket, {AF_PACKET, SOCK_RAW}, EAFNOSUPPORT},
        {SYS_socket, {AF_ALG, SOCK_SEQPACKET}, EAFNOSUPPORT},
        {SYS_socket, {UINT64_MAX, SOCK_STREAM}, EAFNOSUPPORT},
        {SYS_socketpair, {AF_UNIX, SOCK_STREAM}, 0},
        {SYS_socketpair, {40 /* AF_VSOCK */, SOCK_STREAM}, EAFNOSUPPORT},
        {SYS_setsockopt, {3, 6, 31}, ENOPROTOOPT},
        {SYS_setsockopt, {3, 6, 1}, 0},
        {SYS_ioctl, {0, TIOCSTI}, EPERM},
        {SYS_ioctl, {0, TIOCSTI | HALF}, EPERM},
        {SYS_ioctl, {0, TIOCLINUX | HIGH}, EPERM},
        {SYS_ioctl, {0, TIOCSETD}, EPERM},
        {SYS_ioctl, {0, TIOCCONS}, EPERM},
        {SYS_ioctl, {0, 0x4b4e /* KDSKBSENT, near enough */}, EPERM},
        {SYS_ioctl, {0, 0x5606 /* VT_ACTIVATE */}, EPERM},
        {SYS_ioctl, {0, FS_IOC_SETFLAGS}, EPERM},
        {SYS_ioctl, {0, FS_IOC_FSSETXATTR}, EPERM},
        {SYS_ioctl, {0, FIFREEZE}, EPERM},
        {SYS_ioctl, {0, FS_IOC_GETFLAGS}, 0},
        {SYS_ioctl, {0, FICLONE}, 0},
        {SYS_ioctl, {0, TIOCSCTTY}, 0},
        {SYS_ioctl, {0, TIOCGWINSZ}, 0},
        {SYS_ioctl, {0, TIOCSPGRP}, 0},
        {SYS_ioctl, {0, TCGETS}, 0},
        {SYS_ioctl, {0, FIONREAD}, 0},
        {SYS_personality, {0xffffffff}, 0},
        {SYS_personality, {0}, 0},
        {SYS_personality, {ADDR_NO_RANDOMIZE}, 0},
        {SYS_personality, {READ_IMPLIES_EXEC | HALF}, EPERM},
        {SYS_personality, {MMAP_PAGE_ZERO}, EPERM},
        {SYS_prctl, {PR_SET_MM, PR_SET_MM_EXE_FILE}, EPERM},
        {SYS_prctl, {PR_SET_MM | HIGH, PR_SET_MM_EXE_FILE}, EPERM},
        {SYS_prctl, {PR_SET_NAME}, 0},
        {SYS_prctl, {PR_SET_PDEATHSIG}, 0},
        {SYS_prctl, {PR_SET_VMA}, 0},
        {SYS_prctl, {PR_SET_PTRACER}, 0},
        {SYS_prctl, {62 /* PR_SCHED_CORE */, 1}, EPERM},
        {SYS_prctl, {59 /* PR_SET_SYSCALL_USER_DISPATCH */}, EINVAL},
        {SYS_prctl, {67 /* PR_SET_MEMORY_MERGE */}, EINVAL},
        {SYS_prctl, {12345}, EINVAL},
        {SYS_clone, {CLONE_NEWUSER | SIGCHLD}, EPERM},
        {SYS_clone, {CLONE_NEWNET | HALF}, EPERM},
        {SYS_clone, {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD}, 0},
        {SYS_clone, {HIGH | CLONE_IO | SIGCHLD}, 0},
        {SYS_unshare, {CLONE_NEWUSER}, EPERM},
        {SYS_unshare, {0x80 /* CLONE_NEWTIME */}, EPERM},
        {SYS_unshare, {HALF}, EPERM},
        {SYS_unshare, {CLONE_FILES | CLONE_FS}, 0},
        {SYS_clone3, {0}, ENOSYS},
        {SYS_openat, {0, 0, O_CREAT | O_WRONLY, 04755}, EPERM},
        {SYS_openat, {0, 0, (O_CREAT | O_WRONLY) | HALF, 02755 | HIGH}, EPERM},
        {SYS_openat, {0, 0, O_TMPFILE | O_RDWR, 04700}, EPERM},
        {SYS_openat, {0, 0, O_CREAT | O_WRONLY, 01644}, 0},
        {SYS_openat, {0, 0, O_DIRECTORY, 04755}, 0},
        {SYS_openat, {0, 0, O_RDONLY, UINT64_MAX}, 0},
        {SYS_openat2, {0}, ENOSYS},
        {SYS_fchmod, {0, 0644}, 0},
        {SYS_fchmod, {0, 04755}, EPERM},
        {SYS_fchmod, {0, 02755 | HALF}, EPERM},
        {SYS_fchmodat, {0, 0, 06755}, EPERM},
        {452 /* fchmodat2 */, {0, 0, 04755}, EPERM},
        {452 /* fchmodat2 */, {0, 0, 0755}, 0},
        {SYS_mkdirat, {0, 0, 01777}, 0},
        {SYS_mkdirat, {0, 0, 02777}, EPERM},
        {SYS_mknodat, {0, 0, S_IFIFO | 0600}, 0},
        {SYS_mknodat, {0, 0, S_IFSOCK | 0600}, 0},
        {SYS_mknodat, {0, 0, S_IFREG | 04755}, EPERM},
        {SYS_mknodat, {0, 0, S_IFREG | 02755}, EPERM},
        {SYS_mknodat, {0, 0, S_IFCHR | 0600}, EPERM},
        {SYS_mknodat, {0, 0, (S_IFBLK | 0600) | HALF}, EPERM},
        {SYS_renameat2, {0, 0, 0, 0, 1 /* NOREPLACE */}, 0},
        {SYS_renameat2, {0, 0, 0, 0, 4 /* WHITEOUT */}, EPERM},
        {SYS_seccomp, {1, 8}, EPERM},
        {SYS_seccomp, {1 | HALF, 9 | HALF}, EPERM},
        {SYS_seccomp, {1, 1}, 0},
        {SYS_seccomp, {2, 0}, 0},
        {SYS_io_uring_setup, {0}, ENOSYS},
        {SYS_keyctl, {0}, ENOSYS},
        {SYS_bpf, {0}, EPERM},
        {SYS_userfaultfd, {0}, EPERM},
        {SYS_perf_event_open, {0}, EPERM},
        {SYS_mount, {0}, EPERM},
        {SYS_setns, {0}, EPERM},
        {SYS_open_by_handle_at, {0}, EPERM},
        {SYS_pidfd_getfd, {0}, EPERM},
        {SYS_kcmp, {0}, EPERM},
        {SYS_memfd_create, {0, MFD_CLOEXEC}, 0},
        {SYS_memfd_create, {0, MFD_CLOEXEC | MFD_HUGETLB}, EPERM},
        {SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS}, 0},
        {SYS_mmap, {0, 4096, PROT_READ, (MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB) | HALF}, EPERM},
        {SYS_shmget, {0, 4096, 0600}, 0},
        {SYS_shmget, {0, 4096, 04600 /* SHM_HUGETLB */}, EPERM},
        {SYS_ptrace, {PTRACE_TRACEME}, 0},
        {462 /* mseal */, {0}, 0},
        {454 /* futex_wake */, {0}, 0},
        {470 /* listns */, {0}, ENOSYS},
        {600, {0}, ENOSYS},
#ifdef __x86_64__
        {SYS_open, {0, O_CREAT, 04755}, EPERM},
        {SYS_open, {0, O_RDWR, 04755}, 0},
        {SYS_creat, {0, 04755}, EPERM},
        {SYS_chmod, {0, 04755}, EPERM},
        {SYS_mknod, {0, S_IFCHR}, EPERM},
        {SYS_mknod, {0, 0644}, 0},
        {SYS_iopl, {3}, EPERM},
        {0x40000000 | SYS_getpid, {0}, ENOSYS},
        {0x40000000 | 520 /* x32 execve */, {0}, ENOSYS},
#endif
};

/* No arguments and no options make these right. Each name is followed by a space. */
static const char never[] = " acct add_key adjtimex bpf chroot clock_adjtime clock_settime clone3 delete_module "
                            "fanotify_init finit_module fsconfig fsmount fsopen fspick init_module io_setup io_submit "
                            "io_uring_enter io_uring_register io_uring_setup kcmp kexec_file_load kexec_load keyctl "
                            "lookup_dcookie memfd_secret mount mount_setattr move_mount move_pages name_to_handle_at "
                            "nfsservctl open_by_handle_at open_tree openat2 pidfd_getfd perf_event_open pivot_root "
                            "process_madvise quotactl quotactl_fd reboot request_key setdomainname sethostname setns "
                            "settimeofday swapoff swapon syslog umount2 userfaultfd vhangup vmsplice open_tree_attr "
                            "file_setattr iopl ioperm modify_ldt ";

static uint32_t verdict(int nr, uint64_t a0, uint64_t a1) {
        struct seccomp_data data = {.nr = nr, .arch = NATIVE, .args = {a0, a1}};

        return walk_program(walk.program, walk.program_size, &data, NULL);
}

static void test_promises(void) {
        CHECK(walk_load(&walk, &(struct filter_options){0}));
        for (size_t i = 0; i < ELEMENTSOF(promises); i++) {
                struct seccomp_data data = {.nr = promises[i].nr, .arch = NATIVE};
                uint32_t expected = promises[i].expected ? SYSCALL_REFUSE(promises[i].expected) : SYSCALL_ALLOW, actual;

                memcpy(data.args, promises[i].args, sizeof(data.args));
                actual = walk_program(walk.program, walk.program_size, &data, NULL);
                if (actual != expected) {
                        (void)printf("# promise %zu: call %d (%#jx, %#jx): %#x, not %#x\n", i, data.nr,
                                     (uintmax_t)data.args[0], (uintmax_t)data.args[1], actual, expected);
                        CHECK(false);
                }
        }
        for (size_t i = 0; i < walk.entry_count; i++) {
                char word[SYSCALL_NAME_MAX + 2];

                (void)snprintf(word, sizeof(word), " %s ", walk.entries[i].name);
                if (strstr(never, word) && (walk.entries[i].rule || walk.entries[i].action == SYSCALL_ALLOW)) {
                        (void)printf("# '%s' is allowed\n", walk.entries[i].name);
                        CHECK(false);
                }
        }
        CHECK(walk_load(&walk, &(struct filter_options){.no_memfd = true, .no_ptrace = true}));
        CHECK(verdict(SYS_memfd_create, 0, MFD_CLOEXEC) == SYSCALL_REFUSE(ENOSYS));
        CHECK(verdict(SYS_memfd_create, 0, MFD_CLOEXEC | 8) == SYSCALL_REFUSE(ENOSYS));
        CHECK(verdict(SYS_ptrace, PTRACE_TRACEME, 0) == SYSCALL_REFUSE(EPERM));
        CHECK(verdict(SYS_process_vm_readv, 1, 0) == SYSCALL_REFUSE(EPERM));
}

static void test_describe(void) {
        for (size_t o = 0; o < ELEMENTSOF(walk_options); o++) {
                _cleanup_buf_ struct buf text = {0};
                size_t lines = 0;

                CHECK(walk_load(&walk, &walk_options[o]));
                CHECK(filter_describe(&walk_options[o], &text) == 0);
                for (size_t i = 0; i < text.size; i++)
                        lines += text.data[i] == '\n';
                CHECK(lines == walk.entry_count + 2);
                CHECK(text.data && strstr(text.data, "TIOCSTI") && strstr(text.data, "refuse: ENOSYS"));
        }
}

/* ---- the kernel ---- */

static unsigned long kernel_calls;
static unsigned kernel_failures;

static void install(void) {
        struct sock_fprog fprog = {.len = (unsigned short)walk.program_size, .filter = walk.program};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) < 0) {
                (void)printf("# cannot install the filter: %m\n");
                _exit(99);
        }
}

/* Makes the call if the table refuses it, and expects just that errno. Arguments are never valid pointers. */
static void refuse_for_real(const struct seccomp_data *data) {
        uint32_t expected = walk_table(&walk, data, NULL);
        const __u64 *a = data->args;
        long r;

        if (expected == SYSCALL_ALLOW)
                return;
        kernel_calls++;
        r = syscall(data->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        if (r == -1 && errno == (int)(expected & SECCOMP_RET_DATA))
                return;
        if (kernel_failures++ < 10)
                (void)printf("# call %d (%#jx, %#jx): returned %ld, %m\n", data->nr, (uintmax_t)a[0], (uintmax_t)a[1],
                             r);
}

/* A filter that fails this test lets real calls through: nobody's rights, and no descriptor of the host's, keep them
 * harmless. */
static void become_harmless(void) {
        int memory = memfd_create("stdin", 0);

        if (memory < 0 || dup2(memory, 0) < 0)
                _exit(98);
        if (geteuid() == 0 &&
            (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
                _exit(98);
}

/* Runs body in a child with the filter. The child's session is its own: nothing there can touch a terminal. */
static int in_filter(void (*body)(void)) {
        int status = -1;
        pid_t pid;

        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
                (void)setsid();
                become_harmless();
                kernel_failures = 0;
                install();
                body();
                (void)fflush(stdout);
                _exit(kernel_failures > 0);
        }
        if (waitpid(pid, &status, 0) != pid)
                return -1;
        if (status != 0)
                (void)printf("# child ended with %#x\n", (unsigned)status);
        return status;
}

static void refused_body(void) {
        for (int nr = 0; nr < 600; nr++) {
                struct seccomp_data data = {.nr = nr, .arch = NATIVE};
                bool ruled = walk_kernels_own(nr);

                memset(data.args, 0xff, sizeof(data.args));
                for (size_t i = 0; i < walk.entry_count; i++)
                        ruled = ruled || (walk.entries[i].number == nr && walk.entries[i].rule);
                if (!ruled)
                        refuse_for_real(&data);
        }
        for (size_t i = 0; i < walk.entry_count; i++)
                if (walk.entries[i].rule && walk.entries[i].number >= 0)
                        walk_vectors(&walk.entries[i], refuse_for_real);
        (void)printf("# %lu calls refused by the kernel\n", kernel_calls);
        if (kernel_calls < 300)
                kernel_failures++;
}

static void test_kernel_refuses(void) {
        for (size_t o = 0; o < ELEMENTSOF(walk_options); o++) {
                CHECK(walk_load(&walk, &walk_options[o]));
                CHECK(in_filter(refused_body) == 0);
        }
}

#define WORKS(expression)                                                                                              \
        do {                                                                                                           \
                if ((expression) < 0) {                                                                                \
                        kernel_failures++;                                                                             \
                        (void)printf("# under the filter: %s: %m\n", #expression);                                     \
                }                                                                                                      \
        } while (0)

static void *thread_body(void *argument) {
        return argument;
}

static int thread_works(void) {
        pthread_t thread;
        void *result = NULL;

        errno = pthread_create(&thread, NULL, thread_body, &kernel_failures);
        if (errno != 0 || pthread_join(thread, &result) != 0 || result != &kernel_failures)
                return -1;
        return 0;
}

static int child_works(void) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                (void)execl("/bin/true", "true", (char *)NULL);
                _exit(1);
        }
        return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static void allowed_body(void) {
        char dir[] = "/tmp/stockade-filter-XXXXXX";
        int pair[2], fd;

        WORKS(mkdtemp(dir) ? 0 : -1);
        WORKS(chdir(dir));
        WORKS(fd = open("file", O_CREAT | O_RDWR | O_CLOEXEC, 0644));
        WORKS(fchmod(fd, 0600));
        WORKS(chmod("file", 01644));
        WORKS(mkdir("dir", 0755));
        WORKS(mkfifo("fifo", 0600));
        WORKS(rename("file", "other"));
        WORKS(renameat2(AT_FDCWD, "other", AT_FDCWD, "fifo", RENAME_EXCHANGE));
        WORKS(ioctl(fd, FIONREAD, &(int){0}));
        WORKS(unlink("other"));
        WORKS(unlink("fifo"));
        WORKS(rmdir("dir"));
        WORKS(chdir("/"));
        WORKS(rmdir(dir));
        WORKS(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        WORKS(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        WORKS(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
        WORKS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
        WORKS(epoll_create1(EPOLL_CLOEXEC));
        WORKS(memfd_create("memory", MFD_CLOEXEC));
        WORKS(personality(0xffffffff));
        WORKS(prctl(PR_SET_NAME, "filtered"));
        WORKS(prctl(PR_SET_PDEATHSIG, 0));
        WORKS(unshare(CLONE_FILES));
        WORKS(thread_works());
        WORKS(child_works());
        install(); /* a program may put a filter of its own on top */
        WORKS(child_works());
}

static void test_kernel_allows(void) {
        CHECK(walk_load(&walk, &(struct filter_options){0}));
        CHECK(in_filter(allowed_body) == 0);
}

#ifdef __x86_64__
static void foreign_body(void) {
        long r = 20; /* getpid, for i386 */

        if (syscall(0x40000000L | SYS_getpid) != -1 || errno != ENOSYS)
                kernel_failures++;
        (void)signal(SIGSEGV, SIG_DFL);
        __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
        if (r != -ENOSYS) {
                kernel_failures++;
                (void)printf("# int 0x80 returned %ld\n", r);
        }
}

static void test_kernel_foreign(void) {
        int status;

        CHECK(walk_load(&walk, &(struct filter_options){0}));
        status = in_filter(foreign_body);
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)); /* no 32-bit entry in this kernel */
}
#endif

TEST_MAIN(TEST(test_names), TEST(test_compile), TEST(test_far_jumps), TEST(test_equivalence), TEST(test_promises),
          TEST(test_describe), TEST(test_kernel_refuses), TEST(test_kernel_allows),
#ifdef __x86_64__
          TEST(test_kernel_foreign),
#endif
)
