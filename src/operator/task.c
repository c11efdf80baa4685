/* Steps that wait. Nothing here knows what an operation does. */
#include "operator/task.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "operator/disk.h"
#include "operator/snapshot.h"
#include "operator/warden-link.h"

#ifdef STOCKADE_TEST_BUILD
/* STOCKADE_STEP=label: the process dies here, as by kill -9, the first time that it passes. */
void step(struct core *o, const char *label) {
        const char *wanted = getenv("STOCKADE_STEP");
        char mark[96];

        if (!wanted || !str_eq(wanted, label))
                return;
        (void)snprintf(mark, sizeof mark, "step-%.80s", label);
        _cleanup_fd_ int once = openat(o->state, mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (once >= 0)
                _exit(137); /* all threads, at once, with nothing flushed; a kill is not permitted here */
}
#endif

static void begin(struct op *op) {
        struct task *t = LOOP_OWNER(op, struct task, op);

        t->begin(t);
}

struct task *task_new(struct sandbox *s, struct call *call, void (*first)(struct task *t)) {
        struct task *t = calloc(1, sizeof *t);

        if (!t) {
                if (call)
                        call_refuse_text(call, "failed", "try again", "out of memory");
                return NULL;
        }
        t->o = s->o;
        t->sandbox = s;
        t->call = call;
        copy_text(t->actor, sizeof t->actor, call ? call->actor : "operator");
        t->begin = first;
        t->op.begin = begin;
        for (unsigned i = 0; i < ELEMENTSOF(t->authority); i++)
                t->authority[i] = -EBADF;
        return t;
}

void task_go(struct task *t) {
        op_add(&t->sandbox->ops, &t->op);
}

int task_fail(struct task *t, int code, const char *format, ...) {
        va_list args;

        t->err = (struct err){.code = code};
        va_start(args, format);
        (void)vsnprintf(t->err.text, sizeof t->err.text, format, args);
        va_end(args);
        t->error = code;
        return code;
}

bool task_event(struct task *t, enum ledger_kind kind, const char *data) {
        uint64_t seq = 0;

        t->error = record_needed(t->o, kind, t->sandbox->id, t->actor, data, &seq, &t->err);
        if (t->error < 0)
                return false;
        t->durable.seq = MAX(t->durable.seq, seq);
        return true;
}

void task_rows(struct task *t, uint64_t ticket) {
        t->durable.ticket = MAX(t->durable.ticket, ticket);
}

static void durable(struct durable *d, int error) {
        struct task *t = LOOP_OWNER(d, struct task, durable);

        d->seq = d->ticket = d->patience = 0;
        t->error = error;
        if (error < 0) {
                t->unsure = true;
                (void)task_fail(t, error == -EIO ? -ENOSPC : error, "it could not be written down: %s",
                                err_name(error));
                (void)err_hint(&t->err, "make room on the disk of the state folder");
        }
        t->next(t);
}

void task_commit(struct task *t, void (*next)(struct task *t)) {
        t->next = next;
        t->durable.done = durable;
        durable_wait(t->o, &t->durable);
}

static void close_fds(struct task *t) {
        for (size_t i = 0; i < t->fd_count; i++)
                fd_close(&t->fds[i]);
        t->fd_count = 0;
}

void task_answered(struct task *t, const struct warden_message *answer, int *fds, size_t fd_count) {
        close_fds(t);
        t->answer = *answer;
        t->answer.text = t->answer.hint = "";
        t->error = answer->error;
        if (t->error < 0) {
                t->err = (struct err){.code = t->error};
                copy_text(t->err.text, sizeof t->err.text,
                          answer->text && answer->text[0] ? answer->text : err_name(t->error));
                copy_text(t->err.hint, sizeof t->err.hint, answer->hint ? answer->hint : "");
        }
        for (size_t i = 0; i < fd_count; i++)
                t->fds[t->fd_count++] = TAKE_FD(fds[i]);
}

static void answered(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct task *t = data;

        task_answered(t, answer, fds, fd_count);
        t->next(t);
}

/* What could not even be asked is answered like everything else: later. */
static void could_not_ask(struct durable *d, int error) {
        struct task *t = LOOP_OWNER(d, struct task, durable);

        (void)error;
        (void)task_fail(t, -EAGAIN, "the warden cannot be asked now: %s", err_name(t->answer.error));
        t->next(t);
}

void task_ask(struct task *t, struct warden_message *m, const int *fds, size_t fd_count, void (*next)(struct task *t)) {
        t->next = next;
        int r = warden_call(t->o, m, fds, fd_count, answered, t);
        if (r == -EPIPE)
                return; /* the warden is gone and we end: nothing may be concluded from that, and nobody is told */
        if (r < 0) {
                t->answer.error = r;
                t->durable.done = could_not_ask;
                durable_wait(t->o, &t->durable);
        }
}

void task_settle(struct task *t) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (!t->call)
                return;
        sandbox_json(t->sandbox, &j, NULL);
        task_rows(t, call_settle(t->call, &b));
}

