/* Conversations: what goes out for what came in, in both directions, whole and cut at every place. */
#include "gate/exchange.h"

#include "base/buf.h"
#include "base/test.h"

#define VALUE  "s3cr3t-value-0123456789"
#define HOLDER "stk_placeholder_1"

static struct rules rules;
static struct secrets *secrets;

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
                {.index = 2, .host = "plain.test", .ports = {80, 443, 8080}, .port_count = 3, .secret = ""},
                {.index = 3,
                 .host = "inner.test",
                 .ports = {80},
                 .port_count = 1,
                 .flags = RULE_PRIVATE,
                 .paths = {"/in"},
                 .path_count = 1,
                 .secret = "TOKEN"},
                {.index = 4,
                 .host = "inner.test",
                 .ports = {80},
                 .port_count = 1,
                 .paths = {"/out"},
                 .path_count = 1,
                 .secret = "TOKEN"},
                {.index = 5,
                 .host = "",
                 .address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 0},
                 .prefix = 120,
                 .ports = {80},
                 .port_count = 1,
                 .secret = ""},
        };
        _cleanup_buf_ struct buf b = {0};

        if (secrets)
                return;
        rules_begin(&b);
        for (size_t i = 0; i < ELEMENTSOF(list); i++)
                rules_add(&b, &list[i]);
        assert(buf_ok(&b) && rules_load(&rules, b.data, b.size) == 0);
        secrets = secrets_create();
        assert(secrets_put(secrets, "TOKEN", HOLDER, VALUE, strlen(VALUE)) == 0);
        assert(secrets_put(secrets, "OTHER", "stk_placeholder_2", "another-value-987", 17) == 0);
}

static struct exchange_setup setup(const char *name, uint16_t port, bool tls) {
        set_up();
        return (struct exchange_setup){
                .rules = &rules, .secrets = secrets, .name = name, .port = port, .tls = tls, .inspect = true};
}

static struct exchange *take(const char *name, uint16_t port, bool tls) {
        struct exchange_setup s = setup(name, port, tls);
        struct exchange *x = exchange_take(&s);

        assert(x);
        return x;
}

/* ---- feeding ---- */

static char in_bytes[4 * HTTP_HEAD_MAX], out_bytes[512 * 1024];
static uint8_t room[EXCHANGE_ROOM];
static size_t used_bytes;

typedef enum exchange_result feed_function(struct exchange *, const uint8_t *, size_t, size_t *, uint8_t *, size_t,
                                           size_t *);

/* Offers text in pieces of at most `step` bytes, unconsumed ones again, until it stops being MORE. */
static enum exchange_result feed(feed_function *f, struct exchange *x, const char *text, size_t step) {
        size_t size = strlen(text), begin = 0, end = 0, made_all = 0;
        enum exchange_result r = EXCHANGE_MORE;

        while (end < size && r == EXCHANGE_MORE) {
                size_t used, made;

                end = MIN(size, end + step);
                do {
                        r = f(x, (const uint8_t *)text + begin, end - begin, &used, room, sizeof room, &made);
                        memcpy(out_bytes + made_all, room, made);
                        made_all += made;
                        begin += used;
                } while (r == EXCHANGE_MORE && used > 0 && begin < end);
        }
        out_bytes[made_all] = '\0';
        used_bytes = begin;
        return r;
}

#define REQUEST(x, text)  feed(exchange_request, x, text, SIZE_MAX / 2)
#define RESPONSE(x, text) feed(exchange_response, x, text, SIZE_MAX / 2)

/* What is left of an answer when its head and its chunks are taken apart again. */
static const char *body_of(const char *answer) {
        static char body[256 * 1024];
        const char *p = strstr(answer, "\r\n\r\n");
        size_t made = 0;

        if (!p)
                return "(no head)";
        p += 4;
        if (!strstr(answer, "Transfer-Encoding: chunked")) {
                (void)snprintf(body, sizeof body, "%.200000s", p);
                return body;
        }
        for (;;) {
                char *end;
                size_t n = strtoul(p, &end, 16);

                if (end == p || memcmp(end, "\r\n", 2) != 0)
                        return "(bad chunk)";
                p = end + 2;
                memcpy(body + made, p, n);
                made += n;
                body[made] = '\0';
                if (memcmp(p + n, "\r\n", 2) != 0)
                        return "(bad chunk end)";
                if (n == 0)
                        return p[2] ? "(bytes behind)" : body;
                p += n + 2;
        }
}

