/* Sign-in texts: EIP-4361 ("Sign-In with Ethereum"), and the older plain text of T clients.
 *
 * A message is built from fields, or parsed into them by the grammar of the EIP and nothing wider: every line in its
 * order, ASCII, no CR, nothing behind the end. What is parsed builds the same bytes again. Fields are parts of the
 * caller's text (or strings of the caller's): nothing is allocated, and they live as long as that text.
 *
 * To sign somebody in: take the nonce from the single-use table first (it is used up, whatever comes then), then
 * siwe_verify. Time is a parameter. */
#pragma once

#include "auth/ethereum.h"
#include "auth/rfc3339.h"
#include "base/buf.h"

enum {
        SIWE_MAX = 4096,     /* bytes of a message */
        SIWE_RESOURCES = 16, /* lines below "Resources:" */
        SIWE_NONCE_MIN = 8,
        SIWE_NONCE_MAX = 128,
        SIWE_TTL_MS = 300 * 1000, /* how long a challenge is good for */
        SIWE_SKEW_MS = 60 * 1000, /* clients' clocks may be ahead of ours by that much */
};

/* Bytes of somebody else, without a NUL behind them. at is NULL if the field is not there at all. */
struct siwe_part {
        const char *at;
        size_t size;
};

static inline struct siwe_part siwe_part(const char *s) {
        return (struct siwe_part){s, s ? strlen(s) : 0};
}
bool siwe_is(struct siwe_part p, const char *s);

struct siwe_time {
        struct siwe_part text; /* as it was written; in a message to be built it may be absent: then ms is formatted (0:
                                  missing) */
        uint64_t ms;
};

struct siwe {
        struct siwe_part scheme; /* optional */
        struct siwe_part domain; /* host[:port] of whoever asks for the signature */
        struct ethereum_address address;
        struct siwe_part statement; /* optional */
        struct siwe_part uri;       /* what the sign-in is for */
        uint64_t chain_id;
        struct siwe_part nonce; /* letters and digits */
        struct siwe_time issued_at;
        bool has_expiration, has_not_before;
        struct siwe_time expiration, not_before;
        struct siwe_part request_id; /* optional, may be empty */
        bool has_resources;
        size_t resource_count;
        struct siwe_part resources[SIWE_RESOURCES];
};

/* Appends the message. ERR_INPUT if a field is missing or is not in the grammar: what this builds, siwe_parse takes. */
int siwe_build(const struct siwe *m, struct buf *out, struct err *err);

/* ERR_INPUT with the line that is wrong, ERR_LIMIT if it is too large. */
int siwe_parse(const char *text, size_t size, struct siwe *ret, struct err *err);

/* What the server wants to see in it. */
struct siwe_expect {
        const char *scheme; /* if the message names one, it has to be this; NULL: any */
        const char *domain;
        const char *uri;
        uint64_t chain_id;
        const char *nonce;
        uint64_t now_ms;
        /* Issued at most that long ago, and not later than SIWE_SKEW_MS from now. 0: when it was issued is not looked
         * at, only the message's own limits are. */
        uint64_t max_age_ms;
        const struct ethereum_address *address; /* NULL: any */
};

/* ERR_REFUSED with the field that differs. All of domain, uri, chain_id and nonce are compared as bytes; an expiration
 * ends the message at its own moment. */
int siwe_check(const struct siwe *m, const struct siwe_expect *e, struct err *err);

/* Parse, check, recover, and compare with the message's own address: whoever signed is *ret. */
int siwe_verify(const char *text, size_t size, const char *signature, size_t signature_size,
                const struct siwe_expect *e, struct ethereum_address *ret, struct err *err);

/* --- the plain text of T clients; not bound to a domain, so off unless configured ------------------------------- */

/* "Sign this message to authenticate with Tangle Sandbox.", blank line, "Nonce: <64 hex>", "Expires: <unix seconds>" */
int siwe_build_plain(const char *nonce, uint64_t expires_ms, struct buf *out, struct err *err);

/* The server makes the text again from what it kept, so there is nothing to parse. ERR_REFUSED when it is too late. */
int siwe_verify_plain(const char *nonce, uint64_t expires_ms, const char *signature, size_t signature_size,
                      uint64_t now_ms, struct ethereum_address *ret, struct err *err);
