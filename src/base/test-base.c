/* Unit tests of base: units, paths, escaping, JSON, BLAKE2b, buffers. */
#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/test.h"
#include "base/text.h"

static uint64_t parse(const char *s, enum text_unit unit) {
        uint64_t v = 7777;

        return text_parse(s, unit, &v, NULL) == 0 ? v : 7777;
}

static void numbers_with_units(void) {
        CHECK(parse("1GiB", TEXT_BYTES) == 1ULL << 30);
        CHECK(parse("1.5GiB", TEXT_BYTES) == 3ULL << 29);
        CHECK(parse("500MB", TEXT_BYTES) == 500000000);
        CHECK(parse("0", TEXT_BYTES) == 0);
        CHECK(parse("200k", TEXT_COUNT) == 200000);
        CHECK(parse("10m", TEXT_TIME) == 600000);
        CHECK(parse("500ms", TEXT_TIME) == 500);
        CHECK(parse("50MiB/s", TEXT_RATE) == 50ULL << 20);
        CHECK(parse("0.5", TEXT_CPUS) == 500);
        CHECK(parse("2.50", TEXT_MONEY) == 250);
}

static void bad_numbers(void) {
        static const struct {
                const char *text;
                enum text_unit unit;
        } bad[] = {
                {"-1", TEXT_BYTES},          {"", TEXT_BYTES},
                {"1gib", TEXT_BYTES},        {"1 GiB", TEXT_BYTES},
                {"1GiBB", TEXT_BYTES},       {"0x10", TEXT_COUNT},
                {"1e9", TEXT_COUNT},         {"10", TEXT_TIME},
                {"50MiB", TEXT_RATE},        {"1/s/s", TEXT_RATE},
                {"1.", TEXT_CPUS},           {".5", TEXT_CPUS},
                {"0.0001", TEXT_CPUS},       {"+1", TEXT_COUNT},
                {"1.5", TEXT_COUNT},         {"99999999999999999999", TEXT_COUNT},
                {"16777216TiB", TEXT_BYTES},
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct err err = {0};
                uint64_t v = 5;

                CHECK(text_parse(bad[i].text, bad[i].unit, &v, &err) == ERR_INPUT);
                CHECK(v == 5);
                CHECK(err.text[0] != '\0');
        }
}

static void formats_are_exact_and_parse_back(void) {
        static const struct {
                enum text_unit unit;
                uint64_t value;
                const char *text;
        } rows[] = {
                {TEXT_BYTES, 1ULL << 30, "1GiB"},
                {TEXT_BYTES, 1000, "1kB"},
                {TEXT_BYTES, 1023, "1023B"},
                {TEXT_BYTES, 0, "0"},
                {TEXT_TIME, 600000, "10m"},
                {TEXT_TIME, 1500, "1500ms"},
                {TEXT_RATE, 50ULL << 20, "50MiB/s"},
                {TEXT_CPUS, 1500, "1.5"},
                {TEXT_CPUS, 2000, "2"},
                {TEXT_COUNT, 200000, "200k"},
                {TEXT_COUNT, 128, "128"},
                {TEXT_MONEY, 500, "5"},
                {TEXT_CPUS, 10000, "10"},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char b[32];

                CHECK_STR(text_format(b, sizeof b, rows[i].unit, rows[i].value), rows[i].text);
                CHECK(parse(b, rows[i].unit) == rows[i].value);
        }
}

static void paths(void) {
        CHECK(text_check_path("/", NULL) == 0);
        CHECK(text_check_path("/usr/lib", NULL) == 0);
        CHECK(text_check_path("/a..b/.c", NULL) == 0);
        static const char *const bad[] = {"",   "usr", "/usr/",  "//usr", "/usr/../etc",
                                          "/.", "/..", "/a/./b", "/a\nb", "/a//b"};
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(text_check_path(bad[i], NULL) == ERR_INPUT);
}

