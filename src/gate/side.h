/* Reading and writing one side of a flow, plain or TLS, without ever waiting. */
#pragma once

#include "gate/flow.h"

/* Options of every TCP socket: small writes go out at once, and a peer that is gone is noticed some day. */
void side_tune(int fd);

/* Writes what can be written now: how many bytes, 0 when it is full, or -errno. */
ssize_t side_write(struct flow_side *s, const void *bytes, size_t size);
/* Writes what waits. 1: nothing waits any more, 0: some does, -errno. */
int side_flush(struct flow_side *s);
/* Writes, and keeps what cannot be written now; nothing may be waiting. 0 or -errno. */
int side_put(struct flow_side *s, const void *bytes, size_t size);

/* Fills room with what was not used before and what has come since. Returns how much there is; 0 with *ret_new false
 * if there is nothing new to look at. s->ended is set at the end. -errno when the connection broke. Plain bytes stay in
 * the socket: side_used says how many of them were of use. */
ssize_t side_look(struct flow_side *s, uint8_t *room, size_t size, bool *ret_new);
/* After side_look: the first used of the count bytes in room are dealt with. 0 or -errno. */
int side_used(struct flow_side *s, const uint8_t *room, size_t count, size_t used);
