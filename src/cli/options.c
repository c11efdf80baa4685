/* The command line of `stockade run`. One table says each option, what it takes and its line in --help; the manual page
 * is tested against it. Paths of the host are resolved here, once; everything later uses the resolved form. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/knockout.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/box.h"

enum option {
        OPT_PROFILE,
        OPT_DRIVER,
        OPT_RO,
        OPT_RW,
        OPT_WORKSPACE,
        OPT_APPLY,
        OPT_APPLY_RISKY,
        OPT_DISCARD,
        OPT_KEEP,
        OPT_ENV,
        OPT_CWD,
        OPT_ROOT,
        OPT_SET,       /* --set key=value */
        OPT_SHORTHAND, /* an option that stands for one key */
        OPT_ALLOW,
        OPT_SECRET,
        OPT_LIVE,
        OPT_TTY,
        OPT_NO_TTY,
        OPT_ACCEPT,
        OPT_LEARN,
        OPT_RECORD,
        OPT_JSON,
        OPT_PLAN,
        OPT_QUIET,
        OPT_HELP,
};

static const struct row {
        const char *name;
        char letter;
        const char *argument; /* NULL: none */
        enum option option;
        const char *key; /* OPT_SHORTHAND: the profile key */
        const char *help;
        const char *optional; /* a value that may be left out: --name=VALUE, or --name alone */
} rows[] = {
        {"profile", 'p', "P", OPT_PROFILE, NULL, "profile by name or path (default: low)"},
        {"driver", 0, "D", OPT_DRIVER, NULL,
         "native, or one that the daemon offers: docker, gvisor, microvm, firecracker"},
        {"ro", 0, "PATH[:DEST]", OPT_RO, NULL, "show a host path inside, read-only"},
        {"rw", 0, "PATH[:DEST]", OPT_RW, NULL, "show a host path inside, writable"},
        {"workspace", 'w', "DIR", OPT_WORKSPACE, NULL, "work on a copy-on-write view of DIR, then show the changes"},
        {"apply", 0, NULL, OPT_APPLY, NULL, "bring the changes to DIR afterwards"},
        {"apply-risky", 0, NULL, OPT_APPLY_RISKY, NULL, "also changes to files that the host's tools would execute"},
        {"discard", 0, NULL, OPT_DISCARD, NULL, "throw the changes away afterwards"},
        {"keep", 0, "FILE", OPT_KEEP, NULL, "write the changes to FILE as a tar archive"},
        {"env", 'e', "K=V", OPT_ENV, NULL, "set a variable inside; K alone takes the caller's value"},
        {"cwd", 0, "DIR", OPT_CWD, NULL, "working directory inside"},
        {"root", 0, "DIR", OPT_ROOT, NULL, "use DIR as the root instead of the host's /usr"},
        {"allow", 'a', "HOST[:PORT]", OPT_ALLOW, NULL, "let it reach HOST (ports 80 and 443 if none is named)"},
        {"secret", 0, "NAME[=@FILE]", OPT_SECRET, NULL, "a secret for the gate to put in: the variable, or a file"},
        {"live", 0, NULL, OPT_LIVE, NULL, "apply changes to the profile's network.allow while it runs"},
        {"memory", 'm', "SIZE", OPT_SHORTHAND, "limits.memory", "memory limit, such as 512MiB"},
        {"cpus", 0, "N", OPT_SHORTHAND, "limits.cpus", "processors, such as 0.5"},
        {"processes", 0, "N", OPT_SHORTHAND, "limits.processes", "processes and threads"},
        {"files", 0, "N", OPT_SHORTHAND, "limits.files", "open files per process"},
        {"size", 0, "SIZE", OPT_SHORTHAND, "files.workspace.size", "size of the workspace"},
        {"inodes", 0, "N", OPT_SHORTHAND, "files.workspace.inodes", "files in the workspace"},
        {"disk-read", 0, "RATE", OPT_SHORTHAND, "limits.disk_read", "disk reads, such as 50MiB/s"},
        {"disk-write", 0, "RATE", OPT_SHORTHAND, "limits.disk_write", "disk writes"},
        {"output", 0, "SIZE", OPT_SHORTHAND, "limits.output", "bytes on standard output and error together"},
        {"timeout", 0, "TIME", OPT_SHORTHAND, "time.run", "wall time, such as 30s"},
        {"cpu-time", 0, "TIME", OPT_SHORTHAND, "budget.cpu", "processor time of all processes together"},
        {"set", 0, "KEY=VALUE", OPT_SET, NULL, "set any key of the profile"},
        {"tty", 't', NULL, OPT_TTY, NULL, "give the command a terminal of its own"},
        {"no-tty", 0, NULL, OPT_NO_TTY, NULL, "do not, even if we have one"},
        {"accept-missing", 0, "KEY", OPT_ACCEPT, NULL, "run although this host cannot enforce KEY"},
        {"learn", 0, NULL, OPT_LEARN, NULL, "note what is refused; write a profile that would allow it", "FILE"},
        {"record", 0, "FILE", OPT_RECORD, NULL, "write the record of the run to FILE as JSON"},
        {"json", 0, NULL, OPT_JSON, NULL, "print the record on standard error instead of sentences"},
        {"plan", 0, NULL, OPT_PLAN, NULL, "print the plan and run nothing"},
        {"quiet", 'q', NULL, OPT_QUIET, NULL, "say nothing about denials at the end"},
        {"help", 'h', NULL, OPT_HELP, NULL, "show this"},
};

