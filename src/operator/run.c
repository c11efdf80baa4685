/* Beginning runs, and what the guest says about them. A run takes the spare leaf and is one frame to the guest: nothing
 * else is waited for, unless it has a key (then its row is durable first, so that it never begins twice). */
#include "operator/run.h"

#include <stdio.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/life.h"
#include "operator/reaper.h"
#include "operator/warden-link.h"

#define SPARE_MS     1000  /* a leaf that nobody took is given back */
#define NUMBERS_LOST 64    /* runs that an operator may have begun in the moment before it died */
#define WAIT_MS      10000 /* for a leaf, or for the guest's connection */

struct run *run_new(struct sandbox *s) {
        struct run *r = calloc(1, sizeof *r);

        if (!r)
                return NULL;
        r->sandbox = s;
        r->generation = s->generation;
        r->timeout = FROZEN_UNSET;
        r->logs[RUN_OUT].fd = r->logs[RUN_ERR].fd = -EBADF;
        for (unsigned i = 0; i < GUEST_FDS_MAX; i++)
                r->fds[i] = -EBADF;
        return r;
}

void run_free(struct run *r) {
        struct sandbox *s = r->sandbox;

        for (struct run **p = r->ghost ? &s->ghosts : &s->runs; *p; p = &(*p)->next)
                if (*p == r) {
                        *p = r->next;
                        s->run_count -= !r->ghost;
                        break;
                }
        loop_timer_clear(s->o->loop, &r->timer);
        durable_cancel(s->o, &r->begun);
        durable_cancel(s->o, &r->over);
        run_log_close(r);
        log_share_leave(r);
        for (unsigned i = 0; i < GUEST_FDS_MAX; i++)
                fd_close(&r->fds[i]);
        free(r->command);
        free(r->strings);
        free(r->cwd);
        free(r);
}

unsigned run_active(const struct sandbox *s) {
        unsigned n = 0;

        for (const struct run *r = s->runs; r; r = r->next)
                n += r->phase != RUN_ENDED;
        return n;
}

struct run *run_find(const struct sandbox *s, uint32_t number) {
        for (struct run *r = s->runs; r; r = r->next)
                if (r->number == number)
                        return r;
        return NULL;
}

/* --- leaves ---------------------------------------------------------------------------------------------------------
 */

static void feed(struct sandbox *s);

static void spare_gone(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct sandbox *s = LOOP_OWNER(data, struct sandbox, spare);
        uint32_t run = s->spare.run;

        (void)fds;
        (void)fd_count;
        s->spare = (struct spare){0};
        if ((answer->error == 0 || answer->error == -EOPNOTSUPP) && s->next_run == run + 1)
                s->next_run = run; /* nothing ever ran under this number */
        for (const struct run *r = s->runs; r; r = r->next)
                if (r->phase == RUN_WAITING && r->number == 0) {
                        run_prepare_spare(s);
                        return;
                }
}

/* An idle sandbox has no leaf too many: the kernel keeps some hundred kilobytes for each memory cgroup where there are
 * a thousand sandboxes. One that waits in the pool keeps it. */
static void spare_unused(struct loop_timer *timer) {
        struct sandbox *s = LOOP_OWNER(timer, struct sandbox, spare_timer);
        struct warden_message m = {.kind = WARDEN_LEAF_END, .run = s->spare.run};

        if (!s->spare.ready || !s->owner || !s->up || s->runs)
                return;
        copy_text(m.id, sizeof m.id, s->id);
        if (warden_call(s->o, &m, NULL, 0, spare_gone, &s->spare) < 0)
                return;
        for (unsigned i = 0; i < s->spare.count; i++)
                fd_close(&s->spare.fds[i]);
        s->spare.count = 0;
        s->spare.ready = false;
}

