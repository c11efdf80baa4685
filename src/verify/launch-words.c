/* The command line and the environment of a launch.
 *
 * Everything is words in an argument vector: no shell ever sees them. The environment is made anew: what a sandbox must
 * not get to see is in it on purpose (the secret variable), and little else. */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/knockout.h"
#include "verify/judge.h"
#include "verify/launch-private.h"

enum { WORDS_MAX = 2048 };

void words_free(struct words *w) {
        for (size_t i = 0; i < w->count; i++)
                free(w->list[i]);
        free(w->list);
        *w = (struct words){0};
}

/* Takes the word over; NULL is a word that could not be made. */
static void put(struct words *w, char *word) {
        char **list = word && w->count < WORDS_MAX ? realloc(w->list, (w->count + 2) * sizeof *list) : NULL;

        if (!list) {
                w->failed = true;
                free(word);
                return;
        }
        w->list = list;
        list[w->count++] = word;
        list[w->count] = NULL;
}

static void add(struct words *w, const char *word) {
        put(w, strdup(word));
}

_printf_(2, 3) static void addf(struct words *w, const char *format, ...) {
        char *word = NULL;
        va_list args;

        va_start(args, format);
        int n = vasprintf(&word, format, args);
        va_end(args);
        put(w, n < 0 ? NULL : word);
}

static int hand_over(struct words *from, struct words *ret, struct err *err) {
        if (from->failed || from->count == 0)
                return err_set(err, ERR_LIMIT, "no words for a launch, or more than %d", WORDS_MAX);
        *ret = *from;
        *from = (struct words){0};
        return 0;
}

/* --- the command of another maker -------------------------------------------------------------------------------- */

/* A word with every {probe} and {share} replaced by paths of the host. */
static char *fill_in(const struct judge *j, const char *word) {
        const struct { const char *name, *value; } places[] = {{"{probe}", j->probe}, {"{share}", j->world.share}};
        _cleanup_buf_ struct buf b = {0};

        while (*word) {
                size_t i = 0;

                while (i < ELEMENTSOF(places) && !str_starts(word, places[i].name))
                        i++;
                if (i < ELEMENTSOF(places)) {
                        buf_str(&b, places[i].value);
                        word += strlen(places[i].name);
                } else
                        buf_add(&b, word++, 1);
        }
        buf_str(&b, "");
        return buf_ok(&b) ? TAKE_PTR(b.data) : NULL;
}

/* Words as a shell has them where nothing is expanded: blanks part them, quotes of both kinds join. */
static int split(const struct judge *j, const char *text, struct words *w, struct err *err) {
        static const char blanks[] = " \t\n";
        const char *p = text + strspn(text, blanks);

        while (*p) {
                _cleanup_buf_ struct buf word = {0};
                char quote = '\0';

                for (; *p && (quote || !strchr(blanks, *p)); p++) {
                        if (quote ? *p == quote : *p == '\'' || *p == '"')
                                quote = quote ? '\0' : *p;
                        else
                                buf_add(&word, p, 1);
                }
                if (quote)
                        return err_set(err, ERR_INPUT, "a %c without its end in '%.200s'", quote, text);
                buf_str(&word, "");
                put(w, buf_ok(&word) ? fill_in(j, word.data) : NULL);
                p += strspn(p, blanks);
        }
        return w->count > 0 ? 0 : err_set(err, ERR_INPUT, "'%.200s' is not a command", text);
}

/* --- the command line ----------------------------------------------------------------------------------------------
 */

bool launch_is_ours(const struct judge *j, const struct launch *l) {
        return l->where == LAUNCH_INSIDE && !j->options.against;
}

bool launch_has_options(const struct judge *j) {
        return !j->options.against;
}

bool launch_in_box(const struct judge *j) {
        return !j->options.against && j->options.driver && !str_eq(j->options.driver, "native");
}

/* A box shows paths of the host at their own place, where its policy names them. */
static void add_shown_by_policy(const struct judge *j, struct words *w) {
        const struct daemon *d = &j->daemon;
        const struct {
                const char *key, *list;
                bool named;
        } rows[] = {{"files.read", j->profile.read, !j->profile.shows_host},
                    {"tools.exec", j->profile.exec, j->profile.exec_list}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i].named) {
                        add(w, "--set");
                        addf(w, "%s=%s%s%s%s%s", rows[i].key, rows[i].list, rows[i].list[0] ? "," : "", d->probe,
                             d->setid[0] ? "," : "", d->setid);
                }
}

static void add_shown(const struct judge *j, struct words *w) {
        add(w, "--ro");
        addf(w, "%s:" LAUNCH_PROBE, j->probe);
        if (j->world.setid[0]) {
                add(w, "--ro");
                addf(w, "%s:" LAUNCH_SETID, j->world.setid);
        }
}