static void print_help(void) {
        (void)puts(
                "usage: stockade run [OPTION…] [--] COMMAND [ARGUMENT…]\n\n"
                "Runs a command in a sandbox. Without --profile it is untrusted: the host's programs, a small /tmp,\n"
                "no network, nothing else.\n");
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char left[48];

                char letter[] = {'-', rows[i].letter, ',', ' ', '\0'};

                const char *value = rows[i].argument ? rows[i].argument : rows[i].optional ? rows[i].optional : "";
                (void)snprintf(left, sizeof left, "%s--%s%s%s%s", rows[i].letter ? letter : "    ", rows[i].name,
                               rows[i].argument   ? " "
                               : rows[i].optional ? "[="
                                                  : "",
                               value, rows[i].optional ? "]" : "");
                (void)printf("  %-28s %s\n", left, rows[i].help);
        }
        (void)puts("\nExit status: the command's own; 124 timeout; 125 Stockade refused or failed; 126 and 127 as "
                   "shells have\n"
                   "it; 128+N for signal N (137 also when a limit ended it: the record says which).\n"
                   "See stockade-run(1) and `stockade profile explain NAME`.");
}

static int add(const char **list, size_t *count, const char *value, const char *option, struct err *err) {
        if (*count >= RUN_LIST_MAX)
                return err_set(err, ERR_INPUT, "more than %d times --%s", RUN_LIST_MAX, option);
        list[(*count)++] = value;
        return 0;
}

/* The directory or file that a person named, as the kernel names it. A last part that is a link out of its own folder
 * is refused: what was named and what would be shared are two different things. */
static int resolve(const char *option, const char *path, bool directory, char **ret, struct err *err) {
        struct stat st;
        _cleanup_free_ char *real = realpath(path, NULL);

        if (!real)
                return err_set(err, -errno, "--%s '%s'", option, path);
        if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
                _cleanup_free_ char *copy = strdup(path), *folder = NULL;
                if (!copy)
                        return err_set(err, -ENOMEM, "--%s '%s'", option, path);
                char *slash = strrchr(copy, '/');
                if (slash)
                        *(slash == copy ? slash + 1 : slash) = '\0';
                folder = realpath(slash ? copy : ".", NULL);
                if (!folder || !str_starts(real, folder) || (real[strlen(folder)] != '/' && !str_eq(folder, "/"))) {
                        (void)err_set(err, ERR_INPUT, "--%s '%s' is a symbolic link out of its folder, to '%s'", option,
                                      path, real);
                        return err_hint(err, "name '%s' itself if that is what you mean", real);
                }
        }
        if (stat(real, &st) < 0)
                return err_set(err, -errno, "--%s '%s'", option, real);
        if (directory && !S_ISDIR(st.st_mode))
                return err_set(err, ERR_INPUT, "--%s '%s' is not a directory", option, path);
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISSOCK(st.st_mode))
                return err_set(err, ERR_INPUT, "--%s '%s' is neither a directory, a file nor a socket", option, path);
        static const char *const never[] = {"/proc", "/sys", "/dev"};
        for (size_t i = 0; i < ELEMENTSOF(never); i++)
                if (str_starts(real, never[i]) && (real[strlen(never[i])] == '/' || real[strlen(never[i])] == '\0'))
                        return err_set(err, ERR_INPUT, "--%s '%s': nothing below %s can be shared", option, path,
                                       never[i]);
        if (str_eq(real, "/")) {
                (void)err_set(err, ERR_INPUT, "--%s '/' would share the whole host", option);
                return err_hint(err, "--profile high shows the host's tree copy-on-write");
        }
        if (text_check_path(real, err) < 0)
                return err_prefix(err, ERR_INPUT, "--%s", option);
        *ret = TAKE_PTR(real);
        return 0;
}

