/* A client of the verbs behind a WebSocket that speaks the local protocol.
 *
 * Always holds: nothing reaches a verb before its request was checked as the local socket checks it, its name was found
 * in the table below and its rate was asked; what the verb does not take waits in one buffer, and meanwhile nothing is
 * read; a long answer is handed to the WebSocket as fast as the other end takes it. Bytes that wait are counted with
 * those of all exchanges. */
#include "api/tunnel.h"

#include <strings.h>

#include "api/rates.h"
#include "api/route.h"
#include "api/views.h"
#include "api/websocket.h"
#include "base/json-read.h"

#define PROTOCOL    "stockade.local.1"
#define REQUEST_MS  10000
#define CONTROL_MAX 4096
#define IN_MAX      (LOCAL_HEAD + 3 * LOCAL_FRAME_MAX) /* a frame, and what one read brings behind it */
#define STEP        (32U * 1024)

enum { NORMAL = 1000, NOT_BYTES = 1003, WRONG = 1008, TOO_BIG = 1009, CROWDED = 1013 };

struct tunnel {
        struct websocket w; /* first */
        bool asked;         /* the request was there */
        uint64_t until;     /* it has to be */
        struct buf in;      /* bytes that came and were not taken yet */
        size_t in_at;
        struct loop_task taking; /* the verb takes input again: from the loop, never from inside its own call */
        struct buf out;
        size_t out_at;              /* of the answer */
        const char *const *members; /* that are told of it; NULL: all */
};

/* What may be asked from afar, and as often as what. `down`, links that sign others in, and what is the SSH door's are
 * for this host alone; so is every verb that nobody has put here. */
static const struct {
        const char *verb;
        enum rate rate;
} allowed[] = {
        {"ping", RATE_READ},
        {"health", RATE_READ},
        {"create", RATE_WRITE},
        {"list", RATE_READ},
        {"show", RATE_READ},
        {"exec", RATE_SANDBOX},
        {"attach", RATE_SANDBOX},
        {"logs", RATE_READ},
        {"signal", RATE_SANDBOX},
        {"cancel", RATE_SANDBOX},
        {"input", RATE_SANDBOX},
        {"resize", RATE_SANDBOX},
        {"runs", RATE_READ},
        {"pause", RATE_SANDBOX},
        {"unpause", RATE_SANDBOX},
        {"stop", RATE_SANDBOX},
        {"resume", RATE_SANDBOX},
        {"delete", RATE_SANDBOX},
        {"quarantine", RATE_SANDBOX},
        {"policy", RATE_SANDBOX},
        {"secret", RATE_SANDBOX},
        {"secrets", RATE_READ},
        {"secret-wipe", RATE_SANDBOX},
        {"snapshot", RATE_WRITE},
        {"snapshots", RATE_READ},
        {"snapshot-delete", RATE_WRITE},
        {"rollback", RATE_SANDBOX},
        {"diff", RATE_READ},
        {"export", RATE_READ},
        {"import", RATE_WRITE},
        {"snapshot-stat", RATE_READ},
        {"snapshot-ls", RATE_READ},
        {"snapshot-get", RATE_READ},
        {"put", RATE_SANDBOX},
        {"get", RATE_SANDBOX},
        {"tar-in", RATE_SANDBOX},
        {"tar-out", RATE_SANDBOX},
        {"ls", RATE_SANDBOX},
        {"stat", RATE_SANDBOX},
        {"mkdir", RATE_SANDBOX},
        {"mv", RATE_SANDBOX},
        {"rm", RATE_SANDBOX},
        {"watch", RATE_SANDBOX},
        {"connect", RATE_SANDBOX},
        {"processes", RATE_READ},
        {"usage", RATE_READ},
        {"events", RATE_READ},
        {"images", RATE_READ},
        {"image-import", RATE_WRITE},
        {"image-remove", RATE_WRITE},
        {"ssh-key-add", RATE_SANDBOX},
        {"ssh-keys", RATE_READ},
        {"ssh-key-remove", RATE_SANDBOX},
        {"fork", RATE_WRITE},
        {"evidence", RATE_READ},
        {"checkpoint", RATE_READ},
        {"owners", RATE_READ},
};

