/* A ring of bytes with absolute offsets: what a program wrote and nobody confirmed yet, a terminal's scrollback, input
 * that a program did not take yet. Holds the bytes from `oldest` up to `newest`; has memory only once a byte came. */
#pragma once

#include <sys/types.h>

#include "base/macro.h"

struct ring {
        uint8_t *data; /* NULL: none yet */
        size_t size;
        uint64_t oldest, newest;
        uint64_t base; /* the offset whose byte is the first of data */
};

static inline void ring_init(struct ring *r, size_t size) {
        *r = (struct ring){.size = size};
}

static inline size_t ring_used(const struct ring *r) {
        return (size_t)(r->newest - r->oldest);
}

static inline size_t ring_room(const struct ring *r) {
        return r->size - ring_used(r);
}

/* Reads from fd once, at most max bytes. When they do not fit, the oldest are forgotten. The bytes read, 0 at end of
 * file, or -errno. max is at most the ring's size. */
ssize_t ring_fill(struct ring *r, int fd, size_t max);

/* Adds bytes that fit (ring_room). 0 or -ENOMEM. */
int ring_add(struct ring *r, const void *data, size_t size);

/* The bytes from offset on, as far as they lie together; offset is within the ring. */
const uint8_t *ring_at(const struct ring *r, uint64_t offset, size_t *ret_size);

/* Forgets everything before offset, or everything. */
void ring_drop(struct ring *r, uint64_t offset);

/* Gives back the memory of a ring that is empty; its offsets stay. */
void ring_rest(struct ring *r);
void ring_free(struct ring *r); /* bytes and memory; the offsets stay */