static void leaf_ready(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct sandbox *s = LOOP_OWNER(data, struct sandbox, spare);

        if (answer->error < 0) {
                log_line(LOG_LEVEL_WARNING, NULL, "sandbox %s: no leaf for a run: %s", s->id, answer->text);
                s->spare.run = 0;
                for (struct run *r = s->runs, *next; r; r = next) {
                        next = r->next;
                        if (r->phase != RUN_WAITING || r->number)
                                continue;
                        call_refuse_text(TAKE_PTR(r->call), call_code(answer->error), answer->hint,
                                         "no cgroup could be made for the run: %s", answer->text);
                        run_free(r);
                }
                return;
        }
        for (size_t i = 0; i < fd_count && i < GUEST_FDS_MAX; i++)
                s->spare.fds[s->spare.count++] = TAKE_FD(fds[i]);
        s->spare.ready = true;
        s->spare_timer.fire = spare_unused;
        loop_timer_set(s->o->loop, &s->spare_timer, loop_now(s->o->loop) + SPARE_MS);
        feed(s);
}

void run_prepare_spare(struct sandbox *s) {
        struct warden_message m = {.kind = WARDEN_LEAF};

        if (s->spare.run || !s->up || s->next_run == UINT32_MAX)
                return;
        s->spare = (struct spare){.run = s->next_run++};
        copy_text(m.id, sizeof m.id, s->id);
        m.run = s->spare.run;
        if (warden_call(s->o, &m, NULL, 0, leaf_ready, &s->spare) < 0)
                s->spare.run = 0;
}

void run_drop_spare(struct sandbox *s) {
        loop_timer_clear(s->o->loop, &s->spare_timer);
        if (s->spare.run && !s->spare.ready)
                warden_forget(s->o, &s->spare);
        for (unsigned i = 0; i < s->spare.count; i++)
                fd_close(&s->spare.fds[i]);
        s->spare = (struct spare){0};
}

/* --- beginning ------------------------------------------------------------------------------------------------------
 */

static void timed_out(struct loop_timer *timer) {
        run_kill(LOOP_OWNER(timer, struct run, timer), REASON_TIMEOUT);
}

void run_set_deadline(struct run *r) {
        struct loop *l = r->sandbox->o->loop;
        uint64_t now = wall_ms(), since = now > r->started_ms ? now - r->started_ms : 0;

        if (r->timeout == FROZEN_UNSET)
                return;
        r->timer.fire = timed_out;
        loop_timer_set(l, &r->timer, loop_now(l) + (since < r->timeout ? r->timeout - since : 1));
}

static int64_t record_start(struct run *r, const char *actor) {
        _cleanup_buf_ struct buf b = {0};

        buf_printf(&b, "{\"run\":%u,\"tty\":%s,\"command\":%s}", r->number, r->tty ? "true" : "false", r->command);
        return buf_ok(&b) ? record(r->sandbox->o, LEDGER_RUN_START, r->sandbox->id, actor, b.data) : -ENOMEM;
}

/* It was told to begin, and that is durable: whoever did not want to wait for its end has the answer. */
static void detached(struct durable *d, int error) {
        struct run *r = LOOP_OWNER(d, struct run, begun);
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct store_run row = {0};
        struct call *c = TAKE_PTR(r->call);

        if (error < 0)
                call_refuse_text(c, "full", "make room on the disk of the state folder",
                                 "run %u has begun, but could not be written down", r->number);
        else {
                run_row(r, &row);
                run_json(&row, &j, NULL);
                call_answer(c, &b);
        }
        run_release(r);
}

/* 0: the guest has it; -EAGAIN: tried again when there is room; otherwise it cannot begin. */
static int ask_exec(struct run *r) {
        struct sandbox *s = r->sandbox;
        struct guest_message m = {
                .kind = GUEST_EXEC,
                .channel = r->number,
                .flags = (r->tty ? GUEST_TERMINAL : 0U) | (r->input ? GUEST_STDIN : 0U),
                .rows = r->rows,
                .cols = r->cols,
                .path = r->cwd,
                .fds = r->fd_count,
        };

        int e = s->guest ? guest_link_exec(s->guest, &m, r->argv, r->envp, r->fds, r->fd_count) : -EPIPE;
        if (e == -EAGAIN)
                return e;
        for (unsigned i = 0; i < r->fd_count; i++)
                fd_close(&r->fds[i]);
        free(TAKE_PTR(r->strings));
        free(TAKE_PTR(r->cwd));
        r->argv = r->envp = NULL;
        if (e < 0)
                return e;
        r->phase = RUN_ASKED;
        r->seen = true; /* a list that was asked for before cannot have it */
        run_set_deadline(r);
        return 0;
}

