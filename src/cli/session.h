/* Bytes between the caller's streams and one request: what is typed goes in, what is printed comes out, signals and the
 * terminal's size are passed on, until the answer is there or the connection breaks.
 *
 * Byte-exact and bounded: output that the caller does not take is not read, input that the operator does not take is
 * not read either. Who asks twice to end it (SIGINT or SIGTERM, again within seconds) gets away in any case: what runs
 * there goes on if it did not end of that. Offsets are counted, so that a session that broke can be taken up again
 * where it was. */
#pragma once

#include "cli/talk.h"

enum session_end {
        SESSION_ANSWERED,  /* talk has the answer */
        SESSION_DETACHED,  /* the caller left; what runs goes on */
        SESSION_LOST,      /* the connection broke before the answer */
        SESSION_ABANDONED, /* told to end while there was no connection */
};

struct session {
        /* set by the caller */
        struct talk *talk; /* the request has been sent */
        bool input;        /* standard input goes in */
        bool tty;          /* the far end is a terminal: keys are bytes, leaving is possible, its size is passed on */
        bool forward;      /* signals go to what runs there; otherwise they end the session */
        bool stays;        /* no keys leave it: what runs there does not go on without us */
        int out, err;      /* where output goes */
        void (*event)(void *data, const char *json);
        void *data;

        /* for the caller */
        uint64_t out_bytes, err_bytes; /* received and written, or to be written: the offsets to go on from */
        uint64_t in_bytes;             /* sent */
        int signal;                    /* that ended it without an answer; 0: none */

        /* inside */
        int signals;
        struct buf send;
        size_t sent;
        const char *pending; /* of a frame, still to be written */
        size_t pending_size;
        int pending_fd;
        bool input_ended, out_broken, err_broken, leaving, answered;
        int asked; /* the last signal that asks to end and was passed on */
        uint64_t asked_at, leave_at;
        int keys; /* how far the two keys that leave have been typed */
};

int session_open(struct session *s, struct err *err); /* blocks signals; the terminal becomes raw if tty and input */
int session_run(struct session *s, struct err *err);  /* enum session_end, or an error */
bool session_pause(struct session *s, int ms);        /* waits between two connections; false: told to end meanwhile */
void session_close(struct session *s);
