/* Parsing and merging, one row at a time.
 *
 * A profile is applied onto its parent's resolved policy: numbers, words and most lists replace, maps merge, lists that
 * restrict are added to. A value is complete and checked before it touches the policy. */
#include "policy/parse.h"

#include "policy/field.h"
#include "policy/narrow.h"

struct parser {
        const char *label;
        struct err *err;
};

static int out_of_memory(const struct parser *p) {
        return err_set(p->err, -ENOMEM, "cannot read the profile");
}

/* "file:4:11: limits.memory: " and what the check said about the word. */
static int bad_value(const struct parser *p, const struct schema_row *row, const struct node *at,
                     const struct err *why) {
        return node_error(p->label, at, p->err, "%s: %s", row->key, why->text);
}

static int wrong_kind(const struct parser *p, const struct schema_row *row, const struct node *at) {
        _cleanup_buf_ struct buf want = {0};

        schema_describe(row, &want);
        return node_error(p->label, at, p->err, "%s: expected %s, not %s", row->key, want.data ? want.data : "a value",
                          node_kind_name(at));
}

static int parse_number(const struct parser *p, const struct schema_row *row, const struct node *at, uint64_t *ret) {
        struct err why = {0};
        char low[40], high[40];
        uint64_t value;

        if (at->kind != NODE_TEXT || at->text[0] == '\0')
                return wrong_kind(p, row, at);
        if (text_parse(at->text, row->unit, &value, &why) < 0)
                return bad_value(p, row, at, &why);
        if (value < row->min || value > row->max)
                return node_error(p->label, at, p->err, "%s: %.40s is not between %s and %s", row->key, at->text,
                                  text_format(low, sizeof low, row->unit, row->min),
                                  text_format(high, sizeof high, row->unit, row->max));
        *ret = value;
        return 0;
}

static int parse_bool(const struct parser *p, const struct schema_row *row, const struct node *at, bool *ret) {
        if (at->kind != NODE_TEXT || at->text[0] == '\0')
                return wrong_kind(p, row, at);
        if (!str_eq(at->text, "true") && !str_eq(at->text, "false"))
                return node_error(p->label, at, p->err, "%s: expected true or false, not '%.60s'", row->key, at->text);
        *ret = str_eq(at->text, "true");
        return 0;
}

/* The place of text among the row's choices. */
static int find_choice(const struct parser *p, const struct schema_row *row, const struct node *at, unsigned *ret) {
        _cleanup_buf_ struct buf want = {0};

        for (unsigned i = 0; row->choices[i]; i++)
                if (str_eq(row->choices[i], at->text)) {
                        *ret = i;
                        return 0;
                }
        for (unsigned i = 0; row->choices[i]; i++)
                buf_printf(&want, "%s%s", i == 0 ? "" : row->choices[i + 1] ? ", " : " or ", row->choices[i]);
        return node_error(p->label, at, p->err, "%s: expected %s, not '%.60s'", row->key, want.data ? want.data : "",
                          at->text);
}

/* A word that passed the row's check. The text stays the node's. */
static int check_word(const struct parser *p, const struct schema_row *row, const struct node *at) {
        struct err why = {0};
        unsigned ignored;

        if (at->kind != NODE_TEXT || at->text[0] == '\0')
                return node_error(p->label, at, p->err, "%s: expected a word, not %s", row->key, node_kind_name(at));
        if (row->choices)
                return find_choice(p, row, at, &ignored);
        if (row->check && row->check(at->text, &why) < 0)
                return bad_value(p, row, at, &why);
        return 0;
}

static int too_many(const struct parser *p, const struct schema_row *row, const struct node *at, size_t max) {
        return node_error(p->label, at, p->err, "%s: more than %zu entries", row->key, max);
}

