/* Percentiles of a set of samples, by nearest rank: always a time that was really seen. */
#include "bench/measure.h"

static int measure_compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return (x > y) - (x < y);
}

static uint64_t measure_rank(const struct samples *s, size_t percent) {
        size_t rank = (s->count * percent + 99) / 100;
        return s->ns[rank > 0 ? rank - 1 : 0];
}

struct summary measure_summary(struct samples *s) {
        if (s->count == 0)
                return (struct summary){0};
        qsort(s->ns, s->count, sizeof(*s->ns), measure_compare);
        return (struct summary){
                .min = s->ns[0],
                .p50 = measure_rank(s, 50),
                .p95 = measure_rank(s, 95),
                .p99 = measure_rank(s, 99),
        };
}
