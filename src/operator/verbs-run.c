/* Verbs about runs. */
#include <stdio.h>

#include "operator/life.h"
#include "operator/run.h"
#include "operator/secret.h"
#include "operator/verbs.h"

/* --- exec: from the request to argv and envp ------------------------------------------------------------------------
 */

/* All strings of a run in one block: pointers first, then bytes. */
struct strings {
        struct buf bytes;
        size_t offsets[GUEST_ARGS_MAX + GUEST_ARGS_MAX];
        size_t count;
        size_t argc;
};

static void add_pair(struct strings *s, const char *name, const char *value) {
        if (s->count == ELEMENTSOF(s->offsets)) {
                s->bytes.failed = true;
                return;
        }
        s->offsets[s->count++] = s->bytes.size;
        buf_str(&s->bytes, name);
        if (value) {
                buf_str(&s->bytes, "=");
                buf_str(&s->bytes, value);
        }
        buf_add(&s->bytes, "", 1);
}

/* One setting per name: the last. */
static void drop_doubles(struct strings *s) {
        for (size_t i = s->argc; i < s->count; i++)
                for (size_t k = i + 1; k < s->count; k++) {
                        const char *a = s->bytes.data + s->offsets[i], *b = s->bytes.data + s->offsets[k];

                        if (strncmp(a, b, strcspn(a, "=") + 1) == 0) {
                                memmove(s->offsets + i, s->offsets + i + 1, (s->count - i - 1) * sizeof *s->offsets);
                                s->count--;
                                i--;
                                break;
                        }
                }
}

static void add_environment(const struct call *c, struct strings *s) {
        const struct sandbox *b = c->sandbox;
        char holder[GATE_HOLDER_SIZE], name[256];
        struct json_walk w;

        if (call_bool(c, "tty"))
                add_pair(s, "TERM", "xterm-256color");
        for (size_t i = 0; b->frozen->env[i]; i++)
                add_pair(s, b->frozen->env[i], NULL);
        for (size_t i = 0; i < b->frozen->secret_count; i++) {
                secret_holder(b, b->frozen->secrets[i], holder);
                add_pair(s, b->frozen->secrets[i], holder);
        }
        if (!json_walk_begin(&w, c->text, "env"))
                return;
        while (json_walk_next(&w)) {
                size_t size = 0;

                if (!json_walk_key(&w, name, sizeof name) || strchr(name, '=') || !json_at(w.value, "", &size)) {
                        s->bytes.failed = true;
                        return;
                }
                _cleanup_free_ char *value = malloc(size + 1);
                if (!value || !json_find_str(w.value, "", value, size + 1)) {
                        s->bytes.failed = true;
                        return;
                }
                add_pair(s, name, value);
        }
}

static void add_arguments(const struct call *c, struct strings *s) {
        struct json_walk w;

        (void)json_walk_begin(&w, c->text, "argv");
        while (json_walk_next(&w)) {
                size_t size = 0;

                (void)json_at(w.value, "", &size);
                _cleanup_free_ char *word = malloc(size + 1);
                if (!word || !json_find_str(w.value, "", word, size + 1)) {
                        s->bytes.failed = true;
                        return;
                }
                add_pair(s, word, NULL);
        }
        s->argc = s->count;
}

static int place_strings(struct run *r, const struct strings *s) {
        size_t pointers = (s->count + 2) * sizeof(char *);

        r->strings = malloc(pointers + s->bytes.size);
        if (!r->strings)
                return -ENOMEM;
        char *bytes = (char *)r->strings + pointers;
        memcpy(bytes, s->bytes.data, s->bytes.size);
        r->argv = (const char **)r->strings;
        r->envp = r->argv + s->argc + 1;
        for (size_t i = 0; i < s->argc; i++)
                r->argv[i] = bytes + s->offsets[i];
        r->argv[s->argc] = NULL;
        for (size_t i = s->argc; i < s->count; i++)
                r->envp[i - s->argc] = bytes + s->offsets[i];
        r->envp[s->count - s->argc] = NULL;
        return 0;
}

