/* The trial: three questions, one after the other, each of which says what is wrong in words.
 *
 * The sandbox has no owner and no row, as one in the pool: whoever comes after a crash finds it as an orphan. */
#include "operator/trial.h"

#include <stdio.h>

#include "base/log.h"
#include "operator/gate-private.h"
#include "operator/life.h"

#define GATE_MS 10000 /* for a gate that has to be started on a busy host */
#define LOOK_MS 20
#define STOP_MS 5000    /* until one that could not be stopped is asked to stop again */
#define OWNER   "ready" /* of the gate; no user's name */

struct trial {
        struct core *o;
        bool busy;
        struct trial_result last, now;
        struct trial_wait *waiting;
        struct durable durable;
        struct loop_timer look, stop;
        uint64_t began;
        uint64_t count;
        struct gate_ward *ward;
        struct sandbox *sandbox; /* from its start until it is known to be gone, however many trials that takes */
};

static void complain(struct trial *t, const char *what, const char *why) {
        if (!t->now.why[0])
                (void)snprintf(t->now.why, sizeof t->now.why, "%s: %s", what, why);
}

static void finish(struct trial *t) {
        struct trial_wait *w = TAKE_PTR(t->waiting);

        t->now.at = loop_now(t->o->loop);
        t->now.good = t->now.runtime && t->now.store && t->now.ledger && t->now.gate;
        if (!t->now.good && (t->last.good || t->last.at == 0))
                log_line(LOG_LEVEL_WARNING, NULL, "not ready: %s", t->now.why);
        t->last = t->now;
        t->busy = false;
        while (w) {
                struct trial_wait *next = w->next;

                w->next = NULL;
                w->done(w, &t->last);
                w = next;
        }
}

/* --- the gate: it is told of a ward without sockets, and says when the rules are in force --- */

static void look(struct loop_timer *timer) {
        struct trial *t = LOOP_OWNER(timer, struct trial, look);

        t->now.gate = t->ward->applied == t->ward->generation;
        if (!t->now.gate && loop_now(t->o->loop) - t->began < GATE_MS) {
                loop_timer_set(t->o->loop, timer, loop_now(t->o->loop) + LOOK_MS);
                return;
        }
        if (!t->now.gate)
                complain(t, "the gate does not answer",
                         t->ward->gate->failure[0] ? t->ward->gate->failure : "no word within ten seconds");
        gate_ward_close(TAKE_PTR(t->ward));
        finish(t);
}

static void try_gate(struct trial *t, const struct frozen *f) {
        struct gate_ward_plan plan = {.owner = OWNER, .sandbox = "0000000000000000"};
        struct err err = {0};

        if (!f || !f->rules) {
                t->now.gate = f != NULL;
                finish(t);
                return;
        }
        plan.limits = f->gate;
        plan.rules = f->rules;
        plan.rules_size = f->rules_size;
        if (gate_ward_open(t->o, &plan, NULL, NULL, &t->ward, &err) < 0) {
                complain(t, "no gate can be started", err.text);
                finish(t);
                return;
        }
        t->began = loop_now(t->o->loop);
        t->look.fire = look;
        loop_timer_set(t->o->loop, &t->look, t->began + LOOK_MS);
}

/* --- the sandbox --- */

static void stop_again(struct loop_timer *timer);

/* Nobody talks to it any more in any case. One that may still run stays ours: it is asked again. */
static void let_go(struct task *task) {
        struct sandbox *s = task->sandbox;
        struct trial *t = s->o->registry->trial;
        bool gone = task->error == 0;

        if (!gone)
                log_line(LOG_LEVEL_WARNING, s->id, "the sandbox of a trial could not be removed: %s", task->err.text);
        task_end(task);
        guest_close(s);
        if (gone) {
                t->sandbox = NULL;
                life_bury(s);
        } else {
                t->stop.fire = stop_again;
                loop_timer_set(t->o->loop, &t->stop, loop_now(t->o->loop) + STOP_MS);
        }
}

static void stop_begin(struct task *task) {
        task->abandon = true;
        stop_sandbox(task, let_go);
}

static void stop_again(struct loop_timer *timer) {
        struct trial *t = LOOP_OWNER(timer, struct trial, stop);
        struct task *task = task_new(t->sandbox, NULL, stop_begin);

        if (task)
                task_go(task);
        else
                loop_timer_set(t->o->loop, timer, loop_now(t->o->loop) + STOP_MS);
}

static void removed(struct task *task) {
        struct trial *t = task->sandbox->o->registry->trial;
        struct frozen *f = frozen_ref(task->sandbox->frozen);

        if (task->error < 0) {
                t->now.runtime = false;
                complain(t, "a sandbox that was started cannot be stopped", task->err.text);
        }
        let_go(task);
        try_gate(t, f);
        frozen_unref(f);
}

static void started(struct task *task) {
        struct sandbox *s = task->sandbox;
        struct trial *t = s->o->registry->trial;

        t->now.start = loop_now(t->o->loop) - t->began;
        t->now.runtime = task->error == 0 && s->up && s->guest;
        if (!t->now.runtime)
                complain(t, "no sandbox can be started", task->err.text[0] ? task->err.text : "it has no guest");
        task->abandon = true;
        task->error = 0;
        if (s->up)
                stop_sandbox(task, removed);
        else
                removed(task);
}

static void start_begin(struct task *task) {
        start_sandbox(task, started);
}

