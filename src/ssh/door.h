/* What we ask the operator for: the local protocol (wire/local.h), each request on a connection of its own, which is a
 * socket pair whose other end goes to the operator over the link that the warden made.
 *
 * Nothing here waits, but door_wait and the sending of a connection's end, and those not for ever. */
#pragma once

#include <sys/types.h>

#include "base/json.h"
#include "wire/local.h"

#define DOOR_LINK_FD 3 /* SOCK_SEQPACKET, to the operator */
#define DOOR_QUEUE   (256U * 1024)

/* Whom we speak for, once the operator has said so. */
struct door {
        char token[64];
        char sandbox[32];
        char cwd[4096];
        char fingerprint[64];
};

struct door_stream {
        int fd;        /* not blocking; -EBADF: closed */
        struct buf in; /* bytes that were read; those before `at` were handed out */
        size_t at;
        struct buf out; /* bytes that wait to be sent, from `sent` on */
        size_t sent;
};

struct door_frame {
        enum local_kind kind;
        const uint8_t *data; /* until the next door_fill; JSON was checked and has a NUL behind it */
        size_t size;
};

/* A request: begin, add fields to the json, go. */
struct door_request {
        struct buf text;
        struct json json;
};
void door_begin(struct door_request *q, const struct door *d, const char *verb); /* d NULL: without a token */
/* Texts come from the client and may be anything: what is not UTF-8 cannot be asked. False then. */
bool door_text(struct door_request *q, const char *key, const char *value);
/* Takes q's text, whatever comes of it. */
int door_go(struct door_request *q, struct door_stream *ret);
void door_close(struct door_stream *s);
#define _cleanup_door_ _cleanup_(door_close)

/* Queues a frame; -ENOBUFS if there is no memory for it. Whoever sends much asks door_room first. */
int door_put(struct door_stream *s, enum local_kind kind, const void *data, size_t size);
bool door_room(const struct door_stream *s);
int door_flush(struct door_stream *s); /* sends what goes: 0, or -errno */
bool door_waiting(const struct door_stream *s);

/* Reads what is there: 1, 0 when there is nothing, -EPIPE at its end, -errno. */
int door_fill(struct door_stream *s);
int door_next(struct door_stream *s, struct door_frame *ret); /* 1, 0 when none is complete, -EBADMSG */

/* Sends what is queued and waits for the next frame: 1, or -errno; -ETIMEDOUT after so many milliseconds. */
int door_wait(struct door_stream *s, int ms, struct door_frame *ret);
/* Waits for room. 0, or -errno; -EISCONN when a frame came first. */
int door_drain(struct door_stream *s, int ms);

/* Of an answer: true if it is a good one; otherwise its error's code and message. */
bool door_good(const struct door_frame *answer, char code[32], char message[512]);
/* The whole of a request without streams: 0 and its result (JSON, to be freed), or -errno with code and message. */
int door_ask(struct door_request *q, int ms, char **ret, char code[32], char message[512]);