void task_answer(struct task *t) {
        if (t->error < 0)
                task_refuse(t);
        else
                task_finish(t);
}

void task_write(struct task *t, void (*next)(struct task *t)) {
        store_begin(t->o->store);
        task_rows(t, sandbox_put(t->sandbox, false));
        task_settle(t);
        store_end(t->o->store);
        task_commit(t, next);
}

void task_gave_up(struct task *t, enum state now) {
        struct sandbox *s = t->sandbox;
        struct err why = t->err;

        s->state = now;
        s->reason = REASON_DRIVER_FAILED;
        (void)record_text(t->o, LEDGER_SANDBOX_FAIL, s->id, "operator", "why", why.text);
        task_rows(t, sandbox_put(s, false));
        task_commit(t, task_refuse);
        t->err = why;
}

void task_end(struct task *t) {
        struct sandbox *s = t->sandbox;

        durable_cancel(t->o, &t->durable);
        close_fds(t);
        for (unsigned i = 0; i < ELEMENTSOF(t->authority); i++)
                fd_close(&t->authority[i]);
        if (t->unsure) /* rows that name them may be the ones that last: the next start sees which */
                free(t->layers.items);
        else {
                layers_clear(&t->layers);
                disk_unref(t->disk);
        }
        if (t->snapshot)
                snapshot_unref(t->snapshot);
        if (t->frozen)
                frozen_unref(t->frozen);
        free(t->text);
        op_done(&s->ops);
        free(t);
}

void task_finish(struct task *t) {
        if (t->call)
                call_done(TAKE_PTR(t->call));
        task_end(t);
}

void task_refuse(struct task *t) {
        if (t->call)
                call_refuse(TAKE_PTR(t->call), &t->err);
        task_end(t);
}

void conflict_text(const struct sandbox *s, enum event e, struct err *err) {
        char allowed[160];

        *err = (struct err){.code = -EEXIST};
        (void)snprintf(err->text, sizeof err->text, "sandbox %s is %s: it cannot be given '%s' now",
                       s->name[0] ? s->name : s->id, state_name(s->state), event_name(e));
        (void)snprintf(err->hint, sizeof err->hint, "allowed now: %s",
                       state_allowed_text(s->state, allowed, sizeof allowed));
}

bool task_allowed(struct task *t, enum event e, enum state *ret) {
        if (t->sandbox->state == STATE_DELETED && e != EVENT_DELETE) {
                (void)task_fail(t, -ENOENT, "sandbox %s has been deleted", t->sandbox->id);
                task_refuse(t);
                return false;
        }
        if (state_move(t->sandbox->state, e, ret))
                return true;
        conflict_text(t->sandbox, e, &t->err);
        task_refuse(t);
        return false;
}
