/* What must be right about the head of every request, whatever it asks for: who it thinks we are, where it comes from,
 * and that there is only one way to read it. */
#pragma once

#include "api/exchange.h"

/* False: it was refused. */
bool head_check(struct exchange *x);

bool head_is_host(const struct api *a, const char *host); /* one of our names */
