/* The vault. Rows are sealed values and wrapped data keys; whoever has the store alone has nothing.
 *
 * Always: a value is put together with the data key that opens it, or after it. A data key that was wrapped by a former
 * session secret is wrapped again in one transaction: killed before or after, one of the two is there.
 *
 * Must never: write a value, a data key or a session secret anywhere but sealed. */
#include "operator/secret-vault.h"

#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/call.h"
#include "operator/task.h"
#include "wire/wire.h"

#define SECRETS_SIZE (16 * 1024) /* of the warden's list */
#define LOCKED_MAX   64          /* data keys that no session secret opens */

struct secret_vault {
        struct core *o;
        struct keyring *keys;
        bool owed;             /* the data key in use is not in the store yet */
        struct durable rewrap; /* ticket 0: nothing was to be wrapped again */
        uint64_t rewrapped;    /* the ticket, for whoever asks later */
        struct locked {
                struct store_data_key row;
                bool used; /* a value needs it */
        } locked[LOCKED_MAX];
        size_t locked_count;
        unsigned opened, lost; /* values */
};

const struct keyring *secret_vault_keys(const struct core *o) {
        return o->vault ? o->vault->keys : NULL;
}

int secret_vault_ready(const struct core *o, struct err *err) {
        if (secret_vault_keys(o))
                return 0;
        (void)call_err(err, ERR_UNENFORCED, "secrets cannot be kept: the operator has no session secret");
        return err_hint(err, "see the log, and session_secret_file in stockade.conf(5)");
}

/* --- keys -----------------------------------------------------------------------------------------------------------
 */

/* Of each the number of its bytes and the bytes; the current one first. They are read once: keys are all that stays. */
static int read_keys(struct secret_vault *v, struct err *err) {
        static uint8_t bytes[SECRETS_SIZE];
        struct keyring_secret secrets[1 + KEYRING_PREVIOUS];
        size_t count = 0;
        ssize_t n = v->o->secret >= 0 ? pread(v->o->secret, bytes, sizeof bytes, 0) : 0;
        struct wire w = {.start = bytes, .size = n > 0 ? (size_t)n : 0};
        int r = 0;

        if (n <= 0)
                r = err_set(err, ERR_REFUSED, "there is no session secret: secrets of sandboxes are not kept");
        while (r == 0 && !wire_end(&w)) {
                size_t size = wire_u16(&w);
                const void *data = wire_bytes(&w, size);

                if (!wire_ok(&w))
                        r = err_set(err, ERR_CORRUPT, "the warden's session secrets cannot be read");
                else if (count >= ELEMENTSOF(secrets))
                        r = err_set(err, ERR_LIMIT, "there are more than %zu session secrets", ELEMENTSOF(secrets));
                else
                        secrets[count++] = (struct keyring_secret){data, size};
        }
        if (r == 0)
                r = keyring_open(&v->keys, secrets, count, err);
        explicit_bzero(bytes, sizeof bytes);
        fd_close(&v->o->secret);
        return r;
}

static uint64_t put_data_key(struct secret_vault *v, const uint8_t wrapped[KEYRING_WRAPPED], uint64_t created_ms) {
        struct store_data_key row = {.created_ms = created_ms, .wrapped = wrapped, .wrapped_size = KEYRING_WRAPPED};

        (void)snprintf(row.id, sizeof row.id, "%s", keyring_data_id(v->keys));
        return store_put(v->o->store, STORE_DATA_KEY, &row);
}

/* The key that values are sealed with is made when the first one comes. The ticket of its row, 0 if that is there. */
static uint64_t need_data_key(struct secret_vault *v, struct err *err) {
        uint8_t wrapped[KEYRING_WRAPPED];

        if (keyring_has_data(v->keys) && !v->owed)
                return 0;
        int r = keyring_has_data(v->keys) ? keyring_data_wrap(v->keys, wrapped, err)
                                          : keyring_data_make(v->keys, wrapped, err);
        if (r < 0)
                return STORE_REFUSED;
        uint64_t ticket = put_data_key(v, wrapped, wall_ms());
        v->owed = ticket == STORE_REFUSED;
        return ticket;
}

static void wrapped_again(struct durable *d, int error) {
        struct secret_vault *v = LOOP_OWNER(d, struct secret_vault, rewrap);

        step(v->o, "secret.wrapped");
        if (error < 0)
                log_line(LOG_LEVEL_WARNING, NULL,
                         "stored secrets are not wrapped by the current session secret yet: %s; it is tried again",
                         err_name(error));
        else
                log_line(LOG_LEVEL_INFO, NULL,
                         "stored secrets are wrapped by the current session secret now: previous ones are needed only "
                         "for sessions and capabilities that have not expired");
}

static int load_data_key(void *data, const void *found) {
        const struct store_data_key *row = found;
        struct secret_vault *v = data;
        uint8_t wrapped[KEYRING_WRAPPED];
        struct err err = {0};
        bool stale = false;

        int r = keyring_data_open(v->keys, row->wrapped, row->wrapped_size, &stale, &err);
        if (r < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &err);
                if (v->locked_count < LOCKED_MAX) {
                        struct locked *l = &v->locked[v->locked_count++];

                        (void)snprintf(l->row.id, sizeof l->row.id, "%s", row->id);
                }
                return 0;
        }
        if (!stale)
                return 0;
        if (keyring_data_wrap(v->keys, wrapped, &err) < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &err);
                return 0;
        }
        store_begin(v->o->store);
        v->rewrapped = put_data_key(v, wrapped, row->created_ms);
        store_end(v->o->store);
        return 0;
}

