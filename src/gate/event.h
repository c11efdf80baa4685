/* What is told about a ward: refusals with counts, sums of what was used, and the file of the last refusals that the
 * sandbox itself can read.
 *
 * Equal refusals (reason, host, port, method, path) become one report with a count. Reports are bounded per second;
 * what does not fit is counted later or, when the table is full of others, only in the totals. Nobody can make the gate
 * write or send without bound. */
#pragma once

#include "gate/loop.h"
#include "gate/meter.h"

#define EVENT_KINDS      64
#define EVENT_LINES      64
#define EVENT_LINE_SIZE  480
#define EVENT_RATE       50 /* reports a second */
#define EVENT_FLUSH_MS   1000
#define EVENT_USED_MS    3000
#define EVENT_DENIALS_MS 250

struct event_item {
        struct gate_event event; /* count: not reported yet */
        uint64_t last;           /* when it was seen */
};

struct event_log {
        struct event_item items[EVENT_KINDS];
        size_t count;
        struct meter_bucket rate;
        char lines[EVENT_LINES][EVENT_LINE_SIZE]; /* a ring, the oldest at next % EVENT_LINES once it is full */
        uint64_t line_count;                      /* ever */
        uint64_t lines_written;                   /* line_count when the file was written */
        uint64_t denials_at, used_at;             /* when it was last written, reported */
        struct loop_timer timer;
        uint32_t place; /* of the ward that this belongs to */
};

struct ward;

void event_init(struct ward *w);
void event_finish(struct ward *w);

/* A refusal happened. e->count is ignored. */
void event_refused(struct ward *w, const struct gate_event *e);
/* Sums changed: they are reported in a while. */
void event_used(struct ward *w);
/* Reports everything that is pending now. */
void event_flush(struct ward *w);
