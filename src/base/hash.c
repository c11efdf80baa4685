/* BLAKE2b with a 32-byte result and no key, as RFC 7693 defines it. Tested against its vector and others. */
#include "base/hash.h"

static const uint64_t iv[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                               0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static const uint8_t sigma[12][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static uint64_t rotate(uint64_t x, unsigned n) {
        return x >> n | x << (64 - n);
}

static void mix(uint64_t v[16], unsigned a, unsigned b, unsigned c, unsigned d, uint64_t x, uint64_t y) {
        v[a] += v[b] + x;
        v[d] = rotate(v[d] ^ v[a], 32);
        v[c] += v[d];
        v[b] = rotate(v[b] ^ v[c], 24);
        v[a] += v[b] + y;
        v[d] = rotate(v[d] ^ v[a], 16);
        v[c] += v[d];
        v[b] = rotate(v[b] ^ v[c], 63);
}

static void compress(struct hash *s, bool last) {
        uint64_t v[16], m[16];

        for (unsigned i = 0; i < 16; i++) {
                m[i] = 0;
                for (unsigned k = 0; k < 8; k++)
                        m[i] |= (uint64_t)s->block[8 * i + k] << (8 * k);
        }
        for (unsigned i = 0; i < 8; i++) {
                v[i] = s->h[i];
                v[i + 8] = iv[i];
        }
        v[12] ^= s->count;
        if (last)
                v[14] = ~v[14];
        for (unsigned r = 0; r < 12; r++) {
                const uint8_t *o = sigma[r];

                mix(v, 0, 4, 8, 12, m[o[0]], m[o[1]]);
                mix(v, 1, 5, 9, 13, m[o[2]], m[o[3]]);
                mix(v, 2, 6, 10, 14, m[o[4]], m[o[5]]);
                mix(v, 3, 7, 11, 15, m[o[6]], m[o[7]]);
                mix(v, 0, 5, 10, 15, m[o[8]], m[o[9]]);
                mix(v, 1, 6, 11, 12, m[o[10]], m[o[11]]);
                mix(v, 2, 7, 8, 13, m[o[12]], m[o[13]]);
                mix(v, 3, 4, 9, 14, m[o[14]], m[o[15]]);
        }
        for (unsigned i = 0; i < 8; i++)
                s->h[i] ^= v[i] ^ v[i + 8];
}

void hash_init(struct hash *s) {
        *s = (struct hash){0};
        memcpy(s->h, iv, sizeof s->h);
        s->h[0] ^= 0x01010000 ^ HASH_SIZE;
}

void hash_add(struct hash *s, const void *data, size_t size) {
        const uint8_t *p = data;

        while (size > 0) {
                if (s->used == sizeof s->block) { /* only when more follows: the last block is marked */
                        s->count += s->used;
                        compress(s, false);
                        s->used = 0;
                }
                size_t n = MIN(size, sizeof s->block - s->used);
                memcpy(s->block + s->used, p, n);
                s->used += n;
                p += n;
                size -= n;
        }
}

void hash_add_str(struct hash *s, const char *text) {
        uint64_t n = strlen(text);

        hash_add(s, &n, sizeof n);
        hash_add(s, text, n);
}

void hash_done(struct hash *s, uint8_t ret[HASH_SIZE]) {
        s->count += s->used;
        memset(s->block + s->used, 0, sizeof s->block - s->used);
        compress(s, true);
        for (unsigned i = 0; i < HASH_SIZE; i++)
                ret[i] = (uint8_t)(s->h[i / 8] >> (8 * (i % 8)));
}

void hash_text(const uint8_t hash[HASH_SIZE], char ret[HASH_TEXT_SIZE]) {
        static const char digits[] = "0123456789abcdef";

        for (unsigned i = 0; i < HASH_SIZE; i++) {
                ret[2 * i] = digits[hash[i] >> 4];
                ret[2 * i + 1] = digits[hash[i] & 15];
        }
        ret[2 * HASH_SIZE] = '\0';
}
