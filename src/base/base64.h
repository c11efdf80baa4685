/* base64 (RFC 4648, section 4). */
#pragma once

#include "base/macro.h"

#define BASE64_TEXT(size) (((size) + 2) / 3 * 4 + 1) /* the text of so many bytes, with a NUL */

/* Reads size characters, with or without padding, in the canonical form: nothing else in between, bits behind the last
 * byte are zero. False if it is none, or has more than room bytes; *ret_size is untouched then. */
bool base64_read(const char *text, size_t size, void *ret, size_t room, size_t *ret_size);

/* Without padding, with a NUL; ret has room for BASE64_TEXT(size). Returns ret. */
char *base64_write(const void *data, size_t size, char *ret);
