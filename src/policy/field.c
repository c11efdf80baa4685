/* Per-kind handling of values in memory. Every switch covers every kind; there is no default that does nothing. */
#include "policy/field.h"

static void entries_free(const struct schema_row *row, void *base) {
        char **items = field_at(row, base);
        size_t *count = field_count(row, base);

        for (size_t i = 0; i < *count; i++)
                field_free(row->element, *items + i * schema_element_size(row->element));
        free(*items);
        *items = NULL;
        *count = 0;
}

static void env_free(const struct schema_row *row, void *base) {
        struct policy_variable **env = field_at(row, base);
        size_t *count = field_count(row, base);

        for (size_t i = 0; i < *count; i++) {
                free((*env)[i].name);
                free((*env)[i].value);
        }
        free(*env);
        *env = NULL;
        *count = 0;
}

void field_reset(const struct schema_row *row, void *base) {
        void *field = field_at(row, base);

        switch (row->kind) {
        case KIND_NUMBER:
                *(uint64_t *)field = POLICY_UNSET;
                break;
        case KIND_BOOL:
                *(bool *)field = false;
                break;
        case KIND_CHOICE:
                *(unsigned *)field = 0;
                break;
        case KIND_TEXT:
                free(*(char **)field);
                *(char **)field = NULL;
                break;
        case KIND_STRINGS:
                policy_strings_free(field);
                break;
        case KIND_PORTS:
                *field_count(row, base) = 0;
                break;
        case KIND_ENTRIES:
                entries_free(row, base);
                break;
        case KIND_ENV:
                env_free(row, base);
                break;
        }
        if (row->flag)
                *field_flag(row, base) = false;
}

void field_init(enum schema_scope scope, void *base) {
        for (size_t i = 0; i < schema_row_count; i++)
                if (schema_rows[i].scope == scope && schema_rows[i].kind == KIND_NUMBER)
                        *(uint64_t *)field_at(&schema_rows[i], base) = POLICY_UNSET;
}

void field_free(enum schema_scope scope, void *base) {
        for (size_t i = 0; i < schema_row_count; i++)
                if (schema_rows[i].scope == scope)
                        field_reset(&schema_rows[i], base);
}

static int text_copy(char **to, const char *from) {
        if (!from)
                return 0;
        *to = strdup(from);
        return *to ? 0 : -ENOMEM;
}

