/* Keccak-256 as Ethereum uses it: the sponge of SHA-3 with the older padding byte 0x01, so not SHA3-256. */
#pragma once

#include "base/macro.h"

#define KECCAK_SIZE 32

struct keccak {
        uint64_t lanes[25];
        size_t used; /* bytes of the block so far */
};

void keccak_init(struct keccak *k);
void keccak_add(struct keccak *k, const void *data, size_t size);
void keccak_done(struct keccak *k, uint8_t ret[KECCAK_SIZE]);

void keccak_256(const void *data, size_t size, uint8_t ret[KECCAK_SIZE]); /* all at once */
