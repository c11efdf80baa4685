/* Reading the heads of WebSocket frames (RFC 6455, 5.2): a byte of flags and kind, a byte of length, and 2 or 8 more
 * when the length does not fit. */
#include "gate/frames.h"

enum { FINAL = 0x80, RESERVED = 0x70, MASKED = 0x80, LENGTH = 0x7f };

static size_t head_size(const struct frames *f) {
        if (f->have < 2)
                return 2;
        unsigned length = f->head[1] & LENGTH;
        return length == 127 ? 10 : length == 126 ? 4 : 2;
}

static uint64_t payload_size(const struct frames *f) {
        size_t size = head_size(f);
        uint64_t value = 0;

        if (size == 2)
                return f->head[1] & LENGTH;
        for (size_t i = 2; i < size; i++)
                value = value << 8 | f->head[i];
        return value;
}

size_t frames_step(struct frames *f, const uint8_t *bytes, size_t size, bool *ret_end) {
        size_t at = 0;

        *ret_end = false;
        if (f->lost)
                return size;
        while (at < size && f->have < head_size(f)) {
                f->head[f->have++] = bytes[at++];
                if (f->have == head_size(f)) {
                        f->left = payload_size(f);
                        f->lost = (f->head[0] & RESERVED) || (f->head[1] & MASKED);
                }
        }
        if (f->lost || f->have < head_size(f))
                return f->lost ? size : at;
        size_t n = (size_t)MIN((uint64_t)(size - at), f->left);
        f->left -= n;
        if (f->left == 0) {
                *ret_end = (f->head[0] & FINAL) != 0;
                f->have = 0;
        }
        return at + n;
}
