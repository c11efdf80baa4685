/* The progress line: how far the judge is and what it tries right now.
 *
 * Only on a terminal, always one line that replaces itself and is gone at the end. Never says how an attempt went: that
 * is the report's. */
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "verify/report.h"

enum {
        PROGRESS_BURST = 10,      /* lines that may follow each other at once … */
        PROGRESS_REFILL_MS = 100, /* … and one more after each of these: ten a second in the long run */
        PROGRESS_BAR = 20,
};

static bool shown; /* something is on the line */

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool on_terminal(void) {
        static int known = -1;
        const char *term = getenv("TERM");

        if (known < 0)
                known = isatty(STDERR_FILENO) && term && !str_eq(term, "dumb");
        return known;
}

/* False where a line would be one too many. */
static bool may_draw(void) {
        static uint64_t last;
        static unsigned left = PROGRESS_BURST;
        uint64_t now = now_ms(), more = (now - last) / PROGRESS_REFILL_MS;

        if (more > 0) {
                left = (unsigned)MIN(left + more, PROGRESS_BURST);
                last = now;
        }
        if (left == 0)
                return false;
        left--;
        return true;
}

/* Ends the text after this many characters. */
static void cut(char *text, size_t columns) {
        const unsigned char *p = (const unsigned char *)text;

        for (; *p && columns > 0; columns--)
                p += MAX(text_utf8_length(p), 1);
        text[p - (const unsigned char *)text] = '\0';
}

void progress_show(const char *what, size_t done, size_t all) {
        struct winsize window = {0};
        char words[512], line[1024], bar[3 * PROGRESS_BAR + 1];
        size_t used = 0, full = all ? MIN(done, all) * PROGRESS_BAR / all : 0;

        if (!on_terminal() || !may_draw())
                return;
        for (size_t i = 0; i < PROGRESS_BAR; i++, used += 3)
                memcpy(bar + used, i < full ? "━" : "┄", 3);
        bar[used] = '\0';
        text_escape(words, sizeof words, what);
        int n = all ? snprintf(line, sizeof line, "%s %3zu/%zu  %s", bar, done, all, words)
                    : snprintf(line, sizeof line, "%s  %s", bar, words);
        if (n < 0)
                return;
        size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
        cut(line, columns - 1);

        char out[sizeof line + 16];
        n = snprintf(out, sizeof out, "\r%s\033[K", line);
        if (n > 0)
                (void)fd_write_full(STDERR_FILENO, out, (size_t)n);
        shown = true;
}

void progress_clear(void) {
        static const char erase[] = "\r\033[K";

        if (shown)
                (void)fd_write_full(STDERR_FILENO, erase, sizeof erase - 1);
        shown = false;
}
