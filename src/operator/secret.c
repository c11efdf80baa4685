/* Secrets. A placeholder is made from the sandbox's id, so that processes that have it in their environment are right
 * also after everything outside was started again.
 *
 * Must never: write a value anywhere; the vault does, sealed. */
#include "operator/secret.h"

#include <stdio.h>

#include "base/hash.h"
#include "operator/call.h"
#include "operator/secret-vault.h"

void secret_free(struct secret *list) {
        for (struct secret *next; list; list = next) {
                next = list->next;
                if (list->value)
                        explicit_bzero(list->value, list->size);
                free(list->value);
                free(list);
        }
}

/* Fewer bytes would be found in any answer; a line end would make two headers of one. */
static int check_value(const struct secret *s, struct err *err) {
        if (s->size < 8 || s->size > GATE_SECRET_MAX)
                return call_err(err, ERR_INPUT, "secret %s: a value has 8 to %d bytes", s->name, GATE_SECRET_MAX);
        if (s->value[0] == ' ' || s->value[s->size - 1] == ' ')
                return call_err(err, ERR_INPUT, "secret %s: the value begins or ends with a blank", s->name);
        if (s->size < 16 && strspn((const char *)s->value, "0123456789") >= s->size)
                return call_err(err, ERR_INPUT, "secret %s: fewer than 16 digits can be guessed", s->name);
        for (size_t i = 0; i < s->size; i++)
                if (s->value[i] < 0x20 || s->value[i] == 0x7f)
                        return call_err(err, ERR_INPUT, "secret %s: the value has control bytes", s->name);
        return 0;
}

int secret_parse(const char *text, const char *path, struct secret **ret, struct err *err) {
        struct secret *list = NULL;
        struct json_walk w;
        unsigned count = 0;
        int r = 0;

        if (!json_walk_begin(&w, text, path))
                return 0;
        while (r == 0 && json_walk_next(&w)) {
                struct secret *s = calloc(1, sizeof *s);
                char *value = malloc(GATE_SECRET_MAX + 1);

                if (s) {
                        s->next = list;
                        list = s;
                        s->value = (uint8_t *)value;
                        s->size = value ? GATE_SECRET_MAX : 0; /* all of it is wiped if it cannot be taken */
                }
                if (!s || !value)
                        r = call_err(err, -ENOMEM, "out of memory");
                else if (++count > GATE_SECRETS_MAX)
                        r = call_err(err, ERR_INPUT, "more than %d secrets", GATE_SECRETS_MAX);
                else if (!json_walk_key(&w, s->name, sizeof s->name) ||
                         !json_find_str(w.value, "", value, GATE_SECRET_MAX + 1))
                        r = call_err(err, ERR_INPUT, "secrets: names and values are text, values of at most %d bytes",
                                     GATE_SECRET_MAX);
                else {
                        s->size = strlen(value);
                        r = check_value(s, err);
                }
        }
        if (r < 0) {
                secret_free(list);
                return r;
        }
        *ret = list;
        return 0;
}

static const struct secret *find(const struct secret *list, const char *name) {
        while (list && !str_eq(list->name, name))
                list = list->next;
        return list;
}

int secret_check(const struct frozen *f, const struct secret *list, bool all, struct err *err) {
        for (const struct secret *s = list; s; s = s->next) {
                bool used = false;

                for (size_t i = 0; i < f->secret_count; i++)
                        used |= str_eq(f->secrets[i], s->name);
                if (!used) {
                        (void)call_err(err, ERR_INPUT, "the profile does not use the secret %s", s->name);
                        return err_hint(err, "list it under 'secrets' and name it in a rule of network.allow");
                }
        }
        for (size_t i = 0; all && i < f->secret_count; i++)
                if (!find(list, f->secrets[i])) {
                        (void)call_err(err, ERR_INPUT, "the profile uses the secret %s, and nobody gave it",
                                       f->secrets[i]);
                        return err_hint(err, "give it with the request: 'secrets', or --secret %s", f->secrets[i]);
                }
        return 0;
}