/* Of answers about the whole host, what whoever is no operator is told from afar; others have all of it. */
static const struct {
        const char *verb;
        const char *const members[7];
} narrowed[] = {
        {"ping", {"version", "mode", "health", "started_ms", "owner", "admin"}},
        {"health", {"ok", "ledger_seq"}},
};

static struct tunnel *of(const struct exchange *x) {
        return x->data;
}

/* --- the answer -----------------------------------------------------------------------------------------------------
 */

/* Hands on what there is room for. True: that was all. */
static bool hand_on(struct tunnel *t) {
        while (t->out_at < t->out.size && websocket_has_room(&t->w)) {
                size_t n = MIN(t->out.size - t->out_at, (size_t)STEP);

                websocket_send(&t->w, false, t->out.data + t->out_at, n);
                t->out_at += n;
        }
        return t->out_at == t->out.size;
}

static void finish(struct exchange *x) {
        struct tunnel *t = of(x);

        buf_free(&t->out);
        t->out_at = 0;
        websocket_close(&t->w, NORMAL, "answered");
}

static void more_room(struct client *c) {
        struct exchange *x = LOOP_OWNER(c, struct exchange, c);

        if (!hand_on(of(x)))
                return;
        finish(x);
        exchange_release(x);
}

/* The other end went away, or its session ended, before it had all of it. */
static void nobody_left(struct client *c) {
        (void)c;
}

static void last_word(struct exchange *x, const char *before, const char *body, const char *after) {
        struct tunnel *t = of(x);
        struct buf b = {.max = LOCAL_ANSWER_MAX};

        t->asked = true;
        buf_str(&b, before);
        buf_str(&b, body);
        buf_str(&b, after);
        if (!buf_ok(&b) || !exchange_gather(x, x->kept + b.size)) {
                bool large = !buf_ok(&b);

                buf_free(&b);
                b = (struct buf){0};
                buf_printf(&b, "{\"ok\":false,\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"hint\":\"%s\"}}",
                           large ? "too_large" : "busy",
                           large ? "the answer is too large" : "too many large answers wait to be read",
                           large ? "ask for less at a time" : "read them, or try again");
        }
        t->out = (struct buf){.max = LOCAL_HEAD + LOCAL_ANSWER_MAX};
        local_put(&t->out, LOCAL_ANSWER, b.data, b.size);
        buf_free(&b);
        if (!buf_ok(&t->out)) {
                websocket_close(&t->w, CROWDED, "out of memory");
                return;
        }
        if (hand_on(t)) {
                finish(x);
                return;
        }
        exchange_hold(x);
        x->c.writable = more_room;
        x->c.gone = nobody_left;
}

static void answer(struct exchange *x, const char *result) {
        const char *const *members = of(x)->members;
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (members) {
                json_open(&j, NULL, '{');
                for (; *members; members++) {
                        size_t size;
                        const char *value = json_at(result, *members, &size);

                        if (value)
                                views_member(&j, *members, value, size);
                }
                json_close(&j, '}');
                result = buf_ok(&b) ? b.data : "{}";
        }
        last_word(x, "{\"ok\":true,\"result\":", result, "}");
}

static void refuse(struct exchange *x, const char *code, const char *message, const char *hint) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "code", code);
        json_str(&j, "message", message);
        json_str(&j, "hint", hint);
        json_close(&j, '}');
        last_word(x, "{\"ok\":false,\"error\":", buf_ok(&b) ? b.data : "{}", "}");
}

static void frame(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        bool bytes = kind == LOCAL_OUTPUT || kind == LOCAL_ERRORS;

        do { /* streams of bytes may be cut anywhere; others fit */
                _cleanup_buf_ struct buf b = {.max = LOCAL_HEAD + LOCAL_ANSWER_MAX};
                size_t n = bytes ? MIN(size, (size_t)LOCAL_FRAME_MAX) : size;

                local_put(&b, kind, data, n);
                if (!buf_ok(&b)) {
                        websocket_close(&of(x)->w, CROWDED, "out of memory");
                        return;
                }
                websocket_send(&of(x)->w, false, b.data, b.size);
                data += n;
                size -= n;
        } while (size > 0);
}

/* --- the request ----------------------------------------------------------------------------------------------------
 */

