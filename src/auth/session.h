/* Sessions: PASETO v4.local tokens with claims of ours.
 *
 * The payload is a JSON object with exactly sub, aud, iat, nbf, exp, jti, kind, scope (times in RFC 3339); the footer
 * is
 * {"kid":"…"}, the key's id. Audience and kind are also the implicit assertion: a token made for another service, or as
 * another kind of thing, does not even open. Whether a session was revoked is not known here: ask revoked.h by jti.
 * Time is a parameter. */
#pragma once

#include "auth/keyring.h"

#define SESSION_JTI      33 /* 128 random bits as 32 hexadecimal digits, NUL */
#define SESSION_SUBJECT  96
#define SESSION_AUDIENCE 256
#define SESSION_SCOPE    128

enum {
        SESSION_TTL_MS = 3600 * 1000,              /* what sign-in gives; session_make takes what it is told */
        SESSION_TTL_MAX_MS = 7 * 24 * 3600 * 1000, /* nothing lives longer */
        SESSION_SKEW_MS = 5 * 1000,                /* nbf and iat may be ahead of our clock by that much */
};

enum session_kind {
        SESSION_PERSON, /* bearer of a signed-in owner */
        SESSION_PORT,   /* cookie of one port's own host name; scope says which */
        SESSION_LINK,   /* local mode's sign-in link: exchanged once for a session, then revoked */
        SESSION_DOOR,   /* what the SSH front door gets after a key was accepted; scope says for which sandbox */
        SESSION_KINDS,
};
const char *session_kind_name(enum session_kind kind);

struct session {
        enum session_kind kind;
        char subject[SESSION_SUBJECT];   /* the owner: "eth:0x…" or a local one; not empty */
        char audience[SESSION_AUDIENCE]; /* which service: its configured origin; not empty */
        char scope[SESSION_SCOPE];       /* what it is good for within its kind; may be empty */
        char jti[SESSION_JTI];           /* drawn by session_make */
        uint64_t issued_ms, not_before_ms, expires_ms;
};

/* Draws s->jti and appends the token, made with the current key. not_before_ms 0 means issued_ms. ERR_INPUT when fields
 * are empty, not UTF-8, have control characters, or expire before they begin or after SESSION_TTL_MAX_MS. */
int session_make(const struct keyring *k, struct session *s, struct buf *out, struct err *err);

/* Opens a token that has to be of this kind and for this audience, at this moment. ERR_INPUT: it is not a token at all.
 * ERR_REFUSED: not one of ours, or for something else, or expired, or not valid yet. The sentence says no more than a
 * client may know. */
int session_open(const struct keyring *k, enum session_kind kind, const char *audience, const char *token, size_t size,
                 uint64_t now_ms, struct session *ret, struct err *err);

/* The part of it that comes after the opening: kind, audience and moment. For a session that was opened before. */
int session_check(const struct session *s, enum session_kind kind, const char *audience, uint64_t now_ms,
                  struct err *err);

void session_draw_jti(char ret[SESSION_JTI]);
bool session_is_jti(const char *text);
