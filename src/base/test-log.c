/* Lines of the log: whole, inert, and never waited for. */
#include <fcntl.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/log.h"
#include "base/test.h"

static int errors, ends[2];

static void begin(void) {
        CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        errors = dup(STDERR_FILENO);
        CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
        log_open("test", LOG_LEVEL_INFO);
}

static void end(void) {
        (void)dup2(errors, STDERR_FILENO);
        (void)close(errors);
        (void)close(ends[0]);
        (void)close(ends[1]);
}

/* The next line, checked; "" if there is none. */
static char line[8192];
static void next(void) {
        size_t n = 0;

        while (n < sizeof line - 1 && read(ends[0], line + n, 1) == 1 && line[n] != '\n')
                n++;
        line[n] = '\0';
        CHECK(n == 0 || json_check(line, n, NULL) == 0);
}

static void lines(void) {
        char text[2000];
        uint64_t lost;
        struct err err = {.text = "it broke", .hint = "mend it"};

        begin();
        log_line(LOG_LEVEL_ERROR, "0123456789abcdef", "a \"%s\"\n\x1b[31m", "word");
        next();
        CHECK(json_find_str(line, "message", text, sizeof text));
        CHECK_STR(text, "a \"word\"\\x0a\\x1b[31m");
        CHECK(json_find_str(line, "sandbox", text, sizeof text) && str_eq(text, "0123456789abcdef"));
        CHECK(json_find_str(line, "part", text, sizeof text) && str_eq(text, "test"));
        CHECK(json_find_str(line, "level", text, sizeof text) && str_eq(text, "error"));
        CHECK(json_find_str(line, "time", text, sizeof text) && strlen(text) == 24 && text[23] == 'Z');
        CHECK(!json_find_u64(line, "lost", &lost));
        log_err(LOG_LEVEL_WARNING, NULL, &err);
        next();
        CHECK(json_find_str(line, "hint", text, sizeof text) && str_eq(text, "mend it"));
        CHECK(!json_find_str(line, "sandbox", text, sizeof text));
        log_line(LOG_LEVEL_DEBUG, NULL, "not wanted");
        next();
        CHECK_STR(line, "");
        memset(text, '"', sizeof text - 1); /* as long as a line can be: it is still one */
        text[sizeof text - 1] = '\0';
        log_line(LOG_LEVEL_ERROR, NULL, "%s", text);
        next();
        CHECK(strlen(line) > 1000);
        end();
}

static void nobody_reads(void) {
        uint64_t lost = 0;
        unsigned heard = 0;

        begin();
        for (unsigned i = 0; i < 5000; i++)
                log_line(LOG_LEVEL_INFO, NULL, "line %u", i);
        for (next(); line[0]; next())
                heard++;
        CHECK(heard > 100 && heard < 5000);
        log_line(LOG_LEVEL_INFO, NULL, "after");
        next();
        CHECK(json_find_u64(line, "lost", &lost) && lost + heard == 5000);
        log_line(LOG_LEVEL_INFO, NULL, "and on");
        next();
        CHECK(!json_find_u64(line, "lost", &lost));
        end();
}

static void levels(void) {
        enum log_level l = LOG_LEVEL_INFO;

        CHECK(log_level_parse("debug", &l) && l == LOG_LEVEL_DEBUG);
        CHECK(!log_level_parse("loud", &l) && l == LOG_LEVEL_DEBUG);
}

TEST_MAIN(TEST(lines), TEST(nobody_reads), TEST(levels))
