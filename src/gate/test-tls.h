/* What tests of the TLS module share: certificates, both sides of a conversation in one thread, and a store. */
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/test.h"
#include "gate/tls.h"

#define HTTP1 "\x08http/1.1"
#define H2    "\x02h2"

static EVP_PKEY *test_key; /* of everything here */
static X509 *test_root, *other_root;
static const char *suite; /* of their side in TLS 1.2; NULL: any */
static unsigned chain;    /* certificates beside the server's own */

/* ---- certificates for servers ---- */

static inline void extension(X509 *x, X509 *issuer, int nid, const char *value) {
        X509V3_CTX c;

        X509V3_set_ctx(&c, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &c, nid, value);
        assert(e && X509_add_ext(x, e, -1) == 1);
        X509_EXTENSION_free(e);
}

static inline X509 *certificate(X509 *issuer, const char *cn, const char *san, const char *usage, long days) {
        X509 *x = X509_new();

        ASN1_INTEGER_set(X509_get_serialNumber(x), (long)random());
        X509_set_version(x, 2);
        X509_set_pubkey(x, test_key);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0);
        X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
        X509_gmtime_adj(X509_getm_notBefore(x), -10L * 24 * 3600);
        X509_gmtime_adj(X509_getm_notAfter(x), days * 24 * 3600);
        extension(x, issuer ? issuer : x, NID_basic_constraints, issuer ? "CA:FALSE" : "critical,CA:TRUE");
        if (san)
                extension(x, issuer, NID_subject_alt_name, san);
        if (usage)
                extension(x, issuer, NID_ext_key_usage, usage);
        assert(X509_sign(x, test_key, EVP_sha256()) > 0);
        return x;
}

/* ---- both sides of a conversation, in one thread ---- */

struct pair {
        int ours, theirs;
        struct tls *tls;
        SSL_CTX *context;
        SSL *ssl;
        int our_result, their_result; /* of the handshakes: 0, or what went wrong */
        int their_reason;
};

static inline void pair_sockets(struct pair *p) {
        int s[2];

        assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) == 0);
        *p = (struct pair){.ours = s[0], .theirs = s[1]};
}

static inline void pair_free(struct pair *p) {
        tls_free(p->tls);
        SSL_free(p->ssl);
        SSL_CTX_free(p->context);
        fd_close(&p->ours);
        fd_close(&p->theirs);
        ERR_clear_error();
}
#define _cleanup_pair_ _cleanup_(pair_free)

static inline void pair_shake(struct pair *p) {
        p->our_result = p->their_result = -EAGAIN;
        for (unsigned i = 0; i < 100 && (p->our_result == -EAGAIN || p->their_result == -EAGAIN); i++) {
                if (p->our_result == -EAGAIN) {
                        p->our_result = tls_handshake(p->tls);
                        CHECK(p->our_result != -EAGAIN || tls_wants(p->tls) == EPOLLIN);
                }
                if (p->their_result == -EAGAIN) {
                        ERR_clear_error();
                        int r = SSL_do_handshake(p->ssl);
                        int e = SSL_get_error(p->ssl, r);
                        p->their_result = r == 1 ? 0 : e == SSL_ERROR_WANT_READ ? -EAGAIN : -EPROTO;
                        p->their_reason = ERR_GET_REASON(ERR_peek_error());
                }
                if (p->our_result < 0 && p->our_result != -EAGAIN)
                        (void)shutdown(p->ours, SHUT_WR);
        }
}

/* A client inside a sandbox that trusts the authority's file and nothing else. */
static inline void inside(struct pair *p, struct tls_authority *a, int pem, const char *served, const char *wanted,
                          const char *alpn, int version) {
        char text[4096];
        ssize_t n = pread(pem, text, sizeof text, 0);

        pair_sockets(p);
        p->tls = tls_accept(a, p->ours, served);
        CHECK(p->tls != NULL);
        BIO *b = BIO_new_mem_buf(text, (int)n);
        X509 *root = PEM_read_bio_X509(b, NULL, NULL, NULL);
        BIO_free(b);
        p->context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_security_level(p->context, 0);
        SSL_CTX_set_min_proto_version(p->context, version == TLS1_1_VERSION ? version : TLS1_2_VERSION);
        SSL_CTX_set_max_proto_version(p->context, version);
        if (suite)
                SSL_CTX_set_cipher_list(p->context, suite);
        X509_STORE_add_cert(SSL_CTX_get_cert_store(p->context), root);
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(p->context), X509_V_FLAG_X509_STRICT);
        X509_free(root);
        SSL_CTX_set_verify(p->context, SSL_VERIFY_PEER, NULL);
        p->ssl = SSL_new(p->context);
        if (alpn)
                SSL_set_alpn_protos(p->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
        X509_VERIFY_PARAM *v = SSL_get0_param(p->ssl);
        if (X509_VERIFY_PARAM_set1_ip_asc(v, wanted) != 1)
                X509_VERIFY_PARAM_set1_host(v, wanted, 0);
        ERR_clear_error();
        SSL_set_fd(p->ssl, p->theirs);
        SSL_set_connect_state(p->ssl);
        pair_shake(p);
}

