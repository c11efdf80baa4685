/* Requests with a key. The first answer is kept for a day and given to whoever sends the same again; who asks while it
 * is being worked on waits for it. A request that was refused leaves its key free.
 *
 * Rows are written with the rows of what was done, in one group: after a crash either both are there or none. What an
 * operator was working on when it died was completed or undone by its successor, so its key is free again; but a run
 * that was begun is noted, and whoever asks again is attached to it instead of beginning another.
 *
 * Must never: keep a secret, or a hash of one. */
#include <stdio.h>

#include "base/hash.h"
#include "operator/admission.h"
#include "operator/call.h"
#include "operator/sandbox.h"

#define KEEP_MS  (24ULL * 3600 * 1000)
#define KEYS_MAX 50000 /* of all; owner_keys is for each */
#define FEW      500   /* who has no more than these keeps them for the whole time, whatever others do */
#define NOTE     "{\"pending\":"

struct keyed {
        struct table_node node;
        struct core *o;
        char *name; /* owner and key */
        struct owner *owner;
        char key[129];
        uint8_t hash[HASH_SIZE];
        uint64_t created_ms;
        char *answer; /* NULL: being worked on, or noted */
        char noted_sandbox[STORE_ID];
        uint32_t noted_run;
        bool busy;            /* somebody works on it */
        struct call *waiting; /* for the same answer */
};

static void keyed_destroy(struct keyed *k) {
        table_remove(&k->o->registry->keys, &k->node);
        k->owner->tally[TALLY_KEYS]--;
        free(k->name);
        free(k->answer);
        free(k);
}

static struct keyed *keyed_new(struct core *o, struct owner *owner, const char *key) {
        struct keyed *k = calloc(1, sizeof *k);

        if (!k)
                return NULL;
        k->o = o;
        k->owner = owner;
        copy_text(k->key, sizeof k->key, key);
        k->created_ms = wall_ms();
        k->name = table_key(owner->name, key);
        if (!k->name || table_add(&o->registry->keys, &k->node, k->name) < 0) {
                free(k->name);
                free(k);
                return NULL;
        }
        owner->tally[TALLY_KEYS]++;
        return k;
}

static struct keyed *keyed_find(struct core *o, const char *owner, const char *key) {
        _cleanup_free_ char *name = table_key(owner, key);
        struct table_node *n = name ? table_find(&o->registry->keys, name) : NULL;

        return n ? TABLE_OWNER(n, struct keyed, node) : NULL;
}

static uint64_t put(struct keyed *k, const char *answer) {
        struct store_request row = {
                .created_ms = k->created_ms, .answer = answer, .answer_size = answer ? strlen(answer) : 0};

        copy_text(row.owner, sizeof row.owner, k->owner->name);
        copy_text(row.key, sizeof row.key, k->key);
        memcpy(row.body_hash, k->hash, sizeof row.body_hash);
        return store_put(k->o->store, STORE_REQUEST, &row);
}

/* Everything that was asked for, except what is secret: of that only the names. */
static void hash_body(const char *text, uint8_t ret[HASH_SIZE]) {
        struct json_walk w, inner;
        struct hash h;
        char key[256];

        hash_init(&h);
        (void)json_walk_begin(&w, text, "");
        while (json_walk_next(&w)) {
                size_t size = 0;
                const char *value = json_at(w.value, "", &size);

                if (!json_walk_key(&w, key, sizeof key))
                        key[0] = '\0';
                hash_add_str(&h, key);
                if (str_eq(key, "secrets") && json_walk_begin(&inner, w.value, "")) {
                        while (json_walk_next(&inner) && json_walk_key(&inner, key, sizeof key))
                                hash_add_str(&h, key);
                } else if (value && !str_eq(key, "value"))
                        hash_add(&h, value, size);
        }
        hash_done(&h, ret);
}

static void waiter_gone(struct call *c) {
        for (struct call **p = &c->keyed->waiting; *p; p = &(*p)->next)
                if (*p == c) {
                        *p = c->next;
                        break;
                }
        c->keyed = NULL;
        call_drop(c);
}

enum keyed_verdict keyed_begin(struct call *c, const char *key) {
        struct keyed *k = keyed_find(c->o, c->owner, key);
        uint8_t hash[HASH_SIZE];

