/* Where a body ends: by its length, by chunks, or with the connection.
 *
 * One byte of framing after another through a small machine; payload in runs. The state after any cut of the bytes
 * is the same as without the cut. Nothing optional of chunked coding is accepted: no extension, no white space, no
 * trailer. */
#include <sys/types.h>

#include "base/http.h"

#define DIGITS_MAX 8

enum state {
        SIZE,    /* hexadecimal digits of a chunk's size, then CR */
        SIZE_LF, /* LF after them */
        DATA,    /* left bytes of payload */
        DATA_CR, /* CR after a chunk */
        DATA_LF, /* LF after it */
        LAST_CR, /* after the size 0: the empty line that ends it all */
        LAST_LF,
        END,
        BROKEN,
};

void http_body_init(struct http_body *b, enum http_framing framing, uint64_t length) {
        *b = (struct http_body){.framing = framing, .state = SIZE};
        switch (framing) {
        case HTTP_LENGTH:
                b->left = length;
                b->done = length == 0;
                break;
        case HTTP_CHUNKED:
        case HTTP_UNTIL_CLOSE:
                break;
        case HTTP_NO_BODY:
        default:
                b->done = true;
        }
}

static int digit(uint8_t c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum state size_byte(struct http_body *b, uint8_t c) {
        int value = digit(c);

        if (value >= 0 && b->digits < DIGITS_MAX) {
                b->left = b->left << 4 | (uint64_t)value;
                b->digits++;
                return SIZE;
        }
        return c == '\r' && b->digits > 0 ? SIZE_LF : BROKEN;
}

/* One byte that is not payload. */
static enum state framing_byte(struct http_body *b, uint8_t c) {
        switch ((enum state)b->state) {
        case SIZE:
                return size_byte(b, c);
        case SIZE_LF:
                b->digits = 0;
                return c != '\n' ? BROKEN : b->left > 0 ? DATA : LAST_CR;
        case DATA_CR:
                return c == '\r' ? DATA_LF : BROKEN;
        case DATA_LF:
                return c == '\n' ? SIZE : BROKEN;
        case LAST_CR:
                return c == '\r' ? LAST_LF : BROKEN;
        case LAST_LF:
                return c == '\n' ? END : BROKEN;
        case DATA:
        case END:
        case BROKEN:
        default:
                return BROKEN;
        }
}

static ssize_t feed_chunks(struct http_body *b, const uint8_t *bytes, size_t size,
                           void (*on_data)(void *context, size_t at, size_t size), void *context) {
        size_t at = 0;

        while (at < size && !b->done) {
                if (b->state == DATA) {
                        size_t n = (size_t)MIN((uint64_t)(size - at), b->left);

                        if (on_data)
                                on_data(context, at, n);
                        at += n;
                        b->left -= n;
                        if (b->left == 0)
                                b->state = DATA_CR;
                        continue;
                }
                b->state = framing_byte(b, bytes[at]);
                if (b->state == BROKEN)
                        return ERR_INPUT;
                at++;
                b->done = b->state == END;
        }
        return (ssize_t)at;
}

ssize_t http_body_feed(struct http_body *b, const uint8_t *bytes, size_t size,
                       void (*on_data)(void *context, size_t at, size_t size), void *context) {
        size_t n;

        if (b->done)
                return 0;
        switch (b->framing) {
        case HTTP_CHUNKED:
                return feed_chunks(b, bytes, size, on_data, context);
        case HTTP_LENGTH:
                n = (size_t)MIN((uint64_t)size, b->left);
                b->left -= n;
                b->done = b->left == 0;
                break;
        case HTTP_UNTIL_CLOSE:
                n = size;
                break;
        case HTTP_NO_BODY:
        default:
                return 0;
        }
        if (n > 0 && on_data)
                on_data(context, 0, n);
        return (ssize_t)n;
}