static void add_launcher(const struct judge *j, const struct launch *l, const char *record, struct words *w) {
        const char *profile = l->profile ? l->profile : j->options.profile;

        add(w, j->launcher);
        add(w, "run");
        if (launch_in_box(j)) {
                add(w, "--driver");
                add(w, j->options.driver);
        }
        if (profile) {
                add(w, "--profile");
                add(w, profile);
        }
        add(w, "--quiet");
        if (launch_in_box(j))
                add_shown_by_policy(j, w);
        else
                add_shown(j, w);
        add(w, l->terminal ? "--tty" : "--no-tty");
        if (record[0]) {
                add(w, "--record");
                add(w, record);
        }
        for (size_t i = 0; l->options && l->options[i]; i++)
                add(w, l->options[i]);
        add(w, "--");
}

static void add_facts(const struct judge *j, const struct launch *l, struct words *w) {
        const char *facts[WORLD_FACTS_MAX];
        size_t n = world_words(&j->world, facts, ELEMENTSOF(facts));

        for (size_t i = 0; i < MIN(n, ELEMENTSOF(facts)); i++)
                if (!str_starts(facts[i], "setid="))
                        add(w, facts[i]);
        if (launch_is_ours(j, l) && launch_in_box(j)) {
                if (j->daemon.setid[0])
                        addf(w, "setid=%s", j->daemon.setid);
        } else if (j->world.setid[0])
                addf(w, "setid=%s", launch_is_ours(j, l) ? LAUNCH_SETID : j->world.setid);
}

/* By which the probe can tell a kernel of the box's own from the host's. */
static void add_host_kernel(struct words *w) {
        struct utsname u;
        char boot[64] = "";

        if (uname(&u) == 0)
                addf(w, "host-build=%s", u.version);
        if (fd_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot) >= 36)
                addf(w, "host-boot=%.36s", boot);
}

int launch_words(const struct judge *j, const struct launch *l, const char *record, struct words *ret,
                 struct err *err) {
        _cleanup_words_ struct words w = {0};
        const char *probe = j->probe;

        if (!l->argv || !l->argv[0])
                return err_set(err, ERR_INPUT, "no command to launch");
        if (launch_is_ours(j, l)) {
                add_launcher(j, l, record, &w);
                probe = launch_in_box(j) ? j->daemon.probe : LAUNCH_PROBE;
        } else if (l->where == LAUNCH_INSIDE) {
                if (l->options && l->options[0])
                        return err_set(err, ERR_UNENFORCED, "another maker's sandbox does not know %s", l->options[0]);
                int r = split(j, j->options.against, &w, err);
                if (r < 0)
                        return r;
                probe = j->options.probe_at ? j->options.probe_at : j->probe;
        }
        add(&w, str_eq(l->argv[0], "{probe}") ? probe : l->argv[0]);
        for (size_t i = 1; l->argv[i]; i++)
                add(&w, l->argv[i]);
        if (l->facts)
                add_facts(j, l, &w);
        if (launch_in_box(j) && str_eq(l->argv[0], "{probe}") && l->argv[1] && !str_eq(l->argv[1], "list"))
                add_host_kernel(&w);
        return hand_over(&w, ret, err);
}

/* --- the environment -----------------------------------------------------------------------------------------------
 */

/* Takes "NAME=value" over, in the place of an earlier one of this name. */
static void set(struct words *w, char *pair) {
        size_t n = pair ? strcspn(pair, "=") : 0;

        for (size_t i = 0; pair && i < w->count; i++)
                if (strncmp(w->list[i], pair, n) == 0 && w->list[i][n] == '=') {
                        free(w->list[i]);
                        w->list[i] = pair;
                        return;
                }
        put(w, pair);
}

/* Of the caller's variables these are handed on. */
static bool handed_on(const char *pair) {
        static const char *const names[] = {
                "PATH=",
                "HOME=",
                "LANG=",
                "TERM=",
                "XDG_",
                "STOCKADE_PROFILES=",
#ifdef STOCKADE_TEST_BUILD
                KNOCKOUT_VARIABLE "=",
#endif
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (str_starts(pair, names[i]))
                        return true;
        return false;
}

int launch_environment(const struct judge *j, const struct launch *l, struct words *ret, struct err *err) {
        _cleanup_words_ struct words w = {0};

        add(&w, "PATH=/usr/local/bin:/usr/bin:/bin");
        for (char **pair = environ; pair && *pair; pair++)
                if (handed_on(*pair))
                        set(&w, strdup(*pair));
        addf(&w, "STOCKADE_VERIFY_SECRET=%s", j->world.tokens[CANARY_ENV]);
        addf(&w, "STOCKADE_VERIFY=%s", j->world.nonce);
        if (launch_in_box(j))
                addf(&w, "STOCKADE_SOCKET=%s", j->daemon.socket);
        for (size_t i = 0; l->env && l->env[i]; i++)
                set(&w, strdup(l->env[i]));
        return hand_over(&w, ret, err);
}
