/* Unit tests of SOCKS5: bytes as clients send them, one more and one less, and names that are none. */
#include "base/test.h"
#include "gate/socks.h"

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void greetings(void) {
        size_t size = 0;
        bool no_auth = false;

        CHECK(socks_greeting(BYTES(""), &size, &no_auth) == SOCKS_MORE);
        CHECK(socks_greeting(BYTES("\5"), &size, &no_auth) == SOCKS_MORE);
        CHECK(socks_greeting(BYTES("\5\1"), &size, &no_auth) == SOCKS_MORE);
        CHECK(socks_greeting(BYTES("\4"), &size, &no_auth) == SOCKS_BAD);
        CHECK(socks_greeting(BYTES("G"), &size, &no_auth) == SOCKS_BAD);
        CHECK(socks_greeting(BYTES("\5\0"), &size, &no_auth) == SOCKS_BAD);
        CHECK(size == 0);
        CHECK(socks_greeting(BYTES("\5\1\0"), &size, &no_auth) == SOCKS_DONE && size == 3 && no_auth);
        CHECK(socks_greeting(BYTES("\5\1\2"), &size, &no_auth) == SOCKS_DONE && size == 3 && !no_auth);
        CHECK(socks_greeting(BYTES("\5\2\2\0rest"), &size, &no_auth) == SOCKS_DONE && size == 4 && no_auth);
        CHECK(socks_greeting(BYTES("\5\1\2\0"), &size, &no_auth) == SOCKS_DONE && size == 3 && !no_auth);
}

static const char *address_text(const struct socks_request *r) {
        static char text[ADDRESS_TEXT_MAX];

        address_print(&r->address, text);
        return text;
}

static void requests(void) {
        struct socks_request r;
        size_t size = 0;

        CHECK(socks_request(BYTES("\5\1\0\1\300\0\2\1\1\273more"), &size, &r) == SOCKS_DONE && size == 10);
        CHECK(r.command == 1 && !r.named && r.port == 443);
        CHECK_STR(address_text(&r), "192.0.2.1");
        CHECK(socks_request(BYTES("\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\120"), &size, &r) == SOCKS_DONE);
        CHECK(size == 22 && !r.named && r.port == 80);
        CHECK_STR(address_text(&r), "2001:db8::1");
        CHECK(socks_request(BYTES("\5\1\0\3\013Example.COM\1\273"), &size, &r) == SOCKS_DONE && size == 18);
        CHECK(r.named && r.port == 443);
        CHECK_STR(r.name, "example.com");
        CHECK(socks_request(BYTES("\5\3\0\1\0\0\0\0\0\0"), &size, &r) == SOCKS_DONE && r.command == 3);

        CHECK(socks_request(BYTES("\4"), &size, &r) == SOCKS_BAD);
        CHECK(socks_request(BYTES("\5\1\1"), &size, &r) == SOCKS_BAD);
        CHECK(socks_request(BYTES("\5\1\0\2"), &size, &r) == SOCKS_BAD);
        CHECK(socks_request(BYTES("\5\1\0\0"), &size, &r) == SOCKS_BAD);
}

/* Each prefix of a good request wants more and touches nothing. */
static void requests_in_pieces(void) {
        static const struct {
                const uint8_t *bytes;
                size_t size;
        } rows[] = {
                {BYTES("\5\1\0\1\300\0\2\1\1\273")},
                {BYTES("\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\120")},
                {BYTES("\5\1\0\3\013example.com\1\273")},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (size_t n = 0; n <= rows[i].size; n++) {
                        struct socks_request r = {.port = 1};
                        size_t size = 0;
                        uint8_t *copy = malloc(n + 1); /* so that reading too far shows */

                        assert(copy);
                        memcpy(copy + 1, rows[i].bytes, n);
                        CHECK(socks_request(copy + 1, n, &size, &r) == (n < rows[i].size ? SOCKS_MORE : SOCKS_DONE));
                        CHECK(n == rows[i].size ? size == n : size == 0 && r.port == 1);
                        free(copy);
                }
}

static struct socks_request with_name(const char *name, size_t length) {
        uint8_t bytes[SOCKS_MAX] = {5, 1, 0, 3, (uint8_t)length};
        struct socks_request r = {0};
        size_t size;

        memcpy(bytes + 5, name, length);
        bytes[5 + length] = 1;
        bytes[6 + length] = 187;
        CHECK(socks_request(bytes, 7 + length, &size, &r) == SOCKS_DONE && size == 7 + length && r.port == 443);
        return r;
}
#define WITH_NAME(s) with_name(s, sizeof(s) - 1)

static void names_that_are_none(void) {
        static const struct {
                const char *name;
                size_t size;
        } none[] = {
#define ROW(s) {s, sizeof(s) - 1}
                ROW(""),
                ROW("."),
                ROW("\0"),
                ROW("example.com\0"),
                ROW("example.com\0.evil.test"),
                ROW("evil.test\0.example.com"),
                ROW("192.0.2.1\0"),
                ROW("example.com\n"),
                ROW("exa mple.com"),
                ROW("example.com:443"),
                ROW("user@example.com"),
                ROW("127.1"),
                ROW("0x7f.1"),
                ROW("017700000001"),
                ROW("2130706433"),
                ROW("192.0.2.01"),
                ROW("192.0.2.1."),
                ROW("fe80::1%lo"),
                ROW("[2001:db8::1]"),
                ROW("ex\303\244mple.com"),
#undef ROW
        };
        for (size_t i = 0; i < ELEMENTSOF(none); i++) {
                struct socks_request r = with_name(none[i].name, none[i].size);

                CHECK(r.named);
                CHECK_STR(r.name, "");
        }
        char longest[256];
        memset(longest, 'x', sizeof longest);
        CHECK_STR(with_name(longest, 255).name, "");
        CHECK_STR(WITH_NAME("example.com.").name, "example.com");
}

static void an_address_as_text_is_that_address(void) {
        struct socks_request r = WITH_NAME("192.0.2.1");

        CHECK(!r.named);
        CHECK_STR(address_text(&r), "192.0.2.1");
        r = WITH_NAME("2001:DB8::1");
        CHECK(!r.named);
        CHECK_STR(address_text(&r), "2001:db8::1");
        r = WITH_NAME("::ffff:127.0.0.1");
        CHECK(!r.named && address_is_v4(&r.address));
}

static void replies(void) {
        uint8_t reply[SOCKS_REPLY_SIZE];

        socks_reply(2, reply);
        CHECK(memcmp(reply, "\5\2\0\1\0\0\0\0\0\0", sizeof reply) == 0);
}

TEST_MAIN(TEST(greetings), TEST(requests), TEST(requests_in_pieces), TEST(names_that_are_none),
          TEST(an_address_as_text_is_that_address), TEST(replies))
