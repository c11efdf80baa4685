/* Times and what is said about them: a clock, a set of samples, percentiles. */
#pragma once

#include <time.h>

#include "base/macro.h"

struct samples {
        uint64_t *ns; /* room for as many rounds as the run has */
        size_t count;
};

/* Percentiles by nearest rank, in nanoseconds. All zero when there are no samples. */
struct summary {
        uint64_t min, p50, p95, p99;
};

static inline uint64_t measure_now(void) {
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Sorts the samples in place. */
struct summary measure_summary(struct samples *s);
