/* Unit tests of host names: one canonical form, and what a rule's host stands for. */
#include "base/hostname.h"
#include "base/test.h"

static char name[HOSTNAME_SIZE];

static const char *canonical(const char *text) {
        int n = hostname_canonical(text, strlen(text), name);

        if (n < 0)
                return "refused";
        CHECK((size_t)n == strlen(name));
        return name;
}

static void names_become_canonical(void) {
        CHECK_STR(canonical("example.com"), "example.com");
        CHECK_STR(canonical("EXAMPLE.Com"), "example.com");
        CHECK_STR(canonical("example.com."), "example.com");
        CHECK_STR(canonical("localhost"), "localhost");
        CHECK_STR(canonical("_dmarc.example.com"), "_dmarc.example.com");
        CHECK_STR(canonical("a-b--c.example"), "a-b--c.example");
        CHECK_STR(canonical("XN--Bcher-kva.example"), "xn--bcher-kva.example");
        CHECK_STR(canonical("1.2.3.4.example"), "1.2.3.4.example");
        CHECK_STR(canonical("0x7f.example"), "0x7f.example");
        CHECK_STR(canonical("127.0.0.1a"), "127.0.0.1a");
}

static void what_is_no_name_is_refused(void) {
        static const char *const bad[] = {
                "",
                ".",
                "..",
                "example.com..",
                ".example.com",
                "a..b",
                "-a.example",
                "a-.example",
                "a.-",
                "a b",
                " example.com",
                "example.com ",
                "example.com\t",
                "example.com\r\n",
                "example\x01.com",
                "\x7f.com",
                "user@example.com",
                "example.com:443",
                ":443.example.com",
                "example.com/",
                "example.com#a",
                "example.com?a",
                "a\\b",
                "a%2eb",
                "[::1]",
                "::1",
                "fe80::1%eth0",
                "*.example.com",
                "*",
                "a*b.com",
                "b\303\274cher.example",
                "ex\xd0\xb0mple.com",
                "\xef\xbc\x91.com",
                "example\343\200\202com",
                "example.com\xe3\x80\x82",
                "a,b",
                "a;b",
                "a+b",
                "a=b",
                "a'b",
                "a\"b",
                "a(b",
                "a~b",
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK_STR(canonical(bad[i]), "refused");
}

static void numbers_are_addresses(void) {
        static const char *const bad[] = {
                "127.0.0.1", "127.1",    "0x7f.1", "2130706433",    "017700000001",  "0x7f000001",
                "0",         "1.2.3.4.", "a.1",    "example.com.0", "a.0x7f",        "a.0X7F",
                "0x",        "a.0x",     "1.0xzz", "999.999.999",   "0300.0250.1.1", "127.0.0.0x1.",
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK_STR(canonical(bad[i]), "refused");
}

static void every_byte(void) {
        for (int c = 0; c < 256; c++) {
                char text[] = {'a', (char)c, 'b', '.', 'c'};
                bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '_' || c == '.';

                CHECK((hostname_canonical(text, sizeof text, name) == 5) == good);
        }
}

static void lengths(void) {
        char text[300];

        memset(text, 'a', sizeof text);
        CHECK(hostname_canonical(text, 63, name) == 63);
        CHECK(hostname_canonical(text, 64, name) == ERR_INPUT);
        for (size_t i = 1; i < sizeof text; i += 2)
                text[i] = '.';
        CHECK(hostname_canonical(text, 253, name) == 253);
        CHECK(hostname_canonical(text, 254, name) == 253); /* a dot at the end */
        CHECK(hostname_canonical(text, 255, name) == ERR_INPUT);
        CHECK(hostname_canonical(text, 256, name) == ERR_INPUT);
        text[1] = 'a'; /* labels of 3 and 1: 254 bytes without the dot */
        text[2] = 'a';
        text[253] = 'a';
        CHECK(hostname_canonical(text, 254, name) == ERR_INPUT);
        CHECK(hostname_canonical(text, sizeof text, name) == ERR_INPUT);
}

static void nothing_is_written_on_refusal_and_in_place_works(void) {
        char text[HOSTNAME_SIZE] = "ExAmPlE.CoM.";

        (void)snprintf(name, sizeof name, "untouched");
        CHECK(hostname_canonical("good.bad-", 9, name) == ERR_INPUT);
        CHECK_STR(name, "untouched");
        CHECK(hostname_canonical("a\0b", 3, name) == ERR_INPUT);
        CHECK(hostname_canonical("ab\0", 3, name) == ERR_INPUT);
        CHECK_STR(name, "untouched");
        CHECK(hostname_canonical(text, strlen(text), text) == 11);
        CHECK_STR(text, "example.com");
}

static void patterns(void) {
        static const struct {
                const char *pattern, *name;
                bool matches;
        } rows[] = {
                {"example.com", "example.com", true},
                {"example.com", "a.example.com", false},
                {"example.com", "example.com.evil.test", false},
                {"example.com", "example.co", false},
                {"example.com", "example.comm", false},
                {"*.example.com", "a.example.com", true},
                {"*.example.com", "a.b.c.example.com", true},
                {"*.example.com", "example.com", false},
                {"*.example.com", "aexample.com", false},
                {"*.example.com", "a.example.com.evil.test", false},
                {"*.example.com", "a.b.evil.com", false},
                {"*.example.com", "", false},
                {"*", "example.com", true},
                {"*", "localhost", true},
                {"*", "", false},
                {"", "example.com", false},
                {"", "", false},
        };
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                CHECK(hostname_matches(rows[i].pattern, rows[i].name) == rows[i].matches);
        /* what stands before a name in memory is not part of it */
        const char *memory = "a.example.com";
        CHECK(!hostname_matches("*.example.com", memory + 2));
}

TEST_MAIN(TEST(names_become_canonical), TEST(what_is_no_name_is_refused), TEST(numbers_are_addresses), TEST(every_byte),
          TEST(lengths), TEST(nothing_is_written_on_refusal_and_in_place_works), TEST(patterns))
