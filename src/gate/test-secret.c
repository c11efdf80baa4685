/* Secrets and the search for them: what is refused as a value, which placeholder is found, and that no cut of a stream
 * lets a value through. */
#include "base/test.h"
#include "gate/forms.h"
#include "gate/secret.h"

static void test_put(void) {
        struct secrets *s = secrets_create();
        size_t size;
        char long_value[GATE_SECRET_MAX + 1];

        memset(long_value, 'v', sizeof long_value);
        CHECK(secrets_put(s, "A", "@a@", "first-value", 11) == 0);
        CHECK(secrets_put(s, "B", "@b@", long_value, GATE_SECRET_MAX) == 0);
        CHECK(secrets_count(s) == 2);
        CHECK_STR(secrets_name(s, 0), "A");
        CHECK(memcmp(secrets_value(s, 0, &size), "first-value", 11) == 0 && size == 11);
        CHECK(secrets_put(s, "A", "@a2@", "second-value", 12) == 0); /* replaces, the placeholder too */
        CHECK(memcmp(secrets_value(s, 0, &size), "second-value", 12) == 0 && size == 12 && secrets_count(s) == 2);
        CHECK(secrets_find(s, "@a@", 3, 0, &size, &size) == -1);

        static const struct {
                const char *name, *holder, *value;
                size_t size;
                int result;
        } bad[] = {
                {"C", "@c@", "short", 5, -EINVAL},
                {"C", "@c@", "123456789012345", 15, -EINVAL}, /* all such numbers can be tried */
                {"C", "@c@", "ends-with-a-line\n", 17, -EINVAL},
                {"C", "@c@", "two\r\nlines: x", 13, -EINVAL},
                {"C", "@c@", "has\0zero-in-it", 14, -EINVAL},
                {"C", "@c@", " in front", 9, -EINVAL},
                {"C", "@c@", "behind it ", 10, -EINVAL},
                {"C", "", "some-value", 10, -EINVAL},
                {"", "@c@", "some-value", 10, -EINVAL},
                {"C", "@b@", "some-value", 10, -EEXIST},
                {"C", "@c@", "", 0, -ENOENT},
        };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                CHECK(secrets_put(s, bad[i].name, bad[i].holder, bad[i].value, bad[i].size) == bad[i].result);
        CHECK(secrets_put(s, "C", "@c@", long_value, sizeof long_value) == -EINVAL);
        CHECK(secrets_count(s) == 2);
        const char *problem = secrets_problem("12345678", 8);
        CHECK(problem && strstr(problem, "16 digits"));
        problem = secrets_problem("1234567", 7);
        CHECK(problem && strstr(problem, "shorter"));
        CHECK(!secrets_problem("1234567890123456", 16) && !secrets_problem("1234567x", 8));

        uint64_t epoch = secrets_epoch(s);
        CHECK(secrets_wipe(s, "C") == -ENOENT && secrets_wipe(s, "") == -ENOENT);
        CHECK(secrets_put(s, "A", "@a2@", "second-value", 12) == 0 && secrets_epoch(s) == epoch);
        CHECK(secrets_put(s, "A", "@a2@", "", 0) == 0); /* wiped, and its bytes are gone */
        CHECK(secrets_epoch(s) != epoch);
        CHECK(memcmp(secrets_value(s, 0, &size), "second-value", 12) != 0 && size == 0);
        CHECK_STR(secrets_name(s, 0), "");
        for (unsigned i = 0; i < GATE_SECRETS_MAX; i++) {
                char name[16], holder[16];

                (void)snprintf(name, sizeof name, "N%u", i);
                (void)snprintf(holder, sizeof holder, "@n%u@", i);
                CHECK(secrets_put(s, name, holder, "some-value", 10) == (i < GATE_SECRETS_MAX - 1 ? 0 : -ENOSPC));
        }
        secrets_destroy(s);
        secrets_destroy(NULL);
}

static void test_find(void) {
        struct secrets *s = secrets_create();
        size_t which = 99, length = 99;

        CHECK(secrets_put(s, "A", "stk_1", "value-one", 9) == 0);
        CHECK(secrets_put(s, "B", "stk_12", "value-two", 9) == 0);
        CHECK(secrets_put(s, "C", "xx", "value-three", 11) == 0);
        CHECK(secrets_find(s, "abc", 3, 0, &which, &length) == -1);
        CHECK(secrets_find(s, "a stk_12 b", 10, 0, &which, &length) == 2 && which == 1 && length == 6);
        CHECK(secrets_find(s, "a stk_1 b", 9, 0, &which, &length) == 2 && which == 0 && length == 5);
        CHECK(secrets_find(s, "a stk_12", 7, 0, &which, &length) == 2 && which == 0); /* not beyond the end */
        CHECK(secrets_find(s, "xx stk_1", 8, 1, &which, &length) == 3 && which == 0);
        CHECK(secrets_find(s, "stk_1 xx", 8, 1, &which, &length) == 6 && which == 2 && length == 2);
        CHECK(secrets_find(s, "xx", 2, 2, &which, &length) == -1);
        CHECK(secrets_wipe(s, "B") == 0);
        CHECK(secrets_find(s, "stk_12", 6, 0, &which, &length) == 0 && which == 0);
        secrets_destroy(s);
}

