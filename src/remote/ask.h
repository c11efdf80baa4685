/* One HTTP request and its answer, or the head of an answer that makes a WebSocket of the connection.
 *
 * A redirect is never followed: whoever could send one could have the token sent to himself. What comes back is
 * bounded, and read by the strict reader of base/http.h. */
#pragma once

#include "base/buf.h"
#include "remote/line.h"

struct ask {
        const char *method, *path;
        const char *token;     /* NULL: none */
        const char *body;      /* JSON; NULL: none */
        const char *more_head; /* whole lines; NULL: none */
};

struct ask_answer {
        unsigned status;
        struct buf body; /* JSON that passed json_check; "{}" if there was none. After 101: bytes behind the head */
        char accept[64]; /* Sec-WebSocket-Accept */
        char protocol[64];
};
void ask_free(struct ask_answer *a); /* wiped: it may have a token in it */
#define _cleanup_answer_ _cleanup_(ask_free)

/* On a connection that stands. Whatever the status is, an answer is 0; no answer, or one that is not ours, is an error.
 */
int ask_on(struct line *l, const struct url *u, const struct ask *q, struct ask_answer *ret, struct err *err);

/* The whole: connects, asks, and turns every status but 200 into an error with the server's words. *ret_status, if not
 * NULL, has it in any case (0: there was no answer). */
int ask(const struct url *u, const struct trust *trust, const struct ask *q, struct ask_answer *ret,
        unsigned *ret_status, struct err *err);

/* The server's words for what went wrong. */
int ask_refused(const struct url *u, const struct ask_answer *a, struct err *err);
