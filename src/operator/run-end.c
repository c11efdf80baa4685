/* How runs end: killed by their leaf, judged by what it counted, written down, forgotten. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/log.h"
#include "operator/life.h"
#include "operator/reaper.h"
#include "operator/run.h"
#include "operator/warden-link.h"

#define GUEST_MS       3000 /* for the guest to say how a killed run ended */
#define AGAIN_MS       20   /* between looks at a leaf whose processes are dying */
#define TRIES          250
#define WRITE_AGAIN_MS 1000

static void take_usage(struct run *r, const struct warden_usage *u) {
        if (u->cpu_us != UINT64_MAX && u->cpu_us > 0)
                r->cpu_us = u->cpu_us;
        if (u->memory_peak != UINT64_MAX && u->memory_peak > 0)
                r->memory_peak = u->memory_peak;
        if (u->oom_kills != UINT64_MAX)
                r->oom_kills = u->oom_kills;
}

/* --- judging --------------------------------------------------------------------------------------------------------
 */

static void tell_limit(struct run *r, const char *key) {
        run_tell_limit(r->sandbox, r->number, key);
}

static enum reason decide(struct run *r) {
        bool good = r->error == 0 && WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0;

        if (r->verdict == REASON_TIMEOUT)
                tell_limit(r, "time.run");
        if (r->verdict == REASON_OUTPUT_LIMIT)
                tell_limit(r, "limits.output");
        if (r->verdict != REASON_NONE)
                return r->verdict;
        if (r->error == -EACCES || r->error == -EPERM)
                return REASON_DENIED;
        if (!good && r->oom_kills > 0)
                return REASON_OOM;
        return WIFSIGNALED(r->status) ? REASON_SIGNAL : REASON_EXITED;
}

static void judged(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct run *r = data;
        struct sandbox *s = r->sandbox;

        (void)fds;
        (void)fd_count;
        take_usage(r, &answer->usage);
        if (answer->error == -EBUSY)
                run_stale_add(s, r->number, run_due(r));
        run_tell_counts(s, r->number, &answer->usage);
        enum reason reason = decide(r);
        bool failed = r->error == 0 && reason == REASON_EXITED && WEXITSTATUS(r->status) != 0;
        if (!failed || !run_look_full(r))
                run_finish(r, reason);
}

void run_judge(struct run *r) {
        struct sandbox *s = r->sandbox;

        if (r->killing)
                return; /* what kills it also counts it */
        if (r->verdict == REASON_NONE && r->error == 0 && WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0) {
                uint32_t number = r->number;
                uint64_t due = run_due(r);

                run_finish(r, REASON_EXITED); /* it ended well: nothing has to be found out first */
                run_leave(s, number, due, false);
                return;
        }
        if (!s->up || run_leaf_end(s, r->number, false, judged, r) < 0)
                run_finish(r, decide(r));
}

/* --- killing --------------------------------------------------------------------------------------------------------
 */

static void kill_leaf(struct run *r);

/* The guest does not say how it ended. It is dead all the same. */
static void guest_is_silent(struct loop_timer *timer) {
        struct run *r = LOOP_OWNER(timer, struct run, timer);

        r->status = SIGKILL;
        run_finish(r, decide(r));
}

static void kill_again(struct loop_timer *timer) {
        kill_leaf(LOOP_OWNER(timer, struct run, timer));
}

/* In a box whose runs have no leaves: neither the warden nor the guest can kill one. */
static void ask_guest_to_kill(struct run *r) {
        struct guest_message m = {
                .kind = GUEST_SIGNAL, .channel = r->number, .number = SIGKILL, .flags = GUEST_TO_GROUP};

        if (r->sandbox->guest)
                (void)guest_link_send(r->sandbox->guest, &m);
}

static void killed(void *data, const struct warden_message *answer, int *fds, size_t fd_count) {
        struct run *r = data;
        struct loop *l = r->sandbox->o->loop;

        (void)fds;
        (void)fd_count;
        take_usage(r, &answer->usage);
        if (answer->error == -EOPNOTSUPP)
                ask_guest_to_kill(r);
        if (answer->error == -EBUSY && ++r->kill_tries < TRIES) {
                r->timer.fire = kill_again;
                loop_timer_set(l, &r->timer, loop_now(l) + AGAIN_MS);
                return;
        }
        if (answer->error < 0 && answer->error != -ENOENT && answer->error != -EOPNOTSUPP)
                log_line(LOG_LEVEL_WARNING, NULL, "run %u of %s could not be killed: %s", r->number, r->sandbox->id,
                         answer->text);
        run_tell_counts(r->sandbox, r->number, &answer->usage);
        r->killing = false;
        if (r->phase == RUN_ENDING || r->sandbox->state != STATE_RUNNING || r->sandbox->pressed || !r->sandbox->guest) {
                if (r->phase != RUN_ENDING)
                        r->status = SIGKILL;
                run_finish(r, decide(r));
                return;
        }
        r->timer.fire = guest_is_silent;
        loop_timer_set(l, &r->timer, loop_now(l) + GUEST_MS);
}