static bool below(const char *path, const char *parent) {
        size_t n = strlen(parent);

        return str_eq(parent, "/") || (strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

/* Code that can write to our profiles or cached plans decides what the next sandbox may do. To cover them would not
 * help: whoever can write to a folder above can move it aside. */
static int check_own(const char *option, const char *source, struct err *err) {
        char own[PATH_MAX];

        for (size_t i = 0; !knockout_off(KNOCKOUT_LAUNCHER) && paths_own(i, own, sizeof own); i++) {
                _cleanup_free_ char *real = own[0] ? realpath(own, NULL) : NULL;
                const char *path = real ? real : own;

                if (path[0] && (below(path, source) || below(source, path))) {
                        (void)err_set(err, ERR_INPUT, "--%s '%s' would let the command rewrite Stockade's own '%s'",
                                      option, source, own);
                        return err_hint(err, "share a folder beside it, or use --workspace and look at the changes");
                }
        }
        return 0;
}

static int add_share(struct run_options *o, const char *option, const char *value, bool writable, struct err *err) {
        _cleanup_free_ char *copy = strdup(value), *source = NULL, *inside = NULL;

        if (o->share_count >= RUN_LIST_MAX)
                return err_set(err, ERR_INPUT, "more than %d shared paths", RUN_LIST_MAX);
        if (!copy)
                return err_set(err, -ENOMEM, "--%s", option);
        char *colon = strrchr(copy, ':');
        if (colon && colon[1] == '/')
                *colon = '\0';
        else
                colon = NULL;
        int r = resolve(option, copy, false, &source, err);
        if (r < 0)
                return r;
        r = writable ? check_own(option, source, err) : 0;
        if (r < 0)
                return r;
        inside = strdup(colon ? colon + 1 : source);
        if (!inside)
                return err_set(err, -ENOMEM, "--%s", option);
        if (text_check_path(inside, err) < 0)
                return err_prefix(err, ERR_INPUT, "--%s", option);
        static const char *const never[] = {"/", "/proc", "/dev", "/run/stockade", "/run", "/usr", "/etc"};
        for (size_t i = 0; i < ELEMENTSOF(never); i++)
                if (str_eq(inside, never[i]) ||
                    (i > 0 && i < 4 && str_starts(inside, never[i]) && inside[strlen(never[i])] == '/'))
                        return err_set(err, ERR_INPUT, "--%s: '%s' inside the sandbox is not free", option, inside);
        o->shares[o->share_count++] = (struct run_share){TAKE_PTR(source), TAKE_PTR(inside), writable};
        return 0;
}

/* --env K=V, or K to pass the caller's value on. */
static int add_env(struct run_options *o, const char *value, struct err *err) {
        const char *equals = strchr(value, '=');
        size_t n = equals ? (size_t)(equals - value) : strlen(value);

        for (size_t i = 0; i < n; i++) {
                char ch = value[i];
                if (!(ch == '_' || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
                      (i > 0 && ch >= '0' && ch <= '9')))
                        n = 0;
        }
        if (n == 0)
                return err_set(err, ERR_INPUT, "--env '%s': a name is letters, digits and '_'", value);
        if (!equals) {
                const char *ours = getenv(value);
                char *pair = NULL;

                if (!ours)
                        return err_set(err, ERR_INPUT, "--env %s: the variable is not set", value);
                if (asprintf(&pair, "%s=%s", value, ours) < 0)
                        return err_set(err, -ENOMEM, "--env %s", value);
                value = pair; /* lives as long as the process */
        }
        return add(o->env, &o->env_count, value, "env", err);
}

static int add_set(struct run_options *o, const char *key, const char *value, struct err *err) {
        char *pair;

        if (asprintf(&pair, "%s=%s", key, value) < 0)
                return err_set(err, -ENOMEM, "--set %s", key);
        return add(o->set, &o->set_count, pair, "set", err);
}

static int set_changes(struct run_options *o, enum run_changes how, struct err *err) {
        if (o->changes != CHANGES_ASK && o->changes != how)
                return err_set(err, ERR_INPUT, "only one of --apply, --discard and --keep makes sense");
        o->changes = how;
        return 0;
}

static int take(struct run_options *o, const struct row *row, const char *value, struct err *err) {
        switch (row->option) {
        case OPT_PROFILE:
                o->profile = value;
                return 0;
        case OPT_DRIVER:
                o->driver = value;
                return 0;
        case OPT_RO:
        case OPT_RW:
                return add_share(o, row->name, value, row->option == OPT_RW, err);
        case OPT_WORKSPACE:
                return resolve("workspace", value, true, &o->workspace, err);
        case OPT_APPLY:
                return set_changes(o, CHANGES_APPLY, err);
        case OPT_APPLY_RISKY:
                o->changes_risky = true;
                return set_changes(o, CHANGES_APPLY, err);
        case OPT_DISCARD:
                return set_changes(o, CHANGES_DISCARD, err);
        case OPT_KEEP:
                o->keep = value;
                return set_changes(o, CHANGES_KEEP, err);
        case OPT_ENV:
                return add_env(o, value, err);
        case OPT_CWD:
                if (text_check_path(value, err) < 0)
                        return err_prefix(err, ERR_INPUT, "--cwd");
                o->cwd = strdup(value);
                return o->cwd ? 0 : -ENOMEM;
        case OPT_ROOT:
                return resolve("root", value, true, &o->root, err);
        case OPT_SET:
                if (!strchr(value, '=') || value[0] == '=')
                        return err_set(err, ERR_INPUT, "--set '%s' is not KEY=VALUE", value);
                return add(o->set, &o->set_count, value, "set", err);
        case OPT_SHORTHAND:
                return add_set(o, row->key, value, err);
        case OPT_ALLOW:
                return add(o->allow, &o->allow_count, value, "allow", err);
        case OPT_SECRET:
                return add(o->secret, &o->secret_count, value, "secret", err);
        case OPT_LIVE:
                o->live = true;
                return 0;
        case OPT_TTY:
                o->tty = TTY_YES;
                return 0;
        case OPT_NO_TTY:
                o->tty = TTY_NO;
                return 0;
        case OPT_ACCEPT:
                return add(o->accept, &o->accept_count, value, "accept-missing", err);
        case OPT_LEARN:
                o->learn = true;
                o->learn_file = value;
                return 0;
        case OPT_RECORD:
                o->record = value;
                return 0;
        case OPT_JSON:
                o->json = true;
                return 0;
        case OPT_PLAN:
                o->plan = true;
                return 0;
        case OPT_QUIET:
                o->quiet = true;
                return 0;
        case OPT_HELP:
                print_help();
                return 1;
        }
        return err_set(err, ERR_INPUT, "unknown option --%s", row->name);
}

static const struct row *find(const char *word, const char **ret_value) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                size_t n = strlen(rows[i].name);

                *ret_value = NULL;
                if (word[1] == '-' && strncmp(word + 2, rows[i].name, n) == 0 &&
                    (word[2 + n] == '\0' || word[2 + n] == '=')) {
                        if (word[2 + n] == '=')
                                *ret_value = word + 3 + n;
                        return &rows[i];
                }
                if (rows[i].letter && word[1] == rows[i].letter && word[2] == '\0')
                        return &rows[i];
        }
        return NULL;
}

