/* Times as text, RFC 3339, from and to milliseconds since 1970. Nothing asks for the time or reads a time zone. */
#pragma once

#include "base/err.h"

#define RFC3339_TEXT 25 /* "2026-11-15T23:45:00.000Z" and NUL */

/* The whole of text: a date that exists from 1970 to 9999, "T", a time, an offset. Seconds of 60 are accepted only
 * where leap seconds are (23:59:60 UTC at the end of June or December) and count as the next second; a fraction has 1
 * to 9 digits, of which three count. Letters in upper case only, as SIWE's and ours are. False otherwise. */
bool rfc3339_parse(const char *text, size_t size, uint64_t *ret_ms);

/* Always in UTC, with three digits of a fraction. False after the year 9999. */
bool rfc3339_format(uint64_t ms, char ret[RFC3339_TEXT]);
