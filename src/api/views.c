/* How what verbs say becomes HTTP. */
#include "api/views.h"

#include <stdio.h>

#include "api/encode.h"
#include "api/route.h"
#include "base/json-read.h"
#include "operator/ssh-door.h"

#define GATHER_MAX  (4U << 20) /* of each output of a run that is answered whole */
#define CHANGES_MAX (4U << 20)
#define SLACK       (64U << 10)
#define ALIVE_MS    15000
#define BATCH       (16U * 1024)

void views_member(struct json *j, const char *key, const char *value, size_t size) {
        json_str(j, key, "");
        j->out->size -= 2; /* the empty text */
        buf_add(j->out, value, size);
}

void views_ssh(const struct core *o, struct json *j, const char *key) {
        ssh_door_listen(o, j, key);
}

void views_merge(struct exchange *x, unsigned status, const char *members, const char *result) {
        struct buf b = {.max = 2 * LOCAL_ANSWER_MAX};
        bool empty = result[0] != '{' || result[1] == '}';

        buf_str(&b, "{");
        buf_str(&b, members);
        if (!empty && members[0])
                buf_str(&b, ",");
        buf_str(&b, empty ? "}" : result + 1);
        reply_json(x, status, &b);
}

static void free_data(struct exchange *x) {
        free(TAKE_PTR(x->data));
}

/* --- a run, whole ----------------------------------------------------------------------------------------------------
 */

struct gathered {
        struct buf out[2];
        bool cut[2];
};

/* Above what its owner, or all, may have here the rest is left out: the run's log has it. */
static void gather(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct gathered *g = x->data;

        if (kind != LOCAL_OUTPUT && kind != LOCAL_ERRORS)
                return;
        if (!g && !(g = x->data = calloc(1, sizeof *g)))
                return;
        unsigned side = kind == LOCAL_ERRORS;
        struct buf *b = &g->out[side];
        b->max = GATHER_MAX + 1;
        size_t n = g->cut[side] ? 0 : MIN(size, GATHER_MAX - b->size);
        if (n > 0 && !exchange_gather(x, g->out[0].size + g->out[1].size + n))
                n = 0;
        buf_add(b, data, n);
        g->cut[side] |= n < size;
}

static bool always_room(const struct exchange *x) {
        (void)x;
        return true;
}

/* What was gathered has become an answer, which is kept instead until it is read. */
static void answer_gathered(struct exchange *x, struct buf *b, const char *result) {
        struct gathered *g = x->data;
        bool empty = result[0] != '{' || result[1] == '}';

        if (!empty)
                buf_str(b, ",");
        buf_str(b, empty ? "}" : result + 1);
        if (g) {
                buf_free(&g->out[0]);
                buf_free(&g->out[1]);
        }
        /* what base64 and names add was to be expected; what escapes add is counted */
        if (buf_ok(b) && (b->size <= x->kept + x->kept / 2 + SLACK || exchange_gather(x, b->size))) {
                reply_json(x, 200, b);
                return;
        }
        buf_free(b);
        (void)exchange_gather(x, 0);
        reply_error(x, "too_large", "use \"stream\": true, or read the log of the run", "the output does not fit");
}

static void run_answer(struct exchange *x, const char *result) {
        static const struct gathered none;
        const struct gathered *g = x->data ? x->data : &none;
        struct buf b = {.max = 4 * GATHER_MAX};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        encode_member(&j, "stdout", (const uint8_t *)g->out[0].data, g->out[0].size);
        encode_member(&j, "stderr", (const uint8_t *)g->out[1].data, g->out[1].size);
        json_bool(&j, "truncated", g->cut[0] || g->cut[1]);
        answer_gathered(x, &b, result);
}

static void run_free(struct exchange *x) {
        struct gathered *g = x->data;

        if (g) {
                buf_free(&g->out[0]);
                buf_free(&g->out[1]);
        }
        free_data(x);
}

const struct view view_run = {.frame = gather, .answer = run_answer, .free = run_free, .has_room = always_room};

