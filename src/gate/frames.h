/* WebSocket messages from a server (RFC 6455, 5.2), searched for what must not come back.
 *
 * A value may stand across two fragments of a message, with the head of the second one between its halves. So the
 * search is over a message's payload, and what may pass is framed anew. Frames are as the RFC wants them from a server
 * without extensions (not masked, no reserved bits or kinds, fragments in order, control frames whole), or nothing
 * passes any more. */
#pragma once

#include "gate/redact.h"

struct frames {
        uint8_t head[10]; /* of the frame that is being read */
        uint8_t have;     /* bytes of it */
        uint8_t kind;     /* of the message, until a part of it was passed on; then "goes on" */
        bool inside;      /* a message: another part follows */
        bool lost;        /* these are not frames */
        uint64_t left;    /* of the payload */
        uint8_t control_size;
        uint8_t control[125]; /* a control frame's payload, which may come between the parts of a message */
};

/* At most so many bytes at a time, and out has room for FRAMES_MORE above them and what is held back. */
#define FRAMES_PIECE (64 * 1024)
#define FRAMES_MORE  2048
/* Returns false when the bytes are no such frames; *made is what may still pass. */
bool frames_search(struct frames *f, struct redact *r, const uint8_t *in, size_t size, uint8_t *out, size_t *made);
/* No more comes: what is held back, as a part of a message that will never be complete. */
size_t frames_end(struct frames *f, struct redact *r, uint8_t *out);
