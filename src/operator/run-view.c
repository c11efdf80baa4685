/* Clients that watch a run. One that keeps up gets the guest's bytes as they come; one that is behind is served from
 * the log until it has caught up. Terminals do not wait for slow watchers, other runs do: that is what a pipe would do.
 *
 * The answer, the run as it ended, is the last thing that a watcher gets, after everything that was printed. */
#include <stdio.h>
#include <sys/wait.h>

#include "operator/life.h"
#include "operator/run.h"

struct viewer {
        struct viewer *next;
        struct run *run;
        struct call *call;
        uint64_t at[RUN_SIDES]; /* the next byte that it gets */
        bool speaks;
        uint8_t *rest; /* input that the guest did not take yet */
        size_t rest_size, rest_at;
        bool finished; /* no more input comes after that */
};

static const enum local_kind kinds[] = {[RUN_OUT] = LOCAL_OUTPUT, [RUN_ERR] = LOCAL_ERRORS};

static void viewer_remove(struct viewer *v) {
        for (struct viewer **p = &v->run->viewers; *p; p = &(*p)->next)
                if (*p == v) {
                        *p = v->next;
                        break;
                }
        free(v->rest);
        free(v);
}

static void answer(struct viewer *v) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct store_run row = {0};
        struct call *c = v->call;

        run_row(v->run, &row);
        run_json(&row, &j, NULL);
        viewer_remove(v);
        call_answer(c, &b);
}

/* It left. What it started goes on. */
static void viewer_gone(struct call *c) {
        struct viewer *v = c->data;
        struct run *r = v->run;

        if (c->keyed && r->phase != RUN_ENDED)
                return; /* its answer is kept for whoever asks again */
        viewer_remove(v);
        call_drop(c);
        viewer_pump_all(r); /* it may have been the one that held it up */
        run_release(r);
}

/* What it should have got next is not kept any more: it hears of the gap. */
static void skip(struct viewer *v, enum run_side side, uint64_t to) {
        static const char *const names[] = {[RUN_OUT] = "out", [RUN_ERR] = "err"};
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "lost", names[side]);
        json_u64(&j, "bytes", to - v->at[side]);
        json_close(&j, '}');
        call_event(v->call, &b);
        v->at[side] = to;
}

/* Everything that it has not got and that fits; then, if the run has ended, the answer, and v is gone. */
static void pump(struct viewer *v) {
        static uint8_t piece[64 * 1024];
        struct run *r = v->run;

        for (unsigned side = 0; side < RUN_SIDES && v->call->client; side++) {
                struct run_log *l = &r->logs[side];

                while (v->at[side] < l->size && client_has_room(v->call->client)) {
                        if (v->at[side] < l->from)
                                skip(v, (enum run_side)side, l->from);
                        if (v->at[side] == l->size)
                                break;
                        ssize_t n = run_log_read(r, (enum run_side)side, v->at[side], piece, sizeof piece);
                        if (n <= 0) {
                                skip(v, (enum run_side)side, l->size);
                                break;
                        }
                        (void)client_send(v->call->client, kinds[side], piece, (size_t)n);
                        v->at[side] += (uint64_t)n;
                }
                if (!v->call->client)
                        v->at[side] = l->size;
        }
        if (r->phase != RUN_ENDED || (v->call->client && (v->at[0] < r->logs[0].size || v->at[1] < r->logs[1].size)))
                return;
        answer(v);
}

/* Credit for what waited because somebody was behind. */
static void give_credit(struct run *r) {
        for (unsigned side = 0; side < RUN_SIDES; side++) {
                struct run_log *l = &r->logs[side];

                if (!l->held || viewer_lags(r, (enum run_side)side))
                        continue;
                l->held = false;
                if (r->sandbox->guest)
                        guest_link_take(r->sandbox->guest, r->number,
                                        r->tty            ? GUEST_TTY
                                        : side == RUN_ERR ? GUEST_ERR
                                                          : GUEST_OUT,
                                        l->size);
        }
}

void viewer_pump_all(struct run *r) {
        for (struct viewer *v = r->viewers, *next; v; v = next) {
                next = v->next;
                pump(v);
        }
        give_credit(r);
}

static void viewer_writable(struct client *client) {
        struct call *c = client->data;
        struct viewer *v = c->data;
        struct run *r = v->run;

        pump(v);
        give_credit(r);
        run_release(r);
}

bool viewer_lags(const struct run *r, enum run_side side) {
        if (r->tty)
                return false;
        for (const struct viewer *v = r->viewers; v; v = v->next)
                if (v->call->client && r->logs[side].size > v->at[side] + RUN_LAG_MAX)
                        return true;
        return false;
}

/* Before these bytes are in the log. */
void viewer_output(struct run *r, enum run_side side, uint64_t offset, const uint8_t *bytes, size_t size) {
        for (struct viewer *v = r->viewers; v; v = v->next) {
                if (!v->call->client || v->at[side] > offset)
                        continue;
                bool current = v->at[side] == r->logs[side].size;
                if (!current || !client_has_room(v->call->client))
                        continue; /* from the log, when it can take it */
                (void)client_send(v->call->client, kinds[side], bytes, size);
                v->at[side] = offset + size;
        }
}

/* --- input ----------------------------------------------------------------------------------------------------------
 */

static void end_input(struct viewer *v) {
        struct guest_message m = {.kind = GUEST_INPUT_END, .channel = v->run->number};

        v->finished = false;
        if (v->run->sandbox->guest && v->run->phase == RUN_ASKED)
                (void)guest_link_send(v->run->sandbox->guest, &m);
}

