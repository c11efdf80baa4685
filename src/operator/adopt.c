/* The operator's start: everything is read from the store, the warden says what there is, and the two are brought
 * together. What runs is taken over, what was half done is finished or undone, what died is written down, and what
 * belongs to nothing is removed. Clients are let in when that is done, or after a while: one sandbox that does not
 * answer must not keep the others' owners waiting. */
#include "base/fd.h"
#include "base/log.h"
#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/events.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/pool.h"
#include "operator/reaper.h"
#include "operator/run.h"
#include "operator/secret-vault.h"
#include "operator/snapshot.h"
#include "operator/warden-link.h"

#define PATIENCE_MS 5000
#define LEAVES      32 /* of the last so many runs that have ended are looked at */

/* One thing that the warden has. */
struct found {
        struct table_node node;
        char id[WARDEN_ID_SIZE];
        uint32_t flags;
        bool known;
};

struct adoption {
        struct core *o;
        struct table items[WARDEN_ITEM_COUNT];
        struct loop_timer patience;
        unsigned waiting; /* sandboxes whose guests have not said which runs they know */
        unsigned adopted, orphans;
};

/* --- the store ------------------------------------------------------------------------------------------------------
 */

struct loading {
        struct core *o;
        struct err err;
};

static int load_disk(void *data, const void *row) {
        return disk_load(((struct loading *)data)->o, row);
}

static int load_image(void *data, const void *row) {
        return image_load(((struct loading *)data)->o, row);
}

/* What cannot be understood is left alone, and said: the others are not to suffer for it, and it is not to lose its
 * disks, its process or its logs because we do not know that they are its. Until somebody has looked, nothing that
 * belongs to nothing is removed. */
static void not_understood(struct core *o, const char *id, const struct err *err) {
        log_err(LOG_LEVEL_ERROR, id, err);
        if (!o->registry->incomplete)
                log_line(LOG_LEVEL_ERROR, NULL,
                         "nothing without an owner is removed until the store can be read whole");
        o->registry->incomplete = true;
}

static int load_snapshot(void *data, const void *found) {
        const struct store_snapshot *row = found;
        struct loading *l = data;
        struct err err = {0};

        if (str_eq(row->state, "deleted"))
                grave_add(l->o, row->id, row->owner, row->created_ms);
        else if (snapshot_load(l->o, row, &err) < 0)
                not_understood(l->o, NULL, &err);
        return 0;
}

static int load_sandbox(void *data, const void *found) {
        struct loading *l = data;
        const struct store_sandbox *row = found;
        struct err err = {0};
        struct sandbox *s;

        if (str_eq(row->state, state_name(STATE_DELETED)))
                grave_add(l->o, row->id, row->owner, row->ended_ms);
        else if (sandbox_load(l->o, row, &s, &err) < 0)
                not_understood(l->o, row->id, &err);
        return 0;
}

static int load_run(void *data, const void *found) {
        struct loading *l = data;
        const struct store_run *row = found;
        struct sandbox *s = sandbox_find(l->o, row->sandbox);

        if (s && row->number >= s->next_run && row->number < UINT32_MAX)
                s->next_run = (uint32_t)row->number + 1;
        if (s) /* its own row says so only at the next change of its state */
                s->used_ms = MAX(s->used_ms, MAX(row->started_ms, row->ended_ms));
        if (s && str_eq(row->state, "running"))
                return run_adopt(s, row);
        if (s && state_alive(s->state) && row->generation == s->generation) {
                if (s->stale_count == LEAVES) /* the oldest goes */
                        memmove(s->stale, s->stale + 1, --s->stale_count * sizeof *s->stale);
                run_stale_add(s, (uint32_t)row->number,
                              row->timeout_ms == FROZEN_UNSET ? UINT64_MAX : row->started_ms + row->timeout_ms);
        }
        return 0;
}

static int load_request(void *data, const void *row) {
        return keyed_load(((struct loading *)data)->o, row);
}

static int load(struct core *o, struct err *err) {
        static const struct {
                enum store_family family;
                int (*fn)(void *data, const void *row);
        } steps[] = {{STORE_DISK, load_disk},       {STORE_IMAGE, load_image}, {STORE_SNAPSHOT, load_snapshot},
                     {STORE_SANDBOX, load_sandbox}, {STORE_RUN, load_run},     {STORE_REQUEST, load_request}};
        static_assert(ELEMENTSOF(steps) == STORE_REVOKED, "every family is read but the API's, which reads them");
        struct loading l = {.o = o};

        o->registry->loading = true;
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int r = store_load(o->store, steps[i].family, steps[i].fn, &l, err);
                if (r < 0)
                        return r;
        }
        o->registry->loading = false;
        grave_sweep(o);
        return 0;
}

