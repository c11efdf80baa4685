/* The API: HTTP and WebSocket for programs elsewhere. One daemon of libmicrohttpd without threads, nested in the
 * operator's loop; every request becomes a client of the same verbs that the local socket has, with the same checks.
 *
 * The other end is anybody. What it may hold here is counted: connections in all and of one address, bytes of a head
 * and of a body, bytes that it does not read, seconds that it takes. Nothing it sends reaches a verb before it was
 * checked against the one table of routes (route.h). */
#pragma once

#include <microhttpd.h>

#include "base/endpoint.h"
#include "operator/operator.h"

struct exchange;
struct rates;
struct tls;
struct tls_link;
struct metrics;
struct signin;
struct api;

/* One TCP connection. */
struct link {
        struct api *api;
        struct link *next, *previous; /* in a->links, or in the hall */
        struct exchange *exchange;    /* what is asked on it now; NULL: nothing */
        int fd;                       /* libmicrohttpd's to close; -EBADF: it has none yet */
        uint8_t address[16];          /* of the other end, as the kernel says */
        struct tls_link *tls;         /* NULL: plain HTTP */
        bool stranger;                /* it is in its handshake, and libmicrohttpd does not know it yet */
        bool spoke;                   /* and has got the time for that, since something came from it */
        uint64_t expires;             /* it must have said something whole by then; 0: no matter */
        bool kept;                    /* closed by us and not by libmicrohttpd: it is a WebSocket now */
        bool uncounted;               /* it has gone, but is not closed yet */
        struct loop_watch watch;      /* in the hall */
        union endpoint from;          /* whom libmicrohttpd is told of */
        socklen_t from_size;
};

struct hall { /* http-hall.c */
        struct link *first, *last;
        struct loop_timer timer; /* the first one is due */
        struct loop_task task;   /* some are */
};

struct door {
        struct api *api;
        struct loop_watch watch;
        struct loop_timer pause;
        int fd;
        union endpoint at;
};

struct api {
        struct core *o;
        struct MHD_Daemon *daemon;
        struct loop_watch watch; /* the daemon's epoll descriptor */
        struct loop_timer timer; /* its own timeouts */
        struct loop_task task;   /* it has something to do */
        struct loop_timer sweep; /* slow and lost clients; once a second while there are any */
        struct link *incoming;   /* while libmicrohttpd is told of it */
        struct hall hall;        /* those of whom libmicrohttpd does not know yet */
        struct link *links;      /* all others */
        struct link *unswept;    /* those from here on are still to be looked after in this sweep; NULL: none */
        uint64_t swept_at;       /* it began then */
        unsigned link_count;     /* with those in the hall */
        unsigned secure_count;   /* connections over TLS, with those that libmicrohttpd has done with */
        unsigned stranger_count; /* of these, in their handshake */
        struct exchange *exchanges;
        size_t gathered; /* bytes that exchanges keep until they are answered, and answers until they are read */
        struct door doors[OPERATOR_LISTEN_MAX];
        size_t door_count;
        int fd_most;           /* a connection with this number, or above, is refused */
        bool draining, inside; /* inside: libmicrohttpd is working */
        struct tls *tls;       /* is spoken at every door; NULL: plain HTTP is */
        char url[CONF_TEXT];   /* who we are, in sign-in texts and tokens: "http://127.0.0.1:7070" */
        char domain[CONF_TEXT];
        struct rates *rates;
        struct breakers *breakers;
        struct metrics *metrics;
        struct signin *signin;
        struct instance *instance; /* NULL: cloud mode */
};

/* http.c */
void http_wake(struct api *a);           /* libmicrohttpd has something to do: at the end of this turn */
void http_cut(struct link *l);           /* the connection ends now, whatever is under way on it */
bool http_hung_up(const struct link *l); /* the other end has; whether or not all was read */
void http_admit(struct link *l);         /* from the hall to libmicrohttpd */
void http_leave(struct link *l);         /* from the hall out: closed, and forgotten */
void http_uncount(struct link *l);       /* before that, if it has to wait for it */
int http_open(struct api *a, struct err *err);
void http_drain(struct api *a);
void http_close(struct api *a);
