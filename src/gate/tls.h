/* TLS, behind a door: the code (OpenSSL) is a module of its own, loaded when the first rule needs it and before the
 * gate confines itself, because loading takes longer than starting a sandbox. Everything else of the gate runs without
 * it.
 *
 * An authority is made per ward: a P-256 key and a self-signed certificate, valid from yesterday for 30 days, name
 * constrained to nothing but made for this sandbox alone; leaves are made per name and kept for the ward's life (at
 * most TLS_LEAVES, the oldest goes). ALPN offers http/1.1 only, to clients and to servers. TLS 1.2 and 1.3. Servers'
 * certificates are verified for the name (or the literal address) against the host's store. */
#pragma once

#include "base/address.h"
#include "wire/gate.h"

#define TLS_LEAVES   256
#define TLS_BUDGET   (64 * 1024) /* what one call takes from the descriptor at most */
#define TLS_IDLE_MAX 16

/* Loads the module from the folder that the gate's program is in, opens the host's certificate bundle (the file that
 * SSL_CERT_FILE names, else the distribution's; read when first needed). To be called before confinement: nothing is
 * opened later. */
int tls_load(struct err *err);
bool tls_loaded(void);

struct tls_authority;
/* key: a descriptor from an earlier GATE_CA_KEY, or -EBADF for a new authority. */
struct tls_authority *tls_authority_create(int key, struct err *err);
int tls_authority_files(struct tls_authority *a, int ret[GATE_CA_COUNT], struct err *err); /* sealed memfds */
void tls_authority_destroy(struct tls_authority *a);

struct tls; /* one side of a connection; does not own the descriptor */
/* To the client, as this server: a canonical name, or an address as text. NULL: no memory, or not a name. */
struct tls *tls_accept(struct tls_authority *a, int fd, const char *name);
/* To a server, which has to prove that it is this name or, with name NULL, this address. */
struct tls *tls_connect(int fd, const char *name, const struct address *literal);
void tls_free(struct tls *t);

/* All return -EAGAIN when the descriptor has to become readable or writable first: tls_wants says which (EPOLLIN,
 * EPOLLOUT). All but tls_end return -EINTR when they took TLS_BUDGET bytes from the descriptor and are not at an end:
 * more may be there already and the descriptor need not tell so again, so call once more, after the others had their
 * turn. tls_handshake: 0 done, -EPROTO failed, -EKEYREJECTED: the certificate is not valid (tls_problem has the
 * clause). tls_read: bytes, 0 at an orderly end, -EPIPE at a cut, -EPROTO from then on when the peer sent more than
 * TLS_IDLE_MAX records that carry no data (new keys, another handshake, tickets) without data that outweighs them
 * (tls_problem has the clause). tls_write may take a part; after -EAGAIN or -EINTR the same bytes have to be offered
 * again first. tls_end sends close_notify. */
int tls_handshake(struct tls *t);
ssize_t tls_read(struct tls *t, void *data, size_t size);
ssize_t tls_write(struct tls *t, const void *data, size_t size);
int tls_end(struct tls *t);
uint32_t tls_wants(const struct tls *t);
bool tls_pending(const struct tls *t); /* bytes were received and not read: the descriptor will not tell. False once
                                          tls_read said -EAGAIN; true after -EINTR */
const char *tls_problem(const struct tls *t);
