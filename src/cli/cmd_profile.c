/* `stockade profile`: looking at profiles. Starts nothing and changes nothing.
 *
 * Answers go to standard output, also those of `check` that are errors; what stops a command goes to standard error.
 * Text from files is escaped before it is printed. */
#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "policy/profile.h"
#include "policy/schema.h"

enum format {
        PLAIN,
        JSON,
        MAN, /* the key list of the manual page */
};

static int failed(const struct err *err) {
        err_print(err);
        return EXIT_FAILED;
}

/* The end of every command: the whole output at once, or a failure. */
static int finish(const struct buf *out) {
        struct err err = {0};

        if (!buf_ok(out)) {
                (void)err_set(&err, -ENOMEM, "cannot print the answer");
                return failed(&err);
        }
        if ((out->size > 0 && fwrite(out->data, 1, out->size, stdout) != out->size) || fflush(stdout) != 0) {
                (void)err_set(&err, -errno, "cannot write to standard output");
                return failed(&err);
        }
        return 0;
}

static int list(int count, char **names, enum format format) {
        _cleanup_(profile_list_free) struct profile_list all = {0};
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        struct err err = {0};
        char source[300], summary[300];
        int width = 0;

        (void)names;
        (void)count;
        if (profile_list(&all, &err) < 0)
                return failed(&err);
        for (size_t i = 0; i < all.count; i++)
                width = MAX(width, (int)strlen(all.items[i].name));
        if (format == JSON)
                json_open(&j, NULL, '[');
        for (size_t i = 0; i < all.count; i++) {
                const struct profile_entry *e = &all.items[i];

                if (format == JSON) {
                        json_open(&j, NULL, '{');
                        json_str(&j, "name", e->name);
                        json_str(&j, "source", e->source);
                        json_str(&j, "summary", e->summary);
                        json_close(&j, '}');
                        continue;
                }
                text_escape(source, sizeof source, e->source);
                text_escape(summary, sizeof summary, e->summary);
                bool builtin = str_starts(e->source, "builtin:");
                buf_printf(&out, "%-*s  %s%s%s\n", width, e->name, summary[0] ? summary : source,
                           summary[0] && !builtin ? "  -- " : "", summary[0] && !builtin ? source : "");
        }
        if (format == JSON) {
                json_close(&j, ']');
                buf_str(&out, "\n");
        }
        return finish(&out);
}

static void show_json(const struct policy *p, const struct profile_sources *sources, const char *hash,
                      struct buf *out) {
        struct json j = {.out = out};
        char text[HASH_TEXT_SIZE];

        json_open(&j, NULL, '{');
        json_str(&j, "name", p->name);
        json_str(&j, "hash", hash);
        json_open(&j, "sources", '[');
        for (size_t i = 0; i < sources->count; i++) {
                if (sources->items[i].absent)
                        continue;
                hash_text(sources->items[i].hash, text);
                json_open(&j, NULL, '{');
                json_str(&j, "path", sources->items[i].path);
                json_str(&j, "hash", text);
                json_close(&j, '}');
        }
        json_close(&j, ']');
        (void)policy_print_json(p, &j, "policy");
        json_close(&j, '}');
        buf_str(out, "\n");
}

static void show_yaml(const struct policy *p, const struct profile_sources *sources, const char *hash,
                      struct buf *out) {
        const char *comma = "";
        char path[300];

        buf_str(out, "# from ");
        for (size_t i = 0; i < sources->count; i++) {
                if (sources->items[i].absent)
                        continue;
                text_escape(path, sizeof path, sources->items[i].path);
                buf_printf(out, "%s%s", comma, path);
                comma = ", ";
        }
        buf_printf(out, "\n# policy %s\n", hash);
        (void)policy_print(p, out);
}

static int load(const char *name, struct policy *ret, struct profile_sources *ret_sources, struct err *err) {
        int r = profile_load(name, ret, ret_sources, err);
        if (r < 0)
                return r;
        r = policy_check(ret, err);
        return r < 0 ? err_prefix(err, r, "%.200s", name) : 0;
}

static int show(int count, char **names, enum format format) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        _cleanup_buf_ struct buf out = {.max = 16 << 20};
        struct err err = {0};
        uint8_t hash[HASH_SIZE];
        char text[HASH_TEXT_SIZE];

        (void)count;
        if (load(names[0], &p, &sources, &err) < 0)
                return failed(&err);
        policy_hash(&p, hash);
        hash_text(hash, text);
        if (format == JSON)
                show_json(&p, &sources, text, &out);
        else
                show_yaml(&p, &sources, text, &out);
        return finish(&out);
}

