/* The reverse proxy to a port of a sandbox: one connection through the verb `connect` for each request.
 *
 * The request's body goes in as it comes and the answer's body out as it comes; whichever is slow holds up the other.
 * libmicrohttpd takes an answer only when it has seen the whole request, so an answer that comes earlier waits here, up
 * to the mark that every stream has. A WebSocket becomes a pipe of bytes both ways after the server has said 101.
 *
 * Must never: call the verb's `gone` from inside one of the verb's own calls; send the client a byte of an answer whose
 * head was not understood whole. */
#include "api/port.h"

#include <stdio.h>
#include <strings.h>

#include "api/route.h"
#include "api/websocket-upgrade.h"
#include "api/who.h"

#define INTERIM_MAX 16    /* answers of 1xx before the real one */
#define LINGER_MS   10000 /* for a client that has not read the server's last words */

enum phase {
        PHASE_HEAD, /* of the answer, or something in front of it */
        PHASE_BODY,
        PHASE_PIPE, /* a WebSocket */
        PHASE_DONE, /* everything was said */
};

struct port {
        struct upgrade up; /* of a WebSocket */
        struct exchange *x;
        enum phase phase;
        bool opened;   /* there is a connection to the port */
        bool asked;    /* the whole request was given to the verb */
        bool finished; /* the server says no more */
        bool chunked;  /* the request's body */
        bool wants_upgrade;
        unsigned interim;
        struct buf to; /* for the server: what the verb does not take yet */
        size_t to_at;
        struct buf from; /* of the server: not read yet */
        uint64_t until;  /* a WebSocket that has ended is cut; 0: it has not */
        struct http_body body;
        struct loop_task end; /* lets go of the verb */
};

static void let_verb_go(struct loop_task *t) {
        struct port *p = LOOP_OWNER(t, struct port, end);
        struct exchange *x = p->x;

        if (x->busy && x->c.gone) {
                x->busy = false;
                x->c.gone(&x->c);
        }
}

static void done(struct port *p) {
        p->phase = PHASE_DONE;
        loop_later(p->x->api->o->loop, &p->end);
}

/* The server's fault, before anything was answered. */
static void bad_server(struct port *p, const char *what) {
        struct exchange *x = p->x;

        done(p);
        x->close = true;
        reply_error(x, "bad_gateway", "look at what the program that listens there says", "port %s: %s",
                    route_param(x, "port"), what);
}

/* --- to the server --------------------------------------------------------------------------------------------------
 */

/* True when nothing waits any more. */
static bool push(struct port *p) {
        struct exchange *x = p->x;

        while (p->to_at < p->to.size && x->busy && !x->held && x->c.input) {
                size_t n = MIN(p->to.size - p->to_at, (size_t)LOCAL_FRAME_MAX);

                p->to_at += n;
                x->c.input(&x->c, LOCAL_INPUT, (const uint8_t *)p->to.data + p->to_at - n, n);
        }
        if (p->to_at < p->to.size)
                return false;
        p->to.size = p->to_at = 0;
        return true;
}

static void answer_on(struct port *p);

/* A piece of the request's body, or its end. */
static void input(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct port *p = x->data;

        if (kind == LOCAL_INPUT && size > 0) {
                x->deadline = loop_now(x->api->o->loop) + x->route->deadline_ms;
                if (p->chunked)
                        buf_printf(&p->to, "%zx\r\n", size);
                buf_add(&p->to, data, size);
                if (p->chunked)
                        buf_str(&p->to, "\r\n");
        } else if (kind == LOCAL_FINISH) {
                p->asked = true;
                if (p->chunked)
                        buf_str(&p->to, "0\r\n\r\n");
        }
        if (!buf_ok(&p->to)) {
                bad_server(p, "out of memory");
                return;
        }
        (void)push(p);
        if (p->asked && p->from.size > 0)
                answer_on(p);
}

/* The verb takes more. */
static void released(struct exchange *x) {
        struct port *p = x->data;

        if (!p || !push(p) || x->held)
                return;
        if (p->phase == PHASE_PIPE)
                upgrade_hold(&p->up, false);
        else if (!x->inside && !x->streaming)
                exchange_wake(x);
}

/* --- from the server ------------------------------------------------------------------------------------------------
 */

/* Enough of the request for the parser to judge its answer. */
static enum http_result read_head(struct port *p, struct http_head *h) {
        struct http_head request = {
                .minor = 1, .method = {p->x->method, strlen(p->x->method)}, .upgrade = p->wants_upgrade};

        return http_response(p->from.data, p->from.size, &request, h);
}

static void drop_front(struct buf *b, size_t size) {
        memmove(b->data, b->data + size, b->size - size);
        b->size -= size;
}

