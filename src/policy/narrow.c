/* Comparing a child with its sealed parent, row by row.
 *
 * A value that cannot be compared counts as wider. Children inherit what they do not mention, so nothing can be
 * widened by leaving it out. */
#include "policy/narrow.h"

#include "policy/field.h"

struct pair {
        const struct schema_row *row;
        const struct policy *parent, *child;
        struct err *err;
};

static const char *parent_name(const struct pair *c) {
        return c->parent->name ? c->parent->name : "?";
}

static int widens(const struct pair *c, const char *what) {
        return err_set(c->err, ERR_REFUSED, "%s: '%.160s' is more than the sealed profile '%s' allows", c->row->key,
                       what, parent_name(c));
}

static int narrow_number(const struct pair *c, bool grant) {
        uint64_t parent = *(uint64_t *)field_at(c->row, c->parent), child = *(uint64_t *)field_at(c->row, c->child);
        char a[40], b[40];

        if (parent == POLICY_UNSET && (!grant || child == POLICY_UNSET))
                return 0;
        if (parent == POLICY_UNSET || child == POLICY_UNSET)
                return err_set(c->err, ERR_REFUSED, "%s: the sealed profile '%s' %s it", c->row->key, parent_name(c),
                               parent == POLICY_UNSET ? "does not set" : "sets");
        if (child <= parent)
                return 0;
        return err_set(c->err, ERR_REFUSED, "%s: %s is more than the %s that the sealed profile '%s' allows",
                       c->row->key, text_format(a, sizeof a, c->row->unit, child),
                       text_format(b, sizeof b, c->row->unit, parent), parent_name(c));
}

static int narrow_choice(const struct pair *c, bool rise) {
        if (c->row->kind == KIND_BOOL) {
                bool parent = *(bool *)field_at(c->row, c->parent), child = *(bool *)field_at(c->row, c->child);

                if (parent && !child)
                        return err_set(c->err, ERR_REFUSED, "%s: the sealed profile '%s' says true, which must stay",
                                       c->row->key, parent_name(c));
                return 0;
        }
        unsigned parent = *(unsigned *)field_at(c->row, c->parent), child = *(unsigned *)field_at(c->row, c->child);
        if (rise ? child >= parent : child <= parent)
                return 0;
        return err_set(c->err, ERR_REFUSED, "%s: '%s' is weaker than '%s', which the sealed profile '%s' asks for",
                       c->row->key, c->row->choices[child], c->row->choices[parent], parent_name(c));
}

static int narrow_keep_env(const struct pair *c) {
        for (size_t i = 0; i < c->parent->env_count; i++) {
                const struct policy_variable *kept = &c->parent->env[i];
                bool same = false;

                for (size_t k = 0; k < c->child->env_count && !same; k++)
                        same = str_eq(c->child->env[k].name, kept->name) && str_eq(c->child->env[k].value, kept->value);
                if (!same)
                        return err_set(c->err, ERR_REFUSED, "env.%s: the sealed profile '%s' sets it, and it must stay",
                                       kept->name, parent_name(c));
        }
        return 0;
}

static int narrow_keep(const struct pair *c) {
        if (c->row->kind == KIND_ENV)
                return narrow_keep_env(c);
        const char *parent = *(char **)field_at(c->row, c->parent), *child = *(char **)field_at(c->row, c->child);
        if (!parent || (child && str_eq(parent, child)))
                return 0;
        return err_set(c->err, ERR_REFUSED, "%s: the sealed profile '%s' sets '%.100s', and it must stay", c->row->key,
                       parent_name(c), parent);
}

static int narrow_paths(const struct pair *c) {
        const struct policy_strings *parent = field_at(c->row, c->parent), *child = field_at(c->row, c->child);

        if (c->row->flag && !*field_flag(c->row, c->parent))
                return 0;
        if (c->row->flag && !*field_flag(c->row, c->child))
                return widens(c, "any");
        for (size_t i = 0; i < child->count; i++) {
                bool covered = false;

                for (size_t k = 0; k < parent->count && !covered; k++)
                        covered = value_path_covers(parent->items[k], child->items[i]);
                if (!covered)
                        return widens(c, child->items[i]);
        }
        return 0;
}

static int narrow_subset(const struct pair *c, const struct policy_strings *also) {
        const struct policy_strings *parent = field_at(c->row, c->parent), *child = field_at(c->row, c->child);

        for (size_t i = 0; i < child->count; i++)
                if (!policy_strings_has(parent, child->items[i]) &&
                    !(also && policy_strings_has(also, child->items[i])))
                        return widens(c, child->items[i]);
        return 0;
}

static int narrow_grow(const struct pair *c) {
        const struct policy_strings *parent = field_at(c->row, c->parent), *child = field_at(c->row, c->child);

        for (size_t i = 0; i < parent->count; i++)
                if (!policy_strings_has(child, parent->items[i]))
                        return err_set(c->err, ERR_REFUSED,
                                       "%s: the sealed profile '%s' lists '%.100s', which must stay", c->row->key,
                                       parent_name(c), parent->items[i]);
        return 0;
}

/* What the child puts into one place of the parent, added up. */
struct share {
        uint64_t size, inodes;
};

