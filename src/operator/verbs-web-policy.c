/* The policy of a sandbox for people: the profile that it names, what holds instead, and what that means. */
#include "operator/sandbox.h"
#include "operator/summary.h"
#include "operator/verbs.h"
#include "policy/schema.h"

static void member(struct json *j, const char *key, const char *text, const char *path) {
        size_t size = 0;
        const char *value = text ? json_at(text, path, &size) : NULL;

        if (!value) {
                json_null(j, key);
                return;
        }
        buf_printf(j->out, ",\"%s\":", key); /* never the first */
        buf_add(j->out, value, size);
}

static bool same(const char *a, const char *b, const char *path) {
        size_t a_size = 0, b_size = 0;
        const char *x = json_at(a, path, &a_size), *y = json_at(b, path, &b_size);

        return x && y ? a_size == b_size && memcmp(x, y, a_size) == 0 : x == y;
}

/* Both as policy_print_json has them: every key once, in one notation. */
static void differences(struct json *j, const char *asked, const char *effective) {
        json_open(j, "differs", '[');
        for (size_t i = 0; asked && i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];

                if (row->scope != SCOPE_POLICY || same(asked, effective, row->key))
                        continue;
                json_open(j, NULL, '{');
                json_str(j, "key", row->key);
                member(j, "asked", asked, row->key);
                member(j, "effective", effective, row->key);
                json_close(j, '}');
        }
        json_close(j, ']');
}

/* The profile as it is now, or why there is none; *ret is NULL then. */
static void ask_profile(struct core *o, const char *name, struct json *j, char **ret) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        _cleanup_buf_ struct buf b = {0};
        struct json own = {.out = &b};
        struct frozen_request q = {.profile = name};
        struct err err = {0};

        json_open(j, "asked", '{');
        json_str(j, "profile", name);
        if (frozen_resolve(o, &q, &p, &sources, &err) < 0 || policy_print_json(&p, &own, NULL) < 0) {
                json_null(j, "policy");
                json_str(j, "error", err.text[0] ? err.text : "out of memory");
        } else {
                *ret = TAKE_PTR(b.data);
                member(j, "policy", *ret, "");
        }
        json_close(j, '}');
}

static int describe(const struct sandbox *s, const struct frozen *f, struct json *j, struct err *err) {
        _cleanup_policy_ struct policy p = {0};
        _cleanup_free_ char *asked = NULL;
        _cleanup_buf_ struct buf b = {0};
        struct json own = {.out = &b};

        int r = profile_parse("frozen policy", f->policy, f->policy_size, &p, err);
        if (r < 0)
                return r;
        if (policy_print_json(&p, &own, NULL) < 0)
                return err_set(err, -ENOMEM, "could not describe a policy");
        ask_profile(s->o, s->profile, j, &asked);
        differences(j, asked, b.data);
        json_open(j, "described", '{');
        r = summary_json(&p, j);
        json_close(j, '}');
        return r < 0 ? err_set(err, r, "could not describe a policy") : 0;
}

void verbs_policy_answer(struct call *c, const struct frozen *f) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct err err = {0};

        sandbox_json_open(c->sandbox, &j, NULL);
        json_str(&j, "policy", f->policy);
        int r = describe(c->sandbox, f, &j, &err);
        json_close(&j, '}');
        if (r < 0)
                call_refuse(c, &err);
        else
                call_answer(c, &b);
}

void verb_policy_show(struct call *c) {
        verbs_policy_answer(c, c->sandbox->frozen);
}
