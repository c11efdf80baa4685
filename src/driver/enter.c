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
#include "wire/box.h"

extern char **environ;

static int read_filter(struct sock_filter *program, struct sock_fprog *ret) {
        ssize_t n = fd_read_full(STDIN_FILENO, program, BPF_MAXINSNS * sizeof *program);

        if (n <= 0 || (size_t)n % sizeof *program != 0)
                return n < 0 ? (int)n : -EBADMSG;
        *ret = (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof *program), .filter = program};
        return 0;
}

/* The guest reads the secret from a pipe that nobody else has, and writes to the null device. */
static int leave_streams(const uint8_t secret[BOX_SECRET_SIZE]) {
        int ends[2];
        _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        _cleanup_fd_ int from = ends[0], to = ends[1];
        int r = fd_write_full(to, secret, BOX_SECRET_SIZE);
        if (r < 0)
                return r;
        if (dup2(from, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
                return -errno;
        return 0;
}

static int fail(const char *what, int error) {
        (void)dprintf(STDERR_FILENO, "the box's first process cannot %s: %s\n", what, strerror(-error));
        return 125;
}

int enter_main(char **words) {
        static struct sock_filter instructions[BPF_MAXINSNS];
        struct sock_fprog program;
        uint8_t secret[BOX_SECRET_SIZE];

        if (fd_read_full(STDIN_FILENO, secret, sizeof secret) != sizeof secret)
                return fail("read its secret", -EBADMSG);
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
        r = leave_streams(secret);
        if (r < 0)
                return fail("leave its streams", r);
        (void)execve(words[0], words, environ);
        return 125;
}
