/* Secrets in conversations: where a value goes out, that it does not come back, also in WebSocket messages, and what
 * new rules end. */
#include <stdarg.h>

#include "gate/test-exchange.h"

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
                bool tls, near;
                const char *path;
                bool goes;
        } cases[] = {
                {"api.test", 443, true, false, "/v1/x", true},  {"api.test", 443, true, true, "/open", false},
                {"api.test", 80, false, true, "/v1/x", false},  {"plain.test", 443, true, true, "/v1/x", false},
                {"inner.test", 80, false, true, "/in", true},   {"inner.test", 80, false, true, "/out", false},
                {"inner.test", 80, false, false, "/in", false}, /* private is allowed, and public is where it leads */
        };
        char text[512];

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct exchange_setup s = setup(cases[i].name, cases[i].port, cases[i].tls);
                s.near = cases[i].near;
                struct exchange *x = exchange_take(&s);
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

static _printf_(2, 3) void append(char *text, const char *format, ...) {
        va_list args;
        size_t size = strlen(text);

        va_start(args, format);
        (void)vsnprintf(text + size, 1000 - size, format, args);
        va_end(args);
}

#define WS_ASK                                                                                                         \
        "GET /v1/ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                       \
        "Sec-WebSocket-Key: k\r\nSec-WebSocket-Extensions: permessage-deflate\r\nX: " HOLDER "\r\n\r\n"
#define WS_GRANT "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

