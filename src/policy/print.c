/* A policy as text that parses back to the same policy, in the order of the schema table.
 *
 * One walk writes both notations: YAML for people (sections as blocks, lists in brackets), JSON for programs. What is
 * unset is left out; empty lists are written, because "nothing" is an answer. */
#include "policy/field.h"
#include "policy/profile.h"

/* Text that needs no quotes wherever it stands in our YAML. */
static bool is_plain(const char *s) {
        static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_";
        static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.+-=@";

        return s[0] && strchr(first, s[0]) && strspn(s, rest) == strlen(s);
}

static void yaml_text(struct buf *out, const char *s) {
        if (is_plain(s)) {
                buf_str(out, s);
                return;
        }
        buf_str(out, "\"");
        for (; *s; s++) {
                if (*s == '"' || *s == '\\')
                        buf_str(out, "\\");
                buf_add(out, s, 1);
        }
        buf_str(out, "\"");
}

static void yaml_strings(struct buf *out, const struct policy_strings *s) {
        buf_str(out, "[");
        for (size_t i = 0; i < s->count; i++) {
                buf_str(out, i > 0 ? ", " : "");
                yaml_text(out, s->items[i]);
        }
        buf_str(out, "]");
}

/* Whether a row is written at all. Entries of lists leave out what is not set, policies only what has no value. */
static bool is_shown(const struct schema_row *row, const void *base) {
        if (row->scope != SCOPE_POLICY || row->flag || row->kind == KIND_NUMBER || row->kind == KIND_TEXT)
                return field_given(row, base);
        return true;
}

static void yaml_value(struct buf *out, const struct schema_row *row, const void *base);

static void yaml_entry(struct buf *out, enum schema_scope scope, const void *entry) {
        const struct policy_place *place = entry;
        bool comma = false;

        if (scope == SCOPE_PLACE && place->size == POLICY_UNSET && place->inodes == POLICY_UNSET) {
                yaml_text(out, place->path);
                return;
        }
        buf_str(out, "{");
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];

                if (row->scope != scope || !is_shown(row, entry))
                        continue;
                buf_printf(out, "%s%s: ", comma ? ", " : "", schema_leaf(row));
                yaml_value(out, row, entry);
                comma = true;
        }
        buf_str(out, "}");
}

static void yaml_value(struct buf *out, const struct schema_row *row, const void *base) {
        const void *field = field_at(row, base);
        size_t count = row->count ? *field_count(row, base) : 0;
        char text[40];

        switch (row->kind) {
        case KIND_NUMBER:
                buf_str(out, text_format(text, sizeof text, row->unit, *(const uint64_t *)field));
                break;
        case KIND_BOOL:
                buf_str(out, *(const bool *)field ? "true" : "false");
                break;
        case KIND_CHOICE:
                buf_str(out, row->choices[*(const unsigned *)field]);
                break;
        case KIND_TEXT:
                yaml_text(out, *(char *const *)field);
                break;
        case KIND_STRINGS:
                yaml_strings(out, field);
                break;
        case KIND_PORTS:
                if (count == 1 && *(const uint16_t *)field == 0) {
                        buf_str(out, "any");
                        break;
                }
                for (size_t i = 0; i < count; i++)
                        buf_printf(out, "%s%u", i > 0 ? ", " : "[", ((const uint16_t *)field)[i]);
                buf_str(out, "]");
                break;
        case KIND_ENTRIES:
                buf_str(out, count == 0 ? "[]" : "");
                for (size_t i = 0; i < count; i++) {
                        buf_str(out, "\n    - ");
                        yaml_entry(out, row->element, *(char *const *)field + i * schema_element_size(row->element));
                }
                break;
        case KIND_ENV: {
                const struct policy_variable *env = *(struct policy_variable *const *)field;

                buf_str(out, count == 0 ? "{}" : "");
                for (size_t i = 0; i < count; i++) {
                        buf_printf(out, "\n  %s: ", env[i].name);
                        yaml_text(out, env[i].value);
                }
                break;
        }
        }
}

/* How many leading characters, up to a dot, the two keys have in common: the sections that are already open. */
static size_t shared_sections(const char *a, const char *b) {
        size_t shared = 0;

        for (size_t i = 0; a[i] && a[i] == b[i]; i++)
                if (a[i] == '.')
                        shared = i + 1;
        return shared;
}

