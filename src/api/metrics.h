/* Numbers about the API and what is behind it, in Prometheus' text form. */
#pragma once

#include "api/exchange.h"

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
/* One request has ended: its route (NULL: none), its status (0: cut off), how long it took. */
void metrics_done(struct metrics *m, const struct route *r, unsigned status, uint64_t us);
void metrics_answer(struct exchange *x); /* GET /metrics */
