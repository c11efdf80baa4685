/* Version 3 of Ethereum's keystore files ("Web3 Secret Storage"): a private key under a passphrase, as wallets export
 * it. aes-128-ctr, with scrypt or pbkdf2 (hmac-sha256); whatever else one says is refused. What it asks for in memory
 * and time is capped. */
#pragma once

#include "auth/wallet.h"

/* text was checked by json_check and has a NUL behind it. ERR_REFUSED: the passphrase is another one. */
int keystore_open(const char *text, const char *passphrase, uint8_t ret[WALLET_KEY], struct err *err);
