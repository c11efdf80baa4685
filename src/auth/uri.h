/* The grammar of RFC 3986, as far as a sign-in text needs it: is this a URI, is this an authority. Byte by byte, ASCII
 * only, nothing is decoded or normalised: what is compared later is compared as bytes. */
#pragma once

#include "base/macro.h"

/* A URI with its scheme; query and fragment are allowed. */
bool uri_check(const char *text, size_t size);

/* [userinfo@]host[:port]; the host is a name, an IPv4 address or [IPv6], and not empty. */
bool uri_check_authority(const char *text, size_t size);

/* scheme: a letter, then letters, digits, '+', '-', '.'. */
bool uri_check_scheme(const char *text, size_t size);

bool uri_is_unreserved(char c);                       /* letters, digits, '-', '.', '_', '~' */
bool uri_is_reserved(char c);                         /* gen-delims and sub-delims */
bool uri_check_pchars(const char *text, size_t size); /* *pchar: what stands between two '/' */
