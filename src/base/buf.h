/* A byte buffer that grows up to a cap. A failed append marks the buffer; check once, at the end, with buf_ok. */
#pragma once

#include "base/err.h"

struct buf {
        char *data;  /* NUL-terminated whenever it is not NULL */
        size_t size; /* bytes in use */
        size_t room; /* bytes allocated */
        size_t max;  /* never grows past this; 0 means 1 MiB */
        bool failed; /* an append did not fit or memory ran out */
};

void buf_free(struct buf *b);
#define _cleanup_buf_ _cleanup_(buf_free)

void buf_add(struct buf *b, const void *data, size_t size);
void buf_str(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *format, ...) _printf_(2, 3);
void buf_pad(struct buf *b, size_t alignment);
static inline bool buf_ok(const struct buf *b) {
        return !b->failed;
}
