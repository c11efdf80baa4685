/* A flow: one connection of a sandbox on its way through the gate.
 *
 *   transparent, port 80 or 443, or under rules that look inside:   SNIFF → RESOLVE → DIAL → (HANDSHAKE →) RELAY
 *   transparent, other ports (the server may speak first):          RESOLVE → DIAL → SNIFF → RELAY
 *   explicit proxy:                                                 PROXY → RESOLVE → DIAL → SNIFF → …
 *   refused at any point:                                           (REFUSE →) LINGER, or a reset
 *
 * Before HANDSHAKE a flow may have to wait for its turn, in SNIFF.
 *
 * Flows lie in one table whose size is set at the start. Sockets are watched edge-triggered, once: can_read and
 * can_write remember what epoll said until the kernel says "not now", and each turn runs a flow at most once, for a
 * bounded number of bytes. While nothing is known about a client's protocol its bytes are only peeked at and stay in
 * the kernel. Nothing is dialled before the decision, and only addresses that were checked are. */
#pragma once

#include "gate/exchange.h"
#include "gate/pool.h"
#include "gate/resolve.h"
#include "gate/ward.h"

enum flow_state {
        FLOW_FREE,
        FLOW_PROXY,     /* explicit proxy: reading where it should go */
        FLOW_SNIFF,     /* reading which protocol the client speaks, and whom it names in it */
        FLOW_RESOLVE,   /* waiting for the name's addresses */
        FLOW_DIAL,      /* connecting */
        FLOW_HANDSHAKE, /* opening TLS on both sides */
        FLOW_RELAY,     /* moving bytes */
        FLOW_REFUSE,    /* refused: reading enough of the client's words to answer in its protocol */
        FLOW_LINGER,    /* the last words were said: waiting until they have been heard */
        FLOW_STATE_COUNT,
};

/* What the client speaks, as far as it is known. */
enum flow_speech { SPEECH_UNKNOWN, SPEECH_TLS, SPEECH_HTTP, SPEECH_OTHER };

/* How the client came. */
enum flow_origin { ORIGIN_TRANSPARENT, ORIGIN_CONNECT, ORIGIN_FORWARD, ORIGIN_SOCKS, ORIGIN_PROXY };

struct flow_side {
        int fd;
        bool can_read, can_write;
        bool closing;         /* the peer has sent its last byte; there may be some before it */
        bool ended;           /* its last byte was read */
        bool shut;            /* we said that no more comes */
        struct tls *tls;      /* NULL: plain */
        bool more;            /* it was left in the middle of something: run it again, epoll need not tell */
        struct pool_hold in;  /* read from it, not used yet */
        struct pool_hold out; /* to be written to it */
};

/* What a rule has to say before an address may be dialled, the least first: see dial.c. */
enum flow_needs { NEEDS_NOTHING, NEEDS_PRIVATE, NEEDS_EXACT, NEEDS_LITERAL, NEEDS_NEVER };

struct flow_candidate {
        struct address address;
        enum flow_needs needs;
};

/* Whose head has begun and is not whole yet: it has a deadline. */
enum flow_partial { PARTIAL_NONE, PARTIAL_REQUEST, PARTIAL_ANSWER };

#define FLOW_CANDIDATES 8

struct flow {
        /* the table */
        uint32_t place, generation;
        struct flow *next, *previous; /* of the ward */
        struct ward *ward;
        struct loop_task task;
        struct loop_timer timer;

        enum flow_state state;
        enum flow_origin origin;
        enum flow_speech speech;
        uint64_t since;    /* when this state began */
        uint64_t deadline; /* UINT64_MAX: none */
        uint64_t wake;     /* an earlier time to be run at; 0: none */

        struct flow_side client, server;
        struct exchange *exchange;
        bool raw;     /* the exchange was upgraded, or there is none */
        bool waiting; /* the exchange wants no request before the answer is complete */
        bool again;   /* bytes that were not used may be of use now */
        bool greeted; /* SOCKS: the greeting is over */
        bool heard;   /* the client has said something, but not enough */
        bool sniffed;
        bool served;     /* the server has spoken before the client's protocol was known */
        bool told;       /* the proxy client was told that it is connected */
        bool ending;     /* upgraded: the server's last bytes were asked for */
        bool retargeted; /* the proxy was led elsewhere by a request that was not let through yet */
        enum flow_partial partial;

        /* where to */
        char name[HOSTNAME_SIZE]; /* "": a literal address */
        struct address address;
        uint16_t port;
        int32_t rule;                 /* in the profile, for events */
        bool inspect, private, exact; /* as the decision says */
        struct meter_host *host;