static void check_denied(struct exchange *x, const char *text, unsigned status, enum gate_reason reason) {
        char begin[32];
        const struct exchange_view *v = exchange_view(x);

        enum exchange_result r = REQUEST(x, text);
        (void)snprintf(begin, sizeof begin, "HTTP/1.1 %u ", status);
        if (r != EXCHANGE_DENIED || v->denial.reason != reason)
                (void)printf("# result %d, reason %s for: %.60s\n", (int)r, gate_reason_name(v->denial.reason), text);
        CHECK(r == EXCHANGE_DENIED);
        CHECK(out_bytes[0] == '\0'); /* nothing went out */
        if (r != EXCHANGE_DENIED)
                return;
        CHECK(v->denial.reason == reason && v->denial.count == 1);
        CHECK(v->reply_size > 0 && str_starts(v->reply, begin) && strstr(v->reply, "\"layer\":\"gate\""));
        CHECK(strstr(v->reply, "Connection: close\r\n") != NULL);
        CHECK(!strstr(v->reply, "query") && !strstr(v->denial.path, "query"));
        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_END);
}

/* ---- tests ---- */

static void test_rewrite(void) {
        struct exchange *x = take("plain.test", 8080, false);

        CHECK(REQUEST(x, "GET /a?b=c HTTP/1.1\r\nHost: PLAIN.test.:8080\r\nConnection: keep-alive, TE\r\n"
                         "Keep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\nProxy-Authorization: Basic abc\r\n"
                         "Proxy-Connection: keep-alive\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nX-Keep: 1\r\n"
                         "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\n\r\n") == EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET /a?b=c HTTP/1.1\r\nHost: plain.test:8080\r\nX-Keep: 1\r\nAccept-Encoding: gzip\r\n"
                             "Range: bytes=0-1\r\n\r\n");
        CHECK(REQUEST(x, "GET /2 HTTP/1.1\r\n") == EXCHANGE_WAIT && used_bytes == 0);
        CHECK(RESPONSE(x,
                       "HTTP/1.1 200 Fine indeed\r\nContent-Length: 2\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
                       "Keep-Alive: 3\r\nAlt-Svc: h3\r\nX-End: 1\r\n\r\nok") == EXCHANGE_MORE);
        CHECK_STR(out_bytes, "HTTP/1.1 200 Fine indeed\r\nX-End: 1\r\nContent-Length: 2\r\n\r\nok");
        /* absolute form becomes origin form; a request of HTTP/1.0 may have no Host and gets one */
        CHECK(REQUEST(x, "GET http://plain.test:8080 HTTP/1.1\r\nHost: plain.test:8080\r\n\r\n") == EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET / HTTP/1.1\r\nHost: plain.test:8080\r\n\r\n");
        CHECK(RESPONSE(x, "HTTP/1.1 204\r\n\r\n") == EXCHANGE_MORE);
        CHECK_STR(out_bytes, "HTTP/1.1 204 \r\n\r\n");
        CHECK(REQUEST(x, "GET /x HTTP/1.0\r\n\r\n") == EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET /x HTTP/1.0\r\nHost: plain.test:8080\r\nConnection: close\r\n\r\n");
        CHECK(RESPONSE(x, "HTTP/1.0 200 ok\r\n\r\nuntil the end") == EXCHANGE_MORE);
        CHECK_STR(out_bytes, "HTTP/1.0 200 ok\r\nConnection: close\r\n\r\nuntil the end");
        size_t made;
        CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_END && made == 0);
        exchange_give(x);
}

static void test_hosts(void) {
        static const char *const wrong[] = {
                "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: plain.test:81\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: plain.test.evil.test\r\n\r\n",
                "GET http://evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
                "GET http://plain.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
                "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test:81\r\n\r\n",
                "GET http://plain.test:8080/ HTTP/1.1\r\nHost: plain.test:8080\r\n\r\n",
                "GET http://evil.test/ HTTP/1.0\r\n\r\n",
        };
        static const char *const bad[] = {
                "GET / HTTP/1.1\r\nHost: plain.test\r\nHost: plain.test\r\n\r\n",
                "GET / HTTP/1.1\r\n\r\n",
                "GET https://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
                "CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "GET / HTTP/1.1\nHost: plain.test\n\n",
                "GET / HTTP/1.1\r\nHost: plain.test\r\nX: a\r\n b\r\n\r\n",
                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                struct exchange *x = take("plain.test", 80, false);
                check_denied(x, wrong[i], 403, GATE_WRONG_HOST);
                exchange_give(x);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct exchange *x = take("plain.test", 80, false);
                check_denied(x, bad[i], 400, GATE_BAD_PROTOCOL);
                exchange_give(x);
        }
        /* the second request is compared like the first */
        struct exchange *x = take("plain.test", 80, false);
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 304 same\r\nContent-Length: 77\r\n\r\n") == EXCHANGE_MORE);
        CHECK_STR(out_bytes, "HTTP/1.1 304 same\r\nContent-Length: 77\r\n\r\n");
        check_denied(x, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, GATE_WRONG_HOST);
        CHECK(strstr(exchange_view(x)->denial.detail, "evil.test") && !strstr(exchange_view(x)->reply, "evil.test"));
        exchange_give(x);
        /* a head without end */
        memset(in_bytes, 'a', sizeof in_bytes - 1);
        memcpy(in_bytes, "GET / HTTP/1.1\r\nX: ", 19);
        x = take("plain.test", 80, false);
        check_denied(x, in_bytes, 431, GATE_BAD_PROTOCOL);
        exchange_give(x);
}

static void test_literal(void) {
        struct exchange_setup s = setup(NULL, 80, false);
        struct exchange *x;

        memcpy(s.address.bytes, (uint8_t[16]){[10] = 0xff, [11] = 0xff, 192, 0, 2, 7}, 16);
        x = exchange_take(&s);
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: any.test\r\nX: " HOLDER "\r\n\r\n") == EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET / HTTP/1.1\r\nHost: any.test\r\nX: " HOLDER "\r\n\r\n");
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        CHECK(REQUEST(x, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") == EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET / HTTP/1.0\r\nHost: 192.0.2.7\r\nConnection: keep-alive\r\n\r\n");
        CHECK(RESPONSE(x, "HTTP/1.0 200 ok\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n") == EXCHANGE_MORE);
        check_denied(x, "GET / HTTP/1.1\r\nHost: any.test:81\r\n\r\n", 403, GATE_WRONG_HOST);
        exchange_give(x);
}

static void test_rules(void) {
        static const struct {
                const char *line;
                enum gate_reason reason;
                int rule;
        } cases[] = {
                {"DELETE /v1/x?query=1", GATE_NO_METHOD, 0},
                {"GET /v2/x?query=1", GATE_NO_PATH, 0},
                {"GET /v1/../v2?query", GATE_NO_PATH, 0},
                {"GET /open/x", GATE_NO_PATH, 0},
        };
        char text[256];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct exchange *x = take("api.test", 443, true);
                (void)snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: api.test\r\nX-Very: private-header\r\n\r\n",
                               cases[i].line);
                check_denied(x, text, 403, cases[i].reason);
                CHECK(exchange_view(x)->denial.rule == cases[i].rule);
                CHECK(strstr(exchange_view(x)->reply, "\"hint\":\"") && strstr(exchange_view(x)->reply, "\"rule\":0"));
                CHECK(!strstr(exchange_view(x)->reply, "private-header"));
                exchange_give(x);
        }
        static const struct {
                const char *header;
                bool passes;
        } overrides[] = {
                {"X-HTTP-Method-Override: HEAD", true},  {"X-HTTP-Method-Override: DELETE", false},
                {"x-http-method: delete", false},        {"X-Method-Override: PUT", false},
                {"X-Original-URL: /v1/y?query", true},   {"X-Original-URL: /v2", false},
                {"X-Rewrite-URL: /admin?query", false},  {"X-HTTP-Method-Override: ", false},
                {"X-Rewrite-URL: http://b/v1/x", false},
        };
        for (size_t i = 0; i < ELEMENTSOF(overrides); i++) {
                struct exchange *x = take("api.test", 443, true);
                (void)snprintf(text, sizeof text, "POST /v1/x HTTP/1.1\r\nHost: api.test\r\n%s\r\n\r\n",
                               overrides[i].header);
                if (overrides[i].passes)
                        CHECK(REQUEST(x, text) == EXCHANGE_WAIT);
                else
                        check_denied(x, text, 403, GATE_NO_METHOD);
                exchange_give(x);
        }
        /* not inspected: only the host counts */
        struct exchange_setup s = setup("api.test", 443, true);
        s.inspect = false;
        struct exchange *x = exchange_take(&s);
        CHECK(REQUEST(x, "DELETE /v2/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
        exchange_give(x);
        x = exchange_take(&s);
        check_denied(x, "GET /v1/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, GATE_WRONG_HOST);
        exchange_give(x);
        /* HEAD: no body */
        x = take("api.test", 443, true);
        CHECK(REQUEST(x, "HEAD /v2 HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_DENIED);
        const char *empty_line = strstr(exchange_view(x)->reply, "\r\n\r\n");
        CHECK(empty_line && (size_t)(empty_line + 4 - exchange_view(x)->reply) == exchange_view(x)->reply_size);
        exchange_give(x);
}

/* base64 of "user:" HOLDER, and of "user:" VALUE */
#define BASIC_HOLDER "dXNlcjpzdGtfcGxhY2Vob2xkZXJfMQ=="
#define BASIC_VALUE  "dXNlcjpzM2NyM3QtdmFsdWUtMDEyMzQ1Njc4OQ"

static void test_secret_out(void) {
        struct exchange *x = take("api.test", 443, true);

        CHECK(REQUEST(x, "GET /v1/x?t=" HOLDER " HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer " HOLDER "\r\n"
                         "X-Two: " HOLDER "," HOLDER
                         "stk_placeholder_2\r\nAccept-Encoding: gzip, br\r\nRange: bytes=1-2\r\n"
                         "If-Range: x\r\n\r\n") == EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET /v1/x?t=" HOLDER " HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer " VALUE "\r\n"
                             "X-Two: " VALUE "," VALUE "stk_placeholder_2\r\nAccept-Encoding: identity\r\n\r\n");
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        CHECK(REQUEST(x, "GET /v1/y HTTP/1.1\r\nHost: api.test\r\nauthorization: basic  " BASIC_HOLDER "\r\n\r\n") ==
              EXCHANGE_WAIT);
        CHECK(strstr(out_bytes, "\r\nauthorization: Basic " BASIC_VALUE "==\r\n") != NULL);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 48\r\nX-Echo: " BASIC_VALUE "\r\n\r\n<" BASIC_VALUE
                          "|1234567>") == EXCHANGE_MORE);
        CHECK(strstr(out_bytes, "X-Echo: **************************************\r\n") != NULL);
        CHECK_STR(body_of(out_bytes), "<**************************************|1234567>");
        /* what is no base64, or has no placeholder inside, stays as it is; the placeholder may stand there itself */
        CHECK(REQUEST(x, "GET /v1/y HTTP/1.1\r\nHost: api.test\r\nAuthorization: Basic " HOLDER
                         "\r\nX: Basic " BASIC_HOLDER "\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(strstr(out_bytes, "\r\nAuthorization: Basic " VALUE "\r\nX: Basic " BASIC_HOLDER "\r\n") != NULL);
        exchange_give(x);
}

static void test_secret_stays(void) {
        static const struct {
                const char *name;
                uint16_t port;
                bool tls;
                const char *path;
                bool goes;
        } cases[] = {
                {"api.test", 443, true, "/v1/x", true},  {"api.test", 443, true, "/open", false},
                {"api.test", 80, false, "/v1/x", false}, {"plain.test", 443, true, "/v1/x", false},
                {"inner.test", 80, false, "/in", true},  {"inner.test", 80, false, "/out", false},
        };
        char text[512];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct exchange *x = take(cases[i].name, cases[i].port, cases[i].tls);
                (void)snprintf(text, sizeof text,
                               "GET %s HTTP/1.1\r\nHost: %s\r\nA: " HOLDER "\r\nAuthorization: Basic " BASIC_HOLDER
                               "\r\n\r\n",
                               cases[i].path, cases[i].name);
                CHECK(REQUEST(x, text) == EXCHANGE_WAIT);
                CHECK((strstr(out_bytes, VALUE) != NULL) == cases[i].goes);
                CHECK((strstr(out_bytes, BASIC_VALUE) != NULL) == cases[i].goes);
                CHECK((strstr(out_bytes, HOLDER) == NULL) == cases[i].goes);
                exchange_give(x);
        }
}

static void test_secret_back(void) {
        static const char *const answers[] = {
                "HTTP/1.1 200 is " VALUE "\r\nX-A: b" VALUE "c\r\nX-" VALUE ": 1\r\nContent-Length: 64\r\n\r\n" VALUE
                "-half:s3cr3t-valu-" VALUE,
                "HTTP/1.1 200 ok\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nsay s3cr3t-value\r\n1\r\n-\r\n"
                "f\r\n0123456789 done\r\n0\r\n\r\n",
                "HTTP/1.1 200 ok\r\n\r\nuntil close " VALUE " and s3cr3t-value-01234567",
        };
        static const char *const expected[] = {
                "***********************-half:s3cr3t-valu-***********************",
                "say *********************** done",
                "until close *********************** and s3cr3t-value-01234567",
        };
        static char whole[4096];

        for (size_t i = 0; i < ELEMENTSOF(answers); i++)
                for (size_t step = 1; step < 100; step++) {
                        struct exchange *x = take("api.test", 443, true);
                        size_t made;

                        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\nA: " HOLDER "\r\n\r\n") ==
                              EXCHANGE_WAIT);
                        CHECK(feed(exchange_response, x, answers[i], step) == EXCHANGE_MORE);
                        (void)snprintf(whole, sizeof whole, "%.4000s", out_bytes);
                        if (i == 2) {
                                CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_END);
                                (void)snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%.*s", (int)made,
                                               (char *)room);
                        }
                        CHECK_STR(body_of(whole), expected[i]);
                        CHECK(!strstr(whole, VALUE));
                        exchange_give(x);
                }
        /* also when this request carries no placeholder, and on another path of the host */
        struct exchange *x = take("api.test", 443, true);
        CHECK(REQUEST(x, "GET /open HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(strstr(out_bytes, "Accept-Encoding: identity\r\n") != NULL);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 23\r\n\r\n" VALUE) == EXCHANGE_MORE);
        CHECK(!strstr(out_bytes, VALUE));
        exchange_give(x);
}

