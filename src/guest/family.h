/* What a run started, and whether it lives, where a kernel has no cgroups for it: in a gVisor box. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Can runs be told apart here? Not if a plan limits what they are told by. */
bool family_is_told(void);

/* The calling process, and whatever it starts, is of this run from now on. Async-signal-safe; 0 or -errno. */
int family_join(uint32_t run);

enum family_end {
        FAMILY_LOOK,
        FAMILY_KILL,          /* what was seen; who was born meanwhile may live: to be called until nothing does */
        FAMILY_HOLD_AND_KILL, /* for who outruns that: everybody inside stands still for a moment, other runs too */
};

enum family_state {
        FAMILY_GONE,
        FAMILY_LIVES,
        FAMILY_PERHAPS, /* nobody was seen, but somebody moved meanwhile: to be asked again */
};

/* How it was when we looked; what was asked for has been done then. */
enum family_state family_end(uint32_t run, enum family_end end);
