/* Things that are good for one use within a short time: nonces of sign-in challenges, tickets of browser streams.
 *
 * A table has a fixed number of places. An entry has a random id of 256 bits, a client address that asked for it, and a
 * note of the caller's. Taking it removes it, whether or not what follows succeeds. When the table is full, the oldest
 * entry of the same address makes room; an address without one takes the oldest place of the address that has most; if
 * all have one only, the newcomer is refused. So nobody can push out the others.
 *
 * No I/O; time is a parameter, in milliseconds of a clock that does not go back. Look-ups do not depend on how much of
 * an id was right. */
#pragma once

#include "base/err.h"

enum {
        SINGLE_USE_ID = 65,    /* 64 hexadecimal digits, NUL: also a nonce as EIP-4361 wants it */
        SINGLE_USE_NOTE = 256, /* with its NUL */
        SINGLE_USE_WHO = 64,   /* with its NUL */
        SINGLE_USE_NONCE_MS = 300 * 1000,
        SINGLE_USE_TICKET_MS = 30 * 1000,
};

struct single_use;

/* places: 1 to 65536. per_address: how many of them one address may have at once; its oldest goes when it wants more.
 */
int single_use_open(struct single_use **ret, size_t places, size_t per_address, uint64_t ttl_ms, struct err *err);
void single_use_close(struct single_use *t);
static inline void single_use_closep(struct single_use **t) {
        single_use_close(*t);
}
#define _cleanup_single_use_ _cleanup_(single_use_closep)

/* who: the client's address as text (the caller decides what counts as one, a /64 for IPv6). note may be "".
 * -ENOSPC when the table is full of others. */
int single_use_add(struct single_use *t, const char *who, const char *note, uint64_t now_ms, char ret_id[SINGLE_USE_ID],
                   struct err *err);

/* Takes the entry out. -ENOENT when there is none: never was, was taken, was pushed out, or expired. *ret_left_ms may
 * be NULL: how long it would have been good. */
int single_use_take(struct single_use *t, const char *id, size_t id_size, uint64_t now_ms,
                    char ret_note[SINGLE_USE_NOTE], uint64_t *ret_left_ms);

size_t single_use_count(const struct single_use *t);            /* with expired ones that are not swept yet */
size_t single_use_sweep(struct single_use *t, uint64_t now_ms); /* drops what expired; how many. Adding does it too. */