static int compile(struct core *o, struct frozen **ret, struct err *err) {
        struct frozen_request q = {.profile = "low", .memory_only = true};
        int r = ERR_UNENFORCED;

        if (o->conf.ceiling_network) {
                q.allow[0] = "ready.invalid"; /* a name that never is */
                q.allow_count = 1;
                r = frozen_compile(o, &q, ret, err);
        }
        if (r == ERR_UNENFORCED) { /* no sandbox has a network here */
                q.allow_count = 0;
                *err = (struct err){0};
                r = frozen_compile(o, &q, ret, err);
        }
        return r;
}

/* One that was started for somebody, and answers. */
static bool really_started(const struct core *o) {
        for (const struct sandbox *s = o->registry->first; s; s = s->next)
                if (s->up && s->guest && wall_ms() - s->started_ms < TRIAL_GOOD_MS)
                        return true;
        return false;
}

static void try_start(struct trial *t) {
        struct frozen *f = NULL;
        struct task *task = NULL;
        struct err err = {0};

        int r = compile(t->o, &f, &err);
        t->began = loop_now(t->o->loop);
        if (r == 0 && really_started(t->o)) {
                t->now.runtime = true;
                try_gate(t, f);
        } else if (r == 0 && t->sandbox) {
                complain(t, "no sandbox can be started", "that of an earlier trial cannot be stopped");
                try_gate(t, f);
        } else if (r == 0) {
                t->sandbox = sandbox_new(t->o, f);
                if (t->sandbox)
                        task = task_new(t->sandbox, NULL, start_begin);
                if (task) {
                        t->sandbox->state = STATE_RUNNING; /* as far as its guest and its leaves are concerned */
                        task_go(task);
                } else {
                        if (t->sandbox)
                                sandbox_free(TAKE_PTR(t->sandbox));
                        complain(t, "no sandbox can be started", "out of memory");
                        try_gate(t, f);
                }
        } else {
                complain(t, "no sandbox can be started", err.text);
                try_gate(t, NULL);
        }
        if (f)
                frozen_unref(f);
}

/* --- what is written --- */

static void written(struct durable *d, int error) {
        struct trial *t = LOOP_OWNER(d, struct trial, durable);
        struct core *o = t->o;
        int ledger = ledger_health(o->ledger), store = store_health(o->store);

        t->now.ledger = ledger == 0;
        t->now.store = store == 0 && (error == 0 || ledger < 0);
        if (!t->now.store)
                complain(t, "the store cannot be written", err_name(store < 0 ? store : error));
        if (!t->now.ledger)
                complain(t, "the ledger cannot be written", err_name(ledger));
        struct err err = {0};
        if (o->registry->incomplete)
                complain(t, "the store cannot be read whole", "look into the log");
        else if (!life_refuses(o, true, &err)) {
                try_start(t);
                return;
        } else
                complain(t, "nothing new may begin", err.text);
        try_gate(t, NULL);
}

/* A row that comes and goes in one transaction, and a checkpoint behind what the ledger has. */
static void try_write(struct trial *t) {
        struct store_request row = {.created_ms = wall_ms(), .answer = "{}", .answer_size = 2};
        struct core *o = t->o;
        int64_t seq = ledger_checkpoint(o->ledger);

        copy_text(row.owner, sizeof row.owner, OWNER);
        copy_text(row.key, sizeof row.key, OWNER);
        store_begin(o->store);
        uint64_t put = store_put(o->store, STORE_REQUEST, &row), gone = store_remove(o->store, STORE_REQUEST, &row);
        store_end(o->store);
        t->durable = (struct durable){.seq = seq > 0 ? (uint64_t)seq : 0, .ticket = MAX(put, gone), .done = written};
        durable_wait(o, &t->durable);
}

/* --- for those who ask --- */

const struct trial_result *trial_last(const struct core *o) {
        const struct trial *t = o->registry->trial;

        return t && t->last.at > 0 ? &t->last : NULL;
}

const struct trial_result *trial_fresh(const struct core *o) {
        const struct trial_result *r = trial_last(o);

        return r && loop_now(o->loop) - r->at < (r->good ? TRIAL_GOOD_MS : TRIAL_BAD_MS) ? r : NULL;
}

int trial_ask(struct core *o, struct trial_wait *w) {
        struct registry *r = o->registry;

        if (o->draining || r->adoption || r->closing)
                return -EBUSY;
        if (!r->trial && !(r->trial = calloc(1, sizeof *r->trial)))
                return -ENOMEM;
        struct trial *t = r->trial;
        t->o = o;
        if (w) {
                w->next = t->waiting;
                t->waiting = w;
        }
        if (!t->busy) {
                t->busy = true;
                t->count++;
                t->now = (struct trial_result){0};
                try_write(t);
        }
        return 0;
}

void trial_forget(struct core *o, struct trial_wait *w) {
        for (struct trial_wait **p = o->registry->trial ? &o->registry->trial->waiting : NULL; p && *p; p = &(*p)->next)
                if (*p == w) {
                        *p = w->next;
                        w->next = NULL;
                        return;
                }
}

uint64_t trial_count(const struct core *o) {
        return o->registry->trial ? o->registry->trial->count : 0;
}

bool trial_busy(const struct core *o) {
        return o->registry->trial && o->registry->trial->sandbox;
}

void trial_close(struct core *o) {
        struct trial *t = TAKE_PTR(o->registry->trial);

        if (!t)
                return;
        loop_timer_clear(o->loop, &t->look);
        loop_timer_clear(o->loop, &t->stop);
        durable_cancel(o, &t->durable);
        if (t->sandbox && ops_idle(&t->sandbox->ops)) {
                guest_close(t->sandbox);
                sandbox_free(t->sandbox);
        }
        free(t);
}
