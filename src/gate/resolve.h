/* Names to addresses: the host's own name servers through c-ares, /etc/hosts, and a small cache.
 *
 * Only names that a decision allowed come here. What comes out is what was answered, unjudged: whoever dials checks
 * every address against the rule of the moment. Files are read once, at the start. */
#pragma once

#include "base/address.h"
#include "wire/gate.h"

#define RESOLVE_ADDRESSES 8
#define RESOLVE_TTL_MAX   60

struct resolve_wait {
        struct resolve_wait *next, *previous; /* NULL: not waiting */
        /* count 0: no addresses, and why is a clause for a person. */
        void (*done)(struct resolve_wait *w, const struct address *addresses, size_t count, const char *why);
};

int resolve_init(struct err *err); /* before confinement */
/* Would resolve_begin ask nobody: is the answer here, or under way? */
bool resolve_known(const char *name);
/* Returns 1 if w->done was called already, 0 if it will be, -EBUSY if too many are under way. *sent is how many bytes
 * of questions leave the host for it. If any do, *running counts one more until they were answered or given up, also if
 * nobody waits for that any more. */
int resolve_begin(struct resolve_wait *w, const char *name, uint32_t *running, size_t *ret_sent);
void resolve_cancel(struct resolve_wait *w);
void resolve_forget(const uint32_t *running); /* this counter ends; what it counts goes on uncounted */
