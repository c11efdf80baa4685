/* Capabilities: tokens for machines, each for named verbs on named resources until a moment.
 *
 *   stockade-cap1.KID.ROOT.LIMIT.….LIMIT.TAG     KID: 16 hexadecimal digits; the others base64url, canonical
 *
 * KID says which key made it. ROOT is made by us: a JSON object with jti, owner, verbs, resources, iat, exp. A LIMIT is
 * made by whoever holds the token, without us: a JSON object with one or more of verbs, resources, exp, nbf. TAG is a
 * chain of keyed BLAKE2b: the key of the first is ours, the key of each next is the tag so far. Whoever has a token can
 * therefore append to it, and can take nothing away. Something is permitted if ROOT and every single LIMIT permit it,
 * so that nothing that is appended can widen a token; a LIMIT with a key or a value that we do not know makes the whole
 * token void.
 *
 * Verbs are words of lower-case letters, digits, '-' and '.', or "*". Resources are paths without a leading '/', such
 * as "sandbox/0123456789abcdef/port/3000"; a pattern is one of them, which means exactly that, or one with "/" and "*"
 * behind it, which means that and everything below, or "*". A jti can be revoked (revoked.h); narrowed tokens keep that
 * of their root and go with it. */
#pragma once

#include "auth/keyring.h"
#include "auth/session.h"

#define CAPABILITY_PREFIX "stockade-cap1."

enum {
        CAPABILITY_TOKEN_MAX = 6144,
        CAPABILITY_PART_MAX = 3072, /* bytes of a ROOT or LIMIT, decoded */
        CAPABILITY_LIMITS = 16,
        CAPABILITY_WORDS = 32, /* verbs, and resources, of each part */
        CAPABILITY_VERB = 48,
        CAPABILITY_RESOURCE = 160,
        CAPABILITY_OWNER = SESSION_SUBJECT,
};

/* A list of words; NULL and 0: the part says nothing about them. An empty list that is not NULL permits nothing. */
struct capability_words {
        const char *const *list;
        size_t count;
};

/* What we give away. Both lists are needed. */
struct capability_grant {
        const char *owner;
        struct capability_words verbs, resources;
        uint64_t issued_ms, expires_ms;
};

/* What a holder appends. At least one of them. */
struct capability_limit {
        struct capability_words verbs, resources;
        uint64_t expires_ms;    /* 0: not said */
        uint64_t not_before_ms; /* 0: not said */
};

bool capability_is(const char *text, size_t size); /* has the prefix; says nothing more */

/* Appends a new token; its jti is drawn. ERR_INPUT for words that are not well-formed, ERR_LIMIT above the caps. */
int capability_make(const struct keyring *k, const struct capability_grant *g, char ret_jti[SESSION_JTI],
                    struct buf *out, struct err *err);

/* Appends the narrowed token. Needs no key; a token that is not ours is narrowed to one that is not ours. */
int capability_narrow(const char *token, size_t size, const struct capability_limit *l, struct buf *out,
                      struct err *err);

/* A token that was verified whole. */
struct capability;

/* ERR_INPUT: not a capability at all; ERR_REFUSED: not ours, or it was tampered with, or a part says what we do not
 * know. Time and revocation are not looked at here: see capability_may. */
int capability_open(const struct keyring *k, const char *token, size_t size, struct capability **ret, struct err *err);
void capability_close(struct capability *c); /* NULL is fine */
static inline void capability_closep(struct capability **c) {
        capability_close(*c);
}
#define _cleanup_capability_ _cleanup_(capability_closep)

const char *capability_jti(const struct capability *c);
const char *capability_owner(const struct capability *c);
uint64_t capability_expires_ms(const struct capability *c); /* the earliest of all its parts */

/* May it do this verb on this resource at this moment? verb and resource are plain (no pattern); anything malformed is
 * no. The error (may be NULL) says for a person which of verb, resource or time it was. */
bool capability_may(const struct capability *c, const char *verb, const char *resource, uint64_t now_ms,
                    struct err *err);
