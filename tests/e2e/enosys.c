/* enosys NAME[,NAME…] COMMAND…: executes COMMAND in a world where some system calls do not exist, as on an older kernel
 * or below a container's filter. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
        const char *name;
        int number;
} calls[] = {
        {"openat2", 437},
        {"clone3", 435},
        {"close_range", 436},
        {"landlock_create_ruleset", 444},
        {"landlock_add_rule", 445},
        {"landlock_restrict_self", 446},
        {"mount_setattr", 442},
        {"open_tree", 428},
        {"open_tree_attr", 467},
        {"move_mount", 429},
        {"fsopen", 430},
        {"fsconfig", 431},
        {"fsmount", 432},
        {"pidfd_open", 434},
        {"pidfd_send_signal", 424},
        {"pidfd_getfd", 438},
        {"seccomp", SYS_seccomp},
        {"memfd_create", SYS_memfd_create},
        {"pivot_root", SYS_pivot_root},
        {"setns", SYS_setns},
        {"unshare", SYS_unshare},
        {"keyctl", SYS_keyctl},
        {"statx", SYS_statx},
        {"getrandom", SYS_getrandom},
        {"signalfd4", SYS_signalfd4},
        {"faccessat2", 439},
        {"renameat2", SYS_renameat2},
        {"prlimit64", SYS_prlimit64},
        {"copy_file_range", SYS_copy_file_range},
        {"splice", SYS_splice},
        {"execveat", SYS_execveat},
        {"name_to_handle_at", SYS_name_to_handle_at},
        {"capset", SYS_capset},
};

static int number_of(const char *name) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
                if (strcmp(calls[i].name, name) == 0)
                        return calls[i].number;
        (void)fprintf(stderr, "enosys: unknown call '%s'\n", name);
        exit(99);
}

int main(int argc, char **argv) {
        struct sock_filter filter[64];
        unsigned short n = 0;

        if (argc < 3)
                return 99;
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
        for (char *name = strtok(argv[1], ","); name && n < 60; name = strtok(NULL, ",")) {
                filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number_of(name), 0, 1);
                filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
        }
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {.len = n, .filter = filter};
        /* without no_new_privs if we may, so that nothing else differs from an ordinary run */
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 &&
            (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)) {
                perror("enosys: seccomp");
                return 99;
        }
        (void)execv(argv[2], argv + 2);
        perror(argv[2]);
        return 99;
}
