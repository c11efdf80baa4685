/* One HTTP request and its answer, which is also a client of the operator's verbs.
 *
 * It is made when the head is there, checked (head.c, route.c, who.c), gets its body whole or in pieces, and is then
 * handed to a verb. What the verb says goes through the route's view, which makes HTTP of it: a JSON answer, a stream
 * of events, bytes. It lives until both libmicrohttpd and the verb have let go of it. */
#pragma once

#include "api/api.h"
#include "base/json.h"
#include "operator/server.h"

#define EXCHANGE_ID     65
#define EXCHANGE_PARAMS 3
#define EXCHANGE_PARAM  129
#define EXCHANGE_MARK   (128U * 1024)                /* of bytes that wait: above this there is no room */
#define EXCHANGE_MOST   (EXCHANGE_MARK + (2U << 20)) /* above this it is cut off */

struct route;
struct capability;

/* How what a verb says becomes an answer. Every function may be NULL: frames are dropped, a result is sent as it is. */
struct view {
        void (*frame)(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size);
        void (*answer)(struct exchange *x, const char *result);
        /* After the head was sent. NULL: the connection is cut, so that nobody takes it for the whole. */
        void (*refuse)(struct exchange *x, const char *code, const char *message, const char *hint);
        /* Before it. NULL: the refusal is the answer. */
        void (*unanswered)(struct exchange *x, const char *code, const char *message, const char *hint);
        void (*tick)(struct exchange *x, uint64_t now); /* every second while it waits */
        void (*free)(struct exchange *x);               /* of x->data */
        bool (*has_room)(const struct exchange *x);     /* NULL: by what waits to be read */
        /* What comes in the body, and FINISH, instead of going to the verb. */
        void (*input)(struct exchange *x, enum local_kind kind, const uint8_t *data, size_t size);
        void (*released)(struct exchange *x); /* the verb takes input again */
};

/* What of the head is looked at; libmicrohttpd's memory, NULL where it is not there. */
struct head {
        const char *host, *origin, *authorization, *length, *encoding, *type, *forwarded, *id, *last_event, *range,
                *upgrade, *websocket_key, *websocket_version, *cookie, *expect, *if_match;
};

struct exchange {
        struct client c; /* first */
        struct api *api;
        struct link *link;                 /* NULL: the connection is over */
        struct MHD_Connection *connection; /* likewise */
        struct exchange *next, *previous;
        const struct route *route; /* NULL: there is none */
        const struct view *view;
        const char *url, *method, *version; /* libmicrohttpd's, while there is a connection */
        char *path;                         /* what url points to instead: see instance.h; NULL: it does not */
        char id[EXCHANGE_ID];               /* x-request-id */
        struct head head;
        const char *origin; /* that may read the answer; NULL: none */
        char params[EXCHANGE_PARAMS][EXCHANGE_PARAM];
        const char *rest;    /* of the path, where the route has a tail: as it was sent, but checked */
        uint8_t address[16]; /* of whoever asks, behind proxies that we believe */
        char jti[33];        /* of the session or capability; "": none */
        uint64_t expires_ms; /* of the same, since 1970 */
        uint64_t begun;      /* µs */

        bool has_body, busy, suspended, inside, close, discard;
        bool doubt;                             /* nobody can tell where its body ends */
        bool held;                              /* the verb wants no input now */
        bool asked;                             /* its verb was */
        bool strict;                            /* browsers may be told to come by TLS alone */
        bool spaced;                            /* there is a blank in its target */
        bool own_host;                          /* the Host is that of a port (port-host.h) */
        bool streaming, ended, failed, crowded; /* of the answer */
        bool finished;                          /* the whole body was seen */
        size_t discarded;
        uint64_t moved;           /* bytes of the body that came, and of the answer that went */
        uint64_t paced, paced_at; /* of these, at a moment: see http.c */
        struct buf body;
        char *request;
        struct MHD_Response *response; /* waits for its moment */
        unsigned status;
        const char *code; /* of the refusal; NULL: there was none */
        struct buf out;
        size_t out_at;
        const char *fixed;     /* an answer that lives as long as we do, instead of out */
        struct loop_task room; /* tells the verb that there is room again */
        struct loop_task feeding;
        char *feed; /* input that came in the body, for the verb; NULL: none */
        size_t feed_size, feed_at;
        uint64_t deadline;             /* of the loop; 0: none */
        void *data;                    /* the view's */
        struct capability *capability; /* that it was opened with; NULL: none */
        size_t gathered;               /* its part of api.gathered: of the two that follow, in steps */
        size_t base, kept;             /* the body, or the request made of it; what the view keeps */
};

/* For http.c */
struct exchange *exchange_new(struct link *l, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version);
enum MHD_Result exchange_begin(struct exchange *x);
enum MHD_Result exchange_go_on(struct exchange *x, const char *upload, size_t *upload_size);
void exchange_over(struct exchange *x); /* libmicrohttpd has done with it */
struct link *exchange_link(const struct exchange *x);
bool exchange_is_suspended(const struct exchange *x);
void exchange_lose(struct exchange *x); /* the other end has gone */
void exchange_wake(struct exchange *x);
void exchange_tick(struct exchange *x, uint64_t now);

/* For routes: hands the request (JSON, ours) to its verb. The body is gone then. */
void exchange_dispatch(struct exchange *x, struct buf *request);
void exchange_feed(struct exchange *x, char *text, size_t size); /* takes text: all the input that the verb gets */
/* Its view keeps so many bytes from now on. False, and nothing has changed: that is too much, for its owner or for all.
 */
bool exchange_gather(struct exchange *x, size_t size);
/* Without a verb: answered later by whoever holds it. After exchange_release x may be gone. */
void exchange_hold(struct exchange *x);
void exchange_release(struct exchange *x);

/* reply.c: answers. A whole one takes the buffer's memory. */
void reply_json(struct exchange *x, unsigned status, struct buf *json);
void reply_text(struct exchange *x, unsigned status, const char *type, struct buf *text);
void reply_error(struct exchange *x, const char *code, const char *hint, const char *format, ...) _printf_(4, 5);
void reply_refused(struct exchange *x, const char *code, const char *message, const char *hint);
unsigned reply_status(const char *code);
void reply_error_json(struct json *j, const char *code, const char *message, const char *hint);
void reply_empty(struct exchange *x, unsigned status);
void reply_static(struct exchange *x, unsigned status, const char *type, const void *data, size_t size); /* ours */

/* A stream: its head, then bytes as they come, then the end. size: what will come, or UINT64_MAX. */
void reply_begin(struct exchange *x, unsigned status, const char *type, uint64_t size);
void reply_header(struct exchange *x, const char *name, const char *value); /* of what waits for its moment */
void reply_begin_bare(struct exchange *x, unsigned status, uint64_t size);  /* without any head of ours */
void reply_write(struct exchange *x, const void *data, size_t size);
void reply_end(struct exchange *x);
void reply_fail(struct exchange *x); /* cut off: nobody takes it for the whole */
