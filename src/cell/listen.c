/* A second filter beside the plan's, for `stockade run --learn` only: calls that name files are told to a watcher
 * outside before they happen.
 *
 * It decides nothing. The watcher's only answer is "go on", and whatever the plan's own filter, Landlock and the mounts
 * say about the call still holds: of two filters the kernel takes the stricter answer, and telling is stricter than
 * allowing and weaker than refusing. When the watcher is gone the calls fail with ENOSYS. What is told is what the
 * memory of the caller holds at that moment; it may be changed before the call is carried out, so nobody may ever take
 * it for more than a note. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/kernel.h"
#include "cell/cell.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* a told call is not interrupted by signals */
#endif

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "which architecture is this?"
#endif

/* src/cli/learn_watch.c knows where each of them has its path. */
static const uint16_t told[] = {
        SYS_openat,     SYS_execve,   SYS_execveat, SYS_newfstatat, SYS_statx,     SYS_faccessat, SYS_faccessat2,
        SYS_readlinkat, SYS_chdir,    SYS_mkdirat,  SYS_unlinkat,   SYS_renameat2, SYS_linkat,    SYS_symlinkat,
        SYS_mknodat,    SYS_truncate, SYS_fchmodat, SYS_fchownat,   SYS_utimensat, SYS_connect,
#ifdef SYS_renameat
        SYS_renameat,
#endif
#ifdef SYS_open /* the older forms, where the architecture has them */
        SYS_open,       SYS_creat,    SYS_stat,     SYS_lstat,      SYS_access,    SYS_readlink,  SYS_mkdir,
        SYS_rmdir,      SYS_unlink,   SYS_rename,   SYS_link,       SYS_symlink,   SYS_mknod,     SYS_chmod,
        SYS_chown,      SYS_lchown,   SYS_utime,    SYS_utimes,
#endif
};

/* The listener goes out to the watcher; no copy stays. */
static int hand_out(const struct cell_context *c, int listener) {
        struct report r = {.kind = REPORT_LEARN};

        return cell_send(c->watcher, &r, &listener, 1);
}

int listen_install(const struct cell_context *c) {
        struct sock_filter program[ELEMENTSOF(told) + 6];
        size_t n = 0;

        program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); /* the plan's filter refuses */
        program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
        for (size_t i = 0; i < ELEMENTSOF(told); i++)
                program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, told[i],
                                                            (uint8_t)(ELEMENTSOF(told) - i), 0);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);

        struct sock_fprog filter = {.len = (unsigned short)n, .filter = program};
        unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
        long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                          &filter);
        if (fd < 0 && errno == EINVAL)
                fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
        if (fd < 0)
                return -errno;
        _cleanup_fd_ int listener = (int)fd;
        return hand_out(c, listener);
}
