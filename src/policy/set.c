/* Options of the command line, as if a last profile in the chain said them: same table, same checks, same seal. */
#include "policy/narrow.h"
#include "policy/parse.h"
#include "policy/profile.h"

static int unknown_key(const char *key, struct err *err) {
        char section[64] = "", nearest[64];
        const char *dot = strrchr(key, '.');

        if (schema_is_section(key))
                return err_set(err, ERR_INPUT, "'%.60s' is a group of keys: name one of them", key);
        if (dot && (size_t)(dot - key) < sizeof section) {
                memcpy(section, key, (size_t)(dot - key));
                section[dot - key] = '\0';
        }
        int r = err_set(err, ERR_INPUT, "unknown key '%.60s'", key);
        const char *better = schema_suggest(section, dot ? dot + 1 : key, nearest, sizeof nearest);
        if (better)
                (void)err_hint(err, "did you mean '%s%s%s'?", section, section[0] ? "." : "", better);
        return r;
}

/* {host: word} or {cidr: word}: a slash is in every address block and in no host name. */
static struct node *reach_node(const char *word, size_t length) {
        const char *key = memchr(word, '/', length) ? "cidr" : "host";
        struct node *map = node_new(NODE_MAP, NULL, 0);

        if (!map || node_append(map, node_new(NODE_TEXT, key, strlen(key))) < 0 ||
            node_append(map, node_new(NODE_TEXT, word, length)) < 0) {
                node_free(map);
                return NULL;
        }
        return map;
}

static struct node *list_node(const struct schema_row *row, const char *value) {
        _cleanup_node_ struct node *list = node_new(NODE_LIST, NULL, 0);
        bool reach = row->kind == KIND_ENTRIES && row->element == SCOPE_REACH;

        if (!list)
                return NULL;
        for (const char *word = value; *value;) {
                size_t length = strcspn(word, ",");

                if (node_append(list, reach ? reach_node(word, length) : node_new(NODE_TEXT, word, length)) < 0)
                        return NULL;
                if (word[length] == '\0')
                        break;
                word += length + 1;
        }
        return TAKE_PTR(list);
}

/* {NAME: value} for "env.NAME". */
static struct node *variable_node(const char *name, const char *value) {
        struct node *map = node_new(NODE_MAP, NULL, 0);

        if (!map || node_append(map, node_new(NODE_TEXT, name, strlen(name))) < 0 ||
            node_append(map, node_new(NODE_TEXT, value, strlen(value))) < 0) {
                node_free(map);
                return NULL;
        }
        return map;
}

static struct node *value_node(const struct schema_row *row, const char *variable, const char *value) {
        if (variable)
                return variable_node(variable, value);
        if (row->kind == KIND_STRINGS || row->kind == KIND_ENTRIES)
                return list_node(row, value);
        return node_new(NODE_TEXT, value, strlen(value));
}

/* The workspace takes its entry of files.write with it. */
static int move_workspace(struct policy *p, const char *old) {
        for (size_t i = 0; i < p->files.write_count; i++)
                if (str_eq(p->files.write[i].path, p->files.workspace.path))
                        return 0;
        for (size_t i = 0; i < p->files.write_count; i++) {
                if (!str_eq(p->files.write[i].path, old))
                        continue;
                char *copy = strdup(p->files.workspace.path);
                if (!copy)
                        return -ENOMEM;
                free(p->files.write[i].path);
                p->files.write[i].path = copy;
        }
        return 0;
}

int policy_set(struct policy *p, const char *key, const char *value, struct err *err) {
        const char *variable = str_starts(key, "env.") ? key + 4 : NULL;
        const struct schema_row *row = schema_find(variable ? "env" : key);
        _cleanup_policy_ struct policy changed = {0};
        struct err why = {0};

        if (!row || row->scope == SCOPE_PLACE || row->scope == SCOPE_REACH)
                return unknown_key(key, err);
        if (row->scope == SCOPE_FILE || str_eq(key, "name") || str_eq(key, "sealed"))
                return err_set(err, ERR_INPUT, "'%s' can only be said in a profile", key);
        if (row->kind == KIND_ENV && !variable)
                return err_set(err, ERR_INPUT, "'env' is set one variable at a time: env.NAME");
        if (value_check_text(value, &why) < 0)
                return err_set(err, ERR_INPUT, "%.60s: %s", key, why.text);

        _cleanup_node_ struct node *node = value_node(row, variable, value);
        if (!node || policy_copy(p, &changed) < 0)
                return err_set(err, -ENOMEM, "cannot set %.60s", key);
        int r = parse_value(NULL, row, node, &changed, err);
        if (r == 0 && str_eq(key, "files.workspace.path") && p->files.workspace.path)
                r = move_workspace(&changed, p->files.workspace.path);
        if (r == 0)
                r = policy_settle(&changed);
        if (r == -ENOMEM || r == -E2BIG)
                return err_set(err, r, "cannot set %.60s", key);
        return r < 0 ? r : narrow_adopt(row, p, &changed, err);
}
