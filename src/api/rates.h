/* How much anybody may ask for: connections of an address, and requests in a minute of an address and of an owner.
 *
 * Tables of a fixed size: who comes when one is full of others is refused, or shares a place with whom it was that
 * asked longest ago. An IPv6 address counts by its first 64 bits, since whoever has one has them all. No I/O; time is a
 * parameter. */
#pragma once

#include "base/macro.h"

struct rates;

enum rate { RATE_NONE, RATE_AUTH, RATE_WRITE, RATE_SANDBOX, RATE_READ, RATE_OWNER, RATE_HANDSHAKE, RATES };

struct rates *rates_new(void); /* NULL: out of memory */
void rates_free(struct rates *l);
void rates_set(struct rates *l, enum rate r, uint64_t per_minute); /* UINT64_MAX: as many as anybody likes */

/* One connection more, and less, of this address. */
bool rates_enter(struct rates *l, const uint8_t address[16], unsigned most);
void rates_leave(struct rates *l, const uint8_t address[16]);

bool rates_same(const uint8_t a[16], const uint8_t b[16]); /* one neighbour, for counting */

/* One request more of whoever these bytes stand for: 0, or after how many milliseconds it may be asked again. */
unsigned rates_ask(struct rates *l, enum rate r, const void *who, size_t size, uint64_t now);

void rates_sweep(struct rates *l, uint64_t now); /* forgets who has been quiet; a bounded number in one call */
