/* The private key that signs sign-in texts: a file of one's own, 0600, with 64 hexadecimal digits, or a keystore that a
 * wallet exported (keystore.h); or a program that signs and keeps the key to itself. */
#pragma once

#include "auth/wallet.h"
#include "base/buf.h"

/* path NULL: the one beside the sessions. A keystore's passphrase is read from a file, or asked for at the terminal. */
int key_read(const char *path, const char *passphrase_file, uint8_t ret[WALLET_KEY], struct err *err);

/* A new one, where there is none yet. */
int key_make(const char *path, uint8_t ret[WALLET_KEY], struct err *err);

/* Asks the person at the terminal, without echo. ERR_REFUSED: there is no terminal. */
int key_ask(const char *prompt, char *ret, size_t size, struct err *err);

/* Runs a program (its words separated by blanks; no shell) that gets the message on its standard input and prints the
 * signature. */
int key_sign_elsewhere(const char *command, const char *message, size_t size, char ret[WALLET_SIGNATURE],
                       struct err *err);