/* For records: the arguments as they are, or their beginning. */
static char *command_text(const struct run *r) {
        _cleanup_buf_ struct buf b = {.max = RUN_COMMAND_MAX};
        struct json j = {.out = &b};
        size_t used = 0;

        json_open(&j, NULL, '[');
        for (size_t i = 0; r->argv[i]; i++) {
                used += 6 * strlen(r->argv[i]) + 8; /* escaped it may be six times as long */
                if (used > RUN_COMMAND_MAX - 64) {
                        json_str(&j, NULL, "…");
                        break;
                }
                json_str(&j, NULL, r->argv[i]);
        }
        json_close(&j, ']');
        return buf_ok(&b) ? TAKE_PTR(b.data) : NULL;
}

static int read_exec(struct call *c, struct run *r, struct err *err) {
        struct strings *s = calloc(1, sizeof *s);
        int e = -ENOMEM;

        if (s) {
                s->bytes.max = GUEST_PAYLOAD_MAX;
                add_arguments(c, s);
                add_environment(c, s);
                if (buf_ok(&s->bytes)) {
                        drop_doubles(s);
                        e = place_strings(r, s);
                }
                buf_free(&s->bytes);
        }
        free(s);
        if (e < 0)
                return call_err(err, ERR_INPUT, "argv and env are too many or too long: 128 KiB is the most");
        if (r->argv[0][0] == '\0')
                return call_err(err, ERR_INPUT, "'argv' begins with an empty text: which program is meant?");
        r->command = command_text(r);
        r->cwd = call_strdup(c, "cwd");
        if (!r->cwd)
                r->cwd = strdup(c->sandbox->frozen->cwd ? c->sandbox->frozen->cwd : "/");
        if (!r->command || !r->cwd)
                return call_err(err, -ENOMEM, "out of memory");
        r->tty = call_bool(c, "tty");
        r->input = call_bool(c, "stdin") || r->tty;
        r->detach = call_bool(c, "detach");
        r->rows = (uint16_t)call_number(c, "rows", r->tty ? 24 : 0);
        r->cols = (uint16_t)call_number(c, "cols", r->tty ? 80 : 0);
        r->timeout = call_number(c, "timeout_ms", FROZEN_UNSET);
        return 0;
}

static void answer_run(struct call *c, struct run *r) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        struct store_run row;

        run_row(r, &row);
        run_json(&row, &j, NULL);
        call_answer(c, &b);
}

/* A run that was begun for the same key before we were started again. One that was only announced begins now. */
static bool attach_begun(struct call *c) {
        struct run *r = c->begun ? run_find(c->sandbox, c->begun) : NULL;
        struct err err = {0};

        if (!c->begun || (!r && run_ghost(c->sandbox, c->begun, &r, &err) < 0))
                return false;
        if (r->phase == RUN_ENDED && r->reason == REASON_NOT_BEGUN) {
                run_release(r);
                return false;
        }
        if (call_bool(c, "detach"))
                answer_run(c, r);
        else if (viewer_add(r, c, 0, 0, true) == 0)
                viewer_pump_all(r);
        run_release(r);
        return true;
}

void verb_exec(struct call *c) {
        struct err err = {0};
        struct run *r;

        if (attach_begun(c))
                return;
        r = run_new(c->sandbox);
        int e = r ? read_exec(c, r, &err) : call_err(&err, -ENOMEM, "out of memory");
        if (e < 0) {
                if (r)
                        run_free(r);
                call_refuse(c, &err);
                return;
        }
        r->session = c->client ? c->client->session : 0;
        r->call = c;
        run_begin(r);
}

/* --- others ---------------------------------------------------------------------------------------------------------
 */

static struct run *find(struct call *c, bool over) {
        uint32_t number = (uint32_t)call_number(c, "run", 0);
        struct run *r = run_find(c->sandbox, number);
        struct err err = {0};

        if (!r && over && run_ghost(c->sandbox, number, &r, &err) < 0) {
                call_refuse(c, &err);
                return NULL;
        }
        return r;
}

static void watch(struct call *c, struct run *r, uint64_t out, uint64_t err, bool speaks) {
        struct err why = {0};
        uint64_t seq;
        char data[48];

        (void)snprintf(data, sizeof data, "{\"run\":%u}", r->number);
        if (!r->ghost && record_needed(c->o, LEDGER_RUN_ATTACH, c->sandbox->id, c->actor, data, &seq, &why) < 0) {
                call_refuse(c, &why);
                return;
        }
        if (viewer_add(r, c, out, err, speaks) == 0)
                viewer_pump_all(r);
        run_release(r);
}

