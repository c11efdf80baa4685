/* The life of a policy: made empty, copied, hashed, freed; always by walking the schema table. */
#include "policy/policy.h"

#include "base/hash.h"
#include "policy/field.h"
#include "policy/profile.h"

void policy_init(struct policy *p) {
        *p = (struct policy){0};
        field_init(SCOPE_POLICY, p);
}

void policy_free(struct policy *p) {
        field_free(SCOPE_POLICY, p);
        policy_init(p);
}

int policy_copy(const struct policy *p, struct policy *ret) {
        struct policy copy;

        policy_init(&copy);
        if (field_copy(SCOPE_POLICY, &copy, p) < 0) {
                policy_free(&copy);
                return -ENOMEM;
        }
        *ret = copy;
        return 0;
}

void policy_hash(const struct policy *p, uint8_t ret[HASH_SIZE]) {
        struct hash state;

        hash_init(&state);
        hash_add_str(&state, "stockade policy 1");
        field_hash(SCOPE_POLICY, &state, p);
        hash_done(&state, ret);
}

void policy_strings_free(struct policy_strings *s) {
        for (size_t i = 0; i < s->count; i++)
                free(s->items[i]);
        free(s->items);
        *s = (struct policy_strings){0};
}

int policy_strings_add(struct policy_strings *s, const char *text) {
        if (s->count >= POLICY_LIST_MAX)
                return -E2BIG;
        char **items = realloc(s->items, (s->count + 1) * sizeof *items);
        if (!items)
                return -ENOMEM;
        s->items = items;
        s->items[s->count] = strdup(text);
        if (!s->items[s->count])
                return -ENOMEM;
        s->count++;
        return 0;
}

bool policy_strings_has(const struct policy_strings *s, const char *text) {
        for (size_t i = 0; i < s->count; i++)
                if (str_eq(s->items[i], text))
                        return true;
        return false;
}

size_t policy_places(const struct policy *p, struct policy_place ret[POLICY_PLACES_MAX]) {
        const struct policy_place *workspace = &p->files.workspace;
        size_t count = 0;
        bool seen = false;

        for (size_t i = 0; i < p->files.write_count; i++) {
                struct policy_place *place = &ret[count++];

                *place = p->files.write[i];
                if (!workspace->path || !str_eq(workspace->path, place->path))
                        continue;
                seen = true;
                if (place->size == POLICY_UNSET)
                        place->size = workspace->size;
                if (place->inodes == POLICY_UNSET)
                        place->inodes = workspace->inodes;
        }
        if (workspace->path && !seen)
                ret[count++] = *workspace;
        return count;
}

int policy_settle(struct policy *p) {
        const char *path = p->files.workspace.path;

        if (!path)
                return 0;
        for (size_t i = 0; i < p->files.write_count; i++)
                if (value_path_covers(p->files.write[i].path, path))
                        return 0;
        if (p->files.write_count >= POLICY_LIST_MAX)
                return -E2BIG;
        struct policy_place *more = realloc(p->files.write, (p->files.write_count + 1) * sizeof *more);
        if (!more)
                return -ENOMEM;
        p->files.write = more;
        char *copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        more[p->files.write_count++] = (struct policy_place){copy, POLICY_UNSET, POLICY_UNSET};
        return 0;
}
