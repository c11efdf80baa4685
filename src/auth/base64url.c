/* The writer is libsodium's, which does not look up secrets in tables. */
#include "auth/base64url.h"

#include <sodium.h>

void base64url_add(struct buf *out, const void *data, size_t size) {
        const uint8_t *p = data;

        /* whole groups of three bytes, so that the pieces are as the whole */
        for (size_t n; size > 0; p += n, size -= n) {
                char text[BASE64URL_TEXT(768)];

                n = MIN(size, (size_t)768);
                (void)sodium_bin2base64(text, sizeof text, p, n, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
                buf_str(out, text);
        }
}

/* The value of a character, or 64. Not libsodium's reader: that of 1.0.18 takes some bytes above 127 for others of the
 * alphabet, so that a token would have more than one spelling. What is read here is not secret to whoever sent it. */
static unsigned value_of(char c) {
        if (c >= 'A' && c <= 'Z')
                return (unsigned)(c - 'A');
        if (c >= 'a' && c <= 'z')
                return (unsigned)(c - 'a') + 26;
        if (c >= '0' && c <= '9')
                return (unsigned)(c - '0') + 52;
        return c == '-' ? 62 : c == '_' ? 63 : 64;
}

bool base64url_read(const char *text, size_t size, void *ret, size_t room, size_t *ret_size) {
        uint8_t *out = ret;
        size_t n = size / 4 * 3 + (size % 4 ? size % 4 - 1 : 0);
        uint32_t bits = 0;
        unsigned held = 0;

        if (size % 4 == 1 || n > room)
                return false;
        for (size_t i = 0; i < size; i++) {
                unsigned v = value_of(text[i]);

                if (v == 64)
                        return false;
                bits = bits << 6 | v;
                held += 6;
                if (held >= 8) {
                        held -= 8;
                        *out++ = (uint8_t)(bits >> held);
                }
        }
        if (bits & ((1u << held) - 1)) /* bits that belong to no byte */
                return false;
        *ret_size = n;
        return true;
}