static void escapes(void) {
        char b[64];

        text_escape(b, sizeof b, "a\x1b[31m\xc3\xa9\xff\n");
        CHECK_STR(b, "a\\x1b[31m\xc3\xa9\\xff\\x0a");
        text_escape(b, 6, "abcdefgh");
        CHECK_STR(b, "abcde");
        text_escape(b, sizeof b,
                    "\xc2\x9b"
                    "x"); /* C1 control in UTF-8 */
        CHECK_STR(b, "\\xc2\\x9bx");
        text_escape(b, sizeof b,
                    "a\xe2\x80\xae"
                    "txt\xef\xbb\xbf\xe2\x82\xac"); /* right-to-left override, BOM; the euro sign stays */
        CHECK_STR(b, "a\\xe2\\x80\\xaetxt\\xef\\xbb\\xbf\xe2\x82\xac");
}

static void json_is_well_formed(void) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "a", "q\"\\\n\xff");
        json_open(&j, "l", '[');
        json_u64(&j, NULL, 1);
        json_i64(&j, NULL, -1);
        json_close(&j, ']');
        json_open(&j, "e", '[');
        json_close(&j, ']');
        json_bool(&j, "b", true);
        json_str(&j, "n", NULL);
        json_close(&j, '}');
        CHECK(buf_ok(&b));
        CHECK_STR(b.data, "{\"a\":\"q\\\"\\\\\\u000a\xef\xbf\xbd\",\"l\":[1,-1],\"e\":[],\"b\":true,\"n\":null}");
}

static void numbers_are_whole(void) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '[');
        json_u64(&j, NULL, 0);
        json_u64(&j, NULL, UINT64_MAX);
        json_i64(&j, NULL, INT64_MIN);
        json_i64(&j, NULL, INT64_MAX);
        json_close(&j, ']');
        CHECK_STR(b.data, "[0,18446744073709551615,-9223372036854775808,9223372036854775807]");
}

/* A cap that is below what was allocated holds, whichever way bytes come; what was there before stays. */
static void buffers_keep_their_cap(void) {
        _cleanup_buf_ struct buf b = {.max = 10}, c = {.max = 10}, long_one = {0};

        buf_str(&b, "12345");
        buf_add(&b, "67890", 5);
        CHECK(buf_ok(&b) && b.size == 10);
        buf_add(&b, "!", 1);
        CHECK(!buf_ok(&b));
        CHECK_STR(b.data, "1234567890");
        buf_printf(&c, "%s", "12345");
        buf_printf(&c, "%d", 67890);
        CHECK(buf_ok(&c) && c.size == 10);
        buf_printf(&c, "%c", '!');
        CHECK(!buf_ok(&c));
        CHECK_STR(c.data, "1234567890");
        for (unsigned i = 0; i < 1000; i++)
                buf_printf(&long_one, "%03u", i);
        CHECK(buf_ok(&long_one) && long_one.size == 3000 && strlen(long_one.data) == 3000);
        CHECK(str_starts(long_one.data, "000001002") && str_eq(long_one.data + 2994, "998999"));
}

static void hash_of(const char *data, size_t size, char text[HASH_TEXT_SIZE]) {
        struct hash s;
        uint8_t h[HASH_SIZE];

        hash_init(&s);
        for (size_t i = 0; i < size; i += 37)
                hash_add(&s, data + i, MIN((size_t)37, size - i));
        hash_done(&s, h);
        hash_text(h, text);
}

static void hashes_match_b2sum(void) {
        char text[HASH_TEXT_SIZE], zeros[256] = {0};

        hash_of("", 0, text);
        CHECK_STR(text, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
        hash_of("abc", 3, text);
        CHECK_STR(text, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
        hash_of(zeros, 128, text);
        CHECK_STR(text, "378d0caaaa3855f1b38693c1d6ef004fd118691c95c959d4efa950d6d6fcf7c1");
        hash_of(zeros, 256, text);
        CHECK_STR(text, "2b69702a889248a4d6620475a105dccd5e0d4230aca8a492aaf6510e55d55b02");
}

TEST_MAIN(TEST(numbers_with_units), TEST(bad_numbers), TEST(formats_are_exact_and_parse_back), TEST(paths),
          TEST(escapes), TEST(json_is_well_formed), TEST(numbers_are_whole), TEST(hashes_match_b2sum),
          TEST(buffers_keep_their_cap))
