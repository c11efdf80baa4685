/* Token buckets and counts in open hash tables with a few places for each hash. */
#include "api/rates.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PLACES    4096 /* of the table of buckets: a power of two */
#define WAYS      8    /* where one may be */
#define ADDRESSES 8192
#define MINUTE    60000U

struct bucket {
        uint64_t key;    /* of rate and name; 0: free */
        uint64_t when;   /* tokens are as of then */
        uint64_t tokens; /* in 1/60000 */
};

struct count {
        uint64_t key;
        unsigned connections;
};

struct rates {
        uint64_t rates[RATES]; /* per minute */
        uint64_t seed[2];
        struct bucket buckets[PLACES];
        struct count counts[ADDRESSES];
};

struct rates *rates_new(void) {
        struct rates *l = calloc(1, sizeof *l);

        if (l && getrandom(l->seed, sizeof l->seed, 0) != (ssize_t)sizeof l->seed) {
                free(l);
                return NULL;
        }
        for (unsigned i = 0; l && i < RATES; i++)
                l->rates[i] = UINT64_MAX;
        return l;
}

void rates_free(struct rates *l) {
        free(l);
}

void rates_set(struct rates *l, enum rate r, uint64_t per_minute) {
        l->rates[r] = per_minute;
}

/* A hash that nobody outside can aim at: the seed is ours. Never 0. */
static uint64_t key_of(const struct rates *l, unsigned kind, const void *data, size_t size) {
        const uint8_t *p = data;
        uint64_t h = l->seed[0] ^ (kind * 0x9e3779b97f4a7c15ULL);

        for (size_t i = 0; i < size; i++) {
                h = (h ^ p[i]) * 0xff51afd7ed558ccdULL;
                h ^= h >> 29;
                h += l->seed[1];
        }
        h ^= h >> 32;
        h *= 0xc4ceb9fe1a85ec53ULL;
        h ^= h >> 29;
        return h ? h : 1;
}

/* What of an address is one neighbour. */
static size_t address_size(const uint8_t address[16]) {
        static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

        return memcmp(address, mapped, sizeof mapped) == 0 ? 16 : 8;
}

bool rates_same(const uint8_t a[16], const uint8_t b[16]) {
        return address_size(a) == address_size(b) && memcmp(a, b, address_size(a)) == 0;
}

static struct count *count_of(struct rates *l, const uint8_t address[16], bool make) {
        uint64_t key = key_of(l, RATES, address, address_size(address));
        struct count *empty = NULL;

        for (unsigned i = 0; i < WAYS; i++) {
                struct count *c = &l->counts[(key + i) & (ADDRESSES - 1)];

                if (c->key == key)
                        return c;
                if (!empty && c->connections == 0)
                        empty = c;
        }
        if (make && empty)
                *empty = (struct count){.key = key};
        return make ? empty : NULL;
}

bool rates_enter(struct rates *l, const uint8_t address[16], unsigned most) {
        struct count *c = count_of(l, address, true);

        if (!c || c->connections >= most)
                return false;
        c->connections++;
        return true;
}

void rates_leave(struct rates *l, const uint8_t address[16]) {
        struct count *c = count_of(l, address, false);

        if (c && c->connections > 0)
                c->connections--;
}

static struct bucket *bucket_of(struct rates *l, uint64_t key, uint64_t full, uint64_t now) {
        struct bucket *oldest = NULL;

        for (unsigned i = 0; i < WAYS; i++) {
                struct bucket *b = &l->buckets[(key + i) & (PLACES - 1)];

                if (b->key == key)
                        return b;
                if (!oldest || b->key == 0 || (oldest->key != 0 && b->when < oldest->when))
                        oldest = b;
        }
        /* whoever takes the place of another who still waits has what that one has left, and not a new start */
        bool fresh = oldest->key == 0 || now - oldest->when > MINUTE;
        *oldest = (struct bucket){.key = key, .when = now, .tokens = fresh ? full : oldest->tokens};
        return oldest;
}

unsigned rates_ask(struct rates *l, enum rate r, const void *who, size_t size, uint64_t now) {
        uint64_t rate = l->rates[r], full = rate * MINUTE;

        if (rate > UINT32_MAX)
                return 0;
        if (r != RATE_OWNER && size == 16)
                size = address_size(who);
        struct bucket *b = bucket_of(l, key_of(l, r, who, size), full, now);
        uint64_t more = (now - b->when) * rate;
        b->tokens = MIN(full, b->tokens + more);
        b->when = now;
        if (b->tokens < MINUTE)
                return (unsigned)((MINUTE - b->tokens + rate - 1) / rate) + 1;
        b->tokens -= MINUTE;
        return 0;
}

void rates_sweep(struct rates *l, uint64_t now) {
        for (size_t i = 0; i < PLACES; i++)
                if (l->buckets[i].key != 0 && now - l->buckets[i].when > 2 * MINUTE)
                        l->buckets[i] = (struct bucket){0};
}
