/* The secrets of one ward: values that only the gate has, and the placeholders that stand for them inside.
 *
 * Values live in memory of their own that is locked where the kernel permits, kept out of core dumps, wiped when
 * replaced and at the end; nothing here prints one. */
#pragma once

#include <sys/types.h>

#include "wire/gate.h"

/* Shorter values are refused: whoever can make a server send guesses back sees which of them is overwritten. Of digits
 * alone there have to be more: all that have 8 are in 100 MB. */
#define SECRET_MIN        8
#define SECRET_MIN_DIGITS 16

struct secrets;

struct secrets *secrets_create(void); /* NULL: no memory */
void secrets_destroy(struct secrets *s);
/* What is wrong with a value, as a clause for a person; NULL: nothing. It is SECRET_MIN to GATE_SECRET_MAX bytes as a
 * header may hold them: no control bytes (a line end at the end of a file is the caller's to cut off), no white space
 * around it; SECRET_MIN_DIGITS at least if all are digits. */
const char *secrets_problem(const void *value, size_t size);
/* Adds or replaces. An empty value wipes. -EINVAL: not such a value (secrets_problem), name or placeholder; -EEXIST:
 * the placeholder stands for another secret; -ENOSPC: there are GATE_SECRETS_MAX. After a failure everything is as
 * before. */
int secrets_put(struct secrets *s, const char *name, const char *holder, const void *value, size_t size);
int secrets_wipe(struct secrets *s, const char *name); /* -ENOENT: there is none */
/* Another one each time that a position stops to hold the secret it held. */
uint64_t secrets_epoch(const struct secrets *s);
size_t secrets_count(const struct secrets *s); /* positions are below this; not all need be in use */

/* The first placeholder at or after `from` in text (the longest, where two begin): its position, or -1; *ret is which
 * secret, *ret_len the placeholder's length. */
ssize_t secrets_find(const struct secrets *s, const char *text, size_t size, size_t from, size_t *ret, size_t *ret_len);
const char *secrets_name(const struct secrets *s, size_t i); /* "": not in use */
const void *secrets_value(const struct secrets *s, size_t i, size_t *ret_size);
