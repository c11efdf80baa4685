/* The command line of `stockade verify`, as one table. */
#include <stdio.h>

#include "verify/exempt.h"
#include "verify/judge.h"

enum kind { TEXT, SWITCH };

static const struct option {
        const char *name, *value, *help;
        enum kind kind;
        size_t at; /* in struct judge_options */
} options[] = {
#define O(field) offsetof(struct judge_options, field)
        {"--driver", "D", "judge this driver: native, docker, gvisor, microvm, firecracker", TEXT, O(driver)},
        {"--profile", "P", "judge sandboxes of this profile, by name or path (default: low)", TEXT, O(profile)},
        {"--quick", NULL, "only what takes a few seconds", SWITCH, O(quick)},
        {"--report", "FILE", "write an HTML page with all evidence to FILE", TEXT, O(report)},
        {"--json", NULL, "print everything as JSON on standard output", SWITCH, O(json)},
        {"--verbose", NULL, "show every check, not only what is not as promised", SWITCH, O(verbose)},
        {"--list", NULL, "show what would be tried, and try nothing", SWITCH, O(list)},
        {"--only", "NAMES", "only these checks, separated by commas", TEXT, O(only)},
        {"--self-test", NULL, "the subset that a driver must pass before it is offered", SWITCH, O(fast)},
        {"--against", "COMMAND", "judge another sandbox: COMMAND is put before the probe's", TEXT, O(against)},
        {"--probe-at", "PATH", "with --against: where the probe is inside, if not at its own path", TEXT, O(probe_at)},
#undef O
};

static void usage(FILE *out) {
        (void)fputs("usage: stockade verify [OPTION…]\n\n"
                    "Attacks a sandbox on this host with everything that we know and judges from outside what came of\n"
                    "it. The host is not touched: canaries, listeners and victims live in namespaces of their own.\n\n",
                    out);
        for (size_t i = 0; i < ELEMENTSOF(options); i++) {
                char left[40];

                (void)snprintf(left, sizeof left, "%s%s%s", options[i].name, options[i].value ? " " : "",
                               options[i].value ? options[i].value : "");
                (void)fprintf(out, "  %-20s %s\n", left, options[i].help);
        }
        (void)fputs("  -h, --help           show this\n\n"
                    "Exit status: 0 if nothing is open and every group could be tried, 1 if not, 125 for wrong use or "
                    "if the\n"
                    "judge failed. See stockade-verify(1).\n",
                    out);
}

/* NAME, NAME=VALUE or NAME VALUE. Moves *i past what it took. */
static int take(struct judge_options *o, const struct option *option, int argc, char **argv, int *i, struct err *err) {
        size_t n = strlen(option->name);
        char *field = (char *)o + option->at;
        const char *value = argv[*i][n] == '=' ? argv[*i] + n + 1 : NULL;

        if (option->kind == SWITCH) {
                if (value)
                        return err_set(err, ERR_INPUT, "%s takes no value", option->name);
                *(bool *)(void *)field = true;
                return 0;
        }
        if (!value && *i + 1 < argc)
                value = argv[++*i];
        if (!value || !*value)
                return err_set(err, ERR_INPUT, "%s needs a value: %s", option->name, option->value);
        *(const char **)(void *)field = value;
        return 0;
}

static int check_together(const struct judge_options *o, struct err *err) {
        if (exempt_driver(o->driver) < 0) {
                (void)err_set(err, ERR_INPUT, "there is no driver '%.40s'", o->driver);
                return err_hint(err, "one of native, docker, gvisor, microvm, firecracker");
        }
        if (o->against && exempt_driver(o->driver) != JUDGED_NATIVE)
                return err_set(err, ERR_INPUT, "--against judges another sandbox: --driver is for our own");
        if (o->profile[0] == '-')
                return err_set(err, ERR_INPUT, "'%.40s' is not the name of a profile", o->profile);
        if (o->quick && o->fast)
                return err_set(err, ERR_INPUT, "--quick and --self-test are two different choices");
        if (o->fast && o->report)
                return err_set(err, ERR_INPUT, "--self-test makes no report");
        if (o->probe_at && !o->against)
                return err_set(err, ERR_INPUT, "--probe-at needs --against");
        return 0;
}

int options_parse(struct judge_options *o, int argc, char **argv, struct err *err) {
        *o = (struct judge_options){.driver = "native", .profile = "low"};
        for (int i = 1; i < argc; i++) {
                const struct option *found = NULL;

                if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
                        usage(stdout);
                        return 1;
                }
                for (size_t k = 0; k < ELEMENTSOF(options) && !found; k++) {
                        size_t n = strlen(options[k].name);
                        if (strncmp(argv[i], options[k].name, n) == 0 && (argv[i][n] == '\0' || argv[i][n] == '='))
                                found = &options[k];
                }
                if (!found) {
                        (void)err_set(err, ERR_INPUT, "unknown option '%.60s'", argv[i]);
                        return err_hint(err, "`stockade verify --help` lists them");
                }
                int r = take(o, found, argc, argv, &i, err);
                if (r < 0)
                        return r;
        }
        return check_together(o, err);
}
