/* Making snapshots, and going back to them.
 *
 * Of a stopped sandbox: its disk is sealed and a fresh one put on top; of a running one: frozen, copied, thawed. The
 * row is `making` first and `ready` together with everything that it changes, in one group: one that failed, or was
 * interrupted, changed nothing, and what was made for it belongs to nobody and is removed. */
#include "operator/snapshot.h"

#include <time.h>

#include "base/log.h"
#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/life.h"
#include "operator/reaper.h"
#include "operator/run.h"

static uint64_t now_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* For its snapshot alone: it is neither paused nor held. */
static bool stands_still(const struct sandbox *s) {
        return s->up && s->state == STATE_RUNNING && !s->pressed;
}

/* --- a copy of a disk in use ----------------------------------------------------------------------------------------
 */

static void ask_durable(struct task *t, const struct disk *d, void (*next)(struct task *t)) {
        struct warden_message m = {.kind = WARDEN_DISK_SPACE, .flags = WARDEN_DURABLE};

        copy_text(m.id, sizeof m.id, d->id);
        task_ask(t, &m, NULL, 0, next);
}

/* The sandbox goes on; the copy is put where a loss of power does not lose it. */
static void keep(struct task *t) {
        if (t->error < 0)
                t->then(t);
        else
                ask_durable(t, t->disk, t->then);
}

static void thawed(struct task *t) {
        struct sandbox *s = t->sandbox;

        step(t->o, "snapshot.thawed");
        t->snapshot->pause_us = now_us() - t->began_us;
        run_clock(s, !s->pressed && s->state == STATE_RUNNING);
        if (t->error < 0) {
                log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s could not be thawed after a snapshot: %s", s->id,
                         t->err.text);
                s->pressed = true; /* as if it were held: it is tried again until it goes on */
        }
        t->error = 0;
        if (t->data) { /* the copy had failed */
                t->err = *(struct err *)t->data;
                t->error = t->err.code;
        }
        free(TAKE_PTR(t->data));
        keep(t);
}

static void thaw(struct task *t) {
        struct warden_message m = {.kind = WARDEN_THAW};

        if (t->error < 0) {
                struct err *why = malloc(sizeof *why);

                if (why)
                        *why = t->err;
                t->data = why;
        }
        if (!stands_still(t->sandbox)) {
                if (t->data) {
                        t->error = t->err.code;
                        free(TAKE_PTR(t->data));
                }
                keep(t);
                return;
        }
        copy_text(m.id, sizeof m.id, t->sandbox->id);
        task_ask(t, &m, NULL, 0, thawed);
}

static void copied(struct task *t) {
        step(t->o, "snapshot.copied");
        if (t->error == -ETIMEDOUT) /* it may be asked for again */
                t->error = t->err.code = -EBUSY;
        thaw(t);
}

static void copy(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_DISK_CLONE, .flags = s->up ? WARDEN_FROZEN : 0};

        step(t->o, "snapshot.frozen");
        if (t->error < 0) {
                t->then(t);
                return;
        }
        copy_text(m.id, sizeof m.id, s->disk->id);
        copy_text(m.target, sizeof m.target, t->disk->id);
        if (stands_still(s))
                m.numbers[0] = t->o->conf.snapshot_pause;
        task_ask(t, &m, NULL, 0, copied);
}

void snapshot_capture(struct task *t, void (*then)(struct task *t)) {
        struct sandbox *s = t->sandbox;
        struct warden_message m = {.kind = WARDEN_FREEZE};

        t->then = then;
        t->began_us = now_us();
        t->error = 0;
        if (!stands_still(s)) {
                copy(t);
                return;
        }
        run_clock(s, false);
        copy_text(m.id, sizeof m.id, s->id);
        task_ask(t, &m, NULL, 0, copy);
}

/* --- made -----------------------------------------------------------------------------------------------------------
 */

int snapshot_complete(struct task *t) {
        struct snapshot *p = t->snapshot;
        struct sandbox *s = t->sandbox;

        if (layers_copy(&p->layers, t->disk, &s->layers) < 0)
                return -ENOMEM;
        p->ready = true;
        t->disk->sealed = true;
        task_rows(t, disk_put(t->disk));
        task_rows(t, snapshot_put(p));
        disk_unref(TAKE_PTR(t->disk)); /* the snapshot has it */
        return 0;
}

static void settle(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!t->call)
                return;
        snapshot_json(t->snapshot, &j, NULL);
        task_rows(t, call_settle(t->call, &b));
}

static void answer(struct task *t) {
        step(t->o, "snapshot.done");
        flatten_look(t->sandbox);
        if (t->error < 0)
                task_refuse(t);
        else
                task_finish(t);
}

static void failed(struct task *t) {
        task_refuse(t);
}

/* Nothing has changed; the row that announced it goes. */
static void fail(struct task *t) {
        struct err why = t->err;

        (void)record_text(t->o, LEDGER_SNAPSHOT_FAIL, t->sandbox->id, "operator", "why", why.text);
        if (why.code == 0)
                why.code = -EIO;
        if (why.code == -ENOSPC && !why.hint[0])
                (void)err_hint(&why, "nothing has changed; delete sandboxes or snapshots, or make room, and ask again");
        task_rows(t, snapshot_remove_row(t->snapshot));
        snapshot_unregister(t->snapshot);
        task_commit(t, failed);
        t->err = why;
}