void verb_attach(struct call *c) {
        struct run *r = find(c, true);

        if (!r)
                return;
        uint64_t end = r->logs[RUN_OUT].size, scrollback = end > GUEST_SCROLLBACK ? end - GUEST_SCROLLBACK : 0;
        watch(c, r, call_number(c, "out", r->tty ? scrollback : end), call_number(c, "err", r->logs[RUN_ERR].size),
              true);
}

/* What is kept of its output; without `follow` up to now. */
void verb_logs(struct call *c) {
        struct run *r = find(c, true), *shown = r;
        bool follow = call_bool(c, "follow");

        if (!r)
                return;
        if (r->phase != RUN_ENDED && !follow) {
                shown = run_ghost_of(r);
                if (!shown) {
                        call_refuse_text(c, "failed", "try again", "out of memory");
                        return;
                }
        }
        watch(c, shown, 0, 0, false);
}

void verb_signal(struct call *c) {
        struct run *r = find(c, false);
        struct buf nothing = {0};
        int e = r ? run_signal(r, (int)call_number(c, "signal", 0), c->actor) : -ESRCH;

        if (e < 0)
                call_refuse_text(c, e == -EAGAIN ? "busy" : "conflict", "'stockade runs' lists those that go on",
                                 "run %llu does not run", (unsigned long long)call_number(c, "run", 0));
        else
                call_answer(c, &nothing);
}

static void cancel_gone(struct call *c) {
        struct run *r = c->data;

        for (struct call **p = &r->cancels; *p; p = &(*p)->next)
                if (*p == c) {
                        *p = c->next;
                        break;
                }
        call_drop(c);
        run_release(r);
}

void verb_cancel(struct call *c) {
        struct run *r = find(c, true);

        if (!r)
                return;
        if (r->phase == RUN_ENDED || r->number == 0) { /* asking again is fine */
                answer_run(c, r);
                run_release(r);
                return;
        }
        c->data = r;
        c->gone = cancel_gone;
        c->next = r->cancels;
        r->cancels = c;
        run_kill(r, REASON_CANCELLED);
}

struct listing {
        struct json *j;
        const struct sandbox *sandbox;
        uint64_t before; /* numbers below this are to come */
        unsigned left;
};

static void list_one(struct listing *l, const struct store_run *row) {
        if (l->left == 0)
                return;
        run_json(row, l->j, NULL);
        l->before = row->number;
        l->left--;
}

/* Those in memory with numbers above `floor`, newest first: their rows may not be written yet. */
static void list_memory(struct listing *l, uint64_t floor) {
        for (;;) {
                const struct run *best = NULL;
                struct store_run row;

                for (const struct run *r = l->sandbox->runs; r; r = r->next)
                        if (r->number > floor && r->number < l->before && (!best || r->number > best->number))
                                best = r;
                if (!best || l->left == 0)
                        return;
                run_row(best, &row);
                list_one(l, &row);
        }
}

static int list_row(void *data, const void *found) {
        struct listing *l = data;
        const struct store_run *row = found;

        list_memory(l, row->number - 1);
        if (row->number < l->before) /* otherwise memory had it */
                list_one(l, row);
        return 0;
}

int verbs_list_runs(struct sandbox *s, struct json *j, const char *key, uint64_t before, unsigned max,
                    struct err *err) {
        struct listing l = {.j = j, .sandbox = s, .before = before, .left = max};

        json_open(j, key, '[');
        int e = store_runs(s->o->store, s->id, before == UINT64_MAX ? 0 : before, max, list_row, &l, err);
        list_memory(&l, 0);
        json_close(j, ']');
        return e;
}

void verb_runs(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct err err = {0};

        json_open(&j, NULL, '{');
        int e = verbs_list_runs(c->sandbox, &j, "runs", call_number(c, "before", UINT64_MAX),
                                (unsigned)call_number(c, "max", 100), &err);
        json_close(&j, '}');
        if (e < 0)
                call_refuse(c, &err);
        else
                call_answer(c, &b);
}