static void test_encoded(void) {
        static const char *const codings[] = {"gzip", "identity, br", "GZIP"};
        char text[256];

        for (size_t i = 0; i < ELEMENTSOF(codings); i++) {
                struct exchange *x = take("api.test", 443, true);
                CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
                (void)snprintf(text, sizeof text,
                               "HTTP/1.1 200 ok\r\nContent-Encoding: %s\r\nContent-Length: 3\r\n\r\nabc", codings[i]);
                CHECK(RESPONSE(x, text) == EXCHANGE_DENIED && out_bytes[0] == '\0');
                CHECK(str_starts(exchange_view(x)->reply, "HTTP/1.1 502 "));
                CHECK(strstr(exchange_view(x)->reply, "Content-Encoding") != NULL);
                exchange_give(x);
        }
        struct exchange *x = take("plain.test", 443, true); /* no secret is for this host */
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc") ==
              EXCHANGE_MORE);
        exchange_give(x);
}

static void test_bodies(void) {
        struct exchange *x = take("plain.test", 80, false);

        for (size_t step = 1; step < 40; step++) {
                CHECK(feed(exchange_request, x,
                           "POST / HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\nExpect: "
                           "100-continue\r\n\r\n"
                           "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
                           step) == EXCHANGE_WAIT);
                CHECK(str_starts(out_bytes, "POST / HTTP/1.1\r\nHost: plain.test\r\nExpect: 100-continue\r\n"));
                CHECK_STR(body_of(out_bytes), "hello world");
                CHECK(feed(exchange_response, x,
                           "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                           step) == EXCHANGE_MORE);
                CHECK_STR(out_bytes, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
                                     "HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
                CHECK(REQUEST(x, "HEAD / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
                CHECK(feed(exchange_response, x, "HTTP/1.1 200 ok\r\nContent-Length: 99\r\n\r\n", step) ==
                      EXCHANGE_MORE);
                CHECK_STR(out_bytes, "HTTP/1.1 200 ok\r\nContent-Length: 99\r\n\r\n");
        }
        /* two requests in one piece: the second waits */
        const char *two = "POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\nHost: "
                          "plain.test\r\n\r\n";
        CHECK(REQUEST(x, two) == EXCHANGE_WAIT && used_bytes == (size_t)(strstr(two, "GET /2") - two));
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        CHECK(REQUEST(x, strstr(two, "GET /2")) == EXCHANGE_WAIT);
        /* an answer and more than was asked for */
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 ok\r\nContent-Length: "
                          "6\r\n\r\npoison") == EXCHANGE_END);
        CHECK(!strstr(out_bytes, "poison"));
        exchange_give(x);

        x = take("plain.test", 80, false); /* asked nothing */
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\n\r\n") == EXCHANGE_END && out_bytes[0] == '\0');
        exchange_give(x);
        x = take("plain.test", 80, false); /* chunks that are none */
        CHECK(REQUEST(x,
                      "POST / HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n") ==
              EXCHANGE_DENIED);
        CHECK(out_bytes[0] == '\0' && str_starts(exchange_view(x)->reply, "HTTP/1.1 400 "));
        exchange_give(x);
}

static void test_early_and_cut(void) {
        struct exchange *x = take("plain.test", 80, false);
        size_t made;

        /* an answer before the request is complete ends it */
        CHECK(REQUEST(x, "POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 9\r\n\r\nabc") == EXCHANGE_MORE);
        CHECK(RESPONSE(x, "HTTP/1.1 413 too large\r\nContent-Length: 2\r\n\r\nno") == EXCHANGE_END);
        CHECK_STR(body_of(out_bytes), "no");
        exchange_give(x);

        x = take("plain.test", 80, false);
        CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_END && made == 0);
        exchange_give(x);

        x = take("plain.test", 80, false);
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 200 o") == EXCHANGE_MORE);
        CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_DENIED);
        CHECK(str_starts(exchange_view(x)->reply, "HTTP/1.1 502 ") && exchange_view(x)->reply_size > 0);
        exchange_give(x);

        x = take("api.test", 443, true); /* cut in the middle: what was held comes out, then nothing can be said */
        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 99\r\n\r\nabc\ns3cr3t-") == EXCHANGE_MORE);
        CHECK_STR(body_of(out_bytes), "abc\n");
        CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_DENIED);
        CHECK(made == 7 && memcmp(room, "s3cr3t-", 7) == 0 && exchange_view(x)->reply_size == 0);
        exchange_give(x);

        x = take("plain.test", 80, false); /* the server does not speak HTTP */
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab") == EXCHANGE_DENIED);
        CHECK(out_bytes[0] == '\0' && str_starts(exchange_view(x)->reply, "HTTP/1.1 502 "));
        exchange_give(x);
}

