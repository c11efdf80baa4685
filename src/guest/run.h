/* Runs: commands that the operator started, with their streams, from EXEC to FORGET. They do not depend on a
 * connection: what they say is kept (stream.h), how they ended too.
 *
 * A run whose process has not executed yet is starting: its streams are open, but nothing is told of it. */
#pragma once

#include "guest/serve.h"
#include "guest/stream.h"

/* A run's time until it executes. */
struct start {
        struct guest *guest;
        struct loop_watch watch;
        int fd;              /* tells how it went; -EBADF: that is known */
        unsigned turns;      /* of the nudge */
        bool asked;          /* for, on this connection: the start is told */
        uint64_t signals[2]; /* came early, to the process and to its group; bit 0 is signal 1 */
};

struct run {
        struct run *next;
        uint32_t number;
        uint32_t flags; /* GUEST_TERMINAL, GUEST_STDIN */
        pid_t pid;
        bool ended; /* status, error and rusage say how */
        bool known; /* it was started on this connection, or is attached to: its end is told */
        bool told;  /* it was */
        bool lost;  /* forgotten; only its output is still read, and dropped */
        int status;
        int error;
        char *why; /* a sentence, with error */
        struct guest_rusage rusage;
        uint64_t patience; /* when its end is told although its output is open */
        struct stream streams[2];
        size_t stream_count;
        struct input input;
        struct start start;
};

int run_exec(struct guest *g, const struct guest_message *m);
int run_input(struct guest *g, const struct guest_message *m);
int run_input_end(struct guest *g, const struct guest_message *m);
int run_signal(struct guest *g, const struct guest_message *m);
int run_resize(struct guest *g, const struct guest_message *m);
int run_attach(struct guest *g, const struct guest_message *m);
int run_forget(struct guest *g, const struct guest_message *m);
int run_credit(struct guest *g, const struct guest_message *m); /* also of requests */

void run_nudge(struct guest *g);      /* time has passed: continues or gives up processes that do not get to execute */
bool run_reap(struct guest *g);       /* children have ended; true if there may be more */
void run_settle(struct guest *g);     /* tells ends that are ripe, drops runs that are over */
void run_detach_all(struct guest *g); /* the connection is gone */
bool run_pump(struct guest *g);       /* lets every stream say a piece; true if there is more */
void run_rest(struct guest *g);       /* gives memory back that is not in use */
