/* Verifying as a walk: everybody who reads a whole ledger verifies it on the way. */
#pragma once

#include "ledger/chain.h"

/* Gives every line that holds to `each` (or NULL), which may end the walk with an error of its own; chain stands behind
 * the line. The rest is as for ledger_verify_expect. */
int verify_walk(int dir, const struct ledger_expect *expect,
                int (*each)(void *data, const struct line *line, const struct chain *chain), void *data,
                struct ledger_verdict *ret, struct err *err);
