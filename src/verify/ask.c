/* Asks a program of ours and takes what it says. */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verify/judge.h"

int ask_program(const char *const argv[], struct buf *ret, struct err *err) {
        int ends[2], status = 0;
        char block[4096];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "cannot make a pipe");
        pid_t pid = fork();
        if (pid == 0) {
                (void)dup2(ends[1], STDOUT_FILENO);
                (void)execv(argv[0], (char *const *)(uintptr_t)argv);
                _exit(127);
        }
        (void)close(ends[1]);
        for (ssize_t n; pid > 0 && (n = read(ends[0], block, sizeof block)) != 0;) {
                if (n < 0 && errno != EINTR)
                        break;
                if (n > 0)
                        buf_add(ret, block, (size_t)n);
        }
        (void)close(ends[0]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return err_set(err, ERR_REFUSED, "'%s %s' failed", argv[0], argv[1]);
        buf_str(ret, "");
        return buf_ok(ret) && ret->data ? 0 : err_set(err, ERR_LIMIT, "'%s %s' says too much", argv[0], argv[1]);
}
