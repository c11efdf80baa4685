/* The command line: `stockade VERB …`. Verbs that know YAML live in stockade-policy, so that this program stays static
 * and small enough to start in a tenth of a millisecond. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/knockout.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/verbs.h"

/* Hands over to another program of ours. */
static int hand_over(const char *program, char **argv) {
        char path[PATH_MAX];
        struct err err;

        if (paths_helper(program, path, sizeof path, &err) == 0) {
                (void)execv(path, argv);
                (void)err_set(&err, -errno, "cannot execute '%s'", path);
        }
        err_print(&err);
        return EXIT_FAILED;
}

static int to_policy(int argc, char **argv) {
        (void)argc;
        return hand_over("stockade-policy", argv - 1);
}

static int to_ledger(int argc, char **argv) {
        (void)argc;
        return hand_over("stockade-ledger", argv);
}

/* Hands over to stockade-verify, which is told which launcher it judges. */
static int to_verify(int argc, char **argv) {
        char path[PATH_MAX], self[PATH_MAX] = "";
        struct err err;

        (void)argc;
        argv[-1] = path;
        if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
                (void)err_set(&err, -errno, "cannot read /proc/self/exe");
        else if (paths_helper("stockade-verify", path, sizeof path, &err) == 0) {
                argv[0] = self;
                (void)execv(path, argv - 1);
                (void)err_set(&err, -errno, "cannot execute '%s'", path);
        }
        err_print(&err);
        return EXIT_FAILED;
}

