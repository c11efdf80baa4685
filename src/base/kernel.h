/* Kernel interfaces that libc does not wrap, or that the build machine's headers are too old to name.
 *
 * Thin: each wrapper returns what the system call returns, or -errno. Safe between clone and exec. */
#pragma once

#include <errno.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macro.h"

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
#define KERNEL_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define KERNEL_LANDLOCK_LOG_NEW_EXEC_ON            (1U << 1) /* ABI 7: denials of later programs are audited too */
#define KERNEL_LANDLOCK_SCOPE_SIGNAL               (1ULL << 1)

/* struct landlock_ruleset_attr as of ABI 6; older kernels take its beginning. */
struct kernel_landlock_ruleset {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
};

#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif

static inline long kernel_result(long r) {
        return r < 0 ? -errno : r;
}

static inline int kernel_open_tree(int dir, const char *path, unsigned flags) {
        return (int)kernel_result(syscall(SYS_open_tree, dir, path, flags));
}

static inline int kernel_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags) {
        return (int)kernel_result(syscall(SYS_move_mount, from, from_path, to, to_path, flags));
}

static inline int kernel_mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attr) {
        return (int)kernel_result(syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr));
}

static inline int kernel_fsopen(const char *type) {
        return (int)kernel_result(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

static inline int kernel_fsconfig(int fs, unsigned command, const char *key, const void *value, int aux) {
        return (int)kernel_result(syscall(SYS_fsconfig, fs, command, key, value, aux));
}

static inline int kernel_fsmount(int fs, unsigned attributes) {
        return (int)kernel_result(syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes));
}

static inline int kernel_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
        struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};

        return (int)kernel_result(syscall(SYS_openat2, dir, path, &how, sizeof how));
}

static inline int kernel_pivot_root(const char *new_root, const char *put_old) {
        return (int)kernel_result(syscall(SYS_pivot_root, new_root, put_old));
}

static inline pid_t kernel_clone3(struct clone_args *args) {
        return (pid_t)kernel_result(syscall(SYS_clone3, args, sizeof *args));
}

/* A clone whose child runs fn on args->stack, in our memory, while we wait for its exec or its end: no page table is
 * copied. fn must not return. Where there is no assembly for it, an ordinary clone without CLONE_VM serves. */
static inline pid_t kernel_clone3_vfork(struct clone_args *args, void (*fn)(void *), void *data) {
#if defined(__x86_64__) && defined(STOCKADE_MUSL)
        long r;
        register void (*function)(void *) __asm__("r12") = fn;
        register void *argument __asm__("r13") = data;

        args->flags |= CLONE_VM | CLONE_VFORK;
        __asm__ volatile("syscall\n\t"
                         "test %%rax, %%rax\n\t"
                         "jnz 1f\n\t"
                         "xor %%ebp, %%ebp\n\t"
                         "mov %%r13, %%rdi\n\t"
                         "call *%%r12\n\t"
                         "ud2\n"
                         "1:"
                         : "=a"(r)
                         : "a"((long)SYS_clone3), "D"(args), "S"(sizeof *args), "r"(function), "r"(argument)
                         : "rcx", "r11", "memory");
        return (pid_t)r;
#else
        args->stack = args->stack_size = 0;
        pid_t pid = kernel_clone3(args);
        if (pid == 0)
                fn(data);
        return pid;
#endif
}

static inline int kernel_close_range(unsigned first, unsigned last, unsigned flags) {
        return (int)kernel_result(syscall(SYS_close_range, first, last, flags));
}

static inline int kernel_pidfd_send_signal(int pidfd, int number, siginfo_t *info) {
        return (int)kernel_result(syscall(SYS_pidfd_send_signal, pidfd, number, info, 0));
}

/* Which mount a descriptor is of. By offsets of struct statx: not every libc has it. */
static inline int kernel_mount_number(int fd, uint64_t *ret) {
        const unsigned want = 0x1000 /* STATX_MNT_ID */;
        uint8_t said[256];
        uint32_t mask;
        int r = (int)kernel_result(syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, want, said));

        if (r < 0)
                return r;
        memcpy(&mask, said, sizeof mask);
        if (!(mask & want))
                return -ENOTSUP;
        memcpy(ret, said + 0x90, sizeof *ret);
        return 0;
}

/* The Landlock ABI of this kernel, or -errno (-ENOSYS: not built in, -EOPNOTSUPP: switched off at boot). */
static inline int kernel_landlock_abi(void) {
        return (int)kernel_result(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
}