static void kill_leaf(struct run *r) {
        struct sandbox *s = r->sandbox;

        if (run_leaf_end(s, r->number, true, killed, r) < 0) {
                r->timer.fire = kill_again;
                loop_timer_set(s->o->loop, &r->timer, loop_now(s->o->loop) + AGAIN_MS);
        }
}

void run_kill(struct run *r, enum reason verdict) {
        if (r->phase >= RUN_ENDING || r->killing)
                return;
        if (r->verdict == REASON_NONE)
                r->verdict = verdict;
        r->killing = true;
        r->left = 0;
        kill_leaf(r);
}

int run_signal(struct run *r, int signal, const char *actor) {
        struct guest_message m = {
                .kind = GUEST_SIGNAL, .channel = r->number, .number = signal, .flags = GUEST_TO_GROUP};
        char data[64];

        if (r->phase != RUN_ASKED || !r->sandbox->guest)
                return -ESRCH;
        if (signal < 1 || signal > 64)
                return -EINVAL;
        int e = guest_link_send(r->sandbox->guest, &m);
        if (e < 0)
                return e;
        (void)snprintf(data, sizeof data, "{\"run\":%u,\"signal\":%d}", r->number, signal);
        (void)record(r->sandbox->o, LEDGER_RUN_SIGNAL, r->sandbox->id, actor, data);
        return 0;
}

/* --- rows -----------------------------------------------------------------------------------------------------------
 */

void run_row(const struct run *r, struct store_run *row) {
        static const char *const states[] = {
                [RUN_WAITING] = "running", [RUN_ASKED] = "running", [RUN_ENDING] = "running", [RUN_ENDED] = "ended"};
        static_assert(ELEMENTSOF(states) == RUN_ENDED + 1, "every phase has a name");

        *row = (struct store_run){
                .number = r->number,
                .generation = r->generation,
                .status = r->status,
                .terminal = r->tty,
                .timeout_ms = r->timeout,
                .started_ms = r->started_ms,
                .ended_ms = r->ended_ms,
                .cpu_us = r->cpu_us,
                .memory_peak = r->memory_peak,
                .out_bytes = r->logs[RUN_OUT].size,
                .err_bytes = r->logs[RUN_ERR].size,
                .command = r->command ? r->command : "[]",
                .command_size = r->command ? strlen(r->command) : 2,
        };
        copy_text(row->sandbox, sizeof row->sandbox, r->sandbox->id);
        copy_text(row->state, sizeof row->state,
                  r->unfinished ? "running"
                  : r->phase == RUN_ENDED && (r->reason == REASON_LOST || r->reason == REASON_NOT_BEGUN)
                          ? "lost"
                          : states[r->phase]);
        copy_text(row->reason, sizeof row->reason, reason_name(r->phase == RUN_ENDED ? r->reason : REASON_NONE));
}

uint64_t run_put(struct run *r) {
        struct store_run row;

        run_row(r, &row);
        return store_put(r->sandbox->o->store, STORE_RUN, &row);
}

static void command_json(const struct store_run *row, struct json *j) {
        _cleanup_free_ char *text = malloc(row->command_size + 1), *word = malloc(row->command_size + 1);
        struct json_walk w;

        json_open(j, "command", '[');
        if (text && word) {
                memcpy(text, row->command, row->command_size);
                text[row->command_size] = '\0';
                if (json_check(text, row->command_size, NULL) == 0 && json_walk_begin(&w, text, ""))
                        while (json_walk_next(&w))
                                if (json_find_str(w.value, "", word, row->command_size + 1))
                                        json_str(j, NULL, word);
        }
        json_close(j, ']');
}

