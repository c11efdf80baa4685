/* What this host can enforce, found by trying each mechanism (in a forked child where it leaves traces), not by reading
 * version numbers. Works as root and as an ordinary user; what it says is true for the user who asks. */
#pragma once

#include "base/err.h"

enum host_state {
        FACT_OK,
        FACT_LIMITED, /* there, but not all of it, or not for this user */
        FACT_MISSING,
};

enum { HOST_FACTS_MAX = 48 };

struct host_fact {
        const char *name;
        const char *group; /* heading: "kernel", "cgroups", ... */
        enum host_state state;
        bool needed_for_low; /* without it (FACT_MISSING) the tier `low` does not start */
        char detail[160];
        char cost[160]; /* what is lost without it: profile keys, options, drivers; "" when OK */
        char fix[200];  /* the command or setting that changes it; "" when OK or when nothing does */
};

/* Fills at most room facts; returns how many. Takes a tenth of a second or so. */
size_t host_probe(struct host_fact *facts, size_t room);

/* True when no fact that `low` needs is missing. */
bool host_runs_low(const struct host_fact *facts, size_t count);
