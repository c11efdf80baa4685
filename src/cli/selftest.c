#include "cli/selftest.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json-read.h"
#include "base/paths.h"

enum { SELFTEST_MS = 60000, SELFTEST_MAX = 4 * 1024 * 1024 };

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Both outputs to the pipe's other ends; what the judge complains of is for the detail, not for the terminal. */
static pid_t start(const char *program, const char *self, const char *driver, int out, int complaint) {
        const char *const argv[] = {program, self, "--driver", driver, "--self-test", "--json", NULL};
        pid_t pid = fork();

        if (pid != 0)
                return pid;
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(complaint, STDERR_FILENO);
        (void)execv(program, (char *const *)(uintptr_t)argv);
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

/* What the judge could not do, and its advice: "stockade: …" and "  hint: …". */
static void take_complaint(const char *text, struct selftest *ret) {
        const char *hint = strstr(text, "hint: ");

        if (str_starts(text, "stockade: "))
                text += strlen("stockade: ");
        (void)snprintf(ret->words, sizeof ret->words, "%.*s", (int)strcspn(text, "\n;"), text);
        if (hint)
                (void)snprintf(ret->hint, sizeof ret->hint, "%.*s", (int)strcspn(hint + 6, "\n"), hint + 6);
}

static void understand(const struct buf *said, int status, struct selftest *ret) {
        uint64_t checks = 0, untried = 0, open = 0;
        bool good = false;
        struct err err;

        if (!buf_ok(said) || !said->data || json_check(said->data, said->size, &err) < 0 ||
            !json_find_u64(said->data, "tally.checks", &checks) ||
            !json_find_u64(said->data, "tally.untried", &untried) || untried > checks ||
            !json_find_u64(said->data, "tally.open", &open) || !json_find_bool(said->data, "good", &good) ||
            !json_find_str(said->data, "headline", ret->words, sizeof ret->words)) {
                if (ret->words[0] == '\0')
                        (void)snprintf(ret->words, sizeof ret->words, "the self-test could not be made (status %d)",
                                       status);
                return;
        }
        ret->checks = (unsigned)(checks - untried);
        ret->open = (unsigned)open;
        ret->passed = good && status == 0 && checks > untried;
}

void selftest_run(const char *driver, struct selftest *ret) {
        _cleanup_buf_ struct buf said = {.max = SELFTEST_MAX};
        char program[PATH_MAX], self[PATH_MAX] = "", complaint[2048] = "";
        int out[2] = {-1, -1}, err_out[2] = {-1, -1}, status = 0;
        uint64_t begin = now_ms();
        struct err err = {0};

        *ret = (struct selftest){0};
        if (paths_helper("stockade-verify", program, sizeof program, &err) < 0 ||
            readlink("/proc/self/exe", self, sizeof self - 1) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
            pipe2(err_out, O_CLOEXEC | O_NONBLOCK) < 0) {
                (void)snprintf(ret->words, sizeof ret->words, "the self-test could not be started: %.100s",
                               err.text[0] ? err.text : strerror(errno));
                for (int i = 0; i < 2; i++)
                        fd_close(&out[i]);
                return;
        }
        pid_t pid = start(program, self, driver, out[1], err_out[1]);
        (void)close(out[1]);
        (void)close(err_out[1]);
        bool ended = pid > 0 && listen_to(out[0], begin + SELFTEST_MS, &said);
        if (pid > 0) {
                if (!ended)
                        (void)kill(pid, SIGKILL);
                while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                        ;
        }
        ssize_t n = read(err_out[0], complaint, sizeof complaint - 1);
        complaint[n > 0 ? n : 0] = '\0';
        take_complaint(complaint, ret);
        (void)close(out[0]);
        (void)close(err_out[0]);
        understand(&said, WIFEXITED(status) ? WEXITSTATUS(status) : -1, ret);
        ret->ms = (unsigned)(now_ms() - begin);
}
