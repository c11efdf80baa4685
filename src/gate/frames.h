/* WebSocket frames from a server, only as far as to know where a message ends: there bytes that are held back for the
 * search can go, because nothing of the same message follows. */
#pragma once

#include "base/macro.h"

struct frames {
        uint8_t head[10]; /* of the frame that is being read */
        uint8_t have;     /* bytes of it */
        bool lost;        /* these are not frames, or not plain ones: no end is seen any more */
        uint64_t left;    /* of the payload */
};

/* How many of these bytes belong together (at least one, if there are any); *ret_end: a message is complete with them.
 */
size_t frames_step(struct frames *f, const uint8_t *bytes, size_t size, bool *ret_end);
