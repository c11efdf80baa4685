/* Unit tests of the JSON reader: what is JSON, what is not, and what is found where. */
#include "base/json-read.h"

#include <time.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/test.h"

#define BYTES(s) s, sizeof(s) - 1 /* with NULs inside */

struct text {
        const char *bytes;
        size_t size;
};

static int check(const char *text) {
        return json_check(text, strlen(text), NULL);
}

static void json_is_accepted(void) {
        static const char *const good[] = {
                "{}",
                "[]",
                "null",
                "true",
                "false",
                "0",
                "-0",
                "-0.0",
                "7",
                "1234567890123456789012345678901234567890",
                "10.25",
                "1e5",
                "1E+5",
                "1e-05",
                "0e0",
                "-1.5E-3",
                "\"\"",
                "\"plain\"",
                " \t\r\n[ 1 , 2 ]\n",
                "{ \"a\" : 1 , \"b\" : [ ] }",
                "[[],[[]],{}]",
                "[null,true,false,\"x\",1,{\"y\":[]}]",
                "{\"\":0}",
                "{\"a\":{\"a\":{\"a\":1}}}",      /* the same key in different objects */
                "[{\"a\":1},{\"a\":1}]",          /* and in neighbours */
                "{\"a\":1,\"A\":2,\"a \":3}",     /* and nearly the same */
                "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", /* every escape */
                "\"\\u0000\\u00e9\\uFFFF\"",
                "\"\\ud83d\\ude00\"",
                "\"\xc2\xa2\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"",
                "\"\x7f\"", /* not a control character by RFC 8259 */
                "\"/*no comment*/\"",
                "\"a\xe2\x80\xa8z\"",
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                struct err err = {0};

                bool accepted = json_check(good[i], strlen(good[i]), &err) == 0;

                if (!accepted)
                        (void)printf("# %s: %s\n", good[i], err.text);
                CHECK(accepted);
        }
}

static void what_is_not_json_is_refused(void) {
        static const struct text bad[] = {
                {BYTES("")},
                {BYTES(" ")},
                {BYTES("\xef\xbb\xbf{}")}, /* a byte order mark */
                {BYTES("{")},
                {BYTES("[")},
                {BYTES("}")},
                {BYTES("]")},
                {BYTES("[1")},
                {BYTES("[1,")},
                {BYTES("[1,]")},
                {BYTES("[,1]")},
                {BYTES("[1,,2]")},
                {BYTES("[1 2]")},
                {BYTES("[1}")},
                {BYTES("[]]")},
                {BYTES("{]")},
                {BYTES("{\"a\"}")},
                {BYTES("{\"a\":}")},
                {BYTES("{\"a\":1,}")},
                {BYTES("{,\"a\":1}")},
                {BYTES("{\"a\" 1}")},
                {BYTES("{\"a\"::1}")},
                {BYTES("{\"a\":1 \"b\":2}")},
                {BYTES("{a:1}")},
                {BYTES("{'a':1}")},
                {BYTES("{1:1}")},
                {BYTES("{null:1}")},
                {BYTES("{\"a\":1}}")},
                {BYTES("{} {}")},
                {BYTES("{}\0")},
                {BYTES("1 2")},
                {BYTES("nul")},
                {BYTES("nulll")},
                {BYTES("True")},
                {BYTES("NaN")},
                {BYTES("Infinity")},
                {BYTES("-Infinity")},
                {BYTES("undefined")},
                {BYTES("+1")},
                {BYTES("-")},
                {BYTES("--1")},
                {BYTES("- 1")},
                {BYTES("01")},
                {BYTES("-01")},
                {BYTES(".5")},
                {BYTES("1.")},
                {BYTES("1.e5")},
                {BYTES("1e")},
                {BYTES("1e+")},
                {BYTES("1e1.5")},
                {BYTES("0x10")},
                {BYTES("1_000")},
                {BYTES("1\0")},
                {BYTES("\xd9\xa1")}, /* a digit, but not one of these */
                {BYTES("\"")},
                {BYTES("\"a")},
                {BYTES("\"\\\"")},
                {BYTES("\"\\")},
                {BYTES("\"\\x41\"")},
                {BYTES("\"\\a\"")},
                {BYTES("\"\\\0\"")},
                {BYTES("\"\\'\"")},
                {BYTES("\"\\u\"")},
                {BYTES("\"\\u12\"")},
                {BYTES("\"\\u12G4\"")},
                {BYTES("\"\\u 123\"")},
                {BYTES("\"\\U0041\"")},
                {BYTES("\"\\u123")},
                {BYTES("\"\\ud83d\"")},
                {BYTES("\"\\ude00\"")},
                {BYTES("\"\\ud83dx\"")},
                {BYTES("\"\\ud83d\\n\"")},
                {BYTES("\"\\ud83d\\ud83d\"")},
                {BYTES("\"\\ude00\\ud83d\"")},
                {BYTES("\"\\ud83d\\u")},
                {BYTES("\"a\nb\"")},
                {BYTES("\"a\tb\"")},
                {BYTES("\"a\0b\"")},
                {BYTES("\"\x1f\"")},
                {BYTES("\"\x80\"")},
                {BYTES("\"\xc0\xaf\"")},         /* overlong */
                {BYTES("\"\xe0\x80\xaf\"")},     /* overlong */
                {BYTES("\"\xed\xa0\x80\"")},     /* a surrogate */
                {BYTES("\"\xf4\x90\x80\x80\"")}, /* beyond the last character */
                {BYTES("\"\xe2\x82\"")},         /* cut */
                {BYTES("\"\xf0\x9f\x98")},       /* cut, at the end */
                {BYTES("\"\xff\"")},
                {BYTES("[1]//")},
                {BYTES("/**/1")},
                {BYTES("[1]#")},
                {BYTES("\x0c[]")},
                {BYTES("\xc2\xa0[]")},
                {BYTES("\"a\"b")},
                {BYTES("\"a\" \"b\"")},
                {BYTES("{\"a\":1,\"a\":1}")},
                {BYTES("{\"a\":1,\"b\":2,\"a\":{}}")},
                {BYTES("{\"a\":1,\"\\u0061\":2}")},
                {BYTES("{\"\\u00e9\":1,\"\xc3\xa9\":2}")},
                {BYTES("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}")},
                {BYTES("{\"\\n\":1,\"\\u000A\":2}")},
                {BYTES("{\"\":1,\"\":2}")},
                {BYTES("[{\"x\":{\"a\":1,\"a\":2}}]")},
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct err err = {0};
                /* exactly as many bytes as it has, so that a sanitizer sees one too many */
                char *copy = malloc(bad[i].size + !bad[i].size);

                if (!copy)
                        return;
                memcpy(copy, bad[i].bytes, bad[i].size);
                bool refused = json_check(copy, bad[i].size, &err) == ERR_INPUT &&
                               str_starts(err.text, "not JSON at byte ");
                if (!refused)
                        (void)printf("# %s: %s\n", bad[i].bytes, err.text);
                CHECK(refused);
                free(copy);
        }
}

