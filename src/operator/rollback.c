/* Going back to a snapshot: a fresh disk on its layers takes the place of what the sandbox had; and deleting snapshots.
 *
 * The sandbox is stopped for it (`stopping`, reason rollback) and started again. A successor that finds it stopped for
 * this reason starts it as it was: then nothing has happened. */
#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/life.h"
#include "operator/reaper.h"
#include "operator/snapshot.h"

#define PATIENCE_MS 10000 /* for a full disk, when something was deleted from it */

static void answer(struct task *t) {
        step(t->o, "rollback.done");
        task_answer(t);
}

/* It is stopped now, whatever it was before, and says why. */
static void give_up(struct task *t) {
        struct sandbox *s = t->sandbox;

        admission_leave(s);
        task_gave_up(t, STATE_STOPPED);
        reaper_look(s);
}

static void started(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "rollback.started");
        if (t->error < 0) {
                give_up(t);
                return;
        }
        s->state = STATE_RUNNING;
        reaper_look(s);
        (void)task_event(t, LEDGER_SANDBOX_START, NULL);
        task_write(t, answer);
}

static void start(struct task *t) {
        step(t->o, "rollback.switched");
        if (t->error < 0)
                give_up(t);
        else
                start_sandbox(t, started); /* what it had goes when the task ends: no row refers to it any more */
}

static void fresh_disk(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct layers layers = {0}, before;

        step(t->o, "rollback.disk");
        if (t->error == 0 && layers_copy(&layers, NULL, &t->snapshot->layers) < 0)
                (void)task_fail(t, -ENOMEM, "out of memory");
        if (t->error < 0) {
                give_up(t);
                return;
        }
        struct disk *old = s->disk;
        s->disk = TAKE_PTR(t->disk);
        t->disk = old;
        before = s->layers;
        s->layers = layers;
        t->layers = before;
        s->state = STATE_STARTING;
        s->reason = REASON_NONE;
        store_begin(t->o->store);
        task_rows(t, disk_put(s->disk));
        task_rows(t, sandbox_put(s, false));
        store_end(t->o->store);
        task_commit(t, start);
}

static void make_disk(struct task *t) {
        struct warden_message m = {.kind = WARDEN_DISK_MAKE};

        copy_text(m.id, sizeof m.id, t->disk->id);
        m.size = t->disk->size;
        m.inodes = t->disk->inodes;
        m.owner = t->disk->owner->number;
        task_ask(t, &m, NULL, 0, fresh_disk);
}

static void stopped(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "rollback.stopped");
        if (t->error < 0) {
                struct err why = t->err;

                s->state = STATE_FAILED;
                s->reason = REASON_DRIVER_FAILED;
                (void)record_text(t->o, LEDGER_SANDBOX_FAIL, s->id, "operator", "why", why.text);
                task_rows(t, sandbox_put(s, false));
                task_commit(t, task_refuse);
                t->err = why;
                return;
        }
        s->state = STATE_STOPPED;
        (void)sandbox_put(s, false);
        make_disk(t);
}

static void stop(struct task *t) {
        step(t->o, "rollback.row");
        if (t->error < 0) {
                task_refuse(t);
                return;
        }
        t->reason = REASON_ROLLBACK;
        if (t->sandbox->up)
                stop_sandbox(t, stopped);
        else
                make_disk(t);
}

static int check(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct snapshot *p = t->snapshot;

        if (!s->disk) {
                (void)task_fail(t, ERR_REFUSED, "sandbox %s has no disk: its files are in memory", s->id);
                return err_hint(&t->err, "create another one from the snapshot instead: --snapshot %s", p->id);
        }
        if (!p->ready || !p->node.key)
                return task_fail(t, -EEXIST, "snapshot %s is not ready", p->id);
        if (p->image != s->image) {
                (void)task_fail(t, -EEXIST, "snapshot %s was taken over another image", p->id);
                return err_hint(&t->err, "create another one from it instead: --snapshot %s", p->id);
        }
        if (life_refuses(t->o, true, &t->err))
                return t->err.code;
        return admission_enter(s, 0, &t->err); /* the old disk goes, so its space is not asked for twice */
}

