/* BLAKE2b with a 32-byte result and no key, as RFC 7693 defines it. Tested against its vector and others. */
#include "base/hash.h"

#include <endian.h>

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

/* One of the eight mixings of a round, on words that the compiler keeps in registers. */
#define MIX(a, b, c, d, x, y)                                                                                          \
        do {                                                                                                           \
                a += b + (x);                                                                                          \
                d = rotate(d ^ a, 32);                                                                                 \
                c += d;                                                                                                \
                b = rotate(b ^ c, 24);                                                                                 \
                a += b + (y);                                                                                          \
                d = rotate(d ^ a, 16);                                                                                 \
                c += d;                                                                                                \
                b = rotate(b ^ c, 63);                                                                                 \
        } while (0)

static void compress(struct hash *s, const uint8_t block[128], bool last) {
        uint64_t m[16];
        uint64_t v0 = s->h[0], v1 = s->h[1], v2 = s->h[2], v3 = s->h[3];
        uint64_t v4 = s->h[4], v5 = s->h[5], v6 = s->h[6], v7 = s->h[7];
        uint64_t v8 = iv[0], v9 = iv[1], v10 = iv[2], v11 = iv[3];
        uint64_t v12 = iv[4] ^ s->count, v13 = iv[5], v14 = last ? ~iv[6] : iv[6], v15 = iv[7];

        memcpy(m, block, sizeof m);
        for (unsigned i = 0; i < 16; i++)
                m[i] = le64toh(m[i]);
        for (unsigned r = 0; r < 12; r++) {
                const uint8_t *o = sigma[r];

                MIX(v0, v4, v8, v12, m[o[0]], m[o[1]]);
                MIX(v1, v5, v9, v13, m[o[2]], m[o[3]]);
                MIX(v2, v6, v10, v14, m[o[4]], m[o[5]]);
                MIX(v3, v7, v11, v15, m[o[6]], m[o[7]]);
                MIX(v0, v5, v10, v15, m[o[8]], m[o[9]]);
                MIX(v1, v6, v11, v12, m[o[10]], m[o[11]]);
                MIX(v2, v7, v8, v13, m[o[12]], m[o[13]]);
                MIX(v3, v4, v9, v14, m[o[14]], m[o[15]]);
        }
        s->h[0] ^= v0 ^ v8;
        s->h[1] ^= v1 ^ v9;
        s->h[2] ^= v2 ^ v10;
        s->h[3] ^= v3 ^ v11;
        s->h[4] ^= v4 ^ v12;
        s->h[5] ^= v5 ^ v13;
        s->h[6] ^= v6 ^ v14;
        s->h[7] ^= v7 ^ v15;
}

void hash_init(struct hash *s) {
        memcpy(s->h, iv, sizeof s->h);
        s->h[0] ^= 0x01010000 ^ HASH_SIZE;
        s->count = s->used = 0; /* of the block, only what is used counts */
}

void hash_add(struct hash *s, const void *data, size_t size) {
        const uint8_t *p = data;

        while (size > 0) {
                if (s->used == sizeof s->block) { /* only when more follows: the last block is marked */
                        s->count += s->used;
                        compress(s, s->block, false);
                        s->used = 0;
                }
                if (s->used == 0 && size > sizeof s->block) { /* whole blocks need no copy */
                        s->count += sizeof s->block;
                        compress(s, p, false);
                        p += sizeof s->block;
                        size -= sizeof s->block;
                        continue;
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
        compress(s, s->block, true);
        for (unsigned i = 0; i < HASH_SIZE / 8; i++) {
                uint64_t word = htole64(s->h[i]);

                memcpy(ret + 8 * i, &word, sizeof word);
        }
}

void hash_text(const uint8_t hash[HASH_SIZE], char ret[HASH_TEXT_SIZE]) {
        static const char digits[] = "0123456789abcdef";

        for (unsigned i = 0; i < HASH_SIZE; i++) {
                ret[2 * i] = digits[hash[i] >> 4];
                ret[2 * i + 1] = digits[hash[i] & 15];
        }
        ret[2 * HASH_SIZE] = '\0';
}
