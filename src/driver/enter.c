/* Inside a box: see the header. */
#include "driver/enter.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/lockdown.h"

extern char **environ;

static int read_filter(struct sock_filter *program, struct sock_fprog *ret) {
        ssize_t n = fd_read_full(STDIN_FILENO, program, BPF_MAXINSNS * sizeof *program);

        if (n <= 0 || (size_t)n % sizeof *program != 0)
                return n < 0 ? (int)n : -EBADMSG;
        *ret = (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof *program), .filter = program};
        return 0;
}

static int leave_streams(void) {
        int null = open("/dev/null", O_RDWR);

        if (null < 0)
                return -errno;
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return -errno;
        return null > 2 && close(null) < 0 ? -errno : 0;
}

static int fail(const char *what, int error) {
        (void)dprintf(STDERR_FILENO, "the box's first process cannot %s: %s\n", what, strerror(-error));
        return 125;
}

int enter_main(char **words) {
        static struct sock_filter instructions[BPF_MAXINSNS];
        struct sock_fprog program;

        int r = read_filter(instructions, &program);
        if (r < 0)
                return fail("read its filter", r);
        r = lockdown_no_new_privileges();
        if (r == 0 && access(words[0], X_OK) < 0)
                r = -errno;
        if (r < 0)
                return fail("become the guest", r);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                return fail("load its filter", -errno);
        r = leave_streams();
        if (r < 0)
                return fail("leave its streams", r);
        (void)execve(words[0], words, environ);
        return 125;
}
