/* Token buckets and the table of hosts. */
#include "gate/meter.h"

#define MOST (INT64_MAX / 4000) /* tokens, so that thousandths of them can be added up */

void meter_bucket_init(struct meter_bucket *b, uint64_t rate, uint64_t burst, uint64_t now) {
        *b = (struct meter_bucket){.rate = rate, .last = now};
        if (rate == UINT64_MAX)
                return;
        b->rate = MIN(rate, (uint64_t)MOST);
        b->burst = MIN(burst, (uint64_t)MOST);
        b->tokens = (int64_t)b->burst * 1000;
}

uint64_t meter_bucket_has(struct meter_bucket *b, uint64_t now) {
        if (b->rate == UINT64_MAX)
                return UINT64_MAX;
        if (now > b->last) {
                int64_t full = (int64_t)b->burst * 1000, more;

                if (__builtin_mul_overflow(now - b->last, b->rate, &more) ||
                    __builtin_add_overflow(b->tokens, more, &more) || more > full)
                        more = full;
                b->tokens = more;
                b->last = now;
        }
        return b->tokens > 0 ? (uint64_t)b->tokens / 1000 : 0;
}

void meter_bucket_take(struct meter_bucket *b, uint64_t count) {
        if (b->rate == UINT64_MAX)
                return;
        int64_t least = -(int64_t)MOST * 1000;
        b->tokens = MAX(b->tokens - (int64_t)MIN(count, (uint64_t)MOST) * 1000, least);
}

uint64_t meter_bucket_wait(const struct meter_bucket *b, uint64_t count) {
        int64_t want = (int64_t)MIN(count, b->burst) * 1000;

        if (b->rate == UINT64_MAX || b->tokens >= want)
                return 1;
        return b->rate == 0 ? 1000 : MAX((uint64_t)(want - b->tokens) / b->rate, (uint64_t)1);
}

static bool quiet(const struct meter_host *h) {
        return h->active == 0 && h->connections == 0 && h->sent == 0 && h->received == 0;
}

struct meter_host *meter_host(struct meter_hosts *t, const char *host, uint16_t port, int32_t rule) {
        struct meter_host *place = NULL;

        for (size_t i = 0; i < METER_HOSTS; i++) {
                struct meter_host *h = &t->items[i];

                if (h->used && h->port == port && h->rule == rule && str_eq(h->host, host))
                        return h;
                if (!h->used) {
                        place = h;
                        break; /* places fill from the front */
                }
                if (!place && quiet(h))
                        place = h;
        }
        if (!place) {
                t->rest.used = true;
                t->rest.rule = -1;
                (void)snprintf(t->rest.host, sizeof t->rest.host, "*");
                return &t->rest;
        }
        *place = (struct meter_host){.used = true, .port = port, .rule = rule};
        (void)snprintf(place->host, sizeof place->host, "%s", host);
        return place;
}