/* --- what there is --------------------------------------------------------------------------------------------------
 */

static struct found *item(struct adoption *a, enum warden_item kind, const char *id) {
        struct table_node *n = table_find(&a->items[kind], id);

        return n ? TABLE_OWNER(n, struct found, node) : NULL;
}

static void take_item(struct adoption *a, const struct warden_message *m) {
        struct found *f;

        if (m->item >= WARDEN_ITEM_COUNT || m->item == WARDEN_ITEM_GATE || item(a, (enum warden_item)m->item, m->id))
                return;
        f = calloc(1, sizeof *f);
        if (!f)
                return;
        copy_text(f->id, sizeof f->id, m->id);
        f->flags = m->flags;
        if (table_add(&a->items[m->item], &f->node, f->id) < 0)
                free(f);
}

/* --- one sandbox ----------------------------------------------------------------------------------------------------
 */

static void let_in(struct adoption *a);

static void one_less(struct core *o) {
        struct adoption *a = o->registry->adoption;

        if (a && --a->waiting == 0)
                let_in(a);
}

static void listed(struct sandbox *s) {
        s->listed = NULL;
        one_less(s->o);
}

static void thawed(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct whose *w = data;

        (void)fds;
        (void)fd_count;
        if (answer->error < 0)
                log_line(LOG_LEVEL_WARNING, w->sandbox, "it could not be frozen or thawed: %s", answer->text);
        free(w);
}

static void set_frozen(struct sandbox *s, bool on) {
        struct warden_message m = {.kind = on ? WARDEN_FREEZE : WARDEN_THAW};
        struct whose *w = whose_new(s, 0);

        copy_text(m.id, sizeof m.id, s->id);
        if (!w || warden_call(s->o, &m, NULL, 0, thawed, w) < 0)
                free(w);
}

/* It runs, or is paused: go on with it. */
static void take_over(struct adoption *a, struct sandbox *s, const struct found *f) {
        struct err err = {0};
        bool frozen = f->flags & WARDEN_FROZEN;

        s->up = s->adopted = true;
        admission_count(s);
        a->adopted++;
        (void)record(a->o, LEDGER_SANDBOX_ADOPT, s->id, "operator", NULL);
        if (s->state == STATE_STARTING) {
                s->state = STATE_RUNNING;
                (void)sandbox_put(s, false);
        }
        if (frozen != (s->state == STATE_PAUSED))
                set_frozen(s, s->state == STATE_PAUSED);
        if (s->frozen->rules && (f->flags & WARDEN_NETWORKED)) {
                s->networked = true;
                if (create_network(s, &err) < 0)
                        log_err(LOG_LEVEL_WARNING, s->id, &err);
        }
        if (s->state == STATE_PAUSED)
                run_clock(s, false); /* its guest is asked when it is thawed */
        else {
                a->waiting++;
                s->listed = listed;
                guest_reconnect(s);
        }
        run_stale_ask(s); /* of runs that had ended: what they left in the background has its time, too */
        reaper_look(s);
        flatten_look(s);
}

/* It should be running. */
static void missing(struct sandbox *s) {
        s->up = true; /* as far as we knew */
        admission_count(s);
        life_lost(s, REASON_LOST);
}

static void undo(struct task *t) {
        (void)task_fail(t, -ECANCELED, "the operator ended before it was created");
        create_undo(t);
}

static void go(struct task *t) {
        if (t)
                task_go(t);
}

