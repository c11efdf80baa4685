/* PHASE_CONFINE: no new privileges, Landlock, seccomp. From here on the kernel refuses; there is no way back. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "cell/cell.h"

/* Rights that mean something for a file that is not a directory. */
#define FILE_RIGHTS                                                                                                    \
        (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |                   \
         LANDLOCK_ACCESS_FS_TRUNCATE | LANDLOCK_ACCESS_FS_IOCTL_DEV)

/* The rights that a kernel with this ABI knows. */
static uint64_t known_rights(int abi) {
        if (abi >= 5)
                return (LANDLOCK_ACCESS_FS_IOCTL_DEV << 1) - 1;
        if (abi >= 3)
                return (LANDLOCK_ACCESS_FS_TRUNCATE << 1) - 1;
        if (abi == 2)
                return (LANDLOCK_ACCESS_FS_REFER << 1) - 1;
        return (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
}

/* number[0]: rights to handle where the kernel knows them; number[1]: the oldest ABI that is enough. */
static int step_landlock(struct cell_context *c, const struct plan_step *s) {
        int abi = kernel_landlock_abi();

        if (abi < 0)
                return abi;
        if ((uint64_t)abi < s->number[1])
                return -EOPNOTSUPP;
        c->landlock_handled = s->number[0] & known_rights(abi);
        c->landlock_flags = abi >= 7 ? KERNEL_LANDLOCK_LOG_NEW_EXEC_ON : 0;
        struct kernel_landlock_ruleset attr = {
                .handled_access_fs = c->landlock_handled,
                .scoped = abi >= 6 ? KERNEL_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | KERNEL_LANDLOCK_SCOPE_SIGNAL : 0,
        };
        size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? offsetof(struct kernel_landlock_ruleset, scoped) : 8;

        c->ruleset = (int)kernel_result(syscall(SYS_landlock_create_ruleset, &attr, size, 0));
        return c->ruleset < 0 ? c->ruleset : 0;
}

static int step_rule(const struct cell_context *c, const struct plan_step *s) {
        struct stat st;
        _cleanup_fd_ int fd = open(s->text[0], O_PATH | O_CLOEXEC | (s->flags & STEP_UNLINKED ? O_NOFOLLOW : 0));
        if (fd < 0)
                return errno == ENOENT && (s->flags & STEP_OPTIONAL) ? 0 : -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode))
                return 0;
        uint64_t rights = s->number[0] & c->landlock_handled;
        if (!S_ISDIR(st.st_mode))
                rights &= FILE_RIGHTS;
        if (rights == 0)
                return 0;
        struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
        return (int)kernel_result(syscall(SYS_landlock_add_rule, c->ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
}

static int step_rlimit(const struct plan_step *s) {
        struct {
                uint64_t soft, hard;
        } now, want = {s->number[1], s->number[1]};

        if (syscall(SYS_prlimit64, 0, s->number[0], NULL, &now) < 0)
                return -errno;
        /* never above what we were given: lowering needs no privilege */
        if (want.hard > now.hard)
                want.soft = want.hard = now.hard;
        return syscall(SYS_prlimit64, 0, s->number[0], &want, NULL) < 0 ? -errno : 0;
}

static int load_filter(const void *code, size_t size) {
        size_t count = size / sizeof(struct sock_filter);

        if (count == 0 || count > BPF_MAXINSNS || size % sizeof(struct sock_filter) != 0)
                return -EINVAL;
        struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)(uintptr_t)code};
        return (int)kernel_result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

/* The warden's own domain, below the plan's: it grants all that Landlock knows but devices, and keeps signals and
 * abstract sockets inside. Moving files between folders has to be handled to be granted at all. */
static int base_domain(void) {
        int abi = kernel_landlock_abi();
        struct kernel_landlock_ruleset attr = {
                .handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                                     LANDLOCK_ACCESS_FS_REFER,
                .scoped = KERNEL_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | KERNEL_LANDLOCK_SCOPE_SIGNAL,
        };

        if (abi < 0)
                return abi;
        if (abi < 2)
                return -EOPNOTSUPP;
        _cleanup_fd_ int ruleset = (int)kernel_result(
                syscall(SYS_landlock_create_ruleset, &attr, abi >= 6 ? sizeof attr : sizeof attr.handled_access_fs, 0));
        if (ruleset < 0)
                return ruleset;
        _cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
                return -errno;
        struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_REFER, .parent_fd = root};
        int r = (int)kernel_result(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
        return r < 0 ? r : (int)kernel_result(syscall(SYS_landlock_restrict_self, ruleset, 0));
}

static int step_no_new_privs(const struct cell_context *c) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return c->base && c->base->landlock && !knockout_off(KNOCKOUT_LANDLOCK) ? base_domain() : 0;
}

/* In a test build: is the layer of this step off? */
static bool is_off(const struct plan_step *s) {
        switch ((int)s->op) {
        case OP_NO_NEW_PRIVS:
                return knockout_off(KNOCKOUT_NNP);
        case OP_LANDLOCK:
        case OP_LANDLOCK_RULE:
        case OP_LANDLOCK_END:
                return knockout_off(KNOCKOUT_LANDLOCK);
        case OP_RLIMIT:
                return knockout_off(KNOCKOUT_RLIMITS);
        case OP_SECCOMP:
                return knockout_off(KNOCKOUT_SECCOMP);
        default:
                return false;
        }
}

int confine_step(struct cell_context *c, const struct plan_step *s) {
        if (is_off(s))
                return 0;
        switch ((int)s->op) {
        case OP_NO_NEW_PRIVS:
                return step_no_new_privs(c);
        case OP_LANDLOCK:
                return step_landlock(c, s);
        case OP_LANDLOCK_RULE:
                return step_rule(c, s);
        case OP_LANDLOCK_END:
                return (int)kernel_result(syscall(SYS_landlock_restrict_self, c->ruleset, c->landlock_flags));
        case OP_RLIMIT:
                return step_rlimit(s);
        case OP_SECCOMP:
                /* the plan's filter lets nobody make a listener, so ours comes first */
                if (c->learn) {
                        int r = listen_install(c);
                        if (r < 0)
                                return r;
                }
                if (c->base && c->base->filter) {
                        int r = load_filter(c->base->filter, c->base->filter_size);
                        if (r < 0)
                                return r;
                }
                return load_filter(s->blob, s->blob_size);
        default:
                return -EINVAL;
        }
}