/* --- server-sent events
 * ------------------------------------------------------------------------------------------------ */

static void open_events(struct exchange *x) {
        if (!x->streaming)
                reply_begin(x, 200, "text/event-stream", UINT64_MAX);
}

static void send_event(struct exchange *x, const char *id, const char *name, const char *json) {
        _cleanup_buf_ struct buf b = {.max = 2U << 20};

        encode_event(&b, id, name, json);
        open_events(x);
        if (buf_ok(&b))
                reply_write(x, b.data, b.size);
        else
                reply_fail(x);
}

static void events_refuse(struct exchange *x, const char *code, const char *message, const char *hint) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        reply_error_json(&j, code, message, hint);
        send_event(x, NULL, "error", buf_ok(&b) ? b.data : "{}");
        reply_end(x);
}

/* A comment now and then, so that both ends notice when the other is not there. */
static void stay_alive(struct exchange *x, uint64_t now) {
        if (!x->streaming)
                return;
        if (x->deadline > now + ALIVE_MS) /* until now it said when an answer had to begin */
                x->deadline = now + ALIVE_MS;
        if (now < x->deadline)
                return;
        x->deadline = now + ALIVE_MS;
        reply_write(x, ":\n\n", 3);
}

/* Bytes of a character that is not complete wait for the rest. */
struct halves {
        uint8_t bytes[2][4];
        size_t size[2];
};

static void send_bytes(struct exchange *x, unsigned side, const uint8_t *data, size_t size) {
        static const char *const names[] = {"stdout", "stderr"};
        _cleanup_buf_ struct buf b = {.max = 2U << 20};
        struct json j = {.out = &b};

        if (size == 0)
                return;
        json_open(&j, NULL, '{');
        encode_member(&j, "data", data, size);
        json_close(&j, '}');
        send_event(x, NULL, x->view == &view_terminal_events ? "output" : names[side], buf_ok(&b) ? b.data : "{}");
}

static void run_bytes(struct exchange *x, unsigned side, const uint8_t *data, size_t size) {
        struct halves *h = x->data ? x->data : (x->data = calloc(1, sizeof *h));
        uint8_t piece[BATCH];

        while (h && size > 0) {
                size_t have = h->size[side], n = MIN(size, sizeof piece - have);

                memcpy(piece, h->bytes[side], have);
                memcpy(piece + have, data, n);
                size_t whole = encode_whole(piece, have + n);
                h->size[side] = have + n - whole;
                memcpy(h->bytes[side], piece + whole, h->size[side]);
                send_bytes(x, side, piece, whole);
                data += n;
                size -= n;
        }
}

static void run_event(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        char text[512];

        if (kind == LOCAL_OUTPUT || kind == LOCAL_ERRORS)
                run_bytes(x, kind == LOCAL_ERRORS, data, size);
        else if (kind == LOCAL_EVENT && size < sizeof text) {
                memcpy(text, data, size);
                text[size] = '\0';
                send_event(x, NULL, json_find_kind(text, "lost") ? "lost" : "started", text);
        }
}

static void run_events_answer(struct exchange *x, const char *result) {
        struct halves *h = x->data;

        for (unsigned side = 0; h && side < 2; side++)
                send_bytes(x, side, h->bytes[side], h->size[side]);
        send_event(x, NULL, "exit", result);
        reply_end(x);
}

const struct view view_run_events = {.frame = run_event,
                                     .answer = run_events_answer,
                                     .refuse = events_refuse,
                                     .tick = stay_alive,
                                     .free = free_data};

const struct view view_terminal_events = {.frame = run_event,
                                          .answer = run_events_answer,
                                          .refuse = events_refuse,
                                          .tick = stay_alive,
                                          .free = free_data};

/* Which events are wanted: kinds, or families of them, with commas between; x->data. */
static bool is_wanted(const struct exchange *x, const char *kind) {
        for (const char *p = x->data ? x->data : ""; *p; p += strspn(p, ",")) {
                size_t n = strcspn(p, ",");

                if (strncmp(p, kind, n) == 0 && (kind[n] == '\0' || kind[n] == '.'))
                        return true;
                p += n;
        }
        return !x->data;
}

