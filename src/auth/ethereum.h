/* Ethereum accounts: addresses as text, and who signed a message (EIP-191, personal_sign).
 *
 * An address is 20 bytes and is compared as such. As the owner of things it is "eth:0x…" in lower case, everywhere. A
 * signature counts in one form only: 65 bytes, r and s in range, s in the lower half, v one of 0, 1, 27, 28. Contract
 * wallets (EIP-1271) would need a chain to ask and are not known here. */
#pragma once

#include "auth/keccak.h"
#include "base/err.h"

#define ETHEREUM_TEXT      43 /* "0x", 40 digits, NUL */
#define ETHEREUM_OWNER     47 /* "eth:" before it */
#define ETHEREUM_SIGNATURE 65

enum { ETHEREUM_MESSAGE_MAX = 64 << 10 };

struct ethereum_address {
        uint8_t bytes[20];
};

bool ethereum_same(const struct ethereum_address *a, const struct ethereum_address *b);
void ethereum_text(const struct ethereum_address *a, char ret[ETHEREUM_TEXT]); /* upper and lower case as EIP-55 says */
void ethereum_owner(const struct ethereum_address *a, char ret[ETHEREUM_OWNER]); /* "eth:0x…", lower case */

/* Exactly the EIP-55 form; ERR_INPUT otherwise. any_case: all letters in lower case are fine too (configuration, T's
 * clients); a mixture must still be the right one, because it is there to find mistypings. */
int ethereum_parse(const char *text, size_t size, bool any_case, struct ethereum_address *ret, struct err *err);

/* What a wallet signs for this message: Keccak-256 of "\x19Ethereum Signed Message:\n", its length, and it. */
void ethereum_digest(const void *message, size_t size, uint8_t ret[KECCAK_SIZE]);

/* "0x" and 130 digits (the "0x" may be missing) into bytes; neither range nor v is looked at yet. */
int ethereum_parse_signature(const char *text, size_t size, uint8_t ret[ETHEREUM_SIGNATURE], struct err *err);

/* Who signed? ERR_INPUT if the signature is not one that counts, ERR_LIMIT if the message is too large. Whoever asks
 * must still compare the address with the one that was claimed: any well-formed signature is somebody's. */
int ethereum_recover(const void *message, size_t size, const uint8_t signature[ETHEREUM_SIGNATURE],
                     struct ethereum_address *ret, struct err *err);
