/* A Merkle tree over hashes of lines, in the shape of RFC 6962: the left part of n leaves is the largest power of two
 * below n. A leaf is the hash that its line carries; a node is BLAKE2b-256 over the byte 1, left and right. A line
 * begins with '{', so that no line can pass for a node. */
#pragma once

#include "base/buf.h"
#include "base/hash.h"

enum { MERKLE_LEVELS = 64 };

/* Grows leaf by leaf, keeps only the roots of its perfect parts. */
struct merkle {
        uint64_t count;
        uint8_t part[MERKLE_LEVELS][HASH_SIZE]; /* by level; there where count has a bit */
};

void merkle_add(struct merkle *m, const uint8_t leaf[HASH_SIZE]);
void merkle_root(const struct merkle *m, uint8_t ret[HASH_SIZE]); /* of one leaf or more */

/* A proof that some leaves of a tree are in it: the roots of all largest parts that contain none of them, from left to
 * right. wanted says which leaves are known. */
void merkle_prove(const uint8_t (*leaves)[HASH_SIZE], const bool *wanted, size_t count, struct buf *out);

/* The root that known leaves and a proof make: 0, or ERR_CORRUPT when the proof has not exactly the hashes that it
 * needs. places are rising and below count; known leaves are one or more. */
int merkle_check(uint64_t count, const uint64_t *places, const uint8_t (*leaves)[HASH_SIZE], size_t known,
                 const uint8_t (*proof)[HASH_SIZE], size_t proof_count, uint8_t ret_root[HASH_SIZE]);
