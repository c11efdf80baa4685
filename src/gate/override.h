/* Headers by which some servers let a request be another one: it has to be permitted as that, too. */
#pragma once

#include "gate/exchange.h"

bool override_asked(const struct http_head *h); /* has it such a header? */
/* False: it may be taken for a request that no rule permits. The request as its line says it is not judged here. */
bool override_permitted(const struct exchange_setup *s, const struct http_head *h, const char *method);
