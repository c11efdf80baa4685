/* What the parts of the TLS module tell each other. Only files of the module include this. */
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "gate/tls-door.h"

/* tls-store.c: the certificates that the host trusts. Opened before the gate confines itself, read when first needed.
 */
int store_open(struct err *err);
int store_read_pem(struct buf *out, struct err *err);                                       /* the file's bytes */
int store_each(int (*take)(void *context, const uint8_t *der, size_t size), void *context); /* 0 or what take said */
size_t store_count(void);       /* certificates; 0 if the file cannot be read */
X509_STORE *store_verify(void); /* for verifying servers; NULL: no memory, no certificates */

/* tls-authority.c */
struct tls_authority *authority_create(int key, struct err *err);
int authority_files(struct tls_authority *a, int ret[GATE_CA_COUNT], struct err *err);
void authority_destroy(struct tls_authority *a);
SSL *authority_session(struct tls_authority *a, const char *name); /* a server's side with the leaf for this name */
/* tls-files.c: the authority's certificate and key as files */
int files_make(X509 *certificate, EVP_PKEY *key, int ret[GATE_CA_COUNT], struct err *err);
int files_read_key(int fd, EVP_PKEY **ret_key, X509 **ret_certificate, struct err *err);

/* tls-module.c */
extern const unsigned char tls_alpn_http1[9];
void tls_context_common(SSL_CTX *c);
/* The last thing that OpenSSL complained about, as a clause; empties its list. */
const char *tls_complaint(char *buf, size_t size);
