#include "cli/hear.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

enum { GRACE_MS = 60000, STEP_MS = 50 };

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Both outputs to the pipes' other ends; what it complains of is for the caller, not for the terminal. */
static pid_t start(const char *const argv[], int out, int complaint) {
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(complaint, STDERR_FILENO);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
}

/* Everything that is said before the deadline; false: it did not come to an end. */
static bool listen_to(int fd, uint64_t end, struct buf *said) {
        char block[16384];

        for (;;) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                uint64_t now = now_ms();

                if (now >= end || poll(&p, 1, (int)(end - now)) <= 0)
                        return false;
                ssize_t n = read(fd, block, sizeof block);
                if (n == 0)
                        return true;
                if (n > 0)
                        buf_add(said, block, (size_t)n);
        }
}

static int wait_for(pid_t pid, const struct hear *h, bool ended) {
        int status = 0;

        if (!ended)
                (void)kill(pid, h->signal);
        for (unsigned waited = 0; !ended && h->signal != SIGKILL; waited += STEP_MS) {
                if (waitpid(pid, &status, WNOHANG) == pid)
                        return status;
                if (waited >= GRACE_MS)
                        (void)kill(pid, SIGKILL);
                (void)poll(NULL, 0, STEP_MS);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status;
}

bool hear_program(struct hear *h, struct buf *ret, struct err *err) {
        int out[2] = {-EBADF, -EBADF}, words[2] = {-EBADF, -EBADF};

        h->status = -1;
        h->complaint[0] = '\0';
        if (pipe2(out, O_CLOEXEC) < 0 || pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0) {
                (void)err_set(err, -errno, "could not make a pipe");
                fd_close(&out[0]);
                fd_close(&out[1]);
                return false;
        }
        _cleanup_fd_ int from = out[0], complaints = words[0];
        pid_t pid = start(h->argv, out[1], words[1]);
        (void)close(out[1]);
        (void)close(words[1]);
        if (pid < 0) {
                (void)err_set(err, -errno, "could not start '%s'", h->argv[0]);
                return false;
        }
        bool ended = listen_to(from, now_ms() + h->ms, ret);
        int status = wait_for(pid, h, ended);
        ssize_t n = read(complaints, h->complaint, sizeof h->complaint - 1);
        h->complaint[n > 0 ? n : 0] = '\0';
        h->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (!ended)
                (void)err_set(err, -ETIMEDOUT, "'%s' did not end within %u seconds", h->argv[0], h->ms / 1000);
        return ended;
}