static void test_upgrade(void) {
        struct exchange *x = take("api.test", 443, true);
        size_t made;

        CHECK(REQUEST(x, WS_ASK) == EXCHANGE_WAIT);
        CHECK(strstr(out_bytes, "Connection: Upgrade\r\nUpgrade: websocket\r\n") && strstr(out_bytes, VALUE));
        CHECK(!strstr(out_bytes, "Extensions"));
        CHECK(RESPONSE(x, WS_GRANT "raw") == EXCHANGE_RAW && used_bytes == strlen(WS_GRANT));
        CHECK_STR(out_bytes, WS_GRANT);
        CHECK(REQUEST(x, "abc") == EXCHANGE_RAW && used_bytes == 0);
        CHECK(exchange_raw(x, false, (const uint8_t *)"to " VALUE, 3 + strlen(VALUE), room, &made));
        CHECK(made == 3 + strlen(VALUE) && memcmp(room, "to " VALUE, made) == 0);
        /* a message in two pieces: its end lets go what is held */
        CHECK(exchange_raw(x, true, (const uint8_t *)"\x81\x1dx s3cr3t-", 11, room, &made) && made == 0);
        CHECK(exchange_raw(x, true, (const uint8_t *)"value-0123456789 end", 20, room, &made));
        CHECK(made == 31 && memcmp(room, "\x81\x1dx *********************** end", 31) == 0);
        /* half a message, then the end */
        CHECK(exchange_raw(x, true, (const uint8_t *)"\x81\x09s3", 4, room, &made) && made == 0);
        CHECK(exchange_response_eof(x, room, sizeof room, &made) == EXCHANGE_END);
        CHECK(made == 4 && memcmp(room, "\x01\x02s3", 4) == 0);
        CHECK(exchange_raw(x, false, (const uint8_t *)"bye", 3, room, &made) && made == 3); /* the client goes on */
        exchange_give(x);

        x = take("api.test", 443, true); /* extensions that nobody asked for could hide the value */
        CHECK(REQUEST(x, WS_ASK) == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n") == EXCHANGE_DENIED);
        exchange_give(x);
        x = take("api.test", 443, true); /* not granted: goes on as HTTP */
        CHECK(REQUEST(x, WS_ASK) == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, "HTTP/1.1 400 no\r\nContent-Length: 0\r\n\r\n") == EXCHANGE_MORE);
        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(RESPONSE(x, WS_GRANT) == EXCHANGE_DENIED); /* not asked for */
        exchange_give(x);
        /* a server sums up what is in these, so that guesses could be tried */
        x = take("api.test", 443, true);
        CHECK(REQUEST(x,
                      "GET /v1/ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      "Sec-WebSocket-Key: " HOLDER "\r\nsec-websocket-protocol: " HOLDER "\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(!strstr(out_bytes, VALUE) && strstr(out_bytes, "Key: " HOLDER) && strstr(out_bytes, "protocol: " HOLDER));
        exchange_give(x);
}

/* What a client makes of frames: the payload of each message, then a line end; "!" for control frames, whose payload is
 * told at once. */
static void read_frames(const uint8_t *bytes, size_t size, char *ret) {
        char message[1000] = "";
        size_t inside = 0;

        ret[0] = '\0';
        for (size_t at = 0; at < size;) {
                size_t n = bytes[at + 1], head = n == 126 ? 4 : 2;

                if (n == 126)
                        n = (size_t)bytes[at + 2] << 8 | bytes[at + 3];
                CHECK(n < 127 || head == 4);
                CHECK(at + head + n <= size && (bytes[at] & 0x70) == 0);
                if (bytes[at] & 8) {
                        CHECK(bytes[at] & 0x80);
                        append(ret, "!%.*s\n", (int)n, (const char *)bytes + at + head);
                } else {
                        CHECK((bytes[at] & 15) == (inside++ ? 0 : 1));
                        append(message, "%.*s", (int)n, (const char *)bytes + at + head);
                        if (bytes[at] & 0x80) {
                                append(ret, "%s\n", message);
                                message[0] = '\0';
                                inside = 0;
                        }
                }
                at += head + n;
        }
        CHECK(inside == 0);
}

static void test_fragments(void) {
        /* the value in two and in four parts, one of them empty, with a ping between; a message behind it */
        static const char frames[] = "\x01\x0as3cr3t-val\x80\x0due-0123456789"
                                     "\x01\x03<s3\x00\x00\x89\x17" VALUE "\x00\x06"
                                     "cr3t-v\x80\x10"
                                     "alue-0123456789>\x82\x00\x81\x03two";
        static const size_t size = sizeof frames - 1;
        char text[2000];

        for (size_t step = 1; step <= size; step++) {
                struct exchange *x = take("api.test", 443, true);
                size_t made = 0, all = 0;

                CHECK(REQUEST(x, WS_ASK) == EXCHANGE_WAIT && RESPONSE(x, WS_GRANT) == EXCHANGE_RAW);
                for (size_t at = 0; at < size; at += step) {
                        CHECK(exchange_raw(x, true, (const uint8_t *)frames + at, MIN(step, size - at), room, &made));
                        memcpy(out_bytes + all, room, made);
                        all += made;
                }
                for (size_t i = 0; i < all; i++) /* an empty message of bytes is one of text here */
                        if ((uint8_t)out_bytes[i] == 0x82)
                                out_bytes[i] = (char)0x81;
                read_frames((const uint8_t *)out_bytes, all, text);
                CHECK_STR(text,
                          "***********************\n!***********************\n<***********************>\n\ntwo\n");
                exchange_give(x);
        }
        /* what is no frame of a server's lets nothing pass any more */
        static const struct {
                const char *bytes;
                size_t size;
        } bad[] = {
                {"\x80\x01x", 3},                    /* goes on, and nothing began */
                {"\x01\x01x\x81\x01y", 6},           /* begins, and nothing ended */
                {"\x81\x81\1\2\3\4x", 7},            /* masked */
                {"\xc1\x01x", 3},                    /* an extension's */
                {"\x83\x01x", 3},                    /* a kind that is none */
                {"\x09\x01x", 3},                    /* half a ping */
                {"\x89\x7e\x00\x7ex", 5},            /* a long one */
                {"\x8b\x01x", 3},                    /* a control kind that is none */
                {"\x81\x7f\xff\0\0\0\0\0\0\0x", 11}, /* no such length */
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct exchange *x = take("api.test", 443, true);
                size_t made = 0;

                CHECK(REQUEST(x, WS_ASK) == EXCHANGE_WAIT && RESPONSE(x, WS_GRANT) == EXCHANGE_RAW);
                CHECK(!exchange_raw(x, true, (const uint8_t *)bad[i].bytes, bad[i].size, room, &made) && made == 0);
                CHECK(exchange_view(x)->denial.reason == GATE_BAD_PROTOCOL && exchange_view(x)->reply_size == 0);
                CHECK(strstr(exchange_view(x)->denial.detail, "WebSocket") != NULL);
                CHECK(!exchange_raw(x, true, (const uint8_t *)"\x81\x01x", 3, room, &made) && made == 0);
                CHECK(!exchange_raw(x, false, (const uint8_t *)"x", 1, room, &made) && made == 0);
                exchange_give(x);
        }
        /* where no secret is for the host, nobody looks */
        struct exchange *x = take("plain.test", 80, false);
        size_t made;
        CHECK(REQUEST(x, "GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") ==
              EXCHANGE_WAIT);
        CHECK(RESPONSE(x, WS_GRANT) == EXCHANGE_RAW);
        CHECK(exchange_raw(x, true, (const uint8_t *)"\xff\xff\xff", 3, room, &made) && made == 3);
        exchange_give(x);
}

/* Large frames, and many small ones that grow by being joined. */
static void test_frames_room(void) {
        static uint8_t in[EXCHANGE_PIECE];
        struct exchange *x = take("api.test", 443, true);
        size_t made, all_in = 0, all_out = 0;

        CHECK(REQUEST(x, WS_ASK) == EXCHANGE_WAIT && RESPONSE(x, WS_GRANT) == EXCHANGE_RAW);
        memset(in, 'x', sizeof in);
        for (size_t at = 0; at + 131 <= sizeof in; at += 131) {
                memcpy(in + at, at == 0 ? "\x01\x02\nx\0\x7d" : "\0\x02\nx\0\x7d", 6);
                in[at + 130] = '\n';
        }
        for (unsigned i = 0; i < 3; i++) {
                size_t n = sizeof in / 131 * 131;

                in[0] = i == 0;
                CHECK(exchange_raw(x, true, in, n, room, &made) && made > n && made <= n + EXCHANGE_HELD);
        }
        CHECK(exchange_raw(x, true, (const uint8_t *)"\x80\x7f\0\0\0\0\0\x04\0\0", 10, room, &made));
        for (unsigned i = 0; i < 4; i++) { /* one of 256 KiB */
                memset(in, 'y', sizeof in);
                CHECK(exchange_raw(x, true, in, sizeof in, room, &made) && made <= sizeof in + EXCHANGE_HELD);
                all_in += sizeof in;
                all_out += made;
        }
        CHECK(all_out > all_in && all_out < all_in + 100);
        CHECK(exchange_raw(x, true, (const uint8_t *)"\x81\x01z", 3, room, &made) && made == 3);
        exchange_give(x);
}

/* Forms in which servers give back what they were told; forms.c has more. */
static void test_secret_forms(void) {
        static const char *const forms[] = {
                "S3CR3T-VALUE-0123456789",                        /* as header names are */
                "czNjcjN0LXZhbHVlLTAxMjM0NTY3ODk",                /* base64 */
                "7333637233742d76616c75652d30313233343536373839", /* hexadecimal */
        };
        char text[400];

        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                struct exchange *x = take("api.test", 443, true);

                CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\nA: " HOLDER "\r\n\r\n") == EXCHANGE_WAIT);
                (void)snprintf(text, sizeof text, "HTTP/1.1 200 %s\r\nX: %s\r\nContent-Length: %zu\r\n\r\n%s", forms[i],
                               forms[i], strlen(forms[i]), forms[i]);
                for (size_t step = 1; step < 2; step++)
                        CHECK(feed(exchange_response, x, text, step) == EXCHANGE_MORE);
                CHECK(!strstr(out_bytes, "3CR3T") && !strstr(out_bytes, "jN0LX") && !strstr(out_bytes, "233742"));
                CHECK(strstr(out_bytes, "\r\nX: ********************") != NULL);
                exchange_give(x);
        }
}

/* ---- new rules ---- */

static void load(struct rules *r, const struct rule *list, size_t count) {
        _cleanup_buf_ struct buf b = {0};

        rules_begin(&b);
        for (size_t i = 0; i < count; i++)
                rules_add(&b, &list[i]);
        assert(buf_ok(&b) && rules_load(r, b.data, b.size) == 0);
}

/* In which state new rules find an exchange. */
enum moment { NOTHING_YET, BODY_GOES, ANSWER_DUE, ANSWER_COMES, UPGRADED, ANSWERED, MOMENTS };

static struct exchange *at_moment(enum moment m, const char *path, const char *header) {
        struct exchange *x = take("api.test", 443, true);
        char text[4096];

        if (m == NOTHING_YET)
                return x;
        (void)snprintf(text, sizeof text, "%s %s?query HTTP/1.1\r\nHost: api.test\r\n%s%s\r\n",
                       m == BODY_GOES ? "POST" : "GET", path, header,
                       m == BODY_GOES  ? "Content-Length: 9\r\n"
                       : m == UPGRADED ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                       : "");
        CHECK(REQUEST(x, text) == (m == BODY_GOES ? EXCHANGE_MORE : EXCHANGE_WAIT));
        if (m == ANSWER_COMES || m == ANSWERED)
                CHECK(RESPONSE(x, m == ANSWERED ? "HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n"
                                                : "HTTP/1.1 200 ok\r\nContent-Length: 9\r\n\r\nabc") == EXCHANGE_MORE);
        if (m == UPGRADED)
                CHECK(RESPONSE(x, WS_GRANT) == EXCHANGE_RAW);
        return x;
}

static bool review(struct exchange *x, const struct rules *r, const struct secrets *s) {
        struct exchange_setup new = setup("api.test", 443, true);

        new.rules = r;
        new.secrets = s;
        exchange_retarget(x, &new);
        return exchange_review(x);
}

static void test_review(void) {
        static const struct rule same = {.host = "api.test",
                                         .ports = {443},
                                         .port_count = 1,
                                         .methods = {"GET", "POST"},
                                         .method_count = 2,
                                         .paths = {"/v1/*"},
                                         .path_count = 1,
                                         .secret = "TOKEN"};
        struct rule other_path = same, other_method = same, other_port = same, without = same, any = same;
        static struct rules kept, path, method, port, no_secret, free_of_paths;
        char long_path[2000] = "/v1/";

        other_path.paths[0] = "/v2/*";
        other_method.methods[0] = "PUT";
        other_method.method_count = 1;
        other_port.ports[0] = 444;
        without.secret = "";
        any.path_count = 0;
        load(&kept, &same, 1);
        load(&path, &other_path, 1);
        load(&method, &other_method, 1);
        load(&port, &other_port, 1);
        load(&no_secret, &without, 1);
        load(&free_of_paths, &any, 1);
        memset(long_path + 4, 'x', sizeof long_path - 5);
        for (enum moment m = 0; m < MOMENTS; m++) {
                bool idle = m == NOTHING_YET || m == ANSWERED;
                const struct {
                        const struct rules *rules;
                        const char *path, *header;
                        bool goes_on;
                } cases[] = {
                        {&kept, "/v1/x", "A: " HOLDER "\r\n", true},
                        {&path, "/v1/x", "", idle},
                        {&method, "/v1/x", "", idle},
                        {&port, "/v1/x", "", idle},
                        {&no_secret, "/v1/x", "", true},
                        {&no_secret, "/v1/x", "A: " HOLDER "\r\n", idle},
                        {&no_secret, "/v1/x", "Sec-WebSocket-Key: " HOLDER "\r\n", true}, /* it was not put in */
                        {&kept, long_path, "", idle},
                        {&free_of_paths, long_path, "", true},
                        {&kept, "/v1/x", "X-Method-Override: GET\r\n", idle}, /* not kept, so not judged again */
                };

                for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                        struct exchange *x = at_moment(m, cases[i].path, cases[i].header);
                        bool r = review(x, cases[i].rules, secrets);

                        if (r != cases[i].goes_on)
                                (void)printf("# moment %d, case %zu\n", (int)m, i);
                        CHECK(r == cases[i].goes_on);
                        exchange_give(x);
                }
        }
        /* the secret itself goes, or another takes its place */
        struct secrets *own = secrets_create();
        CHECK(secrets_put(own, "TOKEN", HOLDER, VALUE, strlen(VALUE)) == 0);
        struct exchange *x = take("api.test", 443, true);
        CHECK(review(x, &kept, own)); /* nothing yet */
        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\nA: " HOLDER "\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(review(x, &kept, own) && !review(x, &kept, NULL));
        CHECK(secrets_wipe(own, "TOKEN") == 0 && !review(x, &kept, own));
        CHECK(secrets_put(own, "TOKEN", HOLDER, VALUE, strlen(VALUE)) == 0 && !review(x, &kept, own));
        exchange_give(x);
        /* an answer that comes unsearched, and now it would have to be searched */
        x = take("api.test", 443, true);
        CHECK(review(x, &no_secret, own));
        CHECK(REQUEST(x, "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT);
        CHECK(review(x, &no_secret, own) && !review(x, &kept, own));
        exchange_give(x);
        secrets_destroy(own);
        /* not inspected: the connection is all that counts */
        struct exchange_setup s = setup("api.test", 443, true);
        s.rules = &no_secret;
        s.inspect = false;
        x = exchange_take(&s);
        CHECK(REQUEST(x, "GET /v3 HTTP/1.1\r\nHost: api.test\r\n\r\n") == EXCHANGE_WAIT && exchange_review(x));
        s.inspect = true;
        exchange_retarget(x, &s);
        CHECK(!exchange_review(x));
        exchange_give(x);
        struct rules *all[] = {&kept, &path, &method, &port, &no_secret, &free_of_paths};
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                rules_unload(all[i]);
}

static void test_many_credentials(void) {
        struct exchange *x = take("api.test", 443, true);
        enum exchange_result r = EXCHANGE_WAIT;
        unsigned i;

        /* each with another user: what can no longer be searched for is not sent */
        for (i = 0; i < 1000 && r == EXCHANGE_WAIT; i++) {
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
        CHECK(r == EXCHANGE_DENIED && out_bytes[0] == '\0' && i > 10 && i < 1000);
        exchange_give(x);
}

TEST_MAIN(TEST(test_secret_out), TEST(test_secret_stays), TEST(test_secret_back), TEST(test_upgrade),
          TEST(test_fragments), TEST(test_frames_room), TEST(test_secret_forms), TEST(test_review),
          TEST(test_many_credentials))