static void push_rest(struct viewer *v) {
        struct sandbox *s = v->run->sandbox;

        while (v->rest) {
                ssize_t n = v->run->phase >= RUN_ENDING ? (ssize_t)(v->rest_size - v->rest_at)
                            : s->guest && v->run->phase == RUN_ASKED
                                    ? guest_link_input(s->guest, v->run->number, v->rest + v->rest_at,
                                                       v->rest_size - v->rest_at)
                                    : 0;
                if (n < 0) /* it takes no input any more: what is left is for nobody */
                        n = (ssize_t)(v->rest_size - v->rest_at);
                if (n == 0)
                        return;
                v->rest_at += (size_t)n;
                if (v->rest_at == v->rest_size) {
                        free(TAKE_PTR(v->rest));
                        v->rest_size = v->rest_at = 0;
                        if (v->call->client)
                                client_hold_input(v->call->client, false);
                }
        }
        if (v->finished)
                end_input(v);
}

void viewer_input_all(struct run *r) {
        for (struct viewer *v = r->viewers, *next; v; v = next) {
                next = v->next;
                push_rest(v);
        }
}

static void take_bytes(struct viewer *v, const uint8_t *data, size_t size) {
        struct run *r = v->run;
        ssize_t n = 0;

        if (!v->speaks || (!r->tty && !r->input) || r->phase >= RUN_ENDING || size == 0)
                return;
        sandbox_touch(r->sandbox);
        if (!v->rest && r->sandbox->guest && r->phase == RUN_ASKED)
                n = guest_link_input(r->sandbox->guest, r->number, data, size);
        if (n < 0 || (size_t)n == size)
                return;
        size_t left = size - (size_t)n, have = v->rest_size - v->rest_at;
        uint8_t *rest = malloc(have + left);
        if (!rest)
                return;
        if (v->rest)
                memcpy(rest, v->rest + v->rest_at, have);
        memcpy(rest + have, data + n, left);
        free(v->rest);
        v->rest = rest;
        v->rest_size = have + left;
        v->rest_at = 0;
        client_hold_input(v->call->client, true);
}

static void control(struct viewer *v, const char *text) {
        struct run *r = v->run;
        uint64_t rows = 0, cols = 0, signal = 0;
        bool detach = false;

        if (json_find_u64(text, "resize.0", &rows) && json_find_u64(text, "resize.1", &cols) &&
            rows - 1 < LOCAL_EXTENT_MAX && cols - 1 < LOCAL_EXTENT_MAX && r->tty && r->phase == RUN_ASKED &&
            r->sandbox->guest) {
                struct guest_message m = {
                        .kind = GUEST_RESIZE, .channel = r->number, .rows = (uint16_t)rows, .cols = (uint16_t)cols};

                (void)guest_link_send(r->sandbox->guest, &m);
        }
        if (json_find_u64(text, "signal", &signal) && v->speaks)
                (void)run_signal(r, (int)MIN(signal, 255U), v->call->actor);
        if (json_find_bool(text, "detach", &detach) && detach)
                answer(v);
}

static void viewer_input(struct client *client, enum local_kind kind, const uint8_t *data, size_t size) {
        struct call *c = client->data;
        struct viewer *v = c->data;
        struct run *r = v->run;

        if (kind == LOCAL_INPUT)
                take_bytes(v, data, size);
        else if (kind == LOCAL_FINISH) {
                v->finished = v->speaks;
                push_rest(v);
        } else if (kind == LOCAL_CONTROL) {
                control(v, (const char *)data); /* it may leave */
                run_release(r);
        }
}

/* Which run it is, and from where it is shown: whoever comes back knows where he was. */
static void say_where(const struct viewer *v) {
        _cleanup_buf_ struct buf b = {0};

        buf_printf(&b, "{\"run\":%u,\"out\":%llu,\"err\":%llu}", v->run->number,
                   (unsigned long long)MAX(v->at[RUN_OUT], v->run->logs[RUN_OUT].from),
                   (unsigned long long)MAX(v->at[RUN_ERR], v->run->logs[RUN_ERR].from));
        call_event(v->call, &b);
}

int viewer_add(struct run *r, struct call *c, uint64_t out, uint64_t err, bool speaks) {
        struct viewer *v = calloc(1, sizeof *v);

        if (!v) {
                call_refuse_text(c, "failed", "try again", "out of memory");
                return -ENOMEM;
        }
        v->run = r;
        v->call = c;
        v->at[RUN_OUT] = MIN(out, r->logs[RUN_OUT].size);
        v->at[RUN_ERR] = MIN(err, r->logs[RUN_ERR].size);
        v->speaks = speaks;
        v->next = r->viewers;
        r->viewers = v;
        c->data = v;
        c->gone = viewer_gone;
        if (c->client) {
                c->client->input = viewer_input;
                c->client->writable = viewer_writable;
                client_hold_input(c->client, false);
        }
        say_where(v);
        return 0;
}

static void cut_off(struct run *first, const char *hint, const char *why) {
        for (struct run *r = first, *next; r; r = next) {
                next = r->next;
                while (r->viewers) {
                        struct call *c = r->viewers->call;

                        viewer_remove(r->viewers);
                        call_refuse_text(c, "refused", hint, "%s", why);
                }
                run_release(r);
        }
}

void run_cut_off(struct sandbox *s, const char *hint, const char *why) {
        cut_off(s->runs, hint, why);
        cut_off(s->ghosts, hint, why);
}