static bool same(char a, char b) {
        static const char *const pairs[] = {"-+", "_/"};

        for (size_t i = 0; i < ELEMENTSOF(pairs); i++)
                if (strchr(pairs[i], a) && strchr(pairs[i], b) && a && b)
                        return true;
        return a == b || (((a | 0x20) >= 'a' && (a | 0x20) <= 'z') && (a | 0x20) == (b | 0x20));
}

/* The slow and obvious way: every place of every value, then all of them at once. */
static void obvious(const char *const *values, char *text) {
        size_t size = strlen(text);
        char mark[256] = {0};

        for (const char *const *v = values; *v; v++)
                for (size_t i = 0; i + strlen(*v) <= size; i++) {
                        size_t n = 0;

                        while (n < strlen(*v) && same(text[i + n], (*v)[n]))
                                n++;
                        if (n == strlen(*v))
                                memset(mark + i, 1, n);
                }
        for (size_t i = 0; i < size; i++)
                if (mark[i])
                        text[i] = '*';
}

/* The stream in pieces of the given sizes. */
static void streamed(struct redact *r, const char *in, unsigned seed, char *ret) {
        uint8_t window[512];
        size_t at = 0, size = strlen(in), made = 0;

        while (at < size) {
                size_t n = MIN(size - at, (size_t)1 + seed % 5);

                seed = seed * 1103515245U + 12345U;
                memcpy(window + r->held, in + at, n);
                at += n;
                size_t pass = redact_feed(r, window, n, at == size);
                memcpy(ret + made, window, pass);
                made += pass;
                CHECK(made + r->held == at);
        }
        ret[made] = '\0';
}

/* Pieces of the values one after another, so that there are many beginnings, overlaps and near misses. */
static size_t pieces(const char *const *set, char *text, size_t room) {
        static const char others[] = "abcdABC-_+/\n";
        size_t size = 0, count = 0;

        while (set[count])
                count++;
        for (size_t n = (size_t)random() % 8; n > 0; n--) {
                const char *v = set[(size_t)random() % count];
                size_t from = random() % 3 ? 0 : (size_t)random() % strlen(v);
                size_t length = random() % 3 ? strlen(v) - from : (size_t)random() % (strlen(v) - from);

                for (size_t i = 0; i < length && size < room; i++)
                        text[size++] = (char)(random() % 4 || v[from + i] < 'a' ? v[from + i] : v[from + i] - 0x20);
                if (random() % 2 && size < room)
                        text[size++] = others[(size_t)random() % (sizeof others - 1)];
        }
        text[size] = '\0';
        return size;
}

static void test_redact(void) {
        static const char *const sets[][5] = {
                {"secret-value"},
                {"aaaaaaaa"},
                {"abababab", "babababa", "abababababab"},
                {"abcdefgh", "efghijkl", "cdefghij", "hijklmnopqrstuvw"},
                {"abcabcabcabd", "cabcabca"},
                {"a-b_c+d/e", "d/eeeeeee", "+d/eeeee"},
        };
        static struct redact r;
        char text[200], expected[200], got[200];

        for (unsigned round = 0; round < 60000; round++) {
                const char *const *set = sets[round % ELEMENTSOF(sets)];
                size_t size = pieces(set, text, sizeof text - 1);

                for (const char *const *v = set; *v; v++)
                        CHECK(redact_add(&r, *v, strlen(*v)));
                (void)snprintf(expected, sizeof expected, "%s", text);
                obvious(set, expected);
                streamed(&r, text, (unsigned)random(), got);
                if (size > 0)
                        CHECK_STR(got, expected);
                redact_line(&r, text, size);
                CHECK_STR(text, expected);
                redact_wipe(&r);
                if (test_failures > 5)
                        return;
        }
}

static void test_hold(void) {
        static struct redact r;
        uint8_t window[64];

        CHECK(redact_add(&r, "token-abcdef", 12) && redact_add(&r, "token-abcdef", 12) && r.count == 1);
        CHECK(!redact_add(&r, "two\nlines", 9));
        memcpy(window, "{\"ok\":true}\n", 12);
        CHECK(redact_feed(&r, window, 12, false) == 12 && r.held == 0); /* nothing waits behind a line end */
        memcpy(window, "x token-a", 9);
        CHECK(redact_feed(&r, window, 9, false) == 0 && r.held == 9);
        memcpy(window + 9, "bcdef", 5);
        CHECK(redact_feed(&r, window, 5, false) == 3 && memcmp(window, "x *", 3) == 0 && r.held == 11);
        CHECK(redact_feed(&r, window, 0, true) == 11 && memcmp(window, "***********", 11) == 0);
        /* a right guess and a wrong one are held alike */
        memcpy(window, "token-abcd", 10);
        CHECK(redact_feed(&r, window, 10, false) == 0);
        CHECK(redact_feed(&r, window, 0, true) == 10 && memcmp(window, "token-abcd", 10) == 0);
        memcpy(window, "token-abcX", 10);
        CHECK(redact_feed(&r, window, 10, false) == 0);
        CHECK(redact_feed(&r, window, 0, true) == 10);
        redact_wipe(&r);
}

