/* Giving things up. */
#include "base/lockdown.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/kernel.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the filter does not know this architecture"
#endif

static int get_capabilities(struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3]) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

        return (int)kernel_result(syscall(SYS_capget, &header, now));
}

int lockdown_bounding(void) {
        struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];
        int r = get_capabilities(now);

        if (r < 0)
                return r;
        for (unsigned long cap = 0; cap < 64; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
                        if (errno == EINVAL) /* past the last one that there is */
                                return 0;
                        /* without a single capability, no_new_privs says the same */
                        return errno == EPERM && !(now[0].permitted | now[1].permitted) ? 0 : -errno;
                }
        return 0;
}

int lockdown_keep_capabilities(uint64_t mask) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct want[_LINUX_CAPABILITY_U32S_3] = {0}, now[_LINUX_CAPABILITY_U32S_3];

        for (size_t i = 0; i < ELEMENTSOF(want); i++)
                want[i].effective = want[i].permitted = (uint32_t)(mask >> 32 * i);
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &header, want) < 0)
                return -errno;
        int r = get_capabilities(now);
        return r < 0 ? r : memcmp(now, want, sizeof now) == 0 ? 0 : -EPERM;
}

int lockdown_capabilities(void) {
        return lockdown_keep_capabilities(0);
}

int lockdown_no_new_privileges(void) {
        return (int)kernel_result(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

int lockdown_private(void) {
        struct rlimit now;

        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || getrlimit(RLIMIT_CORE, &now) < 0)
                return -errno;
        /* a limit of 1 byte also stops handlers behind a pipe; lower is lower */
        now.rlim_cur = now.rlim_max = MIN((rlim_t)1, now.rlim_max);
        return (int)kernel_result(setrlimit(RLIMIT_CORE, &now));
}

/* --- Landlock --- */

#define NET_BIND_TCP    (1ULL << 0)
#define NET_CONNECT_TCP (1ULL << 1)
#define READ_RIGHTS     (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_RIGHTS                                                                                                   \
        (READ_RIGHTS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_REMOVE_DIR |   \
         LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                  \
         LANDLOCK_ACCESS_FS_REFER)
#define TREE_RIGHTS (WRITE_RIGHTS | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_MAKE_FIFO)

static uint64_t rights_of(enum lockdown_right right) {
        switch (right) {
        case LOCKDOWN_READ:
                return READ_RIGHTS;
        case LOCKDOWN_WRITE:
                return WRITE_RIGHTS;
        case LOCKDOWN_TREE:
                return TREE_RIGHTS;
        case LOCKDOWN_CONNECT:
        default:
                return 0;
        }
}

int lockdown_files(const struct lockdown_place *places, size_t count) {
        struct kernel_landlock_ruleset all = {0};
        size_t size = sizeof all.handled_access_fs;
        int abi = kernel_landlock_abi();

        if (abi < 0)
                return abi == -ENOSYS || abi == -EOPNOTSUPP ? 1 : abi;
        all.handled_access_fs = abi >= 5   ? (LANDLOCK_ACCESS_FS_IOCTL_DEV << 1) - 1
                                : abi >= 3 ? (LANDLOCK_ACCESS_FS_TRUNCATE << 1) - 1
                                : abi == 2 ? (LANDLOCK_ACCESS_FS_REFER << 1) - 1
                                           : (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
        if (abi >= 4) {
                all.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
                for (size_t i = 0; i < count; i++)
                        if (places[i].right == LOCKDOWN_CONNECT)
                                all.handled_access_net = NET_BIND_TCP;
                size = offsetof(struct kernel_landlock_ruleset, scoped);
        }
        if (abi >= 6) {
                all.scoped = KERNEL_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | KERNEL_LANDLOCK_SCOPE_SIGNAL;
                size = sizeof all;
        }
        _cleanup_fd_ int set = (int)kernel_result(syscall(SYS_landlock_create_ruleset, &all, size, 0));
        if (set < 0)
                return set;
        for (size_t i = 0; i < count; i++) {
                struct landlock_path_beneath_attr rule = {.parent_fd = places[i].dir};

                if (places[i].right == LOCKDOWN_CONNECT)
                        continue;
                rule.allowed_access = rights_of(places[i].right) & all.handled_access_fs;
                if (syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
                        return -errno;
        }
        return (int)kernel_result(syscall(SYS_landlock_restrict_self, set, 0));
}

/* --- seccomp --- */

#define AT(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define ADD(...)  program[n++] = (struct sock_filter)__VA_ARGS__
#define REFUSE    (SECCOMP_RET_ERRNO | EPERM)

/* Refuses unless the argument is as said; goes on behind it if it is. */
static size_t add_test(struct sock_filter *program, size_t n, const struct lockdown_call *t) {
        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(args[0]) + 8 * t->argument));
        switch (t->test) {
        case LOCKDOWN_ANY_OF:
                for (size_t k = 0; k < t->count; k++)
                        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, t->values[k], (uint8_t)(t->count - k), 0));
                break;
        case LOCKDOWN_NONE_OF:
                ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, t->values[0], 0, 1));
                break;
        case LOCKDOWN_ALL_OF:
                ADD(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, t->values[0]));
                ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, t->values[0], 1, 0));
                break;
        case LOCKDOWN_ABSENT:
        default:
                break; /* nothing jumps over the refusal */
        }
        ADD(BPF_STMT(BPF_RET | BPF_K, REFUSE));
        return n;
}

/* The rows of one call; *i is the last of them afterwards. */
static size_t add_tested(struct sock_filter *program, size_t n, const struct lockdown_call *tested, size_t *i) {
        size_t skip = n;

        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)tested[*i].call, 0, 0));
        if (tested[*i].test == LOCKDOWN_ABSENT)
                ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
        else {
                n = add_test(program, n, &tested[*i]);
                while (tested[*i].more)
                        n = add_test(program, n, &tested[++*i]);
                ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        }
        program[skip].jf = (uint8_t)(n - skip - 1);
        return n;
}

int lockdown_calls(const int *plain, size_t plain_count, const struct lockdown_call *tested, size_t tested_count) {
        size_t n = 0, room = 8 + 2 * plain_count + (ELEMENTSOF(tested->values) + 4) * tested_count;
        _cleanup_free_ struct sock_filter *program = NULL;

        if (room > BPF_MAXINSNS)
                return -E2BIG;
        program = calloc(room, sizeof *program);
        if (!program)
                return -ENOMEM;
        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(arch)));
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
        ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT(nr)));
        for (size_t i = 0; i < plain_count; i++) {
                ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)plain[i], 0, 1));
                ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        }
        for (size_t i = 0; i < tested_count; i++)
                n = add_tested(program, n, tested, &i);
        ADD(BPF_STMT(BPF_RET | BPF_K, REFUSE));
        struct sock_fprog filter = {.len = (unsigned short)n, .filter = program};
        return (int)kernel_result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
}