static void repeat(struct buf *b, const char *s, size_t times) {
        for (size_t i = 0; i < times; i++)
                buf_str(b, s);
}

static void caps_hold(void) {
        for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
                _cleanup_buf_ struct buf arrays = {0}, objects = {0};
                int expected = depth > JSON_DEPTH_MAX ? ERR_LIMIT : 0;

                repeat(&arrays, "[", depth);
                repeat(&arrays, "]", depth);
                CHECK(check(arrays.data) == expected);
                repeat(&objects, "{\"a\":", depth - 1);
                buf_str(&objects, "{}");
                repeat(&objects, "}", depth - 1);
                CHECK(check(objects.data) == expected);
        }
        for (unsigned keys = JSON_KEYS_MAX; keys <= JSON_KEYS_MAX + 1; keys++) {
                _cleanup_buf_ struct buf b = {0};

                buf_str(&b, "{\"0\":0");
                for (unsigned i = 1; i < keys; i++)
                        buf_printf(&b, ",\"%u\":%u", i, i);
                buf_str(&b, "}");
                CHECK(check(b.data) == (keys > JSON_KEYS_MAX ? ERR_LIMIT : 0));
        }
        CHECK(check("1234567890123456789012345678901234567890") == 0);
        CHECK(check("12345678901234567890123456789012345678901") == ERR_LIMIT);
        CHECK(check("1.23456789012345678901234567890123456789e1") == ERR_LIMIT);

        _cleanup_buf_ struct buf large = {.max = JSON_SIZE_MAX + 16};
        repeat(&large, "[[[[[[[[[[[[[[[[", JSON_SIZE_MAX / 16);
        CHECK(json_check(large.data, large.size, NULL) == ERR_LIMIT); /* by its depth, and without a crash */
        memset(large.data, ' ', large.size);
        large.data[0] = '1';
        CHECK(json_check(large.data, large.size, NULL) == 0);
        buf_str(&large, " ");
        CHECK(json_check(large.data, large.size, NULL) == ERR_LIMIT);
}

