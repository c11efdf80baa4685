/* A secret as a person names it on the command line: NAME, whose value is the caller's variable, or NAME=@FILE. The
 * value itself is never an argument, which every user of the host could read. */
#pragma once

#include "base/err.h"

struct secret {
        char *name;
        uint8_t *value; /* a NUL follows */
        size_t size;
};

/* Reads and checks the value; the variable is wiped from what /proc shows of us. option is "--secret", for errors. */
int secret_read(const char *option, const char *text, struct secret *ret, struct err *err);
void secret_free(struct secret *s); /* wiped first */
