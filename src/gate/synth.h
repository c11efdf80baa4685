/* Synthetic addresses: inside a sandbox every allowed name has an address of its own that stands for it and leads
 * nowhere but to the gate. IPv4 from 198.18.0.0/15, IPv6 from a ULA block; the same index in both.
 *
 * The table is flat memory that the caller provides (a shared memfd), with offsets instead of pointers, so that a gate
 * that takes over from one that died finds the same addresses. Entries are never removed: an address means the same
 * name for the sandbox's life. A full table refuses new names. */
#pragma once

#include "base/address.h"
#include "wire/gate.h"

#define SYNTH_MEMORY (WARD_MEMORY - WARD_SUMS) /* bytes; untouched pages cost nothing */
#define SYNTH_NAMES  16384                     /* at most */

/* 198.18.0.1 and fd53:746f:636b::1 are the sandbox's own (source of its routes, its name server); the entry with index
 * i is 198.18.1.0 + i and fd53:746f:636b::1:0 + i. */
#define SYNTH_OWN_V4 WARD_OWN_V4
#define SYNTH_OWN_V6 WARD_OWN_V6

struct synth;

/* Takes over memory that is all zero (new) or holds a table (checked whole; NULL if it is not well-formed). memory is
 * aligned as mmap does, and must not shrink: the caller has looked at the memfd's size and its seals. One gate at a
 * time may have it. */
struct synth *synth_attach(void *memory, size_t size);

/* The name's index, making one if needed: 0 or more, -ENOSPC when there is no room for another. name is canonical. */
int synth_index(struct synth *s, const char *name);
void synth_address(unsigned index, bool v6, struct address *ret);

/* The name that an address stands for; NULL: not synthetic, or nobody was given it. synth_covers: is it in our blocks
 * at all (then it can never be dialled as a literal)? */
const char *synth_name(const struct synth *s, const struct address *a);
bool synth_covers(const struct address *a);
