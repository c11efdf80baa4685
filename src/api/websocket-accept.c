/* SHA-1 (RFC 3174) of a key and a constant. It protects nothing, which is the only reason to have SHA-1. */
#include "api/websocket-accept.h"

#include <stdio.h>

#include "api/encode.h"

static uint32_t turn(uint32_t v, unsigned by) {
        return v << by | v >> (32 - by);
}

static void block(uint32_t h[5], const uint8_t *p) {
        uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

        for (unsigned i = 0; i < 16; i++)
                w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
                       p[4 * i + 3];
        for (unsigned i = 16; i < 80; i++)
                w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        for (unsigned i = 0; i < 80; i++) {
                uint32_t f = i < 20   ? (b & c) | (~b & d)
                             : i < 40 ? b ^ c ^ d
                             : i < 60 ? (b & c) | (b & d) | (c & d)
                                      : b ^ c ^ d;
                uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
                uint32_t t = turn(a, 5) + f + e + k + w[i];

                e = d;
                d = c;
                c = turn(b, 30);
                b = a;
                a = t;
        }
        h[0] += a;
        h[1] += b;
        h[2] += c;
        h[3] += d;
        h[4] += e;
}

bool websocket_accept(const char *key, char ret[WEBSOCKET_ACCEPT]) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
        uint8_t bytes[128] = {0}, hash[20];
        _cleanup_buf_ struct buf text = {0};

        if (strlen(key) != 24 || strspn(key, letters) != 22 || !str_eq(key + 22, "=="))
                return false;
        int size = snprintf((char *)bytes, sizeof bytes, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key); /* 60 */
        bytes[size] = 0x80;
        bytes[126] = (uint8_t)(8 * size >> 8);
        bytes[127] = (uint8_t)(8 * size);
        block(h, bytes);
        block(h, bytes + 64);
        for (unsigned i = 0; i < 20; i++)
                hash[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
        encode_base64(&text, hash, sizeof hash);
        if (!buf_ok(&text) || text.size != WEBSOCKET_ACCEPT - 1)
                return false;
        memcpy(ret, text.data, WEBSOCKET_ACCEPT);
        return true;
}
