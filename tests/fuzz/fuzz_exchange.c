/* Fuzz target: HTTP conversations, both directions in pieces.
 *
 * The first byte chooses the connection; then each byte says whose turn it is and how many of the following bytes he
 * sends; some values let the server send the secret, half of it, or one of its forms. Must hold for every input: the
 * client never sees the value in any form that is searched for, in a body's payload or a WebSocket message neither; a
 * request that is refused sends nothing on; every head that goes out is a request that the strict reader accepts, names
 * the connection's host, and is one that the rules permit; the value goes out only where a rule says so; WebSocket
 * frames come out if and only if they are a server's, a message that is complete goes out whole; every call makes
 * progress or says what it waits for. */
#include "base/buf.h"
#include "gate/exchange.h"
#include "tests/fuzz/fuzz.h"

#define VALUE  "s3cr3t-value-0123456789"
#define HOLDER "stk_placeholder_1"
#define INPUT  (64 * 1024)
#define SEEN   (1024 * 1024)

enum {
        SERVER_SAYS_VALUE = 0xff,
        SERVER_SAYS_HALF = 0xfe,
        SERVER_CLOSES = 0xfd,
        NEW_RULES = 0xfc,
        SERVER_SAYS_FORM = 0xf4
};

/* What is searched for besides the value: it is compared without case. */
static const char *const forms[] = {
        VALUE,
        "S3CR3T-VALUE-0123456789",
        "czNjcjN0LXZhbHVlLTAxMjM0NTY3OD",                 /* base64, at the beginning */
        "MzY3IzdC12YWx1ZS0wMTIzNDU2Nzg5",                 /* behind one other byte */
        "zM2NyM3QtdmFsdWUtMDEyMzQ1Njc4O",                 /* behind two */
        "7333637233742d76616c75652d30313233343536373839", /* hexadecimal */
};

static struct rules rules;
static struct secrets *secrets;

static void require(bool condition) {
        if (!condition)
                abort();
}

static void set_up(void) {
        static const struct rule list[] = {
                {.index = 0,
                 .host = "api.test",
                 .ports = {80, 443},
                 .port_count = 2,
                 .methods = {"GET", "POST", "HEAD"},
                 .method_count = 3,
                 .paths = {"/v1/*"},
                 .path_count = 1,
                 .secret = "TOKEN"},
                {.index = 1,
                 .host = "api.test",
                 .ports = {80, 443},
                 .port_count = 2,
                 .paths = {"/open"},
                 .path_count = 1,
                 .secret = ""},
        };
        _cleanup_buf_ struct buf b = {0};

        if (secrets)
                return;
        rules_begin(&b);
        for (size_t i = 0; i < ELEMENTSOF(list); i++)
                rules_add(&b, &list[i]);
        require(buf_ok(&b) && rules_load(&rules, b.data, b.size) == 0);
        secrets = secrets_create();
        require(secrets && secrets_put(secrets, "TOKEN", HOLDER, VALUE, strlen(VALUE)) == 0);
}

/* One who reads WebSocket frames. */
struct reader {
        uint8_t head[10];
        size_t have;
        uint64_t left;
        bool inside, bad;
        size_t messages; /* that were complete */
        size_t payload;  /* bytes of messages */
        uint8_t control[125];
        size_t control_size;
};

struct side {
        uint8_t bytes[INPUT]; /* sent and not consumed */
        size_t size;
};

static struct {
        struct exchange_setup setup;
        struct exchange *x;
        struct side client, server;
        uint8_t seen[SEEN]; /* what the client got */
        size_t seen_size;
        bool client_said_value; /* the fuzzer guessed it: then there is nothing to hide */
        bool at_head, raw, over;
        struct reader sent, got; /* RAW: from the server, and what the client got of it */
} t;

static uint8_t room[EXCHANGE_ROOM];

static void client_sees(const void *bytes, size_t size) {
        size = MIN(size, SEEN - t.seen_size);
        memcpy(t.seen + t.seen_size, bytes, size);
        t.seen_size += size;
}

static bool is_hex(uint8_t c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Our own chunk lines within what was seen: end of one chunk, size of the next. */
static bool is_chunk_line(const uint8_t *p, size_t left) {
        if (left < 10 || memcmp(p, "\r\n", 2) != 0 || memcmp(p + 8, "\r\n", 2) != 0)
                return false;
        for (size_t i = 2; i < 8; i++)
                if (!is_hex(p[i]))
                        return false;
        return true;
}

static bool is_form_at(const uint8_t *bytes, const char *form, size_t size) {
        return strncasecmp((const char *)bytes, form, size) == 0;
}

/* Does a form, or its first bytes, stand there? */
static bool has_form(const uint8_t *bytes, size_t size, size_t most) {
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                size_t length = MIN(strlen(forms[i]), most);

                for (size_t at = 0; at + length <= size; at++)
                        if (is_form_at(bytes + at, forms[i], length))
                                return true;
        }
        return false;
}