static bool is_allowed(struct exchange *x, const char *verb) {
        char message[128];

        for (size_t i = 0; i < ELEMENTSOF(allowed); i++) {
                if (!str_eq(allowed[i].verb, verb))
                        continue;
                /* opening it was counted once already */
                if (allowed[i].rate == x->route->rate || rates_ask(x->api->rates, allowed[i].rate, x->address,
                                                                   sizeof x->address, loop_now(x->api->o->loop)) == 0)
                        return true;
                refuse(x, "busy", "too many requests of this address", "wait a moment");
                return false;
        }
        (void)snprintf(message, sizeof message, "'%.40s' cannot be asked for from afar", verb);
        refuse(x, "refused", message, "do it on the host itself, at its local socket");
        return false;
}

static void take_request(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct buf b = {.max = LOCAL_JSON_MAX + 1};
        struct err err = {0};
        char verb[32] = "";

        of(x)->asked = true;
        buf_add(&b, data, size);
        if (kind != LOCAL_REQUEST)
                refuse(x, "bad_request", "the first frame is no request", "see docs/protocol/local.md");
        else if (!buf_ok(&b) || size == 0 || json_check(b.data, b.size, &err) < 0 ||
                 b.data[strspn(b.data, " \t\r\n")] != '{')
                refuse(x, "bad_request", err.text[0] ? err.text : "a request is a JSON object",
                       "see docs/protocol/local.md");
        else if (x->api->draining)
                refuse(x, "busy", "the operator is ending", "try again in a moment");
        else if (!json_find_str(b.data, "verb", verb, sizeof verb))
                refuse(x, "bad_request", "a request names its verb", "see docs/protocol/local.md");
        else if (is_allowed(x, verb)) {
                for (size_t i = 0; i < ELEMENTSOF(narrowed) && !x->c.admin; i++)
                        if (str_eq(narrowed[i].verb, verb))
                                of(x)->members = narrowed[i].members;
                exchange_dispatch(x, &b);
                return;
        }
        if (b.data)
                explicit_bzero(b.data, b.size);
        buf_free(&b);
}

/* False: it is no frame that can stand here. */
static bool take_frame(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        char control[CONTROL_MAX + 1];

        if (kind == LOCAL_CONTROL) {
                if (size > CONTROL_MAX || json_check((const char *)data, size, NULL) < 0)
                        return false;
                memcpy(control, data, size);
                control[size] = '\0';
                data = (const uint8_t *)control;
        } else if (kind != LOCAL_INPUT && (kind != LOCAL_FINISH || size > 0))
                return false;
        x->c.input(&x->c, kind, data, size);
        return true;
}

/* --- bytes that came ------------------------------------------------------------------------------------------------
 */

static bool wants(const struct exchange *x) {
        const struct tunnel *t = of(x);

        return !t->w.closing && !t->w.leaving && !t->w.up.over && (!t->asked || (x->busy && x->c.input && !x->held));
}

/* A verb that takes no input, or not yet: what came for it waits, and beyond that nothing is read; but as long as
 * little came we want to hear whether the other end is still there. */
static void look_out(struct exchange *x) {
        if (x->busy && !x->c.input)
                x->held = of(x)->in.size >= STEP;
}

/* Hands on what waits. The verb may answer, and free what it has, with every frame. */
static void take(struct exchange *x) {
        struct tunnel *t = of(x);

        while (t->in_at < t->in.size && wants(x)) {
                enum local_kind kind;
                const uint8_t *data;
                size_t size;
                ssize_t n = local_next((const uint8_t *)t->in.data + t->in_at, t->in.size - t->in_at,
                                       t->asked ? LOCAL_FRAME_MAX : LOCAL_JSON_MAX, &kind, &data, &size);

                if (n == 0)
                        break;
                if (n > 0)
                        t->in_at += (size_t)n;
                if (n < 0 && !t->asked)
                        refuse(x, "bad_request", "the first bytes are no request, or one that is too large",
                               "see docs/protocol/local.md");
                else if (n > 0 && !t->asked)
                        take_request(x, kind, data, size);
                else if (n < 0 || !take_frame(x, kind, data, size))
                        websocket_close(&t->w, WRONG, "no frame of the local protocol");
        }
        if (t->in_at > 0) {
                size_t left = t->in.size - t->in_at;

                memmove(t->in.data, t->in.data + t->in_at, left);
                explicit_bzero(t->in.data + left, t->in_at); /* a request may have had secrets in it */
                t->in.size = left;
                t->in_at = 0;
        }
        if (!t->out.data)
                (void)exchange_gather(x, t->in.size);
        look_out(x);
}

