/* The secrets of one ward: values that only the gate has, and the placeholders that stand for them inside.
 *
 * Values live in memory of their own that is locked where the kernel permits, kept out of core dumps, wiped when
 * replaced and at the end; nothing here prints one. */
#pragma once

#include <sys/types.h>

#include "wire/gate.h"

/* Shorter values are refused: whoever can make a server send guesses back sees which of them is overwritten. */
#define SECRET_MIN 8

struct secrets;

struct secrets *secrets_create(void); /* NULL: no memory */
void secrets_destroy(struct secrets *s);
/* Adds or replaces. A value is 8 to GATE_SECRET_MAX bytes as a header may hold them: no control bytes (a line end at
 * the end of a file is the caller's to cut off), no white space around it. An empty one wipes. -EINVAL: not such a
 * value, name or placeholder; -EEXIST: the placeholder stands for another secret; -ENOSPC: there are
 * GATE_SECRETS_MAX. After a failure everything is as before. */
int secrets_put(struct secrets *s, const char *name, const char *holder, const void *value, size_t size);
int secrets_wipe(struct secrets *s, const char *name); /* -ENOENT: there is none */
size_t secrets_count(const struct secrets *s);         /* positions are below this; not all need be in use */

/* The first placeholder at or after `from` in text (the longest, where two begin): its position, or -1; *ret is which
 * secret, *ret_len the placeholder's length. */
ssize_t secrets_find(const struct secrets *s, const char *text, size_t size, size_t from, size_t *ret, size_t *ret_len);
const char *secrets_name(const struct secrets *s, size_t i); /* "": not in use */
const void *secrets_value(const struct secrets *s, size_t i, size_t *ret_size);