static void check_seen(void) {
        size_t made = 0;

        require(!has_form(t.seen, t.seen_size, SIZE_MAX));
        for (size_t i = 0; i < t.seen_size;) {
                if (is_chunk_line(t.seen + i, t.seen_size - i))
                        i += 10;
                else
                        t.seen[made++] = t.seen[i++];
        }
        require(!has_form(t.seen, made, SIZE_MAX));
}

static void check_head(const uint8_t *bytes, size_t size) {
        static struct http_head h;
        char method[HTTP_METHOD_MAX + 1];

        require(http_request((const char *)bytes, size, &h) == HTTP_DONE);
        require(!h.absolute && !h.connect && h.host.present && str_eq(h.host.name, t.setup.name));
        require(h.host.port == 0 || h.host.port == t.setup.port);
        (void)snprintf(method, sizeof method, "%.*s", (int)h.method.size, h.method.data);
        if (t.setup.inspect)
                require(decide_request(&rules, t.setup.name, NULL, t.setup.port, method, h.path.data, h.path.size)
                                .reason == GATE_USED);
        require(!http_find(&h, "Proxy-Authorization") && !http_find(&h, "TE") && !http_find(&h, "Range"));
        if (memmem(bytes, h.size, VALUE, strlen(VALUE)) && !t.client_said_value)
                require(t.setup.tls &&
                        decide_secret(&rules, t.setup.name, t.setup.port, method, h.path.data, h.path.size, "TOKEN"));
}

static void consumed(struct side *s, size_t used) {
        require(used <= s->size);
        memmove(s->bytes, s->bytes + used, s->size - used);
        s->size -= used;
}

static void result(enum exchange_result r) {
        const struct exchange_view *v = exchange_view(t.x);

        if (r == EXCHANGE_DENIED) {
                client_sees(v->reply, v->reply_size);
                require(v->denial.reason != GATE_USED && v->reply_size <= EXCHANGE_REFUSAL);
        }
        t.raw = r == EXCHANGE_RAW;
        t.over = r == EXCHANGE_DENIED || r == EXCHANGE_END || r == EXCHANGE_RETARGET;
}

/* Does the request that comes next name another host? */
static bool names_other(void) {
        static struct http_head h;

        if (http_request((const char *)t.client.bytes, t.client.size, &h) != HTTP_DONE)
                return false;
        return (h.host.present && !str_eq(h.host.name, t.setup.name)) ||
               (h.absolute && !str_eq(h.line.name, t.setup.name));
}

static void client_turn(void) {
        size_t used = 1, made = 0;
        enum exchange_result r = EXCHANGE_MORE;

        while (r == EXCHANGE_MORE && t.client.size > 0 && used > 0) {
                bool other = t.at_head && names_other();

                r = exchange_request(t.x, t.client.bytes, t.client.size, &used, room, sizeof room, &made);
                require((r != EXCHANGE_DENIED && !other) || made == 0);
                if (made > 0 && t.at_head) {
                        check_head(room, made);
                        t.at_head = false;
                }
                if (r == EXCHANGE_WAIT)
                        t.at_head = true;
                consumed(&t.client, used);
        }
        result(r);
}

static void server_turn(void) {
        size_t used = 1, made = 0;
        enum exchange_result r = EXCHANGE_MORE;

        while (r == EXCHANGE_MORE && t.server.size > 0 && used > 0) {
                r = exchange_response(t.x, t.server.bytes, t.server.size, &used, room, sizeof room, &made);
                client_sees(room, made);
                consumed(&t.server, used);
        }
        result(r);
}

static size_t head_size(const struct reader *r) {
        return r->have < 2 || (r->head[1] & 127) < 126 ? 2 : (r->head[1] & 127) == 126 ? 4 : 10;
}

/* As RFC 6455 wants them from a server without extensions. */
static bool head_right(struct reader *r) {
        unsigned kind = r->head[0] & 15;

        r->left = r->head[1] & 127;
        if (r->have > 2)
                r->left = 0;
        for (size_t i = 2; i < r->have; i++)
                r->left = r->left << 8 | r->head[i];
        if ((r->head[0] & 0x70) || (r->head[1] & 0x80) || r->left > INT64_MAX)
                return false;
        if (kind >= 8)
                return kind <= 10 && (r->head[0] & 0x80) && r->left <= 125;
        return kind <= 2 && r->inside == (kind == 0);
}

