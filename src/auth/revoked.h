/* Which sessions and capabilities were revoked: a set of jtis in memory, each until its token would have expired
 * anyway.
 *
 * The store has the durable copy; it is loaded at the start, and a revocation is in the store before it is here. The
 * set never forgets one that still matters: when it is full, adding fails, and the caller must not say "revoked". */
#pragma once

#include "auth/session.h"

struct revoked;

int revoked_open(struct revoked **ret, size_t max, struct err *err); /* at most max entries; memory grows with use */
void revoked_close(struct revoked *r);
static inline void revoked_closep(struct revoked **r) {
        revoked_close(*r);
}
#define _cleanup_revoked_ _cleanup_(revoked_closep)

/* Again with a later expiry: the later one counts. ERR_INPUT if it is not a jti or has no expiry (0), -ENOSPC when
 * full (sweep first), -ENOMEM. */
int revoked_add(struct revoked *r, const char *jti, uint64_t expires_ms);
/* True also for a text that is not a jti: what we cannot look up is not good. Expiry is not looked at: an expired token
 * is refused by its own expiry. */
bool revoked_has(const struct revoked *r, const char *jti);
size_t revoked_sweep(struct revoked *r, uint64_t now_ms); /* drops those that expired; how many */
size_t revoked_count(const struct revoked *r);
