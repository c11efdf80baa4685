/* Secrets of sandboxes: values that the gate puts into requests, and the placeholders that stand for them inside.
 * Values are in memory and at the gate, and sealed in the store (operator/secret-vault.h); nowhere else. */
#pragma once

#include "operator/sandbox.h"

struct secret {
        struct secret *next;
        char name[GATE_NAME_SIZE];
        uint8_t *value; /* NULL: there is one in the store that cannot be opened */
        size_t size;
        int why; /* ERR_REFUSED: its key is not here; ERR_CORRUPT: it is damaged */
};

/* A list from a JSON object NAME → value. */
int secret_parse(const char *text, const char *path, struct secret **ret, struct err *err);
int secret_check(const struct frozen *f, const struct secret *list, bool all, struct err *err); /* those that it uses */
void secret_free(struct secret *list);

void secret_set(struct sandbox *s, struct secret *list); /* takes the list; tells the gate */
/* From the store: its value, or below 0 why there is none. */
void secret_found(struct sandbox *s, const char *name, const void *value, size_t size, int why);
void secret_tell(struct sandbox *s);       /* the ward is there: it gets all */
uint64_t secret_put(struct sandbox *s);    /* a new sandbox: its rows go with its own; as secret_vault_put */
uint64_t secret_forget(struct sandbox *s); /* memory, gate and rows; the ticket */
void secret_wipe_all(struct sandbox *s);   /* memory alone */

void secret_holder(const struct sandbox *s, const char *name, char ret[GATE_HOLDER_SIZE]); /* the same for ever */
/* Names without a value, and where there are such what to do about it, as `secrets_hint`. */
void secret_missing_json(const struct sandbox *s, struct json *j, const char *key);
void secret_names_json(const struct sandbox *s, struct json *j, const char *key); /* [{name, given}] */
