/* The forms in which a server may give a value back: as it is, in base64 (also in the middle of something longer), in
 * hexadecimal, percent-encoded, and as JSON escapes it.
 *
 * These are what honest servers do to what they repeat. A server that wants to give a value away can always do so. */
#pragma once

#include "gate/redact.h"

/* base64 without padding; ret has room for FORMS_BASE64(size) bytes. */
#define FORMS_BASE64(size) (((size)*4 + 2) / 3)
size_t forms_base64(const uint8_t *bytes, size_t size, char *ret);

/* Lets all forms of a value be searched for. False: not all of them can be; then it must not be sent. */
bool forms_add(struct redact *r, const uint8_t *value, size_t size);
