/* Command lines by table. Long options (--name VALUE, --name=VALUE), single letters that may be joined (-it), words in
 * any order with them unless what follows is somebody else's command. */
#include "cli/args.h"

#include "base/buf.h"
#include "base/text.h"

#define COMMON(field) offsetof(struct args_common, field)

static const struct args_option json_option = {"json",       0,    NULL,     "print the result as JSON", ARGS_FLAG,
                                               COMMON(json), NULL, WHAT_TEXT};
static const struct args_option socket_option = {
        "socket", 0, "PATH", "talk to the daemon at this socket", ARGS_TEXT, COMMON(socket), NULL, WHAT_FILE};
static const struct args_option server_option = {
        "server", 0, "URL", "ask the daemon there, see stockade-login(1)", ARGS_TEXT, COMMON(server), NULL, WHAT_TEXT};
static const struct args_option help_option = {"help", 'h', NULL, "show this", ARGS_FLAG, 0, NULL, WHAT_TEXT};

const struct args_option *args_option(const struct args_verb *v, size_t i) {
        const struct args_option *more[4];
        size_t n = 0;

        if (i < v->count)
                return &v->options[i];
        if (v->flags & ARGS_JSON)
                more[n++] = &json_option;
        if (!(v->flags & ARGS_LOCAL)) {
                more[n++] = &socket_option;
                more[n++] = &server_option;
        }
        more[n++] = &help_option;
        return i - v->count < n ? more[i - v->count] : NULL;
}

/* --- values --------------------------------------------------------------------------------------------------- */

static int add(struct args_list *list, const char *value, const struct args_option *o, struct err *err) {
        if (list->count == ARGS_LIST_MAX)
                return err_set(err, ERR_LIMIT, "more than %d times --%s", ARGS_LIST_MAX, o->name);
        list->keys[list->count] = o->key;
        list->items[list->count++] = value;
        return 0;
}

static int take(const struct args_option *o, const char *value, void *ret, struct err *err) {
        void *field = (char *)ret + o->offset;
        int r;

        switch (o->kind) {
        case ARGS_FLAG:
                *(bool *)field = true;
                return 0;
        case ARGS_TEXT:
                *(const char **)field = value;
                return 0;
        case ARGS_LIST:
        case ARGS_SET:
                return add(field, value, o, err);
        case ARGS_COUNT:
        case ARGS_BYTES:
        case ARGS_TIME:
                r = text_parse(value,
                               o->kind == ARGS_COUNT   ? TEXT_COUNT
                               : o->kind == ARGS_BYTES ? TEXT_BYTES
                                                       : TEXT_TIME,
                               field, err);
                return r < 0 ? err_prefix(err, r, "--%s", o->name) : 0;
        default:
                return err_set(err, ERR_INPUT, "--%s is not accepted", o->name);
        }
}

/* --- parsing -------------------------------------------------------------------------------------------------- */

struct parse {
        const struct args_verb *verb;
        int argc, at; /* at: the argument that is being read */
        char **argv;
        void *ret;
        struct err *err;
        bool help;
};

static const struct args_option *find_long(const struct args_verb *v, const char *name, size_t size) {
        const struct args_option *o;

        for (size_t i = 0; (o = args_option(v, i)); i++)
                if (strlen(o->name) == size && strncmp(o->name, name, size) == 0)
                        return o;
        return NULL;
}

static const struct args_option *find_letter(const struct args_verb *v, char letter) {
        const struct args_option *o;

        for (size_t i = 0; (o = args_option(v, i)); i++)
                if (o->letter && o->letter == letter)
                        return o;
        return NULL;
}

static int unknown(struct parse *p, const char *word) {
        const char *name = word + strspn(word, "-"), *best = NULL;
        const struct args_option *o;
        unsigned least = 3;

        (void)err_set(p->err, ERR_INPUT, "'stockade %s' does not know '%.60s'", p->verb->name, word);
        for (size_t i = 0; (o = args_option(p->verb, i)); i++) {
                unsigned distance = text_distance(o->name, name);
                if (distance < least) {
                        least = distance;
                        best = o->name;
                }
        }
        return best ? err_hint(p->err, "did you mean --%s?", best)
                    : err_hint(p->err, "'stockade %s --help' lists what it knows", p->verb->name);
}

static int needs_value(struct parse *p, const struct args_option *o) {
        (void)err_set(p->err, ERR_INPUT, "--%s needs %s", o->name, o->argument);
        return err_hint(p->err, "see 'stockade %s --help'", p->verb->name);
}

static int take_long(struct parse *p, const char *word) {
        size_t size = strcspn(word + 2, "=");
        const char *value = word[2 + size] == '=' ? word + 3 + size : NULL;
        const struct args_option *o = find_long(p->verb, word + 2, size);

        if (!o)
                return unknown(p, word);
        p->help |= o == &help_option;
        if (!o->argument) {
                if (value)
                        return err_set(p->err, ERR_INPUT, "--%s takes no value", o->name);
                return o == &help_option ? 0 : take(o, NULL, p->ret, p->err);
        }
        if (!value) {
                if (p->at + 1 >= p->argc)
                        return needs_value(p, o);
                value = p->argv[++p->at];
        }
        return take(o, value, p->ret, p->err);
}

