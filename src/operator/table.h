/* Things by a name: a hash table whose nodes lie in the things themselves. The key stays its owner's and must not
 * change while it is in a table. Names come from users, so the hash has a seed that nobody outside knows. */
#pragma once

#include "base/macro.h"

struct table_node {
        struct table_node *next;
        const char *key;
        uint64_t hash;
};

struct table {
        struct table_node **slots;
        size_t size; /* a power of two, or 0 */
        size_t count;
};

#define TABLE_OWNER(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

struct table_node *table_find(const struct table *t, const char *key); /* NULL: not there */
int table_add(struct table *t, struct table_node *n, const char *key); /* 0, -EEXIST, -ENOMEM */
void table_remove(struct table *t, struct table_node *n);              /* fine if it is not in it */

/* Walks all, in no order: start with NULL. Whoever removes nodes on the way asks for the next one first. */
struct table_node *table_next(const struct table *t, const struct table_node *after);
char *table_key(const char *owner, const char *name); /* the key of an owner's thing; NULL: no memory */
void table_free(struct table *t);                     /* the slots; nodes are their owners' */
