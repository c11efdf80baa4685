/* Talking to the operator on its local socket, or through a helper to one elsewhere (docs/protocol/local.md): one
 * request per connection, frames both ways, one answer at the end.
 *
 * Calls here wait for the other end. What comes back is checked before anybody looks into it: frames by their caps,
 * JSON by json_check. Texts in it may have come from a sandbox: escape them before they are printed. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/json.h"
#include "cli/args.h"
#include "wire/local.h"

struct talk {
        int fd;
        int patience; /* ms to wait for each frame; 0: as long as it takes */
        /* called ten times a second while a daemon elsewhere is connected to; false: no more of it. NULL: as long as it
         * takes. talk_close forgets it */
        bool (*go_on)(void *data);
        void *go_on_data;
        char *in; /* bytes that were read and not yet handed out */
        size_t start, end, room;
        char *answer;     /* the whole answer, once it has come */
        char code[24];    /* the error's code, if it is one */
        char socket[108]; /* where */
        pid_t helper;     /* of a daemon elsewhere: who speaks with it (afar.h); 0: none */
};

void talk_close(struct talk *t);
#define _cleanup_talk_ _cleanup_(talk_close)

/* A request: begin, add fields with json_*, go. Texts that are not UTF-8 cannot be said; talk_go then refuses. */
struct talk_request {
        struct buf text;
        struct json json;
        bool bad; /* talk_str was given what cannot be said */
};

void talk_begin(struct talk_request *q, const char *verb);
void talk_str(struct talk_request *q, const char *key, const char *value);                       /* nothing for NULL */
void talk_list(struct talk_request *q, const char *key, const char *const *items, size_t count); /* nothing for none */
void talk_request_free(struct talk_request *q);
#define _cleanup_request_ _cleanup_(talk_request_free)

/* Connects and sends the request. -ENOENT when no daemon is there, with a sentence that says how to start one. */
int talk_go(struct talk *t, const struct args_common *o, struct talk_request *q, struct err *err);

/* The same for a connection that stands: for those who connect by themselves. */
int talk_connect(struct talk *t, const struct args_common *o, struct err *err);
int talk_send(struct talk *t, enum local_kind kind, const void *data, size_t size, struct err *err);

struct talk_frame {
        enum local_kind kind;
        const char *data; /* JSON has passed json_check and has a NUL behind it; stays until the next call */
        size_t size;
};

/* The next frame: 1, or 0 after the answer. An answer is kept in t->answer and not handed out as a frame. A connection
 * that ends before the answer is -EPIPE. */
int talk_next(struct talk *t, struct talk_frame *ret, struct err *err);

/* Reads what the socket has without waiting: 1 if there was something, 0 if not yet, -EPIPE at its end, -errno. Then
 * talk_take hands out whole frames: 1, 0 when none is complete, or an error. For loops that wait elsewhere. */
int talk_fill(struct talk *t);
int talk_take(struct talk *t, struct talk_frame *ret, struct err *err);

/* After the answer: its "result", or the error that it carries (err gets its words). */
int talk_result(struct talk *t, const char **ret, struct err *err);

/* Waits for the answer, with frames passed over (events go to event, if there is one). */
int talk_wait(struct talk *t, const char **ret, void (*event)(void *data, const char *json), void *data,
              struct err *err);

/* The whole for a verb without streams: sends, waits, hands out the result. */
int talk_ask(struct talk *t, const struct args_common *o, struct talk_request *q, const char **ret, struct err *err);

/* How a verb ends: prints the error (as JSON if that was asked for) and returns the exit status for it. */
int talk_failed(const struct talk *t, const struct args_common *o, const struct err *err);
void talk_print(const char *json);               /* a result as it is, one line */
void talk_print_to(FILE *out, const char *json); /* for those whose standard output is somebody else's */

/* The sockets that are looked for, in this order; false past the last. With --socket there is just that one. */
bool talk_place(const struct args_common *o, size_t i, char *ret, size_t size);
