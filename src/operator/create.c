/* Creating a sandbox: from the pool if one is ready, otherwise from nothing; or a fork of a snapshot.
 *
 * From nothing: row `creating` and event durable → disk → start → row `running` durable → answer. Nobody was told
 * before the last step, so a successor that finds `creating` undoes it. From the pool it runs already, in nobody's
 * name: one group of rows makes it somebody's. */
#include "base/log.h"
#include "operator/admission.h"
#include "operator/disk.h"
#include "operator/image.h"
#include "operator/life.h"
#include "operator/pool.h"
#include "operator/reaper.h"
#include "operator/run.h"
#include "operator/secret-vault.h"
#include "operator/snapshot.h"
#include "operator/warden-link.h"

#define NETWORK_MS  50 /* between tries to get its sockets; longer each time */
#define NETWORK_SAY 8

static void describe(const struct sandbox *s, struct buf *b) {
        struct json j = {.out = b};

        json_open(&j, NULL, '{');
        json_str(&j, "name", s->name);
        json_str(&j, "profile", s->profile);
        json_str(&j, "owner", s->owner->name);
        json_str(&j, "policy", s->frozen->key);
        json_str(&j, "driver", driver_name(s->driver));
        if (s->image)
                json_str(&j, "image", s->image->id);
        if (s->origin[0])
                json_str(&j, "snapshot", s->origin);
        json_bool(&j, "pool", s->from_pool);
        json_close(&j, '}');
}

/* --- undoing --------------------------------------------------------------------------------------------------------
 */

static void undo_free(struct task *t) {
        struct sandbox *s = t->sandbox;

        s->state = STATE_DELETED;
        if (t->call)
                call_refuse(TAKE_PTR(t->call), &t->err);
        task_end(t);
        life_bury(s);
}

static void undo_rows(struct task *t) {
        struct sandbox *s = t->sandbox;
        struct store_sandbox row = {0};

        s->state = STATE_DELETED;
        admission_leave(s);
        copy_text(row.id, sizeof row.id, s->id);
        task_rows(t, store_remove(t->o->store, STORE_SANDBOX, &row));
        sandbox_unregister(s);
        struct err why = t->err;
        task_commit(t, undo_free); /* its disk goes when this is durable */
        t->err = why;
}

static void undo_stopped(struct task *t) {
        if (t->error < 0)
                log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s, which was not finished, cannot be stopped: %s",
                         t->sandbox->id, t->answer.text);
        t->err = *(struct err *)t->data;
        free(TAKE_PTR(t->data));
        undo_rows(t);
}

/* Whatever there is of it goes; t->err is told to whoever asked. */
void create_undo(struct task *t) {
        struct err *why = malloc(sizeof *why);

        (void)record_text(t->o, LEDGER_SANDBOX_FAIL, t->sandbox->id, "operator", "why", t->err.text);
        if (!why) {
                undo_rows(t);
                return;
        }
        *why = t->err;
        t->data = why;
        t->reason = REASON_DRIVER_FAILED;
        t->abandon = true;
        stop_sandbox(t, undo_stopped);
}

/* --- from nothing ---------------------------------------------------------------------------------------------------
 */

static void finish(struct task *t) {
        step(t->o, "create.done");
        if (t->error < 0) {
                create_undo(t);
                return;
        }
        pool_wanted(t->o, t->sandbox->frozen, t->sandbox->driver);
        task_finish(t);
}

static void become_running(struct task *t) {
        struct sandbox *s = t->sandbox;

        s->state = STATE_RUNNING;
        reaper_look(s);
        flatten_look(s);
        if (!task_event(t, LEDGER_SANDBOX_START, NULL)) {
                create_undo(t);
                return;
        }
        store_begin(t->o->store);
        task_rows(t, sandbox_put(s, false));
        task_settle(t);
        store_end(t->o->store);
        task_commit(t, finish);
}

static void started(struct task *t) {
        step(t->o, "create.started");
        if (t->error < 0)
                create_undo(t);
        else
                become_running(t);
}

static void disk_made(struct task *t) {
        step(t->o, "create.disk");
        if (t->error < 0)
                create_undo(t);
        else
                start_sandbox(t, started);
}

static void row_durable(struct task *t) {
        step(t->o, "create.row");
        if (t->error < 0)
                create_undo(t);
        else
                start_disk(t, disk_made);
}

static void cold_begin(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct sandbox *s = t->sandbox;

        describe(s, &b);
        if (!buf_ok(&b) || !task_event(t, s->origin[0] ? LEDGER_SNAPSHOT_FORK : LEDGER_SANDBOX_CREATE, b.data)) {
                undo_rows(t);
                return;
        }
        store_begin(t->o->store);
        if (s->disk)
                task_rows(t, disk_put(s->disk));
        task_rows(t, sandbox_put(s, true));
        task_rows(t, secret_put(s));
        store_end(t->o->store);
        task_commit(t, row_durable);
}

/* --- from the pool --------------------------------------------------------------------------------------------------
 */

static void ask_network(struct sandbox *s);

static void ask_again(struct loop_timer *timer) {
        ask_network(LOOP_OWNER(timer, struct sandbox, network_timer));
}