static void begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        enum state to;

        if (!task_allowed(t, EVENT_ROLLBACK, &to))
                return;
        bool counted = s->admitted;
        json_open(&j, NULL, '{');
        json_str(&j, "snapshot", t->snapshot->id);
        json_close(&j, '}');
        if (check(t) < 0 || !(t->disk = disk_new(t->o, s->owner, s->disk->size, s->disk->inodes)) ||
            !task_event(t, LEDGER_SNAPSHOT_ROLLBACK, b.data)) {
                if (t->err.code == 0)
                        (void)task_fail(t, -ENOMEM, "out of memory");
                if (!counted)
                        admission_leave(s);
                task_refuse(t);
                return;
        }
        if (s->up) {
                s->state = STATE_STOPPING;
                s->reason = REASON_ROLLBACK;
                task_rows(t, sandbox_put(s, false));
        }
        task_commit(t, stop);
}

/* --- after a restart ------------------------------------------------------------------------------------------------
 */

/* It was stopped for a rollback, or half-way there: it is started as it is, in one go, and nobody sees it stopped. */
static void again_start(struct task *t) {
        struct sandbox *s = t->sandbox;

        admission_count(s); /* it was in before */
        s->state = STATE_STARTING;
        task_rows(t, sandbox_put(s, false));
        task_commit(t, start);
}

static void again_stopped(struct task *t) {
        struct sandbox *s = t->sandbox;

        if (t->error == 0) {
                again_start(t);
                return;
        }
        s->state = STATE_FAILED;
        s->reason = REASON_DRIVER_FAILED;
        (void)sandbox_put(s, false);
        task_end(t);
}

static void again_begin(struct task *t) {
        t->reason = REASON_ROLLBACK;
        if (t->sandbox->state == STATE_STOPPED)
                again_start(t);
        else
                stop_sandbox(t, again_stopped);
}

void rollback_again(struct sandbox *s) {
        struct task *t = task_new(s, NULL, again_begin);

        if (t)
                task_go(t);
}

struct task *snapshot_rollback(struct sandbox *s, struct call *call, struct snapshot *to) {
        struct task *t = task_new(s, call, begin);

        if (t)
                t->snapshot = snapshot_ref(to);
        return t;
}

/* --- delete ---------------------------------------------------------------------------------------------------------
 */

struct removal {
        struct core *o;
        struct call *call;
        struct snapshot *snapshot; /* NULL: gone already */
        struct durable durable;
};

static void removed(struct durable *d, int error) {
        struct removal *r = LOOP_OWNER(d, struct removal, durable);
        struct buf nothing = {0};

        step(r->o, "snapshot-delete.row");
        bool had = r->snapshot != NULL;
        if (had)
                snapshot_unref(TAKE_PTR(r->snapshot)); /* its layers go with the last who has them */
        if (error < 0 && had) {                        /* and make room for the row, which waits in memory */
                d->patience = loop_now(r->o->loop) + PATIENCE_MS;
                durable_wait(r->o, d);
                return;
        }
        if (error < 0)
                call_refuse_text(r->call, "full", "make room on the disk of the state folder",
                                 "it is deleted, but that could not be written down yet: %s", err_name(error));
        else
                call_answer(r->call, &nothing);
        free(r);
}

void snapshot_delete(struct core *o, struct call *call, struct snapshot *p) {
        struct removal *r = calloc(1, sizeof *r);
        int64_t seq = 0;

        if (!p->ready) {
                free(r);
                call_refuse_text(call, "conflict", "try again in a moment", "snapshot %s is being made", p->id);
                return;
        }
        if (r)
                seq = record_text(o, LEDGER_SNAPSHOT_DELETE, p->sandbox, call->actor, "snapshot", p->id);
        if (!r || (seq < 0 && o->conf.require_recording)) {
                free(r);
                call_refuse_text(call, "full", "make room on the disk of the ledger", "it cannot be recorded now");
                return;
        }
        *r = (struct removal){.o = o, .call = call, .snapshot = snapshot_ref(p)};
        r->durable = (struct durable){.seq = seq > 0 ? (uint64_t)seq : 0, .ticket = snapshot_bury(p), .done = removed};
        snapshot_unregister(p);
        durable_wait(o, &r->durable);
}