static void bring_together(struct adoption *a, struct sandbox *s) {
        struct found *f = item(a, WARDEN_ITEM_SANDBOX, s->id);
        struct found *d = s->disk ? item(a, WARDEN_ITEM_DISK, s->disk->id) : NULL;

        if (f)
                f->known = true;
        switch (s->state) {
        case STATE_CREATING:
                s->up = f != NULL;
                sandbox_unregister(s); /* its name is free: whoever asked asks again */
                go(task_new(s, NULL, undo));
                return;
        case STATE_STARTING:
                if (f)
                        take_over(a, s, f);
                else
                        go(life_resume(s, NULL));
                return;
        case STATE_RUNNING:
        case STATE_PAUSED:
                if (f)
                        take_over(a, s, f);
                else
                        missing(s);
                return;
        case STATE_STOPPING:
                s->up = f != NULL;
                if (f)
                        admission_count(s);
                if (s->reason == REASON_ROLLBACK)
                        rollback_again(s);
                else
                        go(life_stop(s, NULL, s->reason));
                return;
        case STATE_STOPPED:
                run_end_all(s, REASON_LOST);
                if (f)
                        f->known = false;                     /* removed with the orphans */
                if (s->disk && !d && !life_disk_was_new(s)) { /* otherwise resume makes it again */
                        log_line(LOG_LEVEL_ERROR, s->id, "its disk %s is gone", s->disk->id);
                        s->state = STATE_FAILED;
                        (void)sandbox_put(s, false);
                } else if (s->reason == REASON_ROLLBACK)
                        rollback_again(s);
                return;
        case STATE_QUARANTINED:
                s->up = f != NULL;
                if (f)
                        admission_count(s);
                return;
        case STATE_DELETING:
                s->up = f != NULL;
                go(life_delete(s, NULL, true));
                return;
        case STATE_FAILED:
                s->up = f != NULL;
                return;
        case STATE_DELETED:
        case STATE_COUNT:
        default:
                return;
        }
}

/* --- what belongs to nothing ----------------------------------------------------------------------------------------
 */

static void removed(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        (void)data;
        (void)fds;
        (void)fd_count;
        if (answer->error < 0)
                log_line(LOG_LEVEL_WARNING, NULL, "an orphan could not be removed: %s", answer->text);
}

static void remove_orphan(struct adoption *a, enum warden_item kind, const char *id) {
        static const struct {
                enum warden_kind how;
                const char *name;
        } kinds[] = {[WARDEN_ITEM_SANDBOX] = {WARDEN_STOP, "sandbox"},
                     [WARDEN_ITEM_DISK] = {WARDEN_DISK_DROP, "disk"},
                     [WARDEN_ITEM_IMAGE] = {WARDEN_IMAGE_DROP, "image"}};
        struct warden_message m = {.kind = kinds[kind].how};
        _cleanup_buf_ struct buf b = {0};

        a->orphans++;
        buf_printf(&b, "{\"what\":\"%s\",\"id\":\"%s\"}", kinds[kind].name, id);
        (void)record(a->o, LEDGER_SANDBOX_ORPHAN, kind == WARDEN_ITEM_SANDBOX ? id : "", "operator", b.data);
        copy_text(m.id, sizeof m.id, id);
        if (kind == WARDEN_ITEM_DISK)
                disk_orphan(a->o, id); /* whatever has it still ends first */
        else
                (void)warden_call(a->o, &m, NULL, 0, removed, NULL);
}

static void remove_orphans(struct adoption *a) {
        if (a->o->registry->incomplete)
                return; /* it may be somebody's after all */
        for (unsigned kind = WARDEN_ITEM_SANDBOX; kind <= WARDEN_ITEM_IMAGE;
             kind++) /* sandboxes first: they have disks */
                for (struct table_node *n = table_next(&a->items[kind], NULL); n; n = table_next(&a->items[kind], n)) {
                        const struct found *f = TABLE_OWNER(n, struct found, node);

                        if (!f->known && !(kind == WARDEN_ITEM_DISK && disk_find(a->o, f->id)) &&
                            !(kind == WARDEN_ITEM_IMAGE && image_find(a->o, f->id)))
                                remove_orphan(a, (enum warden_item)kind, f->id);
                }
}

static void log_folder(struct core *o, const char *sandbox) {
        if (!o->registry->incomplete && !sandbox_find(o, sandbox))
                run_log_remove_all(o, sandbox);
}

/* Snapshots that were being made when our predecessor died: undone, but of a quarantine made after all. Those of forks
 * go in any case: who has their layers keeps them. */
static void settle_snapshots(struct core *o) {
        struct table *t = &o->registry->snapshots;

        for (struct table_node *n = table_next(t, NULL), *next; n; n = next) {
                struct snapshot *p = TABLE_OWNER(n, struct snapshot, node);
                struct sandbox *s = sandbox_find(o, p->sandbox);

                next = table_next(t, n);
                if (p->ready && !p->fleeting)
                        continue;
                if (!p->ready && s && s->state == STATE_QUARANTINED) {
                        quarantine_again(s, p);
                        continue;
                }
                (void)record_text(o, p->ready ? LEDGER_SNAPSHOT_DELETE : LEDGER_SNAPSHOT_FAIL, p->sandbox, "operator",
                                  "why", "the operator ended");
                (void)snapshot_remove_row(p);
                o->registry->loading = true; /* disk_settle_all drops what nobody has, once */
                snapshot_unregister(p);
                o->registry->loading = false;
        }
}

