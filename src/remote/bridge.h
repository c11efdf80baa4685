/* Between a socket pair of the command line's and a server: the local protocol both ways, over a WebSocket
 * (GET /api/local). What the frames mean is not looked at: that is the command line's, which trusts none of them.
 *
 * Bounded both ways: who does not read is not read from. */
#pragma once

#include "remote/ask.h"
#include "remote/keep.h"

struct bridge {
        struct line line;
        struct buf rest; /* bytes that came right behind the head */
};

/* -EKEYREJECTED: the session is not good, or not any more. */
int bridge_open(struct bridge *b, const struct url *u, const struct keep *k, struct err *err);
void bridge_close(struct bridge *b);
#define _cleanup_bridge_ _cleanup_(bridge_close)

/* Until either side ends it. */
void bridge_run(struct bridge *b, int local);