static void take_again(struct loop_task *task) {
        struct tunnel *t = LOOP_OWNER(task, struct tunnel, taking);

        take(t->w.up.x);
        websocket_released(&t->w);
}

static void message(struct websocket *w, bool text, const uint8_t *data, size_t size) {
        struct exchange *x = w->up.x;
        struct tunnel *t = of(x);

        if (t->asked && (!x->busy || t->out.data)) /* it has its answer */
                return;
        if (text) {
                websocket_close(w, NOT_BYTES, "only binary messages");
                return;
        }
        if (t->in.size + size > IN_MAX) {
                websocket_close(w, TOO_BIG, "more than is taken at a time");
                return;
        }
        if (!exchange_gather(x, t->in.size + size)) {
                websocket_close(w, CROWDED, "too much waits to be taken");
                return;
        }
        buf_add(&t->in, data, size);
        if (!buf_ok(&t->in)) {
                websocket_close(w, CROWDED, "out of memory");
                return;
        }
        take(x);
}

static void released(struct exchange *x) {
        if (of(x))
                loop_later(x->api->o->loop, &of(x)->taking);
}

static void tick(struct exchange *x, uint64_t now) {
        struct tunnel *t = of(x);

        if (!t)
                return;
        if (!t->asked && now >= t->until)
                refuse(x, "bad_request", "no complete request came in time", "send the whole request at once");
        websocket_tick(&t->w, now);
}

static bool has_room(const struct exchange *x) {
        return x->data && websocket_has_room(&of(x)->w);
}

static void free_all(struct exchange *x) {
        struct tunnel *t = TAKE_PTR(x->data);

        if (!t)
                return;
        loop_cancel(x->api->o->loop, &t->taking);
        websocket_free(&t->w);
        if (t->in.data)
                explicit_bzero(t->in.data, t->in.room);
        buf_free(&t->in);
        buf_free(&t->out);
        free(t);
}

const struct view view_tunnel = {.frame = frame,
                                 .answer = answer,
                                 .refuse = refuse,
                                 .tick = tick,
                                 .free = free_all,
                                 .has_room = has_room,
                                 .released = released};

/* --- opening --------------------------------------------------------------------------------------------------------
 */

static bool offers_protocol(struct exchange *x) {
        const char *p = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Sec-WebSocket-Protocol");

        for (; p && *p; p += strspn(p, ", \t")) {
                size_t n = strcspn(p, ", \t");

                if (n == strlen(PROTOCOL) && strncmp(p, PROTOCOL, n) == 0)
                        return true;
                p += n;
        }
        return false;
}

/* As many as one user of the local socket may have. */
static bool has_too_many(const struct exchange *x) {
        uint64_t count = 0;

        for (const struct exchange *y = x->api->exchanges; y; y = y->next)
                count += y->view == &view_tunnel && y->connection && str_eq(y->c.owner, x->c.owner);
        return count > x->api->o->conf.owner_clients;
}

void tunnel_begin(struct exchange *x) {
        struct tunnel *t;

        if (!websocket_check(x))
                return;
        if (!offers_protocol(x)) {
                reply_error(x, "bad_request", "send Sec-WebSocket-Protocol: " PROTOCOL,
                            "no protocol is offered that is spoken here");
                return;
        }
        if (has_too_many(x)) {
                reply_error(x, "limit", "end some of them, or raise owner_clients in stockade.conf",
                            "this owner has %llu of these open, which is the limit",
                            (unsigned long long)x->api->o->conf.owner_clients);
                return;
        }
        t = calloc(1, sizeof *t);
        x->data = t;
        if (!t || websocket_init(&t->w, x, message) < 0) {
                reply_error(x, "failed", "try again", "out of memory");
                return;
        }
        t->taking.run = take_again;
        t->in.max = IN_MAX + 1;
        t->until = loop_now(x->api->o->loop) + REQUEST_MS;
        websocket_open(&t->w);
        reply_header(x, "Sec-WebSocket-Protocol", PROTOCOL);
}
