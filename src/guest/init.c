/* PID 1 of a sandbox. For one that lives, "serve" or "dial PATH", or these with "-leaves" (serve.c); here, of one that
 * `stockade run` started:
 *
 * Starts one command, passes signals on to it, reaps whatever is orphaned, reports how the command ended, and goes;
 * the kernel then ends everything else in the pid namespace. It runs under the same filter and rules as the command,
 * holds nothing worth having, and is not dumpable. What it reports is not trusted by anyone.
 *
 * Arguments: the working directory, "tty" or "-", then the command. The environment is the command's. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/knockout.h"
#include "guest/serve.h"
#include "wire/report.h"

static void report(uint32_t kind, int error, int status) {
        struct report r = {.kind = kind, .error = error, .status = (uint32_t)status};

        (void)send(REPORT_FD, &r, sizeof r, MSG_NOSIGNAL);
}

_noreturn_ static void become(char **argv, bool tty, const sigset_t *none) {
        if (setpgid(0, 0) == 0 && tty) {
                /* every signal is blocked here, so taking the terminal from the background is safe */
                (void)tcsetpgrp(STDIN_FILENO, getpid());
        }
        (void)sigprocmask(SIG_SETMASK, none, NULL);
        (void)execvp(argv[0], argv);
        int error = errno;
        report(REPORT_EXEC_FAILED, -error, 0);
        _exit(error == ENOENT ? 127 : 126);
}

int main(int argc, char **argv) {
        sigset_t all, none;
        siginfo_t info;

        knockout_read();
        knockout_skip_environment();
        if (!knockout_off(KNOCKOUT_INIT) && prctl(PR_SET_DUMPABLE, 0) < 0)
                return 125;
        if (argc >= 3 && (str_eq(argv[1], "dial") || str_eq(argv[1], "dial-leaves")))
                return serve_dial(argv[2], str_eq(argv[1], "dial-leaves"));
        if (fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC) < 0)
                return 125;
        if (argc >= 2 && str_eq(argv[1], "serve"))
                return serve_main(false);
        if (argc >= 2 && str_eq(argv[1], "serve-leaves"))
                return serve_main(true);
        if (argc < 4)
                return 125;
        bool tty = str_eq(argv[2], "tty");
        (void)signal(SIGCHLD, SIG_DFL);
        (void)sigfillset(&all);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        if (chdir(argv[1]) < 0 && chdir("/") < 0)
                return 125;

        pid_t command = vfork();
        if (command == 0)
                become(argv + 3, tty, &none);
        if (command < 0) {
                report(REPORT_EXEC_FAILED, -errno, 0);
                return 125;
        }
        for (;;) {
                int n = sigwaitinfo(&all, &info);
                if (n < 0)
                        continue;
                if (n != SIGCHLD) {
                        if (info.si_pid == 0) /* from outside the namespace only; those inside can signal directly */
                                (void)kill(info.si_code == SI_QUEUE && info.si_value.sival_int == REPORT_TO_GROUP
                                                   ? -command
                                                   : command,
                                           n);
                        continue;
                }
                int status;
                pid_t pid;
                while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                        if (pid == command) {
                                report(REPORT_EXITED, 0, status);
                                return 0;
                        }
        }
}