static int add_share(const struct pair *c, const struct policy_place *place, const char *what, enum text_unit unit,
                     uint64_t allowed, uint64_t asked, uint64_t *sum) {
        char text[40];

        /* an unset size means a default that is not known here: only unset fits it, and unset fits nothing else */
        if (allowed == POLICY_UNSET && asked == POLICY_UNSET)
                return 0;
        if (allowed == POLICY_UNSET)
                return err_set(c->err, ERR_REFUSED,
                               "%s: %s of '%.160s' is set, which the sealed profile '%s' leaves unset", c->row->key,
                               what, place->path, parent_name(c));
        if (asked == POLICY_UNSET || __builtin_add_overflow(*sum, asked, sum) || *sum > allowed)
                return err_set(c->err, ERR_REFUSED,
                               "%s: %s of '%.160s' is more than the %s that the sealed profile '%s' allows",
                               c->row->key, what, place->path, text_format(text, sizeof text, unit, allowed),
                               parent_name(c));
        return 0;
}

static int narrow_places(const struct pair *c) {
        struct policy_place parent[POLICY_PLACES_MAX], child[POLICY_PLACES_MAX];
        struct share shares[POLICY_PLACES_MAX] = {0};
        size_t parents = policy_places(c->parent, parent), children = policy_places(c->child, child);

        for (size_t i = 0; i < children; i++) {
                size_t best = SIZE_MAX;

                for (size_t k = 0; k < parents; k++)
                        if (value_path_covers(parent[k].path, child[i].path) &&
                            (best == SIZE_MAX || strlen(parent[k].path) > strlen(parent[best].path)))
                                best = k;
                if (best == SIZE_MAX)
                        return widens(c, child[i].path);
                int r = add_share(c, &child[i], "the size", TEXT_BYTES, parent[best].size, child[i].size,
                                  &shares[best].size);
                if (r == 0)
                        r = add_share(c, &child[i], "the number of inodes", TEXT_COUNT, parent[best].inodes,
                                      child[i].inodes, &shares[best].inodes);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool inspected(const struct policy_reach *r) {
        return r->inspect || r->methods.count > 0 || r->paths.count > 0 || r->secret;
}

static bool ports_within(const struct policy_reach *wide, const struct policy_reach *narrow) {
        static const uint16_t usual[] = {80, 443};
        const uint16_t *a = wide->port_count ? wide->ports : usual, *b = narrow->port_count ? narrow->ports : usual;
        size_t n = wide->port_count ? wide->port_count : 2, m = narrow->port_count ? narrow->port_count : 2;

        for (size_t i = 0; i < m; i++) {
                bool found = false;

                for (size_t k = 0; k < n; k++)
                        found |= a[k] == b[i] || a[k] == 0; /* 0 is any port */
                if (!found)
                        return false;
        }
        return true;
}

/* An empty list means "any", so only an empty one is as wide as that. */
static bool words_within(const struct policy_strings *wide, const struct policy_strings *narrow,
                         bool (*covers)(const char *, const char *)) {
        if (wide->count == 0)
                return true;
        for (size_t i = 0; i < narrow->count; i++) {
                bool found = false;

                for (size_t k = 0; k < wide->count; k++)
                        found |= covers(wide->items[k], narrow->items[i]);
                if (!found)
                        return false;
        }
        return narrow->count > 0;
}

static bool reach_within(const struct policy_reach *wide, const struct policy_reach *narrow) {
        if (narrow->host ? !wide->host || !value_host_covers(wide->host, narrow->host)
                         : !wide->cidr || !value_cidr_covers(wide->cidr, narrow->cidr))
                return false;
        if ((narrow->private && !wide->private) || (inspected(wide) && !inspected(narrow)))
                return false;
        if (narrow->secret && (!wide->secret || !str_eq(wide->secret, narrow->secret)))
                return false;
        return ports_within(wide, narrow) && words_within(&wide->methods, &narrow->methods, str_eq) &&
               words_within(&wide->paths, &narrow->paths, value_url_covers);
}

static int narrow_reach(const struct pair *c) {
        for (size_t i = 0; i < c->child->network.allow_count; i++) {
                const struct policy_reach *asked = &c->child->network.allow[i];
                bool covered = false;

                for (size_t k = 0; k < c->parent->network.allow_count && !covered; k++)
                        covered = reach_within(&c->parent->network.allow[k], asked);
                if (!covered)
                        return widens(c, asked->host ? asked->host : asked->cidr);
        }
        return 0;
}

int narrow_check(const struct schema_row *row, const struct policy *parent, const struct policy *child,
                 struct err *err) {
        const struct pair c = {row, parent, child, err};

        switch (row->narrow) {
        case NARROW_FREE:
                return 0;
        case NARROW_LIMIT:
                return narrow_number(&c, false);
        case NARROW_GRANT:
                return narrow_number(&c, true);
        case NARROW_RISE:
                return narrow_choice(&c, true);
        case NARROW_FALL:
                return narrow_choice(&c, false);
        case NARROW_KEEP:
                return narrow_keep(&c);
        case NARROW_PATHS:
                return narrow_paths(&c);
        case NARROW_SUBSET:
                return narrow_subset(&c, NULL);
        case NARROW_ASK:
                return narrow_subset(&c, &parent->tools.call);
        case NARROW_GROW:
                return narrow_grow(&c);
        case NARROW_PLACES:
                return narrow_places(&c);
        case NARROW_REACH:
                return narrow_reach(&c);
        }
        return err_set(err, ERR_REFUSED, "%s: this key cannot be narrowed", row->key);
}

int narrow_adopt(const struct schema_row *row, struct policy *p, struct policy *changed, struct err *err) {
        int r = p->sealed ? narrow_check(row, p, changed, err) : 0;

        if (r < 0)
                return r;
        policy_free(p);
        *p = *changed;
        policy_init(changed);
        return 0;
}
