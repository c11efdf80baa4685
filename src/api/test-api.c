/* Unit tests of what needs no daemon: decoding, encoding, limits. */
#include "base/test.h"

#include "api/breaker.h"
#include "api/encode.h"
#include "api/percent.h"
#include "api/rates.h"

#define FOUR(a, b, c, d)                                                                                               \
        { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d }

static void base64_is_rfc_4648(void) {
        static const struct {
                const char *plain, *text;
        } pairs[] = {{"", ""},
                     {"f", "Zg=="},
                     {"fo", "Zm8="},
                     {"foo", "Zm9v"},
                     {"foob", "Zm9vYg=="},
                     {"fooba", "Zm9vYmE="},
                     {"foobar", "Zm9vYmFy"}};

        for (size_t i = 0; i < ELEMENTSOF(pairs); i++) {
                _cleanup_buf_ struct buf b = {0};

                encode_base64(&b, pairs[i].plain, strlen(pairs[i].plain));
                CHECK_STR(b.data ? b.data : "", pairs[i].text);
        }
}

static void no_character_is_cut(void) {
        static const struct {
                const char *bytes;
                size_t size, whole;
        } cuts[] = {{"abc", 3, 3},
                    {"a\xc3", 2, 1},
                    {"a\xc3\xa4", 3, 3},
                    {"\xe2\x82", 2, 0},
                    {"\xe2\x82\xac", 3, 3},
                    {"\xf0\x9f\x98", 3, 0},
                    {"\xf0\x9f\x98\x80", 4, 4},
                    {"x\xf0", 2, 1},
                    {"", 0, 0},
                    {"\x80\x80\x80\x80", 4, 4},
                    {"\xff", 1, 0}};

        for (size_t i = 0; i < ELEMENTSOF(cuts); i++)
                CHECK(encode_whole((const uint8_t *)cuts[i].bytes, cuts[i].size) == cuts[i].whole);
}

static void bytes_that_are_no_text_are_base64(void) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        encode_member(&j, "a", (const uint8_t *)"x\"\xc3\xa4", 4);
        encode_member(&j, "b", (const uint8_t *)"\xff\0x", 3);
        encode_member(&j, "c", NULL, 0);
        json_u64(&j, "d", 1);
        json_close(&j, '}');
        CHECK_STR(b.data, "{\"a\":\"x\\\"ä\",\"b_base64\":\"/wB4\",\"c\":\"\",\"d\":1}");
}

static void events_have_their_form(void) {
        _cleanup_buf_ struct buf b = {0};

        encode_event(&b, "7", "exit", "{}");
        encode_event(&b, NULL, NULL, "[]");
        CHECK_STR(b.data, "id: 7\nevent: exit\ndata: {}\n\ndata: []\n\n");
}

static void escapes_are_read_strictly(void) {
        static const char *const good[][2] = {{"", ""},        {"a", "a"},       {"%41", "A"},
                                              {"%c3%A4", "ä"}, {"a%20b", "a b"}, {"%25", "%"}};
        static const char *const bad[] = {"%",   "%4",  "%g1",    "%1g",  "%00", "a%0a", "%7f",
                                          "%ff", "%c3", "%c0%af", "%%41", "\n",  "\x80"};
        char text[16];

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                CHECK(percent_decode(good[i][0], strlen(good[i][0]), text, sizeof text));
                CHECK_STR(text, good[i][1]);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(!percent_decode(bad[i], strlen(bad[i]), text, sizeof text));
        CHECK(percent_decode_path("/a%0Ab%1b%7f", 12, text, sizeof text));
        CHECK_STR(text, "/a\nb\x1b\x7f");
        CHECK(!percent_decode_path("/a%00", 5, text, sizeof text) &&
              !percent_decode_path("/a\n", 3, text, sizeof text) && !percent_decode_path("/%ff", 4, text, sizeof text));
        CHECK(!percent_decode("%41", 2, text, sizeof text)); /* what lies behind does not count */
        CHECK(percent_decode("123456789012345", 15, text, sizeof text) &&
              !percent_decode("1234567890123456", 16, text, sizeof text));
}

static void requests_are_counted(void) {
        struct rates *l = rates_new();
        const uint8_t one[16] = FOUR(10, 0, 0, 1), two[16] = FOUR(10, 0, 0, 2);

        CHECK(l);
        rates_set(l, RATE_READ, 6);
        for (unsigned i = 0; i < 6; i++)
                CHECK(rates_ask(l, RATE_READ, one, 16, 1000) == 0);
        unsigned wait = rates_ask(l, RATE_READ, one, 16, 1000);
        CHECK(wait > 9000 && wait <= 10001);                       /* one in ten seconds */
        CHECK(rates_ask(l, RATE_READ, two, 16, 1000) == 0);        /* another one */
        CHECK(rates_ask(l, RATE_AUTH, one, 16, 1000) == 0);        /* another kind */
        CHECK(rates_ask(l, RATE_READ, one, 16, 1000 + wait) == 0); /* as it was told */
        CHECK(rates_ask(l, RATE_READ, one, 16, 1000 + wait) > 0);
        CHECK(rates_ask(l, RATE_READ, one, 16, 10000000) == 0); /* a long silence gives no more than a minute's worth */
        for (unsigned i = 0; i < 5; i++)
                CHECK(rates_ask(l, RATE_READ, one, 16, 10000000) == 0);
        CHECK(rates_ask(l, RATE_READ, one, 16, 10000000) > 0);
        rates_free(l);
}

