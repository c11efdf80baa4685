/* One HTTP conversation: requests are judged, then let through; answers are matched to them.
 *
 *   request:  HEAD -> BODY -> WAIT -> HEAD ...      response: IDLE -> HEAD -> BODY -> IDLE ...
 *
 * A request's head takes the response from IDLE to HEAD; the end of an answer takes the request from WAIT to HEAD. An
 * answer that is complete before its request is ends the conversation. RAW (an upgrade was granted) and OVER are the
 * ends of both. At most one request is outstanding, so an answer can only be to that one, and bytes that come from a
 * server that was asked nothing end the conversation. */
#include "gate/exchange.h"

#include <sys/mman.h>

#include "base/knockout.h"
#include "gate/exchange-head.h"
#include "gate/exchange-refuse.h"
#include "gate/frames.h"
#include "gate/override.h"

enum request_state { REQUEST_HEAD, REQUEST_BODY, REQUEST_WAIT };
enum response_state { RESPONSE_IDLE, RESPONSE_HEAD, RESPONSE_BODY };
enum ending { GOING_ON, RAW, OVER };

#define PATH_KEPT 1024 /* bytes of a request's path */

struct exchange {
        struct exchange *next_free;
        struct exchange_setup setup;
        char name[HOSTNAME_SIZE]; /* setup.name's bytes */
        struct exchange_view view;
        enum ending ending;
        enum request_state request;
        enum response_state response;
        struct exchange_asked asked;
        size_t path_size;     /* of the whole; more than path holds: see exchange_review */
        char path[PATH_KEPT]; /* without query, as much as there is room for */
        bool overridden;      /* it has a header that may stand for another method or path */
        uint32_t secrets;     /* that went into it: a bit for each position */
        uint64_t epoch;       /* of these positions */
        int rule;             /* that allowed it, index in network.allow */
        bool close;           /* after this answer */
        struct http_body request_body, response_body;
        struct frames frames;         /* RAW: what the server sends */
        char reply[EXCHANGE_REFUSAL]; /* from here on memory is touched only when it is needed */
        struct redact redact;
};
static_assert(REDACT_MAX + FRAMES_MORE <= EXCHANGE_HELD && FRAMES_PIECE == EXCHANGE_PIECE, "exchange_raw's room");

static struct exchange *slots;      /* EXCHANGE_MAX of them */
static struct exchange *slots_free; /* given back: the last first, its pages are there */
static size_t slots_used;           /* so many were ever taken */
static struct http_head head;       /* of the call that is running */

/* ---- taking and giving ---- */

static struct exchange *slot_take(void) {
        struct exchange *x = slots_free;

        if (x) {
                slots_free = x->next_free;
                return x;
        }
        if (!slots) {
                void *memory = mmap(NULL, EXCHANGE_MAX * sizeof *slots, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (memory == MAP_FAILED)
                        return NULL;
                (void)madvise(memory, EXCHANGE_MAX * sizeof *slots, MADV_DONTDUMP);
                slots = memory;
        }
        return slots_used < EXCHANGE_MAX ? &slots[slots_used++] : NULL;
}

static void set_up(struct exchange *x, const struct exchange_setup *s) {
        x->setup = *s;
        if (s->name) {
                (void)snprintf(x->name, sizeof x->name, "%s", s->name);
                x->setup.name = x->name;
        }
}

struct exchange *exchange_take(const struct exchange_setup *s) {
        struct exchange *x = slot_take();

