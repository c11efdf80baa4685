/* The gates of sandboxes with a network, from the operator's side: one per owner, started by the warden on first use,
 * started again when it dies (with back-off), told every ward again. What a gate says is hostile input; what it saw
 * goes to the ledger (net.use, net.deny, dns.deny). */
#pragma once

#include "operator/operator.h"
#include "wire/gate.h"

struct gate_ward; /* one sandbox at its owner's gate */

struct gate_ward_plan {
        const char *owner;
        const char *sandbox;
        struct gate_limits limits;
        const void *rules; /* of OP_REACH; copied */
        size_t rules_size;
        bool trust; /* STEP_TRUST: an authority is needed before the sandbox starts */
};

/* Makes the ward known. With trust, `authority` is called once its files are there (fds: GATE_CA_PEM, _BUNDLE, _JAVA,
 * _KEY; the callback's to take, the others are closed after it) or with an error; from the loop, once. Without
 * `authority` a ward with trust is one that was adopted: its gate is told nothing before gate_ward_sockets, with the
 * key among them. */
int gate_ward_open(struct core *o, const struct gate_ward_plan *plan,
                   void (*authority)(void *data, int error, int fds[GATE_CA_COUNT]), void *data, struct gate_ward **ret,
                   struct err *err);
/* The sandbox has started (or was adopted): its sockets, as WARDEN_START or WARDEN_NETWORK gave them. Takes them. */
void gate_ward_sockets(struct gate_ward *w, int *fds, size_t count);
int gate_ward_rules(struct gate_ward *w, const void *rules, size_t size); /* new ones, for the next connection */
/* Inside there is the placeholder; the value goes to the gate. A size of 0 wipes it. 0, -EINVAL, -ENOSPC or -ENOMEM. */
int gate_ward_secret(struct gate_ward *w, const char *name, const char *holder, const void *value, size_t size);
/* Bytes that passed since the ward was made, as the gate tells them now and then. */
void gate_ward_moved(const struct gate_ward *w, uint64_t *ret_sent, uint64_t *ret_received);
void gate_ward_close(struct gate_ward *w);              /* everything of it is cut */
void gate_link_gone(struct core *o, uint32_t slot);     /* WARDEN_GATE_GONE */
bool gate_link_idle(struct core *o, const char *owner); /* its gate has no ward (or it has none): it is ended soon */
void gate_link_close(struct core *o);