static void measured(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct snapshot *p = t->snapshot;
        int r;

        step(t->o, "snapshot.made");
        if (t->error < 0) {
                fail(t);
                return;
        }
        p->bytes = t->answer.numbers[WARDEN_SPACE_HOST];
        store_begin(t->o->store);
        if (t->live)
                r = snapshot_complete(t);
        else { /* the disk becomes a layer of both, under a fresh one */
                struct layers below = {0};

                r = layers_copy(&p->layers, s->disk, &s->layers);
                if (r == 0)
                        r = layers_copy(&below, NULL, &p->layers);
                if (r == 0) {
                        struct disk *sealed = s->disk;

                        layers_clear(&s->layers);
                        s->layers = below;
                        s->disk = TAKE_PTR(t->disk);
                        disk_seal(sealed);
                        p->ready = true;
                        task_rows(t, disk_put(sealed));
                        task_rows(t, disk_put(s->disk));
                        task_rows(t, sandbox_put(s, false));
                        task_rows(t, snapshot_put(p));
                        disk_unref(sealed);
                }
        }
        if (r == 0)
                settle(t);
        store_end(t->o->store);
        if (r < 0) {
                (void)task_fail(t, r, "out of memory");
                fail(t);
                return;
        }
        if (t->live)
                disk_seal(p->layers.items[0]);
        task_commit(t, answer);
}

/* The fresh disk is durable, and so has to be what it is put over: it may have been written to a moment ago. */
static void kept(struct task *t) {
        if (t->error < 0)
                fail(t);
        else
                ask_durable(t, t->sandbox->disk, measured);
}

static void made(struct task *t) {
        if (t->error < 0)
                fail(t);
        else
                ask_durable(t, t->disk, kept);
}

static void act(struct task *t) {
        struct warden_message m = {.kind = WARDEN_DISK_MAKE};

        step(t->o, "snapshot.row");
        if (t->error < 0) {
                fail(t);
                return;
        }
        if (t->live) {
                snapshot_capture(t, measured);
                return;
        }
        copy_text(m.id, sizeof m.id, t->disk->id);
        m.size = t->disk->size;
        m.inodes = t->disk->inodes;
        m.owner = t->disk->owner->number;
        task_ask(t, &m, NULL, 0, made);
}

/* --- begin ----------------------------------------------------------------------------------------------------------
 */

static int check(struct task *t) {
        struct sandbox *s = t->sandbox;

        if (!s->disk) {
                (void)task_fail(t, ERR_REFUSED, "sandbox %s has no disk: its files are in memory", s->id);
                return err_hint(&t->err, "create one with a workspace that is not /tmp, and without memory_only");
        }
        if (s->layers.count + 1 >= SANDBOX_LAYERS_MAX) {
                (void)task_fail(t, -EBUSY, "its disk has %zu layers, which are being made one", s->layers.count);
                (void)err_hint(&t->err, "stop it and resume it, then try again");
                return -EBUSY;
        }
        if (life_refuses(t->o, true, &t->err) || admission_one_more(t->o, s->owner, TALLY_SNAPSHOTS, &t->err) < 0)
                return t->err.code;
        return admission_check(t->o, s->owner, &(struct share){.disk = s->disk->size}, &t->err);
}

static bool prepare(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct snapshot *p;

        int r = snapshot_new(t->o, s->owner, t->text ? t->text : "", &p);
        if (r < 0) {
                (void)task_fail(t, r, r == -EEXIST ? "there is a snapshot '%s' already" : "out of memory", t->text);
                return false;
        }
        snapshot_set(p, s);
        p->fleeting = t->fleeting;
        t->snapshot = snapshot_ref(p);
        t->disk = disk_new(t->o, s->owner, s->disk->size, s->disk->inodes);
        if (!t->disk)
                (void)task_fail(t, -ENOMEM, "out of memory");
        return t->disk != NULL;
}

static bool announce(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "snapshot", t->snapshot->id);
        json_str(&j, "name", t->snapshot->name);
        json_close(&j, '}');
        return task_event(t, LEDGER_SNAPSHOT_MAKE, b.data);
}

static void begin(struct task *t) {
        struct sandbox *s = t->sandbox;
        enum state to;

        if (!task_allowed(t, EVENT_SNAPSHOT, &to))
                return;
        t->live = s->up;
        if (check(t) < 0 || !prepare(t) || !announce(t)) {
                if (t->snapshot)
                        snapshot_unregister(t->snapshot);
                task_refuse(t);
                return;
        }
        t->snapshot->ledger_seq = t->durable.seq;
        task_rows(t, snapshot_put(t->snapshot));
        task_commit(t, act);
}

struct task *snapshot_make(struct sandbox *s, struct call *call, const char *name) {
        struct task *t = task_new(s, call, begin);

        if (t)
                t->text = strdup(name);
        return t;
}
