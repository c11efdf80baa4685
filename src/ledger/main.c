/* stockade-ledger VERB …: what `stockade ledger` hands over to. Options, places and colours; the verbs are in tool-*.c.
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"
#include "base/text.h"
#include "ledger/tool.h"

enum { VERIFY = 1, TAIL = 2, EVIDENCE = 4, CHECKPOINTS = 8, ALL = 15 };

static const struct {
        const char *name;
        unsigned bit;
        int (*run)(const struct tool_options *o, struct err *err);
        const char *place, *about;
} verbs[] = {
        {"verify", VERIFY, tool_verify, "[DIR|FILE]",
         "check every hash, link and signature: of a ledger, of one segment, or of evidence"},
        {"tail", TAIL, tool_tail, "[DIR]", "show the last events, or those from a number on"},
        {"evidence", EVIDENCE, tool_evidence, "[DIR]",
         "pack what concerns a sandbox or a run, with proofs, into one file"},
        {"checkpoints", CHECKPOINTS, tool_checkpoints, "[DIR]", "list the signed checkpoints"},
};

#define AT(member) offsetof(struct tool_options, member)
static const struct {
        const char *name;
        char letter;
        const char *value; /* NULL: a flag */
        unsigned verbs;
        size_t offset;
        const char *help;
} options[] = {
        {"--expect", 0, "SEQ:HASH", VERIFY, AT(expect),
         "this event has to be there with this hash: a position that was kept elsewhere"},
        {"--key", 0, "FINGERPRINT", VERIFY, AT(key), "the keys that all checkpoints have to be signed with"},
        {"--follow", 'f', NULL, TAIL, AT(follow), "go on as new ones come"},
        {"--from", 0, "N", TAIL, AT(from), "from this number on (default: the last ones)"},
        {"--lines", 'n', "N", TAIL, AT(lines), "how many: of the last ones (default: 20), or with --from at most"},
        {"--sandbox", 0, "ID", TAIL | EVIDENCE, AT(sandbox), "only events of this sandbox"},
        {"--run", 0, "N", EVIDENCE, AT(run), "only this run, and what befell its sandbox meanwhile"},
        {"--kind", 0, "KIND", TAIL, AT(kind), "only this kind (net.deny) or family (net)"},
        {"--output", 'o', "FILE", EVIDENCE, AT(output), "where to; -: standard output (default: evidence-ID.json)"},
        {"--json", 0, NULL, VERIFY | TAIL | CHECKPOINTS, AT(json), "for programs; of tail: the lines as they are"},
        {"--state", 0, "DIR", ALL, AT(state), "the state folder whose ledger is meant"},
};

static void usage(FILE *out, unsigned verb) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (verb & verbs[i].bit)
                        (void)fprintf(out, "%s stockade ledger %s [OPTION...] %s\n",
                                      verb == verbs[i].bit || i == 0 ? "usage:" : "      ", verbs[i].name,
                                      verbs[i].place);
        (void)fputs("\n", out);
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (verb & verbs[i].bit)
                        (void)fprintf(out, "  %-24s %s\n", verbs[i].name, verbs[i].about);
        (void)fputs("\n", out);
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                if (verb & options[i].verbs) {
                        char left[40], letter[8] = "";

                        if (options[i].letter)
                                (void)snprintf(letter, sizeof letter, "-%c, ", options[i].letter);
                        (void)snprintf(left, sizeof left, "%s%s%s%s", letter, options[i].name,
                                       options[i].value ? " " : "", options[i].value ? options[i].value : "");
                        (void)fprintf(out, "  %-24s %s\n", left, options[i].help);
                }
        (void)fputs("\nexit status: 0 when all holds, 1 when something does not, 125 when it could not be tried\n",
                    out);
}

/* --- what the verbs share --------------------------------------------------------------------------------------- */

static bool colours(void) {
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

        return isatty(STDOUT_FILENO) && !(no_color && no_color[0]) && !(term && str_eq(term, "dumb"));
}

const char *tool_on(enum tool_paint paint) {
        static const char *const codes[] = {[TOOL_PLAIN] = "",
                                            [TOOL_DIM] = "\033[2m",
                                            [TOOL_GREEN] = "\033[32m",
                                            [TOOL_YELLOW] = "\033[33m",
                                            [TOOL_RED] = "\033[1;31m"};

        return colours() ? codes[paint] : "";
}

const char *tool_off(void) {
        return colours() ? "\033[0m" : "";
}

size_t tool_width(void) {
        struct winsize w = {0};

        if (!isatty(STDOUT_FILENO))
                return 0;
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40 ? w.ws_col : 80;
}

const char *tool_count(char *buf, size_t size, uint64_t n) {
        char digits[24];
        int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
        size_t used = 0;

        for (int i = 0; i < count && used + 2 < size; i++) {
                if (i > 0 && (count - i) % 3 == 0)
                        buf[used++] = ',';
                buf[used++] = digits[i];
        }
        buf[used] = '\0';
        return buf;
}

int tool_number(const char *text, const char *option, uint64_t *ret, struct err *err) {
        int r = text_parse(text, TEXT_COUNT, ret, err);

        return r < 0 ? err_prefix(err, r, "%s", option) : 0;
}

/* The state folder of the daemon whose socket this is: STATE/run/NAME, or the one of the system. How many of its
 * characters are the folder's name, 0: it cannot be told. */
static size_t state_of_socket(const char *socket, const char **ret) {
        const char *name = strrchr(socket, '/');
        size_t n = name ? (size_t)(name - socket) : 0;

        *ret = socket;
        if (n == strlen("/run/stockade") && str_starts(socket, "/run/stockade/")) {
                *ret = "/var/lib/stockade";
                return strlen(*ret);
        }
        return n > strlen("/run") && strncmp(name - strlen("/run"), "/run", strlen("/run")) == 0 ? n - strlen("/run")
                                                                                                 : 0;
}

