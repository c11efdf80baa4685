/* The TLS module over socket pairs, with OpenSSL itself as the other side: as a client that trusts only what a sandbox
 * is given, and as servers with certificates of a test authority that the host's store holds. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

static void extension(X509 *x, X509 *issuer, int nid, const char *value) {
        X509V3_CTX c;

        X509V3_set_ctx(&c, issuer, x, NULL, NULL, 0);
        X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &c, nid, value);
        assert(e && X509_add_ext(x, e, -1) == 1);
        X509_EXTENSION_free(e);
}

static X509 *certificate(X509 *issuer, const char *cn, const char *san, const char *usage, long days) {
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

static void pair_sockets(struct pair *p) {
        int s[2];

        assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) == 0);
        *p = (struct pair){.ours = s[0], .theirs = s[1]};
}

static void pair_free(struct pair *p) {
        tls_free(p->tls);
        SSL_free(p->ssl);
        SSL_CTX_free(p->context);
        fd_close(&p->ours);
        fd_close(&p->theirs);
        ERR_clear_error();
}
#define _cleanup_pair_ _cleanup_(pair_free)

static void pair_shake(struct pair *p) {
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
static void inside(struct pair *p, struct tls_authority *a, int pem, const char *served, const char *wanted,
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

static int choose_first(SSL *s _unused_, const unsigned char **out, unsigned char *size,
                        const unsigned char *in _unused_, unsigned in_size _unused_, void *context) {
        const char *text = context;

        *out = (const unsigned char *)text + 1;
        *size = (unsigned char)text[0];
        return SSL_TLSEXT_ERR_OK;
}

/* A server in the world. */
static void outside_begin(struct pair *p, X509 *certificate, const char *name, const char *literal, const char *alpn,
                          int version) {
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

static void outside(struct pair *p, X509 *certificate, const char *name, const char *literal, const char *alpn,
                    int version) {
        outside_begin(p, certificate, name, literal, alpn, version);
        pair_shake(p);
}

static struct tls_authority *authority(int files[GATE_CA_COUNT]) {
        struct err err = {0};
        struct tls_authority *a = tls_authority_create(-EBADF, &err);

        CHECK(a != NULL);
        CHECK(tls_authority_files(a, files, &err) == 0);
        return a;
}

static void close_all(int files[GATE_CA_COUNT]) {
        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                fd_close(&files[i]);
}

/* ---- tests ---- */

static void test_clients_inside(void) {
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
        const unsigned char *chosen;
        unsigned size;

        for (size_t i = 0; i < ELEMENTSOF(versions); i++) {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "api.example.test", "api.example.test", H2 HTTP1, versions[i]);
                CHECK(p.our_result == 0 && p.their_result == 0);
                SSL_get0_alpn_selected(p.ssl, &chosen, &size);
                CHECK(size == 8 && memcmp(chosen, "http/1.1", 8) == 0);
                CHECK(SSL_session_reused(p.ssl) == 0);
                CHECK(SSL_SESSION_has_ticket(SSL_get_session(p.ssl)) == 0);
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "api.example.test", "api.example.test", NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        {
                _cleanup_pair_ struct pair p; /* the certificate is for this name and no other */
                inside(&p, a, files[GATE_CA_PEM], "api.example.test", "other.example.test", NULL, TLS1_3_VERSION);
                CHECK(p.their_result == -EPROTO && SSL_get_verify_result(p.ssl) == X509_V_ERR_HOSTNAME_MISMATCH);
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "192.0.2.7", "192.0.2.7", HTTP1, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "2001:db8::7", "2001:db8::7", HTTP1, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        close_all(files);
        tls_authority_destroy(a);
}

static void test_clients_refused(void) {
        int files[GATE_CA_COUNT], others[GATE_CA_COUNT];
        struct tls_authority *a = authority(files), *b = authority(others);

        {
                _cleanup_pair_ struct pair p; /* only HTTP/2 */
                inside(&p, a, files[GATE_CA_PEM], "a.test", "a.test", H2, TLS1_3_VERSION);
                CHECK(p.our_result == -EPROTO && p.their_result == -EPROTO);
                CHECK(p.their_reason == SSL_AD_REASON_OFFSET + TLS1_AD_NO_APPLICATION_PROTOCOL);
                CHECK(tls_problem(p.tls)[0] != '\0');
        }
        {
                _cleanup_pair_ struct pair p;
                inside(&p, a, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_1_VERSION);
                CHECK(p.our_result == -EPROTO && p.their_result == -EPROTO);
        }
        {
                _cleanup_pair_ struct pair p; /* another sandbox's authority is not trusted */
                inside(&p, a, others[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_3_VERSION);
                CHECK(p.their_result == -EPROTO && p.our_result == -EPROTO);
        }
        close_all(files);
        close_all(others);
        tls_authority_destroy(a);
        tls_authority_destroy(b);
}

static void test_servers(void) {
        static const struct {
                const char *cn, *san, *usage;
                long days;
                bool other;
                const char *name, *literal, *alpn;
                int version, result;
        } cases[] = {
                {"x", "DNS:good.test", "serverAuth", 9, false, "good.test", NULL, HTTP1, TLS1_3_VERSION, 0},
                {"x", "DNS:good.test", "serverAuth", 9, false, "good.test", NULL, NULL, TLS1_2_VERSION, 0},
                {"x", "DNS:good.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, 0},
                {"x", "DNS:*.good.test", NULL, 9, false, "a.good.test", NULL, NULL, TLS1_3_VERSION, 0},
                {"x", "IP:192.0.2.9", NULL, 9, false, NULL, "192.0.2.9", NULL, TLS1_3_VERSION, 0},
                {"x", "IP:2001:db8::9", NULL, 9, false, NULL, "2001:db8::9", NULL, TLS1_3_VERSION, 0},
                {"x", "DNS:*.good.test", NULL, 9, false, "a.b.good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:*.good.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:g*.good.test", NULL, 9, false, "go.good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:bad.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"good.test", NULL, NULL, 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, -1, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, 9, true, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, 9, true, "good.test", NULL, NULL, TLS1_2_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", "clientAuth", 9, false, "good.test", NULL, NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "IP:192.0.2.9", NULL, 9, false, NULL, "192.0.2.8", NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:192.0.2.9", NULL, 9, false, NULL, "192.0.2.9", NULL, TLS1_3_VERSION, -EKEYREJECTED},
                {"x", "DNS:good.test", NULL, 9, false, "good.test", NULL, H2, TLS1_3_VERSION, -EPROTO},
                {"x", "DNS:good.test", NULL, 9, false, "good.test", NULL, NULL, TLS1_1_VERSION, -EPROTO},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                X509 *x = certificate(cases[i].other ? other_root : test_root, cases[i].cn, cases[i].san,
                                      cases[i].usage, cases[i].days);
                {
                        _cleanup_pair_ struct pair p;
                        outside(&p, x, cases[i].name, cases[i].literal, cases[i].alpn, cases[i].version);
                        if (p.our_result != cases[i].result)
                                (void)printf("# case %zu: %d, not %d (%s)\n", i, p.our_result, cases[i].result,
                                             tls_problem(p.tls));
                        CHECK(p.our_result == cases[i].result);
                        if (p.our_result == 0) {
                                const char *sni = SSL_get_servername(p.ssl, TLSEXT_NAMETYPE_host_name);
                                CHECK(cases[i].name ? sni && str_eq(sni, cases[i].name) : !sni);
                        } else {
                                CHECK(tls_problem(p.tls)[0] != '\0');
                                CHECK(tls_read(p.tls, (char[1]){0}, 1) == -EPIPE);
                                CHECK(tls_write(p.tls, "x", 1) == -EPIPE);
                        }
                }
                X509_free(x);
        }
        CHECK(tls_connect(0, NULL, NULL) == NULL);
        CHECK(tls_connect(0, "", NULL) == NULL);
}

/* A server that the store itself holds, as operators do with a single self-signed one, and the store's real ones. */
static void test_silence_and_noise(void) {
        struct pair p;

        pair_sockets(&p);
        p.tls = tls_connect(p.ours, "good.test", NULL);
        CHECK(tls_handshake(p.tls) == -EAGAIN && tls_wants(p.tls) == EPOLLIN);
        CHECK(tls_read(p.tls, (char[1]){0}, 1) == -EPIPE); /* nothing before the handshake */
        CHECK(write(p.theirs, "HTTP/1.1 400 no\r\n\r\n", 19) == 19);
        CHECK(tls_handshake(p.tls) == -EPROTO);
        CHECK(tls_handshake(p.tls) == -EPROTO);
        pair_free(&p);

        pair_sockets(&p);
        p.tls = tls_connect(p.ours, "good.test", NULL);
        fd_close(&p.theirs); /* no SIGPIPE either */
        CHECK(tls_handshake(p.tls) == -EPROTO);
        CHECK(tls_end(p.tls) == 0);
        pair_free(&p);
}

static void test_data(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        enum { SIZE = 3 * 1024 * 1024 };
        uint8_t *data = malloc(SIZE), *back = malloc(SIZE + 1);
        size_t sent = 0, echoed = 0, seen = 0, got = 0;
        unsigned waited = 0;

        for (size_t i = 0; i < SIZE; i++)
                data[i] = (uint8_t)random();
        _cleanup_pair_ struct pair p;
        outside(&p, x, "good.test", NULL, HTTP1, TLS1_3_VERSION);
        CHECK(p.our_result == 0);
        uint8_t *server = malloc(SIZE);
        for (unsigned round = 0; round < 100000 && got < SIZE; round++) {
                ssize_t n;
                int r;

                while (sent < SIZE && (n = tls_write(p.tls, data + sent, SIZE - sent)) > 0)
                        sent += (size_t)n;
                waited += sent < SIZE && tls_wants(p.tls) == EPOLLOUT;
                if (seen < SIZE &&
                    (r = SSL_read(p.ssl, server + seen, (int)MIN((size_t)SIZE - seen, (size_t)100000))) > 0)
                        seen += (size_t)r;
                if (echoed < seen &&
                    (r = SSL_write(p.ssl, server + echoed, (int)MIN(seen - echoed, (size_t)16384))) > 0)
                        echoed += (size_t)r;
                /* small reads leave decrypted bytes behind, and say so */
                while ((n = tls_read(p.tls, back + got, MIN((size_t)1000, SIZE + 1 - got))) > 0) {
                        got += (size_t)n;
                        if (n == 1000 && got % 16384 > 0 && got % 16384 < 15000)
                                CHECK(tls_pending(p.tls));
                }
                CHECK(n == -EAGAIN && !tls_pending(p.tls));
        }
        CHECK(waited > 0);
        CHECK(got == SIZE && memcmp(data, back, SIZE) == 0);
        /* an orderly end, both ways */
        CHECK(SSL_shutdown(p.ssl) == 0);
        CHECK(tls_read(p.tls, back, 1) == 0);
        CHECK(tls_end(p.tls) == 0);
        CHECK(SSL_shutdown(p.ssl) == 1);
        free(server);
        free(data);
        free(back);
        X509_free(x);
}

static void test_cut(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

        for (size_t i = 0; i < ELEMENTSOF(versions); i++) {
                _cleanup_pair_ struct pair p;
                char back[8];

                outside(&p, x, "good.test", NULL, NULL, versions[i]);
                CHECK(SSL_write(p.ssl, "half", 4) == 4);
                fd_close(&p.theirs);
                CHECK(tls_read(p.tls, back, sizeof back) == 4);
                CHECK(tls_read(p.tls, back, sizeof back) == -EPIPE);
                CHECK(tls_write(p.tls, "x", 1) == -EPIPE);
                CHECK(tls_end(p.tls) == 0);
        }
        X509_free(x);
}

/* A record that arrives in two halves: until the second nothing is pending, whatever was read of it. */
static void test_half_record(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        _cleanup_pair_ struct pair p;
        char *record, back[300];

        outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
        CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN);
        SSL_set0_wbio(p.ssl, BIO_new(BIO_s_mem()));
        memset(back, 'x', sizeof back);
        CHECK(SSL_write(p.ssl, back, sizeof back) == (int)sizeof back);
        ssize_t size = BIO_get_mem_data(SSL_get_wbio(p.ssl), &record);
        CHECK(write(p.theirs, record, 100) == 100);
        CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN && tls_wants(p.tls) == EPOLLIN && !tls_pending(p.tls));
        CHECK(write(p.theirs, record + 100, (size_t)size - 100) == size - 100);
        CHECK(tls_read(p.tls, back, 100) == 100 && tls_pending(p.tls));
        CHECK(tls_read(p.tls, back, sizeof back) == 200 && !tls_pending(p.tls));
        X509_free(x);
}

static void test_renegotiation(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        _cleanup_pair_ struct pair p;
        char back[8];

        outside(&p, x, "good.test", NULL, NULL, TLS1_2_VERSION);
        CHECK(p.our_result == 0);
        CHECK(SSL_renegotiate(p.ssl) == 1);
        (void)SSL_do_handshake(p.ssl);
        CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN); /* answered with a no_renegotiation warning */
        ERR_clear_error();
        CHECK(SSL_read(p.ssl, back, sizeof back) <= 0);
        CHECK(ERR_GET_REASON(ERR_peek_error()) == SSL_R_NO_RENEGOTIATION);
        X509_free(x);
}

/* ---- peers that send without end what carries no data ---- */

/* They ask for new keys so often, or until nothing more fits. */
static void new_keys(struct pair *p, unsigned count, int answer) {
        for (unsigned i = 0; i < count; i++)
                if (SSL_key_update(p->ssl, answer) != 1 || SSL_do_handshake(p->ssl) != 1)
                        break;
        ERR_clear_error();
}

/* The same, in one piece: a socket holds few small ones. Their side can send nothing after it. */
static void many_new_keys(struct pair *p, int answer) {
        char *bytes;

        SSL_set0_wbio(p->ssl, BIO_new(BIO_s_mem()));
        new_keys(p, 2000, answer);
        long size = BIO_get_mem_data(SSL_get_wbio(p->ssl), &bytes);
        CHECK(write(p->theirs, bytes, (size_t)size) == size);
}

static int unread(const struct pair *p) {
        int n = 0;

        CHECK(ioctl(p->ours, FIONREAD, &n) == 0);
        return n;
}

static void check_idle(struct pair *p) {
        char back[8];

        ssize_t n = tls_read(p->tls, back, sizeof back);
        if (n != -EPROTO)
                (void)printf("# read says %zd, %d are left\n", n, unread(p));
        CHECK(n == -EPROTO && strstr(tls_problem(p->tls), "over and over"));
        CHECK(unread(p) > 0); /* it did not look at all of them */
        CHECK(tls_read(p->tls, back, sizeof back) == -EPROTO && tls_write(p->tls, "x", 1) == -EPROTO);
        CHECK(!tls_pending(p->tls) && tls_end(p->tls) == 0);
}

static void test_keys_without_end(void) {
        static const int answers[] = {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED};
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        char back[2048];

        for (size_t i = 0; i < ELEMENTSOF(answers); i++) {
                _cleanup_pair_ struct pair p, q;
                outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
                many_new_keys(&p, answers[i]);
                check_idle(&p);
                inside(&q, a, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_3_VERSION);
                many_new_keys(&q, answers[i]);
                check_idle(&q);
        }
        {
                _cleanup_pair_ struct pair p; /* a few are fine, and so are more if there is data to go with them */
                outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
                CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN);
                memset(back, 'x', sizeof back);
                for (unsigned i = 0; i < 20; i++) {
                        new_keys(&p, 2, SSL_KEY_UPDATE_REQUESTED);
                        CHECK(SSL_write(p.ssl, back, sizeof back) == (int)sizeof back);
                        CHECK(tls_read(p.tls, back, sizeof back) == (ssize_t)sizeof back);
                }
                CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN && !tls_pending(p.tls));
                /* a byte now and then does not buy any number */
                for (unsigned i = 0; i < 20; i++) {
                        new_keys(&p, 2, SSL_KEY_UPDATE_NOT_REQUESTED);
                        CHECK(SSL_write(p.ssl, "x", 1) == 1);
                }
                ssize_t n;
                while ((n = tls_read(p.tls, back, sizeof back)) > 0)
                        ;
                CHECK(n == -EPROTO);
        }
        {
                _cleanup_pair_ struct pair p; /* tickets */
                outside(&p, x, "good.test", NULL, NULL, TLS1_3_VERSION);
                for (unsigned i = 0; i < 400 && SSL_new_session_ticket(p.ssl) == 1 && SSL_do_handshake(p.ssl) == 1; i++)
                        ;
                ERR_clear_error();
                check_idle(&p);
        }
        close_all(files);
        tls_authority_destroy(a);
        X509_free(x);
}

