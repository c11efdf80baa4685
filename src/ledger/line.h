/* One line of the ledger: written, taken apart and checked in its one canonical form. No I/O, nothing allocated. */
#pragma once

#include "ledger/ledger.h"

enum {
        LINE_TIME = 27, /* 2026-01-02T03:04:05.678901Z */
        LINE_HEX = 2 * HASH_SIZE,
        LINE_SANDBOX_MAX = 32,
        LINE_KIND_MAX = 32,
        LINE_BYTES_MAX = LEDGER_DATA_MAX + 512, /* with its newline */
};

struct line_part {
        const char *p;
        size_t size;
};

/* What a line says. Points into the text that it was read from. */
struct line {
        const char *text;
        size_t size; /* without the newline */
        uint64_t seq;
        const char *time; /* LINE_TIME bytes */
        struct line_part sandbox, actor, kind, data;
        const char *prev, *hash; /* LINE_HEX bytes each */
};

bool line_is(const struct line_part *part, const char *text);

/* 0, or ERR_CORRUPT when the text is not in canonical form. The data is taken as it is: what its hash says is right was
 * JSON when it was written, and line_check_data checks where it counts. */
int line_parse(const char *text, size_t size, struct line *ret);
void line_hash(const struct line *l, uint8_t ret[HASH_SIZE]); /* as it ought to be */

/* May this be written? 0, -EINVAL or -E2BIG. */
int line_check_sandbox(const char *sandbox);
int line_check_actor(const char *actor);
int line_check_data(const char *data, size_t size);

/* Writes a line with its newline and says its hash. The parts were checked; room has to be line_size(). */
struct line_new {
        uint64_t seq, time_us; /* since 1970 */
        struct line_part sandbox, actor, kind, data;
};
struct line_clock { /* the last second that was printed */
        uint64_t second;
        char text[LINE_TIME + 1];
};
size_t line_size(const struct line_new *n);
void line_time(struct line_clock *c, uint64_t time_us, char ret[LINE_TIME + 1]);
size_t line_write(const struct line_new *n, struct line_clock *c, const char prev[LINE_HEX], char *out,
                  uint8_t ret_hash[HASH_SIZE]);

/* 2 * size lower-case digits from bytes, without a NUL; and back, false if they are not that. */
void line_hex(const uint8_t *bytes, size_t size, char *ret);
bool line_unhex(const char *hex, size_t size, uint8_t *ret); /* size of the bytes */
