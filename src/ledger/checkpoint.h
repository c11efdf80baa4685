/* A checkpoint's data: which events it covers, the root over them, the keys, and both signatures.
 *
 * It covers everything since the checkpoint before it, that one included, up to the event before itself. What is signed
 * is a short text (checkpoint_text) with the number and time of the checkpoint, the range, the root, and the hash of
 * the last event; so a checkpoint also vouches for the chain up to there. */
#pragma once

#include "ledger/keys.h"
#include "ledger/line.h"

enum { CHECKPOINT_DATA_MAX = 1024, CHECKPOINT_TEXT_MAX = 512, CHECKPOINT_LINE_MAX = CHECKPOINT_DATA_MAX + 512 };
#define CHECKPOINT_ACTOR "ledger"

struct checkpoint {
        uint64_t seq;             /* its own */
        char time[LINE_TIME + 1]; /* its own */
        uint64_t from, to;
        uint8_t root[HASH_SIZE];
        char head[LINE_HEX]; /* the hash of event `to`: what the line has as prev */
        struct keys_public keys;
        struct keys_signature signature;
};

size_t checkpoint_text(const struct checkpoint *c, char ret[CHECKPOINT_TEXT_MAX]);
/* Signs and writes the data, NUL-terminated; returns its size or -errno. */
int checkpoint_write(struct checkpoint *c, const struct keys *k, char ret[CHECKPOINT_DATA_MAX]);
/* From a line of this kind: 0, or ERR_CORRUPT when it is not in its one form. Signatures are checkpoint_holds'. */
int checkpoint_read(const struct line *l, struct checkpoint *ret);
bool checkpoint_holds(const struct checkpoint *c);