static int parse_strings(const struct parser *p, const struct schema_row *row, const struct node *list, void *base) {
        _cleanup_(policy_strings_free) struct policy_strings fresh = {0};
        struct policy_strings *field = field_at(row, base);

        if (list->kind != NODE_LIST)
                return wrong_kind(p, row, list);
        for (size_t i = 0; i < list->count; i++) {
                const struct node *at = list->items[i];

                int r = check_word(p, row, at);
                if (r < 0)
                        return r;
                if (policy_strings_has(&fresh, at->text))
                        return node_error(p->label, at, p->err, "%s: '%.200s' is listed twice", row->key, at->text);
                r = policy_strings_add(&fresh, at->text);
                if (r < 0)
                        return r == -E2BIG ? too_many(p, row, at, POLICY_LIST_MAX) : out_of_memory(p);
        }
        if (row->merge != MERGE_UNION) {
                policy_strings_free(field);
                *field = fresh;
                fresh = (struct policy_strings){0};
                return 0;
        }
        for (size_t i = 0; i < fresh.count; i++) {
                if (policy_strings_has(field, fresh.items[i]))
                        continue;
                int r = policy_strings_add(field, fresh.items[i]);
                if (r < 0)
                        return r == -E2BIG ? too_many(p, row, list, POLICY_LIST_MAX) : out_of_memory(p);
        }
        return 0;
}

static int parse_ports(const struct parser *p, const struct schema_row *row, const struct node *list, void *base) {
        uint16_t *ports = field_at(row, base);
        size_t count = 0;

        if (list->kind == NODE_TEXT && str_eq(list->text, "any")) {
                ports[0] = 0;
                *field_count(row, base) = 1;
                return 0;
        }
        if (list->kind != NODE_LIST || list->count == 0)
                return wrong_kind(p, row, list);
        for (size_t i = 0; i < list->count; i++) {
                const struct node *at = list->items[i];
                uint64_t port = 0;

                if (count >= ELEMENTSOF(((struct policy_reach *)0)->ports))
                        return too_many(p, row, at, count);
                if (at->kind != NODE_TEXT || strspn(at->text, "0123456789") != strlen(at->text) ||
                    text_parse(at->text, TEXT_COUNT, &port, NULL) < 0 || port < 1 || port > 65535)
                        return node_error(p->label, at, p->err, "%s: expected a port from 1 to 65535", row->key);
                for (size_t k = 0; k < count; k++)
                        if (ports[k] == port)
                                return node_error(p->label, at, p->err, "%s: %s is listed twice", row->key, at->text);
                ports[count++] = (uint16_t)port;
        }
        *field_count(row, base) = count;
        return 0;
}

/* Keeps the variables sorted by name, so that the order in files does not matter. */
static int put_variable(const struct parser *p, const struct schema_row *row, const struct node *name,
                        const char *value, void *base) {
        struct policy_variable **env = field_at(row, base);
        size_t *count = field_count(row, base), i = 0;

        while (i < *count && strcmp((*env)[i].name, name->text) < 0)
                i++;
        _cleanup_free_ char *copy = strdup(value);
        if (!copy)
                return out_of_memory(p);
        if (i < *count && str_eq((*env)[i].name, name->text)) {
                free((*env)[i].value);
                (*env)[i].value = TAKE_PTR(copy);
                return 0;
        }
        if (*count >= POLICY_LIST_MAX)
                return too_many(p, row, name, POLICY_LIST_MAX);
        _cleanup_free_ char *key = strdup(name->text);
        struct policy_variable *more = key ? realloc(*env, (*count + 1) * sizeof *more) : NULL;
        if (!more)
                return out_of_memory(p);
        *env = more;
        memmove(more + i + 1, more + i, (*count - i) * sizeof *more);
        more[i] = (struct policy_variable){TAKE_PTR(key), TAKE_PTR(copy)};
        (*count)++;
        return 0;
}

