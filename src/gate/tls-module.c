/* TLS connections with OpenSSL: the module that tls.c loads.
 *
 * Towards the sandbox we are the server, with a certificate of the ward's authority; towards the world we are the
 * client, and the server's certificate is verified for the name before a byte is sent. TLS 1.2 and 1.3, no compression,
 * no renegotiation, no tickets and no session cache: nothing of one connection is of use in another.
 *
 * No call lasts as long as the peer likes: each takes TLS_BUDGET bytes from the descriptor at most, and records that
 * carry no data are counted. OpenSSL itself goes on reading for as long as such records come.
 *
 * After load nothing here opens a file: OpenSSL's configuration is not read, its provider is built in, and the time
 * zone that gmtime() insists on was read before. Bytes move by recv and send on the caller's descriptor, which is not
 * ours to close. */
#include "gate/tls-module.h"

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define SECURE_HEAP (1024 * 1024) /* for keys: locked where permitted, never in a core dump; pages on demand */
#define FORGIVEN    1024          /* so many bytes of data outweigh one record without any */

const unsigned char tls_alpn_http1[9] = "\x08http/1.1";

struct tls {
        SSL *ssl;
        int fd;
        uint32_t wants;
        bool server;  /* we verify the peer's certificate */
        bool done;    /* the handshake is */
        bool failed;  /* nothing can be said any more */
        bool eof;     /* the peer closed the descriptor */
        bool drained; /* the last read found nothing whole */
        bool more;    /* the last call stopped because its budget was used up */
        size_t budget;
        unsigned idle; /* records without data, less what data was forgiven them for */
        size_t heard;  /* bytes of data since the last was forgiven */
        int failure;   /* what reading and writing say since then */
        char problem[160];
};

static BIO_METHOD *descriptor;
static SSL_CTX *client_context;

/* ---- moving bytes ---- */

static int descriptor_read(BIO *b, char *data, size_t size, size_t *ret) {
        struct tls *t = BIO_get_data(b);
        ssize_t n;

        BIO_clear_retry_flags(b);
        *ret = 0;
        if (t->budget == 0 || t->idle > TLS_IDLE_MAX) {
                t->more = true;
                BIO_set_retry_read(b);
                return 0;
        }
        do
                n = recv(t->fd, data, MIN(size, t->budget), MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno == EAGAIN)
                BIO_set_retry_read(b);
        t->eof = n == 0 || (n < 0 && !BIO_should_retry(b));
        if (n <= 0)
                return 0;
        t->budget -= (size_t)n;
        *ret = (size_t)n;
        return 1;
}

static int descriptor_write(BIO *b, const char *data, size_t size, size_t *ret) {
        struct tls *t = BIO_get_data(b);
        ssize_t n;

        BIO_clear_retry_flags(b);
        do
                n = send(t->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno == EAGAIN)
                BIO_set_retry_write(b);
        *ret = n > 0 ? (size_t)n : 0;
        return n > 0;
}

static long descriptor_control(BIO *b, int command, long number _unused_, void *pointer _unused_) {
        const struct tls *t = BIO_get_data(b);

        switch (command) {
        case BIO_CTRL_FLUSH:
                return 1;
        case BIO_CTRL_EOF:
                return t->eof;
        default:
                return 0;
        }
}

static int descriptor_create(BIO *b) {
        BIO_set_init(b, 1);
        return 1;
}

/* Told of every record: since the handshake one that is not data (in TLS 1.3 its kind is inside) is new keys, another
 * handshake, a ticket, an alert. */
static void record_seen(int sent, int version _unused_, int kind, const void *bytes, size_t size, SSL *ssl _unused_,
                        void *context) {
        struct tls *t = context;

        if (t->done && !sent && size > 0 && (kind == SSL3_RT_HEADER || kind == SSL3_RT_INNER_CONTENT_TYPE) &&
            *(const uint8_t *)bytes != SSL3_RT_APPLICATION_DATA)
                t->idle++;
}

/* So much data came. */
static void data_seen(struct tls *t, size_t size) {
        t->heard += size;
        t->idle -= (unsigned)MIN((size_t)t->idle, t->heard / FORGIVEN);
        t->heard %= FORGIVEN;
}

static void begin(struct tls *t) {
        t->budget = TLS_BUDGET;
        t->more = false;
        ERR_clear_error();
}

/* ---- set up ---- */

const char *tls_complaint(char *buf, size_t size) {
        unsigned long code = ERR_peek_last_error();
        const char *reason = code ? ERR_reason_error_string(code) : NULL;

        (void)snprintf(buf, size, "%s", reason ? reason : "no reason given");
        ERR_clear_error();
        return buf;
}