static void could_not_begin(struct run *r, int error) {
        r->error = error;
        run_finish(r, REASON_LOST);
}

static void send_exec(struct run *r) {
        int e = ask_exec(r);

        if (e < 0 && e != -EAGAIN)
                could_not_begin(r, e);
}

static void wait_detached(struct run *r) {
        r->begun.done = detached;
        durable_wait(r->sandbox->o, &r->begun);
}

static void noted(struct durable *d, int error) {
        struct run *r = LOOP_OWNER(d, struct run, begun);

        step(r->sandbox->o, "exec.noted");
        if (error < 0) {
                if (r->call)
                        call_refuse_text(TAKE_PTR(r->call), "full", "make room on the disk of the state folder",
                                         "the run could not be written down, so it does not begin: %s",
                                         err_name(error));
                r->error = error;
                run_finish(r, REASON_LOST);
                return;
        }
        if (r->phase == RUN_WAITING)
                send_exec(r);
        if (r->call)
                wait_detached(r);
}

static void launch(struct run *r) {
        struct sandbox *s = r->sandbox;
        struct keyed *keyed = r->call->keyed;

        loop_timer_clear(s->o->loop, &r->timer);
        r->number = s->spare.run;
        int64_t seq = record_start(r, r->call->actor);
        if (seq < 0 && s->o->conf.require_recording) {
                call_refuse_text(TAKE_PTR(r->call), "full", "make room on the disk of the ledger",
                                 "the run cannot be recorded, so it does not begin: %s", err_name((int)seq));
                run_free(r);
                return;
        }
        r->leaf = true;
        r->generation = s->generation;
        r->fd_count = s->spare.count;
        memcpy(r->fds, s->spare.fds, s->spare.count * sizeof *r->fds);
        s->spare = (struct spare){0};
        r->started_ms = s->used_ms = wall_ms();
        r->begun.seq = seq > 0 ? (uint64_t)seq : 0;
        /* the guest begins while we write it down: what that has to precede waits for it */
        int e = keyed ? 0 : ask_exec(r);
        store_begin(s->o->store);
        r->begun.ticket = run_put(r);
        if (keyed)
                r->begun.ticket = MAX(r->begun.ticket, keyed_note_run(keyed, s->id, r->number));
        store_end(s->o->store);
        if (!r->detach)
                (void)viewer_add(r, TAKE_PTR(r->call), 0, 0, true);
        if (keyed) {
                r->begun.done = noted;
                durable_wait(s->o, &r->begun);
        } else if (e < 0 && e != -EAGAIN)
                could_not_begin(r, e);
        else if (r->call)
                wait_detached(r);
        run_prepare_spare(s);
        reaper_look(s);
}

/* Who waits for a leaf, and the leaf that is there. */
static void feed(struct sandbox *s) {
        struct run *first = NULL;

        if (!s->spare.ready || !s->guest || s->listing)
                return;
        for (struct run *r = s->runs; r; r = r->next)
                if (r->phase == RUN_WAITING && r->number == 0)
                        first = r; /* new ones stand in front: the last one found is the oldest */
        if (first)
                launch(first);
}

/* No leaf, or no connection to the guest, for long. */
static void waited_long(struct loop_timer *timer) {
        struct run *r = LOOP_OWNER(timer, struct run, timer);

        call_refuse_text(TAKE_PTR(r->call), "busy", "try again; if it stays so, stop it and resume it",
                         "sandbox %s does not answer", r->sandbox->id);
        run_free(r);
}

