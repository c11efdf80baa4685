/* Bounds-checked little-endian messages: numbers, strings and blobs, one after another.
 *
 * A writer appends to a buf. A reader walks bytes that may be hostile: the first value that does not fit marks it
 * failed, and everything read afterwards is zero or "". Check once, with wire_ok, before using what was read. Strings
 * and blobs are returned in place, not copied; strings are NUL-terminated in the message and contain no other NUL. */
#pragma once

#include "base/buf.h"

void wire_put_u16(struct buf *b, uint16_t v);
void wire_put_u32(struct buf *b, uint32_t v);
void wire_put_u64(struct buf *b, uint64_t v);
void wire_put_str(struct buf *b, const char *s);
void wire_put_blob(struct buf *b, const void *data, size_t size); /* starts on a multiple of 8 */

struct wire {
        const uint8_t *start;
        size_t size;
        size_t at;
        bool failed;
};

uint16_t wire_u16(struct wire *w);
uint32_t wire_u32(struct wire *w);
uint64_t wire_u64(struct wire *w);
const char *wire_str(struct wire *w);
const void *wire_blob(struct wire *w, size_t *ret_size);
const void *wire_bytes(struct wire *w, size_t size); /* exactly this many, no length in front */
static inline bool wire_ok(const struct wire *w) {
        return !w->failed;
}
static inline bool wire_end(const struct wire *w) {
        return w->failed || w->at == w->size;
}
