/* BLAKE2b-256 (RFC 7693), for policy hashes and cache keys. Ours because the static launcher links libc alone. */
#pragma once

#include "base/macro.h"

#define HASH_SIZE      32
#define HASH_TEXT_SIZE (2 * HASH_SIZE + 1)

struct hash {
        uint64_t h[8];
        uint64_t count;
        uint8_t block[128];
        size_t used;
};

void hash_init(struct hash *s);
void hash_add(struct hash *s, const void *data, size_t size);
void hash_add_str(struct hash *s, const char *text); /* with its length, so that "ab","c" and "a","bc" differ */
void hash_done(struct hash *s, uint8_t ret[HASH_SIZE]);
void hash_text(const uint8_t hash[HASH_SIZE], char ret[HASH_TEXT_SIZE]);
