/* The guest of a sandbox that lives, as one struct: its loop, its one connection, its runs, its requests.
 *
 * Everything happens in turns of one loop. Whoever has something to say asks for the pump (serve_wake), which lets each
 * source say a bounded piece, round after round, while the connection has room: no archive holds up a terminal. */
#pragma once

#include "base/loop.h"
#include "guest/leaf.h"
#include "guest/link.h"
#include "wire/box.h"

struct run;
struct request;

struct guest {
        struct loop *loop;
        struct link link;
        struct run *runs, *last_run;
        unsigned run_count;
        struct request *requests, *last_request;
        unsigned request_count;
        uint8_t *scratch; /* GUEST_DATA_MAX bytes, for use within one step */
        struct loop_watch listener, children;
        struct loop_task pump, reap;
        struct loop_timer tidy;   /* gives buffers back that rest */
        struct loop_timer settle; /* runs whose end is to be told although their output is still open */
        struct loop_timer nudge;  /* runs whose process has not executed yet */
        struct loop_timer accept; /* after a failed accept */
        int spare;                /* a descriptor to give up when there is none left for a new connection */
        const char *peer;         /* in a box: the socket that we connect to; NULL: we listen */
        uint8_t secret[BOX_SECRET_SIZE];
        size_t secret_size; /* 0: the keeper takes whoever dials for us */
        struct loop_timer dial;
        unsigned dial_ms; /* until the next attempt */
        struct leaves leaves;
};

/* Serves on GUEST_LISTEN_FD for ever; returns only when it cannot begin. leaves: in a machine, where whoever we report
 * to makes the cgroups of runs (wire/leaf.h). */
int serve_main(bool leaves);

/* In a box, where no descriptor is inherited and nobody waits for a report: connects to the Unix socket at path, and
 * again whenever the connection is gone. That connection is as one that was accepted. If there is a secret on standard
 * input (wire/box.h), it is said first. leaves: they come with EXEC; otherwise runs are told by their families. */
int serve_dial(const char *path, bool leaves);

/* Something may be said, or read on. */
void serve_wake(struct guest *g);
