/* The drivers that can be judged, and checks that are not made under one of them, each with its reason. */
#pragma once

#include "base/err.h"

enum judged { JUDGED_NATIVE, JUDGED_DOCKER, JUDGED_GVISOR, JUDGED_MICROVM, JUDGED_FIRECRACKER, JUDGED_COUNT };

int exempt_driver(const char *name); /* enum judged, or -ENOENT */

/* Why the check means nothing under this driver or cannot be asked of it; NULL: it is made. */
const char *exempt_why(const char *driver, const char *check);
/* Why it is no hole that the attempt works under this driver: what it reaches is the box's own. NULL: it is one. To be
 * asked only where the host saw nothing of it. */
const char *exempt_within(const char *driver, const char *check);
/* Every row names a check that there is. */
int exempt_check(struct err *err);
