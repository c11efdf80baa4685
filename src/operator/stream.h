/* A stream socket with frames on it, for clients and guests alike: bytes that arrive in any pieces become whole frames,
 * frames that are sent wait in a bounded queue, descriptors travel with the first byte of theirs.
 *
 * The other end is hostile. It holds the memory of one frame here, or of one read; in one turn of the loop a bounded
 * number of its bytes and frames is handled; what it sends beyond a frame that is being dealt with waits in the kernel.
 *
 * Must never: call its owner from inside stream_send; read on while it is held; deliver half a frame. */
#pragma once

#include <sys/types.h>

#include "base/loop.h"

struct stream;
struct stream_chunk;

struct stream_events {
        /* The whole size of the frame that begins here, as soon as that is known; 0 until then; or -errno. The size may
         * be larger than what is there. */
        ssize_t (*measure)(struct stream *s, const uint8_t *bytes, size_t size);
        void (*frame)(struct stream *s, const uint8_t *frame, size_t size); /* may close the stream */
        void (*room)(struct stream *s); /* the queue has fallen below its mark again */
        /* It is over: 0 (the other end has closed), -errno, or what measure said. Called once, from the loop; the owner
         * then closes the stream. */
        void (*broken)(struct stream *s, int error);
};

struct stream {
        struct loop *loop;
        const struct stream_events *events;
        struct loop_watch watch;
        struct loop_task task; /* frames that are left of this turn; an end that is to be told */
        int fd;                /* -EBADF: closed */
        int error;             /* why it is over */
        bool over, told;       /* broken is due; was called */
        bool held;             /* no frames are wanted now */
        bool half;             /* the owner's: that the other end sends no more is no end yet */
        bool finished;         /* it sends no more */
        bool last_word;        /* nothing is to follow what is queued */
        bool *gone;            /* set when the stream is closed while it calls its owner */
        uint8_t *in;           /* the beginning of a frame, and what came behind it */
        size_t in_size, in_room;
        struct stream_chunk *first, *last;
        size_t queued, mark, most; /* bytes that wait to be sent; where room begins; where it ends */
        bool crowded;              /* queued went above the mark: room is to be told */
};

/* Takes fd, which must be non-blocking, also when it fails. mark: above this much stream_has_room is false; most: above
 * this stream_send refuses. */
int stream_open(struct stream *s, struct loop *l, int fd, const struct stream_events *events, size_t mark, size_t most);
void stream_close(struct stream *s); /* also from its own callbacks; nothing is called afterwards */

/* Bytes that somebody read from the socket before it was a stream; once, right after stream_open. */
int stream_unread(struct stream *s, const void *data, size_t size);

/* Queues these bytes and sends what goes. 0; -EAGAIN when the queue is full, and then nothing was taken; -EPIPE when it
 * is over; -ENOMEM. fds are copied. */
int stream_send(struct stream *s, const void *data, size_t size, const int *fds, size_t fd_count);
bool stream_has_room(const struct stream *s);
void stream_hold(struct stream *s, bool hold); /* no frame is delivered, and nothing is read, until it is let go */

/* Ends it once everything that is queued has been sent: `broken` with 0. */
void stream_finish(struct stream *s);

/* Ends it from our side, with this error for `broken`. */
void stream_break(struct stream *s, int error);
