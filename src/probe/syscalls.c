/* System calls that have been a way out, or that only a privileged program needs. Each is made with arguments that do
 * nothing, or that the kernel refuses just after it has looked at who asks: only EPERM and ENOSYS say that the call is
 * closed, everything else that it can be reached. */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif
#ifndef SYS_file_setattr
#define SYS_file_setattr 469
#endif

static void io_uring(struct result *r) {
        char params[256] = {0};

        probe_gate(r, syscall(SYS_io_uring_setup, 1, params));
}

static void old_aio(struct result *r) {
        unsigned long context = 0;

        probe_gate(r, syscall(SYS_io_setup, 1, &context));
}

static void bpf_map(struct result *r) {
        union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

        probe_gate(r, syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

static void fault_handler(struct result *r) {
        probe_gate(r, syscall(SYS_userfaultfd, 1 /* user mode only */ | O_CLOEXEC));
}

static void perf(struct result *r) {
        struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};

        probe_gate(r, syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static void kernel_log(struct result *r) {
        char text[64];

        probe_gate(r, syscall(SYS_syslog, 3, text, sizeof text));
}

static void modules(struct result *r) {
        if (syscall(SYS_init_module, NULL, 0, "") < 0 && errno == EPERM && syscall(SYS_finit_module, -1, "", 0) < 0 &&
            errno == EPERM)
                probe_gate(r, syscall(SYS_delete_module, "no-such-module", O_NONBLOCK));
        else
                probe_gate(r, -1);
}

static void kexec(struct result *r) {
        probe_gate(r, syscall(SYS_kexec_load, 0, 0, NULL, 0xffffUL)); /* no such flags */
}

static void reboot_call(struct result *r) {
        probe_gate(r, syscall(SYS_reboot, 0, 0, 0, NULL)); /* wrong magic */
}

static void swap(struct result *r) {
        probe_gate(r, syscall(SYS_swapon, "/nonexistent/swap", 0));
}

static void accounting(struct result *r) {
        probe_gate(r, syscall(SYS_acct, "/nonexistent/accounting"));
}

static void quota(struct result *r) {
        char out[256];

        probe_gate(r, syscall(SYS_quotactl, QCMD(Q_GETFMT, USRQUOTA), "/nonexistent/device", 0, out));
}

static void hostname(struct result *r) {
        probe_gate(r, syscall(SYS_sethostname, "", 1000)); /* too long */
}

static void set_clock(struct result *r) {
        struct timezone wrong = {.tz_minuteswest = 100000}; /* looked at after who asks; the time itself before */

        probe_gate(r, syscall(SYS_settimeofday, NULL, &wrong));
}

static void adjust_clock(struct result *r) {
        struct timex ask = {.modes = 0};

        probe_gate(r, syscall(SYS_adjtimex, &ask));
}

static void ports(struct result *r) {
#ifdef __x86_64__
        if (syscall(SYS_ioperm, 0x80, 1, 0) < 0)
                probe_gate(r, -1);
        else
                probe_gate(r, syscall(SYS_iopl, 0));
#else
        probe_refused(r, ENOSYS, "no such thing here");
#endif
}

static void key_add(struct result *r) {
        probe_gate(r, syscall(SYS_add_key, "user", "stockade-probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

/* A key that the judge put where a process of the same user would find it: key=DESCRIPTION. */
static void key_read(struct result *r) {
        static const int rings[] = {KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_KEYRING, KEY_SPEC_USER_SESSION_KEYRING};
        const char *name = probe_fact("key") ? probe_fact("key") : "nobody";
        char text[128] = "";
        int error = ENOKEY;

        for (size_t i = 0; i < ELEMENTSOF(rings); i++) {
                long key = syscall(SYS_keyctl, KEYCTL_SEARCH, rings[i], "user", name, 0);
                if (key >= 0 && syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1) >= 0) {
                        probe_done(r, "%s", text);
                        return;
                }
                error = errno;
        }
        probe_refused(r, error, "%s", strerror(error));
}

static void key_request(struct result *r) {
        probe_gate(r, syscall(SYS_request_key, "user", "stockade-probe-none", NULL, 0));
}

static void watch_all(struct result *r) {
        probe_gate(r, syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_CLOEXEC, O_RDONLY));
}

static void secret_memory(struct result *r) {
        probe_gate(r, syscall(SYS_memfd_secret, O_CLOEXEC));
}

static void splice_memory(struct result *r) {
        int ends[2];
        struct {
                const void *base;
                size_t length;
        } piece = {"x", 1};

        if (pipe(ends) == 0)
                probe_gate(r, syscall(SYS_vmsplice, ends[1], &piece, 1, 0));
}

static void segments(struct result *r) {
#ifdef __x86_64__
        char out[64];

        probe_gate(r, syscall(SYS_modify_ldt, 0, out, sizeof out));
#else
        probe_refused(r, ENOSYS, "no such thing here");
#endif
}

static void pages(struct result *r) {
        probe_gate(r, syscall(SYS_move_pages, 0, 0UL, NULL, NULL, NULL, 0));
}

static void mount_list(struct result *r) {
        struct {
                unsigned size, spare;
                unsigned long long id, param;
        } ask = {24, 0, ~0ULL /* the root */, 0};
        unsigned long long ids[16];

        probe_gate(r, syscall(SYS_listmount, &ask, ids, 16, 0));
}

static void execution_domain(struct result *r) {
        probe_gate(r, syscall(SYS_personality, READ_IMPLIES_EXEC));
}

/* Inode flags of a file of our own: set what it has. */
static void inode_flags(struct result *r) {
        char path[256];
        long flags = 0;
        _cleanup_fd_ int fd = probe_scratch(path, sizeof path, "flags");

        if (fd < 0) {
                probe_note(r, "no scratch file: %s", strerror(-fd));
                return;
        }
        (void)syscall(SYS_ioctl, fd, FS_IOC_GETFLAGS, &flags);
        probe_gate(r, syscall(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags));
        (void)unlink(path);
}

static void inode_attributes(struct result *r) {
        char path[256], attributes[32] = {0};
        _cleanup_fd_ int fd = probe_scratch(path, sizeof path, "attr");

        if (fd >= 0)
                probe_gate(r, syscall(SYS_file_setattr, AT_FDCWD, path, attributes, 24, 0));
        (void)unlink(path);
}

const struct attempt syscalls_attempts[] = {
        {"call-io-uring", io_uring, QUICK},
        {"call-aio", old_aio, QUICK},
        {"call-bpf", bpf_map, QUICK},
        {"call-userfaultfd", fault_handler, QUICK},
        {"call-perf", perf, QUICK},
        {"call-syslog", kernel_log, QUICK},
        {"call-modules", modules, QUICK},
        {"call-kexec", kexec, QUICK},
        {"call-reboot", reboot_call, QUICK},
        {"call-swap", swap, QUICK},
        {"call-acct", accounting, QUICK},
        {"call-quota", quota, QUICK},
        {"call-sethostname", hostname, QUICK},
        {"call-set-clock", set_clock, QUICK},
        {"call-adjtimex", adjust_clock, QUICK},
        {"call-ports", ports, QUICK},
        {"call-add-key", key_add, QUICK},
        {"key-read", key_read, QUICK},
        {"call-request-key", key_request, QUICK},
        {"call-fanotify", watch_all, QUICK},
        {"call-memfd-secret", secret_memory, QUICK},
        {"call-vmsplice", splice_memory, QUICK},
        {"call-modify-ldt", segments, QUICK},
        {"call-move-pages", pages, QUICK},
        {"call-listmount", mount_list, QUICK},
        {"call-personality", execution_domain, QUICK},
        {"inode-flags", inode_flags, QUICK},
        {"inode-attributes", inode_attributes, QUICK},
        {0},
};
