/* The registry of sandboxes: by id, by owner and name, in the order of their making; their rows and their JSON. */
#include "operator/sandbox.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "operator/disk.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/run.h"
#include "operator/secret.h"
#include "operator/snapshot.h"
#include "operator/trial.h"
#include "operator/usage-history.h"
#include "operator/warden-link.h"

#define CROWD_MS 1000 /* of sandboxes made at once */

uint64_t wall_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void draw_id(char ret[STORE_ID]) {
        static const char digits[] = "0123456789abcdef";
        uint8_t bytes[8];

        while (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
                ; /* interrupted: it cannot fail otherwise once the kernel is up */
        for (size_t i = 0; i < sizeof bytes; i++) {
                ret[2 * i] = digits[bytes[i] >> 4];
                ret[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret[16] = '\0';
}

int registry_open(struct core *o, struct err *err) {
        struct registry *r = calloc(1, sizeof *r);

        if (!r)
                return err_set(err, -ENOMEM, "could not begin");
        r->o = o;
        r->started_ms = wall_ms();
        o->registry = r;
        return frozens_open(o, err);
}

/* --- owners ---------------------------------------------------------------------------------------------------------
 */

struct owner *owner_get(struct core *o, const char *name) {
        struct registry *r = o->registry;
        struct table_node *n = table_find(&r->owners, name);

        if (n)
                return TABLE_OWNER(n, struct owner, node);
        struct owner *owner = calloc(1, sizeof *owner);
        if (!owner)
                return NULL;
        copy_text(owner->name, sizeof owner->name, name);
        owner->number = ++r->next_owner;
        if (table_add(&r->owners, &owner->node, owner->name) < 0) {
                free(owner);
                return NULL;
        }
        return owner;
}

/* --- layers ---------------------------------------------------------------------------------------------------------
 */

int layers_copy(struct layers *to, struct disk *top, const struct layers *from) {
        size_t count = from->count + (top != NULL);
        struct disk **items = calloc(count ? count : 1, sizeof(struct disk *));

        if (!items)
                return -ENOMEM;
        if (top)
                items[0] = disk_ref(top);
        for (size_t i = 0; i < from->count; i++)
                items[i + (top != NULL)] = disk_ref(from->items[i]);
        *to = (struct layers){items, count};
        return 0;
}

void layers_clear(struct layers *l) {
        for (size_t i = 0; i < l->count; i++)
                disk_unref(l->items[i]);
        free(l->items);
        *l = (struct layers){0};
}

void layers_message(const struct layers *l, struct warden_message *m) {
        for (size_t i = 0; i < l->count && m->layer_count < WARDEN_LAYERS_MAX; i++)
                copy_text(m->layers[m->layer_count++], WARDEN_ID_SIZE, l->items[i]->id);
}

int layers_parse(struct core *o, const char *text, struct layers *ret) {
        struct layers l = {.items = calloc(SANDBOX_LAYERS_MAX + 1, sizeof(struct disk *))};
        char id[STORE_ID];

        if (!l.items)
                return -ENOMEM;
        while (*text) {
                size_t n = strcspn(text, " ");
                struct disk *d = NULL;

                if (n == STORE_ID - 1 && l.count < SANDBOX_LAYERS_MAX) {
                        memcpy(id, text, n);
                        id[n] = '\0';
                        d = disk_find(o, id);
                }
                if (!d) {
                        layers_clear(&l);
                        return -ENOENT;
                }
                l.items[l.count++] = disk_ref(d);
                text += n;
                text += strspn(text, " ");
        }
        *ret = l;
        return 0;
}

void layers_print(const struct layers *l, char *buf, size_t size) {
        size_t used = 0;

        buf[0] = '\0';
        for (size_t i = 0; i < l->count && used + STORE_ID < size; i++)
                used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "", l->items[i]->id);
}

/* --- one sandbox ----------------------------------------------------------------------------------------------------
 */

struct sandbox *sandbox_new(struct core *o, struct frozen *frozen) {
        struct sandbox *s = calloc(1, sizeof *s);

        if (!s)
                return NULL;
        s->o = o;
        s->frozen = frozen_ref(frozen);
        s->next_run = 1;
        s->state = STATE_CREATING;
        draw_id(s->id);
        copy_text(s->profile, sizeof s->profile, frozen->profile);
        s->created_ms = s->used_ms = wall_ms();
        return s;
}

void sandbox_free(struct sandbox *s) {
        log_share_forget(s);
        sandbox_unregister(s);
        loop_timer_clear(s->o->loop, &s->timer);
        loop_timer_clear(s->o->loop, &s->reconnect);
        loop_cancel(s->o->loop, &s->bury);
        warden_forget(s->o, &s->reconnect);
        warden_forget(s->o, &s->timer);
        warden_forget(s->o, &s->network_timer);
        loop_timer_clear(s->o->loop, &s->network_timer);
        run_drop_spare(s);
        secret_wipe_all(s);
        flatten_drop(s);
        layers_clear(&s->layers);
        disk_unref(s->disk);
        if (s->image)
                s->image->refs--;
        frozen_unref(s->frozen);
        free(s->stale);
        free(s);
}

/* Lists are in the order of making, and a page begins after a time (verb_list), also when the one that was made then is
 * gone: so several of one millisecond are told apart by a few. A clock that was set back is none of that. */
static void tell_apart(struct registry *r, struct sandbox *s) {
        uint64_t newest = MAX(r->newest_ms, r->last ? r->last->created_ms : 0);

        if (r->loading)
                return;
        if (s->created_ms <= newest && newest - s->created_ms < CROWD_MS)
                s->created_ms = newest + 1;
        r->newest_ms = s->created_ms;
}

int sandbox_register(struct sandbox *s, struct owner *owner, const char *name) {
        struct registry *r = s->o->registry;

        if (name[0]) {
                s->name_key = table_key(owner->name, name);
                int e = s->name_key ? table_add(&r->names, &s->by_name, s->name_key) : -ENOMEM;
                if (e < 0) {
                        free(TAKE_PTR(s->name_key));
                        return e;
                }
        }
        int e = table_add(&r->sandboxes, &s->node, s->id);
        if (e < 0) {
                table_remove(&r->names, &s->by_name);
                free(TAKE_PTR(s->name_key));
                return e;
        }
        s->owner = owner;
        copy_text(s->name, sizeof s->name, name);
        tell_apart(r, s);
        s->previous = r->last;
        if (r->last)
                r->last->next = s;
        else
                r->first = s;
        r->last = s;
        return 0;
}

void sandbox_unregister(struct sandbox *s) {
        struct registry *r = s->o->registry;

        if (!s->node.key)
                return;
        table_remove(&r->sandboxes, &s->node);
        table_remove(&r->names, &s->by_name);
        free(TAKE_PTR(s->name_key));
        if (s->previous)
                s->previous->next = s->next;
        else
                r->first = s->next;
        if (s->next)
                s->next->previous = s->previous;
        else
                r->last = s->previous;
        s->next = s->previous = NULL;
}

struct whose *whose_new(const struct sandbox *s, uint32_t run) {
        struct whose *w = calloc(1, sizeof *w);

        if (w) {
                w->o = s->o;
                copy_text(w->sandbox, sizeof w->sandbox, s->id);
                w->run = run;
        }
        return w;
}

struct sandbox *sandbox_find(struct core *o, const char *id) {
        struct table_node *n = table_find(&o->registry->sandboxes, id);

        return n ? TABLE_OWNER(n, struct sandbox, node) : NULL;
}

struct sandbox *sandbox_named(struct core *o, const char *owner, const char *name) {
        _cleanup_free_ char *key = table_key(owner, name);
        struct table_node *n = key ? table_find(&o->registry->names, key) : NULL;

        return n ? TABLE_OWNER(n, struct sandbox, by_name) : NULL;
}

void sandbox_touch(struct sandbox *s) {
        s->used_ms = wall_ms();
}

/* --- rows -----------------------------------------------------------------------------------------------------------
 */

uint64_t sandbox_put(struct sandbox *s, bool whole) {
        struct store_sandbox row = {
                .created_ms = s->created_ms,
                .started_ms = s->started_ms,
                .ended_ms = s->ended_ms,
                .used_ms = s->used_ms,
                .generation = s->generation,
                .next_run = s->next_run,
                .cpu_us = s->cpu_us,
        };

        copy_text(row.id, sizeof row.id, s->id);
        copy_text(row.owner, sizeof row.owner, s->owner->name);
        copy_text(row.name, sizeof row.name, s->name);
        copy_text(row.state, sizeof row.state, state_name(s->state));
        copy_text(row.reason, sizeof row.reason, reason_name(s->reason));
        copy_text(row.profile, sizeof row.profile, s->profile);
        copy_text(row.driver, sizeof row.driver, driver_name(s->driver));
        copy_text(row.driver_why, sizeof row.driver_why, s->driver_why);
        copy_text(row.image, sizeof row.image, s->image ? s->image->id : "");
        copy_text(row.disk, sizeof row.disk, s->disk ? s->disk->id : "");
        copy_text(row.origin, sizeof row.origin, s->origin);
        layers_print(&s->layers, row.layers, sizeof row.layers);
        if (whole) {
                row.policy = s->frozen->policy;
                row.policy_size = s->frozen->policy_size;
                row.plan = s->frozen->bytes;
                row.plan_size = s->frozen->size;
        }
        return store_put(s->o->store, STORE_SANDBOX, &row);
}

static int load_parts(struct sandbox *s, const struct store_sandbox *row, struct err *err) {
        if (row->disk[0]) {
                s->disk = disk_find(s->o, row->disk);
                if (!s->disk)
                        return err_set(err, ERR_CORRUPT, "sandbox %s: its disk %s is not in the store", row->id,
                                       row->disk);
                (void)disk_ref(s->disk);
        }
        if (row->image[0]) {
                s->image = image_find(s->o, row->image);
                if (!s->image)
                        return err_set(err, ERR_CORRUPT, "sandbox %s: its image %s is not in the store", row->id,
                                       row->image);
                s->image->refs++;
        }
        if (layers_parse(s->o, row->layers, &s->layers) < 0)
                return err_set(err, ERR_CORRUPT, "sandbox %s: a layer of its disk is not in the store", row->id);
        return 0;
}

int sandbox_load(struct core *o, const struct store_sandbox *row, struct sandbox **ret, struct err *err) {
        struct frozen *f;
        enum state state;

        if (!state_parse(row->state, &state) || !warden_is_id(row->id))
                return err_set(err, ERR_CORRUPT, "the store has a sandbox '%s' in a state '%s'", row->id, row->state);
        int driver = driver_find(row->driver);
        if (driver < 0)
                return err_set(err, ERR_CORRUPT, "the store has a sandbox %s of a driver '%s' that this version lacks",
                               row->id, row->driver);
        struct owner *owner = owner_get(o, row->owner);
        int r = owner ? frozen_load(o, row->policy, row->policy_size, row->plan, row->plan_size, &f, err)
                      : err_set(err, -ENOMEM, "could not load sandbox %s", row->id);
        if (r < 0)
                return err_prefix(err, r, "sandbox %s", row->id);
        struct sandbox *s = sandbox_new(o, f);
        frozen_unref(f);
        if (!s)
                return err_set(err, -ENOMEM, "could not load sandbox %s", row->id);
        s->driver = (enum driver)driver;
        copy_text(s->driver_why, sizeof s->driver_why, row->driver_why);
        copy_text(s->id, sizeof s->id, row->id);
        copy_text(s->profile, sizeof s->profile, row->profile);
        copy_text(s->origin, sizeof s->origin, row->origin);
        s->state = state;
        s->reason = reason_parse(row->reason);
        s->created_ms = row->created_ms;
        s->started_ms = row->started_ms;
        s->ended_ms = row->ended_ms;
        s->used_ms = row->used_ms;
        s->generation = row->generation;
        s->next_run = (uint32_t)MAX(row->next_run, 1U);
        s->cpu_us = row->cpu_us;
        r = load_parts(s, row, err);
        if (r == 0 && sandbox_register(s, owner, row->name) < 0)
                r = err_set(err, ERR_CORRUPT, "sandbox %s: another one has its name", row->id);
        if (r < 0) {
                sandbox_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

void sandbox_json(const struct sandbox *s, struct json *j, const char *key) {
        sandbox_json_open(s, j, key);
        json_close(j, '}');
}

void sandbox_json_open(const struct sandbox *s, struct json *j, const char *key) {
        json_open(j, key, '{');
        json_str(j, "id", s->id);
        json_str(j, "owner", s->owner ? s->owner->name : "");
        json_str(j, "name", s->name);
        json_str(j, "state", state_name(s->state));
        json_str(j, "reason", reason_name(s->reason));
        json_str(j, "profile", s->profile);
        json_str(j, "driver", driver_name(s->driver));
        json_str(j, "driver_why", s->driver_why);
        json_str(j, "image", s->image ? s->image->name : "");
        json_bool(j, "persistent", s->disk != NULL);
        json_u64(j, "created_ms", s->created_ms);
        json_u64(j, "started_ms", s->started_ms);
        json_u64(j, "ended_ms", s->ended_ms);
        json_u64(j, "used_ms", s->used_ms);
        json_str(j, "origin", s->origin);
        json_u64(j, "layers", s->layers.count);
        if (s->disk) {
                json_open(j, "disk", '{');
                json_u64(j, "size", s->disk->size);
                json_u64(j, "used", s->disk->used);
                json_u64(j, "inodes", s->disk->inodes);
                json_close(j, '}');
        } else
                json_null(j, "disk");
        json_bool(j, "network", s->frozen->rules != NULL);
        secret_missing_json(s, j, "secrets_missing");
        json_u64(j, "runs_active", run_active(s));
        json_u64(j, "starts", s->generation);
        json_bool(j, "from_pool", s->from_pool);
        json_bool(j, "held", s->pressed);
}

/* --- what is written down -------------------------------------------------------------------------------------------
 */

int64_t record(struct core *o, enum ledger_kind kind, const char *sandbox, const char *actor, const char *data) {
        return ledger_append(o->ledger, kind, sandbox ? sandbox : "", actor, data ? data : "{}");
}

int64_t record_text(struct core *o, enum ledger_kind kind, const char *sandbox, const char *actor, const char *key,
                    const char *value) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, key, value);
        json_close(&j, '}');
        return buf_ok(&b) ? record(o, kind, sandbox, actor, b.data) : -ENOMEM;
}

int record_needed(struct core *o, enum ledger_kind kind, const char *sandbox, const char *actor, const char *data,
                  uint64_t *ret_seq, struct err *err) {
        int64_t seq = record(o, kind, sandbox, actor, data);

        if (seq < 0 && o->conf.require_recording) {
                (void)call_err(err, -ENOSPC, "%s cannot be recorded, so it is not done: %s", ledger_kind_name(kind),
                               err_name((int)seq));
                (void)err_hint(err, "make room on the disk of the ledger; it goes on by itself then");
                return -ENOSPC;
        }
        *ret_seq = seq > 0 ? (uint64_t)seq : 0;
        return 0;
}

/* What is in the middle of an operation stays: the process ends. */
void registry_close(struct core *o) {
        struct registry *r = o->registry;

        for (struct sandbox *s = r->first, *next; s; s = next) {
                next = s->next;
                guest_close(s);
                while (s->runs && ops_idle(&s->ops))
                        run_free(s->runs);
                while (s->ghosts && ops_idle(&s->ops))
                        run_free(s->ghosts);
                if (ops_idle(&s->ops))
                        sandbox_free(s);
        }
        trial_close(o);
        usage_history_close(o);
        snapshots_free(o);
        images_free(o);
        disks_free(o);
        keyed_free(o);
        grave_free(o);
        frozens_close(o);
        for (struct table_node *n; (n = table_next(&r->owners, NULL));) {
                table_remove(&r->owners, n);
                free(TABLE_OWNER(n, struct owner, node));
        }
        table_free(&r->owners);
        table_free(&r->sandboxes);
        table_free(&r->names);
        free(r);
        o->registry = NULL;
}
