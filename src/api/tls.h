/* TLS of the API: the certificate and its key, as the warden sends them (wire/certificate.h), and what a session of
 * GnuTLS is made with. Connections are tls-link.h's.
 *
 * A pair is looked at before it is used: it can be read, belongs together, and is not weak. One that fails costs
 * nothing but itself: the pair before it goes on, or, if there was none, the API stays shut. A new pair is for
 * connections that come afterwards; those that there are go on. */
#pragma once

#include <gnutls/gnutls.h>

#include "operator/operator.h"

struct tls;
struct tls_pair;

/* Reads what is there and watches for more; `changed` is called after each, good or bad. NULL: no memory. */
struct tls *tls_open(struct core *o, void (*changed)(struct core *o));
void tls_close(struct tls *t);                      /* there are no connections any more */
bool tls_has(const struct tls *t);                  /* a pair: connections can be served */
const struct err *tls_problem(const struct tls *t); /* with the last pair that came; NULL: none */
uint64_t tls_expires_ms(const struct tls *t);       /* the certificate; since 1970 */

/* For connections: the pair of this moment, and its end for them. */
struct tls_pair *tls_pair_take(struct tls *t);                                     /* NULL: there is none */
void tls_pair_drop(struct tls_pair *p);                                            /* NULL is fine */
int tls_session(struct tls *t, struct tls_pair *p, int fd, gnutls_session_t *ret); /* 0 or -ENOMEM; fd stays theirs */