/* The worst that we know for the search for equal keys: long ones that differ at their ends only. Comparing each with
 * all others would touch some gigabytes. */
static void long_keys_take_linear_time(void) {
        _cleanup_buf_ struct buf b = {.max = JSON_SIZE_MAX}, key = {0};

        repeat(&key, "\\u0061", 10000);
        buf_str(&b, "{");
        for (unsigned i = 0; i < JSON_KEYS_MAX; i++)
                buf_printf(&b, "%s\"%s%u\":1", i ? "," : "", key.data, i);
        buf_str(&b, "}");
        CHECK(buf_ok(&b) && b.size > 15000000);
        clock_t start = clock();
        CHECK(json_check(b.data, b.size, NULL) == 0);
        CHECK(clock() - start < 3 * CLOCKS_PER_SEC);
}

static void values_are_found(void) {
        static const char text[] =
                " { \"usage\" : { \"cpu_us\" : 1234 , \"none\":null}, \"list\":[ 10 , {\"reason\":\"a\\u00e9\\\"]\"} "
                ",\n"
                "[ ],[[7]]], \"yes\":true, \"no\":false, \"\\u006bey\":\"v\", \"empty\":\"\", \"o\":{},\n"
                "\"big\":18446744073709551615, \"bigger\":18446744073709551616, \"neg\":-1, \"frac\":1.0, "
                "\"exp\":1e2,\n"
                "\"nul\":\"a\\u0000b\", \"smile\":\"\\ud83d\\ude00\", \"zero\":0, "
                "\"tricky\":\"}],:{[\\\\\",\"last\":[{}] } ";
        char s[32] = "untouched";
        uint64_t n = 99;
        size_t count = 99;
        bool b = false;

        CHECK(check(text) == 0);
        CHECK(json_find_u64(text, "usage.cpu_us", &n) && n == 1234);
        CHECK(json_find_null(text, "usage.none"));
        CHECK(json_find_u64(text, "list.0", &n) && n == 10);
        CHECK(json_find_str(text, "list.1.reason", s, sizeof s));
        CHECK_STR(s, "a\xc3\xa9\"]");
        CHECK(json_find_count(text, "list.2", &count) && count == 0);
        CHECK(json_find_u64(text, "list.3.0.0", &n) && n == 7);
        CHECK(json_find_count(text, "list", &count) && count == 4);
        CHECK(json_find_count(text, "", &count) && count == 17);
        CHECK(json_find_count(text, "o", &count) && count == 0);
        CHECK(json_find_count(text, "last", &count) && count == 1);
        CHECK(json_find_bool(text, "yes", &b) && b);
        CHECK(json_find_bool(text, "no", &b) && !b);
        CHECK(json_find_str(text, "key", s, sizeof s));
        CHECK_STR(s, "v");
        CHECK(json_find_str(text, "empty", s, 1));
        CHECK_STR(s, "");
        CHECK(json_find_u64(text, "big", &n) && n == UINT64_MAX);
        CHECK(json_find_u64(text, "zero", &n) && n == 0);
        CHECK(json_find_str(text, "smile", s, 5));
        CHECK_STR(s, "\xf0\x9f\x98\x80");
        CHECK(json_find_str(text, "tricky", s, sizeof s));
        CHECK_STR(s, "}],:{[\\");
        CHECK(json_find_str("{\"\":\"e\",\"a\":{\"\":\"f\"}}", "a.", s, sizeof s));
        CHECK_STR(s, "f");
        CHECK(json_find_u64("12", "", &n) && n == 12);
        CHECK(json_find_null("null", "") && json_find_bool("true", "", &b) && b);
}

