/* Refusals in words, for programs that speak HTTP. */
#pragma once

#include "gate/exchange.h"

/* As exchange_refusal, with the status and, if not NULL, another hint than the reason's own. */
size_t exchange_refuse(const struct gate_event *e, unsigned status, const char *hint, char *ret, size_t room);