#define CLIENT(name, ...)                                                                                              \
        { #name, cmd_##name, NULL, &name##_verb, ##__VA_ARGS__ }

const struct verb verbs[] = {
        {"run", cmd_run, "run a command in a sandbox", NULL, "Without a daemon"},
        {"profile", to_policy, "list, show, check and explain profiles"},
        {"doctor", cmd_doctor, "say what this host can enforce, and how to get the rest"},
        {"verify", to_verify, "attack a sandbox on this host, and report what held"},
        {"setup", cmd_setup, "once, as root: give a user what rootless sandboxes need"},
        CLIENT(up, "The daemon"),
        CLIENT(down),
        CLIENT(health),
        {"sign-in", cmd_sign_in, NULL, &sign_in_verb},
        CLIENT(login),
        CLIENT(logout),
        CLIENT(create, "Sandboxes that live"),
        CLIENT(list),
        CLIENT(show),
        CLIENT(policy),
        CLIENT(secret),
        CLIENT(pause),
        CLIENT(unpause),
        CLIENT(stop),
        CLIENT(resume),
        CLIENT(quarantine),
        CLIENT(delete),
        CLIENT(exec, "Working in them"),
        CLIENT(shell),
        CLIENT(attach),
        CLIENT(runs),
        CLIENT(logs),
        CLIENT(cancel),
        CLIENT(ps),
        CLIENT(cp),
        CLIENT(ls),
        CLIENT(forward),
        {"ssh-key", cmd_ssh_key, NULL, &ssh_key_verb},
        CLIENT(snapshot, "Snapshots and images"),
        CLIENT(snapshots),
        CLIENT(fork),
        CLIENT(rollback),
        CLIENT(diff),
        CLIENT(export),
        CLIENT(import),
        CLIENT(image),
        CLIENT(top, "What happens and happened"),
        CLIENT(events),
        CLIENT(evidence),
        CLIENT(owners),
        {"ledger", to_ledger, "follow and verify the ledger, pack evidence"},
        CLIENT(completion, "Else"),
        {NULL},
};

const struct verb *verbs_find(const char *name) {
        for (const struct verb *v = verbs; v->name; v++)
                if (str_eq(v->name, name))
                        return v;
        return NULL;
}

static int usage(FILE *out, int status) {
        (void)fputs("usage: stockade [--server URL] VERB …\n", out);
        for (const struct verb *v = verbs; v->name; v++) {
                if (v->heading)
                        (void)fprintf(out, "\n%s:\n", v->heading);
                (void)fprintf(out, "  %-10s %s\n", v->name, v->args ? v->args->summary : v->help);
        }
        (void)fputs("\n`stockade VERB --help` says more; so do the manual pages.\n", out);
        return status;
}

/* For the manual pages: the part about one verb. */
static int manual(int argc, char **argv) {
        const struct verb *v = argc == 4 ? verbs_find(argv[3]) : NULL;

        if (!v || !v->args)
                return usage(stderr, EXIT_FAILED);
        args_manual(v->args);
        return 0;
}

/* A word that is nearly a verb. */
static int unknown(const char *word) {
        const char *nearest = NULL;
        unsigned best = 3;

        for (const struct verb *v = verbs; v->name; v++) {
                unsigned distance = text_distance(v->name, word);
                if (distance < best) {
                        best = distance;
                        nearest = v->name;
                }
        }
        char inert[64];
        text_escape(inert, sizeof inert, word);
        (void)fprintf(stderr, "stockade: unknown verb '%.40s'\n", inert);
        if (nearest)
                (void)fprintf(stderr, "  hint: did you mean 'stockade %s'?\n", nearest);
        else
                (void)fputs("  hint: 'stockade --help' lists the verbs\n", stderr);
        return EXIT_FAILED;
}

/* Before anything is opened: closed standard streams would be filled by our own files; a caller that ignores SIGCHLD
 * would make our waits fail. */
static void prepare(void) {
        for (int fd = 0; fd < 3; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        _exit(EXIT_FAILED);
        (void)signal(SIGCHLD, SIG_DFL);
}

/* "--server URL" before the verb: for whatever asks a daemon from now on. 0, or the exit status. */
static int take_server(int *argc, char ***argv) {
        const char *word = (*argv)[1], *url = str_starts(word, "--server=") ? word + 9 : (*argv)[2];
        int taken = str_starts(word, "--server=") ? 1 : 2;
        const struct verb *v = *argc > taken + 1 ? verbs_find((*argv)[taken + 1]) : NULL;
        bool signs = v && (v->run == cmd_login || v->run == cmd_logout);

        if (!url || *argc <= taken + 1)
                return usage(stderr, EXIT_FAILED);
        if (v && !signs && (!v->args || (v->args->flags & ARGS_LOCAL))) {
                (void)fprintf(stderr,
                              "stockade: '%s' is about this host: it takes no --server\n"
                              "  hint: sign in to the host with ssh to do it there\n",
                              v->name);
                return EXIT_FAILED;
        }
        if (setenv("STOCKADE_SERVER", url, 1) < 0)
                return EXIT_FAILED;
        *argc -= taken;
        *argv += taken;
        return 0;
}

int main(int argc, char **argv) {
        prepare();
        knockout_read();
        knockout_say();
        if (argc < 2)
                return usage(stderr, EXIT_FAILED);
        if (str_eq(argv[1], "--server") || str_starts(argv[1], "--server=")) {
                int status = take_server(&argc, &argv);

                if (status != 0)
                        return status;
        }
        if (argc > 2 && str_eq(argv[1], "help") && str_eq(argv[2], "--man"))
                return manual(argc, argv);
        if (argc == 3 && str_eq(argv[1], "help")) { /* help VERB is VERB --help */
                static char option[] = "--help";
                const struct verb *v = verbs_find(argv[2]);

                return v ? v->run(2, (char *[]){argv[2], option, NULL}) : unknown(argv[2]);
        }
        if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help"))
                return usage(stdout, 0);
        if (str_eq(argv[1], "--version")) {
                (void)puts("stockade " STOCKADE_VERSION KNOCKOUT_VERSION);
                return 0;
        }
        const struct verb *v = verbs_find(argv[1]);
        return v ? v->run(argc - 1, argv + 1) : unknown(argv[1]);
}
