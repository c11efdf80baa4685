/* The ledger's two signing keys: Ed25519, and secp256k1 for those who check signatures on a chain.
 *
 * They are made on first use, never change and never leave the folder: a file of 0600 that is refused when others can
 * read it. What they sign is a text that begins with words of our own. */
#pragma once

#include "ledger/ledger.h"

struct keys_public {
        uint8_t ed25519[32];
        uint8_t secp256k1[33]; /* compressed */
};

struct keys_signature {
        uint8_t ed25519[64];
        uint8_t secp256k1[65]; /* r, s, and the number with which the key can be recovered */
};

struct keys;

#define KEYS_FILE "keys"

/* Reads the keys of a ledger's folder. Without the file: made if make, else -ENOENT. */
int keys_open(struct keys **ret, int dir, bool make, struct err *err);
void keys_close(struct keys *k); /* wipes them */
const struct keys_public *keys_public(const struct keys *k);

/* Ed25519 signs the text, secp256k1 its BLAKE2b-256 hash. */
int keys_sign(const struct keys *k, const char *text, size_t size, struct keys_signature *ret);
bool keys_verify(const struct keys_public *k, const char *text, size_t size, const struct keys_signature *s);

void keys_fingerprint(const struct keys_public *k, char ret[LEDGER_KEY_TEXT]);