static void a_neighbourhood_is_one(void) {
        struct rates *l = rates_new();
        const uint8_t a[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 1}, b[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 2, 3},
                      c[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 2};

        rates_set(l, RATE_READ, 1);
        CHECK(rates_ask(l, RATE_READ, a, 16, 5) == 0 && rates_ask(l, RATE_READ, b, 16, 5) > 0);
        CHECK(rates_ask(l, RATE_READ, c, 16, 5) == 0);
        rates_free(l);
}

/* Many strangers do not give anybody a new start. */
static void a_crowd_hides_nobody(void) {
        struct rates *l = rates_new();
        unsigned given = 0;

        rates_set(l, RATE_READ, 1);
        for (unsigned round = 0; round < 4; round++)
                for (uint32_t i = 0; i < 50000; i++) {
                        uint8_t who[16] = FOUR(10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i);

                        given += rates_ask(l, RATE_READ, who, 16, 1000 + round) == 0;
                }
        CHECK(given < 50000); /* the table is smaller than the crowd: most wait, none gains */
        rates_free(l);
}

static void connections_are_counted(void) {
        struct rates *l = rates_new();
        const uint8_t one[16] = FOUR(10, 0, 0, 1), two[16] = FOUR(10, 0, 0, 2);

        CHECK(rates_enter(l, one, 2) && rates_enter(l, one, 2) && !rates_enter(l, one, 2));
        CHECK(rates_enter(l, two, 2));
        rates_leave(l, one);
        CHECK(rates_enter(l, one, 2) && !rates_enter(l, one, 2));
        rates_leave(l, one);
        rates_leave(l, one);
        rates_leave(l, one); /* once too often: nothing happens */
        CHECK(rates_enter(l, one, 1));
        rates_free(l);
}

static void the_broken_are_left_alone(void) {
        struct breakers *b = breakers_new();
        const char *why = "";
        uint64_t wait = 0;
#define LETS(owner, sandbox, now) breaker_lets(b, owner, sandbox, now, &why, &wait)

        for (unsigned i = 0; i < BREAKER_FAILURES - 1; i++)
                breaker_note(b, "a", "1", "timeout", 100);
        breaker_note(b, "a", "1", "failed", 100); /* another reason */
        CHECK(LETS("a", "1", 100));
        breaker_note(b, "a", "1", NULL, 100); /* it answered */
        for (unsigned i = 0; i < BREAKER_FAILURES; i++) {
                CHECK(LETS("a", "1", 100));
                breaker_note(b, "a", "1", "timeout", 100);
        }
        CHECK(!LETS("a", "1", 100) && wait == BREAKER_OPEN_MS);
        CHECK_STR(why, "timeout");
        CHECK(LETS("a", "2", 100) && LETS("b", "1", 100)); /* nobody else */
        breaker_note(b, "a", "1", "timeout", 101);         /* asked before */
        CHECK(!LETS("a", "1", 100 + BREAKER_OPEN_MS - 1) && wait == 1);
        CHECK(LETS("a", "1", 100 + BREAKER_OPEN_MS));  /* one tries */
        CHECK(!LETS("a", "1", 100 + BREAKER_OPEN_MS)); /* alone */
        breaker_note(b, "a", "1", "timeout", 200 + BREAKER_OPEN_MS);
        CHECK(!LETS("a", "1", 200 + BREAKER_OPEN_MS) && wait == 2 * BREAKER_OPEN_MS);
        CHECK(LETS("a", "1", 200 + 3 * BREAKER_OPEN_MS));
        breaker_note(b, "a", "1", NULL, 201 + 3 * BREAKER_OPEN_MS);
        CHECK(LETS("a", "1", 202 + 3 * BREAKER_OPEN_MS) && LETS("a", "1", 202 + 3 * BREAKER_OPEN_MS));
        for (unsigned i = 0; i < 3 * BREAKER_PLACES; i++) { /* a crowd: the table does not grow */
                char id[16];

                (void)snprintf(id, sizeof id, "%u", i);
                breaker_note(b, "c", id, "failed", 1000 + i);
        }
        CHECK(LETS("c", "0", 9000) && LETS("a", "1", 9000));
        CHECK(breaker_is_for("ls") && !breaker_is_for("delete") && !breaker_is_for("show"));
        CHECK(breaker_is_fault("ls", "timeout") && !breaker_is_fault("exec", "timeout") &&
              breaker_is_fault("exec", "failed") && !breaker_is_fault("ls", "not_found"));
        breakers_free(b);
#undef LETS
}

TEST_MAIN(TEST(base64_is_rfc_4648), TEST(no_character_is_cut), TEST(bytes_that_are_no_text_are_base64),
          TEST(events_have_their_form), TEST(escapes_are_read_strictly), TEST(requests_are_counted),
          TEST(a_neighbourhood_is_one), TEST(a_crowd_hides_nobody), TEST(connections_are_counted),
          TEST(the_broken_are_left_alone))