/* Sockets that a gate of our predecessor still holds, while it dies, cannot be had yet. */
static void network_there(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct sandbox *s = LOOP_OWNER(data, struct sandbox, network_timer);

        if (!s->up || !s->ward)
                return;
        if (answer->error < 0) {
                if (++s->network_tries % NETWORK_SAY == 0)
                        log_line(LOG_LEVEL_WARNING, s->id, "its network has no gate: %s", answer->text);
                s->network_timer.fire = ask_again;
                loop_timer_set(s->o->loop, &s->network_timer,
                               loop_now(s->o->loop) + (uint64_t)NETWORK_MS * MIN(s->network_tries, 50U));
                return;
        }
        gate_ward_sockets(s->ward, fds, fd_count);
        for (size_t i = 0; i < fd_count; i++)
                fds[i] = -EBADF;
}

static void ask_network(struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_NETWORK};

        copy_text(m.id, sizeof m.id, s->id);
        if (s->up && s->ward)
                (void)warden_call(s->o, &m, NULL, 0, network_there, &s->network_timer);
}

/* The sockets of its network go to its owner's gate. */
int create_network(struct sandbox *s, struct err *err) {
        if (!s->frozen->rules || s->ward)
                return 0;
        int r = start_ward(s, NULL, err);
        if (r == 0) {
                s->network_tries = 0;
                ask_network(s);
        }
        return r;
}

static void pooled_begin(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct sandbox *s = t->sandbox;

        describe(s, &b);
        if (create_network(s, &t->err) < 0 || !buf_ok(&b) || !task_event(t, LEDGER_SANDBOX_CREATE, b.data) ||
            !task_event(t, LEDGER_SANDBOX_START, NULL)) {
                create_undo(t);
                return;
        }
        reaper_look(s);
        store_begin(t->o->store);
        if (s->disk)
                task_rows(t, disk_put(s->disk));
        task_rows(t, sandbox_put(s, true));
        task_rows(t, secret_put(s));
        task_settle(t);
        store_end(t->o->store);
        task_commit(t, finish);
}

/* --- the request ----------------------------------------------------------------------------------------------------
 */

static int make_parts(struct sandbox *s, const struct create_request *q, struct err *err) {
        const struct frozen *f = s->frozen;

        s->driver = q->driver;
        copy_text(s->driver_why, sizeof s->driver_why, q->driver_why);
        if (q->image) {
                s->image = q->image;
                s->image->refs++;
        }
        if (q->snapshot) {
                copy_text(s->origin, sizeof s->origin, q->snapshot->id);
                copy_text(s->profile, sizeof s->profile, q->snapshot->profile);
                if (layers_copy(&s->layers, NULL, &q->snapshot->layers) < 0)
                        return call_err(err, -ENOMEM, "out of memory");
        }
        if (f->disk && !s->disk) {
                s->disk = disk_new(s->o, s->owner, f->disk_size, f->disk_inodes);
                if (!s->disk)
                        return call_err(err, -ENOMEM, "out of memory");
        }
        return 0;
}

static int prepare(struct sandbox *s, const struct create_request *q, struct owner *owner, struct err *err) {
        int r = sandbox_register(s, owner, q->name);

        if (r == -EEXIST) {
                (void)call_err(err, -EEXIST, "there is a sandbox '%s' already", q->name);
                return err_hint(err, "choose another name, or delete that one");
        }
        if (r < 0)
                return call_err(err, r, "out of memory");
        r = admission_enter(s, s->frozen->disk ? s->frozen->disk_size : 0, err);
        if (r == 0 && s->disk)
                disk_own(s->disk, owner);
        return r < 0 ? r : make_parts(s, q, err);
}

static void give_up(struct sandbox *s, bool pooled) {
        admission_leave(s);
        sandbox_unregister(s);
        if (pooled)
                pool_discard(s); /* it was taken from there, and goes back to nobody */
        else
                sandbox_free(s);
}

void create_sandbox(struct core *o, struct call *call, struct create_request *q) {
        struct owner *owner = owner_get(o, q->owner);
        struct err err = {0};
        bool writes = q->frozen->disk;
        struct sandbox *s = NULL;
        struct task *t = NULL;

        if (life_refuses(o, writes, &err) || (q->secrets && secret_vault_ready(o, &err) < 0))
                goto refuse;
        if (o->registry->sandboxes.count >= SANDBOXES_MAX) {
                (void)call_err(&err, ERR_LIMIT, "there are %d sandboxes, stopped ones included", SANDBOXES_MAX);
                (void)err_hint(&err, "delete those that are not needed");
                goto refuse;
        }
        if (!q->snapshot && !q->image)
                s = pool_take(o, q->frozen, q->driver);
        bool pooled = s != NULL;
        if (!s)
                s = sandbox_new(o, q->frozen);
        if (!s || !owner) {
                (void)call_err(&err, -ENOMEM, "out of memory");
                goto refuse;
        }
        if (prepare(s, q, owner, &err) < 0 || !(t = task_new(s, call, pooled ? pooled_begin : cold_begin))) {
                give_up(s, pooled);
                if (err.code < 0)
                        goto refuse;
                return;
        }
        secret_set(s, TAKE_PTR(q->secrets));
        task_go(t);
        return;
refuse:
        call_refuse(call, &err);
}