/* A record of TLS 1.2 as their side would send it: the session's keys are made again from what it tells. */
static void forge(struct pair *p, bool server, uint64_t number, uint8_t kind, const uint8_t *bytes, size_t size,
                  struct buf *out) {
        uint8_t secret[48], seed[13 + 64] = "key expansion", block[40], record[13 + 512 + 16], label[13], nonce[12];
        EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_id(EVP_PKEY_TLS1_PRF, NULL);
        size_t block_size = sizeof block, key = server ? 16 : 0, start = server ? 36 : 32;
        int n = 0, end = 0;

        assert(SSL_SESSION_get_master_key(SSL_get_session(p->ssl), secret, sizeof secret) == sizeof secret);
        assert(SSL_get_server_random(p->ssl, seed + 13, 32) == 32 &&
               SSL_get_client_random(p->ssl, seed + 45, 32) == 32);
        assert(c && EVP_PKEY_derive_init(c) == 1 && EVP_PKEY_CTX_set_tls1_prf_md(c, EVP_sha256()) == 1 &&
               EVP_PKEY_CTX_set1_tls1_prf_secret(c, secret, sizeof secret) == 1 &&
               EVP_PKEY_CTX_add1_tls1_prf_seed(c, seed, sizeof seed) == 1 &&
               EVP_PKEY_derive(c, block, &block_size) == 1 && size <= 512);
        EVP_PKEY_CTX_free(c);
        for (unsigned i = 0; i < 8; i++)
                label[i] = record[5 + i] = nonce[4 + i] = (uint8_t)(number >> (56 - 8 * i));
        memcpy(nonce, block + start, 4);
        memcpy(label + 8, (uint8_t[]){kind, 3, 3, (uint8_t)(size >> 8), (uint8_t)size}, 5);
        memcpy(record, (uint8_t[]){kind, 3, 3, (uint8_t)((size + 24) >> 8), (uint8_t)(size + 24)}, 5);
        EVP_CIPHER_CTX *e = EVP_CIPHER_CTX_new();
        assert(e && EVP_EncryptInit_ex(e, EVP_aes_128_gcm(), NULL, block + key, nonce) == 1 &&
               EVP_EncryptUpdate(e, NULL, &n, label, sizeof label) == 1 &&
               EVP_EncryptUpdate(e, record + 13, &n, bytes, (int)size) == 1 &&
               EVP_EncryptFinal_ex(e, record + 13 + n, &end) == 1 &&
               EVP_CIPHER_CTX_ctrl(e, EVP_CTRL_AEAD_GET_TAG, 16, record + 13 + size) == 1);
        EVP_CIPHER_CTX_free(e);
        buf_add(out, record, 13 + size + 16);
}