        if (x)
                set_up(x, s);
        return x;
}

void exchange_give(struct exchange *x) {
        if (!x)
                return;
        redact_wipe(&x->redact);
        memset(x->reply, 0, x->view.reply_size);
        memset(x, 0, offsetof(struct exchange, reply));
        x->next_free = slots_free;
        slots_free = x;
}

const struct exchange_view *exchange_view(const struct exchange *x) {
        return &x->view;
}

void exchange_retarget(struct exchange *x, const struct exchange_setup *s) {
        set_up(x, s); /* what was put in stays searched for */
}

/* Of a path that was too long to be kept it is known only that it is one: rules that name no paths allow that. So they
 * do with this one, and no others. */
static struct http_span kept_path(const struct exchange *x) {
        return x->path_size <= sizeof x->path ? (struct http_span){x->path, x->path_size} : (struct http_span){"//", 2};
}

bool exchange_review(struct exchange *x) {
        const struct exchange_setup *s = &x->setup;
        struct fill f = {.setup = s, .method = x->asked.method, .path = kept_path(x), .redact = &x->redact};
        bool searched = x->redact.count > 0;

        if (x->ending == OVER || (x->ending == GOING_ON && x->response == RESPONSE_IDLE))
                return true;
        if (!fill_watch(s, &x->redact) || (!searched && x->redact.count > 0))
                return false; /* an answer that has begun unsearched cannot be searched any more */
        if (s->inspect &&
            (x->overridden ||
             decide_request(s->rules, s->name, &s->address, s->port, f.method, f.path.data, f.path.size).reason !=
                     GATE_USED))
                return false;
        if (x->secrets && (!s->secrets || secrets_epoch(s->secrets) != x->epoch))
                return false;
        for (unsigned i = 0; i < GATE_SECRETS_MAX; i++)
                if ((x->secrets & 1U << i) && !fill_permitted(&f, i))
                        return false;
        return true;
}

/* ---- refusing ---- */

/* The event, without saying anything yet. */
static struct gate_event *denial(struct exchange *x, enum gate_reason reason, int rule, const char *detail) {
        struct gate_event *e = &x->view.denial;

        *e = (struct gate_event){.reason = reason, .count = 1, .port = x->setup.port, .rule = rule};
        if (x->setup.name)
                (void)snprintf(e->host, sizeof e->host, "%s", x->setup.name);
        else
                address_print(&x->setup.address, e->host);
        (void)snprintf(e->method, sizeof e->method, "%s", x->asked.method);
        (void)snprintf(e->path, sizeof e->path, "%.*s", (int)MIN(x->path_size, sizeof e->path - 1), x->path);
        (void)snprintf(e->detail, sizeof e->detail, "%s", detail);
        x->ending = OVER;
        return e;
}

static enum exchange_result deny_hint(struct exchange *x, unsigned status, enum gate_reason reason, int rule,
                                      const char *detail, const char *hint) {
        const struct gate_event *e = denial(x, reason, rule, detail);

        x->view.reply = x->reply;
        x->view.reply_size = exchange_refuse(e, status, hint, x->reply, sizeof x->reply);
        return EXCHANGE_DENIED;
}

static enum exchange_result deny(struct exchange *x, unsigned status, enum gate_reason reason, int rule,
                                 const char *detail) {
        return deny_hint(x, status, reason, rule, detail, NULL);
}

/* An answer has begun: nothing can be said any more. */
static enum exchange_result cut(struct exchange *x, const char *detail) {
        (void)denial(x, GATE_BAD_PROTOCOL, x->rule, detail);
        x->view.reply = x->reply;
        x->view.reply_size = 0;
        return EXCHANGE_DENIED;
}

static enum exchange_result end(struct exchange *x) {
        x->ending = OVER;
        return EXCHANGE_END;
}

/* ---- requests ---- */

static uint16_t port_of(const struct http_target *t, bool secure) {
        return t->port ? t->port : secure ? 443 : 80;
}

static bool same_host(const struct http_target *a, const struct http_target *b) {
        if (a->name[0] || b->name[0])
                return str_eq(a->name, b->name);
        return memcmp(&a->address, &b->address, sizeof a->address) == 0;
}

/* Is it the host that the connection is to? */
static bool is_setups(const struct exchange_setup *s, const struct http_target *t) {
        if (s->name)
                return str_eq(t->name, s->name);
        return t->name[0] == '\0' && memcmp(&t->address, &s->address, sizeof t->address) == 0;
}

static enum exchange_result wrong_host(struct exchange *x, const struct http_target *t) {
        char detail[sizeof x->view.denial.detail], address[ADDRESS_TEXT_MAX];