/* --- the end of it --------------------------------------------------------------------------------------------------
 */

static void adoption_free(struct adoption *a) {
        loop_timer_clear(a->o->loop, &a->patience);
        for (unsigned kind = 0; kind < WARDEN_ITEM_COUNT; kind++) {
                for (struct table_node *n; (n = table_next(&a->items[kind], NULL));) {
                        table_remove(&a->items[kind], n);
                        free(TABLE_OWNER(n, struct found, node));
                }
                table_free(&a->items[kind]);
        }
        free(a);
}

static void let_in(struct adoption *a) {
        struct core *o = a->o;
        struct err err = {0};

        log_line(LOG_LEVEL_INFO, NULL, "ready: %u sandboxes taken over, %u orphans removed", a->adopted, a->orphans);
        o->registry->adoption = NULL;
        for (struct sandbox *s = o->registry->first; s; s = s->next)
                s->listed = NULL;
        adoption_free(a);
        life_watch_health(o);
        life_hold(o);
        driver_look(o);
        if (o->draining || server_open(o, o->local, &err) == 0)
                return;
        log_err(LOG_LEVEL_ERROR, NULL, &err);
        o->failed = true;
        loop_stop(o->loop);
}

static void impatient(struct loop_timer *t) {
        struct adoption *a = LOOP_OWNER(t, struct adoption, patience);

        log_line(LOG_LEVEL_WARNING, NULL, "%u sandboxes have not answered yet", a->waiting);
        let_in(a);
}

static void there_is(void *data, const struct warden_message *m, int *fds, size_t fd_count) {
        struct adoption *a = data;
        struct core *o = a->o;

        (void)fds;
        (void)fd_count;
        if (m->kind == WARDEN_ITEM) {
                take_item(a, m);
                return;
        }
        if (m->error < 0) {
                log_line(LOG_LEVEL_ERROR, NULL, "the warden does not say what there is: %s", m->text);
                o->failed = true;
                loop_stop(o->loop);
                return;
        }
        a->waiting = 1; /* ourselves */
        for (struct sandbox *s = o->registry->first, *next; s; s = next) {
                next = s->next;
                bring_together(a, s);
        }
        settle_snapshots(o);
        for (struct sandbox *s = o->registry->first; s; s = s->next)
                if (s->state == STATE_QUARANTINED && s->up && ops_idle(&s->ops))
                        quarantine_again(s, NULL);
        disk_settle_all(o);
        remove_orphans(a);
        (void)run_log_each(o, log_folder);
        if (log_share_load(o) < 0)
                log_line(LOG_LEVEL_WARNING, NULL, "out of memory: not all output of earlier runs is counted");
        a->patience.fire = impatient;
        loop_timer_set(o->loop, &a->patience, loop_now(o->loop) + PATIENCE_MS);
        one_less(o);
}

/* --- begin and end --------------------------------------------------------------------------------------------------
 */

static void gone(struct core *o, const struct warden_message *m) {
        struct sandbox *s = sandbox_find(o, m->id);

        if (s)
                life_died(s, m);
        else
                (void)pool_gone(o, m->id);
}

int life_start(struct core *o, struct err *err) {
        struct warden_message m = {.kind = WARDEN_LIST};
        struct adoption *a;

        int r = registry_open(o, err);
        if (r == 0)
                r = pool_open(o, err);
        if (r == 0)
                r = events_open(o, err);
        if (r < 0)
                return r;
        admission_open(o);
        r = load(o, err);
        if (r < 0)
                return r;
        secret_vault_open(o);
        a = calloc(1, sizeof *a);
        if (!a)
                return err_set(err, -ENOMEM, "could not begin");
        a->o = o;
        o->registry->adoption = a;
        warden_link_handlers(o, gone, NULL, life_pressure, NULL);
        r = warden_call(o, &m, NULL, 0, there_is, a);
        return r < 0 ? err_set(err, r, "could not ask the warden") : 0;
}

/* Memory alone: what lasts stays as it is. Operations that are under way are left as if we had been killed. */
void life_end(struct core *o) {
        struct registry *r = o->registry;

        r->closing = true;
        loop_timer_clear(o->loop, &r->health);
        loop_timer_clear(o->loop, &r->transfer_timer);
        loop_cancel(o->loop, &r->transfer_task);
        if (r->adoption)
                adoption_free(r->adoption);
        r->adoption = NULL;
        events_close(o);
        pool_close(o);
        secret_vault_close(o);
        registry_close(o);
}