static void test_close(void) {
        struct exchange *x = take("plain.test", 80, false);

        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(strstr(out_bytes, "Connection: close\r\n") != NULL);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 1\r\n\r\na") == EXCHANGE_END);
        CHECK(strstr(out_bytes, "Connection: close\r\n") != NULL);
        exchange_give(x);
        x = take("plain.test", 80, false);
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 1\r\nConnection: close\r\n\r\na") == EXCHANGE_END);
        CHECK_STR(body_of(out_bytes), "a");
        exchange_give(x);
}

static void test_upgrade(void) {
        const char *ask = "GET /v1/ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          "Sec-WebSocket-Key: k\r\nSec-WebSocket-Extensions: permessage-deflate\r\nX: " HOLDER
                          "\r\n\r\n";
        const char *grant = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        struct exchange *x = take("api.test", 443, true);
        size_t made;

        CHECK(REQUEST(x, ask) == EXCHANGE_WAIT);
        CHECK(strstr(out_bytes, "Connection: Upgrade\r\nUpgrade: websocket\r\n") && strstr(out_bytes, VALUE));
        CHECK(!strstr(out_bytes, "Extensions"));
        (void)snprintf(in_bytes, sizeof in_bytes, "%sraw", grant);
        CHECK(RESPONSE(x, in_bytes) == EXCHANGE_RAW && used_bytes == strlen(grant));
        CHECK_STR(out_bytes, grant);
        CHECK(REQUEST(x, "abc") == EXCHANGE_RAW && used_bytes == 0);
        exchange_raw(x, false, (const uint8_t *)"to " VALUE, 3 + strlen(VALUE), room, &made);
        CHECK(made == 3 + strlen(VALUE) && memcmp(room, "to " VALUE, made) == 0);
        /* a message in two pieces: its end lets go what is held */
        exchange_raw(x, true, (const uint8_t *)"\x81\x1dx s3cr3t-", 11, room, &made);
        CHECK(made == 2 || made == 0);
        size_t before = made;
        exchange_raw(x, true, (const uint8_t *)"value-0123456789 end", 20, room, &made);
        CHECK(before + made == 31 && memcmp(room + made - 29, "x *********************** end", 29) == 0);
        /* half a message, then the end */
        exchange_raw(x, true, (const uint8_t *)"\x81\x7es3", 4, room, &made);
        before = made;
        CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_END && before + made == 4);
        exchange_raw(x, false, (const uint8_t *)"bye", 3, room, &made);
        CHECK(made == 3); /* the client has not ended */
        exchange_give(x);

        x = take("api.test", 443, true); /* extensions that nobody asked for could hide the value */
        CHECK(REQUEST(x, ask) == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n") == EXCHANGE_DENIED);
        exchange_give(x);
        x = take("api.test", 443, true); /* not granted: goes on as HTTP */
        CHECK(REQUEST(x, ask) == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 400 no\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, grant) == EXCHANGE_DENIED); /* not asked for */
        exchange_give(x);
}