static int parse_env(const struct parser *p, const struct schema_row *row, const struct node *map, void *base) {
        if (map->kind != NODE_MAP)
                return wrong_kind(p, row, map);
        for (size_t i = 0; i + 1 < map->count; i += 2) {
                const struct node *name = map->items[i], *value = map->items[i + 1];
                struct err why = {0};

                if (value_check_variable(name->text, &why) < 0)
                        return bad_value(p, row, name, &why);
                if (value->kind != NODE_TEXT)
                        return node_error(p->label, value, p->err, "env.%s: expected text, not %s", name->text,
                                          node_kind_name(value));
                int r = put_variable(p, row, name, value->text, base);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* What one row cannot say about an entry. */
static int check_entry(const struct parser *p, const struct schema_row *row, const struct node *at, const void *entry) {
        if (row->element == SCOPE_PLACE) {
                const struct policy_place *place = entry;

                if (!place->path)
                        return node_error(p->label, at, p->err, "%s: the entry has no path", row->key);
                return 0;
        }
        const struct policy_reach *reach = entry;
        if (!reach->host == !reach->cidr)
                return node_error(p->label, at, p->err, "%s: the entry needs either host or cidr", row->key);
        if (reach->cidr && (reach->methods.count || reach->paths.count || reach->secret || reach->inspect))
                return node_error(
                        p->label, at, p->err,
                        "%s: methods, paths, secret and inspect need a host, because a certificate has a name",
                        row->key);
        return 0;
}

static int apply_map(const struct parser *p, const struct node *map, const char *section, void *base);

static int parse_entry(const struct parser *p, const struct schema_row *row, const struct node *at, void *entry) {
        char section[64];

        (void)snprintf(section, sizeof section, "%s[]", row->key);
        if (at->kind == NODE_MAP) {
                int r = apply_map(p, at, section, entry);
                return r < 0 ? r : check_entry(p, row, at, entry);
        }
        if (row->element != SCOPE_PLACE || at->kind != NODE_TEXT)
                return node_error(p->label, at, p->err, "%s: expected %s, not %s", row->key,
                                  row->element == SCOPE_PLACE ? "a path or a map" : "a map such as {host: example.org}",
                                  node_kind_name(at));
        return parse_value(p->label, schema_find("files.write[].path"), at, entry, p->err);
}

static int parse_entries(const struct parser *p, const struct schema_row *row, const struct node *list, void *base) {
        size_t size = schema_element_size(row->element), *count = field_count(row, base);
        char **items = field_at(row, base);

        if (list->kind != NODE_LIST)
                return wrong_kind(p, row, list);
        if (list->count > POLICY_LIST_MAX)
                return too_many(p, row, list, POLICY_LIST_MAX);
        field_reset(row, base);
        if (list->count == 0)
                return 0;
        *items = calloc(list->count, size);
        if (!*items)
                return out_of_memory(p);
        for (size_t i = 0; i < list->count; i++) {
                field_init(row->element, *items + i * size);
                (*count)++;
                int r = parse_entry(p, row, list->items[i], *items + i * size);
                if (r < 0)
                        return r;
                if (row->element != SCOPE_PLACE)
                        continue;
                const struct policy_place *places = (const void *)*items;
                for (size_t k = 0; k < i; k++)
                        if (str_eq(places[k].path, places[i].path))
                                return node_error(p->label, list->items[i], p->err, "%s: '%.200s' is listed twice",
                                                  row->key, places[i].path);
        }
        return 0;
}

static int parse_text(const struct parser *p, const struct schema_row *row, const struct node *at, char **field) {
        if (at->kind != NODE_TEXT || at->text[0] == '\0')
                return wrong_kind(p, row, at);
        int r = check_word(p, row, at);
        if (r < 0)
                return r;
        char *copy = row->settle ? row->settle(at->text) : strdup(at->text);
        if (!copy)
                return out_of_memory(p);
        free(*field);
        *field = copy;
        return 0;
}

int parse_value(const char *label, const struct schema_row *row, const struct node *value, void *base,
                struct err *err) {
        const struct parser p = {label, err};
        void *field = field_at(row, base);

        if (row->flag)
                *field_flag(row, base) = true;
        switch (row->kind) {
        case KIND_NUMBER:
                return parse_number(&p, row, value, field);
        case KIND_BOOL:
                return parse_bool(&p, row, value, field);
        case KIND_CHOICE:
                if (value->kind != NODE_TEXT || value->text[0] == '\0')
                        return wrong_kind(&p, row, value);
                return find_choice(&p, row, value, field);
        case KIND_TEXT:
                return parse_text(&p, row, value, field);
        case KIND_STRINGS:
                return parse_strings(&p, row, value, base);
        case KIND_PORTS:
                return parse_ports(&p, row, value, base);
        case KIND_ENTRIES:
                return parse_entries(&p, row, value, base);
        case KIND_ENV:
                return parse_env(&p, row, value, base);
        }
        return err_set(err, ERR_INPUT, "%s: this key has no parser", row->key);
}

static int unknown_key(const struct parser *p, const struct node *key, const char *section) {
        char nearest[64], where[80] = "";
        const char *better = schema_suggest(section, key->text, nearest, sizeof nearest);

        if (section[0])
                (void)snprintf(where, sizeof where, " in %s", section);
        if (better)
                return node_error(p->label, key, p->err, "unknown key '%.60s'%s (did you mean '%s'?)", key->text, where,
                                  better);
        return node_error(p->label, key, p->err, "unknown key '%.60s'%s", key->text, where);
}

/* Calls parse_value for every key of the map; sections recurse, as deep as the table's keys have dots. */
static int apply_map(const struct parser *p, const struct node *map, const char *section, void *base) {
        if (map->kind != NODE_MAP)
                return node_error(p->label, map, p->err, "%s: expected a map, not %s", section, node_kind_name(map));
        for (size_t i = 0; i + 1 < map->count; i += 2) {
                const struct node *key = map->items[i], *value = map->items[i + 1];
                const struct schema_row *row = NULL;
                char full[64];
                int n = snprintf(full, sizeof full, "%s%s%s", section, section[0] ? "." : "", key->text), r = 0;

                /* a key is one word: no dots, no brackets, which are ours */
                if (n < 0 || (size_t)n >= sizeof full || strpbrk(key->text, ".[]") || key->text[0] == '\0')
                        return unknown_key(p, key, section);
                row = schema_find(full);
                if (row && row->scope != SCOPE_FILE)
                        r = parse_value(p->label, row, value, base, p->err);
                else if (!row && schema_is_section(full))
                        r = apply_map(p, value, full, base);
                else if (!row)
                        return unknown_key(p, key, section);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Looks at every key that the file mentions, now that all of them are applied. */
static int narrow_map(const struct parser *p, const struct node *map, const char *section, const struct policy *parent,
                      const struct policy *child) {
        for (size_t i = 0; i + 1 < map->count; i += 2) {
                const struct node *key = map->items[i], *value = map->items[i + 1];
                struct err why = {0};
                char full[64];

                (void)snprintf(full, sizeof full, "%s%s%s", section, section[0] ? "." : "", key->text);
                const struct schema_row *row = schema_find(full);
                if (!row && value->kind == NODE_MAP) {
                        int r = narrow_map(p, value, full, parent, child);
                        if (r < 0)
                                return r;
                } else if (row && row->scope == SCOPE_POLICY && narrow_check(row, parent, child, &why) < 0)
                        return node_error(p->label, value, p->err, "%s", why.text);
        }
        return 0;
}

int parse_apply(const char *label, const struct node *root, struct policy *p, struct err *err) {
        const struct parser parser = {label, err};
        _cleanup_policy_ struct policy parent = {0};

        if (p->sealed && policy_copy(p, &parent) < 0)
                return out_of_memory(&parser);
        int r = apply_map(&parser, root, "", p);
        if (r == 0 && parent.sealed)
                r = narrow_map(&parser, root, "", &parent, p);
        return r;
}

int parse_head(const char *label, const struct node *root, struct parse_head *ret, struct err *err) {
        const struct parser p = {label, err};
        const struct node *version, *extends, *name;

        if (root->kind != NODE_MAP)
                return node_error(label, root, err, "a profile is a map that begins with 'profile: 1', not %s",
                                  node_kind_name(root));
        version = node_get(root, "profile");
        extends = node_get(root, "extends");
        name = node_get(root, "name");
        if (!version)
                return node_error(label, root, err, "'profile: 1' is missing");
        if (version->kind != NODE_TEXT || !str_eq(version->text, "1"))
                return node_error(label, version, err, "profile: this build reads version 1, not '%.20s'",
                                  version->kind == NODE_TEXT ? version->text : node_kind_name(version));
        int r = name ? check_word(&p, schema_find("name"), name) : 0;
        if (r == 0 && extends)
                r = check_word(&p, schema_find("extends"), extends);
        if (r == 0)
                *ret = (struct parse_head){.name = name, .extends = extends};
        return r;
}