/* --- values ---------------------------------------------------------------------------------------------------------
 */

static void need_locked(struct secret_vault *v, const struct store_secret *row) {
        char id[KEYRING_ID];

        keyring_sealed_by(row->sealed, row->sealed_size, id);
        for (size_t i = 0; i < v->locked_count; i++)
                v->locked[i].used |= str_eq(v->locked[i].row.id, id);
}

static int load_secret(void *data, const void *found) {
        const struct store_secret *row = found;
        struct secret_vault *v = data;
        _cleanup_keyring_wipe_ struct buf value = {0};
        struct sandbox *s = sandbox_find(v->o, row->sandbox);
        struct err err = {0};

        if (!s) {
                if (!v->o->registry->incomplete) /* of one that is being forgotten */
                        (void)store_remove(v->o->store, STORE_SECRET, row);
                return 0;
        }
        int r = v->keys ? keyring_unseal(v->keys, row->sandbox, row->name, row->sealed, row->sealed_size, &value, &err)
                        : ERR_REFUSED;
        if (r == 0 && value.size > GATE_SECRET_MAX)
                r = err_set(&err, ERR_CORRUPT, "the stored value of '%s' is too large", row->name);
        if (r < 0) {
                need_locked(v, row);
                if (v->keys)
                        log_err(LOG_LEVEL_ERROR, s->id, &err);
                v->lost++;
        } else
                v->opened++;
        secret_found(s, row->name, value.data, value.size, r);
        return 0;
}

/* No value needs them, and nothing can be sealed with them. */
static void drop_locked(struct secret_vault *v) {
        for (size_t i = 0; i < v->locked_count; i++)
                if (!v->locked[i].used)
                        (void)store_remove(v->o->store, STORE_DATA_KEY, &v->locked[i].row);
}

uint64_t secret_vault_put(struct sandbox *s, const struct secret *list) {
        struct secret_vault *v = s->o->vault;
        struct err err = {0};

        if (!list)
                return 0;
        uint64_t last = secret_vault_keys(s->o) ? need_data_key(v, &err) : STORE_REFUSED;
        for (const struct secret *i = list; i && last != STORE_REFUSED; i = i->next) {
                _cleanup_buf_ struct buf sealed = {0};
                struct store_secret row = {.set_ms = wall_ms()};

                if (keyring_seal(v->keys, s->id, i->name, i->value, i->size, &sealed, &err) < 0)
                        return STORE_REFUSED;
                (void)snprintf(row.sandbox, sizeof row.sandbox, "%s", s->id);
                (void)snprintf(row.name, sizeof row.name, "%s", i->name);
                row.sealed = sealed.data;
                row.sealed_size = sealed.size;
                last = store_put(s->o->store, STORE_SECRET, &row);
        }
        return last;
}

uint64_t secret_vault_remove(struct sandbox *s) {
        struct store_secret row = {.name = ""};

        (void)snprintf(row.sandbox, sizeof row.sandbox, "%s", s->id);
        return store_remove(s->o->store, STORE_SECRET, &row);
}

/* --- begin and end --------------------------------------------------------------------------------------------------
 */

void secret_vault_open(struct core *o) {
        struct secret_vault *v = calloc(1, sizeof *v);
        struct err err = {0};

        if (!v) {
                log_line(LOG_LEVEL_ERROR, NULL, "out of memory: secrets of sandboxes are not kept");
                return;
        }
        v->o = o;
        o->vault = v;
        if (read_keys(v, &err) < 0)
                log_err(LOG_LEVEL_ERROR, NULL, &err);
        int r = v->keys ? store_load(o->store, STORE_DATA_KEY, load_data_key, v, &err) : 0;
        if (r == 0)
                r = store_load(o->store, STORE_SECRET, load_secret, v, &err);
        if (r < 0)
                log_err(LOG_LEVEL_ERROR, NULL, &err);
        else if (v->keys && !o->registry->incomplete)
                drop_locked(v);
        if (v->lost > 0)
                log_line(LOG_LEVEL_WARNING, NULL,
                         "%u stored secrets cannot be opened, %u can: 'stockade show' lists under secrets_missing what "
                         "has to be given again",
                         v->lost, v->opened);
        step(o, "secret.rewrap");
        if (v->rewrapped > 0) {
                v->rewrap = (struct durable){.ticket = v->rewrapped, .done = wrapped_again};
                durable_wait(o, &v->rewrap);
        }
}

void secret_vault_close(struct core *o) {
        struct secret_vault *v = o->vault;

        o->vault = NULL;
        if (!v)
                return;
        durable_cancel(o, &v->rewrap);
        keyring_close(v->keys);
        free(v);
}

void secret_vault_json(const struct core *o, struct json *j, const char *key) {
        const struct secret_vault *v = o->vault;
        size_t previous = 0;

        json_open(j, key, '{');
        json_str(j, "current", v && v->keys ? keyring_current(v->keys) : "");
        while (v && v->keys && keyring_id(v->keys, previous + 1))
                previous++;
        json_u64(j, "previous", previous);
        json_bool(j, "wrapped", v && v->keys && v->rewrapped <= store_committed(o->store));
        json_u64(j, "locked", v ? v->lost : 0);
        json_close(j, '}');
}
