/* One connection over TLS: a socket to the client, a pair of sockets to libmicrohttpd, and bytes between them. So
 * libmicrohttpd speaks plain HTTP, also to WebSockets, and knows nothing of TLS.
 *
 * A client costs two buffers of one record each and GnuTLS' own; whichever side is slow holds up the other. The end of
 * either direction is passed on as such. A connection whose inner end was closed gets some seconds to read what was
 * said, and is counted for its address until then. Of handshakes, whose steps cost a millisecond or two, few go on in
 * one turn of the loop: those of a crowd take turns. */
#pragma once

#include "base/endpoint.h"
#include "base/loop.h"

struct tls;
struct tls_link;

struct tls_link_events {
        /* The handshake is over; fd is the inner end, and whoever is told has it now. */
        void (*shaken)(void *data, int fd);
        /* It failed before that. Nothing is told afterwards. */
        void (*failed)(void *data);
        void (*over)(void *owner, const uint8_t address[16]); /* the socket is closed: it counts no more */
};

/* Takes fd in every case. NULL: it is closed, and nothing will be told. */
struct tls_link *tls_link_new(struct tls *t, struct loop *loop, int fd, const uint8_t address[16],
                              const struct tls_link_events *events, void *owner, void *data);
/* `data` is gone: it goes on by itself until the client has read what is there, or for a few seconds. */
void tls_link_leave(struct tls_link *l);
bool tls_link_spoke(const struct tls_link *l); /* something came from the client */
int tls_link_fd(const struct tls_link *l);     /* of the client; -EBADF: it is closed */
void tls_link_cut(struct tls_link *l);         /* nothing more is sent; it is closed at the end of this turn */
