/* base64: strict reading, plain writing. */
#include "base/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool base64_read(const char *text, size_t size, void *ret, size_t room, size_t *ret_size) {
        uint8_t *out = ret;
        size_t n = 0, padding = 0;
        uint32_t bits = 0;
        unsigned have = 0;

        while (padding < 2 && padding < size && text[size - 1 - padding] == '=')
                padding++;
        if ((padding > 0 && size % 4 != 0) || (size - padding) % 4 == 1)
                return false;
        size -= padding;
        if (padding > 0 && (4 - size % 4) % 4 != padding)
                return false;
        for (size_t i = 0; i < size; i++) {
                const char *at = text[i] ? strchr(letters, text[i]) : NULL;

                if (!at)
                        return false;
                bits = bits << 6 | (uint32_t)(at - letters);
                have += 6;
                if (have < 8)
                        continue;
                have -= 8;
                if (n == room)
                        return false;
                out[n++] = (uint8_t)(bits >> have);
                bits &= (1U << have) - 1;
        }
        if (bits != 0)
                return false;
        *ret_size = n;
        return true;
}

char *base64_write(const void *data, size_t size, char *ret) {
        const uint8_t *bytes = data;
        uint32_t bits = 0;
        unsigned have = 0;
        char *out = ret;

        for (size_t i = 0; i < size; i++) {
                bits = bits << 8 | bytes[i];
                for (have += 8; have >= 6;) {
                        have -= 6;
                        *out++ = letters[bits >> have & 63];
                }
                bits &= (1U << have) - 1;
        }
        if (have > 0)
                *out++ = letters[bits << (6 - have) & 63];
        *out = '\0';
        return ret;
}
