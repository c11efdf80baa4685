/* Bytes between a client and a child of the warden, through a pipe: archives in and out, lists of changes. The loop
 * never waits: a slow client holds up the child, a slow child the client. */
#pragma once

#include "operator/call.h"
#include "operator/sandbox.h"
#include "operator/warden-link.h"

struct transfer {
        struct transfer *next; /* those that wait their turn, and those under way */
        bool running;
        uint64_t begun; /* of the loop's clock */
        struct warden_message request;
        char words[WARDEN_TEXT_SIZE]; /* of the request */
        struct loop_timer stall;      /* the client neither reads nor sends */
        struct core *o;
        struct call *call;
        char *question; /* for a child that is told by a stream what to do; NULL: the request says all */
        size_t question_size;
        bool brief; /* somebody looks at a page: does not wait for archives of the same owner */
        int fd;     /* our end */
        struct loop_watch watch;
        bool in;              /* from the client */
        bool whole;           /* the client said that this was all */
        bool ended, answered; /* the pipe; the warden */
        bool gone;            /* the client went away before the end */
        uint8_t *rest;        /* from the client, for the pipe; or the beginning of a line */
        size_t rest_size, rest_at;
        uint64_t bytes;
        void (*line)(struct transfer *t, char *text); /* out: instead of frames */
        /* Both have ended; t->error and t->err say how it went, and an unfinished input is an error. Ends the call. */
        void (*done)(struct transfer *t);
        int error;
        struct err err;
        struct warden_message answer;
        char text[WARDEN_TEXT_SIZE]; /* of the answer */
        void *data;
};

/* When it is its turn (one of each owner's at a time, and one that is brief), makes the pipe and asks the warden, with
 * its other end. */
void transfer_begin(struct transfer *t, const struct warden_message *m);
struct transfer *transfer_new(struct call *c, bool in, void (*done)(struct transfer *t)); /* NULL: refused */
void transfer_free(struct transfer *t);
