/* Signing in and out (the verbs of these names). */
#pragma once

#include "base/err.h"

struct login {
        const char *server;
        const char *key, *passphrase_file; /* NULL: the key that is kept */
        const char *signer, *address;      /* a program that signs for this address */
        const char *ca;
        bool new_key, link, insecure_http, json, force;
};

int login(const struct login *o, struct err *err);
int logout(const struct login *o, struct err *err);
