/* Keccak-f[1600] with a rate of 136 bytes. Plain C: it hashes short messages and addresses only. */
#include "auth/keccak.h"

enum { RATE = 136, ROUNDS = 24 };

static uint64_t rotate(uint64_t v, unsigned by) {
        return by == 0 ? v : v << by | v >> (64 - by);
}

/* The constants of iota come from the 8-bit shift register that the specification defines them by; those of rho from
 * its triangular numbers. Written out, 48 numbers would have to be believed. */
static uint64_t round_constant(uint8_t *shift) {
        uint64_t constant = 0;

        for (unsigned j = 0; j <= 6; j++) {
                if (*shift & 1)
                        constant |= 1ull << ((1u << j) - 1);
                *shift = (uint8_t)(*shift << 1 ^ (*shift & 0x80 ? 0x71 : 0));
        }
        return constant;
}

static void theta(uint64_t a[25]) {
        uint64_t column[5];

        for (size_t x = 0; x < 5; x++)
                column[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
        for (size_t x = 0; x < 5; x++) {
                uint64_t d = column[(x + 4) % 5] ^ rotate(column[(x + 1) % 5], 1);

                for (size_t y = 0; y < 25; y += 5)
                        a[x + y] ^= d;
        }
}

static void rho_and_pi(uint64_t a[25]) {
        size_t x = 1, y = 0;
        uint64_t moving = a[1];

        for (unsigned t = 0; t < 24; t++) {
                size_t next = (2 * x + 3 * y) % 5;
                uint64_t there;

                x = y;
                y = next;
                there = a[x + 5 * y];
                a[x + 5 * y] = rotate(moving, (t + 1) * (t + 2) / 2 % 64);
                moving = there;
        }
}

static void chi(uint64_t a[25]) {
        for (size_t y = 0; y < 25; y += 5) {
                uint64_t row[5];

                memcpy(row, a + y, sizeof row);
                for (size_t x = 0; x < 5; x++)
                        a[y + x] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
        }
}

static void permute(uint64_t a[25]) {
        uint8_t shift = 1;

        for (unsigned i = 0; i < ROUNDS; i++) {
                theta(a);
                rho_and_pi(a);
                chi(a);
                a[0] ^= round_constant(&shift);
        }
}

static void absorb(struct keccak *k, size_t at, uint8_t byte) {
        k->lanes[at / 8] ^= (uint64_t)byte << 8 * (at % 8);
}

void keccak_init(struct keccak *k) {
        *k = (struct keccak){0};
}

void keccak_add(struct keccak *k, const void *data, size_t size) {
        const uint8_t *p = data;

        for (size_t i = 0; i < size; i++) {
                absorb(k, k->used++, p[i]);
                if (k->used == RATE) {
                        permute(k->lanes);
                        k->used = 0;
                }
        }
}

void keccak_done(struct keccak *k, uint8_t ret[KECCAK_SIZE]) {
        absorb(k, k->used, 0x01);
        absorb(k, RATE - 1, 0x80);
        permute(k->lanes);
        for (size_t i = 0; i < KECCAK_SIZE; i++)
                ret[i] = (uint8_t)(k->lanes[i / 8] >> 8 * (i % 8));
}

void keccak_256(const void *data, size_t size, uint8_t ret[KECCAK_SIZE]) {
        struct keccak k;

        keccak_init(&k);
        keccak_add(&k, data, size);
        keccak_done(&k, ret);
}
