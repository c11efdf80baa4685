/* Unit tests of the ring against a simple model: every byte at its offset, nothing beyond the room, memory only while
 * it is needed. */
#include <errno.h>
#include <unistd.h>

#include "base/test.h"
#include "guest/ring.h"

#define SIZE  4096
#define TOTAL (1 << 20)

static uint8_t at(uint64_t offset) {
        return (uint8_t)(offset * 7 + (offset >> 8) * 3);
}

static bool holds(const struct ring *r) {
        for (uint64_t o = r->oldest; o < r->newest;) {
                size_t n;
                const uint8_t *p = ring_at(r, o, &n);

                if (n == 0 || n > r->newest - o)
                        return false;
                for (size_t i = 0; i < n; i++)
                        if (p[i] != at(o + i))
                                return false;
                o += n;
        }
        return true;
}

static unsigned draw(void) {
        static uint32_t seed = 1;

        seed = seed * 1664525 + 1013904223;
        return seed >> 8;
}

static void adds_and_drops(void) {
        struct ring r;
        uint8_t piece[SIZE];

        ring_init(&r, SIZE);
        CHECK(!r.data && ring_room(&r) == SIZE);
        while (r.newest < TOTAL) {
                size_t n = draw() % (ring_room(&r) + 1);

                for (size_t i = 0; i < n; i++)
                        piece[i] = at(r.newest + i);
                CHECK(ring_add(&r, piece, n) == 0);
                CHECK(ring_used(&r) <= SIZE && holds(&r));
                ring_drop(&r, r.oldest + draw() % (ring_used(&r) + 1));
                CHECK(holds(&r));
                if (draw() % 16 == 0) {
                        ring_drop(&r, UINT64_MAX);
                        CHECK(r.oldest == r.newest);
                        ring_rest(&r);
                        CHECK(!r.data);
                }
        }
        ring_drop(&r, 0);
        CHECK(r.newest >= TOTAL);
        ring_free(&r);
        CHECK(!r.data && r.oldest == r.newest && r.newest >= TOTAL);
}

static void fills_and_forgets(void) {
        struct ring r;
        uint8_t piece[SIZE];
        int pair[2];
        uint64_t written = 0;

        CHECK(pipe(pair) == 0);
        ring_init(&r, SIZE);
        while (written < TOTAL) {
                size_t n = draw() % SIZE + 1, left = n;

                for (size_t i = 0; i < n; i++)
                        piece[i] = at(written + i);
                CHECK(write(pair[1], piece, n) == (ssize_t)n);
                written += n;
                while (left > 0) {
                        size_t some = draw() % SIZE + 1, max = MIN(left, some);

                        CHECK(ring_fill(&r, pair[0], max) == (ssize_t)max);
                        left -= max;
                        CHECK(ring_used(&r) <= SIZE && holds(&r));
                }
                CHECK(r.newest == written && r.oldest == (written > SIZE ? written - SIZE : 0));
        }
        (void)close(pair[1]);
        CHECK(ring_fill(&r, pair[0], 10) == 0);
        (void)close(pair[0]);
        CHECK(ring_fill(&r, pair[0], 10) == -EBADF);
        ring_rest(&r);
        CHECK(r.data && holds(&r)); /* not empty: it stays */
        ring_free(&r);
}

/* What is said now and then, and taken at once, always uses the same first bytes. */
static void rests_at_the_front(void) {
        struct ring r;
        const uint8_t *first = NULL;
        size_t n;

        ring_init(&r, SIZE);
        for (unsigned i = 0; i < 1000; i++) {
                CHECK(ring_add(&r, "0123456789", 10) == 0);
                const uint8_t *p = ring_at(&r, r.oldest, &n);
                CHECK(n == 10 && memcmp(p, "0123456789", 10) == 0 && (!first || p == first));
                first = p;
                ring_drop(&r, r.newest);
        }
        CHECK(r.newest == 10000);
        ring_free(&r);
}

TEST_MAIN(TEST(adds_and_drops), TEST(fills_and_forgets), TEST(rests_at_the_front))
