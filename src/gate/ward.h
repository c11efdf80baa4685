/* A ward: one sandbox as the gate sees it. Its sockets, rules, secrets, authority, synthetic addresses, counters, and
 * the connections that it has open.
 *
 * A ward without sockets can be told its rules already; sockets may follow later. Nothing of one ward is ever used for
 * another. */
#pragma once

#include "base/fd.h"
#include "gate/decide.h"
#include "gate/event.h"
#include "gate/secret.h"
#include "gate/synth.h"
#include "gate/tls.h"
#include "gate/turn.h"

#define WARD_LOOKUPS       500 /* DNS questions a second, unless told otherwise */
#define WARD_LOOKUPS_BURST 1000
#define WARD_QUERIES_MAX   16  /* DNS connections over TCP at a time */
#define WARD_RESOLVING_MAX 128 /* names that are being resolved for it at a time */

/* What is counted, in memory that outlives a gate: a budget is not new because the gate is. */
struct ward_sums {
        struct gate_totals totals; /* active is counted in the ward */
        uint64_t egress;           /* bytes that count toward budget.egress */
        bool exhausted;            /* it was used up once: closed until it is raised */
};
static_assert(sizeof(struct ward_sums) <= WARD_SUMS, "they fit");

struct ward {
        uint32_t id;
        uint32_t place; /* in the table; the index of its references */
        uint32_t generation;
        unsigned flags; /* GATE_WARD_* */
        struct gate_limits limits;
        int fds[GATE_FD_COUNT];
        bool paused[GATE_FD_COUNT]; /* listening sockets that wait for descriptors to become free */

        struct rules rules;
        uint32_t rules_generation;
        struct secrets *secrets; /* NULL: none yet */
        struct tls_authority *authority;
        bool authority_sent;
        void *synth_memory;
        struct synth *synth;

        struct ward_sums *sums; /* in synth_memory, as soon as there is one */
        struct ward_sums first_sums;
        uint32_t active;                 /* flows */
        uint32_t queries;                /* DNS connections */
        uint32_t resolving;              /* names that are being asked for on its behalf */
        uint32_t buffers;                /* of the pool */
        uint32_t exchanges;              /* conversations under rules */
        uint32_t shaking, opened;        /* TLS: in the handshake, and all of it */
        struct flow *queue, *queue_last; /* flows that wait to shake hands */
        struct meter_bucket bandwidth[WARD_WAYS], lookups;
        struct turns turns[WARD_WAYS]; /* flows that wait for bandwidth */
        struct meter_hosts hosts;
        struct event_log events;
        struct flow *flows; /* a list */
        struct loop_timer resume;
};

struct ward *ward_find(uint32_t id);
struct ward *ward_at(uint32_t place, uint32_t generation); /* NULL: gone */
size_t ward_count(void);
/* Of things that all wards share: may this ward, which has `used`, have one more while `left` are free? It may have as
 * many as it likes while it is alone, and otherwise at most eight times as many as would be left for the others. */
bool ward_shares(uint64_t used, uint64_t left);
/* The place-th ward, or NULL: to walk them all, up to GATE_WARDS_MAX. */
struct ward *ward_by_place(uint32_t place);

/* Makes the ward, or adds to it. Takes the descriptors that it keeps (they become -EBADF); the caller closes the rest.
 */
int ward_add(const struct gate_message *m, int fds[GATE_FD_COUNT], struct err *err);
/* Replaces the rules; *ret_closed is how many connections they ended. */
int ward_rules(struct ward *w, const struct gate_message *m, uint32_t *ret_closed, struct err *err);
int ward_secret(struct ward *w, const struct gate_message *m, struct err *err);
void ward_remove(struct ward *w);

/* Listening sockets: stop for a moment because descriptors ran out. */
void ward_pause(struct ward *w, enum gate_fd which);

/* How many bytes may pass this way now, at most want; 0: not now. */
size_t ward_allowance(struct ward *w, enum ward_way way, size_t want);
bool ward_plenty(struct ward *w, enum ward_way way);         /* is there enough to be worth a turn? */
uint64_t ward_wait(const struct ward *w, enum ward_way way); /* until there is: milliseconds */
void ward_passed(struct ward *w, enum ward_way way, size_t bytes);
/* Is nothing allowed this way any more, ever? Then somebody who wants to pass more ends it all: ward_exhaust records it
 * and closes every connection of the ward. */
uint64_t ward_left(const struct ward *w); /* of the budget for sending */
bool ward_spent(const struct ward *w, enum ward_way way);
void ward_exhaust(struct ward *w);

/* The index of a rule in the profile for events, from its position; -1 stays -1. */
int32_t ward_rule_index(const struct ward *w, int rule);
