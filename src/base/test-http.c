/* Unit tests of HTTP heads and bodies: what clients send is read, and every known way to make two readers see different
 * messages in the same bytes is refused. */
#include <sys/types.h>

#include "base/http.h"
#include "base/test.h"

/* From memory of exactly this size, so that a sanitizer sees every byte too far. The copy lives until the next call:
 * spans point into it. */
static const char *exact(const void *bytes, size_t size) {
        static char *copy;

        free(copy);
        copy = calloc(1, size ? size : 1);
        if (!copy)
                abort();
        memcpy(copy, bytes, size);
        return copy;
}

static struct http_head head;

static enum http_result request_bytes(const char *bytes, size_t size) {
        return http_request(exact(bytes, size), size, &head);
}
#define REQUEST(text) request_bytes(text, sizeof(text) - 1)

static enum http_result response_bytes(const char *bytes, size_t size, const struct http_head *request) {
        return http_response(exact(bytes, size), size, request, &head);
}
#define RESPONSE(text, request) response_bytes(text, sizeof(text) - 1, request)

static bool span_is(struct http_span s, const char *text) {
        return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

/* Refused, and for the reason that is meant. */
static bool refused(enum http_result r, const char *why) {
        if (r == HTTP_BAD && head.problem && strstr(head.problem, why))
                return true;
        (void)printf("# result %d, problem: %s\n", r, r == HTTP_BAD && head.problem ? head.problem : "none");
        return false;
}
#define BAD_REQUEST(text, why)       CHECK(refused(REQUEST(text), why))
#define BAD_HEADERS(headers, why)    BAD_REQUEST("POST / HTTP/1.1\r\nHost: a.test\r\n" headers "\r\n\r\n", why)
#define BAD_TARGET(target, why)      BAD_REQUEST("GET " target " HTTP/1.1\r\nHost: a.test\r\n\r\n", why)
#define BAD_RESPONSE(text, req, why) CHECK(refused(RESPONSE(text, req), why))
#define GOOD_HEADERS(headers)        (REQUEST("POST / HTTP/1.1\r\nHost: a.test\r\n" headers "\r\n\r\n") == HTTP_DONE)

static void a_plain_request_is_read(void) {
        static const char text[] = "GET /a/b%20c?d=e&f=/g HTTP/1.1\r\nHost: Example.Test:8080\r\nAccept:\t*/* \r\n"
                                   "X-Empty:\r\nCookie: a=\xc3\xbc; b=\"c\"\r\n\r\nbody or the next request";

        for (size_t n = 0; n + 24 < sizeof text - 1; n++)
                CHECK(request_bytes(text, n) == HTTP_MORE);
        CHECK(REQUEST(text) == HTTP_DONE);
        CHECK(head.size == sizeof text - 1 - 24 && head.minor == 1 && head.header_count == 4);
        CHECK(span_is(head.method, "GET") && span_is(head.target, "/a/b%20c?d=e&f=/g"));
        CHECK(span_is(head.path, "/a/b%20c") && span_is(head.path_and_query, "/a/b%20c?d=e&f=/g"));
        CHECK(!head.absolute && !head.connect && !head.line.present && head.host.present && head.host.port == 8080);
        CHECK_STR(head.host.name, "example.test");
        CHECK(head.framing == HTTP_NO_BODY && !head.close && !head.upgrade && !head.upgrade_unused);
        CHECK(span_is(http_find(&head, "ACCEPT")->value, "*/*") && span_is(http_find(&head, "x-empty")->value, ""));
        CHECK(!http_find(&head, "Accep") && !http_find(&head, "Accept-"));
        CHECK(!http_name_is(&(struct http_span){"Host\0x", 6}, "Host"));
}

static void targets_have_four_forms(void) {
        CHECK(REQUEST("GET http://Proxy.Test:81/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        CHECK(head.absolute && !head.secure && head.line.port == 81 && span_is(head.path_and_query, "/x?y"));
        CHECK_STR(head.line.name, "proxy.test");
        CHECK_STR(head.host.name, "a.test"); /* the caller compares */
        CHECK(REQUEST("GET HTTPS://[2001:DB8::1] HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        CHECK(head.absolute && head.secure && head.line.present && head.line.name[0] == '\0' && head.line.port == 0);
        CHECK(head.line.address.bytes[0] == 0x20 && head.line.address.bytes[15] == 1 && span_is(head.path, "/"));
        CHECK(span_is(head.path_and_query, "/"));
        CHECK(REQUEST("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n") == HTTP_DONE);
        CHECK(head.connect && head.line.port == 443 && head.path.size == 0 && head.framing == HTTP_NO_BODY);
        CHECK(REQUEST("CONNECT 1.2.3.4:22 HTTP/1.0\r\n\r\n") == HTTP_DONE);
        CHECK(head.connect && head.line.address.bytes[12] == 1 && !head.host.present);
        CHECK(REQUEST("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        CHECK(span_is(head.path, "*") && !head.line.present);
        CHECK(REQUEST("OPTIONS http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        CHECK(span_is(head.path_and_query, "*"));
        CHECK(REQUEST("options http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE); /* another method */
        CHECK(span_is(head.path_and_query, "/"));
        CHECK(REQUEST("OPTIONS http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        CHECK(span_is(head.path_and_query, "/"));
        CHECK(REQUEST("GET //evil.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE); /* a path all the same */
        CHECK(!head.line.present && span_is(head.path, "//evil.test/x"));
        CHECK(REQUEST("GET /?a\\b|{} HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
}

static void odd_targets_are_refused(void) {
        static const char control[] = "\x01\x09\x0b\x0c\x1f\x7f\x80\xff\xa0";

        BAD_TARGET("", "no target");
        BAD_TARGET("/a b", "version");
        BAD_TARGET("/ ", "version");
        BAD_TARGET("/a#b", "fragment");
        BAD_TARGET("http://a.test/#b", "fragment");
        BAD_TARGET("http://a.test#@evil.test/", "fragment");
        BAD_TARGET("/a\\b", "backslash");
        BAD_TARGET("/a%2", "hexadecimal");
        BAD_TARGET("/a%zz", "hexadecimal");
        BAD_TARGET("/%u002e/", "hexadecimal");
        BAD_TARGET("/\0", "visible");
        BAD_TARGET("/\ra", "visible");
        BAD_TARGET("http://user@a.test/", "host");
        BAD_TARGET("http://user:pass@a.test/", "host");
        BAD_TARGET("http://a.test\\@evil.test/", "host");
        BAD_TARGET("http://a.test:80@evil.test/", "host");
        BAD_TARGET("http:///x", "host");
        BAD_TARGET("http://:80/x", "host");
        BAD_TARGET("http://a.test?x", "query");
        BAD_TARGET("http:/a.test/", "neither");
        BAD_TARGET("http:a.test", "neither");
        BAD_TARGET("ftp://a.test/", "neither");
        BAD_TARGET("ws://a.test/", "neither");
        BAD_TARGET("a.test", "neither");
        BAD_TARGET("a.test:443", "neither"); /* belongs to CONNECT alone */
        BAD_TARGET("*", "neither");          /* belongs to OPTIONS alone */
        BAD_TARGET("?x", "neither");
        BAD_REQUEST("OPTIONS *x HTTP/1.1\r\nHost: a.test\r\n\r\n", "neither");
        BAD_REQUEST("CONNECT / HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT");
        BAD_REQUEST("CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT");
        BAD_REQUEST("CONNECT http://a.test:443/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT");
        BAD_REQUEST("CONNECT a.test:443/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT");
        BAD_REQUEST("CONNECT u@a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT");
        for (size_t i = 0; i < sizeof control - 1; i++) {
                char text[] = "GET /?_ HTTP/1.1\r\nHost: a.test\r\n\r\n";

                text[6] = control[i];
                CHECK(refused(request_bytes(text, sizeof text - 1), "visible"));
        }
}

static void request_lines_are_exact(void) {
        BAD_REQUEST("\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "empty line");
        BAD_REQUEST("GET / HTTP/1.2\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / HTTP/2.0\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / HTTP/1.10\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / HTTP/01.1\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / http/1.1\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET /  HTTP/1.1\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / X HTTP/1.1\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET / HTTPS/1.1\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("GET /\r\n\r\n", "version"); /* HTTP/0.9 */
        BAD_REQUEST("GET\r\n\r\n", "method");
        BAD_REQUEST("GET\t/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "method");
        BAD_REQUEST(" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "method");
        BAD_REQUEST("GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n", "version");
        BAD_REQUEST("G@T / HTTP/1.1\r\nHost: a.test\r\n\r\n", "method");
        BAD_REQUEST("G\0T / HTTP/1.1\r\nHost: a.test\r\n\r\n", "method");
        BAD_REQUEST("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "version");
        BAD_REQUEST("head / HTTP/1.1\r\nHost: a.test\r\n\r\n", "lower case");
        BAD_REQUEST("Connect a.test:1 HTTP/1.1\r\nHost: a.test\r\n\r\n", "lower case");
        BAD_REQUEST("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1\r\nHost: a.test\r\n\r\n", "31 bytes");
        CHECK(REQUEST("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDE / HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        CHECK(REQUEST("M-SEARCH / HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
}

static void lines_end_with_cr_and_lf(void) {
        BAD_REQUEST("GET / HTTP/1.1\n", "without CR"); /* at once, without waiting for an empty line */
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test\n", "without CR");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test\r\n\n", "without CR");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test\n\r\n\r\n", "without CR");
        BAD_REQUEST("\n", "without CR");
        BAD_HEADERS("A: b\rC: d", "control byte");
        BAD_HEADERS("A: b\r\r", "control byte");
        BAD_HEADERS("\rA: b", "no name");
        BAD_HEADERS("\r", "no name");
        BAD_HEADERS("A\r: b", "name");
        BAD_HEADERS("A: b\0c", "control byte");
        BAD_HEADERS("A: b\013", "control byte");
        BAD_HEADERS("A: \x7f", "control byte");
        CHECK(GOOD_HEADERS("A: b\tc"));
}

static void headers_are_exact(void) {
        BAD_HEADERS("A : b", "name");
        BAD_HEADERS("A\t: b", "name");
        BAD_HEADERS(" A: b", "second line"); /* folding */
        BAD_HEADERS("A: b\r\n c", "second line");
        BAD_HEADERS("A: b\r\n\tc", "second line");
        BAD_HEADERS(": b", "no name");
        BAD_HEADERS("A", "name");
        BAD_HEADERS("A b: c", "name");
        BAD_HEADERS("A\0: c", "name");
        BAD_HEADERS("\xc3\x9c: c", "no name");
        BAD_HEADERS("(A): c", "no name");
        BAD_HEADERS("Transfer-Encoding : chunked", "name");
        BAD_HEADERS("Content-Length\x0b: 5", "name");
        /* folded directly after the request line */
        BAD_REQUEST("GET / HTTP/1.1\r\n Host: a.test\r\n\r\n", "second line");
        CHECK(GOOD_HEADERS("!#$%&'*+-.^_`|~09azAZ: x"));
        CHECK(GOOD_HEADERS("A::b") && span_is(head.headers[1].value, ":b"));
}

static void a_body_has_one_length(void) {
        CHECK(GOOD_HEADERS("Content-Length: 5") && head.framing == HTTP_LENGTH && head.length == 5);
        CHECK(GOOD_HEADERS("content-length:0") && head.framing == HTTP_LENGTH && head.length == 0);
        CHECK(GOOD_HEADERS("Content-Length: 9223372036854775807") && head.length == INT64_MAX);
        CHECK(GOOD_HEADERS("Transfer-Encoding: chunked") && head.framing == HTTP_CHUNKED && head.length == 0);
        CHECK(GOOD_HEADERS("X: y") && head.framing == HTTP_NO_BODY);

        BAD_HEADERS("Content-Length: 5\r\nTransfer-Encoding: chunked", "both");
        BAD_HEADERS("Transfer-Encoding: chunked\r\nContent-Length: 5", "both");
        BAD_HEADERS("Content-Length: 5\r\nContent-Length: 5", "two Content-Length");
        BAD_HEADERS("Content-Length: 5\r\ncontent-length: 6", "two Content-Length");
        BAD_HEADERS("Content-Length: 5, 5", "not a number");
        BAD_HEADERS("Content-Length:", "not a number");
        BAD_HEADERS("Content-Length: +5", "not a number");
        BAD_HEADERS("Content-Length: -5", "not a number");
        BAD_HEADERS("Content-Length: 0x5", "not a number");
        BAD_HEADERS("Content-Length: 5 5", "not a number");
        BAD_HEADERS("Content-Length: 5;", "not a number");
        BAD_HEADERS("Content-Length: 05", "not a number");
        BAD_HEADERS("Content-Length: 5.0", "not a number");
        BAD_HEADERS("Content-Length: \"5\"", "not a number");
        BAD_HEADERS("Content-Length: \xd9\xa5", "not a number");
        BAD_HEADERS("Content-Length: 9223372036854775808", "not a number");
        BAD_HEADERS("Content-Length: 18446744073709551621", "not a number");
        BAD_HEADERS("Content-Length: 5\x0b", "control byte");
}

static void the_only_coding_is_chunked(void) {
        static const char *const wrong[] = {"Chunked",
                                            "xchunked",
                                            "chunkedx",
                                            "chunked, identity",
                                            "identity",
                                            "identity, chunked",
                                            "gzip, chunked",
                                            "chunked, chunked",
                                            "\"chunked\"",
                                            "chunked;q=1",
                                            ",chunked",
                                            "chunked,",
                                            "chunked chunked",
                                            "\357\273\277chunked",
                                            "",
                                            "gzip",
                                            "chunked\tchunked",
                                            "'chunked'"};

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                char text[256];
                int n = snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %s\r\n\r\n",
                                 wrong[i]);

                CHECK(refused(request_bytes(text, (size_t)n), "not 'chunked'"));
        }
        CHECK(GOOD_HEADERS("Transfer-Encoding:\tchunked") && head.framing == HTTP_CHUNKED); /* a tab is white space */
        CHECK(GOOD_HEADERS("Transfer-Encoding:chunked \t") && head.framing == HTTP_CHUNKED);
        BAD_HEADERS("Transfer-Encoding: \013chunked", "control byte");
        BAD_HEADERS("Transfer-Encoding:\r\n chunked", "second line");
        BAD_HEADERS("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "two Transfer-Encoding");
        BAD_HEADERS("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "two Transfer-Encoding");
        BAD_REQUEST("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0");
        CHECK(GOOD_HEADERS("X-Transfer-Encoding: chunked") && head.framing == HTTP_NO_BODY);
}

static void there_is_one_host(void) {
        BAD_REQUEST("GET / HTTP/1.1\r\n\r\n", "no Host");
        BAD_REQUEST("GET http://a.test/ HTTP/1.1\r\n\r\n", "no Host");
        BAD_HEADERS("Host: a.test", "two Host");
        BAD_HEADERS("hOST: b.test", "two Host");
        CHECK(REQUEST("GET / HTTP/1.0\r\n\r\n") == HTTP_DONE);
        CHECK(!head.host.present && head.minor == 0 && head.close);
        BAD_REQUEST("GET / HTTP/1.0\r\nHost: a.test\r\nHost: a.test\r\n\r\n", "two Host");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost:\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test b.test\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: http://a.test\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: u@a.test\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test/\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test#\r\n\r\n", "Host is not");
        BAD_REQUEST("GET / HTTP/1.1\r\nHost: a.test\0.evil.test\r\n\r\n", "control byte");
}

static void authorities_are_read(void) {
        static const struct {
                const char *text, *name;
                unsigned port;
                bool good;
        } cases[] = {
                {"a.test", "a.test", 0, true},
                {"A.Test.:443", "a.test", 443, true},
                {"a.test:65535", "a.test", 65535, true},
                {"a.test:1", "a.test", 1, true},
                {"localhost:80", "localhost", 80, true},
                {"xn--bcher-kva.test", "xn--bcher-kva.test", 0, true},
                {"127.0.0.1", "", 0, true},
                {"127.0.0.1:80", "", 80, true},
                {"[::1]", "", 0, true},
                {"[2001:db8::1]:443", "", 443, true},
                {"[::ffff:1.2.3.4]:1", "", 1, true},
                {"", "", 0, false},
                {":80", "", 0, false},
                {"a.test:", "", 0, false},
                {"a.test:0", "", 0, false},
                {"a.test:080", "", 0, false},
                {"a.test:65536", "", 0, false},
                {"a.test:99999", "", 0, false},
                {"a.test:100000", "", 0, false},
                {"a.test:+80", "", 0, false},
                {"a.test:8O", "", 0, false},
                {"a.test: 80", "", 0, false},
                {"a.test:80:80", "", 0, false},
                {"a.test:80 ", "", 0, false},
                {" a.test", "", 0, false},
                {"a.test:443.evil.test", "", 0, false},
                {"::1", "", 0, false},
                {"::1:80", "", 0, false},
                {"[::1", "", 0, false},
                {"[::1]80", "", 0, false},
                {"[::1]x80", "", 0, false},
                {"[::1]:", "", 0, false},
                {"[::1]]:80", "", 0, false},
                {"[[::1]]", "", 0, false},
                {"[::1%25eth0]", "", 0, false},
                {"[fe80::1%eth0]:80", "", 0, false},
                {"[127.0.0.1]", "", 0, false},
                {"[a.test]", "", 0, false},
                {"[]", "", 0, false},
                {"127.1", "", 0, false},
                {"0x7f.0.0.1", "", 0, false},
                {"0177.0.0.1", "", 0, false},
                {"2130706433", "", 0, false},
                {"127.0.0.1.", "", 0, false},
                {"1.2.3.4.5", "", 0, false},
                {"256.1.1.1", "", 0, false},
                {"a..test", "", 0, false},
                {".", "", 0, false},
                {"a.test..", "", 0, false},
                {"*.test", "", 0, false},
                {"a%2etest", "", 0, false},
                {"b\303\274cher.test", "", 0, false},
                {"a\xe3\x80\x82test", "", 0, false},
                {"a\xef\xbc\x8etest", "", 0, false},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                struct http_target t = {.port = 7}, before = t;
                size_t size = strlen(cases[i].text);
                bool good = http_authority(exact(cases[i].text, size), size, &t);

                if (good != cases[i].good)
                        (void)printf("# %s\n", cases[i].text);
                CHECK(good == cases[i].good);
                if (good) {
                        CHECK(t.present && t.port == cases[i].port);
                        CHECK_STR(t.name, cases[i].name);
                } else
                        CHECK(memcmp(&t, &before, sizeof t) == 0);
        }
}

static void connection_speaks_of_the_connection(void) {
        CHECK(GOOD_HEADERS("Connection: close") && head.close);
        CHECK(GOOD_HEADERS("Connection: Keep-Alive, Close") && head.close);
        CHECK(GOOD_HEADERS("Connection: keep-alive\r\nConnection: close") && head.close);
        CHECK(GOOD_HEADERS("Connection: , TE ,,\tkeep-alive,") && !head.close);
        CHECK(GOOD_HEADERS("Connection:") && !head.close);
        CHECK(GOOD_HEADERS("Connection: closed-not") == false);
        CHECK(REQUEST("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") == HTTP_DONE && !head.close);
        CHECK(REQUEST("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n") == HTTP_DONE && head.close);
        BAD_HEADERS("Connection: Host", "dropped");
        BAD_HEADERS("Connection: authorization", "dropped");
        BAD_HEADERS("Connection: close, Content-Length", "dropped");
        BAD_HEADERS("Connection: keep-alive\r\nConnection: Transfer-Encoding", "dropped");
        BAD_HEADERS("Connection: cookie", "dropped");
        BAD_HEADERS("Connection: X-Api-Key", "dropped");
        BAD_HEADERS("Connection: close;", "list of words");
        BAD_HEADERS("Connection: keep alive", "list of words");
        BAD_HEADERS("Connection: \"close\"", "list of words");
}

#define GET_WITH(headers) (REQUEST("GET / HTTP/1.1\r\nHost: a.test\r\n" headers "\r\n\r\n") == HTTP_DONE)
static void only_websocket_is_an_upgrade(void) {
        CHECK(GET_WITH("Connection: Upgrade\r\nUpgrade: websocket") && head.upgrade && !head.upgrade_unused);
        CHECK(GET_WITH("Upgrade: WebSocket\r\nConnection: keep-alive, upgrade") && head.upgrade);
        CHECK(GET_WITH("Connection: upgrade") && !head.upgrade && !head.upgrade_unused);
#define UNUSED(headers) CHECK(GET_WITH(headers) && !head.upgrade && head.upgrade_unused)
        UNUSED("Upgrade: websocket");
        UNUSED("Connection: keep-alive\r\nUpgrade: websocket");
        UNUSED("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk");
        UNUSED("Connection: upgrade\r\nUpgrade: h2");
        UNUSED("Connection: upgrade\r\nUpgrade: HTTP/2.0");
        UNUSED("Connection: upgrade\r\nUpgrade: TLS/1.0");
        UNUSED("Connection: upgrade\r\nUpgrade: websocket, h2c");
        UNUSED("Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c");
        UNUSED("Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket");
        UNUSED("Connection: upgrade\r\nUpgrade:");
        UNUSED("Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1");
        UNUSED("Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked");
        CHECK(GOOD_HEADERS("Connection: upgrade\r\nUpgrade: websocket") && !head.upgrade && head.upgrade_unused);
        CHECK(REQUEST("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n") == HTTP_DONE);
        CHECK(!head.upgrade && head.upgrade_unused);
}

static void expectations_are_known(void) {
        CHECK(GOOD_HEADERS("Expect: 100-Continue\r\nContent-Length: 3") && head.expect_continue);
        CHECK(GOOD_HEADERS("Content-Length: 3") && !head.expect_continue);
        CHECK(REQUEST("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n") == HTTP_DONE);
        CHECK(!head.expect_continue);
        BAD_HEADERS("Expect: 200-ok", "Expect");
        BAD_HEADERS("Expect: 100-continue, x", "Expect");
        BAD_HEADERS("Expect: 100-continue\r\nExpect: 100-continue", "two Expect");
        BAD_REQUEST("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\n", "body");
        BAD_REQUEST("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n", "body");
}

static void sizes_are_bounded(void) {
        static char text[HTTP_HEAD_MAX + 64];
        size_t n = 0;

        /* exactly as large as may be, one byte more, and no end at all */
        n = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a.test\r\nX: ");
        memset(text + n, 'x', sizeof text - n);
        memcpy(text + HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
        CHECK(request_bytes(text, HTTP_HEAD_MAX - 1) == HTTP_MORE);
        CHECK(request_bytes(text, HTTP_HEAD_MAX) == HTTP_DONE && head.size == HTTP_HEAD_MAX);
        CHECK(request_bytes(text, sizeof text) == HTTP_DONE);
        memcpy(text + HTTP_HEAD_MAX - 4, "x\r\n\r\n", 5);
        CHECK(request_bytes(text, HTTP_HEAD_MAX + 1) == HTTP_TOO_LARGE && head.problem);
        CHECK(request_bytes(text, HTTP_HEAD_MAX) == HTTP_TOO_LARGE);
        CHECK(request_bytes(text, HTTP_HEAD_MAX - 1) == HTTP_MORE);

        for (unsigned headers = HTTP_HEADERS_MAX; headers <= HTTP_HEADERS_MAX + 1; headers++) {
                n = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
                for (unsigned i = 1; i < headers; i++)
                        n += (size_t)snprintf(text + n, sizeof text - n, "X:\r\n");
                n += (size_t)snprintf(text + n, sizeof text - n, "\r\n");
                CHECK(request_bytes(text, n) == (headers > HTTP_HEADERS_MAX ? HTTP_TOO_LARGE : HTTP_DONE));
        }
}

static void answers_are_framed(void) {
        struct http_head get, get10, headed, tunnel;

        CHECK(REQUEST("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n") == HTTP_DONE);
        get = head;
        get.method = (struct http_span){"GET", 3};
        headed = get;
        headed.method = (struct http_span){"HEAD", 4};
        get10 = get;
        get10.minor = 0;
        tunnel = get;
        tunnel.method = (struct http_span){"CONNECT", 7};
        tunnel.connect = true;

        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", &get) == HTTP_DONE);
        CHECK(head.status == 200 && head.framing == HTTP_LENGTH && head.length == 5 && !head.close && head.minor == 1);
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", NULL) == HTTP_DONE);
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", &get) == HTTP_DONE);
        CHECK(head.framing == HTTP_CHUNKED && !head.close);
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\n\r\n", &get) == HTTP_DONE);
        CHECK(head.framing == HTTP_UNTIL_CLOSE && head.close);
        CHECK(RESPONSE("HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", &get) == HTTP_DONE && head.status == 404);
        CHECK(RESPONSE("HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", &get) == HTTP_DONE);
        CHECK(RESPONSE("HTTP/1.1 200 \xc3\234ber\tOK\r\nContent-Length: 0\r\n\r\n", &get) == HTTP_DONE);
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", &get) == HTTP_DONE);
        CHECK(head.close);
        /* a server may name headers here, and some do */
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, "
                       "Transfer-Encoding\r\n\r\n",
                       &get) == HTTP_DONE);

        CHECK(RESPONSE("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", &get) == HTTP_DONE);
        CHECK(head.minor == 0 && head.close && head.framing == HTTP_LENGTH);
        CHECK(RESPONSE("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", &get10) == HTTP_DONE);
        CHECK(!head.close);
        CHECK(RESPONSE("HTTP/1.0 200 OK\r\n\r\n", &get10) == HTTP_DONE && head.framing == HTTP_UNTIL_CLOSE);
        BAD_RESPONSE("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &get, "HTTP/1.0");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &get10, "HTTP/1.0");
        BAD_RESPONSE("HTTP/1.1 100 Continue\r\n\r\n", &get10, "HTTP/1.0");

        /* answers without a body */
        CHECK(RESPONSE("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", &get) == HTTP_DONE);
        CHECK(head.status == 100 && head.framing == HTTP_NO_BODY && head.size == 25 && !head.close);
        CHECK(RESPONSE("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", &get) == HTTP_DONE);
        CHECK(RESPONSE("HTTP/1.1 204 No Content\r\n\r\n", &get) == HTTP_DONE);
        CHECK(head.framing == HTTP_NO_BODY && !head.close);
        CHECK(RESPONSE("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", &get) == HTTP_DONE);
        CHECK(RESPONSE("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", &get) == HTTP_DONE);
        CHECK(head.framing == HTTP_NO_BODY && head.length == 0);
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &headed) == HTTP_DONE);
        CHECK(head.framing == HTTP_NO_BODY && head.length == 0);
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &headed) == HTTP_DONE);
        CHECK(head.framing == HTTP_NO_BODY);
        CHECK(RESPONSE("HTTP/1.1 200 Connected\r\n\r\n", &tunnel) == HTTP_DONE && head.framing == HTTP_NO_BODY);
        CHECK(RESPONSE("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n", &tunnel) == HTTP_DONE && head.length == 2);
        BAD_RESPONSE("HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", &get, "no body");
        BAD_RESPONSE("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", &get, "no body");
        BAD_RESPONSE("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", &get, "no body");
        BAD_RESPONSE("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", &get,
                     "both");
}

static void odd_answers_are_refused(void) {
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", NULL, "both");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", NULL, "two Content-Length");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", NULL, "not a number");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", NULL, "not 'chunked'");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", NULL, "not 'chunked'");
        BAD_RESPONSE("HTTP/1.1 200 OK\nContent-Length: 5\n\n", NULL, "without CR");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", NULL, "second line");
        BAD_RESPONSE("HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n", NULL, "name");
        BAD_RESPONSE("HTTP/1.1 200 O\rK\r\n\r\n", NULL, "control byte");
        BAD_RESPONSE("HTTP/1.1 20 OK\r\n\r\n", NULL, "status");
        BAD_RESPONSE("HTTP/1.1 2000\r\n\r\n", NULL, "status");
        BAD_RESPONSE("HTTP/1.1 +20 OK\r\n\r\n", NULL, "status");
        BAD_RESPONSE("HTTP/1.1 099 OK\r\n\r\n", NULL, "status");
        BAD_RESPONSE("HTTP/1.1  200 OK\r\n\r\n", NULL, "status");
        BAD_RESPONSE("HTTP/1.1 200OK\r\n\r\n", NULL, "begin");
        BAD_RESPONSE("HTTP/1.2 200 OK\r\n\r\n", NULL, "begin");
        BAD_RESPONSE("HTTP/2 200\r\n\r\n", NULL, "begin");
        BAD_RESPONSE("ICY 200 OK\r\n\r\n", NULL, "begin");
        BAD_RESPONSE("<html>\r\n\r\n", NULL, "begin");
        BAD_RESPONSE("\r\nHTTP/1.1 200 OK\r\n\r\n", NULL, "empty line");
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nHost: a\r\nHost: b\r\nExpect: x\r\nContent-Length: 0\r\n\r\n", NULL) ==
              HTTP_DONE); /* mean nothing in an answer */
}

static void a_change_of_protocol_was_asked_for(void) {
        static const char granted[] =
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        struct http_head asked = {.minor = 1, .upgrade = true, .method = {"GET", 3}}, not_asked = asked;

        not_asked.upgrade = false;
        CHECK(RESPONSE(granted, &asked) == HTTP_DONE);
        CHECK(head.upgrade && head.framing == HTTP_NO_BODY && head.status == 101 && !head.close);
        BAD_RESPONSE("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", &not_asked,
                     "asked");
        BAD_RESPONSE("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", NULL, "asked");
        BAD_RESPONSE("HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", &asked, "asked");
        BAD_RESPONSE("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n", &asked, "asked");
        BAD_RESPONSE("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n\r\n", &asked, "asked");
        CHECK(RESPONSE("HTTP/1.1 200 OK\r\nUpgrade: h2,h2c\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
                       &asked) == HTTP_DONE);
        CHECK(!head.upgrade && head.upgrade_unused);
}

static int sniff(const char *bytes, size_t size) {
        return http_sniff(exact(bytes, size), size);
}
#define SNIFF(text) sniff(text, sizeof(text) - 1)

static void requests_are_told_from_other_protocols(void) {
        CHECK(SNIFF("") == -EAGAIN && SNIFF("G") == -EAGAIN && SNIFF("GET ") == -EAGAIN);
        CHECK(SNIFF("GET /") == 1 && SNIFF("POST http://") == 1 && SNIFF("OPTIONS *") == 1);
        CHECK(SNIFF("CONNECT a.test:443 HTTP/1.1\r\n") == 1 && SNIFF("PRI * HTTP/2.0\r\n") == 1);
        CHECK(SNIFF("XYZZY /a HTTP/1.1\r\n") == 1 && SNIFF("XYZZY /a") == -EAGAIN);
        /* lenient servers take these for requests */
        CHECK(SNIFF("\r\n\r\nGET /") == 1 && SNIFF(" GET / HTTP/1.1\n") == 1 && SNIFF("\r\n") == -EAGAIN);
        CHECK(SNIFF("get / http/1.0\n") == 1 && SNIFF("GET\t/\tHTTP/1.1\r\n") == 1 &&
              SNIFF("GET  / HTTP/1.1\r\n") == 1);
        CHECK(SNIFF("GET\v/ HTTP/1.1\r\n") == 1 && SNIFF("XYZ /\fHTTP/1.1\r\n") == 1 &&
              SNIFF("GET\r/\rHTTP/1.1\n") == 1);
        CHECK(SNIFF("GET /\0") == 1 && SNIFF("GET a b c HTTP/1.1") == 1);
        /* others */
        CHECK(SNIFF("\x16\x03\x01") == 0 && SNIFF("\0\0\0\x08\x04\xd2\x16\x2f") == 0);
        CHECK(SNIFF("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n") == 0 && SNIFF("SSH-2.0-Go\r\n") == 0);
        CHECK(SNIFF("*1\r\n$4\r\nPING\r\n") == 0 && SNIFF("PING\r\n") == 0 && SNIFF("GET key\r\n") == 0);
        CHECK(SNIFF("EHLO a.test\r\n") == 0 && SNIFF("get /key\r\n") == 0 && SNIFF("USER me\r\n") == 0);
        CHECK(SNIFF("0032git-upload-pack /project\0host=a.test\0") == 0);
        CHECK(SNIFF("{\"json\":1}") == 0 && SNIFF("\x05\x01\0") == 0);

        static char endless[HTTP_SNIFF_MAX + 8]; /* never undecided for ever, and undecided is not let through */
        memset(endless, 'A', sizeof endless);
        CHECK(sniff(endless, HTTP_SNIFF_MAX - 1) == -EAGAIN && sniff(endless, HTTP_SNIFF_MAX) == 1);
        endless[5] = ' ';
        CHECK(sniff(endless, HTTP_SNIFF_MAX - 1) == -EAGAIN && sniff(endless, sizeof endless) == 1);
        memset(endless, '\n', sizeof endless);
        CHECK(sniff(endless, HTTP_SNIFF_MAX - 1) == -EAGAIN && sniff(endless, sizeof endless) == 1);
}

struct collected {
        const uint8_t *bytes;
        char data[256];
        size_t size;
};

static void collect(void *context, size_t at, size_t size) {
        struct collected *c = context;

        CHECK(size > 0 && c->size + size < sizeof c->data);
        if (c->size + size >= sizeof c->data)
                return;
        memcpy(c->data + c->size, c->bytes + at, size);
        c->size += size;
        c->data[c->size] = '\0';
}

/* Feeds a body in pieces; returns what was consumed in all, or the error. */
static ssize_t feed(struct http_body *b, const char *text, size_t size, size_t piece, struct collected *c) {
        ssize_t sum = 0;

        for (size_t at = 0; at < size && !b->done; at += piece) {
                size_t want = MIN(piece, size - at);
                ssize_t n;

                c->bytes = (const uint8_t *)exact(text + at, want);
                n = http_body_feed(b, c->bytes, want, collect, c);
                if (n < 0)
                        return n;
                CHECK(n == (ssize_t)want || b->done);
                sum += n;
        }
        return sum;
}

#define BODY(text, piece)                                                                                              \
        (http_body_init(&b, HTTP_CHUNKED, 0), c = (struct collected){0}, feed(&b, text, sizeof(text) - 1, piece, &c))
static void chunks_are_read(void) {
        struct http_body b;
        struct collected c;

        for (size_t piece = 1; piece < 40; piece++) {
                CHECK(BODY("5\r\nhello\r\n1\r\n,\r\n0000000C\r\n wide\r\nworld\r\n0\r\n\r\nGET /", piece) == 45);
                CHECK(b.done);
                CHECK_STR(c.data, "hello, wide\r\nworld");
        }
        CHECK(BODY("0\r\n\r\n", 5) == 5 && b.done && c.size == 0);
        CHECK(BODY("00\r\n\r\n", 1) == 6 && b.done);
        CHECK(BODY("0\r\n\r", 4) == 4 && !b.done);
        CHECK(BODY("ffffffff\r\nx", 3) == 11 && !b.done && b.left == 0xfffffffe);
        CHECK(http_body_feed(&b, (const uint8_t *)"y", 1, NULL, NULL) == 1);
}

static void odd_chunks_are_refused(void) {
        struct http_body b;
        struct collected c;
#define BAD_BODY(text)                                                                                                 \
        do {                                                                                                           \
                for (size_t piece = 1; piece < 24; piece += 5)                                                         \
                        CHECK(BODY(text, piece) == ERR_INPUT && !b.done);                                              \
                CHECK(http_body_feed(&b, (const uint8_t *)"0\r\n\r\n", 5, NULL, NULL) == ERR_INPUT); /* for good */    \
        } while (0)
        BAD_BODY("\r\n");
        BAD_BODY("\n");
        BAD_BODY("g\r\n");
        BAD_BODY("-1\r\n");
        BAD_BODY("+1\r\n");
        BAD_BODY(" 1\r\n");
        BAD_BODY("1 \r\n");
        BAD_BODY("0x1\r\n");
        BAD_BODY("1\n");
        BAD_BODY("1\r\r");
        BAD_BODY("1;a=b\r\n");
        BAD_BODY("1;\r\n");
        BAD_BODY("1\t;\r\n");
        BAD_BODY("000000001\r\n");
        BAD_BODY("100000001\r\n");
        BAD_BODY("fffffffffffffffff\r\n");
        BAD_BODY("1\r\nab\r\n");
        BAD_BODY("1\r\na0\r\n");
        BAD_BODY("1\r\na\n0\r\n");
        BAD_BODY("1\r\na\r0\r\n");
        BAD_BODY("1\r\nab\n0\r\n\r\n");
        BAD_BODY("1\r\na\rb0\r\n\r\n");
        BAD_BODY("2\r\na\r\n0\r\n\r\n");
        BAD_BODY("0\r\nTrailer: x\r\n\r\n");
        BAD_BODY("0\r\n\n");
        BAD_BODY("0\r\n\r0");
        BAD_BODY("0\n\n");
        BAD_BODY("1\0\r\n");
}

static void lengths_are_counted(void) {
        struct http_body b;
        struct collected c = {0};

        for (size_t piece = 1; piece < 12; piece++) {
                http_body_init(&b, HTTP_LENGTH, 7);
                c.size = 0;
                CHECK(!b.done && feed(&b, "1234567GET", 10, piece, &c) == 7 && b.done);
                CHECK_STR(c.data, "1234567");
                CHECK(http_body_feed(&b, (const uint8_t *)"x", 1, collect, &c) == 0);
        }
        http_body_init(&b, HTTP_LENGTH, 0);
        CHECK(b.done && http_body_feed(&b, (const uint8_t *)"x", 1, NULL, NULL) == 0);
        http_body_init(&b, HTTP_NO_BODY, 5);
        CHECK(b.done && http_body_feed(&b, (const uint8_t *)"x", 1, NULL, NULL) == 0);
        http_body_init(&b, HTTP_LENGTH, INT64_MAX);
        CHECK(http_body_feed(&b, (const uint8_t *)"x", 1, NULL, NULL) == 1 && b.left == INT64_MAX - 1);
        http_body_init(&b, HTTP_UNTIL_CLOSE, 0);
        c.size = 0;
        CHECK(!b.done && feed(&b, "whatever", 8, 3, &c) == 8 && !b.done);
        CHECK_STR(c.data, "whatever");
        http_body_init(&b, (enum http_framing)99, 5); /* nothing that is not known lets bytes through */
        CHECK(b.done);
}

TEST_MAIN(TEST(a_plain_request_is_read), TEST(targets_have_four_forms), TEST(odd_targets_are_refused),
          TEST(request_lines_are_exact), TEST(lines_end_with_cr_and_lf), TEST(headers_are_exact),
          TEST(a_body_has_one_length), TEST(the_only_coding_is_chunked), TEST(there_is_one_host),
          TEST(authorities_are_read), TEST(connection_speaks_of_the_connection), TEST(only_websocket_is_an_upgrade),
          TEST(expectations_are_known), TEST(sizes_are_bounded), TEST(answers_are_framed),
          TEST(odd_answers_are_refused), TEST(a_change_of_protocol_was_asked_for),
          TEST(requests_are_told_from_other_protocols), TEST(chunks_are_read), TEST(odd_chunks_are_refused),
          TEST(lengths_are_counted))
