/* Host names in one canonical form, so that every decision compares bytes.
 *
 * Canonical: lower-case ASCII letters, digits, '-' and '_' in labels of 1 to 63, joined by dots, no dot at the end, at
 * most 253 bytes; a label neither begins nor ends with '-'; international names in their xn-- form (the policy
 * compiler translates what people write; on the wire only the ASCII form is accepted). The last label is not all
 * digits and not 0x…: "127.1", "0x7f.1" and "1.2.3.4" are never names. Nothing else is repaired: what is not a name
 * after lower-casing and dropping one dot at the end is refused. */
#pragma once

#include "base/err.h"

#define HOSTNAME_SIZE 256 /* with its NUL */

/* bytes may hold anything, NUL too. Returns the length of what was written to ret, or ERR_INPUT. */
int hostname_canonical(const void *bytes, size_t size, char ret[HOSTNAME_SIZE]);

/* pattern is a rule's host ("*", "*.example.com", "example.com"), name is canonical. */
bool hostname_matches(const char *pattern, const char *name);