/* To HEAD: what would have come. */
static uint64_t length_of_head(const struct http_head *h) {
        const struct http_header *f = http_find(h, "Content-Length");
        uint64_t length = 0;

        for (size_t i = 0; f && i < f->value.size; i++)
                length = length * 10 + (uint64_t)(f->value.data[i] - '0');
        return f ? length : UINT64_MAX;
}

static void begin_answer(struct port *p, const struct http_head *h) {
        struct exchange *x = p->x;
        uint64_t size = h->framing == HTTP_LENGTH    ? h->length
                        : h->framing != HTTP_NO_BODY ? UINT64_MAX
                        : str_eq(x->method, "HEAD")  ? length_of_head(h)
                                                     : 0;

        http_body_init(&p->body, h->framing, h->length);
        p->phase = PHASE_BODY;
        reply_begin_bare(x, h->status, size);
        port_answer_head(x, h);
}

static void begin_pipe(struct port *p, const struct http_head *h) {
        p->phase = PHASE_PIPE;
        upgrade_begin(&p->up);
        port_upgrade_head(p->x, h);
}

/* What is in front: a head, or several. False: nothing more can be done now. */
static bool take_head(struct port *p) {
        static struct http_head h; /* large; nothing in it lives longer than this call */
        enum http_result r = read_head(p, &h);

        if (r == HTTP_MORE)
                return false;
        if (r != HTTP_DONE) {
                bad_server(p, h.problem);
                return false;
        }
        if (h.status > 599) {
                bad_server(p, "there is no such status");
                return false;
        }
        if (h.status < 200 && h.status != 101) {
                if (p->interim++ == INTERIM_MAX)
                        bad_server(p, "it says that it will answer, and does not");
                else
                        drop_front(&p->from, h.size);
                return p->phase == PHASE_HEAD;
        }
        size_t size = h.size;
        if (h.status == 101)
                begin_pipe(p, &h);
        else
                begin_answer(p, &h);
        drop_front(&p->from, size);
        return true;
}

struct piece {
        struct exchange *x;
        const char *bytes;
};

static void payload(void *context, size_t at, size_t size) {
        struct piece *piece = context;

        reply_write(piece->x, piece->bytes + at, size);
}

static void take_body(struct port *p, const uint8_t *data, size_t size) {
        struct piece piece = {p->x, (const char *)data};
        ssize_t n = http_body_feed(&p->body, data, size, payload, &piece);

        if (n < 0) {
                reply_fail(p->x);
                done(p);
        } else if (p->body.done) {
                reply_end(p->x);
                done(p);
        }
}

static void pipe_out(struct port *p) {
        if (p->up.open && p->from.size > 0) {
                if (upgrade_send(&p->up, p->from.data, p->from.size) < 0)
                        upgrade_end(&p->up);
                p->from.size = 0;
        }
        if (p->finished && p->up.open)
                stream_finish(&p->up.stream);
}

/* Goes on with what the server has said; from the moment that the whole request is out. */
static void answer_on(struct port *p) {
        while (p->phase == PHASE_HEAD && p->asked && p->from.size > 0 && take_head(p))
                ;
        if (p->phase == PHASE_BODY) {
                take_body(p, (const uint8_t *)p->from.data, p->from.size);
                buf_free(&p->from);
                loop_later(p->x->api->o->loop, &p->x->room);
        } else if (p->phase == PHASE_PIPE)
                pipe_out(p);
}

/* The server has closed, or was closed. */
static void no_more(struct port *p, const char *why) {
        p->finished = true;
        if (p->phase == PHASE_PIPE)
                pipe_out(p);
        else if (p->phase == PHASE_BODY) {
                if (p->body.framing == HTTP_UNTIL_CLOSE && !why)
                        reply_end(p->x);
                else
                        reply_fail(p->x);
                done(p);
        } else if (p->phase == PHASE_HEAD && !p->asked && p->from.size > 0) {
                p->asked = true; /* it wants no more of the request: so be it */
                answer_on(p);
                if (p->phase != PHASE_HEAD)
                        no_more(p, why);
                else
                        bad_server(p, "it closed the connection in the middle of its answer");
        } else if (p->phase == PHASE_HEAD)
                bad_server(p, why ? why : "it closed the connection without an answer");
}

static void frame(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size) {
        struct port *p = x->data;

        if (kind == LOCAL_EVENT && !p->opened) {
                p->opened = true;
                return; /* `released` follows, and sends the head */
        }
        if (kind == LOCAL_FINISH && !p->finished) {
                no_more(p, NULL);
                return;
        }
        if (kind != LOCAL_OUTPUT || p->phase == PHASE_DONE)
                return;
        if (p->phase == PHASE_BODY) {
                take_body(p, data, size);
                return;
        }
        buf_add(&p->from, data, size);
        if (!buf_ok(&p->from)) {
                bad_server(p, "out of memory");
                return;
        }
        answer_on(p);
}