static void plain_event(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = kind == LOCAL_EVENT ? strndup((const char *)data, size) : NULL;
        char id[24], name[64] = "change";
        uint64_t seq = 0;

        if (!text)
                return;
        bool ledger = json_find_u64(text, "seq", &seq);
        if (ledger && !json_find_str(text, "kind", name, sizeof name))
                name[0] = '\0';
        if (!ledger && json_find_kind(text, "opened"))
                (void)snprintf(name, sizeof name, "opened");
        if (ledger && !is_wanted(x, name))
                return;
        (void)snprintf(id, sizeof id, "%llu", (unsigned long long)seq);
        send_event(x, ledger ? id : NULL, name, text);
}

static void plain_end(struct exchange *x, const char *result) {
        send_event(x, NULL, "end", result);
        reply_end(x);
}

const struct view view_events = {
        .frame = plain_event, .answer = plain_end, .refuse = events_refuse, .tick = stay_alive, .free = free_data};

/* --- bytes
 * --------------------------------------------------------------------------------------------------------------- */

static void bytes(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        if (kind != LOCAL_OUTPUT)
                return;
        if (!x->streaming)
                reply_begin(x, 200,
                            str_eq(x->route->verb, "tar-out")    ? "application/x-tar"
                            : str_eq(x->route->verb, "evidence") ? "application/json"
                                                                 : "application/octet-stream",
                            UINT64_MAX);
        reply_write(x, data, size);
}

static void bytes_end(struct exchange *x, const char *result) {
        (void)result;
        if (!x->streaming)
                reply_begin(x, 200, "application/octet-stream", UINT64_MAX);
        reply_end(x);
}

const struct view view_bytes = {.frame = bytes, .answer = bytes_end};

/* --- small ones
 * ------------------------------------------------------------------------------------------------------------ */

static void life_answer(struct exchange *x, const char *result) {
        char id[17] = "", members[80];

        (void)json_find_str(result, "id", id, sizeof id);
        (void)snprintf(members, sizeof members, "\"success\":true,\"sandbox_id\":\"%s\"", id);
        views_merge(x, 200, members, result);
}

const struct view view_life = {.answer = life_answer};

static void gather_change(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct gathered *g = x->data ? x->data : (x->data = calloc(1, sizeof *g));

        if (!g || kind != LOCAL_EVENT)
                return;
        struct buf *b = &g->out[0];
        b->max = CHANGES_MAX + 1;
        if (g->cut[0] || b->size + size + 1 > CHANGES_MAX || !exchange_gather(x, b->size + size + 1)) {
                g->cut[0] = true;
                return;
        }
        if (b->size > 0)
                buf_str(b, ",");
        buf_add(b, data, size);
}

static void changes_answer(struct exchange *x, const char *result) {
        static const struct gathered none;
        const struct gathered *g = x->data ? x->data : &none;
        struct buf b = {.max = CHANGES_MAX + LOCAL_ANSWER_MAX};

        buf_printf(&b, "{\"truncated\":%s,\"changes\":[", g->cut[0] ? "true" : "false");
        buf_add(&b, g->out[0].data ? g->out[0].data : "", g->out[0].size);
        buf_str(&b, "]");
        answer_gathered(x, &b, result);
}

const struct view view_changes = {
        .frame = gather_change, .answer = changes_answer, .free = run_free, .has_room = always_room};

static void first_answer(struct exchange *x, const char *result) {
        struct json_walk outer, inner;
        struct buf b = {.max = LOCAL_ANSWER_MAX};
        size_t size = 0;

        if (json_walk_begin(&outer, result, "") && json_walk_next(&outer) && json_walk_begin(&inner, outer.value, "") &&
            json_walk_next(&inner)) {
                const char *value = json_at(inner.value, "", &size);

                buf_add(&b, value, size);
                reply_json(x, 200, &b);
        } else
                reply_error(x, "not_found", "look at its state", "there is nothing to show");
}

const struct view view_first = {.answer = first_answer};
