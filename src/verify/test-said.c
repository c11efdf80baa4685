/* What is believed of a sandbox's output: one whole, well-formed line of the probe about an attempt, and nothing else.
 * The lines here are what a hostile sandbox would print. */
#include "base/test.h"
#include "base/text.h"
#include "verify/launch.h"

#define LINE(name, result, error, evidence)                                                                            \
        "{\"name\":\"" name "\",\"result\":\"" result "\",\"errno\":" error ",\"evidence\":\"" evidence "\"}"
#define GOOD LINE("try", "refused", "\"EPERM\"", "mount: not permitted")

static struct said said;

static bool find_bytes(const void *bytes, size_t size) {
        _cleanup_buf_ struct buf out = {.max = 16 << 20};

        buf_add(&out, bytes, size);
        memset(&said, 0x55, sizeof said);
        bool found = buf_ok(&out) && said_find(&out, "try", &said);
        if (!found)
                CHECK(said.result[0] == 0x55); /* untouched */
        return found;
}

static bool find(const char *text) {
        return find_bytes(text, strlen(text));
}

#define FIND_ARRAY(array) find_bytes(array, sizeof(array) - 1)

static void test_found(void) {
        CHECK(find(GOOD "\n"));
        CHECK_STR(said.result, "refused");
        CHECK_STR(said.error, "EPERM");
        CHECK_STR(said.evidence, "mount: not permitted");
        CHECK(find("noise\n\n{}\n[1]\n{\"name\":\"other\"}\n" GOOD "\nnoise"));
        CHECK(find(LINE("try", "done", "null", "") "\n"));
        CHECK_STR(said.error, "");
        static const char *const results[] = {"done", "refused", "killed", "guarded", "not tried"};
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                char line[128];

                (void)snprintf(line, sizeof line,
                               "{\"name\":\"try\",\"result\":\"%s\",\"errno\":null,\"evidence\":\"\"}\n", results[i]);
                CHECK(find(line) && str_eq(said.result, results[i]));
        }
        CHECK(!find("") && !said_find(&(struct buf){0}, "try", &said));
}

/* Two lines about one attempt: one of them is forged, so neither is believed. */
static void test_duplicates(void) {
        CHECK(!find(GOOD "\n" GOOD "\n"));
        CHECK(!find(GOOD "\n" LINE("try", "done", "null", "") "\n"));
        CHECK(!find(GOOD "\n{\"name\":\"try\"}\n"));
        CHECK(!find("{\"name\":\"try\"}\n" GOOD "\n"));
        CHECK(find(GOOD "\n{\"name\":\"tr\\u0079\"}\n")); /* no probe says it so: it is no line of one */
        CHECK(!find("{\"name\":\"tr\\u0079\",\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n"));
        CHECK(find(GOOD "\n" LINE("try-2", "done", "null", "try") "\n"));
        /* a name twice in one line has two meanings */
        CHECK(!find("{\"name\":\"other\",\"name\":\"try\",\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n"));
        CHECK(!find(
                "{\"name\":\"try\",\"result\":\"refused\",\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n"));
}

static void test_partial(void) {
        CHECK(!find(GOOD)); /* its end of line may be missing because more was to come */
        for (size_t n = 1; n < sizeof GOOD - 1; n++) {
                char cut[sizeof GOOD + 1];

                memcpy(cut, GOOD, n);
                cut[n] = '\n';
                CHECK(!find_bytes(cut, n + 1));
        }
        CHECK(find("{\"name\":\"try\",\"resu\n" GOOD "\n")); /* not a line at all: it takes nothing away */
        CHECK(!find("{\"name\":\"try\",\n\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n"));
        CHECK(!find("x" GOOD "\n"));
        CHECK(!find(GOOD "x\n"));
        CHECK(!find(GOOD GOOD "\n"));
}

static void test_terminal(void) {
        CHECK(find(GOOD "\r\n"));
        CHECK(find("\r" GOOD "\r\n"));
        CHECK(!find("{\"name\":\"try\",\r\"result\":\"done\",\"errno\":null\r,\"evidence\":\"\"}" GOOD "\n"));
        CHECK(!find("\x1b[2K" GOOD "\n")); /* what a terminal would show is not what is read */
        CHECK(find("\x1b[2K\n" GOOD "\n"));
}

