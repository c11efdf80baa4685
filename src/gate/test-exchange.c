/* Conversations: what goes out for what came in, in both directions, whole and cut at every place. */
#include "gate/test-exchange.h"

static char in_bytes[4 * HTTP_HEAD_MAX];

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
                {"OPTIONS *", GATE_NO_PATH, 0},
        };
        char text[256];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct exchange *x = take("api.test", 443, true);
                (void)snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: api.test\r\nX-Very: private-header\r\n\r\n",
                               cases[i].line);
                check_denied(x, text, 403, cases[i].reason);
                CHECK(exchange_view(x)->denial.rule == cases[i].rule);
                CHECK(strstr(exchange_view(x)->reply, "\"hint\":\"") && strstr(exchange_view(x)->reply, "\"rule\":0"));
                CHECK(!strstr(exchange_view(x)->reply, "\"hint\":\"\""));
                CHECK_STR(exchange_view(x)->denial.detail, ""); /* the reason says it already */
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

static void test_proxy(void) {
        struct exchange_setup s = setup("plain.test", 80, false);
        struct exchange *x;

        s.proxy = s.near = true;
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

TEST_MAIN(TEST(test_rewrite), TEST(test_hosts), TEST(test_literal), TEST(test_rules), TEST(test_encoded),
          TEST(test_bodies), TEST(test_early_and_cut), TEST(test_close), TEST(test_proxy), TEST(test_pool),
          TEST(test_refusal))
