/* From a profile's name to a policy: read the chain of parents, then apply it from the oldest to the youngest. */
#include "policy/profile.h"

#include "policy/parse.h"
#include "policy/search.h"

struct link {
        struct search_file file;
        struct node *root;
        struct parse_head head;
};

struct chain {
        struct link links[PROFILE_EXTENDS_MAX]; /* the named profile first */
        size_t count;
};

static void chain_free(struct chain *c) {
        for (size_t i = 0; i < c->count; i++) {
                search_file_free(&c->links[i].file);
                node_free(c->links[i].root);
        }
}

static const struct node *last_extends(const struct chain *c) {
        return c->count > 0 ? c->links[c->count - 1].head.extends : NULL;
}

/* An error about what the last file of the chain extends, at its position there. */
static int chain_error(const struct chain *c, struct err *err, const char *text) {
        return node_error(c->links[c->count - 1].file.label, last_extends(c), err, "extends: %s", text);
}

static bool same_file(const struct search_file *a, const struct search_file *b) {
        return str_eq(a->label, b->label) || (a->inode && a->inode == b->inode && a->device == b->device);
}

static const char *short_label(const struct search_file *f) {
        const char *slash = strrchr(f->label, '/');

        return slash ? slash + 1 : f->label;
}

static int check_cycle(const struct chain *c, const struct search_file *next, struct err *err) {
        _cleanup_buf_ struct buf text = {0};

        for (size_t i = 0; i < c->count; i++) {
                if (!same_file(&c->links[i].file, next))
                        continue;
                buf_str(&text, "a cycle: ");
                for (size_t k = i; k < c->count; k++)
                        buf_printf(&text, "%.40s -> ", short_label(&c->links[k].file));
                buf_printf(&text, "%.40s", short_label(next));
                return chain_error(c, err, text.data ? text.data : "a cycle");
        }
        return 0;
}

/* Parses one file and puts it at the end of the chain, which then owns it. */
static int chain_add(struct chain *c, struct search_file *file, struct err *err) {
        struct link *link = &c->links[c->count];

        *link = (struct link){.file = *file};
        *file = (struct search_file){0};
        c->count++;
        int r = node_parse(link->file.label, link->file.data, link->file.size, &link->root, err);
        if (r == 0)
                r = parse_head(link->file.label, link->root, &link->head, err);
        return r;
}

static int chain_extend(struct chain *c, const struct profile_search *search, const char *name,
                        struct profile_sources *sources, struct err *err) {
        _cleanup_(search_file_free) struct search_file file = {0};
        const char *from = c->count > 0 ? c->links[c->count - 1].file.label : NULL;
        struct err why = {0};

        if (c->count >= PROFILE_EXTENDS_MAX)
                return chain_error(c, err, "more than 16 profiles extend one another");
        int r = search_read(search, name, from, sources, &file, &why);
        if (r < 0) {
                if (from)
                        (void)chain_error(c, err, why.text);
                else if (err)
                        *err = why;
                if (from && why.hint[0])
                        (void)err_hint(err, "%s", why.hint);
                if (err)
                        err->code = r;
                return r;
        }
        r = check_cycle(c, &file, err);
        return r < 0 ? r : chain_add(c, &file, err);
}

/* The file's name without folder and ".yaml", for a profile that does not say its own. */
static int default_name(const struct link *link, struct policy *p, struct err *err) {
        const char *base = short_label(&link->file);
        struct err why = {0};
        char name[80];

        if (str_starts(base, "builtin:"))
                base += strlen("builtin:");
        size_t length = strlen(base);
        if (length > 5 && str_eq(base + length - 5, ".yaml"))
                length -= 5;
        (void)snprintf(name, sizeof name, "%.*s", (int)MIN(length, 70), base);
        if (value_check_name(name, &why) < 0)
                return node_error(link->file.label, link->root, err,
                                  "'name' is missing, and the file's name is none: %s", why.text);
        free(p->name);
        p->name = strdup(name);
        return p->name ? 0 : err_set(err, -ENOMEM, "cannot read the profile");
}

static int chain_apply(const struct chain *c, struct policy *ret, struct err *err) {
        _cleanup_policy_ struct policy p = {0};

        policy_init(&p);
        for (size_t i = c->count; i-- > 0;) {
                const struct link *link = &c->links[i];

                int r = parse_apply(link->file.label, link->root, &p, err);
                if (r == 0 && !link->head.name)
                        r = default_name(link, &p, err);
                if (r < 0)
                        return r;
        }
        int r = policy_settle(&p);
        if (r < 0)
                return err_set(err, r, "cannot add the workspace to files.write");
        *ret = p;
        policy_init(&p);
        return 0;
}

/* Follows extends from the chain's last profile to the oldest, and applies all. */
static int chain_resolve(struct chain *c, const struct profile_search *search, struct profile_sources *sources,
                         struct policy *ret, struct err *err) {
        while (last_extends(c)) {
                int r = chain_extend(c, search, last_extends(c)->text, sources, err);
                if (r < 0)
                        return r;
        }
        return chain_apply(c, ret, err);
}

int profile_load_from(const struct profile_search *search, const char *name, struct policy *ret,
                      struct profile_sources *ret_sources, struct err *err) {
        _cleanup_sources_ struct profile_sources sources = {0};
        _cleanup_(chain_free) struct chain chain = {0};

        int r = chain_extend(&chain, search, name, &sources, err);
        if (r == 0)
                r = chain_resolve(&chain, search, &sources, ret, err);
        if (r < 0)
                return r;
        if (ret_sources) {
                *ret_sources = sources;
                sources.count = 0;
        }
        return 0;
}

int profile_load(const char *name, struct policy *ret, struct profile_sources *ret_sources, struct err *err) {
        struct search_store store;
        struct profile_search search = search_default(&store);

        return profile_load_from(&search, name, ret, ret_sources, err);
}

int profile_parse(const char *label, const char *data, size_t size, struct policy *ret, struct err *err) {
        static const struct profile_search nowhere = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        _cleanup_(chain_free) struct chain chain = {0};
        _cleanup_(search_file_free) struct search_file file = {0};

        if (size > PROFILE_FILE_MAX)
                return err_set(err, ERR_LIMIT, "'%.200s' is larger than %d KiB, which no profile is", label,
                               PROFILE_FILE_MAX / 1024);
        file.label = strdup(label);
        file.data = malloc(size + 1);
        if (!file.label || !file.data)
                return err_set(err, -ENOMEM, "cannot read '%.200s'", label);
        if (size > 0)
                memcpy(file.data, data, size);
        file.data[size] = '\0';
        file.size = size;
        int r = chain_add(&chain, &file, err);
        const struct node *extends = r == 0 ? last_extends(&chain) : NULL;
        if (extends && search_is_path(extends->text))
                return chain_error(&chain, err, "only built-in profiles can be extended here");
        return r < 0 ? r : chain_resolve(&chain, &nowhere, &sources, ret, err);
}