static void begin(struct op *op) {
        struct run *r = LOOP_OWNER(op, struct run, op);
        struct sandbox *s = r->sandbox;
        struct err err = {0};
        enum state to;

        if (!r->call->client && !r->detach && !r->call->keyed) {
                call_drop(TAKE_PTR(r->call)); /* nobody waits for it any more */
                run_free(r);
                return;
        }
        if (s->state == STATE_DELETED)
                (void)call_err(&err, -ENOENT, "sandbox %s has been deleted", s->id);
        else if (!state_move(s->state, EVENT_EXEC, &to))
                conflict_text(s, EVENT_EXEC, &err);
        else if (life_held(s, &err))
                ;
        else if (life_refuses(s->o, false, &err))
                ;
        else if (s->run_count >= SANDBOX_RUNS_MAX)
                (void)call_err(&err, ERR_LIMIT, "it has %d runs already", SANDBOX_RUNS_MAX);
        if (err.code < 0) {
                call_refuse(TAKE_PTR(r->call), &err);
                run_free(r);
                return;
        }
        if (s->frozen->time_run != FROZEN_UNSET)
                r->timeout = MIN(r->timeout, s->frozen->time_run);
        r->next = s->runs;
        s->runs = r;
        s->run_count++;
        r->timer.fire = waited_long;
        loop_timer_set(s->o->loop, &r->timer, loop_now(s->o->loop) + WAIT_MS);
        run_prepare_spare(s);
        feed(s);
}

void run_feed(struct sandbox *s) {
        run_prepare_spare(s);
        feed(s);
}

void run_begin(struct run *r) {
        r->op = (struct op){.begin = begin, .light = true};
        op_add(&r->sandbox->ops, &r->op);
}

void run_clock(struct sandbox *s, bool on) {
        struct loop *l = s->o->loop;

        if (s->pausing == !on)
                return;
        s->pausing = !on;
        for (struct run *r = s->runs; r; r = r->next) {
                if (on && r->left > 0) {
                        loop_timer_set(l, &r->timer, loop_now(l) + r->left);
                        r->left = 0;
                } else if (!on && r->timer.place) {
                        uint64_t now = loop_now(l);

                        r->left = r->timer.when > now ? r->timer.when - now : 1;
                        loop_timer_clear(l, &r->timer);
                }
        }
}

/* --- what the guest says --------------------------------------------------------------------------------------------
 */

static bool over_limit(struct run *r, size_t *size) {
        uint64_t limit = r->sandbox->frozen->output, so_far = r->logs[RUN_OUT].size + r->logs[RUN_ERR].size;

        if (limit == FROZEN_UNSET || so_far + *size <= limit)
                return false;
        *size = so_far < limit ? (size_t)(limit - so_far) : 0;
        return true;
}

bool run_output(struct sandbox *s, uint32_t number, enum guest_stream stream, uint64_t offset, const uint8_t *bytes,
                size_t size) {
        struct run *r = run_find(s, number);
        enum run_side side = stream == GUEST_ERR ? RUN_ERR : RUN_OUT;

        if (!r || r->phase == RUN_ENDED || (r->tty != (stream == GUEST_TTY)))
                return true; /* nobody's: forgotten already, or not of that kind */
        struct run_log *log = &r->logs[side];
        if (offset < log->size) { /* sent again: from what we have not got yet */
                uint64_t skip = MIN(log->size - offset, size);

                offset += skip;
                bytes += skip;
                size -= (size_t)skip;
        }
        if (r->verdict == REASON_OUTPUT_LIMIT || size == 0)
                return true;
        bool cut = over_limit(r, &size);
        viewer_output(r, side, offset, bytes, size);
        run_log_write(r, side, offset, bytes, size);
        if (cut)
                run_kill(r, REASON_OUTPUT_LIMIT);
        log->held = viewer_lags(r, side);
        return !log->held;
}

static void forget(struct sandbox *s, uint32_t number) {
        struct guest_message m = {.kind = GUEST_FORGET, .channel = number};

        if (s->guest)
                (void)guest_link_send(s->guest, &m);
}