        if (knockout_off(KNOCKOUT_GATE))
                return EXCHANGE_MORE;
        address_print(&t->address, address);
        (void)snprintf(detail, sizeof detail, "the request names %.120s, port %u", t->name[0] ? t->name : address,
                       port_of(t, x->setup.tls));
        return deny(x, 403, GATE_WRONG_HOST, -1, detail);
}

/* Host and absolute form. MORE: they are right. */
static enum exchange_result check_host(struct exchange *x, const struct http_head *h) {
        const struct exchange_setup *s = &x->setup;

        if (h->connect)
                return deny(x, 400, GATE_BAD_PROTOCOL, -1, "CONNECT has no meaning on this connection");
        if (s->proxy && !h->absolute)
                return deny(x, 400, GATE_BAD_PROTOCOL, -1, "a proxy is asked with the whole address (http://…)");
        if (h->absolute) {
                if (h->secure != s->tls)
                        return deny_hint(x, 400, GATE_BAD_PROTOCOL, -1, "the scheme is not what is spoken here",
                                         "https passes a proxy by CONNECT");
                if (h->host.present &&
                    (!same_host(&h->line, &h->host) || port_of(&h->line, h->secure) != port_of(&h->host, h->secure)))
                        return wrong_host(x, &h->host);
                if (s->proxy && (!is_setups(s, &h->line) || port_of(&h->line, false) != s->port)) {
                        x->view.target = h->line;
                        x->view.target.port = port_of(&h->line, false);
                        return EXCHANGE_RETARGET;
                }
                if ((s->name && !is_setups(s, &h->line)) || port_of(&h->line, h->secure) != s->port)
                        return wrong_host(x, &h->line);
                return EXCHANGE_MORE;
        }
        if (h->host.present && ((s->name && !is_setups(s, &h->host)) || (h->host.port && h->host.port != s->port)))
                return wrong_host(x, &h->host);
        return EXCHANGE_MORE;
}

static enum exchange_result check_rules(struct exchange *x, const struct http_head *h) {
        const struct exchange_setup *s = &x->setup;
        struct decision d;