static void answer(struct exchange *x, const char *result) {
        struct port *p = x->data;

        (void)result;
        if (!p->finished)
                no_more(p, NULL);
}

static void refuse(struct exchange *x, const char *code, const char *message, const char *hint) {
        (void)code;
        (void)hint;
        no_more(x->data, message);
}

static void unanswered(struct exchange *x, const char *code, const char *message, const char *hint) {
        struct port *p = x->data;

        if (p->opened)
                no_more(p, message);
        else
                reply_refused(x, code, message, hint);
}

static bool has_room(const struct exchange *x) {
        const struct port *p = x->data;

        switch (p->phase) {
        case PHASE_HEAD:
                return p->from.size < EXCHANGE_MARK;
        case PHASE_BODY:
                return x->out.size - x->out_at < EXCHANGE_MARK;
        case PHASE_PIPE:
                return p->up.open ? upgrade_has_room(&p->up) : p->from.size < EXCHANGE_MARK;
        case PHASE_DONE:
        default:
                return false;
        }
}

/* --- a WebSocket ----------------------------------------------------------------------------------------------------
 */

static void pipe_opened(struct upgrade *u) {
        struct port *p = LOOP_OWNER(u, struct port, up);

        pipe_out(p);
        upgrade_hold(u, u->x->held);
        loop_later(u->x->api->o->loop, &u->x->room);
}

static void pipe_bytes(struct upgrade *u, const uint8_t *data, size_t size) {
        struct exchange *x = u->x;

        if (!x->busy || !x->c.input)
                return;
        if (who_is_over(x)) {
                upgrade_end(u);
                return;
        }
        x->c.input(&x->c, LOCAL_INPUT, data, size);
        upgrade_hold(u, x->held);
}

static void pipe_room(struct upgrade *u) {
        loop_later(u->x->api->o->loop, &u->x->room);
}

static void tick(struct exchange *x, uint64_t now) {
        struct port *p = x->data;

        if (!p || p->phase != PHASE_PIPE || p->up.over)
                return;
        if (p->finished && p->until == 0)
                p->until = now + LINGER_MS;
        if (who_is_over(x) || (p->until > 0 && now >= p->until))
                upgrade_end(&p->up);
}

/* --- its beginning and end ------------------------------------------------------------------------------------------
 */

static void free_all(struct exchange *x) {
        struct port *p = TAKE_PTR(x->data);

        if (!p)
                return;
        loop_cancel(x->api->o->loop, &p->end);
        upgrade_free(&p->up);
        buf_free(&p->to);
        buf_free(&p->from);
        free(p);
}

const struct view view_port = {.frame = frame,
                               .answer = answer,
                               .refuse = refuse,
                               .unanswered = unanswered,
                               .tick = tick,
                               .free = free_all,
                               .has_room = has_room,
                               .input = input,
                               .released = released};

static bool check(struct exchange *x) {
        const char *wrong = NULL;

        if (x->rest[0] == '/' && x->rest[1] == '/')
                wrong = "the path begins with two slashes";
        else if (strlen(x->method) > HTTP_METHOD_MAX || strcasecmp(x->method, "CONNECT") == 0 ||
                 strcasecmp(x->method, "TRACE") == 0)
                wrong = "this method is not passed on";
        else if (x->head.upgrade && (strcasecmp(x->head.upgrade, "websocket") != 0 || x->has_body))
                wrong = "the only other protocol is WebSocket";
        if (!wrong)
                return true;
        x->close = x->has_body;
        reply_error(x, "bad_request", "see RFC 9110", "%s", wrong);
        return false;
}

void port_begin(struct exchange *x) {
        static const struct upgrade_events events = {pipe_opened, pipe_bytes, pipe_room};
        struct buf b = {0};
        struct json j = {.out = &b};
        struct port *p;

        if (!check(x))
                return;
        p = calloc(1, sizeof *p);
        if (!p) {
                reply_error(x, "failed", "try again", "out of memory");
                return;
        }
        x->data = p;
        p->x = x;
        p->end.run = let_verb_go;
        p->chunked = x->head.encoding != NULL;
        p->wants_upgrade = x->head.upgrade != NULL;
        p->from.max = EXCHANGE_MOST;
        upgrade_init(&p->up, x, &events);
        port_request_head(x, p->chunked, p->wants_upgrade, &p->to);
        if (!buf_ok(&p->to)) {
                reply_error(x, "bad_request", "send less in its head", "the request cannot be passed on");
                return;
        }
        route_request(x, &j, "connect");
        json_close(&j, '}');
        exchange_dispatch(x, &b);
        if (x->busy && !p->opened)
                x->held = true; /* until there is a connection */
}
