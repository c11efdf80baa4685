/* Lines on standard error. Each is one write, shorter than a pipe takes at once, and only when there is room for it. */
#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"

#define LINE_MAX_BYTES 4000 /* below PIPE_BUF */
#define TEXT_BYTES     1100

static const char *part = "stockade";
static enum log_level most_level = LOG_LEVEL_INFO;
static bool terminal;
static uint64_t lost;

static const char *const names[] = {"error", "warning", "info", "debug"};
static_assert(ELEMENTSOF(names) == LOG_LEVELS, "each level has a name");

void log_open(const char *name, enum log_level most) {
        struct tm tm;
        time_t zero = 0;

        part = name;
        most_level = most;
        terminal = isatty(STDERR_FILENO) == 1;
        (void)gmtime_r(&zero, &tm);
}

bool log_level_parse(const char *name, enum log_level *ret) {
        for (unsigned i = 0; i < LOG_LEVELS; i++)
                if (str_eq(names[i], name)) {
                        *ret = (enum log_level)i;
                        return true;
                }
        return false;
}

static void put_json(struct buf *b, enum log_level level, const char *sandbox, const char *text, const char *hint) {
        struct json j = {.out = b};
        struct timespec now;
        struct tm tm;
        char day[32], stamp[48];

        (void)clock_gettime(CLOCK_REALTIME, &now);
        (void)gmtime_r(&now.tv_sec, &tm);
        if (strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
                day[0] = '\0';
        (void)snprintf(stamp, sizeof stamp, "%s.%03ldZ", day, now.tv_nsec / 1000000);
        json_open(&j, NULL, '{');
        json_str(&j, "time", stamp);
        json_str(&j, "part", part);
        json_str(&j, "level", names[level]);
        if (sandbox)
                json_str(&j, "sandbox", sandbox);
        json_str(&j, "message", text);
        if (hint[0])
                json_str(&j, "hint", hint);
        if (lost)
                json_u64(&j, "lost", lost);
        json_close(&j, '}');
}

static void put_text(struct buf *b, const char *sandbox, const char *text, const char *hint) {
        buf_printf(b, "stockade-%s: %s%s%s", part, sandbox ? sandbox : "", sandbox ? ": " : "", text);
        if (hint[0])
                buf_printf(b, " (%s)", hint);
        if (lost)
                buf_printf(b, " [%llu lines before this were lost]", (unsigned long long)lost);
}

static void say(enum log_level level, const char *sandbox, const char *text, const char *hint) {
        _cleanup_buf_ struct buf b = {.max = LINE_MAX_BYTES};
        struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
        char inert[TEXT_BYTES], inert_hint[TEXT_BYTES];

        if (level > most_level)
                return;
        text_escape(inert, sizeof inert, text);
        text_escape(inert_hint, sizeof inert_hint, hint);
        if (terminal)
                put_text(&b, sandbox, inert, inert_hint);
        else
                put_json(&b, level, sandbox, inert, inert_hint);
        buf_str(&b, terminal ? "\r\n" : "\n");
        if (!buf_ok(&b) || poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT) || write(STDERR_FILENO, b.data, b.size) < 0)
                lost++;
        else
                lost = 0;
}

void log_line(enum log_level level, const char *sandbox, const char *format, ...) {
        char text[TEXT_BYTES];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);
        say(level, sandbox, text, "");
}

void log_err(enum log_level level, const char *sandbox, const struct err *err) {
        say(level, sandbox, err->text, err->hint);
}
