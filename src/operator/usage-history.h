/* What sandboxes used over the last minutes, for plots. Only those that somebody looks at are measured: from the first
 * question on, every few seconds, until nobody has asked for five minutes; then it is forgotten.
 *
 * Bounded: samples of one sandbox, sandboxes of one owner and in all, and measurements in one turn of the loop. */
#pragma once

#include "operator/sandbox.h"

void usage_history_close(struct core *o);
