/* The hash table: chains, doubled when they get long. */
#include "operator/table.h"

#include <errno.h>
#include <stdio.h>
#include <sys/auxv.h>

static uint64_t seed(void) {
        static uint64_t value;

        if (value == 0) {
                const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes that the kernel drew for us */

                if (random)
                        memcpy(&value, (const char *)random + 8, sizeof value);
                value |= 1;
        }
        return value;
}

static uint64_t hash_of(const char *key) {
        uint64_t h = 0xcbf29ce484222325ULL ^ seed();

        for (; *key; key++)
                h = (h ^ (unsigned char)*key) * 0x100000001b3ULL;
        h ^= h >> 32;
        return h * seed();
}

static struct table_node **slot(const struct table *t, uint64_t hash) {
        return &t->slots[(hash >> 20) & (t->size - 1)];
}

struct table_node *table_find(const struct table *t, const char *key) {
        if (t->count == 0)
                return NULL;
        uint64_t hash = hash_of(key);
        for (struct table_node *n = *slot(t, hash); n; n = n->next)
                if (n->hash == hash && str_eq(n->key, key))
                        return n;
        return NULL;
}

static int grow(struct table *t) {
        struct table bigger = {.size = t->size ? 2 * t->size : 16};

        bigger.slots = calloc(bigger.size, sizeof *bigger.slots);
        if (!bigger.slots)
                return t->size ? 0 : -ENOMEM; /* longer chains will do */
        for (size_t i = 0; i < t->size; i++)
                for (struct table_node *n = t->slots[i], *next; n; n = next) {
                        struct table_node **to = slot(&bigger, n->hash);

                        next = n->next;
                        n->next = *to;
                        *to = n;
                }
        free(t->slots);
        t->slots = bigger.slots;
        t->size = bigger.size;
        return 0;
}

int table_add(struct table *t, struct table_node *n, const char *key) {
        if (table_find(t, key))
                return -EEXIST;
        if (t->count >= t->size) {
                int r = grow(t);
                if (r < 0)
                        return r;
        }
        n->key = key;
        n->hash = hash_of(key);
        struct table_node **to = slot(t, n->hash);
        n->next = *to;
        *to = n;
        t->count++;
        return 0;
}

void table_remove(struct table *t, struct table_node *n) {
        if (!n->key || t->size == 0)
                return;
        for (struct table_node **p = slot(t, n->hash); *p; p = &(*p)->next)
                if (*p == n) {
                        *p = n->next;
                        t->count--;
                        break;
                }
        n->key = NULL;
        n->next = NULL;
}

struct table_node *table_next(const struct table *t, const struct table_node *after) {
        size_t i = 0;

        if (after) {
                if (after->next)
                        return after->next;
                i = (size_t)(slot(t, after->hash) - t->slots) + 1;
        }
        for (; i < t->size; i++)
                if (t->slots[i])
                        return t->slots[i];
        return NULL;
}

char *table_key(const char *owner, const char *name) {
        char *key;

        return asprintf(&key, "%s\x1f%s", owner, name) < 0 ? NULL : key;
}

void table_free(struct table *t) {
        free(t->slots);
        *t = (struct table){0};
}
