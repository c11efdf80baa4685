/* Turns at a ward's bandwidth. Who finds it used up stands in a queue, one for each way; when enough has come back
 * together, whoever has waited longest may pass once, and then the next. So a small request beside a large transfer
 * waits for its share of the rounds, never for the transfer to let it in. */
#pragma once

#include "gate/loop.h"
#include "wire/gate.h"

enum ward_way { WARD_SENT, WARD_RECEIVED };
#define WARD_WAYS 2

struct flow;

/* One way of a ward. */
struct turns {
        struct flow *first, *last;
        struct loop_timer timer; /* when there may be enough for the first */
        struct loop_task next;
};

/* One way of a flow. */
struct turn {
        struct flow *next, *previous;
        bool queued, granted;
};

void turns_init(struct turns t[WARD_WAYS]);
void turns_finish(struct turns t[WARD_WAYS]);

/* How many bytes the flow may pass now, at most want. 0: none; unless the budget is spent the flow is run again when
 * its turn has come. */
size_t turn_take(struct flow *f, enum ward_way way, size_t want);
void turn_leave(struct flow *f); /* the flow is going: it waits no more */
