/* The gate of one run, from outside: started when the plan's network leads through one, told what may be reached, given
 * the sockets that the cell made, and asked at the end for what was seen. */
#pragma once

#include <sys/types.h>

#include "wire/gate.h"

struct run;

#define NETWORK_USED_MAX 256

/* A secret of the run. The value goes to the gate and nowhere else; inside there is the placeholder. */
struct network_secret {
        const char *name;
        char holder[GATE_HOLDER_SIZE];
        uint8_t *value;
        size_t size;
};

struct network {
        int control;         /* our end; -EBADF: no gate */
        pid_t pid;           /* of the gate, 0: none */
        bool ready;          /* it has confined itself and listens */
        bool trust;          /* it opens TLS: its authority has to be inside before the command runs */
        bool given;          /* it has the sockets */
        bool learn;          /* it gives every name an address, to see what is wanted */
        unsigned restarts;   /* how often it died */
        uint32_t sent;       /* which of fds it has, as bits */
        uint32_t applied;    /* the generation that is in force, by its own word */
        unsigned unapplied;  /* looks since another was sent */
        uint32_t generation; /* of the rules */
        const void *rules;   /* in the plan, or in a newer one */
        size_t rules_size;
        void *newer; /* rules of a profile that changed since the start */
        struct gate_limits limits;
        int fds[GATE_FD_COUNT]; /* kept for a gate that has to take over */
        struct network_secret secrets[GATE_SECRETS_MAX];
        size_t secret_count;
        bool counted; /* totals are the gate's last word */
        struct gate_totals totals;
        struct gate_event used[NETWORK_USED_MAX];
        size_t used_count;
        char failure[256]; /* why the gate cannot do its work, in its own words */
};

#define NETWORK_INIT                                                                                                   \
        {                                                                                                              \
                .control = -EBADF, .fds = { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF }           \
        }

/* What the plan says about the network; reads the values of secrets, before anything is forked. */
int network_prepare(struct run *r, struct err *err);
/* Does the plan want a gate? Then starts it: it comes up while the rest of the sandbox is made, or while the command
 * starts. */
int network_start(struct run *r, struct err *err);
/* Before the cell is cloned: waits for what has to be inside from the beginning. */
int network_settle(struct run *r, struct err *err);
/* The cell made the sockets; takes them. */
void network_give(struct run *r, int *fds, size_t count);
/* The gate said something, or ended. Returns 0, or an error if the run cannot go on. */
int network_read(struct run *r, struct err *err);
/* --live: the profile may have changed. */
void network_reload(struct run *r);
/* The command has ended: hears the gate out. */
void network_finish(struct run *r);
void network_end(struct run *r);

/* network_secret.c */
int network_secrets(struct run *r, struct err *err); /* from the options and what the plan names */
void network_secrets_wipe(struct network *n);