void tls_context_common(SSL_CTX *c) {
        (void)SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
        (void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
        (void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                          SSL_MODE_RELEASE_BUFFERS); /* an idle connection holds no buffers */
        SSL_CTX_set_read_ahead(c, 1);
        SSL_CTX_set_security_level(c, 2);
}

static int tls_module_load(struct err *err) {
        const uint64_t options = OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT;
        char complaint[128];
        unsigned char byte;
        time_t now = time(NULL);
        struct tm tm;

        if (descriptor)
                return 0;
        (void)gmtime_r(&now, &tm); /* reads the time zone's file */
        if (OPENSSL_init_crypto(options, NULL) != 1 || OPENSSL_init_ssl(options, NULL) != 1 ||
            CRYPTO_secure_malloc_init(SECURE_HEAP, 32) == 0 || RAND_bytes(&byte, 1) != 1)
                return err_set(err, -EIO, "could not start OpenSSL (%s)", tls_complaint(complaint, sizeof complaint));
        int r = store_open(err);
        if (r < 0)
                return r;
        BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "gate");
        if (!m || BIO_meth_set_read_ex(m, descriptor_read) != 1 || BIO_meth_set_write_ex(m, descriptor_write) != 1 ||
            BIO_meth_set_ctrl(m, descriptor_control) != 1 || BIO_meth_set_create(m, descriptor_create) != 1) {
                BIO_meth_free(m);
                return err_set(err, -ENOMEM, "could not start OpenSSL");
        }
        descriptor = m;
        return 0;
}

static SSL_CTX *client(void) {
        if (client_context)
                return client_context;
        SSL_CTX *c = SSL_CTX_new(TLS_client_method());
        X509_STORE *s = store_verify();

        if (!c || !s || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
            SSL_CTX_set_purpose(c, X509_PURPOSE_SSL_SERVER) != 1 ||
            SSL_CTX_set_alpn_protos(c, tls_alpn_http1, sizeof tls_alpn_http1) != 0) {
                SSL_CTX_free(c);
                return NULL;
        }
        tls_context_common(c);
        SSL_CTX_set1_cert_store(c, s);
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
        return client_context = c;
}

/* ---- connections ---- */

static void tls_module_free(struct tls *t) {
        SSL_free(t->ssl);
        OPENSSL_cleanse(t, sizeof *t);
        free(t);
        ERR_clear_error();
}

/* Takes ssl. */
static struct tls *tls_new(SSL *ssl, int fd) {
        struct tls *t = calloc(1, sizeof *t);
        BIO *b = BIO_new(descriptor);

        if (!t || !b || !ssl) {
                SSL_free(ssl);
                BIO_free(b);
                free(t);
                ERR_clear_error();
                return NULL;
        }
        t->ssl = ssl;
        t->fd = fd;
        t->wants = EPOLLIN;
        BIO_set_data(b, t);
        SSL_set_bio(ssl, b, b);
        SSL_set_msg_callback(ssl, record_seen);
        SSL_set_msg_callback_arg(ssl, t);
        return t;
}

static struct tls *tls_module_accept(struct tls_authority *a, int fd, const char *name) {
        ERR_clear_error();
        struct tls *t = tls_new(authority_session(a, name), fd);
        if (t)
                SSL_set_accept_state(t->ssl);
        return t;
}

/* Who the server has to be. */
static bool expect(SSL *ssl, const char *name, const struct address *literal) {
        static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
        X509_VERIFY_PARAM *p = SSL_get0_param(ssl);

        X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        if (name)
                return name[0] && SSL_set_tlsext_host_name(ssl, name) == 1 &&
                       X509_VERIFY_PARAM_set1_host(p, name, strlen(name)) == 1;
        if (!literal)
                return false;
        bool is_v4 = memcmp(literal->bytes, v4, sizeof v4) == 0;
        return X509_VERIFY_PARAM_set1_ip(p, literal->bytes + (is_v4 ? 12 : 0), is_v4 ? 4 : 16) == 1;
}

static struct tls *tls_module_connect(int fd, const char *name, const struct address *literal) {
        ERR_clear_error();
        SSL_CTX *c = client();
        struct tls *t = c ? tls_new(SSL_new(c), fd) : NULL;
        if (!t || !expect(t->ssl, name, literal)) {
                if (t)
                        tls_module_free(t);
                return NULL;
        }
        t->server = true;
        t->wants = EPOLLOUT;
        SSL_set_connect_state(t->ssl);
        return t;
}

static int tls_fail(struct tls *t, int code, const char *what) {
        t->failed = true;
        t->failure = -EPIPE;
        (void)snprintf(t->problem, sizeof t->problem, "%s", what);
        ERR_clear_error();
        return code;
}

/* More and more that carries nothing. */
static int tls_idle(struct tls *t) {
        int r = tls_fail(t, -EPROTO, "the peer asks for new keys or another handshake over and over");

        t->failure = r;
        return r;
}

