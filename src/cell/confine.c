/* PHASE_CONFINE: no new privileges, Landlock, seccomp. From here on the kernel refuses; there is no way back. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "cell/cell.h"
#include "cell/kernel.h"

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

static int step_seccomp(const struct plan_step *s) {
        size_t count = s->blob_size / sizeof(struct sock_filter);

        if (count == 0 || count > BPF_MAXINSNS || s->blob_size % sizeof(struct sock_filter) != 0)
                return -EINVAL;
        struct sock_fprog program = {.len = (unsigned short)count, .filter = (struct sock_filter *)(uintptr_t)s->blob};
        return (int)kernel_result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

int confine_step(struct cell_context *c, const struct plan_step *s) {
        switch ((int)s->op) {
        case OP_NO_NEW_PRIVS:
                return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
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
                return step_seccomp(s);
        default:
                return -EINVAL;
        }
}
