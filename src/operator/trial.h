/* Whether a sandbox could be started now, by starting one: tiny, without a disk, nobody's, in no list and in no count,
 * and removed at once. With it goes a row to the store and back, and a question to a gate, where there may be networks.
 *
 * Only while somebody asks, and not more often than once in TRIAL_GOOD_MS; after a failure in TRIAL_BAD_MS. A sandbox
 * that really was started meanwhile counts as one. */
#pragma once

#include "operator/operator.h"

#define TRIAL_GOOD_MS 60000
#define TRIAL_BAD_MS  10000

struct trial_result {
        uint64_t at; /* loop time */
        bool runtime, store, ledger, gate;
        bool good;      /* all of these */
        char why[640];  /* what is not, for people; "" */
        uint64_t start; /* milliseconds that the start took */
};

struct trial_wait {
        struct trial_wait *next;
        void (*done)(struct trial_wait *w, const struct trial_result *r); /* once; w is the owner's again */
};

/* The last result while it holds; NULL: there is none. */
uint64_t trial_count(const struct core *o); /* that were begun, since we are here */
const struct trial_result *trial_fresh(const struct core *o);
const struct trial_result *trial_last(const struct core *o); /* the last, however old; NULL: there was none */
/* Begins one, unless one is under way; calls back from the loop. w NULL: nobody waits. 0, or -EBUSY or -ENOMEM. */
int trial_ask(struct core *o, struct trial_wait *w);
void trial_forget(struct core *o, struct trial_wait *w); /* it is not called any more */
bool trial_busy(const struct core *o);                   /* something of it may be running */
void trial_close(struct core *o);
