/* Probes: what confines a process (Landlock, seccomp) and what tells us about denials. */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fanotify.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "cell/host-probe.h"

/* Forbids reading and sees that it is forbidden. */
static int try_landlock(void *argument) {
        struct kernel_landlock_ruleset attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE |
                                                                    LANDLOCK_ACCESS_FS_EXECUTE};

        (void)argument;
        int ruleset = (int)kernel_result(syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0));
        if (ruleset < 0)
                return ruleset;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
                return -errno;
        return open("/proc/self/status", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : -EIO;
}

static void probe_landlock(struct host_fact *f) {
        static const char *const adds[] = {
                [2] = "moves between folders",        [3] = "truncate",        [4] = "TCP ports", [5] = "device ioctls",
                [6] = "signals and abstract sockets", [7] = "a log of denials"};
        int abi = kernel_landlock_abi(), r = host_try(try_landlock, NULL);

        if (abi < 1 || r < 0) {
                host_say(f, FACT_MISSING, "%s",
                         abi == -EOPNOTSUPP ? "switched off at boot" : err_name(abi < 0 ? abi : r));
                host_cost(f, "no tier can start: files and programs would have one layer of protection less");
                host_fix(f, abi == -EOPNOTSUPP
                                    ? "boot with lsm=landlock,... (add it to the list in /sys/kernel/security/lsm)"
                                    : "a kernel of 5.19 or newer with CONFIG_SECURITY_LANDLOCK");
                return;
        }
        host_say(f, abi >= 6 ? FACT_OK : FACT_LIMITED, "ABI %d: files and programs", abi);
        for (int i = 2; i < (int)ELEMENTSOF(adds); i++) {
                char *list = i <= abi ? f->detail : f->cost;
                size_t room = i <= abi ? sizeof f->detail : sizeof f->cost, used = strlen(list);
                if (i <= abi || abi < 6)
                        (void)snprintf(list + used, room - used, "%s%s",
                                       used ? ", " : "no second layer for: ", adds[i]);
        }
        if (abi < 6)
                host_fix(f, "a kernel of 6.12 or newer (each of these has another layer: the tiers still run)");
}

/* A filter that answers one call with an error of its own. */
static int load_filter(unsigned flags, int *ret) {
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, flags ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EXDEV),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ELEMENTSOF(code), .filter = code};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
        if (r < 0)
                return -errno;
        *ret = (int)r;
        return 0;
}

static int try_seccomp(void *argument) {
        int unused;

        (void)argument;
        int r = load_filter(0, &unused);
        if (r < 0)
                return r;
        return syscall(SYS_getpgid, 0) < 0 && errno == EXDEV ? 0 : -EIO;
}

static int try_notify(void *argument) {
        int listener;

        (void)argument;
        int r = load_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, &listener);
        return r < 0 ? r : listener >= 0 ? 0 : -EIO;
}

static void probe_seccomp(struct host_fact *f) {
        host_judge(f, host_try(try_seccomp, NULL), "system calls can be filtered", "no sandbox can start",
                   "a kernel with CONFIG_SECCOMP_FILTER");
}

static void probe_notify(struct host_fact *f) {
        host_judge(f, host_try(try_notify, NULL), "a watcher can be asked", "--learn does not work",
                   "a kernel of 5.0 or newer; not inside another tool that already uses seccomp notification");
}

static int try_fanotify(void *argument) {
        (void)argument;
        int r = host_unshare(CLONE_NEWNS);
        if (r < 0)
                return r;
        _cleanup_fd_ int fd = (int)syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return syscall(SYS_fanotify_mark, fd, FAN_MARK_ADD | FAN_MARK_MOUNT, (uint64_t)FAN_OPEN_EXEC, AT_FDCWD,
                       "/usr") < 0
                       ? -errno
                       : 0;
}

static void probe_fanotify(struct host_fact *f) {
        host_judge(f, geteuid() == 0 ? host_try(try_fanotify, NULL) : -EPERM, "programs that start can be recorded",
                   "record.exec is refused",
                   geteuid() == 0 ? "a kernel with CONFIG_FANOTIFY"
                                  : "run as root: the kernel watches mounts for root only");
        if (f->state == FACT_MISSING)
                f->state = FACT_LIMITED;
}

/* Joins the audit multicast group, as the reader of Landlock's denials does. */
static int try_audit(void *argument) {
        struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1 << (AUDIT_NLGRP_READLOG - 1)};

        (void)argument;
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);
        if (fd < 0)
                return -errno;
        return bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : 0;
}

static void probe_audit(struct host_fact *f) {
        int abi = kernel_landlock_abi(), r = host_try(try_audit, NULL);

        if (r == 0 && abi >= 7) {
                host_say(f, FACT_OK, "Landlock's denials can be read from the audit log");
                return;
        }
        if (abi < 7)
                host_say(f, FACT_LIMITED, "Landlock ABI %d logs no denials", MAX(abi, 0));
        else
                host_say(f, FACT_LIMITED, "the audit log cannot be read: %s", err_name(r));
        host_cost(f, "refused file accesses are not listed at the end of a run");
        host_fix(f,
                 abi < 7 ? "a kernel of 6.15 or newer" : "run as root (CAP_AUDIT_READ) on a kernel with CONFIG_AUDIT");
}

const struct host_probe host_guard_probes[] = {
        {"Landlock", probe_landlock, true},
        {"seccomp", probe_seccomp, true},
        {"seccomp notification", probe_notify, false},
        {"fanotify", probe_fanotify, false},
        {"audit log", probe_audit, false},
        {NULL, NULL, false},
};
