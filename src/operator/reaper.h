/* What time does to sandboxes: those that nobody uses are stopped (time.idle), those that have lived long enough
 * (time.lifetime), and those whose processor time is used up (budget.cpu). One timer per sandbox, set to the first
 * moment at which something can be due. */
#pragma once

#include "operator/sandbox.h"

void reaper_look(struct sandbox *s);               /* something changed: when is the next look? */
uint64_t reaper_lifetime(const struct sandbox *s); /* milliseconds; FROZEN_UNSET: for ever */
