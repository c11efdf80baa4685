/* base64url without padding (RFC 4648, section 5), in its one canonical form: bits behind the last byte are zero. */
#pragma once

#include "base/buf.h"

#define BASE64URL_TEXT(size) (((size)*4 + 2) / 3 + 1) /* how long the text of size bytes is, with a NUL */

void base64url_add(struct buf *out, const void *data, size_t size);

/* The whole of text, and nothing else than the alphabet; at most room bytes. ret may be written to on failure too. */
bool base64url_read(const char *text, size_t size, void *ret, size_t room, size_t *ret_size);