static int entries_copy(const struct schema_row *row, void *to, const void *from) {
        size_t size = schema_element_size(row->element), count = *field_count(row, from);
        char **target = field_at(row, to);
        const char *source = *(char **)field_at(row, from);

        if (count == 0)
                return 0;
        *target = calloc(count, size);
        if (!*target)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++) {
                field_init(row->element, *target + i * size);
                (*field_count(row, to))++;
                if (field_copy(row->element, *target + i * size, source + i * size) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int env_copy(const struct schema_row *row, void *to, const void *from) {
        size_t count = *field_count(row, from);
        struct policy_variable **target = field_at(row, to);
        const struct policy_variable *source = *(struct policy_variable **)field_at(row, from);

        if (count == 0)
                return 0;
        *target = calloc(count, sizeof **target);
        if (!*target)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++) {
                (*field_count(row, to))++;
                if (text_copy(&(*target)[i].name, source[i].name) < 0 ||
                    text_copy(&(*target)[i].value, source[i].value) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int strings_copy(struct policy_strings *to, const struct policy_strings *from) {
        for (size_t i = 0; i < from->count; i++)
                if (policy_strings_add(to, from->items[i]) < 0)
                        return -ENOMEM;
        return 0;
}

static int copy_row(const struct schema_row *row, void *to, const void *from) {
        void *a = field_at(row, to);
        const void *b = field_at(row, from);

        if (row->flag)
                *field_flag(row, to) = *field_flag(row, from);
        switch (row->kind) {
        case KIND_NUMBER:
                *(uint64_t *)a = *(const uint64_t *)b;
                return 0;
        case KIND_BOOL:
                *(bool *)a = *(const bool *)b;
                return 0;
        case KIND_CHOICE:
                *(unsigned *)a = *(const unsigned *)b;
                return 0;
        case KIND_TEXT:
                return text_copy(a, *(char *const *)b);
        case KIND_STRINGS:
                return strings_copy(a, b);
        case KIND_PORTS:
                memcpy(a, b, sizeof((struct policy_reach *)0)->ports);
                *field_count(row, to) = *field_count(row, from);
                return 0;
        case KIND_ENTRIES:
                return entries_copy(row, to, from);
        case KIND_ENV:
                return env_copy(row, to, from);
        }
        return -EINVAL;
}

int field_copy(enum schema_scope scope, void *to, const void *from) {
        for (size_t i = 0; i < schema_row_count; i++)
                if (schema_rows[i].scope == scope && copy_row(&schema_rows[i], to, from) < 0)
                        return -ENOMEM;
        return 0;
}

static void hash_number(struct hash *state, uint64_t value) {
        uint8_t bytes[8];

        for (unsigned i = 0; i < 8; i++)
                bytes[i] = (uint8_t)(value >> (8 * i));
        hash_add(state, bytes, sizeof bytes);
}

static void hash_row(const struct schema_row *row, struct hash *state, const void *base) {
        const void *field = field_at(row, base);

        switch (row->kind) {
        case KIND_NUMBER:
                hash_number(state, *(const uint64_t *)field);
                break;
        case KIND_BOOL:
                hash_number(state, *(const bool *)field);
                break;
        case KIND_CHOICE:
                hash_number(state, *(const unsigned *)field);
                break;
        case KIND_TEXT: {
                const char *text = *(char *const *)field;
                hash_number(state, text != NULL);
                hash_add_str(state, text ? text : "");
                break;
        }
        case KIND_STRINGS: {
                const struct policy_strings *s = field;
                hash_number(state, s->count);
                for (size_t i = 0; i < s->count; i++)
                        hash_add_str(state, s->items[i]);
                break;
        }
        case KIND_PORTS: {
                const uint16_t *ports = field;
                hash_number(state, *field_count(row, base));
                for (size_t i = 0; i < *field_count(row, base); i++)
                        hash_number(state, ports[i]);
                break;
        }
        case KIND_ENTRIES: {
                const char *items = *(char *const *)field;
                hash_number(state, *field_count(row, base));
                for (size_t i = 0; i < *field_count(row, base); i++)
                        field_hash(row->element, state, items + i * schema_element_size(row->element));
                break;
        }
        case KIND_ENV: {
                const struct policy_variable *env = *(struct policy_variable *const *)field;
                hash_number(state, *field_count(row, base));
                for (size_t i = 0; i < *field_count(row, base); i++) {
                        hash_add_str(state, env[i].name);
                        hash_add_str(state, env[i].value);
                }
                break;
        }
        }
}

void field_hash(enum schema_scope scope, struct hash *state, const void *base) {
        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];

                if (row->scope != scope)
                        continue;
                hash_add_str(state, row->key);
                if (row->flag)
                        hash_number(state, *field_flag(row, base));
                hash_row(row, state, base);
        }
}

bool field_given(const struct schema_row *row, const void *base) {
        const void *field = field_at(row, base);

        if (row->flag)
                return *field_flag(row, base);
        switch (row->kind) {
        case KIND_NUMBER:
                return *(const uint64_t *)field != POLICY_UNSET;
        case KIND_BOOL:
                return *(const bool *)field;
        case KIND_CHOICE:
                return *(const unsigned *)field != 0;
        case KIND_TEXT:
                return *(char *const *)field != NULL;
        case KIND_STRINGS:
                return ((const struct policy_strings *)field)->count > 0;
        case KIND_PORTS:
        case KIND_ENTRIES:
        case KIND_ENV:
                return *field_count(row, base) > 0;
        }
        return true; /* unknown is treated as asked for, and so refused where it cannot be enforced */
}