/* TLS 1.2: hellos and requests for them, each of which gets a warning and could go on for ever. */
static void test_hellos_without_end(void) {
        static const uint8_t hello[4 + 38] = {1, 0, 0, 38, 3, 3}, request[4] = {0};
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        char back[8];

        suite = "ECDHE-ECDSA-AES128-GCM-SHA256";
        for (unsigned server = 0; server < 2; server++) {
                _cleanup_pair_ struct pair p;

                if (server)
                        outside(&p, x, "good.test", NULL, NULL, TLS1_2_VERSION);
                else
                        inside(&p, a, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_2_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
                _cleanup_buf_ struct buf few = {0}, many = {0};
                forge(&p, server, 1, SSL3_RT_APPLICATION_DATA, (const uint8_t *)"hi", 2, &few);
                for (unsigned i = 0; i < 1000; i++)
                        forge(&p, server, 2 + i, SSL3_RT_HANDSHAKE, server ? request : hello,
                              server ? sizeof request : sizeof hello, i < TLS_IDLE_MAX ? &few : &many);
                CHECK(write(p.theirs, few.data, few.size) == (ssize_t)few.size);
                CHECK(tls_read(p.tls, back, sizeof back) == 2 && memcmp(back, "hi", 2) == 0);
                CHECK(tls_read(p.tls, back, sizeof back) == -EAGAIN);
                CHECK(write(p.theirs, many.data, many.size) == (ssize_t)many.size);
                check_idle(&p);
        }
        suite = NULL;
        close_all(files);
        tls_authority_destroy(a);
        X509_free(x);
}

/* More than one call may take: it says that it has to be called again, and then goes on. */
static void test_budget(void) {
        X509 *x = certificate(test_root, "x", "DNS:good.test", NULL, 9);
        _cleanup_pair_ struct pair p;
        unsigned again = 0;
        int r = -EAGAIN;

        chain = 250; /* certificates that nobody needs */
        outside_begin(&p, x, "good.test", NULL, NULL, TLS1_2_VERSION);
        CHECK(tls_handshake(p.tls) == -EAGAIN);
        CHECK(SSL_do_handshake(p.ssl) == -1 && unread(&p) > TLS_BUDGET);
        while ((r = tls_handshake(p.tls)) == -EINTR) {
                CHECK(unread(&p) > 0);
                again++;
        }
        CHECK(again == 1 && r == -EAGAIN && tls_wants(p.tls) == EPOLLIN);
        pair_shake(&p);
        CHECK(p.our_result == 0 && p.their_result == 0);
        chain = 0;
        X509_free(x);
}

static void test_leaves(void) {
        int files[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        X509 *first = NULL;

        for (unsigned i = 0; i < TLS_LEAVES + 5; i++) {
                _cleanup_pair_ struct pair p;
                char name[32];

                (void)snprintf(name, sizeof name, "n%u.test", i % (TLS_LEAVES + 3));
                inside(&p, a, files[GATE_CA_PEM], name, name, NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
                if (i == 0)
                        first = SSL_get1_peer_certificate(p.ssl);
                if (i == TLS_LEAVES + 3) { /* the first again: its old certificate went */
                        X509 *again = SSL_get1_peer_certificate(p.ssl);
                        CHECK(X509_cmp(first, again) != 0);
                        X509_free(again);
                }
        }
        {
                _cleanup_pair_ struct pair p, q; /* kept as long as it lasts */
                inside(&p, a, files[GATE_CA_PEM], "n50.test", "n50.test", NULL, TLS1_3_VERSION);
                inside(&q, a, files[GATE_CA_PEM], "n50.test", "n50.test", NULL, TLS1_3_VERSION);
                X509 *one = SSL_get1_peer_certificate(p.ssl), *two = SSL_get1_peer_certificate(q.ssl);
                CHECK(X509_cmp(one, two) == 0);
                X509_free(one);
                X509_free(two);
        }
        char wide[HOSTNAME_SIZE];
        memset(wide, 'a', sizeof wide);
        for (size_t i = 60; i < sizeof wide; i += 60)
                wide[i] = '.';
        wide[sizeof wide - 3] = '\0';
        {
                _cleanup_pair_ struct pair p; /* longer than a common name may be */
                inside(&p, a, files[GATE_CA_PEM], wide, wide, NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        CHECK(tls_accept(a, 0, "") == NULL);
        X509_free(first);
        close_all(files);
        tls_authority_destroy(a);
}

static char *contents(int fd, size_t *ret) {
        off_t size = lseek(fd, 0, SEEK_END);
        char *data = malloc((size_t)size + 1);

        CHECK(pread(fd, data, (size_t)size, 0) == size);
        data[size] = '\0';
        *ret = (size_t)size;
        return data;
}

static void test_files(void) {
        int files[GATE_CA_COUNT], again[GATE_CA_COUNT];
        struct tls_authority *a = authority(files);
        struct err err = {0};
        size_t sizes[GATE_CA_COUNT], size;
        char *data[GATE_CA_COUNT];

        for (unsigned i = 0; i < GATE_CA_COUNT; i++) {
                data[i] = contents(files[i], &sizes[i]);
                CHECK(pwrite(files[i], "x", 1, 0) == -1 && errno == EPERM);
                CHECK(ftruncate(files[i], 0) == -1 && errno == EPERM);
                CHECK(i == GATE_CA_KEY || !strstr(data[i], "PRIVATE"));
        }
        CHECK(strstr(data[GATE_CA_KEY], "PRIVATE KEY") != NULL);
        /* the bundle is the host's and ours */
        CHECK(sizes[GATE_CA_BUNDLE] > sizes[GATE_CA_PEM]);
        CHECK_STR(data[GATE_CA_BUNDLE] + sizes[GATE_CA_BUNDLE] - sizes[GATE_CA_PEM], data[GATE_CA_PEM]);
        char *host = NULL;
        CHECK(fd_read_file(AT_FDCWD, getenv("SSL_CERT_FILE"), 1 << 22, false, &host, &size, &err) == 0);
        CHECK(size + sizes[GATE_CA_PEM] == sizes[GATE_CA_BUNDLE] && memcmp(host, data[GATE_CA_BUNDLE], size) == 0);
        unsigned count = 1;
        for (const char *p = host; (p = strstr(p, "BEGIN CERTIFICATE")); p++)
                count++;
        /* the Java store: so many entries, and its sum */
        const uint8_t *java = (const uint8_t *)data[GATE_CA_JAVA];
        CHECK(memcmp(java, "\xfe\xed\xfe\xed\0\0\0\2\0\0", 10) == 0 && (unsigned)(java[10] << 8 | java[11]) == count);
        CHECK(memcmp(java + 12, "\0\0\0\2\0\x08stockade", 14) == 0);
        {
                _cleanup_buf_ struct buf b = {.max = 1 << 23};
                uint8_t sum[20];

                for (const char *p = "changeit"; *p; p++)
                        buf_add(&b, (char[]){0, *p}, 2);
                buf_str(&b, "Mighty Aphrodite");
                buf_add(&b, java, sizes[GATE_CA_JAVA] - 20);
                EVP_Digest(b.data, b.size, sum, NULL, EVP_sha1(), NULL);
                CHECK(memcmp(sum, java + sizes[GATE_CA_JAVA] - 20, 20) == 0);
        }
        /* a gate that takes over goes on with the same authority */
        struct tls_authority *b = tls_authority_create(files[GATE_CA_KEY], &err);
        CHECK(b != NULL);
        CHECK(tls_authority_files(b, again, &err) == 0);
        char *pem = contents(again[GATE_CA_PEM], &size);
        CHECK_STR(pem, data[GATE_CA_PEM]);
        {
                _cleanup_pair_ struct pair p;
                inside(&p, b, files[GATE_CA_PEM], "a.test", "a.test", NULL, TLS1_3_VERSION);
                CHECK(p.our_result == 0 && p.their_result == 0);
        }
        /* what is not a key is not taken for one */
        CHECK(tls_authority_create(files[GATE_CA_PEM], &err) == NULL && err.code == ERR_CORRUPT);
        CHECK(tls_authority_create(files[GATE_CA_BUNDLE], &err) == NULL && err.code == ERR_CORRUPT);
        tls_authority_destroy(a);
        tls_authority_destroy(b);
        close_all(files);
        close_all(again);
        free(pem);
        free(host);
        for (unsigned i = 0; i < GATE_CA_COUNT; i++)
                free(data[i]);
}

/* The gate has no file system when it talks: nothing may be opened after load. Calls that would end the process. */
static int without_files(void) {
        static struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 6, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 5, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 4, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 3, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlink, 2, 0),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {ELEMENTSOF(code), code};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Both sides are the module's: the handshake goes as far as the certificate that the host's store does not vouch for.
 */
static int confined(void) {
        int files[GATE_CA_COUNT], s[2], ours = -EAGAIN, theirs = -EAGAIN;
        struct err err = {0};

        if (tls_load(&err) < 0) {
                err_print(&err);
                return 2;
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) < 0 || !without_files())
                return 3;
        struct tls_authority *a = tls_authority_create(-EBADF, &err);
        if (!a || tls_authority_files(a, files, &err) < 0)
                return 4;
        struct tls *client = tls_connect(s[0], "good.test", NULL), *server = tls_accept(a, s[1], "good.test");
        if (!client || !server)
                return 5;
        for (unsigned i = 0; i < 20 && (ours == -EAGAIN || theirs == -EAGAIN); i++) {
                if (ours == -EAGAIN)
                        ours = tls_handshake(client);
                if (theirs == -EAGAIN)
                        theirs = tls_handshake(server);
        }
        return ours == -EKEYREJECTED && theirs == -EPROTO ? 0 : 6;
}

/* In a process of its own that has not used OpenSSL, nor the time zone, before. */
static int confined_status = -1;

static void run_confined(void) {
        pid_t pid = fork();

        if (pid == 0)
                _exit(confined());
        if (pid < 0 || waitpid(pid, &confined_status, 0) != pid)
                confined_status = -1;
}

static void test_confined(void) {
        CHECK(WIFEXITED(confined_status) && WEXITSTATUS(confined_status) == 0);
        if (confined_status)
                (void)printf("# ended with %#x\n", (unsigned)confined_status);
}

static void test_load(void) {
        struct err err = {0};

        CHECK(tls_authority_create(-EBADF, &err) == NULL && err.code == ERR_REFUSED);
        CHECK(!tls_loaded());
        CHECK(tls_accept(NULL, 0, "a.test") == NULL && tls_connect(0, "a.test", NULL) == NULL);
        err = (struct err){0};
        CHECK(tls_load(&err) == 0);
        if (err.code)
                err_print(&err);
        CHECK(tls_loaded() && tls_load(&err) == 0);
}

/* The host's own store and the test's authority, in a file that SSL_CERT_FILE names. */
static char store[] = "/tmp/test-gate-tls-XXXXXX";

static void store_remove(void) {
        (void)unlink(store);
}

__attribute__((constructor)) static void set_up(void) {
        _cleanup_free_ char *host = NULL;
        size_t size = 0;
        int fd;

        run_confined();
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

TEST_MAIN(TEST(test_load), TEST(test_confined), TEST(test_clients_inside), TEST(test_clients_refused),
          TEST(test_servers), TEST(test_silence_and_noise), TEST(test_data), TEST(test_cut), TEST(test_half_record),
          TEST(test_renegotiation), TEST(test_keys_without_end), TEST(test_hellos_without_end), TEST(test_budget),
          TEST(test_leaves), TEST(test_files))