/* -EAGAIN with what to wait for, -EINTR: again, 0 at an orderly end, -EPIPE at a cut, -EPROTO otherwise. */
static int tls_result(struct tls *t, int r) {
        char complaint[128];

        switch (SSL_get_error(t->ssl, r)) {
        case SSL_ERROR_WANT_READ:
                t->wants = EPOLLIN;
                return t->more ? -EINTR : -EAGAIN;
        case SSL_ERROR_WANT_WRITE:
                t->wants = EPOLLOUT;
                return -EAGAIN;
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        case SSL_ERROR_SYSCALL:
                return tls_fail(t, -EPIPE, "the connection was cut");
        case SSL_ERROR_SSL:
                if (t->eof)
                        return tls_fail(t, -EPIPE, "the connection was cut");
                return tls_fail(t, -EPROTO, tls_complaint(complaint, sizeof complaint));
        default:
                return tls_fail(t, -EPROTO, "TLS failed");
        }
}

/* Of what was offered, or nothing. */
static bool protocol_agreed(const struct tls *t) {
        const unsigned char *chosen = NULL;
        unsigned size = 0;

        SSL_get0_alpn_selected(t->ssl, &chosen, &size);
        return size == 0 || (size == sizeof tls_alpn_http1 - 1 && memcmp(chosen, tls_alpn_http1 + 1, size) == 0);
}

static int tls_module_handshake(struct tls *t) {
        char clause[sizeof t->problem];

        if (t->failed)
                return -EPROTO;
        begin(t);
        int r = SSL_do_handshake(t->ssl);
        if (r == 1) {
                if (!protocol_agreed(t))
                        return tls_fail(t, -EPROTO, "the server chose a protocol that was not offered");
                if (t->server && (SSL_get_verify_result(t->ssl) != X509_V_OK || !SSL_get0_peer_certificate(t->ssl)))
                        return tls_fail(t, -EKEYREJECTED, "the server has no valid certificate");
                t->done = true;
                t->wants = EPOLLIN;
                return 0;
        }
        long verdict = t->server ? SSL_get_verify_result(t->ssl) : X509_V_OK;
        r = tls_result(t, r);
        if (r == -EAGAIN || r == -EINTR)
                return r;
        if (verdict != X509_V_OK) {
                (void)snprintf(clause, sizeof clause, "the server's certificate is not valid: %s",
                               X509_verify_cert_error_string(verdict));
                return tls_fail(t, -EKEYREJECTED, clause);
        }
        if (r == 0)
                return tls_fail(t, -EPROTO, "the connection was closed during the handshake");
        return -EPROTO;
}

static ssize_t tls_module_read(struct tls *t, void *data, size_t size) {
        size_t n = 0;

        if (t->failed || !t->done)
                return t->failed ? t->failure : -EPIPE;
        begin(t);
        int r = SSL_read_ex(t->ssl, data, size, &n);
        t->drained = r != 1;
        if (t->idle > TLS_IDLE_MAX)
                return tls_idle(t);
        if (r == 1) {
                data_seen(t, n);
                return (ssize_t)n;
        }
        r = tls_result(t, r);
        return r == -EPROTO ? -EPIPE : r;
}

static ssize_t tls_module_write(struct tls *t, const void *data, size_t size) {
        size_t n = 0;

        if (t->failed || !t->done)
                return t->failed ? t->failure : -EPIPE;
        if (size == 0)
                return 0;
        begin(t);
        int r = SSL_write_ex(t->ssl, data, size, &n);
        if (r == 1)
                return (ssize_t)n;
        r = tls_result(t, r);
        return r == -EAGAIN || r == -EINTR ? r : -EPIPE;
}

static int tls_module_end(struct tls *t) {
        if (t->failed || !t->done)
                return 0;
        begin(t);
        int r = SSL_shutdown(t->ssl);
        if (r >= 0)
                return 0;
        return tls_result(t, r) == -EAGAIN && t->wants == EPOLLOUT ? -EAGAIN : 0;
}

static uint32_t tls_module_wants(const struct tls *t) {
        return t->wants;
}

static bool tls_module_pending(const struct tls *t) {
        return !t->failed && t->done &&
               (t->more || SSL_pending(t->ssl) > 0 || (!t->drained && SSL_has_pending(t->ssl) == 1));
}

static const char *tls_module_problem(const struct tls *t) {
        return t->problem;
}

__attribute__((visibility("default"))) const struct tls_door stockade_gate_tls = {
        .version = STOCKADE_VERSION,
        .size = sizeof(struct tls_door),
        .load = tls_module_load,
        .authority_create = authority_create,
        .authority_files = authority_files,
        .authority_destroy = authority_destroy,
        .accept = tls_module_accept,
        .connect = tls_module_connect,
        .free = tls_module_free,
        .handshake = tls_module_handshake,
        .read = tls_module_read,
        .write = tls_module_write,
        .end = tls_module_end,
        .wants = tls_module_wants,
        .pending = tls_module_pending,
        .problem = tls_module_problem,
};
