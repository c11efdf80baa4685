#include "cli/selftest.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/paths.h"
#include "cli/hear.h"

enum { SELFTEST_MS = 60000, SELFTEST_BOX_MS = 120000, SELFTEST_MAX = 4 * 1024 * 1024 };

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* What the judge could not do, and its advice: "stockade: …" and "  hint: …". */
static void take_complaint(const char *text, struct selftest *ret) {
        const char *hint = strstr(text, "hint: ");

        if (str_starts(text, "stockade: "))
                text += strlen("stockade: ");
        (void)snprintf(ret->words, sizeof ret->words, "%.*s", (int)strcspn(text, "\n;"), text);
        if (hint)
                (void)snprintf(ret->hint, sizeof ret->hint, "%.*s", (int)strcspn(hint + 6, "\n"), hint + 6);
}

static void understand(const struct buf *said, int status, struct selftest *ret) {
        uint64_t checks = 0, untried = 0, open = 0;
        bool good = false;
        struct err err;

        if (!buf_ok(said) || !said->data || json_check(said->data, said->size, &err) < 0 ||
            !json_find_u64(said->data, "tally.checks", &checks) ||
            !json_find_u64(said->data, "tally.untried", &untried) || untried > checks ||
            !json_find_u64(said->data, "tally.open", &open) || !json_find_bool(said->data, "good", &good) ||
            !json_find_str(said->data, "headline", ret->words, sizeof ret->words)) {
                if (ret->words[0] == '\0')
                        (void)snprintf(ret->words, sizeof ret->words, "the self-test could not be made (status %d)",
                                       status);
                return;
        }
        ret->checks = (unsigned)(checks - untried);
        ret->open = (unsigned)open;
        ret->passed = good && status == 0 && checks > untried;
}

void selftest_run(const char *driver, struct selftest *ret) {
        _cleanup_buf_ struct buf said = {.max = SELFTEST_MAX};
        char program[PATH_MAX], self[PATH_MAX] = "";
        const char *const argv[] = {program, self, "--driver", driver, "--self-test", "--json", NULL};
        /* a judge of boxes has a daemon to end: it is asked to */
        bool native = str_eq(driver, "native");
        struct hear h = {
                .argv = argv, .ms = native ? SELFTEST_MS : SELFTEST_BOX_MS, .signal = native ? SIGKILL : SIGTERM};
        uint64_t begin = now_ms();
        struct err err = {0};

        *ret = (struct selftest){0};
        if (paths_helper("stockade-verify", program, sizeof program, &err) < 0 ||
            readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
                (void)snprintf(ret->words, sizeof ret->words, "the self-test could not be started: %.100s",
                               err.text[0] ? err.text : strerror(errno));
                return;
        }
        bool ended = hear_program(&h, &said, &err);
        take_complaint(h.complaint, ret);
        if (!ended && ret->words[0] == '\0')
                (void)snprintf(ret->words, sizeof ret->words, "%.150s", err.text);
        understand(&said, h.status, ret);
        ret->ms = (unsigned)(now_ms() - begin);
}
