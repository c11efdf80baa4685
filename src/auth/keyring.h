/* The operator's keys: all come from SESSION_AUTH_SECRET, one per purpose, by HKDF-SHA-512.
 *
 * A ring has the current secret and up to KEYRING_PREVIOUS older ones. New tokens are made with the current one; a
 * token names the secret that it was made with by a key id, so that those of the previous ones stay good until they
 * expire or the operator drops the secret. Key ids say nothing about a secret. Keys of different purposes have nothing
 * to do with each other: one that leaks opens nothing else.
 *
 * Values at rest are sealed with a key that is made for their sandbox from a data key. That is random, never changes,
 * and is kept wrapped by a key that comes from the current secret: after a rotation it is wrapped again, and not one
 * sealed value has to be touched. A store may have several: when no secret fits the one that it has, a new one is made
 * beside it, and whoever finds the old secret again has all values back.
 *
 * Nothing here does I/O. The ring is wiped when it is closed; nothing of it is ever printed. */
#pragma once

#include "auth/paseto.h"
#include "base/buf.h"

enum {
        KEYRING_SECRET_MIN = 32, /* bytes of a secret */
        KEYRING_SECRET_MAX = 4096,
        KEYRING_PREVIOUS = 8,
        KEYRING_DATA = 16, /* data keys */
        KEYRING_KEY = 32,
        KEYRING_ID = 17,      /* a key id as text: 16 hexadecimal digits, NUL */
        KEYRING_WRAPPED = 81, /* bytes of the wrapped data key: version, key id, nonce, key, tag */
        KEYRING_VALUE_MAX = 1 << 20,
        KEYRING_SEALED_MORE = 49, /* what sealing adds to a value: version, data key id, nonce, tag */
        KEYRING_NAME_MAX = 255,   /* of a sandbox's id and of a value's name */
};

enum keyring_purpose {
        KEYRING_SESSION,    /* PASETO: session.h */
        KEYRING_CAPABILITY, /* capability.h */
        KEYRING_WRAP,       /* wraps the data key; stays inside keyring.c */
        KEYRING_PURPOSES,
};

struct keyring;

/* secrets[0] is the current one. ERR_INPUT when one is shorter than KEYRING_SECRET_MIN, has fewer than eight different
 * bytes, or is there twice. The caller wipes its own copies. */
struct keyring_secret {
        const void *data;
        size_t size;
};
int keyring_open(struct keyring **ret, const struct keyring_secret *secrets, size_t count, struct err *err);
void keyring_close(struct keyring *k); /* NULL is fine */
static inline void keyring_closep(struct keyring **k) {
        keyring_close(*k);
}
#define _cleanup_keyring_ _cleanup_(keyring_closep)

/* The id of the current secret; of number i (0: current), or NULL behind the last. */
const char *keyring_current(const struct keyring *k);
const char *keyring_id(const struct keyring *k, size_t i);

/* The key of a purpose made from the secret with this id (NULL: the current one); NULL if the ring has no such. */
const uint8_t *keyring_key(const struct keyring *k, enum keyring_purpose purpose, const char *id);

/* --- values at rest --------------------------------------------------------------------------------------------- */

/* Draws a data key and gives it to the ring, and wrapped for the store. -EEXIST if the ring has one. */
int keyring_data_make(struct keyring *k, uint8_t ret[KEYRING_WRAPPED], struct err *err);

/* Gives the ring a data key that the store has. *ret_stale: it was wrapped by a previous secret; call keyring_data_wrap
 * and store that before the secret is dropped. ERR_REFUSED when no secret of the ring fits, ERR_CORRUPT when it is
 * damaged, -EEXIST when the ring has it. */
int keyring_data_open(struct keyring *k, const uint8_t *wrapped, size_t size, bool *ret_stale, struct err *err);

/* Of the one that came last, which new values are sealed with: wrapped by the current secret; its id, or NULL. */
int keyring_data_wrap(const struct keyring *k, uint8_t ret[KEYRING_WRAPPED], struct err *err);
const char *keyring_data_id(const struct keyring *k);
static inline bool keyring_has_data(const struct keyring *k) {
        return keyring_data_id(k) != NULL;
}

/* Appends the sealed value (XChaCha20-Poly1305). sandbox and name are bound to it: it opens for these only, so rows
 * that were exchanged in the store are noticed. -ENOKEY without a data key. */
int keyring_seal(const struct keyring *k, const char *sandbox, const char *name, const void *value, size_t size,
                 struct buf *out, struct err *err);
/* Appends the value; the caller wipes it (keyring_wipe). ERR_CORRUPT if it is not what was sealed for these,
 * ERR_REFUSED if the ring does not have its data key. */
int keyring_unseal(const struct keyring *k, const char *sandbox, const char *name, const void *sealed, size_t size,
                   struct buf *out, struct err *err);

/* The id of the data key that a value was sealed with; "" if it is no such value. Nothing is opened. */
void keyring_sealed_by(const void *sealed, size_t size, char ret[KEYRING_ID]);

void keyring_wipe(struct buf *b); /* overwrites and frees it */
#define _cleanup_keyring_wipe_ _cleanup_(keyring_wipe)