/* The state folder, as clients and `stockade up` find it. */
static int state_folder(const struct tool_options *o, char *ret, size_t size, struct err *err) {
        const char *named = o->state ? o->state : getenv("STOCKADE_STATE"), *socket = getenv("STOCKADE_SOCKET"), *of;
        size_t length = o->state || !socket ? 0 : state_of_socket(socket, &of);
        int n = 0;

        if (length > 0)
                n = snprintf(ret, size, "%.*s/operator/ledger", (int)length, of);
        else if (named && named[0])
                n = snprintf(ret, size, "%s/operator/ledger", named);
        else if (access(".stockade", F_OK) == 0)
                n = snprintf(ret, size, ".stockade/operator/ledger");
        else if (paths_state_name("operator/ledger", false, ret, size) < 0) {
                (void)err_set(err, ERR_INPUT, "cannot tell which ledger is meant");
                return err_hint(err, "name its folder, or the state folder with --state");
        }
        return n < 0 || (size_t)n >= size ? err_set(err, ERR_INPUT, "the path of the ledger is too long") : 0;
}

int tool_open(const struct tool_options *o, char ret_name[TOOL_NAME], struct err *err) {
        int r = 0;

        if (o->place)
                (void)snprintf(ret_name, TOOL_NAME, "%s", o->place);
        else
                r = state_folder(o, ret_name, TOOL_NAME, err);
        if (r < 0)
                return r;
        int fd = open(ret_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                return fd;
        r = err_set(err, -errno, "cannot open the ledger '%.200s'", ret_name);
        if (r == -ENOENT)
                return err_hint(
                        err,
                        "is there a daemon with this state folder? Name another with --state DIR, or the ledger's own");
        if (r == -EACCES)
                return err_hint(err, "the ledger is the operator's: ask as root, or see your own sandboxes' part with "
                                     "`stockade events`");
        return r;
}

/* --- the command line ------------------------------------------------------------------------------------------- */

/* The option that this word is, with the value behind = if there is one; -1: none. */
static int find_option(const char *word, const char **ret_value) {
        *ret_value = NULL;
        for (size_t i = 0; i < ELEMENTSOF(options); i++) {
                size_t n = strlen(options[i].name);

                if (strncmp(word, options[i].name, n) == 0 && (word[n] == '\0' || word[n] == '=')) {
                        *ret_value = word[n] == '=' ? word + n + 1 : NULL;
                        return (int)i;
                }
                if (options[i].letter && word[0] == '-' && word[1] == options[i].letter &&
                    (word[2] == '\0' || options[i].value)) {
                        *ret_value = word[2] ? word + 2 : NULL;
                        return (int)i;
                }
        }
        return -1;
}

static int take_option(struct tool_options *o, unsigned verb, int argc, char **argv, int *i, struct err *err) {
        const char *value;
        int k = find_option(argv[*i], &value);

        if (k < 0 || !(options[k].verbs & verb)) {
                (void)err_set(err, ERR_INPUT, "unknown option '%.60s'", argv[*i]);
                return err_hint(err, "`stockade ledger --help` lists them");
        }
        char *field = (char *)o + options[k].offset;
        if (!options[k].value) {
                if (value)
                        return err_set(err, ERR_INPUT, "%s takes no value", options[k].name);
                *(bool *)field = true;
                return 0;
        }
        if (!value)
                value = *i + 1 < argc ? argv[++*i] : NULL;
        if (!value)
                return err_set(err, ERR_INPUT, "%s needs a value: %s", options[k].name, options[k].value);
        *(const char **)(void *)field = value;
        return 0;
}

static int parse(struct tool_options *o, unsigned verb, int argc, char **argv, struct err *err) {
        bool plain = false;

        for (int i = 2; i < argc; i++) {
                if (!plain && str_eq(argv[i], "--"))
                        plain = true;
                else if (!plain && argv[i][0] == '-' && argv[i][1] != '\0') {
                        int r = take_option(o, verb, argc, argv, &i, err);
                        if (r < 0)
                                return r;
                } else if (o->place)
                        return err_set(err, ERR_INPUT, "'%.60s' is one word too many", argv[i]);
                else
                        o->place = argv[i];
        }
        return 0;
}

static bool wants_help(int argc, char **argv) {
        for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++)
                if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
                        return true;
        return false;
}

int main(int argc, char **argv) {
        struct tool_options o = {0};
        struct err err = {0};
        size_t v = 0;

        while (argc > 1 && v < ELEMENTSOF(verbs) && !str_eq(argv[1], verbs[v].name))
                v++;
        bool known = argc > 1 && v < ELEMENTSOF(verbs);
        if (wants_help(argc, argv)) {
                usage(stdout, known ? verbs[v].bit : ALL);
                return 0;
        }
        if (!known) {
                if (argc > 1)
                        (void)fprintf(stderr, "stockade: ledger has no verb '%.40s'\n\n", argv[1]);
                usage(stderr, ALL);
                return TOOL_FAILED;
        }
        int r = parse(&o, verbs[v].bit, argc, argv, &err);
        if (r == 0)
                r = verbs[v].run(&o, &err);
        if (fflush(stdout) != 0 && r >= 0)
                r = err_set(&err, -EIO, "could not write the output");
        if (r >= 0)
                return r;
        err_print(&err);
        return r == ERR_CORRUPT ? TOOL_BROKEN : TOOL_FAILED;
}