static void what_is_not_there_is_not_found(void) {
        static const char text[] =
                "{\"a\":[1,\"x\"],\"neg\":-1,\"frac\":1.0,\"exp\":1e2,\"bigger\":18446744073709551616,"
                "\"s\":\"four\",\"nul\":\"\\u0000\",\"n\":null,\"t\":true,\"o\":{\"a.b\":1}}";
        static const char *const no_number[] = {"a",    "a.1",
                                                "a.2",  "a.00",
                                                "a.+0", "a.-1",
                                                "a.",   "a.0.0",
                                                "neg",  "frac",
                                                "exp",  "bigger",
                                                "s",    "n",
                                                "t",    "o",
                                                "o.a",  "o.a.b",
                                                "A",    "aa",
                                                ".",    "a.18446744073709551616"};
        char s[8] = "before";
        uint64_t n = 99;
        size_t count = 99;
        bool b = true;

        CHECK(check(text) == 0);
        for (size_t i = 0; i < ELEMENTSOF(no_number); i++) {
                bool found = json_find_u64(text, no_number[i], &n) || n != 99;

                if (found)
                        (void)printf("# %s\n", no_number[i]);
                CHECK(!found);
        }
        CHECK(!json_find_str(text, "s", s, 4) && !json_find_str(text, "nul", s, sizeof s));
        CHECK(!json_find_str(text, "n", s, sizeof s) && !json_find_str(text, "a", s, sizeof s));
        CHECK(!json_find_str(text, "s", s, 0));
        CHECK_STR(s, "before");
        CHECK(!json_find_bool(text, "n", &b) && b && !json_find_bool(text, "s", &b));
        CHECK(!json_find_null(text, "t") && !json_find_null(text, "none"));
        CHECK(!json_find_count(text, "s", &count) && !json_find_count(text, "n", &count) && count == 99);
}

static void what_we_write_can_be_read(void) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        char s[64];

        json_open(&j, NULL, '{');
        json_str(&j, "hostile\n\"\xff", "\x01\x7f\xc3\x28 \\ \" /");
        json_i64(&j, "low", INT64_MIN);
        json_str(&j, "none", NULL);
        json_close(&j, '}');
        CHECK(json_check(b.data, b.size, NULL) == 0);
        CHECK(json_find_str(b.data, "hostile\n\"\xef\xbf\xbd", s, sizeof s));
        CHECK_STR(s, "\x01\x7f\xef\xbf\xbd( \\ \" /");
        CHECK(json_find_null(b.data, "none"));
}

static void members_are_walked(void) {
        static const char text[] =
                "{ \"a\": {\"x.y\": \"1\", \"z\\\"\": [true], \"n\": -4}, \"l\": [\"p\", {\"q\": 2}], \"e\": {}}";
        struct json_walk w;
        char key[8], value[8];
        uint64_t number = 0;

        CHECK(check(text) == 0);
        CHECK(json_walk_begin(&w, text, "a"));
        CHECK(json_walk_next(&w) && json_walk_key(&w, key, sizeof key) &&
              json_find_str(w.value, "", value, sizeof value));
        CHECK_STR(key, "x.y");
        CHECK_STR(value, "1");
        CHECK(json_walk_next(&w) && json_walk_key(&w, key, sizeof key) && json_find_kind(w.value, "0") == 't');
        CHECK_STR(key, "z\"");
        CHECK(!json_walk_key(&w, key, 2)); /* does not fit */
        CHECK(json_walk_next(&w) && json_find_kind(w.value, "") == '0' && !json_walk_next(&w));
        CHECK(json_walk_begin(&w, text, "l") && json_walk_next(&w) && !json_walk_key(&w, key, sizeof key));
        CHECK(json_walk_next(&w) && json_find_u64(w.value, "q", &number) && number == 2 && !json_walk_next(&w));
        CHECK(json_walk_begin(&w, text, "e") && !json_walk_next(&w));
        CHECK(!json_walk_begin(&w, text, "l.0") && !json_walk_begin(&w, text, "none"));
        CHECK(json_find_kind(text, "") == '{' && json_find_kind(text, "l") == '[' &&
              json_find_kind(text, "none") == '\0');
}

static void a_value_has_its_size(void) {
        static const char text[] = "{\"a\": [1, \"two\", {\"x\": [3]}, [] ] , \"k\": -1.5e3}";
        const char *value;
        size_t size;

        CHECK(check(text) == 0);
        CHECK((value = json_at(text, "a.2", &size)) && size == 10 && strncmp(value, "{\"x\": [3]}", size) == 0);
        CHECK((value = json_at(text, "a.0", &size)) && size == 1 && *value == '1');
        CHECK((value = json_at(text, "a.1", &size)) && size == 5);
        CHECK((value = json_at(text, "k", &size)) && size == 6);
        CHECK((value = json_at(text, "", &size)) && size == strlen(text));
        CHECK(!json_at(text, "b", &size));
}

TEST_MAIN(TEST(a_value_has_its_size), TEST(json_is_accepted), TEST(what_is_not_json_is_refused), TEST(caps_hold),
          TEST(long_keys_take_linear_time), TEST(values_are_found), TEST(members_are_walked),
          TEST(what_is_not_there_is_not_found), TEST(what_we_write_can_be_read))