static void test_bytes(void) {
        static const char nul_before[] = "\0" GOOD "\n", nul_line[] = "\0\0\n" GOOD "\n", nul_after[] = GOOD "\0\n",
                          nul_in_name[] = "{\"name\":\"try\0x\",\"result\":\"done\"}\n" GOOD "\n",
                          nul_in_text[] = LINE("try", "done", "null", "a\0b") "\n";

        CHECK(!FIND_ARRAY(nul_before));
        CHECK(FIND_ARRAY(nul_line));
        CHECK(!FIND_ARRAY(nul_after));
        CHECK(FIND_ARRAY(nul_in_name)); /* not well-formed: not a line about us */
        CHECK(!FIND_ARRAY(nul_in_text));
        CHECK(!find(LINE("try", "done", "null", "a\\u0000b") "\n")); /* an escaped one would cut the text short */
        CHECK(!find(LINE("try", "done", "null", "\xff\xfe") "\n"));
        CHECK(!find(LINE("try", "done", "null", "\xc0\xaf") "\n"));
        CHECK(!find(LINE("try", "done", "null", "\xed\xa0\x80") "\n"));
        CHECK(!find(LINE("try", "done", "null", "\\ud800") "\n"));
        CHECK(!find(LINE("try", "done", "null", "\x1b[31m") "\n")); /* control bytes are escaped in JSON */
        CHECK(find(LINE("try", "done", "null", "\\u001b[31m \\ud83d\\ude00") "\n"));
        CHECK_STR(said.evidence, "\x1b[31m \xf0\x9f\x98\x80"); /* as it was said; who prints it escapes it */
}

static void test_meaning(void) {
        CHECK(!find(LINE("try", "fine", "null", "") "\n"));
        CHECK(!find(LINE("try", "DONE", "null", "") "\n"));
        CHECK(!find(LINE("try", "done", "1", "") "\n"));
        CHECK(!find(LINE("try", "done", "true", "") "\n"));
        CHECK(!find("{\"name\":\"try\",\"result\":\"done\",\"evidence\":\"\"}\n"));
        CHECK(!find("{\"name\":\"try\",\"result\":\"done\",\"errno\":null}\n"));
        CHECK(!find("{\"name\":\"try\",\"result\":[\"done\"],\"errno\":null,\"evidence\":\"\"}\n"));
        CHECK(!find("[" GOOD "]\n"));
        CHECK(!find("{\"x\":" GOOD "}\n")); /* nested: it is about x */
        CHECK(!find("{\"name\":{\"name\":\"try\"},\"result\":\"done\",\"errno\":null,\"evidence\":\"\"}\n"));
        CHECK(!find(LINE("Try", "done", "null", "") "\n"));
        CHECK(!find(LINE("try ", "done", "null", "") "\n"));
        CHECK(!find(LINE("other", "done", "null", "\\\"name\\\":\\\"try\\\"") "\n"));
}

/* A line of about this size, its evidence made of so many units. */
static bool find_big(size_t size, const char *unit) {
        _cleanup_buf_ struct buf b = {.max = 16 << 20};

        buf_str(&b, "{\"name\":\"try\",\"result\":\"done\",\"errno\":null,\"evidence\":\"");
        while (b.size < size)
                buf_str(&b, unit);
        buf_str(&b, "\"}\n");
        return find_bytes(b.data, b.size);
}

static void test_size(void) {
        CHECK(find_big(600, "a") && strlen(said.evidence) > 500);
        CHECK(find_big(15000, "a") && strlen(said.evidence) == sizeof said.evidence - 1);
        static const char *const euros[] = {"\xe2\x82\xac", "a\xe2\x82\xac", "aa\xe2\x82\xac",
                                            "\xf0\x9f\x98\x80\xc3\xa9"};
        for (size_t i = 0; i < ELEMENTSOF(euros); i++) { /* cut between characters, wherever the room ends */
                CHECK(find_big(2000, euros[i]));
                size_t n = strlen(said.evidence);
                CHECK(n >= sizeof said.evidence - 4);
                for (size_t at = 0, length; at < n; at += length) {
                        length = text_utf8_length((const unsigned char *)said.evidence + at);
                        CHECK(length > 0);
                        if (length == 0)
                                break;
                }
        }
        CHECK(!find_big(17000, "a")); /* longer than a probe can say */
        CHECK(!find_big(300000, "a"));
        CHECK(!find(LINE("try", "done", "\"EEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEE\"", "") "\n"));

        _cleanup_buf_ struct buf deep = {.max = 16 << 20};
        buf_str(&deep, "{\"name\":\"try\",\"result\":\"done\",\"errno\":null,\"evidence\":\"\",\"x\":");
        for (unsigned i = 0; i < 5000; i++)
                buf_str(&deep, "[");
        for (unsigned i = 0; i < 5000; i++)
                buf_str(&deep, "]");
        buf_str(&deep, "}\n" GOOD "\n");
        CHECK(find_bytes(deep.data, deep.size)); /* too deep to be a line of a probe's */

        _cleanup_buf_ struct buf flood = {.max = 16 << 20};
        for (unsigned i = 0; i < 100000; i++)
                buf_str(&flood, "{\"name\":\"no\"}\n");
        buf_str(&flood, GOOD "\n");
        CHECK(find_bytes(flood.data, flood.size));
}

TEST_MAIN(TEST(test_found), TEST(test_duplicates), TEST(test_partial), TEST(test_terminal), TEST(test_bytes),
          TEST(test_meaning), TEST(test_size))
