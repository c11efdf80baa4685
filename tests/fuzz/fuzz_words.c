/* Fuzz target: the command of another maker's sandbox, as --against has it. What is split has at least one word; words
 * put in quotes again give the same words; nothing is expanded but {probe} and {share}. */
#include "base/buf.h"
#include "tests/fuzz/fuzz.h"
#include "verify/judge.h"
#include "verify/launch-private.h"

static struct judge judge;

static int split(const char *text, struct words *ret) {
        static const char *const argv[] = {"true", NULL};
        struct launch l = {.where = LAUNCH_INSIDE, .argv = argv};
        struct err err = {0};

        judge.options.against = text;
        int r = launch_words(&judge, &l, "", ret, &err);
        assert(r == 0 || err.text[0] != '\0');
        return r;
}

/* A word so that it is one word again, whatever is in it. */
static void quote(struct buf *out, const char *word) {
        buf_str(out, "''");
        for (; *word; word++)
                buf_printf(out, *word == '\'' ? "\"%c\"" : "'%c'", *word);
        buf_str(out, " ");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = strndup((const char *)data, size);
        _cleanup_words_ struct words words = {0}, again = {0};
        _cleanup_buf_ struct buf quoted = {.max = 64 << 20};

        assert(text);
        /* the probe's path has the other place's name in it: what was filled in is not filled in again */
        (void)snprintf(judge.probe, sizeof judge.probe, "/{share}/pro be");
        (void)snprintf(judge.world.share, sizeof judge.world.share, "/share");
        if (split(text, &words) < 0)
                return 0;
        assert(words.count >= 2 && !words.list[words.count] && str_eq(words.list[words.count - 1], "true"));
        size_t total = 0;
        for (size_t i = 0; i + 1 < words.count; i++) {
                total += strlen(words.list[i]);
                if (strstr(words.list[i], "{share}") && !strstr(text, "{probe}") && !strstr(text, "'") &&
                    !strstr(text, "\""))
                        abort();
                quote(&quoted, words.list[i]);
        }
        if (!strstr(text, "{"))
                assert(total <= strlen(text));
        if (strstr(quoted.data, "{share}") || strstr(quoted.data, "{probe}"))
                return 0;
        buf_str(&quoted, "");
        assert(buf_ok(&quoted) && split(quoted.data, &again) == 0 && again.count == words.count);
        for (size_t i = 0; i < words.count; i++)
                assert(str_eq(words.list[i], again.list[i]) || strchr(words.list[i], '{'));
        return 0;
}