void secret_holder(const struct sandbox *s, const char *name, char ret[GATE_HOLDER_SIZE]) {
        uint8_t bytes[HASH_SIZE];
        char text[HASH_TEXT_SIZE];
        struct hash h;

        hash_init(&h);
        hash_add_str(&h, s->id);
        hash_add_str(&h, name);
        hash_done(&h, bytes);
        hash_text(bytes, text);
        (void)snprintf(ret, GATE_HOLDER_SIZE, "stockade-secret-%.32s", text);
}

static void tell_one(struct sandbox *s, const struct secret *secret) {
        char holder[GATE_HOLDER_SIZE];

        if (!s->ward)
                return;
        secret_holder(s, secret->name, holder);
        gate_ward_secret(s->ward, secret->name, holder, secret->value, secret->size);
}

void secret_tell(struct sandbox *s) {
        for (const struct secret *i = s->secrets; i; i = i->next)
                if (i->value)
                        tell_one(s, i);
}

static void drop(struct sandbox *s, const char *name) {
        for (struct secret **p = &s->secrets; *p; p = &(*p)->next)
                if (str_eq((*p)->name, name)) {
                        struct secret *old = *p;

                        *p = old->next;
                        old->next = NULL;
                        secret_free(old);
                        return;
                }
}

void secret_set(struct sandbox *s, struct secret *list) {
        for (struct secret *next; list; list = next) {
                next = list->next;
                drop(s, list->name);
                list->next = s->secrets;
                s->secrets = list;
                tell_one(s, list);
        }
}

void secret_found(struct sandbox *s, const char *name, const void *value, size_t size, int why) {
        struct secret *n = calloc(1, sizeof *n);

        if (n && why == 0) {
                n->value = malloc(size + !size);
                n->size = size;
        }
        if (!n || (why == 0 && !n->value)) {
                free(n);
                return; /* it is missing then, until the next start */
        }
        (void)snprintf(n->name, sizeof n->name, "%s", name);
        n->why = why;
        if (n->value && size > 0)
                memcpy(n->value, value, size);
        n->next = s->secrets;
        s->secrets = n;
}

uint64_t secret_put(struct sandbox *s) {
        return secret_vault_put(s, s->secrets);
}

uint64_t secret_forget(struct sandbox *s) {
        char holder[GATE_HOLDER_SIZE];

        for (const struct secret *i = s->secrets; i && s->ward; i = i->next) {
                secret_holder(s, i->name, holder);
                (void)gate_ward_secret(s->ward, i->name, holder, NULL, 0);
        }
        bool any = s->secrets || s->frozen->secret_count > 0; /* also what could not be read */
        secret_wipe_all(s);
        return any ? secret_vault_remove(s) : 0;
}

void secret_wipe_all(struct sandbox *s) {
        secret_free(TAKE_PTR(s->secrets));
}

/* --- what is told ---------------------------------------------------------------------------------------------------
 */

void secret_missing_json(const struct sandbox *s, struct json *j, const char *key) {
        const struct secret *locked = NULL;
        bool any = false;

        json_open(j, key, '[');
        for (size_t i = 0; i < s->frozen->secret_count; i++) {
                const struct secret *found = find(s->secrets, s->frozen->secrets[i]);

                if (found && found->value)
                        continue;
                locked = found ? found : locked;
                any = true;
                json_str(j, NULL, s->frozen->secrets[i]);
        }
        json_close(j, ']');
        if (any)
                json_str(j, "secrets_hint",
                         !locked ? "give them: stockade secret"
                         : locked->why == ERR_CORRUPT
                                 ? "what is stored is damaged: give them again with 'stockade secret'"
                                 : "what is stored was sealed under a session secret that is not here: "
                                   "name that in session_secret_previous of stockade.conf, or give "
                                   "them again with 'stockade secret'");
}

void secret_names_json(const struct sandbox *s, struct json *j, const char *key) {
        json_open(j, key, '[');
        for (size_t i = 0; i < s->frozen->secret_count; i++) {
                const struct secret *found = find(s->secrets, s->frozen->secrets[i]);

                json_open(j, NULL, '{');
                json_str(j, "name", s->frozen->secrets[i]);
                json_bool(j, "given", found && found->value);
                json_close(j, '}');
        }
        json_close(j, ']');
}
