/* A table family: a struct, its columns, and the queries that write, remove and load it. */
#pragma once

#include <sqlite3.h>

#include "store/store.h"

enum family_kind {
        FAMILY_TEXT,   /* char[] */
        FAMILY_NUMBER, /* uint64_t or int64_t */
        FAMILY_BOOL,
        FAMILY_BYTES, /* uint8_t[] of a fixed size */
        FAMILY_BLOB,  /* const void *, and a size_t elsewhere; NULL where there is none */
};

struct family_column {
        enum family_kind kind;
        size_t offset, size; /* in the struct */
        size_t size_offset;  /* of a blob's size */
};
#define COLUMN(kind, type, member)                                                                                     \
        { FAMILY_##kind, offsetof(struct type, member), sizeof(((struct type *)0)->member), 0 }
#define COLUMN_BLOB(type, member)                                                                                      \
        { FAMILY_BLOB, offsetof(struct type, member), sizeof(const void *), offsetof(struct type, member##_size) }

enum { FAMILY_COLUMNS_MAX = 24, FAMILY_PUTS = 2 };

/* Column i is parameter ?i+1 of put and remove, and result column i of load. Keys come first. */
struct family {
        const char *name;
        size_t row_size;
        const struct family_column *columns;
        size_t column_count;
        const char *put[FAMILY_PUTS]; /* executed in order; the second may be NULL */
        const char *remove;
        const char *load; /* oldest first */
        bool wipe;        /* what is removed or replaced must not stay in the log */
};

extern const struct family family_sandbox, family_run, family_disk, family_snapshot, family_image, family_request,
        family_revoked, family_capability, family_ssh_key, family_data_key, family_secret;
extern const char family_run_recent[]; /* of one sandbox (?1), below a number (?2), newest first, at most ?3 */

int family_bind(const struct family *f, sqlite3_stmt *s, const void *row); /* a result of SQLite */
/* Fills a row from a result; its blobs point into the statement. ERR_CORRUPT when a value is not what it has to be. */
int family_read(const struct family *f, sqlite3_stmt *s, void *row);
size_t family_blobs(const struct family *f, const void *row);                     /* bytes that its pointers lead to */
void family_copy(const struct family *f, void *to, const void *row, void *blobs); /* with its blobs, into that room */
