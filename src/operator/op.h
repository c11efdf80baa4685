/* The order of what is done to one sandbox. Operations wait for each other; those of different sandboxes do not know of
 * each other. A light one (a run, a file) waits for the others only to begin, and nobody waits for it. */
#pragma once

#include "base/macro.h"

struct op {
        struct op *next;
        void (*begin)(struct op *op); /* called once; from inside op_add when nothing is before it */
        bool light;                   /* is out of the queue when it begins, so that op_done is not for it */
        bool begun;
};

struct ops {
        struct op *first, *last; /* first is at work */
        bool busy;               /* somebody is beginning operations */
};

void op_add(struct ops *q, struct op *op);
void op_done(struct ops *q); /* what is at work has ended, and is freed afterwards: the next begins */

static inline bool ops_idle(const struct ops *q) {
        return !q->first;
}
