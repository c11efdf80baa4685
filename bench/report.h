/* What a run of bench/start found, and how it is told: a table for people, JSON for programs. */
#pragma once

#include "base/err.h"
#include "bench/floor.h"
#include "bench/measure.h"
#include "bench/memory.h"

struct row {
        const char *name;  /* short, for JSON and options */
        const char *label; /* what was started, for people */
        unsigned wanted;   /* samples asked for; 0 leaves the row out */
        struct samples samples;
        struct summary sum;
        char skip[320]; /* why there are no times */
};

enum { ROW_BARE, ROW_FLOOR, ROW_FLOOR_TEMPLATE, ROW_STOCKADE, ROW_BWRAP, ROW_RUNC, ROW_DOCKER, ROW_RUNSC, ROWS };

struct report {
        struct row row[ROWS];
        unsigned rounds, warmup, pause_ms;
        uint64_t seed;
        unsigned steps; /* of the floor with a tmpfs root */
        const char *step_name[FLOOR_STEPS];
        struct samples step[FLOOR_STEPS];
        struct summary step_sum[FLOOR_STEPS];
        struct memory memory;
        char memory_skip[512]; /* why memory was not measured; empty if it was */
};

/* A number that the project promises, in thousandths. */
struct promise {
        const char *name;
        bool known; /* all rows that it needs have times */
        uint64_t value, limit;
};
enum { PROMISES = 4 };

void report_promises(const struct report *r, struct promise ret[PROMISES]);
void report_print(const struct report *r, bool steps);
int report_write_json(const struct report *r, const char *path, struct err *err);
