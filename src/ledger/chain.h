/* Follows a ledger line by line and says where it breaks: numbers, links, hashes, checkpoints. No I/O. */
#pragma once

#include "ledger/checkpoint.h"
#include "ledger/merkle.h"

enum { CHAIN_WHAT = 160 };

struct chain {
        uint64_t seq;        /* of the last line; 0: none yet */
        char hash[LINE_HEX]; /* of the last line; for the first, zeros */
        uint8_t raw[HASH_SIZE];
        struct merkle tree;  /* over the lines since the last checkpoint, that one included */
        uint64_t from;       /* the number of the tree's first leaf */
        uint64_t checkpoint; /* the last one's number, 0: none */
        uint64_t checkpoints;
        bool have_keys; /* all checkpoints carry the same */
        struct keys_public keys;
        char what[CHAIN_WHAT]; /* why the last line was refused */
};

void chain_begin(struct chain *c); /* before event 1 */
/* Before the first line of a segment, whose number and predecessor's hash are taken as given: a segment ends with a
 * checkpoint, so the line before was one. */
void chain_begin_at(struct chain *c, const struct line *first);

/* Takes the next line: 0 and its parts, or ERR_CORRUPT and c->what; then nothing has changed. */
int chain_take(struct chain *c, const char *text, size_t size, struct line *ret);

/* The same for a line that this process makes itself: adds its hash. */
void chain_add(struct chain *c, uint64_t seq, const uint8_t hash[HASH_SIZE], bool checkpoint);