        /* getting there */
        struct resolve_wait lookup;
        struct flow_candidate candidates[FLOW_CANDIDATES];
        uint8_t candidate_count, candidate_next;
        int attempts[2];
        uint8_t attempted[2]; /* the candidate of each */
        uint64_t attempt_at;
        bool starved;          /* no descriptor could be had */
        enum flow_needs needs; /* of the address that was dialled; until then, the most of any candidate */

        /* opening TLS: only so many at a time */
        bool shaking;                             /* has a place among those that shake hands */
        bool opened;                              /* has one among those whose TLS is open */
        bool queued;                              /* waits in SNIFF for a place */
        struct flow *queue_next, *queue_previous; /* of the ward */

        struct turn turn[WARD_WAYS]; /* at the ward's bandwidth */

        /* refused */
        enum gate_reason reason;
        char detail[112];
        uint32_t drained;
};

int flow_init(struct err *err);
/* A new connection of this ward: takes fd. */
void flow_begin(struct ward *w, int fd, enum flow_origin origin);
void flow_move(struct flow *f, enum flow_state to);
void flow_deadline(struct flow *f, uint64_t ms); /* from now; 0: none */
void flow_wake(struct flow *f, uint64_t ms);     /* run it again after this */
void flow_end(struct flow *f);                   /* closes everything, orderly where it was orderly */
void flow_reset(struct flow *f);                 /* the client sees a reset */
void flow_drop_server(struct flow *f);
void flow_close_attempts(struct flow *f);
bool flow_named(const struct flow *f);
void flow_host(const struct flow *f, char ret[HOSTNAME_SIZE]); /* the name, or the address as text */
void flow_shut(struct flow_side *s);                           /* no more will be written to it */
/* Judges the destination anew; fills rule, inspect, private, exact. */
enum gate_reason flow_decide(struct flow *f);
/* Looks at what clients have said until now, without waiting for epoll. */
void flow_catch_up(struct ward *w);
/* Ends every flow of a ward with a reset. */
void flow_end_all(struct ward *w);
/* After new rules: ends what they no longer allow; returns how many. */
uint32_t flow_review(struct ward *w);
void flow_count(struct flow *f, enum ward_way way, size_t bytes); /* these passed */

/* What the flow was waiting for may have come: from the table of states. */
void proxy_step(struct flow *f);
void sniff_step(struct flow *f);
void dial_step(struct flow *f);
void meet_step(struct flow *f);
void relay_step(struct flow *f);
void refuse_step(struct flow *f);
void linger_step(struct flow *f);

void sniff_begin(struct flow *f);
void dial_begin(struct flow *f);         /* resolves, then connects; then meet_server */
bool dial_allowed(const struct flow *f); /* may what was dialled, or will be, still be reached under its decision? */
void meet_server(struct flow *f);        /* connected: goes on with what comes after */
void meet_begin(struct flow *f);         /* client and server are there and the protocol is known */
bool meet_exchange(struct flow *f);      /* HTTP under rules, from now on; false: the flow was refused */
void meet_give_exchange(struct flow *f);
void meet_left(struct flow *f);        /* it shakes no hands any more, nor waits for that: the next one may */
void meet_ended(struct flow *f);       /* nor is its TLS open */
void converse_step(struct flow *f);    /* HTTP under rules */
void converse_timeout(struct flow *f); /* a head took too long */
bool proxy_connected(struct flow *f);  /* tells the client of an explicit proxy; false: the flow is gone */
void proxy_retarget(struct flow *f, const struct http_target *t); /* the next request goes elsewhere */
void proxy_describe(struct flow *f, struct gate_event *e);        /* adds what the request to the proxy was */
void proxy_refused(struct flow *f, const struct gate_event *e);

/* Refuses: an event, and an answer in the client's protocol if that is known or can be found out. */
void refuse(struct flow *f, enum gate_reason reason, const char *detail);
void refuse_event(const struct flow *f, enum gate_reason reason, const char *detail, struct gate_event *ret);
void refuse_describe(struct gate_event *e, const struct http_head *head); /* adds its method and path */
/* It cannot go on because of this error of that side: a reset, and an event where the other peers are not to blame. */
void refuse_broken(struct flow *f, const struct flow_side *s, int error);
/* The last words, then the end. Bytes that cannot be written at once are kept. */
void refuse_say(struct flow *f, const void *words, size_t size);
