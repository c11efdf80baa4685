/* Growing buffer. */
#include "base/buf.h"

#include <stdarg.h>

void buf_free(struct buf *b) {
        free(b->data);
        *b = (struct buf){.max = b->max};
}

static inline size_t buf_max(const struct buf *b) {
        return b->max ? b->max : 1 << 20;
}

static bool buf_grow(struct buf *b, size_t more) {
        size_t max = buf_max(b), need;

        if (b->failed)
                return false;
        if (__builtin_add_overflow(b->size, more, &need) || need > max) {
                b->failed = true;
                return false;
        }
        if (need + 1 <= b->room)
                return true;
        size_t room = MAX(need + 1, MIN(2 * b->room, max + 1));
        char *data = realloc(b->data, MAX(room, 256));
        if (!data) {
                b->failed = true;
                return false;
        }
        b->data = data;
        b->room = MAX(room, 256);
        return true;
}

static inline bool buf_reserve(struct buf *b, size_t more) {
        return (!b->failed && more < b->room - b->size && b->size + more <= buf_max(b)) || buf_grow(b, more);
}

void buf_add(struct buf *b, const void *data, size_t size) {
        if (!buf_reserve(b, size))
                return;
        if (size > 0)
                memcpy(b->data + b->size, data, size);
        b->size += size;
        b->data[b->size] = '\0';
}

void buf_str(struct buf *b, const char *s) {
        buf_add(b, s, strlen(s));
}

/* It is written at once if there is room; what was cut off is written again when there is. */
void buf_printf(struct buf *b, const char *format, ...) {
        size_t room = b->failed ? 0 : b->room - b->size;
        va_list args;

        va_start(args, format);
        int n = vsnprintf(room > 0 ? b->data + b->size : NULL, room, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < room && b->size + (size_t)n <= buf_max(b)) {
                b->size += (size_t)n;
                return;
        }
        if (room > 0)
                b->data[b->size] = '\0';
        if (n < 0 || !buf_reserve(b, (size_t)n)) {
                b->failed = true;
                return;
        }
        va_start(args, format);
        (void)vsnprintf(b->data + b->size, (size_t)n + 1, format, args);
        va_end(args);
        b->size += (size_t)n;
}

void buf_pad(struct buf *b, size_t alignment) {
        static const char zeros[16];
        size_t over = b->size % alignment;

        assert(alignment <= sizeof zeros);
        if (over)
                buf_add(b, zeros, alignment - over);
}
