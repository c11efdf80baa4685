/* Counting and bounding: token buckets, and sums of what passed per host and port. Plain memory, no I/O. */
#pragma once

#include "wire/gate.h"

/* rate tokens a second, at most burst saved up. UINT64_MAX: no bound. */
struct meter_bucket {
        uint64_t rate, burst;
        int64_t tokens; /* in thousandths; below 0 when more was taken than was there: it has to be made up first */
        uint64_t last;  /* ms of the last refill */
};
void meter_bucket_init(struct meter_bucket *b, uint64_t rate, uint64_t burst, uint64_t now);
uint64_t meter_bucket_has(struct meter_bucket *b, uint64_t now); /* how many may be taken now */
void meter_bucket_take(struct meter_bucket *b, uint64_t count);  /* also more than it has */
/* Milliseconds until count are there, at least 1. */
uint64_t meter_bucket_wait(const struct meter_bucket *b, uint64_t count);

#define METER_HOSTS 256
struct meter_host {
        char host[HOSTNAME_SIZE];
        uint16_t port;
        int32_t rule;
        bool used;
        uint32_t active;                      /* connections that count here now */
        uint64_t connections, sent, received; /* since the last report */
};
struct meter_hosts {
        struct meter_host items[METER_HOSTS];
        struct meter_host rest; /* everything that found no place: host "*", port 0 */
        bool changed;
};

/* The entry for a host; one that nobody uses and that has nothing to report gives way when the table is full. */
struct meter_host *meter_host(struct meter_hosts *t, const char *host, uint16_t port, int32_t rule);
