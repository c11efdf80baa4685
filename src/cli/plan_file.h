/* A compiled plan with everything that it depends on: what stockade-policy writes and the plan cache keeps.
 *
 *   magic, number of sources, then for each: path, absent (u16), hash of its bytes; then the plan as a blob. */
#pragma once

#include "base/hash.h"
#include "wire/plan.h"

#define PLAN_FILE_MAGIC       "STOCKC01"
#define PLAN_FILE_MAX         (PLAN_MAX_SIZE + 64 * 1024)
#define PLAN_FILE_SOURCES_MAX 64

/* A file or folder entry that the plan was compiled from; both point into the bytes. */
struct plan_source {
        const char *path;
        bool absent;         /* it was looked for, and did not exist */
        const uint8_t *hash; /* HASH_SIZE; of its bytes */
};

struct plan_file {
        struct wire rest; /* of the sources */
        uint32_t left;
        const void *plan; /* not checked: plan_check does */
        size_t plan_size;
};

/* Reads the frame whole: after success every source can be walked, once, and the plan is there. ERR_CORRUPT if it is
 * not a plan file. The bytes must stay. */
int plan_file_open(struct plan_file *ret, const void *bytes, size_t size, struct err *err);
bool plan_file_next(struct plan_file *f, struct plan_source *ret);

/* Writing one: the number of sources, each of them, then the plan. */
void plan_file_begin(struct buf *out, size_t sources);
void plan_file_add(struct buf *out, const struct plan_source *source);
void plan_file_end(struct buf *out, const void *plan, size_t size);
