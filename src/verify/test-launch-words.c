/* The words of a launch: how the command of another maker's sandbox is split, and what stands where. */
#include <unistd.h>

#include "base/test.h"
#include "verify/judge.h"
#include "verify/launch-private.h"

static struct judge judge;

static void begin(const char *against) {
        memset(&judge, 0, sizeof judge);
        judge.options.against = against;
        (void)snprintf(judge.launcher, sizeof judge.launcher, "/opt/stockade");
        (void)snprintf(judge.probe, sizeof judge.probe, "/opt/pro be");
        (void)snprintf(judge.world.share, sizeof judge.world.share, "/share/{probe}");
        (void)snprintf(judge.world.nonce, sizeof judge.world.nonce, "0123456789abcdef");
        (void)snprintf(judge.world.tokens[CANARY_ENV], sizeof judge.world.tokens[CANARY_ENV], "a-token");
}

/* Words in one text, each in <>. */
static const char *joined(const struct words *w) {
        static char text[4096];
        size_t used = 0;

        text[0] = '\0';
        for (size_t i = 0; i < w->count && used < sizeof text; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, "<%s>", w->list[i]);
        CHECK(w->count == 0 || !w->list[w->count]);
        return text;
}

static void expect(const char *against, const char *expected) {
        static const char *const argv[] = {"{probe}", "try", NULL};
        struct launch l = {.where = LAUNCH_INSIDE, .argv = argv};
        _cleanup_words_ struct words w = {0};
        struct err err = {0};

        begin(against);
        int r = launch_words(&judge, &l, "", &w, &err);
        if (!expected) {
                CHECK(r == ERR_INPUT && err.text[0] && w.count == 0);
                return;
        }
        CHECK(r == 0);
        CHECK_STR(joined(&w), expected);
}

#define PROBE "</opt/pro be><try>"

static void test_split(void) {
        expect("bwrap --unshare-all --", "<bwrap><--unshare-all><-->" PROBE);
        expect("  a\t b\n\nc ", "<a><b><c>" PROBE);
        expect("a 'b c' \"d e\"", "<a><b c><d e>" PROBE);
        expect("a'b c'd\"e f\"", "<ab cde f>" PROBE);
        expect("a '' \"\" b", "<a><><><b>" PROBE);
        expect("'\"' \"'\"", "<\"><'>" PROBE);
        expect("''", "<>" PROBE);
}

/* Nothing is expanded but the two places. */
static void test_no_shell(void) {
        expect("a $HOME `id` $(id) * ~ ; & | > < #", "<a><$HOME><`id`><$(id)><*><~><;><&><|><>><<><#>" PROBE);
        expect("a\\ b \\' c'", "<a\\><b><\\ c>" PROBE); /* a backslash is a byte like others */
        expect("\"$A\" '$B'", "<$A><$B>" PROBE);
}

static void test_places(void) {
        expect("x {probe}:{probe}:ro", "<x></opt/pro be:/opt/pro be:ro>" PROBE);
        expect("x -v={share}", "<x><-v=/share/{probe}>" PROBE); /* what was filled in is not looked at again */
        expect("{prob} {probe {share} }", "<{prob}><{probe></share/{probe}><}>" PROBE);
        expect("'{probe}'", "</opt/pro be>" PROBE); /* a place is one word wherever it stands */
}

static void test_refused(void) {
        expect("", NULL);
        expect(" \t\n", NULL);
        expect("a 'b", NULL);
        expect("a \"b", NULL);
        expect("'", NULL);
        expect("a 'b\" c", NULL);
}

static void test_many(void) {
        _cleanup_free_ char *text = malloc(3 * 4096 + 1);
        static const char *const argv[] = {"true", NULL};
        struct launch l = {.where = LAUNCH_INSIDE, .argv = argv};
        _cleanup_words_ struct words w = {0};
        struct err err = {0};

        for (size_t i = 0; i < 4096; i++)
                memcpy(text + 3 * i, "ab ", 3);
        text[3 * 4096] = '\0';
        begin(text);
        CHECK(launch_words(&judge, &l, "", &w, &err) == ERR_LIMIT && w.count == 0);
        text[3 * 1000] = '\0';
        CHECK(launch_words(&judge, &l, "", &w, &err) == 0 && w.count == 1001);
}

static bool has(const struct words *w, const char *word) {
        for (size_t i = 0; i < w->count; i++)
                if (str_eq(w->list[i], word))
                        return true;
        return false;
}

/* Our own launcher: its options stand before "--", the command behind it. */
static void test_ours(void) {
        static const char *const argv[] = {"{probe}", "--rw", NULL}, *const options[] = {"--allow", "good.test", NULL};
        struct launch l = {.where = LAUNCH_INSIDE, .argv = argv, .options = options, .profile = "medium"};
        _cleanup_words_ struct words w = {0}, none = {0};
        struct err err = {0};

        begin(NULL);
        CHECK(launch_words(&judge, &l, "/tmp/record", &w, &err) == 0);
        CHECK(w.count > 8 && str_eq(w.list[0], "/opt/stockade") && str_eq(w.list[1], "run"));
        CHECK(str_eq(w.list[w.count - 3], "--") && str_eq(w.list[w.count - 2], LAUNCH_PROBE) &&
              str_eq(w.list[w.count - 1], "--rw"));
        CHECK(has(&w, "--allow") && has(&w, "good.test") && has(&w, "medium") && has(&w, "/tmp/record"));
        CHECK(has(&w, "/opt/pro be:" LAUNCH_PROBE));

        judge.options.against = "other --";
        CHECK(launch_words(&judge, &l, "", &none, &err) == ERR_UNENFORCED && strstr(err.text, "--allow"));
        l.options = NULL;
        l.argv = (const char *const[]){NULL};
        CHECK(launch_words(&judge, &l, "", &none, &err) == ERR_INPUT);
}

static void test_environment(void) {
        static const char *const more[] = {"HOME=/other", "EXTRA=1", NULL};
        struct launch l = {.where = LAUNCH_INSIDE, .env = more};
        _cleanup_words_ struct words w = {0};
        struct err err = {0};

        begin(NULL);
        CHECK(setenv("HOME", "/home/me", 1) == 0 && setenv("LD_PRELOAD_NOT", "x", 1) == 0 &&
              setenv("AWS_SECRET_ACCESS_KEY", "x", 1) == 0);
        CHECK(launch_environment(&judge, &l, &w, &err) == 0);
        CHECK(has(&w, "HOME=/other") && !has(&w, "HOME=/home/me") && has(&w, "EXTRA=1"));
        CHECK(has(&w, "STOCKADE_VERIFY_SECRET=a-token") && has(&w, "STOCKADE_VERIFY=0123456789abcdef"));
        CHECK(!has(&w, "LD_PRELOAD_NOT=x") && !has(&w, "AWS_SECRET_ACCESS_KEY=x")); /* the caller's own stay outside */
}

TEST_MAIN(TEST(test_split), TEST(test_no_shell), TEST(test_places), TEST(test_refused), TEST(test_many),
          TEST(test_ours), TEST(test_environment))