int policy_print(const struct policy *p, struct buf *out) {
        const char *previous = "";

        buf_str(out, "profile: 1\n");
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];
                unsigned depth = 0;

                if (row->scope != SCOPE_POLICY || !is_shown(row, p))
                        continue;
                size_t open = shared_sections(previous, row->key);
                for (const char *part = row->key, *dot; (dot = strchr(part, '.')); part = dot + 1, depth++)
                        if ((size_t)(part - row->key) >= open)
                                buf_printf(out, "%*s%.*s:\n", (int)(2 * depth), "", (int)(dot - part), part);
                buf_printf(out, "%*s%s:", (int)(2 * depth), "", schema_leaf(row));
                bool block = (row->kind == KIND_ENTRIES || row->kind == KIND_ENV) && *field_count(row, p) > 0;
                buf_str(out, block ? "" : " ");
                yaml_value(out, row, p);
                buf_str(out, "\n");
                previous = row->key;
        }
        return buf_ok(out) ? 0 : -ENOMEM;
}

static void json_rows(struct json *j, enum schema_scope scope, const void *base);

static void json_value(struct json *j, const struct schema_row *row, const void *base) {
        const void *field = field_at(row, base);
        const char *key = schema_leaf(row);
        size_t count = row->count ? *field_count(row, base) : 0;
        char text[40];

        switch (row->kind) {
        case KIND_NUMBER:
                json_str(j, key, text_format(text, sizeof text, row->unit, *(const uint64_t *)field));
                break;
        case KIND_BOOL:
                json_bool(j, key, *(const bool *)field);
                break;
        case KIND_CHOICE:
                json_str(j, key, row->choices[*(const unsigned *)field]);
                break;
        case KIND_TEXT:
                json_str(j, key, *(char *const *)field);
                break;
        case KIND_STRINGS: {
                const struct policy_strings *s = field;

                json_open(j, key, '[');
                for (size_t i = 0; i < s->count; i++)
                        json_str(j, NULL, s->items[i]);
                json_close(j, ']');
                break;
        }
        case KIND_PORTS:
                if (count == 1 && *(const uint16_t *)field == 0) {
                        json_str(j, key, "any");
                        break;
                }
                json_open(j, key, '[');
                for (size_t i = 0; i < count; i++)
                        json_u64(j, NULL, ((const uint16_t *)field)[i]);
                json_close(j, ']');
                break;
        case KIND_ENTRIES:
                json_open(j, key, '[');
                for (size_t i = 0; i < count; i++) {
                        json_open(j, NULL, '{');
                        json_rows(j, row->element, *(char *const *)field + i * schema_element_size(row->element));
                        json_close(j, '}');
                }
                json_close(j, ']');
                break;
        case KIND_ENV: {
                const struct policy_variable *env = *(struct policy_variable *const *)field;

                json_open(j, key, '{');
                for (size_t i = 0; i < count; i++)
                        json_str(j, env[i].name, env[i].value);
                json_close(j, '}');
                break;
        }
        }
}

/* Sections nest at most two deep; those that the next key does not share are closed before it. */
static void json_rows(struct json *j, enum schema_scope scope, const void *base) {
        const char *previous = "";

        for (size_t i = 0; i <= schema_row_count; i++) {
                const struct schema_row *row = i < schema_row_count ? &schema_rows[i] : NULL;
                const char *key = row && scope == SCOPE_POLICY ? row->key : "";

                if (row && (row->scope != scope || !is_shown(row, base)))
                        continue;
                size_t open = shared_sections(previous, key);
                for (const char *dot = previous + open; scope == SCOPE_POLICY && (dot = strchr(dot, '.')); dot++)
                        json_close(j, '}');
                if (!row)
                        break;
                for (const char *part = key + open, *dot; (dot = strchr(part, '.')); part = dot + 1) {
                        char name[32];

                        (void)snprintf(name, sizeof name, "%.*s", (int)(dot - part), part);
                        json_open(j, name, '{');
                }
                json_value(j, row, base);
                previous = key;
        }
}

int policy_print_json(const struct policy *p, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_u64(j, "profile", 1);
        json_rows(j, SCOPE_POLICY, p);
        json_close(j, '}');
        return buf_ok(j->out) ? 0 : -ENOMEM;
}
