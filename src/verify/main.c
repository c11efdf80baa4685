/* stockade-verify: the judge. `stockade verify` executes it with its own path as the first argument.
 *
 *     stockade-verify LAUNCHER [OPTION…]
 *     stockade-verify LAUNCHER digest [FOLDER…]   the state of this host, for tests
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/report.h"

enum { EXIT_OPEN = 1, EXIT_FAILED = 125 };

static struct judge judge;

static int say_list(bool as_json) {
        _cleanup_buf_ struct buf out = {0};

        list_checks(as_json, &out);
        return buf_ok(&out) && fd_write_full(STDOUT_FILENO, out.data, out.size) == 0 ? 0 : EXIT_FAILED;
}

static int say_json(void) {
        _cleanup_buf_ struct buf out = {.max = 64 * 1024 * 1024};

        report_json(&judge, &out);
        buf_str(&out, "\n");
        return buf_ok(&out) && fd_write_full(STDOUT_FILENO, out.data, out.size) == 0 ? 0 : EXIT_FAILED;
}

/* All of it, in a process that the supervisor can clear away after. */
static int work(void) {
        struct err err = {0};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        fd_close(&judge.daemon.undertaker); /* the supervisor's to hold */
        if (judge_all(&judge, &err) < 0) {
                err_print(&err);
                return EXIT_FAILED;
        }
        bool kept = judge.options.fast || keep_report(&judge, &err) == 0;
        if (!kept)
                err_print(&err);
        if (judge.options.json && say_json() != 0)
                return EXIT_FAILED;
        if (!judge.options.json)
                report_text(&judge, stdout);
        if (fflush(stdout) != 0 || ferror(stdout)) {
                (void)fputs("stockade: cannot write the report to standard output\n", stderr);
                return EXIT_FAILED;
        }
        if (!kept && judge.options.report)
                return EXIT_FAILED;
        return judge_good(&judge) ? 0 : EXIT_OPEN;
}

static volatile sig_atomic_t told;
static volatile pid_t worker;

static void on_signal(int number) {
        told = number;
        if (worker > 0)
                (void)kill(worker, SIGKILL);
}

/* Whatever the judge had started has lost it, ends, and becomes ours to bury. */
static void wait_for_orphans(void) {
        for (int i = 0; i < 1000; i++) {
                pid_t pid = waitpid(-1, NULL, WNOHANG);

                if (pid < 0 && errno == ECHILD)
                        return;
                if (pid == 0)
                        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
}

/* The judge plants things and makes namespaces; however it ends, somebody outside of these removes what is left. */
static int supervise(void) {
        static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
        const struct sigaction action = {.sa_handler = on_signal};
        struct err err = {0};
        int status = 0;

        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        judge.daemon.undertaker = -EBADF;
        if (launch_in_box(&judge) && daemon_prepare(&judge, &err) < 0) {
                err_print(&err);
                return EXIT_FAILED;
        }
        worker = fork();
        if (worker == 0)
                _exit(work());
        if (worker < 0) {
                (void)fprintf(stderr, "stockade: could not start the judge: %s\n", strerror(errno));
                daemon_end(&judge);
                return EXIT_FAILED;
        }
        for (size_t i = 0; i < ELEMENTSOF(ends); i++)
                (void)sigaction(ends[i], &action, NULL);
        while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
                ;
        daemon_end(&judge);
        if (WIFEXITED(status))
                return WEXITSTATUS(status);
        progress_clear();
        wait_for_orphans();
        world_files_sweep();
        if (told) {
                (void)fputs("stockade: interrupted, so nothing is known\n", stderr);
                return 128 + told;
        }
        (void)fprintf(stderr, "stockade: the judge was ended by signal %d\n", WTERMSIG(status));
        return EXIT_FAILED;
}

int main(int argc, char **argv) {
        struct err err = {0};

        if (argc < 2 || argv[1][0] != '/') {
                (void)fputs("stockade-verify is started by `stockade verify`\n", stderr);
                return EXIT_FAILED;
        }
        if (argc > 2 && str_eq(argv[2], "digest"))
                return digest_main(argc - 2, argv + 2);
        (void)snprintf(judge.launcher, sizeof judge.launcher, "%s", argv[1]);
        int r = options_parse(&judge.options, argc - 1, argv + 1, &err);
        if (r < 0) {
                err_print(&err);
                return EXIT_FAILED;
        }
        if (r == 1)
                return 0;
        return judge.options.list ? say_list(judge.options.json) : supervise();
}
