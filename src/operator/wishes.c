/* Fields of a request as a wish for a policy. They were checked against the verb's row: kinds and numbers are right. */
#include "operator/wishes.h"

void wishes_free(struct wishes *w) {
        for (size_t i = 0; i < w->count; i++)
                free(w->items[i]);
        w->count = 0;
}

/* NULL: it is not there, or could not be read, which is noted: nobody may take one for the other. */
static const char *word(struct wishes *w, const char *value, const char *path) {
        size_t size = 0;

        if (!json_at(value, path, &size))
                return NULL;
        char *text = w->count < ELEMENTSOF(w->items) ? malloc(size + 1) : NULL;
        if (!text || !json_find_str(value, path, text, size + 1)) {
                free(text);
                w->failed = true;
                return NULL;
        }
        return w->items[w->count++] = text;
}

int wishes_read(const char *json, struct wishes *ret, struct err *err) {
        struct frozen_request *q = &ret->q;
        struct json_walk walk;

        *ret = (struct wishes){0};
        q->profile = word(ret, json, "profile");
        q->text = word(ret, json, "profile_text");
        q->text_size = q->text ? strlen(q->text) : 0;
        q->image = word(ret, json, "image");
        (void)json_find_bool(json, "memory_only", &q->memory_only);
        if (json_walk_begin(&walk, json, "set"))
                while (json_walk_next(&walk) && q->set_count < ELEMENTSOF(q->set)) {
                        q->set[q->set_count].key = word(ret, walk.key, "");
                        q->set[q->set_count++].value = word(ret, walk.value, "");
                }
        if (json_walk_begin(&walk, json, "allow") || json_walk_begin(&walk, json, "add"))
                while (json_walk_next(&walk) && q->allow_count < ELEMENTSOF(q->allow))
                        q->allow[q->allow_count++] = word(ret, walk.value, "");
        return ret->failed ? call_err(err, -ENOMEM, "out of memory") : 0;
}