static int explain(int count, char **names, enum format format) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_buf_ struct buf out = {.max = 16 << 20};
        struct err err = {0};

        (void)count;
        (void)format;
        if (load(names[0], &p, NULL, &err) < 0)
                return failed(&err);
        int r = policy_explain(&p, &out);
        if (r < 0) {
                (void)err_set(&err, r, "cannot explain '%.200s'", names[0]);
                return failed(&err);
        }
        return finish(&out);
}

/* " (not enforceable yet by this build: network.allow)", when there is something. */
static void say_missing(const struct policy *p, struct buf *out) {
        _cleanup_(policy_strings_free) struct policy_strings missing = {0};

        if (policy_missing(p, &missing) < 0 || missing.count == 0)
                return;
        buf_str(out, " (not enforceable yet by this build:");
        for (size_t i = 0; i < missing.count; i++)
                buf_printf(out, "%s %s", i > 0 ? "," : "", missing.items[i]);
        buf_str(out, ")");
}

static int check(int count, char **names, enum format format) {
        _cleanup_buf_ struct buf out = {.max = 16 << 20};
        bool bad = false;

        (void)format;
        for (int i = 0; i < count; i++) {
                _cleanup_policy_ struct policy p = {0};
                struct err err = {0};
                char line[1200];

                if (load(names[i], &p, NULL, &err) < 0) {
                        bad = true;
                        text_escape(line, sizeof line, err.text);
                        buf_printf(&out, "%s\n", line);
                        continue;
                }
                text_escape(line, sizeof line, names[i]);
                buf_printf(&out, "%s: ok", line);
                say_missing(&p, &out);
                buf_str(&out, "\n");
        }
        int r = finish(&out);
        return r != 0 ? r : bad ? EXIT_FOUND : 0;
}

static int schema(int count, char **names, enum format format) {
        _cleanup_buf_ struct buf out = {0};

        (void)count;
        (void)names;
        if (format == JSON)
                schema_print_json(&out);
        else if (format == MAN)
                schema_print_man(&out);
        else
                schema_print(&out);
        return finish(&out);
}

static const struct verb {
        const char *name, *arguments, *help;
        int (*run)(int count, char **names, enum format format);
        int min, max; /* arguments */
        bool json;    /* takes --json */
        bool man;     /* takes --man */
} verbs[] = {
        {"list", "[--json]", "the profiles that can be named", list, 0, 0, true},
        {"show", "[--json] PROFILE", "the whole policy, with everything it extends", show, 1, 1, true},
        {"check", "PROFILE...", "one line each: ok, or what is wrong and where", check, 1, 10000, false},
        {"explain", "PROFILE", "what a sandbox may do, in plain sentences", explain, 1, 1, false},
        {"schema", "[--json | --man]", "every key: values, merging, and whether this build enforces it", schema, 0, 0,
         true, true},
};

static int usage(FILE *to, int status) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                (void)fprintf(to, "%s stockade profile %-8s %-18s %s\n", i == 0 ? "usage:" : "      ", verbs[i].name,
                              verbs[i].arguments, verbs[i].help);
        (void)fprintf(to, "PROFILE is a name (low, medium, high, or one from 'list') or a path to a .yaml file.\n");
        return status;
}

static int run_verb(const struct verb *verb, int argc, char **argv) {
        struct err err = {0};
        enum format format = PLAIN;
        bool options = true;
        int count = 0;

        /* arguments that are no options move to the front of argv */
        for (int i = 0; i < argc; i++) {
                if (options && str_eq(argv[i], "--"))
                        options = false;
                else if (options && (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")))
                        return usage(stdout, 0);
                else if (options && verb->json && str_eq(argv[i], "--json"))
                        format = JSON;
                else if (options && verb->man && str_eq(argv[i], "--man"))
                        format = MAN;
                else if (options && argv[i][0] == '-') {
                        (void)err_set(&err, ERR_INPUT, "profile %s: unknown option '%.60s'", verb->name, argv[i]);
                        (void)err_hint(&err, "stockade profile %s %s", verb->name, verb->arguments);
                        return failed(&err);
                } else
                        argv[count++] = argv[i];
        }
        if (count < verb->min || count > verb->max) {
                (void)err_set(&err, ERR_INPUT, "profile %s: expected %s", verb->name,
                              verb->max == 0 ? "no arguments" : verb->arguments);
                (void)err_hint(&err, "stockade profile %s %s", verb->name, verb->arguments);
                return failed(&err);
        }
        return verb->run(count, argv, format);
}

int cmd_profile(int argc, char **argv) {
        if (argc < 2)
                return usage(stderr, EXIT_FAILED);
        if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))
                return usage(stdout, 0);
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (str_eq(verbs[i].name, argv[1]))
                        return run_verb(&verbs[i], argc - 2, argv + 2);
        (void)fprintf(stderr, "stockade: profile: unknown command '%.60s'\n", argv[1]);
        return usage(stderr, EXIT_FAILED);
}