void run_json(const struct store_run *row, struct json *j, const char *key) {
        bool ended = !str_eq(row->state, "running");
        int status = (int)row->status;

        json_open(j, key, '{');
        json_str(j, "sandbox", row->sandbox);
        json_u64(j, "run", row->number);
        command_json(row, j);
        json_str(j, "state", row->state);
        json_str(j, "reason", row->reason);
        json_i64(j, "status", row->status);
        if (ended && !str_eq(row->state, "lost"))
                json_i64(j, "exit_code", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        else
                json_null(j, "exit_code");
        json_i64(j, "signal", ended && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        json_bool(j, "tty", row->terminal);
        json_u64(j, "started_ms", row->started_ms);
        json_u64(j, "ended_ms", row->ended_ms);
        json_u64(j, "cpu_us", row->cpu_us);
        json_u64(j, "memory_peak", row->memory_peak);
        json_u64(j, "out_bytes", row->out_bytes);
        json_u64(j, "err_bytes", row->err_bytes);
        json_close(j, '}');
}

/* --- the end --------------------------------------------------------------------------------------------------------
 */

void run_release(struct run *r) {
        if (r->viewers || r->call || r->cancels)
                return;
        if (r->ghost || (r->phase == RUN_ENDED && r->written))
                run_free(r);
}

/* Of many runs the last ones are kept. */
static void prune(struct run *r) {
        struct sandbox *s = r->sandbox;
        struct store_run row = {0};

        if (r->number > RUN_LOGS_MAX && !run_find(s, r->number - RUN_LOGS_MAX)) /* one that goes on keeps its own */
                run_log_remove(s, r->number - RUN_LOGS_MAX);
        if (s->next_run > r->number + RUN_LOGS_MAX)
                run_log_remove(s, r->number);
        if (r->number <= RUN_ROWS_MAX)
                return;
        copy_text(row.sandbox, sizeof row.sandbox, s->id);
        row.number = r->number - RUN_ROWS_MAX;
        (void)store_remove(s->o->store, STORE_RUN, &row);
}

static void over(struct durable *d, int error);

/* The disk was full: the guest remembers how it ended until we have written it down. */
static void over_again(struct loop_timer *timer) {
        struct run *r = LOOP_OWNER(timer, struct run, timer);

        if (r->over.ticket == STORE_REFUSED)
                r->over.ticket = run_put(r);
        r->over.done = over;
        durable_wait(r->sandbox->o, &r->over);
}

static void over(struct durable *d, int error) {
        struct run *r = LOOP_OWNER(d, struct run, over);
        struct guest_message m = {.kind = GUEST_FORGET, .channel = r->number};

        if (error < 0 && r->sandbox->state != STATE_DELETED) {
                r->timer.fire = over_again;
                loop_timer_set(r->sandbox->o->loop, &r->timer, loop_now(r->sandbox->o->loop) + WRITE_AGAIN_MS);
                return;
        }
        if (error == 0 && r->sandbox->guest)
                (void)guest_link_send(r->sandbox->guest, &m);
        r->written = true;
        prune(r);
        run_release(r);
}

static int64_t record_end(const struct run *r) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_u64(&j, "run", r->number);
        json_str(&j, "reason", reason_name(r->reason));
        json_i64(&j, "status", r->status);
        json_u64(&j, "cpu_us", r->cpu_us);
        json_u64(&j, "memory_peak", r->memory_peak);
        json_u64(&j, "out_bytes", r->logs[RUN_OUT].size);
        json_u64(&j, "err_bytes", r->logs[RUN_ERR].size);
        json_close(&j, '}');
        return buf_ok(&b) ? record(r->sandbox->o, LEDGER_RUN_END, r->sandbox->id, "operator", b.data) : -ENOMEM;
}

static void answer_cancels(struct run *r) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct store_run row;

        if (!r->cancels)
                return;
        run_row(r, &row);
        run_json(&row, &j, NULL);
        for (struct call *c; (c = r->cancels);) {
                r->cancels = c->next;
                c->gone = NULL;
                call_answer(c, &b);
        }
}

void run_finish(struct run *r, enum reason reason) {
        struct sandbox *s = r->sandbox;

        if (r->phase == RUN_ENDED)
                return;
        r->phase = RUN_ENDED;
        r->reason = reason;
        r->killing = false;
        /* one that was past a limit and ended by itself a moment before it was killed did not end well */
        if ((reason == REASON_TIMEOUT || reason == REASON_OUTPUT_LIMIT || reason == REASON_BUDGET) &&
            WIFEXITED(r->status))
                r->status = SIGKILL;
        if (r->ended_ms == 0)
                r->ended_ms = wall_ms();
        loop_timer_clear(s->o->loop, &r->timer);
        warden_forget(s->o, r);
        run_leaf_forget(r);
        viewer_pump_all(r); /* nobody waits for what follows: until it is durable the guest knows how it ended */
        int64_t seq = record_end(r);
        r->over = (struct durable){
                .seq = seq > 0 ? (uint64_t)seq : 0, .ticket = run_put(r), .lazy = true, .done = over};
        durable_wait(s->o, &r->over);
        answer_cancels(r);
        run_stale_ask(s);
        reaper_look(s);
}

