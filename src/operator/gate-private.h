/* What gate-link.c (the gates: started, listened to, replaced) and gate-ward.c (their wards: kept, told) share. */
#pragma once

#include "operator/gate-link.h"
#include "operator/warden-link.h"

#define APPLY_MS 10000 /* rules have to be in force by then, or the gate is replaced */

struct secret {
        char name[GATE_NAME_SIZE];
        char holder[GATE_HOLDER_SIZE];
        uint8_t *value; /* NULL: to be wiped at the gate */
        size_t size;
        bool told;
};

struct gate_ward {
        struct gate *gate;
        struct gate_ward *next;
        uint32_t number; /* from 1 */
        char sandbox[STORE_ID];
        struct gate_limits limits;
        bool trust, given;       /* TLS is opened; the sockets came */
        bool closing;            /* only REMOVE is left to say, or its echo to hear */
        bool refused;            /* its rules are not well-formed: the gate never hears of it */
        bool spent;              /* the budget's end was recorded */
        uint64_t sent, received; /* bytes, as its gate has told so far */
        bool key_new;            /* its key is not with the warden yet */
        void *rules;
        size_t rules_size;
        uint32_t generation, told_generation, applied;
        uint64_t told_at;  /* when the gate was told these rules */
        bool told;         /* the gate knows it */
        uint32_t told_fds; /* of fds, as bits */
        bool told_remove, told_echo;
        int fds[GATE_FD_COUNT];
        struct secret *secrets;
        size_t secret_count;
        struct loop_timer deadline; /* for the authority; or its failure, which is told from the loop */
        int failure;
        void (*authority)(void *data, int error, int fds[GATE_CA_COUNT]);
        void *data;
};

struct gate {
        struct core *o;
        struct gate *next;
        char owner[STORE_OWNER];
        bool tls;
        uint32_t slot;
        int control; /* -EBADF: there is none now */
        bool asked;  /* for one, from the warden */
        bool ready;
        char failure[GATE_TEXT_SIZE]; /* what it said last about itself */
        struct loop_watch watch;
        struct loop_timer again, idle, apply, retry;
        uint64_t since;
        unsigned backoff;
        struct gate_ward *wards;
        struct gate_ward *by_number[GATE_WARDS_MAX];
        uint32_t last_number, count;
        bool held; /* an event waits for the ledger */
        uint32_t held_ward;
        struct gate_event event;
};

struct gates {
        struct gate *first;
        bool slots[WARDEN_GATES_MAX];
};

/* gate-ward.c */
void gate_ward_drop(struct gate_ward *w);                              /* out of memory and out of its gate's list */
void gate_ward_untold(struct gate_ward *w);                            /* its gate is a new one, which knows nothing */
int gate_ward_tell(struct gate_ward *w);                               /* 0, or -errno of gate_send */
void gate_ward_authority(struct gate_ward *w, int fds[GATE_CA_COUNT]); /* it is made */
void gate_ward_fail(struct gate_ward *w, int error);                   /* it will not be made */

/* gate-link.c */
struct gate *gate_link_for(struct core *o, const char *owner, bool tls, struct err *err);
void gate_link_tell(struct gate *g); /* brings the gate and its wards together; asks for a gate if there is none */
void gate_link_emptied(struct gate *g);
