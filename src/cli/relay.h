/* One direction of bytes between the caller's streams and the sandbox: a buffer between two descriptors. */
#pragma once

#include <poll.h>

#include "cli/run.h"

#define FLOW_SIZE (32 * 1024)

struct flow {
        int in, out;      /* -EBADF: closed */
        bool owns_out;    /* close out when in has ended and the buffer is empty */
        bool regular_out; /* a file: writes do not block */
        uint64_t *count;  /* counts towards limits.output */
        size_t start, end;
        char data[FLOW_SIZE];
};

/* Adds what this flow waits for; returns how many entries it took. */
size_t flow_poll(const struct flow *f, struct pollfd *p);

/* Moves what can be moved without blocking. left is how much may still be counted. Returns 1 if the limit was reached,
 * 0 otherwise. */
int flow_move(struct flow *f, const struct pollfd *p, size_t count, uint64_t left);

void flow_end(struct flow *f); /* no more will come; what is in the buffer is still written */

static inline bool flow_idle(const struct flow *f) {
        return f->in < 0 && f->start == f->end;
}
