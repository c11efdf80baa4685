/* Reading and writing messages. The reader never allocates, so code between clone and exec may use it. */
#include "wire/wire.h"

void wire_put_u16(struct buf *b, uint16_t v) {
        uint8_t d[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
        buf_add(b, d, sizeof d);
}

void wire_put_u32(struct buf *b, uint32_t v) {
        wire_put_u16(b, (uint16_t)v);
        wire_put_u16(b, (uint16_t)(v >> 16));
}

void wire_put_u64(struct buf *b, uint64_t v) {
        wire_put_u32(b, (uint32_t)v);
        wire_put_u32(b, (uint32_t)(v >> 32));
}

void wire_put_str(struct buf *b, const char *s) {
        size_t n = strlen(s);

        wire_put_u32(b, (uint32_t)n);
        buf_add(b, s, n + 1);
}

void wire_put_blob(struct buf *b, const void *data, size_t size) {
        wire_put_u32(b, (uint32_t)size);
        buf_pad(b, 8);
        buf_add(b, data, size);
}

const void *wire_bytes(struct wire *w, size_t size) {
        if (w->failed || size > w->size - w->at) {
                w->failed = true;
                return NULL;
        }
        const void *p = w->start + w->at;
        w->at += size;
        return p;
}

static uint64_t wire_number(struct wire *w, size_t size) {
        const uint8_t *p = wire_bytes(w, size);
        uint64_t v = 0;

        for (size_t i = 0; p && i < size; i++)
                v |= (uint64_t)p[i] << (8 * i);
        return v;
}

uint16_t wire_u16(struct wire *w) {
        return (uint16_t)wire_number(w, 2);
}

uint32_t wire_u32(struct wire *w) {
        return (uint32_t)wire_number(w, 4);
}

uint64_t wire_u64(struct wire *w) {
        return wire_number(w, 8);
}

const char *wire_str(struct wire *w) {
        size_t n = wire_u32(w);
        const char *s = n < UINT32_MAX ? wire_bytes(w, n + 1) : NULL;

        if (!s || s[n] != '\0' || memchr(s, '\0', n)) {
                w->failed = true;
                return "";
        }
        return s;
}

const void *wire_blob(struct wire *w, size_t *ret_size) {
        size_t n = wire_u32(w);
        const uint8_t *padding = wire_bytes(w, (8 - w->at % 8) % 8);

        for (size_t i = 0; padding && (w->start + w->at) > padding + i; i++)
                if (padding[i] != 0)
                        w->failed = true; /* one form only: a plan's hash says all */
        const void *p = wire_bytes(w, n);
        *ret_size = w->failed ? 0 : n;
        return w->failed ? NULL : p;
}
