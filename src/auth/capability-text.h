/* The parts of a capability as text: what a token is made of, and what each part may say. No keys, no decisions. */
#pragma once

#include "auth/capability.h"

enum { CAPABILITY_TAG = 32, CAPABILITY_PARTS = 1 + CAPABILITY_LIMITS };

/* A token taken apart. Texts are NUL-terminated, decoded, and not yet looked at. */
struct capability_text {
        char kid[KEYRING_ID];
        size_t count;                /* of parts; the first is the root */
        size_t at[CAPABILITY_PARTS]; /* where each begins in bytes */
        size_t size[CAPABILITY_PARTS];
        uint8_t tag[CAPABILITY_TAG];
        char bytes[CAPABILITY_TOKEN_MAX];
};

/* False if it is no token by its form: prefix, key id, base64url, caps. */
bool capability_text_split(const char *token, size_t size, struct capability_text *ret);

static inline const char *capability_text_part(const struct capability_text *t, size_t i) {
        return t->bytes + t->at[i];
}

/* Is it what capability_make, or capability_narrow, writes? Unknown keys and words that are not well-formed are not. */
bool capability_text_check(const char *part, size_t size, bool root);

bool capability_text_is_verb(const char *s, bool pattern);
bool capability_text_is_resource(const char *s, bool pattern);
bool capability_text_is_owner(const char *s);

/* Writes them. False above the caps, or when a word is not well-formed. */
bool capability_text_write_root(const struct capability_grant *g, const char *jti, struct buf *out);
bool capability_text_write_limit(const struct capability_limit *l, struct buf *out);