static void test_proxy(void) {
        struct exchange_setup s = setup("plain.test", 80, false);
        struct exchange *x;

        s.proxy = true;
        x = exchange_take(&s);
        CHECK(REQUEST(x, "GET http://plain.test/a?b HTTP/1.1\r\nHost: plain.test\r\nProxy-Connection: x\r\n\r\n") ==
              EXCHANGE_WAIT);
        CHECK_STR(out_bytes, "GET /a?b HTTP/1.1\r\nHost: plain.test\r\n\r\n");
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        const char *other = "GET http://inner.test/in HTTP/1.1\r\nHost: inner.test\r\nX: " HOLDER "\r\n\r\n";
        CHECK(REQUEST(x, other) == EXCHANGE_RETARGET && used_bytes == 0 && out_bytes[0] == '\0');
        CHECK_STR(exchange_view(x)->target.name, "inner.test");
        CHECK(exchange_view(x)->target.port == 80);
        s.name = "inner.test";
        exchange_retarget(x, &s);
        CHECK(REQUEST(x, other) == EXCHANGE_WAIT && strstr(out_bytes, VALUE));
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        s.name = "plain.test"; /* somewhere else, and the value is still searched for */
        exchange_retarget(x, &s);
        CHECK(REQUEST(x, "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nX: " HOLDER "\r\n\r\n") ==
              EXCHANGE_WAIT);
        CHECK(!strstr(out_bytes, VALUE));
        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 23\r\n\r\n" VALUE) == EXCHANGE_MORE);
        CHECK(!strstr(out_bytes, VALUE));
        check_denied(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n", 400, GATE_BAD_PROTOCOL);
        exchange_give(x);

        x = exchange_take(&s);
        check_denied(x, "GET https://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", 400, GATE_BAD_PROTOCOL);
        exchange_give(x);
        s.port = 0; /* connected to nothing yet */
        x = exchange_take(&s);
        CHECK(REQUEST(x, "GET http://192.0.2.1:81/ HTTP/1.1\r\nHost: 192.0.2.1:81\r\n\r\n") == EXCHANGE_RETARGET);
        CHECK(exchange_view(x)->target.name[0] == '\0' && exchange_view(x)->target.port == 81);
        exchange_give(x);
}

static void test_many_credentials(void) {
        struct exchange *x = take("api.test", 443, true);
        enum exchange_result r = EXCHANGE_WAIT;
        unsigned i;

        /* each with another user: what can no longer be searched for is not sent */
        for (i = 0; i < 200 && r == EXCHANGE_WAIT; i++) {
                char plain[128], encoded[200], text[400];
                static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
                size_t made = 0;

                (void)snprintf(plain, sizeof plain, "%03u:" HOLDER, i);
                for (size_t j = 0; j < strlen(plain); j += 3) {
                        unsigned b = (unsigned)plain[j] << 16 | (unsigned)plain[j + 1] << 8 | (unsigned)plain[j + 2];
                        for (unsigned k = 0; k < 4; k++)
                                encoded[made++] = digits[b >> (18 - 6 * k) & 63];
                }
                encoded[made] = '\0';
                (void)snprintf(text, sizeof text,
                               "GET /v1/x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Basic %s\r\n\r\n", encoded);
                r = REQUEST(x, text);
                if (r == EXCHANGE_WAIT)
                        CHECK(RESPONSE(x, "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        }
        CHECK(r == EXCHANGE_DENIED && out_bytes[0] == '\0' && i > 10 && i < 100);
        exchange_give(x);
}

static void test_pool(void) {
        static struct exchange *all[EXCHANGE_MAX];
        struct exchange_setup s = setup("plain.test", 80, false);

        for (size_t i = 0; i < EXCHANGE_MAX; i++) {
                all[i] = exchange_take(&s);
                CHECK(all[i] != NULL);
        }
        CHECK(exchange_take(&s) == NULL);
        for (size_t i = 0; i < EXCHANGE_MAX; i++)
                exchange_give(all[i]);
        exchange_give(NULL);
        struct exchange *x = exchange_take(&s);
        CHECK(x && REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n") == EXCHANGE_WAIT);
        exchange_give(x);
}

static void test_refusal(void) {
        struct gate_event e = {.reason = GATE_CERTIFICATE, .port = 443, .rule = -1, .host = "x.test"};
        char text[EXCHANGE_REFUSAL];

        CHECK(exchange_refusal(&e, text, sizeof text) > 0 && str_starts(text, "HTTP/1.1 502 "));
        CHECK(strstr(text, "\"rule\":null") && strstr(text, "\"host\":\"x.test\"") && strstr(text, "\"port\":443"));
        e.reason = GATE_NO_RULE;
        (void)snprintf(e.detail, sizeof e.detail, "a clause with a header");
        memset(e.path, '"', sizeof e.path - 1);
        memset(e.host, '\x01', sizeof e.host - 1);
        size_t n = exchange_refusal(&e, text, sizeof text);
        CHECK(n > 0 && str_starts(text, "HTTP/1.1 403 ") && !strstr(text, "clause"));
        char length[64];
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n",
                       n - (size_t)(strstr(text, "\r\n\r\n") + 4 - text));
        CHECK(strstr(text, length) != NULL);
        CHECK(exchange_refusal(&e, text, 100) == 0);
}

TEST_MAIN(TEST(test_rewrite), TEST(test_hosts), TEST(test_literal), TEST(test_rules), TEST(test_secret_out),
          TEST(test_secret_stays), TEST(test_secret_back), TEST(test_encoded), TEST(test_bodies),
          TEST(test_early_and_cut), TEST(test_close), TEST(test_upgrade), TEST(test_proxy), TEST(test_many_credentials),
          TEST(test_pool), TEST(test_refusal))
