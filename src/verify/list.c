/* The table of checks, as text or JSON: what would be tried, and what must stop it. Tries nothing. */
#include "base/json.h"
#include "verify/judge.h"

static void list_json(struct buf *out) {
        struct json j = {.out = out};

        json_open(&j, NULL, '[');
        for (size_t i = 0; i < check_count(); i++) {
                const struct check *c = check_at(i);
                static const char *const controls[] = {
                        [CONTROL_NONE] = "none", [CONTROL_USER] = "user",   [CONTROL_ROOT] = "root",
                        [CONTROL_INIT] = "init", [CONTROL_SCENE] = "scene", [CONTROL_OTHER] = "other",
                };
                static const char *const needs[] = {
                        [NEEDS_NOTHING] = "nothing",   [NEEDS_EXEC_LIST] = "exec-list", [NEEDS_OWN_TREE] = "own-tree",
                        [NEEDS_NO_RULES] = "no-rules", [NEEDS_RULES] = "rules",
                };

                json_open(&j, NULL, '{');
                json_str(&j, "name", c->name);
                json_str(&j, "group", check_group_names[c->group]);
                json_str(&j, "does", c->does);
                json_open(&j, "layers", '[');
                for (unsigned l = 0; l < LAYER_COUNT; l++)
                        if (c->layers & (1u << l))
                                json_str(&j, NULL, check_layer_names[l]);
                json_close(&j, ']');
                json_str(&j, "errors", c->errors);
                json_str(&j, "control", controls[c->control]);
                json_str(&j, "note", c->note);
                json_str(&j, "needs", needs[c->needs]);
                json_bool(&j, "scene", c->scene != NULL);
                json_bool(&j, "quick", !c->scene || c->flags & CHECK_QUICK);
                json_bool(&j, "self_test", c->flags & CHECK_FAST);
                json_close(&j, '}');
        }
        json_close(&j, ']');
        buf_str(out, "\n");
}

void list_checks(bool as_json, struct buf *out) {
        char mechanism[512];
        enum group group = GROUP_COUNT;

        if (as_json) {
                list_json(out);
                return;
        }
        for (size_t i = 0; i < check_count(); i++) {
                const struct check *c = check_at(i);

                if (c->group != group)
                        buf_printf(out, "%s%s\n", i ? "\n" : "", check_group_titles[c->group]);
                group = c->group;
                buf_printf(out, "  %-24s %s\n  %-24s   must be stopped by: %s\n", c->name, c->does, "",
                           check_mechanism(c, mechanism, sizeof mechanism));
        }
        buf_printf(out, "\n%zu checks.\n", check_count());
}