static void test_room(void) {
        static struct redact r;
        static char value[REDACT_MAX + 1];
        unsigned count = 0;

        CHECK(!redact_add(&r, value, 0) && !redact_add(&r, "seven77", 7) && !redact_add(&r, value, sizeof value));
        for (unsigned i = 0; i < REDACT_BYTES / REDACT_MAX + 1; i++) {
                memset(value, 'a' + (int)i, sizeof value);
                count += redact_add(&r, value, REDACT_MAX);
        }
        CHECK(count == REDACT_BYTES / REDACT_MAX && r.count == count);
        redact_wipe(&r);
        for (unsigned i = 0; i <= REDACT_PATTERNS; i++) {
                (void)snprintf(value, sizeof value, "value-%u-more", i);
                CHECK(redact_add(&r, value, strlen(value)) == (i < REDACT_PATTERNS));
        }
        (void)snprintf(value, sizeof value, "value-%u-more", REDACT_PATTERNS - 1);
        redact_line(&r, value, strlen(value)); /* the last is found like the first */
        CHECK_STR(value, "**************");
        redact_wipe(&r);
        for (size_t i = 0; i < sizeof r.bytes && test_failures == 0; i++)
                CHECK(r.bytes[i] == 0); /* wiped */
}

static void check_form(const struct redact *r, const char *text, const char *expected) {
        char line[300];

        (void)snprintf(line, sizeof line, "%s", text);
        redact_line(r, line, strlen(line));
        CHECK_STR(line, expected);
}

static void test_forms(void) {
        static struct redact r;
        static char value[GATE_SECRET_MAX];
        const char *secret = "Sk-Live/0123+\"ab";

        CHECK(forms_add(&r, (const uint8_t *)secret, strlen(secret)));
        unsigned count = r.count;
        CHECK(forms_add(&r, (const uint8_t *)secret, strlen(secret)) && r.count == count);
        check_form(&r, "a Sk-Live/0123+\"ab b", "a **************** b");
        check_form(&r, "sk-live/0123+\"AB", "****************");
        /* base64 of it, behind none, one, two and three other bytes, in both alphabets, with others behind it */
        check_form(&r, "U2stTGl2ZS8wMTIzKyJhYg==", "*********************g==");
        check_form(&r, "eFNrLUxpdmUvMDEyMysiYWI=", "eF********************I=");
        check_form(&r, "eHhTay1MaXZlLzAxMjMrImFi", "eHh*********************");
        check_form(&r, "eHh4U2stTGl2ZS8wMTIzKyJhYnh4", "eHh4*********************nh4");
        check_form(&r, "ehhtay1maxzllzaxmjmrimfi", "ehh*********************");
        check_form(&r, "eHhTay1MaXZlLzAxMjMrImF", "eHhTay1MaXZlLzAxMjMrImF"); /* one letter less is none */
        /* hexadecimal and percent, in both cases; JSON */
        check_form(&r, "<536b2d4c6976652f303132332b226162>", "<********************************>");
        check_form(&r, "<536B2D4C6976652F303132332B226162>", "<********************************>");
        check_form(&r, "Sk-Live%2F0123%2B%22ab", "**********************");
        check_form(&r, "Sk-Live%2f0123%2b%22ab", "**********************");
        check_form(&r, "\"Sk-Live/0123+\\\"ab\"", "\"*****************\"");
        check_form(&r, "\"Sk-Live\\/0123+\\\"ab\"", "\"******************\"");
        check_form(&r, "\"Sk-Live/0123\\u002B\\u0022ab\"", "\"**************************\"");
        check_form(&r, "Sk-Live/0123", "Sk-Live/0123");
        redact_wipe(&r);
        /* the shortest has no form that stands in a text by chance */
        CHECK(forms_add(&r, (const uint8_t *)"01234x67", 8));
        for (unsigned i = 0; i < r.count; i++)
                CHECK(r.patterns[i].size >= 8);
        redact_wipe(&r);
        CHECK(!forms_add(&r, (const uint8_t *)"short", 5));
        memset(value, 'v', sizeof value); /* the longest fits */
        CHECK(forms_add(&r, (const uint8_t *)value, sizeof value));
        redact_wipe(&r);
        memset(value, '%', sizeof value); /* what is longer than can be searched for is said to be */
        CHECK(!forms_add(&r, (const uint8_t *)value, sizeof value) && !redact_knows(&r, value, sizeof value));
        redact_wipe(&r);
}

TEST_MAIN(TEST(test_put), TEST(test_find), TEST(test_redact), TEST(test_hold), TEST(test_room), TEST(test_forms))
