/* Words for people. */
#include "cli/tell.h"

#include <time.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/text.h"

const char *tell_size(char *buf, size_t size, uint64_t bytes) {
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        size_t unit = 0;
        uint64_t tenths = bytes;

        if (bytes == UINT64_MAX) {
                (void)snprintf(buf, size, "-");
                return buf;
        }
        if (bytes < 1024) {
                (void)snprintf(buf, size, "%lluB", (unsigned long long)bytes);
                return buf;
        }
        for (unit = 1; unit + 1 < ELEMENTSOF(units) && bytes >> (10 * (unit + 1)); unit++)
                ;
        tenths = (bytes >> (10 * (unit - 1))) * 10 / 1024; /* what is cut off is less than shown */
        if (tenths < 100)
                (void)snprintf(buf, size, "%llu.%llu%s", (unsigned long long)tenths / 10,
                               (unsigned long long)tenths % 10, units[unit]);
        else
                (void)snprintf(buf, size, "%llu%s", (unsigned long long)tenths / 10, units[unit]);
        return buf;
}

const char *tell_span(char *buf, size_t size, uint64_t ms) {
        static const struct {
                uint64_t below, unit;
                const char *name;
        } steps[] = {{1000, 1, "ms"},
                     {120000, 1000, "s"},
                     {7200000, 60000, "m"},
                     {172800000, 3600000, "h"},
                     {UINT64_MAX, 86400000, "d"}};
        size_t i = 0;

        while (i + 1 < ELEMENTSOF(steps) && ms >= steps[i].below)
                i++;
        (void)snprintf(buf, size, "%llu%s", (unsigned long long)(ms / steps[i].unit), steps[i].name);
        return buf;
}

static uint64_t read_clock(clockid_t clock) {
        struct timespec t;

        (void)clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t tell_now(void) {
        return read_clock(CLOCK_REALTIME);
}

uint64_t tell_clock(void) {
        return read_clock(CLOCK_MONOTONIC);
}

const char *tell_ago(char *buf, size_t size, uint64_t since_ms) {
        uint64_t now = tell_now();

        if (since_ms == 0 || since_ms == UINT64_MAX) {
                (void)snprintf(buf, size, "-");
                return buf;
        }
        return tell_span(buf, size, now > since_ms ? now - since_ms : 0);
}

const char *tell_time(char *buf, size_t size, uint64_t since_ms) {
        time_t seconds = (time_t)(since_ms / 1000);
        struct tm tm;

        if (since_ms == 0 || since_ms == UINT64_MAX || !localtime_r(&seconds, &tm) ||
            strftime(buf, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
                (void)snprintf(buf, size, "-");
        return buf;
}

const char *tell_text(char *buf, size_t size, const char *json, const char *path) {
        uint64_t number;
        size_t bytes;
        const char *value = json_at(json, path, &bytes);

        if (json_find_u64(json, path, &number)) {
                (void)snprintf(buf, size, "%llu", (unsigned long long)number);
                return buf;
        }
        _cleanup_free_ char *text = value && *value == '"' ? malloc(bytes + 1) : NULL;
        bool found = text && json_find_str(value, "", text, bytes + 1) && text[0];
        text_escape(buf, size, found ? text : "-");
        return buf;
}

uint64_t tell_number(const char *json, const char *path) {
        uint64_t number = UINT64_MAX;

        (void)json_find_u64(json, path, &number);
        return number;
}

void tell_progress_begin(struct tell_progress *p, const char *what, bool json) {
        uint64_t now = tell_clock();

        /* work that is done at once needs no line */
        *p = (struct tell_progress){
                .what = what, .on = !json && isatty(STDERR_FILENO), .start = now, .next = now + 500};
}

void tell_progress(struct tell_progress *p, uint64_t bytes) {
        char done[16], rate[16];
        uint64_t now = p->on ? tell_clock() : 0;

        if (!p->on || now < p->next)
                return;
        p->next = now + 250;
        p->shown = true;
        (void)fprintf(stderr, "\r%s %s, %s/s\033[K", p->what, tell_size(done, sizeof done, bytes),
                      tell_size(rate, sizeof rate, bytes * 1000 / MAX(now - p->start, (uint64_t)1)));
        (void)fflush(stderr);
}

void tell_progress_end(struct tell_progress *p) {
        if (p->shown)
                (void)fputs("\r\033[K", stderr);
        p->shown = false;
}
