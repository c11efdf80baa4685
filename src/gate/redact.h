/* Values that must not come back: searched in a stream of bytes and overwritten with '*', so that lengths stay.
 *
 * A value is found wherever the stream is cut. Held back are the bytes behind the last control byte (a line end, say),
 * never more than the longest value's length less one; how many does not depend on what the values are. Values that
 * overlap are overwritten both. No allocation. */
#pragma once

#include "base/macro.h"

#define REDACT_VALUE_MAX 8192 /* one value */
#define REDACT_VALUES    64
#define REDACT_BYTES     (32 * 1024) /* all of them */

struct redact {
        unsigned count;
        uint32_t used; /* of bytes */
        uint32_t longest;
        uint32_t held;
        uint32_t covered; /* of the held bytes, so many at the front belong to a value that was found already */
        struct {
                uint32_t at, size;
        } values[REDACT_VALUES];
        uint8_t tail[REDACT_VALUE_MAX];
        uint8_t bytes[REDACT_BYTES];
};

/* Adds a value, unless it is there already. False: it has a control byte, or there is no room; then it must not be
 * sent. */
bool redact_add(struct redact *r, const void *value, size_t size);
void redact_wipe(struct redact *r);

/* The stream's next bytes are at window + r->held (fresh of them); the room before is for those held back. Returns how
 * many bytes of window may pass on; the rest is kept. end: nothing follows, all pass. */
size_t redact_feed(struct redact *r, uint8_t *window, size_t fresh, bool end);
/* Bytes that stand for themselves: one line. Does not touch what is held. */
void redact_line(const struct redact *r, char *line, size_t size);