/* Why it did not even begin: whoever reads what a run says of itself reads it there, as of a shell. */
static void say_why(struct run *r, const char *text) {
        enum run_side side = r->tty ? RUN_OUT : RUN_ERR;
        char line[sizeof(((struct err *)0)->text) + 16];

        int n = snprintf(line, sizeof line, "stockade: %s%s", text, r->tty ? "\r\n" : "\n");
        if (n <= 0 || (size_t)n >= sizeof line)
                return;
        uint64_t at = r->logs[side].size;
        viewer_output(r, side, at, (const uint8_t *)line, (size_t)n);
        run_log_write(r, side, at, (const uint8_t *)line, (size_t)n);
}

void run_exited(struct sandbox *s, const struct guest_message *m) {
        struct run *r = run_find(s, m->channel);

        if (!r) {
                forget(s, m->channel);
                return;
        }
        if (r->phase >= RUN_ENDING)
                return;
        r->phase = RUN_ENDING;
        r->ended_ms = wall_ms();
        r->error = m->error;
        r->status = m->error < 0 ? (m->error == -ENOENT ? 127 : 126) << 8 : m->number;
        r->cpu_us = m->rusage.user_us + m->rusage.system_us;
        r->memory_peak = m->rusage.memory_peak;
        if (m->error < 0 && m->text && m->text[0])
                say_why(r, m->text);
        sandbox_touch(s);
        if (!r->killing)
                loop_timer_clear(s->o->loop, &r->timer);
        run_judge(r);
}

/* After a new connection the guest said which runs it knows. */
void run_listed(struct sandbox *s, const struct guest_message *m) {
        struct run *r = run_find(s, m->run);
        uint64_t offsets[GUEST_STREAMS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

        /* A row may not have been durable when our predecessor died: nobody was promised anything, but it runs. What we
         * cannot have begun, or have done with, is none of ours. */
        bool ours = s->adopted && m->run < s->next_run + NUMBERS_LOST && s->run_count < SANDBOX_RUNS_MAX;
        if (!r && !ours) {
                forget(s, m->run);
                if (!(m->flags & GUEST_ENDED))
                        run_end_leaf(s, m->run, true);
                return;
        }
        if (m->run >= s->next_run)
                s->next_run = m->run + 1;
        if (!r) {
                r = run_new(s);
                if (!r)
                        return;
                r->number = m->run;
                r->leaf = true;
                r->tty = m->flags & GUEST_TERMINAL;
                r->input = m->flags & GUEST_STDIN;
                r->phase = RUN_ASKED;
                r->command = strdup("[]");
                r->started_ms = wall_ms();
                r->timeout = s->frozen->time_run;
                run_log_open_old(r);
                run_set_deadline(r);
                r->next = s->runs;
                s->runs = r;
                s->run_count++;
                (void)run_put(r);
        }
        r->seen = true;
        r->input = m->flags & GUEST_STDIN;
        if (r->tty)
                offsets[GUEST_TTY] = r->logs[RUN_OUT].size;
        else {
                offsets[GUEST_OUT] = r->logs[RUN_OUT].size;
                offsets[GUEST_ERR] = r->logs[RUN_ERR].size;
        }
        (void)guest_link_attach(s->guest, m, offsets);
}

void run_list_done(struct sandbox *s) {
        s->adopted = false;
        for (struct run *r = s->runs, *next; r; r = next) {
                next = r->next;
                if (!r->seen && r->phase == RUN_ASKED)
                        run_finish(r, REASON_NOT_BEGUN); /* what has begun it knows until we say forget */
                else
                        r->seen = false;
        }
}

/* The oldest that waits for room. One with a key is sent when it is written down. */
static struct run *next_to_send(struct sandbox *s) {
        struct run *oldest = NULL;

        for (struct run *r = s->runs; r; r = r->next)
                if (r->phase == RUN_WAITING && r->number && !(r->begun.next && r->begun.done == noted))
                        oldest = r;
        return oldest;
}

/* All that there is room for: nobody is told a second time of the same room. */
void run_room(struct sandbox *s, uint32_t number) {
        struct run *r = number ? run_find(s, number) : NULL;

        if (r)
                viewer_input_all(r);
        while (!number && (r = next_to_send(s))) {
                int e = ask_exec(r);

                if (e == -EAGAIN)
                        return; /* there will be room again */
                if (e < 0)
                        could_not_begin(r, e);
        }
}
