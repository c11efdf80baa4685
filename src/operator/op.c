/* The queue of operations of one sandbox. Not recursive, however many stand in a row and end at once. */
#include "operator/op.h"

static void take_first(struct ops *q) {
        q->first = q->first->next;
        if (!q->first)
                q->last = NULL;
}

static void advance(struct ops *q) {
        if (q->busy)
                return; /* the loop below, further up, goes on */
        q->busy = true;
        while (q->first && !q->first->begun) {
                struct op *op = q->first;

                op->begun = true;
                if (op->light)
                        take_first(q);
                op->begin(op);
        }
        q->busy = false;
}

void op_add(struct ops *q, struct op *op) {
        op->next = NULL;
        op->begun = false;
        if (q->last)
                q->last->next = op;
        else
                q->first = op;
        q->last = op;
        advance(q);
}

void op_done(struct ops *q) {
        assert(q->first);
        take_first(q);
        advance(q);
}