static int check(const struct run_options *o, struct err *err) {
        int r = o->driver ? box_check(o, err) : 0;

        if (r < 0)
                return r;
        if (!o->argv || !o->argv[0]) {
                if (o->plan)
                        return 0;
                (void)err_set(err, ERR_INPUT, "no command to run");
                return err_hint(err, "stockade run -- COMMAND…; see 'stockade run --help'");
        }
        if (!o->workspace && o->changes != CHANGES_ASK)
                return err_set(err, ERR_INPUT, "--apply, --discard and --keep go with --workspace");
        if (o->workspace && o->changes == CHANGES_ASK && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) && !o->plan) {
                (void)err_set(err, ERR_INPUT, "--workspace without a terminal to ask on");
                return err_hint(err, "say beforehand: --apply, --discard or --keep FILE");
        }
        return 0;
}

int options_parse(int argc, char **argv, struct run_options *ret, struct err *err) {
        struct run_options o = {.profile = "low"};
        int i = 1;

        for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
                const char *value;

                if (str_eq(argv[i], "--")) {
                        i++;
                        break;
                }
                const struct row *row = find(argv[i], &value);
                int r = 0;
                if (!row) {
                        (void)err_set(err, ERR_INPUT, "unknown option '%s'", argv[i]);
                        r = err_hint(err, "'stockade run --help' lists them; put -- before the command");
                } else if (row->argument && !value && i + 1 >= argc)
                        r = err_set(err, ERR_INPUT, "--%s needs %s", row->name, row->argument);
                else if (!row->argument && !row->optional && value)
                        r = err_set(err, ERR_INPUT, "--%s takes no value", row->name);
                else
                        r = take(&o, row, row->argument && !value ? argv[++i] : value, err);
                if (r != 0) {
                        options_free(&o);
                        return r;
                }
        }
        o.argv = argv + i;
        int r = check(&o, err);
        if (r < 0) {
                options_free(&o);
                return r;
        }
        *ret = o;
        return 0;
}

void options_free(struct run_options *o) {
        for (size_t i = 0; i < o->share_count; i++) {
                free(o->shares[i].source);
                free(o->shares[i].path);
        }
        free(o->workspace);
        free(o->root);
        free(o->cwd);
        *o = (struct run_options){0};
}
