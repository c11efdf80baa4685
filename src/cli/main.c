/* The command line: `stockade VERB …`. Verbs that know YAML live in stockade-policy, so that this program stays static
 * and small enough to start in a tenth of a millisecond. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/run.h"

/* Hands over to stockade-policy with the same arguments. */
static int cmd_policy(int argc, char **argv) {
        char path[PATH_MAX];
        struct err err;

        (void)argc;
        if (paths_helper("stockade-policy", path, sizeof path, &err) == 0) {
                (void)execv(path, argv - 1);
                (void)err_set(&err, -errno, "cannot execute '%s'", path);
        }
        err_print(&err);
        return EXIT_FAILED;
}

static const struct verb {
        const char *name;
        int (*run)(int argc, char **argv);
        const char *help;
} verbs[] = {
        {"run", cmd_run, "run a command in a sandbox"},
        {"profile", cmd_policy, "list, show, check and explain profiles"},
        {"doctor", cmd_doctor, "say what this host can enforce, and how to get the rest"},
        {"setup", cmd_setup, "once, as root: give a user what rootless sandboxes need"},
};

static int usage(FILE *out, int status) {
        (void)fputs("usage: stockade VERB …\n\n", out);
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                (void)fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].help);
        (void)fputs("\n`stockade VERB --help` says more; so do the manual pages.\n", out);
        return status;
}

/* Before anything is opened: closed standard streams would be filled by our own files; a caller that ignores SIGCHLD
 * would make our waits fail. */
static void prepare(void) {
        for (int fd = 0; fd < 3; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        _exit(EXIT_FAILED);
        (void)signal(SIGCHLD, SIG_DFL);
}

int main(int argc, char **argv) {
        prepare();
        if (argc < 2)
                return usage(stderr, EXIT_FAILED);
        if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help"))
                return usage(stdout, 0);
        if (str_eq(argv[1], "--version")) {
                (void)puts("stockade " STOCKADE_VERSION);
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (str_eq(verbs[i].name, argv[1]))
                        return verbs[i].run(argc - 1, argv + 1);
        (void)fprintf(stderr, "stockade: unknown verb '%.40s'\n", argv[1]);
        return usage(stderr, EXIT_FAILED);
}
