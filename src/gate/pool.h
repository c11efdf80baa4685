/* Buffers for bytes that were read and could not be passed on at once: a fixed number, mapped at the start, touched
 * when used.
 *
 * Conversations under rules cannot do without, because what goes out is not what came in. Plain relays can: they use
 * one while there are plenty, because reading is faster than peeking, and leave bytes in the kernel when there are
 * not. */
#pragma once

#include "base/err.h"

#define POOL_SIZE  (256 * 1024)
#define POOL_COUNT 512

int pool_init(struct err *err);
bool pool_plenty(void);                       /* more than half of them are free */
uint8_t *pool_take(void);                     /* NULL: all are in use */
void pool_give(uint8_t *buffer, size_t used); /* wipes what was used */

/* Bytes that wait. data is NULL when there are none. */
struct pool_hold {
        uint8_t *data;
        uint32_t at, end;
        uint32_t *owner; /* how many buffers its owner has; NULL: nobody counts */
};
static inline size_t pool_held(const struct pool_hold *h) {
        return h->data ? h->end - h->at : 0;
}
/* Keeps a copy of these bytes; there must be none waiting, and size is at most POOL_SIZE. 0 or -ENOBUFS: none is
 * free, or the owner has its share. */
int pool_keep(struct pool_hold *h, const void *bytes, size_t size);
void pool_used(struct pool_hold *h, size_t size); /* the first of them are gone */
void pool_drop(struct pool_hold *h);
