/* A connection to a server: TCP, with TLS on it where the URL says https.
 *
 * A certificate is always checked, for the host of the URL: by those that the system trusts, or by those that were
 * given. Without TLS only loopback addresses are connected to, where one of the users that are trusted listens, unless
 * other things were allowed in so many words. Every step until it is open has an end in time; afterwards the socket
 * does not block. */
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include "remote/url.h"

struct trust {
        const char *ca;     /* certificates (PEM) instead of the system's; NULL: those */
        bool insecure_http; /* http to other hosts too */
        /* Who may listen on this host where there is no TLS: root and we ourselves, and this user (0: nobody else);
         * any_listener: whoever does now. ret_listener, if not NULL, is told who it was */
        uid_t listener, *ret_listener;
        bool any_listener;
};

struct line {
        int fd;
        SSL_CTX *context;
        SSL *ssl;                      /* NULL: no TLS */
        short read_wants, write_wants; /* what to poll for before the next try */
};

int line_open(struct line *l, const struct url *u, const struct trust *trust, struct err *err);
void line_close(struct line *l);
#define _cleanup_line_ _cleanup_(line_close)

/* Bytes; 0 at the end; -EAGAIN; -errno. */
ssize_t line_read(struct line *l, void *buf, size_t size);
ssize_t line_write(struct line *l, const void *data, size_t size);
bool line_pending(const struct line *l); /* there are bytes that poll does not know of */

uint64_t line_now(void);                                           /* ms; does not jump */
int line_wait(const struct line *l, short events, uint64_t until); /* 0; -ETIMEDOUT */