        x->rule = -1;
        if (!s->inspect)
                return EXCHANGE_MORE;
        d = decide_request(s->rules, s->name, &s->address, s->port, x->asked.method, h->path.data, h->path.size);
        if (d.rule >= 0)
                x->rule = (int)s->rules->items[d.rule].index;
        if (d.reason != GATE_USED)
                return deny(x, 403, d.reason, x->rule, "");
        if (!override_permitted(s, h, x->asked.method))
                return deny_hint(
                        x, 403, GATE_NO_METHOD, x->rule,
                        "a header asks for a method or path that no rule allows (X-HTTP-Method-Override or alike)",
                        "leave out headers that stand for another method or path, or allow those as well");
        return EXCHANGE_MORE;
}

/* The head goes out, with secrets in it. */
static enum exchange_result let_through(struct exchange *x, const struct http_head *h, uint8_t *out, size_t room,
                                        size_t *made) {
        struct fill f = {.setup = &x->setup, .method = x->asked.method, .path = h->path, .redact = &x->redact};
        struct fill_out o = {.bytes = out, .room = room};

        f.refused = !fill_watch(&x->setup, &x->redact);
        if (!f.refused)
                exchange_head_request(&f, h, &o);
        if (f.refused || o.full) {
                explicit_bzero(out, o.size);
                return deny(x, 431, GATE_BAD_PROTOCOL, x->rule,
                            f.refused ? "there are more or longer credentials than can be searched for in answers"
                                      : "the head is too large with its secrets");
        }
        x->secrets = f.used;
        x->epoch = f.used ? secrets_epoch(x->setup.secrets) : 0;
        *made = o.size;
        return EXCHANGE_MORE;
}

static void note_request(struct exchange *x, const struct http_head *h) {
        (void)snprintf(x->asked.method, sizeof x->asked.method, "%.*s", (int)h->method.size, h->method.data);
        memcpy(x->path, h->path.data, MIN(h->path.size, sizeof x->path));
        x->path_size = h->path.size;
        x->overridden = override_asked(h);
        x->secrets = 0;
        x->asked.minor = h->minor;
        x->asked.upgrade = h->upgrade;
        x->close = h->close;
}

/* A head in `in`. MORE with *used 0: not yet. */
static enum exchange_result begin_request(struct exchange *x, const uint8_t *in, size_t size, size_t *used,
                                          uint8_t *out, size_t room, size_t *made) {
        enum exchange_result r;

        x->asked.method[0] = '\0';
        x->path_size = 0;
        switch (http_request((const char *)in, size, &head)) {
        case HTTP_MORE:
                return EXCHANGE_MORE;
        case HTTP_TOO_LARGE:
                return deny(x, 431, GATE_BAD_PROTOCOL, -1, head.problem);
        case HTTP_DONE:
                break;
        case HTTP_BAD:
        default:
                return deny(x, 400, GATE_BAD_PROTOCOL, -1, head.problem);
        }
        note_request(x, &head);
        r = check_host(x, &head);
        if (r == EXCHANGE_MORE)
                r = check_rules(x, &head);
        if (r == EXCHANGE_MORE)
                r = let_through(x, &head, out, room, made);
        if (r != EXCHANGE_MORE)
                return r;
        *used = head.size;
        http_body_init(&x->request_body, head.framing, head.length);
        x->request = REQUEST_BODY;
        x->response = RESPONSE_HEAD;
        return EXCHANGE_MORE;
}

enum exchange_result exchange_request(struct exchange *x, const uint8_t *in, size_t size, size_t *used, uint8_t *out,
                                      size_t room, size_t *made) {
        *used = *made = 0;
        if (x->ending != GOING_ON)
                return x->ending == RAW ? EXCHANGE_RAW : EXCHANGE_END;
        if (x->request == REQUEST_WAIT)
                return EXCHANGE_WAIT;
        if (x->request == REQUEST_HEAD) {
                enum exchange_result r = size > 0 ? begin_request(x, in, size, used, out, room, made) : EXCHANGE_MORE;
                if (r != EXCHANGE_MORE || x->request == REQUEST_HEAD)
                        return r;
        }
        ssize_t n = http_body_feed(&x->request_body, in + *used, MIN(size - *used, room - *made), NULL, NULL);
        if (n < 0) {
                *made = 0; /* of this piece nothing goes out */
                return x->response == RESPONSE_BODY
                               ? cut(x, "the request's chunks are malformed")
                               : deny(x, 400, GATE_BAD_PROTOCOL, -1, "the request's chunks are malformed");
        }
        if (n > 0)
                memcpy(out + *made, in + *used, (size_t)n);
        *used += (size_t)n;
        *made += (size_t)n;
        if (!x->request_body.done)
                return EXCHANGE_MORE;
        x->request = REQUEST_WAIT;
        return EXCHANGE_WAIT;
}

/* ---- answers ---- */

/* A coding that hides what is in the body. */
static bool is_encoded(const struct http_head *h) {
        for (size_t i = 0; i < h->header_count; i++)
                if (http_name_is(&h->headers[i].name, "Content-Encoding") && h->headers[i].value.size > 0 &&
                    !http_name_is(&h->headers[i].value, "identity"))
                        return true;
        return false;
}

/* One head of an answer. MORE with *used as it was: not yet. */
static enum exchange_result begin_response(struct exchange *x, const uint8_t *in, size_t size, size_t *used,
                                           uint8_t *out, size_t room, size_t *made) {
        static struct http_head asked; /* what http_response reads of a request */
        struct fill_out o = {.bytes = out + *made, .room = room - *made};
        char detail[sizeof x->view.denial.detail];

        asked.method = (struct http_span){x->asked.method, strlen(x->asked.method)};
        asked.minor = x->asked.minor;
        asked.upgrade = x->asked.upgrade;
        switch (http_response((const char *)in + *used, size - *used, &asked, &head)) {
        case HTTP_MORE:
                return EXCHANGE_MORE;
        case HTTP_DONE:
                break;
        case HTTP_TOO_LARGE:
        case HTTP_BAD:
        default:
                (void)snprintf(detail, sizeof detail, "the server's answer: %s", head.problem);
                return deny_hint(x, 502, GATE_BAD_PROTOCOL, x->rule, detail, "the server has to speak HTTP/1.1");
        }
        if (x->redact.count > 0 && head.status == 101 && http_find(&head, "Sec-WebSocket-Extensions"))
                return deny_hint(x, 502, GATE_BAD_PROTOCOL, x->rule,
                                 "the server's answer: it has WebSocket extensions that were not asked for",
                                 "the server has to speak WebSocket without extensions");
        if (x->redact.count > 0 && head.framing != HTTP_NO_BODY && is_encoded(&head))
                return deny_hint(
                        x, 502, GATE_BAD_PROTOCOL, x->rule,
                        "the server encoded its answer (Content-Encoding) although it was asked not to",
                        "answers of hosts that a secret is for are searched for its value, and this one cannot "
                        "be; make the server send it without Content-Encoding");
        x->close |= head.status >= 200 && head.close;
        exchange_head_response((const char *)in + *used, &head, &x->asked, x->close, &x->redact, &o);
        if (o.full)
                return deny(x, 502, GATE_BAD_PROTOCOL, x->rule, "the server's answer: its head is too large");
        *used += head.size;
        *made += o.size;
        if (head.status == 101) {
                x->ending = RAW;
                return EXCHANGE_RAW;
        }
        if (head.status >= 200) {
                http_body_init(&x->response_body, head.framing, head.length);
                x->response = RESPONSE_BODY;
        }
        return EXCHANGE_MORE;
}

struct payload {
        const uint8_t *in;
        uint8_t *out;
        size_t size;
};

static void payload_take(void *context, size_t at, size_t size) {
        struct payload *p = context;

        memcpy(p->out + p->size, p->in + at, size);
        p->size += size;
}

#define CHUNK_LINE  8                    /* six digits and a line end */
#define CHUNK_EXTRA (CHUNK_LINE + 2 + 5) /* and the end of the chunk, and the last chunk */

/* Payload that was searched, as one chunk of ours, or as it is. */
static void emit(struct exchange *x, uint8_t *out, size_t *made, size_t pass, bool last) {
        char line[CHUNK_LINE + 1];

        if (x->response_body.framing != HTTP_CHUNKED) {
                *made += pass;
                return;
        }
        if (pass > 0) {
                (void)snprintf(line, sizeof line, "%06zx\r\n", pass & 0xffffff);
                memcpy(out + *made, line, CHUNK_LINE);
                memcpy(out + *made + CHUNK_LINE + pass, "\r\n", 2);
                *made += CHUNK_LINE + pass + 2;
        }
        if (last) {
                memcpy(out + *made, "0\r\n\r\n", 5);
                *made += 5;
        }
}

/* Bytes of a body that is searched. Returns how many were consumed, or a negative code. */
static ssize_t search_body(struct exchange *x, const uint8_t *in, size_t size, uint8_t *out, size_t room,
                           size_t *made) {
        struct http_body *b = &x->response_body;
        bool chunked = b->framing == HTTP_CHUNKED;
        size_t extra = x->redact.held + (chunked ? CHUNK_EXTRA : 0);
        uint8_t *window = out + *made + (chunked ? CHUNK_LINE : 0);
        struct payload p = {.in = in, .out = window + x->redact.held};

        if (room - *made <= extra)
                return 0;
        ssize_t n = http_body_feed(b, in, MIN(size, room - *made - extra), payload_take, &p);
        if (n >= 0)
                emit(x, out, made, redact_feed(&x->redact, window, p.size, b->done), b->done);
        return n;
}

static ssize_t copy_body(struct exchange *x, const uint8_t *in, size_t size, uint8_t *out, size_t room, size_t *made) {
        ssize_t n = http_body_feed(&x->response_body, in, MIN(size, room - *made), NULL, NULL);

        if (n > 0) {
                memcpy(out + *made, in, (size_t)n);
                *made += (size_t)n;
        }
        return n;
}

static enum exchange_result response_done(struct exchange *x) {
        x->response = RESPONSE_IDLE;
        if (x->close || x->request != REQUEST_WAIT)
                return end(x);
        x->request = REQUEST_HEAD;
        return EXCHANGE_MORE;
}

enum exchange_result exchange_response(struct exchange *x, const uint8_t *in, size_t size, size_t *used, uint8_t *out,
                                       size_t room, size_t *made) {
        enum exchange_result r;

        *used = *made = 0;
        if (x->ending != GOING_ON)
                return x->ending == RAW ? EXCHANGE_RAW : EXCHANGE_END;
        while (x->response == RESPONSE_HEAD) {
                size_t before = *used;

                r = begin_response(x, in, size, used, out, room, made);
                if (r != EXCHANGE_MORE || *used == before)
                        return r;
        }
        if (x->response == RESPONSE_BODY) {
                ssize_t n = (x->redact.count > 0 ? search_body : copy_body)(x, in + *used, size - *used, out, room,
                                                                            made);
                if (n < 0)
                        return cut(x, "the server's answer: its chunks are malformed");
                *used += (size_t)n;
                if (!x->response_body.done)
                        return EXCHANGE_MORE;
                r = response_done(x);
                if (r != EXCHANGE_MORE)
                        return r;
        }
        return *used < size ? end(x) : EXCHANGE_MORE; /* the server speaks and was not asked */
}

enum exchange_result exchange_response_eof(struct exchange *x, uint8_t *out, size_t room, size_t *made) {
        *made = 0;
        if (x->ending == OVER || room < EXCHANGE_HELD + CHUNK_EXTRA)
                return end(x);
        if (x->ending == RAW) {
                *made = frames_end(&x->frames, &x->redact, out);
                return EXCHANGE_END; /* the client may still speak */
        }
        switch (x->response) {
        case RESPONSE_BODY: {
                bool whole = x->response_body.framing == HTTP_UNTIL_CLOSE;
                size_t line = x->response_body.framing == HTTP_CHUNKED ? CHUNK_LINE : 0;

                emit(x, out, made, redact_feed(&x->redact, out + line, 0, true), false);
                return whole ? end(x) : cut(x, "the server's answer: it ends before it is complete");
        }
        case RESPONSE_HEAD:
                return deny_hint(x, 502, GATE_BAD_PROTOCOL, x->rule,
                                 "the server closed the connection without an answer",
                                 "try again; if it stays so, the server does not accept this request");
        case RESPONSE_IDLE:
        default:
                return end(x);
        }
}

bool exchange_raw(struct exchange *x, bool from_server, const uint8_t *in, size_t size, uint8_t *out, size_t *made) {
        *made = 0;
        if (x->ending != RAW)
                return false;
        if (!from_server || x->redact.count == 0) {
                memcpy(out, in, size);
                *made = size;
                return true;
        }
        if (frames_search(&x->frames, &x->redact, in, size, out, made))
                return true;
        (void)cut(x, "the server's WebSocket frames are malformed, or masked, or have extensions");
        return false;
}