        hash_body(c->text, hash);
        if (!k) {
                struct owner *owner = owner_get(c->o, c->owner);
                struct err err = {0};

                if (!owner ||
                    (admission_one_more(c->o, owner, TALLY_KEYS, &err) == 0 && !(k = keyed_new(c->o, owner, key))))
                        (void)call_err(&err, -ENOMEM, "out of memory");
                if (!k) {
                        call_refuse(c, &err);
                        return KEYED_REFUSED;
                }
                memcpy(k->hash, hash, sizeof hash);
        } else if (memcmp(k->hash, hash, sizeof hash) != 0) {
                call_refuse_text(c, "conflict", "use another key for another request",
                                 "the key '%.40s' was used for another request", key);
                return KEYED_REFUSED;
        } else if (k->busy) { /* also when there is an answer: it may not be durable yet */
                c->keyed = k;
                c->gone = waiter_gone;
                c->next = k->waiting;
                k->waiting = c;
                return KEYED_WAITS;
        } else if (k->answer) {
                c->answer = strdup(k->answer);
                call_done(c);
                return KEYED_ANSWERED;
        }
        k->busy = true;
        c->keyed = k;
        /* A run of that number in another sandbox is another run, whatever the name. */
        if (c->sandbox && str_eq(c->sandbox->id, k->noted_sandbox))
                c->begun = k->noted_run;
        return KEYED_NEW;
}

uint64_t keyed_settle(struct keyed *k, const char *answer) {
        free(k->answer);
        k->answer = strdup(answer);
        return put(k, answer);
}

uint64_t keyed_note_run(struct keyed *k, const char *sandbox, uint32_t run) {
        char note[96];

        copy_text(k->noted_sandbox, sizeof k->noted_sandbox, sandbox);
        k->noted_run = run;
        (void)snprintf(note, sizeof note, NOTE "{\"sandbox\":\"%s\",\"run\":%u}}", sandbox, run);
        return put(k, note);
}

static struct call *next_waiting(struct keyed *k) {
        struct call *c = k->waiting;

        if (c) {
                k->waiting = TAKE_PTR(c->next);
                c->keyed = NULL;
                c->gone = NULL;
        }
        return c;
}

void keyed_answered(struct keyed *k) {
        struct call *c;

        k->busy = false;
        while ((c = next_waiting(k))) {
                c->answer = k->answer ? strdup(k->answer) : NULL;
                call_done(c);
        }
        if (!k->answer)
                keyed_destroy(k);
        else if (k->o->registry->keys.count > KEYS_MAX)
                keyed_sweep(k->o);
}

static void remove_row(struct keyed *k) {
        struct store_request row = {0};

        copy_text(row.owner, sizeof row.owner, k->owner->name);
        copy_text(row.key, sizeof row.key, k->key);
        (void)store_remove(k->o->store, STORE_REQUEST, &row);
}

void keyed_drop(struct keyed *k, const char *code, const struct err *err) {
        struct call *c;

        k->busy = false;
        while ((c = next_waiting(k)))
                call_refuse_as(c, code, err);
        if (k->answer || k->noted_run)
                remove_row(k);
        keyed_destroy(k);
}

int keyed_load(struct core *o, const struct store_request *row) {
        uint64_t run = 0;

        if (!row->answer || row->answer_size == 0 || wall_ms() > row->created_ms + KEEP_MS) {
                (void)store_remove(o->store, STORE_REQUEST, row);
                return 0;
        }
        struct owner *owner = owner_get(o, row->owner);
        struct keyed *k = owner ? keyed_new(o, owner, row->key) : NULL;
        if (!k)
                return -ENOMEM;
        k->created_ms = row->created_ms;
        memcpy(k->hash, row->body_hash, sizeof k->hash);
        k->answer = strndup(row->answer, row->answer_size);
        if (k->answer && str_starts(k->answer, NOTE) && json_check(k->answer, strlen(k->answer), NULL) == 0 &&
            json_find_u64(k->answer, "pending.run", &run) &&
            json_find_str(k->answer, "pending.sandbox", k->noted_sandbox, sizeof k->noted_sandbox)) {
                k->noted_run = (uint32_t)run;
                free(TAKE_PTR(k->answer));
        }
        return 0;
}

/* Those of yesterday; and when there are too many all the same, the older ones. */
void keyed_sweep(struct core *o) {
        struct table *t = &o->registry->keys;
        uint64_t now = wall_ms();

        for (uint64_t age = KEEP_MS; age > 1000; age /= 2) {
                for (struct table_node *n = table_next(t, NULL), *next; n; n = next) {
                        struct keyed *k = TABLE_OWNER(n, struct keyed, node);

                        next = table_next(t, n);
                        if (!k->busy && now > k->created_ms && now - k->created_ms > age &&
                            (age == KEEP_MS || k->owner->tally[TALLY_KEYS] > FEW)) {
                                remove_row(k);
                                keyed_destroy(k);
                        }
                }
                if (t->count <= KEYS_MAX / 2)
                        break;
        }
}

void keyed_free(struct core *o) {
        struct table *t = &o->registry->keys;

        for (struct table_node *n; (n = table_next(t, NULL));)
                keyed_destroy(TABLE_OWNER(n, struct keyed, node));
        table_free(t);
}
