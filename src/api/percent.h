/* What stands in paths and queries, as RFC 3986 encodes it. */
#pragma once

#include "base/err.h"

/* Decodes size bytes into buf, with a NUL behind. False: an escape is malformed, or what comes out is not UTF-8, has a
 * NUL or a control character, or does not fit. */
bool percent_decode(const char *text, size_t size, char *buf, size_t room);

/* The same for the path of a file inside, which may have control characters: they have to be escaped. */
bool percent_decode_path(const char *text, size_t size, char *buf, size_t room);
