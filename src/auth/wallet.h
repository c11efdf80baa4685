/* The other side of a sign-in: a private key, its address, and what it signs (EIP-191, personal_sign). For the client;
 * the operator holds no such key. Keys are the caller's memory, and the caller's to wipe. */
#pragma once

#include "auth/ethereum.h"

#define WALLET_KEY       32
#define WALLET_SIGNATURE 133 /* "0x", 130 digits, NUL */

/* ERR_INPUT: no key of the curve (zero, or above its order). */
int wallet_address(const uint8_t key[WALLET_KEY], struct ethereum_address *ret, struct err *err);
int wallet_sign(const uint8_t key[WALLET_KEY], const void *message, size_t size, char ret[WALLET_SIGNATURE],
                struct err *err);

/* 64 digits, with or without "0x", white space around them; ERR_INPUT otherwise. */
int wallet_parse(const char *text, size_t size, uint8_t ret[WALLET_KEY], struct err *err);
void wallet_format(const uint8_t key[WALLET_KEY], char ret[2 * WALLET_KEY + 1]);