static inline int choose_first(SSL *s _unused_, const unsigned char **out, unsigned char *size,
                               const unsigned char *in _unused_, unsigned in_size _unused_, void *context) {
        const char *text = context;

        *out = (const unsigned char *)text + 1;
        *size = (unsigned char)text[0];
        return SSL_TLSEXT_ERR_OK;
}

/* A server in the world. */
static inline void outside_begin(struct pair *p, X509 *certificate, const char *name, const char *literal,
                                 const char *alpn, int version) {
        struct address a = {{[10] = 0xff, [11] = 0xff}};

        pair_sockets(p);
        if (literal && strchr(literal, ':'))
                assert(inet_pton(AF_INET6, literal, a.bytes) == 1);
        else if (literal)
                assert(inet_pton(AF_INET, literal, a.bytes + 12) == 1);
        p->tls = tls_connect(p->ours, name, literal ? &a : NULL);
        CHECK(p->tls && tls_wants(p->tls) == EPOLLOUT);
        p->context = SSL_CTX_new(TLS_server_method());
        SSL_CTX_set_security_level(p->context, 0);
        SSL_CTX_set_min_proto_version(p->context, version == TLS1_1_VERSION ? version : TLS1_2_VERSION);
        SSL_CTX_set_max_proto_version(p->context, version);
        if (suite)
                SSL_CTX_set_cipher_list(p->context, suite);
        SSL_CTX_use_certificate(p->context, certificate);
        for (unsigned i = 0; i < chain; i++)
                SSL_CTX_add1_chain_cert(p->context, other_root);
        SSL_CTX_use_PrivateKey(p->context, test_key);
        if (alpn) {
                union {
                        const char *in;
                        void *out;
                } u = {.in = alpn};
                SSL_CTX_set_alpn_select_cb(p->context, choose_first, u.out);
        }
        p->ssl = SSL_new(p->context);
        SSL_set_fd(p->ssl, p->theirs);
        SSL_set_accept_state(p->ssl);
}

static inline void outside(struct pair *p, X509 *certificate, const char *name, const char *literal, const char *alpn,
                           int version) {
        outside_begin(p, certificate, name, literal, alpn, version);
        pair_shake(p);
}

static inline struct tls_authority *authority(int files[GATE_CA_COUNT]) {
        struct err err = {0};
        struct tls_authority *a = tls_authority_create(-EBADF, &err);

        CHECK(a != NULL);
        CHECK(tls_authority_files(a, files, &err) == 0);
        return a;
}

static inline void close_all(int files[GATE_CA_COUNT]) {
        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                fd_close(&files[i]);
}

/* The host's own store and the test's authority, in a file that SSL_CERT_FILE names. */
static char store[] = "/tmp/test-gate-tls-XXXXXX";

static inline void store_remove(void) {
        (void)unlink(store);
}

static inline void set_up_store(void) {
        _cleanup_free_ char *host = NULL;
        size_t size = 0;
        int fd;

        fd = mkstemp(store);
        assert(fd >= 0);
        (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
        test_key = EVP_EC_gen("P-256");
        test_root = certificate(NULL, "test root", NULL, NULL, 20);
        other_root = certificate(NULL, "other root", NULL, NULL, 20);
        (void)fd_read_file(AT_FDCWD, "/etc/ssl/certs/ca-certificates.crt", 1 << 22, false, &host, &size, NULL);
        if (size > 0)
                assert(fd_write_full(fd, host, size) == 0);
        FILE *f = fdopen(fd, "a");
        assert(f && PEM_write_X509(f, test_root) == 1);
        assert(fclose(f) == 0);
        (void)setenv("SSL_CERT_FILE", store, 1);
        (void)atexit(store_remove);
        (void)signal(SIGPIPE, SIG_DFL);
}
