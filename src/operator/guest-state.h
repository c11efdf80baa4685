/* What a guest may say on one connection, given what we said: every run and request that is open on it, with offsets
 * and windows. Pure: no descriptor, no callback. The guest is inside and hostile; whatever is not expected here is a
 * breach, and a breach ends the connection.
 *
 * Forgotten runs and late frames: a run that we let go of (GUEST_FORGET) may still have frames under way; they are
 * dropped. So is news of runs that were not attached to yet. Numbers that we never used are a breach. */
#pragma once

#include "wire/guest.h"

struct guest_run_stream {
        bool attached;
        bool jump;          /* the next frame may begin anywhere from `asked` on */
        uint64_t asked;     /* where the last ATTACH wanted it to begin */
        uint64_t next;      /* offset of the next byte */
        uint64_t confirmed; /* credit was given up to here */
        uint64_t end;       /* after EXITED: no byte from here on */
};

struct guest_run_state {
        uint32_t number;
        bool terminal, input; /* has one; takes input */
        bool started, exited;
        bool blocked; /* input waits for room */
        uint64_t in_sent, in_taken;
        struct guest_run_stream out[GUEST_STREAMS];
};

struct guest_request;

struct guest_request_state {
        uint32_t uses;
        bool busy, opened, finished;
        bool blocked; /* DATA waits for room */
        enum guest_kind kind;
        struct guest_request *owner; /* NULL: cancelled; END is awaited */
        uint64_t received, confirmed, most;
        uint64_t sent, taken;
        uint32_t items;
};

struct guest_state {
        bool hello;
        uint32_t version, features;   /* of the guest */
        uint32_t highest;             /* run that was ever open here */
        unsigned unstarted;           /* runs whose EXEC was sent and that have neither begun nor ended */
        struct guest_run_state *runs; /* by number */
        size_t run_count, run_room;
        struct guest_request_state *requests; /* GUEST_REQUESTS_MAX of them, once there was one */
};

void guest_state_free(struct guest_state *s);

enum guest_verdict {
        GUEST_PASS,
        GUEST_DROP,  /* allowed, but nobody wants it */
        GUEST_BREACH /* *ret_why says how */
};

/* Where a frame belongs. */
struct guest_place {
        struct guest_run_state *run;         /* STARTED, OUTPUT, EXITED, CREDIT of input; else NULL */
        struct guest_request_state *request; /* of requests; else NULL */
        const char *why;
};

/* Judges one frame that guest_read accepted, and takes it into account. A request whose END passed is free again once
 * the caller has dealt with it: guest_state_end. */
enum guest_verdict guest_state_take(struct guest_state *s, const struct guest_message *m, struct guest_place *ret);

/* Kinds that a guest sends at all, and the largest payload of each; 0: never. */
uint32_t guest_state_payload_max(uint16_t kind);

/* What we do. Runs: -EEXIST, -ENOENT, -ENOMEM, -EINVAL. */
int guest_state_exec(struct guest_state *s, uint32_t run, uint32_t flags);
int guest_state_attach(struct guest_state *s, const struct guest_message *run, const uint64_t offsets[GUEST_STREAMS]);
void guest_state_forget(struct guest_state *s, uint32_t run);
struct guest_run_state *guest_state_run(struct guest_state *s, uint32_t run);

/* Credit that is to be sent: *ret_offset, if it is worth a frame. */
bool guest_state_confirm(struct guest_run_state *r, enum guest_stream stream, uint64_t offset, uint64_t *ret_offset);
bool guest_state_confirm_data(struct guest_request_state *r, uint64_t *ret_offset);

size_t guest_state_input_room(const struct guest_run_state *r);
size_t guest_state_data_room(const struct guest_request_state *r);

/* A request gets a channel; 0: there are GUEST_REQUESTS_MAX, or no memory. */
uint32_t guest_state_ask(struct guest_state *s, const struct guest_message *m, struct guest_request *owner);
struct guest_request_state *guest_state_request(struct guest_state *s, uint32_t channel);
void guest_state_end(struct guest_request_state *r);
bool guest_state_sends_data(const struct guest_request_state *r); /* we may send DATA for it */