static void frame_done(struct reader *r, bool shown) {
        r->have = 0;
        if (r->head[0] & 8) {
                if (shown && !t.client_said_value)
                        require(!has_form(r->control, r->control_size, SIZE_MAX));
                r->control_size = 0;
                return;
        }
        r->inside = !(r->head[0] & 0x80);
        r->messages += !r->inside;
        if (shown && !r->inside)
                client_sees("\n", 1); /* one message and the next are apart */
}

static void read_frames(struct reader *r, const uint8_t *bytes, size_t size, bool shown) {
        for (size_t i = 0; i < size && !r->bad;) {
                if (r->have < head_size(r)) {
                        r->head[r->have++] = bytes[i++];
                        if (r->have < head_size(r))
                                continue;
                        r->bad = !head_right(r);
                } else {
                        size_t n = (size_t)MIN((uint64_t)(size - i), r->left);

                        if (r->head[0] & 8) {
                                memcpy(r->control + r->control_size, bytes + i, n);
                                r->control_size += n;
                        } else {
                                r->payload += n;
                                if (shown)
                                        client_sees(bytes + i, n);
                        }
                        r->left -= n;
                        i += n;
                }
                if (!r->bad && r->left == 0)
                        frame_done(r, shown);
        }
}

static void raw_turn(bool server) {
        struct side *s = server ? &t.server : &t.client;
        size_t made = 0, n = MIN(s->size, (size_t)EXCHANGE_PIECE);
        bool good = exchange_raw(t.x, server, s->bytes, n, room, &made);

        require(made <= n + EXCHANGE_HELD);
        if (server) {
                read_frames(&t.sent, s->bytes, n, false);
                read_frames(&t.got, room, made, true);
                require(good == !t.sent.bad && !t.got.bad && t.got.have == 0);
                require(t.got.messages == t.sent.messages && t.got.payload <= t.sent.payload);
                if (!t.sent.bad && !t.sent.inside && t.sent.have == 0)
                        require(t.got.payload == t.sent.payload);
                t.over |= !good;
        }
        consumed(s, n);
}

static void says(struct side *s, const void *bytes, size_t size) {
        size = MIN(size, INPUT - s->size);
        memcpy(s->bytes + s->size, bytes, size);
        s->size += size;
        if (s == &t.client)
                t.client_said_value |= has_form(s->bytes, s->size, 6);
        if (t.raw)
                raw_turn(s == &t.server);
        else if (s == &t.server)
                server_turn();
        else
                client_turn();
        if (!t.raw && !t.over && s == &t.server)
                client_turn(); /* what waited */
}

static void closes(void) {
        size_t made = 0;
        enum exchange_result r = exchange_response_eof(t.x, room, sizeof room, &made);

        if (t.raw) {
                read_frames(&t.got, room, made, true);
                require(!t.got.bad && t.got.payload == t.sent.payload);
        } else {
                client_sees(room, made);
        }
        result(r);
        require(t.over);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        size_t at = 1;

        if (size < 2)
                return 0;
        set_up();
        t.setup = (struct exchange_setup){
                .rules = &rules,
                .secrets = secrets,
                .name = "api.test",
                .tls = (data[0] & 1) != 0,
                .port = data[0] & 1 ? 443 : 80,
                .proxy = (data[0] & 3) == 2,
                .inspect = (data[0] & 4) == 0,
                .near = (data[0] & 8) != 0,
        };
        t.x = exchange_take(&t.setup);
        require(t.x);
        t.client.size = t.server.size = t.seen_size = 0;
        t.client_said_value = t.raw = t.over = false;
        t.at_head = true;
        t.sent = t.got = (struct reader){0};
        while (at < size && !t.over) {
                uint8_t c = data[at++];
                size_t n = MIN((size_t)(c >> 1), size - at);

                if (c == SERVER_CLOSES) {
                        closes();
                } else if (c == NEW_RULES) { /* the same: what they allowed is allowed, as far as it was kept */
                        exchange_retarget(t.x, &t.setup);
                        t.over = !exchange_review(t.x);
                } else if (c == SERVER_SAYS_VALUE || c == SERVER_SAYS_HALF) {
                        says(&t.server, VALUE, c == SERVER_SAYS_HALF ? 9 : strlen(VALUE));
                } else if (c >= SERVER_SAYS_FORM && c - SERVER_SAYS_FORM < (int)ELEMENTSOF(forms)) {
                        says(&t.server, forms[c - SERVER_SAYS_FORM], strlen(forms[c - SERVER_SAYS_FORM]));
                } else {
                        says(c & 1 ? &t.server : &t.client, data + at, n);
                        at += n;
                }
        }
        if (!t.over)
                closes();
        if (!t.client_said_value) /* a refusal repeats the method */
                check_seen();
        exchange_give(t.x);
        return 0;
}
