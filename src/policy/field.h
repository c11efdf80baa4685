/* What can be done to every value of a struct by walking the schema rows of its scope. */
#pragma once

#include "base/hash.h"
#include "policy/schema.h"

/* The value of a row in a struct of the row's scope. */
static inline void *field_at(const struct schema_row *row, const void *base) {
        return (char *)base + row->offset;
}
static inline size_t *field_count(const struct schema_row *row, const void *base) {
        return (void *)((char *)base + row->count);
}
static inline bool *field_flag(const struct schema_row *row, const void *base) {
        return row->flag ? (void *)((char *)base + row->flag) : NULL;
}

/* base points to a struct of that scope. field_init expects zeros; field_copy a freshly initialised target, which is
 * safe to free even when copying failed. */
void field_init(enum schema_scope scope, void *base);
void field_free(enum schema_scope scope, void *base);
int field_copy(enum schema_scope scope, void *to, const void *from);
void field_hash(enum schema_scope scope, struct hash *state, const void *base);

/* The same for one row. field_reset leaves the value as field_init does. */
void field_reset(const struct schema_row *row, void *base);

/* Whether the profile asks for something here: a number is set, a list has entries, a choice is not the weakest. */
bool field_given(const struct schema_row *row, const void *base);
