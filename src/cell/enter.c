/* PHASE_ENTER: the child turns from the host's tree, ids and privileges to the sandbox's. After OP_PIVOT no path of
 * the host can be named; after OP_IDS no right on the host is left. */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "cell/cell.h"

/* Mounts that are attached nowhere are taken apart when their descriptors are closed, and the kernel makes us wait for
 * each. Attached to the tree that we are about to leave, they go with it, in one step; a descriptor of one can still be
 * used. What cannot be attached is taken apart later, as before. */
static void leave_behind(struct cell_context *c) {
        const int mounts[] = {c->proc, c->empty};
        _cleanup_fd_ int folder = openat(c->host, "usr", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_fd_ int file = openat(c->host, "dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);

        for (size_t i = 0; i < ELEMENTSOF(mounts); i++)
                if (mounts[i] >= 0 && folder >= 0)
                        (void)kernel_move_mount(mounts[i], "", folder, "",
                                                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
        if (c->null >= 0 && file >= 0)
                (void)kernel_move_mount(c->null, "", file, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static int step_pivot(struct cell_context *c) {
        leave_behind(c);
        /* the old root lands on top of the new one and is detached with everything below it */
        if (fchdir(c->root) < 0)
                return -errno;
        int r = kernel_pivot_root(".", ".");
        if (r < 0)
                return r;
        if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        fd_close(&c->host);
        fd_close(&c->root);
        return 0;
}

int enter_session(void) {
        if (!knockout_off(KNOCKOUT_STREAMS) && setsid() < 0)
                return -errno;
        (void)umask(022);
        if (knockout_off(KNOCKOUT_KEYRING))
                return 0;
        /* -ENOSYS: no keyrings in this kernel, nothing to leave */
        if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
                return -errno;
        return 0;
}

/* Rootless: one more user and mount namespace, so that every mount above is locked; it maps the same single id. */
static int lock_mounts(const struct cell_context *c, uint64_t uid, uint64_t gid) {
        char text[64];

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return -errno;
        (void)snprintf(text, sizeof text, "%llu %llu 1", (unsigned long long)uid, (unsigned long long)uid);
        int r = fd_write_at(c->proc, "self/uid_map", text);
        (void)snprintf(text, sizeof text, "%llu %llu 1", (unsigned long long)gid, (unsigned long long)gid);
        return r == 0 ? fd_write_at(c->proc, "self/gid_map", text) : r;
}

/* In a test build, as root: there is no user namespace, and the user inside is the host's root. */
static bool ids_off(const struct cell_context *c) {
        return knockout_off(KNOCKOUT_IDS) && !c->rootless;
}

static int step_ids(struct cell_context *c, const struct plan_step *s) {
        if (ids_off(c))
                return setgroups(0, NULL) < 0 ? -errno : 0;
        if (c->rootless) {
                int r = lock_mounts(c, s->number[0], s->number[1]);
                if (r < 0)
                        return r;
        } else if (setns(c->user_ns, CLONE_NEWUSER) < 0 || setgroups(0, NULL) < 0)
                return -errno;
        /* raw calls: libc's would signal threads that do not exist */
        if (syscall(SYS_setresgid, s->number[1], s->number[1], s->number[1]) < 0 ||
            syscall(SYS_setresuid, s->number[0], s->number[0], s->number[0]) < 0)
                return -errno;
        return 0;
}

/* Inside the new user namespace, whose owner we are for a moment: nobody may nest another, and of what the kernel
 * counts for the launcher's own id a sandbox gets a part. */
static int step_no_nesting(const struct cell_context *c) {
        static const struct {
                const char *file, *value;
                bool needed;
        } limits[] = {{"sys/user/max_user_namespaces", "0", true},
                      {"sys/user/max_inotify_instances", "32", false},
                      {"sys/user/max_inotify_watches", "16384", false},
                      {"sys/user/max_fanotify_groups", "0", false}};

        if (knockout_off(KNOCKOUT_IDS))
                return 0; /* as root the namespace would be the host's, and so would be the limits */
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                int r = fd_write_at(c->proc, limits[i].file, limits[i].value);
                if (r < 0 && (limits[i].needed || r != -ENOENT)) /* a kernel without the thing has no limit on it */
                        return r;
        }
        return 0;
}

/* In a test build: every capability that there is survives every exec. */
static int keep_caps(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct all[_LINUX_CAPABILITY_U32S_3];

        if (syscall(SYS_capget, &header, all) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                all[i].inheritable = all[i].effective = all[i].permitted;
        if (syscall(SYS_capset, &header, all) < 0)
                return -errno;
        for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0 && errno != EPERM)
                        return -errno;
        return 0;
}

static int step_caps(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

        if (knockout_off(KNOCKOUT_CAPS))
                return keep_caps();
        for (unsigned long cap = 0;; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
                        if (errno != EINVAL || cap == 0)
                                return -errno;
                        break; /* past the last one that this kernel knows */
                }
        if (prctl(PR_SET_SECUREBITS,
                  SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
                          SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
                  0, 0, 0) < 0)
                return -errno;
        if (knockout_off(KNOCKOUT_NNP))
                return 0; /* without it a filter needs a capability: they last until exec */
        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int enter_step(struct cell_context *c, const struct plan_step *s) {
        struct mount_attr readonly = {.attr_set = MOUNT_ATTR_RDONLY};

        switch ((int)s->op) {
        case OP_PIVOT:
                return step_pivot(c);
        case OP_READONLY:
                if (knockout_off(KNOCKOUT_MOUNTS))
                        return 0;
                return kernel_mount_setattr(AT_FDCWD, s->text[0], AT_SYMLINK_NOFOLLOW, &readonly);
        case OP_SESSION:
                return enter_session();
        case OP_IDS:
                return step_ids(c, s);
        case OP_NO_NESTING:
                return step_no_nesting(c);
        case OP_CAPS:
                return step_caps();
        default:
                return -EINVAL;
        }
}
