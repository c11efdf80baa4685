/* Patterns that must not come back: searched in a stream of bytes and overwritten with '*', so that lengths stay.
 *
 * ASCII letters are compared without their case, '-' as '+' and '_' as '/' (the two alphabets of base64 are one then).
 * A pattern is found wherever the stream is cut. Held back are the bytes behind the last control byte (a line end,
 * say), never more than the longest pattern's length less one; how many does not depend on what the patterns are.
 * Patterns that overlap are overwritten both. No allocation. */
#pragma once

#include "base/macro.h"

#define REDACT_MIN      8 /* bytes of a pattern: what is shorter stands in answers by chance */
#define REDACT_MAX      8192
#define REDACT_PATTERNS 512
#define REDACT_BYTES    (64 * 1024) /* all of them */
#define REDACT_BUCKETS  4096

struct redact {
        unsigned count;
        uint32_t used; /* of bytes */
        uint32_t longest, shortest;
        uint32_t held;
        uint32_t covered; /* of the held bytes, so many at the front belong to a pattern that was found already */
        struct {
                uint32_t at;
                uint16_t size;
                uint16_t next; /* with the same last pair: its number + 1 */
                bool known;
        } patterns[REDACT_PATTERNS];
        /* for a pair of bytes: how far no pattern can end on it, or REDACT_FIRST + the first whose place it is */
        uint16_t buckets[REDACT_BUCKETS];
        uint8_t tail[REDACT_MAX];
        uint8_t bytes[REDACT_BYTES];
};

/* Adds a pattern, unless it is there already. False: it is too short or too long, has a control byte, or there is no
 * room; then it must not be sent. */
bool redact_add(struct redact *r, const void *pattern, size_t size);
/* A mark on a pattern, for who adds it: what goes with it was added too. */
void redact_know(struct redact *r, const void *pattern, size_t size);
bool redact_knows(const struct redact *r, const void *pattern, size_t size);
void redact_wipe(struct redact *r);

/* The stream's next bytes are at window + r->held (fresh of them); the room before is for those held back. Returns how
 * many bytes of window may pass on; the rest is kept. end: nothing follows, all pass. */
size_t redact_feed(struct redact *r, uint8_t *window, size_t fresh, bool end);
/* Bytes that stand for themselves: one line. Does not touch what is held. */
void redact_line(const struct redact *r, char *line, size_t size);
