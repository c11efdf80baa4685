/* PASETO v4.local: tokens that only their maker can read or make (XChaCha20 and keyed BLAKE2b).
 *
 * The header is compared before anything is computed; the tag covers header, nonce, ciphertext, footer and implicit
 * assertion with their lengths, and is compared in constant time before anything is decrypted. base64url without
 * padding, in its one canonical form: no token has a second spelling. A footer is readable by everybody and is believed
 * only once the token was opened. Claims are session.h's. */
#pragma once

#include "base/buf.h"

#define PASETO_HEADER "v4.local."

enum {
        PASETO_KEY = 32,
        PASETO_NONCE = 32,
        PASETO_PAYLOAD_MAX = 4096,
        PASETO_FOOTER_MAX = 256,
        PASETO_IMPLICIT_MAX = 1024,
        PASETO_TOKEN_MAX = 6144, /* longer ones are not looked at */
};

/* A key for this version and purpose of PASETO, and for nothing else. */
struct paseto_key {
        uint8_t bytes[PASETO_KEY];
};

/* Appends the token. footer and implicit may be NULL with size 0. ERR_LIMIT above the caps. */
int paseto_seal(const struct paseto_key *key, const void *payload, size_t payload_size, const void *footer,
                size_t footer_size, const void *implicit, size_t implicit_size, struct buf *out);

/* The same with the caller's nonce. Only for test vectors: with a nonce used twice, two payloads can be compared. */
int paseto_seal_with_nonce(const struct paseto_key *key, const uint8_t nonce[PASETO_NONCE], const void *payload,
                           size_t payload_size, const void *footer, size_t footer_size, const void *implicit,
                           size_t implicit_size, struct buf *out);

/* Appends the payload. ERR_INPUT if the text is not a v4.local token, ERR_REFUSED if it is not one of this key with
 * this implicit assertion: which of both was wrong, nobody learns. Nothing is appended then. */
int paseto_open(const struct paseto_key *key, const char *token, size_t size, const void *implicit,
                size_t implicit_size, struct buf *out);

/* The footer, not yet believed: to find the key with. *ret_size is 0 if there is none. ERR_INPUT as above. */
int paseto_footer(const char *token, size_t size, uint8_t ret[PASETO_FOOTER_MAX], size_t *ret_size);