void run_end_all(struct sandbox *s, enum reason reason) {
        s->stale_count = 0;
        for (struct run *r = s->runs, *next; r; r = next) {
                next = r->next;
                if (r->phase == RUN_ENDED)
                        continue;
                if (r->number == 0) { /* it never began */
                        call_refuse_text(TAKE_PTR(r->call), "conflict", "start it again: stockade resume",
                                         "sandbox %s was stopped", s->id);
                        run_free(r);
                        continue;
                }
                if (r->phase != RUN_ENDING)
                        r->status = SIGKILL;
                run_finish(r, r->verdict != REASON_NONE ? r->verdict : reason);
        }
}

void run_forget_all(struct sandbox *s) {
        struct store_run row = {0};

        for (struct run *r = s->runs; r; r = r->next)
                run_log_flush(r); /* so that no file comes back */
        uint32_t first = s->next_run > RUN_ROWS_MAX + 1 ? s->next_run - RUN_ROWS_MAX - 1 : 1;

        copy_text(row.sandbox, sizeof row.sandbox, s->id);
        for (row.number = first; row.number < s->next_run; row.number++)
                (void)store_remove(s->o->store, STORE_RUN, &row);
        run_log_remove_all(s->o, s->id);
        log_share_forget(s);
}

/* --- from the store -------------------------------------------------------------------------------------------------
 */

static struct run *from_row(struct sandbox *s, const struct store_run *row) {
        struct run *r = run_new(s);

        if (!r)
                return NULL;
        r->number = (uint32_t)row->number;
        r->generation = row->generation;
        r->reason = reason_parse(row->reason);
        r->status = (int)row->status;
        r->tty = row->terminal;
        r->timeout = row->timeout_ms;
        r->started_ms = row->started_ms;
        r->ended_ms = row->ended_ms;
        r->cpu_us = row->cpu_us;
        r->memory_peak = row->memory_peak;
        r->command = strndup(row->command, row->command_size);
        run_log_open_old(r);
        return r;
}

int run_adopt(struct sandbox *s, const struct store_run *row) {
        struct run *r = from_row(s, row);

        if (!r)
                return -ENOMEM;
        r->phase = RUN_ASKED;
        r->leaf = true;
        r->next = s->runs;
        s->runs = r;
        s->run_count++;
        run_set_deadline(r);
        if (row->number >= s->next_run && row->number < UINT32_MAX)
                s->next_run = (uint32_t)row->number + 1;
        return 0;
}

/* The sandbox knows of it: it is not freed while somebody looks. */
static void haunt(struct run *r) {
        r->ghost = true;
        r->phase = RUN_ENDED;
        r->next = r->sandbox->ghosts;
        r->sandbox->ghosts = r;
}

struct ghost {
        struct sandbox *sandbox;
        uint64_t number;
        struct run *run;
};

static int take_ghost(void *data, const void *found) {
        struct ghost *g = data;
        const struct store_run *row = found;

        if (row->number == g->number && !g->run)
                g->run = from_row(g->sandbox, row);
        return 0;
}

int run_ghost(struct sandbox *s, uint32_t number, struct run **ret, struct err *err) {
        struct ghost g = {.sandbox = s, .number = number};

        int e = store_runs(s->o->store, s->id, (uint64_t)number + 1, 1, take_ghost, &g, err);
        if (e < 0)
                return e;
        if (!g.run) {
                (void)call_err(err, -ENOENT, "sandbox %s has no run %u", s->name[0] ? s->name : s->id, number);
                return err_hint(err, "'stockade runs %s' lists them", s->name[0] ? s->name : s->id);
        }
        haunt(g.run);
        *ret = g.run;
        return 0;
}

struct run *run_ghost_of(struct run *r) {
        struct run *g = run_new(r->sandbox);

        if (!g)
                return NULL;
        run_log_flush(r);
        g->number = r->number;
        g->unfinished = true;
        g->tty = r->tty;
        g->started_ms = r->started_ms;
        g->command = strdup(r->command ? r->command : "[]");
        run_log_open_old(g);
        haunt(g);
        return g;
}