/* "-t", "-it", "-nVALUE", "-n VALUE". */
static int take_letters(struct parse *p, const char *word) {
        for (const char *letter = word + 1; *letter; letter++) {
                const struct args_option *o = find_letter(p->verb, *letter);

                if (!o)
                        return unknown(p, word);
                p->help |= o == &help_option;
                if (!o->argument) {
                        int r = o == &help_option ? 0 : take(o, NULL, p->ret, p->err);
                        if (r < 0)
                                return r;
                        continue;
                }
                if (letter[1])
                        return take(o, letter + 1, p->ret, p->err);
                if (p->at + 1 >= p->argc)
                        return needs_value(p, o);
                return take(o, p->argv[++p->at], p->ret, p->err);
        }
        return 0;
}

static int check_count(const struct args_verb *v, size_t count, struct err *err) {
        if (count >= v->least && count <= v->most)
                return 0;
        (void)err_set(err, ERR_INPUT, "'stockade %s' got too %s words", v->name, count < v->least ? "few" : "many");
        return err_hint(err, "stockade %s [OPTION…]%s%s", v->name, v->words[0] ? " " : "", v->words);
}

int args_parse(const struct args_verb *v, int argc, char **argv, void *ret, struct err *err) {
        struct parse p = {.verb = v, .argc = argc, .argv = argv, .at = 1, .ret = ret, .err = err};
        bool all_words = false;
        int count = 0;

        for (; p.at < argc; p.at++) {
                char *word = argv[p.at];
                int r = 0;

                if (!all_words && str_eq(word, "--"))
                        all_words = true;
                else if (all_words || word[0] != '-' || word[1] == '\0') {
                        argv[++count] = word;
                        all_words |= (v->flags & ARGS_COMMAND) && count == 2; /* the rest is the command's */
                } else
                        r = word[1] == '-' ? take_long(&p, word) : take_letters(&p, word);
                if (r < 0)
                        return r;
                if (p.help) {
                        args_help(v);
                        return ARGS_HELP;
                }
        }
        int r = check_count(v, (size_t)count, err);
        return r < 0 ? r : count;
}

/* --- for people ----------------------------------------------------------------------------------------------- */

/* A paragraph in lines of at most width columns; every character is one column wide here but for a few that are two
 * bytes or three. */
static void print_wrapped(const char *text, size_t width) {
        while (*text) {
                size_t bytes = 0, columns = 0, fit = 0;

                for (; text[bytes] && text[bytes] != '\n' && columns <= width; bytes++) {
                        if (text[bytes] == ' ' && text[bytes + 1] != '-') /* which would begin a list */
                                fit = bytes;
                        columns += ((unsigned char)text[bytes] & 0xc0) != 0x80;
                }
                if (columns <= width)
                        fit = bytes;
                (void)printf("%.*s\n", (int)fit, text);
                text += fit + (text[fit] == ' ' || text[fit] == '\n');
        }
}

void args_help(const struct args_verb *v) {
        const struct args_option *o;

        (void)printf("usage: stockade %s [OPTION…]%s%s\n\n", v->name, v->words[0] ? " " : "", v->words);
        print_wrapped(v->about ? v->about : v->summary, 96);
        (void)puts("");
        for (size_t i = 0; (o = args_option(v, i)); i++) {
                char left[48], letter[] = {'-', o->letter, ',', ' ', '\0'};

                (void)snprintf(left, sizeof left, "%s--%s%s%s", o->letter ? letter : "    ", o->name,
                               o->argument ? " " : "", o->argument ? o->argument : "");
                (void)printf("  %-28s %s\n", left, o->help);
        }
}

/* Signs that scdoc reads are quoted. */
static void add_scdoc(struct buf *b, const char *text) {
        for (const char *p = text; *p; p++)
                if (str_starts(p, "\xe2\x80\xa6")) { /* the ellipsis: as the other pages write it */
                        buf_str(b, "...");
                        p += 2;
                } else
                        buf_printf(b, "%s%c", strchr("_*\\#", *p) ? "\\" : "", *p);
}

/* A line of --help as a sentence. */
static void add_sentence(struct buf *b, const char *text) {
        size_t at = b->size;

        add_scdoc(b, text);
        if (buf_ok(b) && b->data[at] >= 'a' && b->data[at] <= 'z')
                b->data[at] = (char)(b->data[at] - 'a' + 'A');
        buf_str(b, ".\n\n");
}

/* Without what all verbs have, which a page says once. */
void args_manual(const struct args_verb *v) {
        _cleanup_buf_ struct buf b = {0};
        const struct args_option *o;

        buf_printf(&b, "## stockade %s ", v->name);
        add_scdoc(&b, v->words);
        while (b.data && b.data[b.size - 1] == ' ')
                b.data[--b.size] = '\0';
        buf_str(&b, "\n\n");
        if (v->about) {
                add_scdoc(&b, v->about);
                buf_str(&b, "\n\n");
        } else
                add_sentence(&b, v->summary);
        for (size_t i = 0; (o = args_option(v, i)); i++) {
                if (o == &socket_option || o == &server_option || o == &help_option)
                        continue;
                if (o->letter)
                        buf_printf(&b, "*-%c, --%s*", o->letter, o->name);
                else
                        buf_printf(&b, "*--%s*", o->name);
                if (o->argument) {
                        buf_str(&b, " _");
                        add_scdoc(&b, o->argument);
                        buf_str(&b, "_");
                }
                buf_str(&b, "\n\t");
                add_sentence(&b, o->help);
        }
        if (buf_ok(&b))
                print_wrapped(b.data, 118);
}
