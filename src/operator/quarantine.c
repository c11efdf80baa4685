/* Quarantine: frozen, cut off the network, nobody connected, its disk copied as it was, and the place in the ledger
 * where the evidence is. Freezing comes first, before anything is written: what it does must stop now. */
#include "base/log.h"
#include "operator/disk.h"
#include "operator/life.h"
#include "operator/reaper.h"
#include "operator/run.h"
#include "operator/snapshot.h"
#include "operator/warden-link.h"

static void settle(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!t->call)
                return;
        sandbox_json_open(t->sandbox, &j, NULL);
        if (t->snapshot && t->snapshot->ready)
                json_str(&j, "snapshot", t->snapshot->id);
        else
                json_null(&j, "snapshot");
        json_open(&j, "evidence", '{');
        json_u64(&j, "ledger_seq", t->evidence);
        json_str(&j, "sandbox", t->sandbox->id);
        json_close(&j, '}');
        json_close(&j, '}');
        task_rows(t, call_settle(t->call, &b));
}

static void answer(struct task *t) {
        step(t->o, "quarantine.done");
        task_answer(t);
}

/* It stays in quarantine without a copy: the disk itself is still there. */
static void copied(struct task *t) {
        step(t->o, "quarantine.copied");
        store_begin(t->o->store);
        if (t->error < 0 || snapshot_complete(t) < 0) {
                (void)record_text(t->o, LEDGER_SNAPSHOT_FAIL, t->sandbox->id, "operator", "why", t->err.text);
                task_rows(t, snapshot_remove_row(t->snapshot));
                snapshot_unregister(t->snapshot);
        }
        settle(t);
        store_end(t->o->store);
        task_commit(t, answer);
}

static void copy(struct task *t) {
        step(t->o, "quarantine.row");
        if (t->error < 0) {
                task_refuse(t);
                return;
        }
        if (t->snapshot) {
                snapshot_capture(t, copied);
                return;
        }
        settle(t);
        task_commit(t, answer);
}

/* The row of the copy goes together with the state: a successor that finds it `making` makes it. */
static void announce_copy(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct snapshot *p;

        if (!s->disk || snapshot_new(t->o, s->owner, "", &p) < 0)
                return;
        snapshot_set(p, s);
        p->ledger_seq = t->evidence;
        t->snapshot = snapshot_ref(p);
        t->disk = disk_new(t->o, s->owner, s->disk->size, s->disk->inodes);
        if (!t->disk) {
                snapshot_unregister(p);
                snapshot_unref(TAKE_PTR(t->snapshot));
                return;
        }
        task_rows(t, snapshot_put(p));
}

/* It could be neither held nor killed: nobody is told that it is in quarantine. */
static void goes_on(struct task *t) {
        (void)err_hint(&t->err, "delete it by force: that ends what is left of it");
        task_gave_up(t, STATE_FAILED);
}

/* Cut off from the network, or killed where that could not be had. */
static void cut(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "quarantine.cut");
        if (t->error < 0 && t->error != -ENOENT) {
                goes_on(t);
                return;
        }
        if (!task_event(t, LEDGER_SANDBOX_QUARANTINE, t->text)) { /* it stays frozen; whoever asks again records it */
                task_refuse(t);
                return;
        }
        t->evidence = t->durable.seq;
        s->state = STATE_QUARANTINED;
        s->reason = REASON_QUARANTINE;
        reaper_look(s);
        store_begin(t->o->store);
        task_rows(t, sandbox_put(s, false));
        announce_copy(t);
        store_end(t->o->store);
        task_commit(t, copy);
}

static void cut_asked(struct task *t) {
        if (t->error == 0 || t->error == -ENOENT) {
                cut(t);
                return;
        }
        log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s cannot be cut off and is killed: %s", t->sandbox->id,
                 t->err.text);
        t->reason = REASON_QUARANTINE;
        stop_sandbox(t, cut);
}

static void frozen(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_CUT};

        step(t->o, "quarantine.frozen");
        if (t->error < 0) { /* what cannot be frozen is killed: it must not go on */
                log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s cannot be frozen and is killed: %s", s->id, t->err.text);
                t->reason = REASON_QUARANTINE;
                stop_sandbox(t, cut);
                return;
        }
        start_ward_close(s);
        run_clock(s, false);
        run_cut_off(s, "ask whoever runs this host", "the sandbox was put into quarantine");
        guest_close(s);
        copy_text(m.id, sizeof m.id, s->id);
        task_ask(t, &m, NULL, 0, cut_asked);
}

static void begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_FREEZE};
        enum state to;

        if (!task_allowed(t, EVENT_QUARANTINE, &to))
                return;
        if (s->state == to) {
                settle(t);
                task_commit(t, answer);
                return;
        }
        if (!s->up) {
                t->error = 0;
                cut(t);
                return;
        }
        copy_text(m.id, sizeof m.id, s->id);
        task_ask(t, &m, NULL, 0, frozen);
}

struct task *quarantine_begin(struct sandbox *s, struct call *call, const char *why) {
        struct task *t = task_new(s, call, begin);
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!t)
                return NULL;
        json_open(&j, NULL, '{');
        json_str(&j, "why", why);
        json_close(&j, '}');
        t->text = buf_ok(&b) ? TAKE_PTR(b.data) : NULL;
        return t;
}

/* --- after a restart ------------------------------------------------------------------------------------------------
 */

static void again_cut(struct task *t) {
        t->error = 0;
        if (t->snapshot)
                snapshot_capture(t, copied);
        else
                task_end(t);
}

static void again_frozen(struct task *t) {
        struct warden_message m = {.kind = WARDEN_CUT};

        copy_text(m.id, sizeof m.id, t->sandbox->id);
        task_ask(t, &m, NULL, 0, again_cut);
}

static void again_begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_FREEZE};

        if (t->snapshot && s->disk)
                t->disk = disk_new(t->o, s->owner, s->disk->size, s->disk->inodes);
        if (t->snapshot && !t->disk) {
                task_end(t);
                return;
        }
        if (!s->up) {
                again_cut(t);
                return;
        }
        copy_text(m.id, sizeof m.id, s->id);
        task_ask(t, &m, NULL, 0, again_frozen);
}

void quarantine_again(struct sandbox *s, struct snapshot *unfinished) {
        struct task *t = task_new(s, NULL, again_begin);

        if (!t)
                return;
        if (unfinished)
                t->snapshot = snapshot_ref(unfinished);
        task_go(t);
}
