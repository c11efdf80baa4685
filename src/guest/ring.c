/* Rings. An empty ring begins again at the front of its memory, so that a program that says little now and then touches
 * one page and not all of them. */
#include "guest/ring.h"

#include <errno.h>
#include <sys/uio.h>

#include "guest/memory.h"

static int open_ring(struct ring *r) {
        if (r->data)
                return 0;
        r->data = memory_map(r->size);
        r->base = r->newest;
        return r->data ? 0 : -ENOMEM;
}

static size_t index_of(const struct ring *r, uint64_t offset) {
        return (size_t)((offset - r->base) % r->size);
}

static void begin_again(struct ring *r) {
        if (r->oldest == r->newest)
                r->base = r->newest;
}

ssize_t ring_fill(struct ring *r, int fd, size_t max) {
        struct iovec parts[2];
        ssize_t n;

        assert(max > 0 && max <= r->size);
        if (open_ring(r) < 0)
                return -ENOMEM;
        begin_again(r);
        size_t at = index_of(r, r->newest), first = MIN(max, r->size - at);
        parts[0] = (struct iovec){r->data + at, first};
        parts[1] = (struct iovec){r->data, max - first};
        do
                n = readv(fd, parts, max > first ? 2 : 1);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return n < 0 ? -errno : 0;
        r->newest += (uint64_t)n;
        if (r->newest - r->oldest > r->size)
                r->oldest = r->newest - r->size;
        return n;
}

int ring_add(struct ring *r, const void *data, size_t size) {
        assert(size <= ring_room(r));
        if (open_ring(r) < 0)
                return -ENOMEM;
        begin_again(r);
        size_t at = index_of(r, r->newest), first = MIN(size, r->size - at);
        memcpy(r->data + at, data, first);
        memcpy(r->data, (const uint8_t *)data + first, size - first);
        r->newest += size;
        return 0;
}

const uint8_t *ring_at(const struct ring *r, uint64_t offset, size_t *ret_size) {
        assert(offset >= r->oldest && offset <= r->newest);
        size_t at = index_of(r, offset);
        *ret_size = (size_t)MIN(r->newest - offset, (uint64_t)(r->size - at));
        return r->data + at;
}

void ring_drop(struct ring *r, uint64_t offset) {
        if (offset > r->oldest)
                r->oldest = MIN(offset, r->newest);
}

void ring_rest(struct ring *r) {
        if (r->oldest == r->newest)
                ring_free(r);
}

void ring_free(struct ring *r) {
        memory_unmap(TAKE_PTR(r->data), r->size);
        r->oldest = r->newest;
}
