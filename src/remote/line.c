/* Connecting, and the few calls of OpenSSL's that are needed for it.
 *
 * Must never: go on with a certificate that does not hold; send a byte of ours before that is known. */
#include "remote/line.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/fd.h"
#include "remote/peer.h"

enum { CONNECT_MS = 10000, HANDSHAKE_MS = 15000 };

uint64_t line_now(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int line_wait(const struct line *l, short events, uint64_t until) {
        for (;;) {
                struct pollfd p = {.fd = l->fd, .events = events};
                uint64_t now = line_now();
                int r = now >= until ? 0 : poll(&p, 1, (int)MIN(until - now, (uint64_t)60000));

                if (r > 0)
                        return 0;
                if (r == 0 && line_now() >= until)
                        return -ETIMEDOUT;
                if (r < 0 && errno != EINTR)
                        return -errno;
        }
}

void line_close(struct line *l) {
        if (l->ssl)
                SSL_free(l->ssl);
        if (l->context)
                SSL_CTX_free(l->context);
        fd_close(&l->fd);
        *l = (struct line){.fd = -EBADF};
}

/* --- TCP ------------------------------------------------------------------------------------------------------------
 */

static int dial(const struct addrinfo *a, struct line *l) {
        static const int on = 1, idle = 30, step = 10, count = 4;
        static const unsigned silent = 45000; /* ms in which nothing that we sent was taken */
        _cleanup_fd_ int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int error = 0;
        socklen_t size = sizeof error;

        if (fd < 0)
                return -errno;
        if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)
                return -errno;
        struct line trial = {.fd = fd};
        int r = line_wait(&trial, POLLOUT, line_now() + CONNECT_MS);
        if (r < 0)
                return r;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0)
                return error != 0 ? -error : -errno;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof silent);
        l->fd = TAKE_FD(fd);
        return 0;
}

static bool is_here(const struct addrinfo *a, union endpoint *ret) {
        *ret = (union endpoint){0};
        if (a->ai_addrlen > sizeof *ret)
                return false;
        memcpy(ret, a->ai_addr, a->ai_addrlen);
        return endpoint_is_loopback(ret);
}

/* Is whoever listens there one of those that we mean? Looked up after the connection stands: nobody can come between.
 */
static int check_listener(const union endpoint *at, const struct url *u, const struct trust *trust, struct err *err) {
        uid_t uid = 0;
        int r = peer_listener(at, &uid);

        if (r < 0 && trust->insecure_http)
                return 0;
        if (r < 0) {
                (void)err_set(err, ERR_REFUSED, "could not find out which user listens at '%s'", u->text);
                return err_hint(err, "if it does not matter: stockade login --server %s --insecure-http", u->text);
        }
        if (trust->ret_listener)
                *trust->ret_listener = uid;
        if (uid == 0 || uid == geteuid() || uid == trust->listener || trust->any_listener)
                return 0;
        (void)err_set(err, ERR_REFUSED, "what listens at '%s' is neither root's nor yours, but of user %u", u->text,
                      (unsigned)uid);
        return err_hint(err,
                        "is the daemon down? if that user is to be trusted: stockade login --server %s "
                        "--insecure-http",
                        u->text);
}

static int connect_one(struct line *l, const struct addrinfo *a, const struct url *u, const struct trust *trust,
                       struct err *err) {
        union endpoint at;
        bool here = is_here(a, &at);

        if (!u->tls && !trust->insecure_http && !here) {
                (void)err_set(err, ERR_REFUSED, "'%s' is another host, and http could be read on the way", u->text);
                return err_hint(err, "use https; or say at sign-in that it does not matter: stockade login "
                                     "--insecure-http");
        }
        int r = dial(a, l);
        if (r < 0) {
                (void)err_set(err, r, "could not connect to '%s'", u->text);
                (void)err_hint(err,
                               "is its daemon up, does it listen there ('listen' in its stockade.conf), and does a "
                               "firewall let us through?");
                return -EAGAIN;
        }
        return here && !u->tls ? check_listener(&at, u, trust, err) : 0;
}

static int connect_any(struct line *l, const struct url *u, const struct trust *trust, struct err *err) {
        const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                       .ai_socktype = SOCK_STREAM,
                                       .ai_flags = AI_NUMERICSERV | (u->is_address ? AI_NUMERICHOST : 0)};
        struct addrinfo *list = NULL;
        /* where nobody is at the address that a daemon has by default, somebody else could be at the other one */
        bool four_first = str_eq(u->host, "localhost");
        int r = getaddrinfo(u->host, u->port, &hints, &list);

        if (r != 0) {
                (void)err_set(err, ERR_REFUSED, "could not find the host '%s': %s", u->host, gai_strerror(r));
                return err_hint(err, "is it spelt right in --server, and does this host reach a name server?");
        }
        r = -EAGAIN;
        for (unsigned pass = four_first ? 0 : 1; pass < 2 && r == -EAGAIN; pass++)
                for (const struct addrinfo *a = list; a && r == -EAGAIN; a = a->ai_next)
                        if (!four_first || (a->ai_family == AF_INET) == (pass == 0))
                                r = connect_one(l, a, u, trust, err);
        freeaddrinfo(list);
        return r == -EAGAIN ? -ECONNREFUSED : r;
}

/* --- TLS ------------------------------------------------------------------------------------------------------------
 */

static int no_tls(const struct url *u, struct err *err) {
        return err_hint(err, "does it speak TLS at that port ('certificate' in its stockade.conf), or is it http://%s?",
                        u->domain);
}

static int tls_error(const struct line *l, const struct url *u, const struct trust *trust, struct err *err) {
        long verdict = SSL_get_verify_result(l->ssl);
        char text[160] = "the connection ended";
        unsigned long code = ERR_get_error();

        if (verdict != X509_V_OK) {
                (void)err_set(err, ERR_REFUSED, "the certificate of '%s' does not hold: %s", u->text,
                              X509_verify_cert_error_string(verdict));
                return err_hint(err,
                                trust->ca ? "it is not by those that --ca named; if it was changed, and its operator "
                                            "says so: stockade login --server %s --ca FILE"
                                          : "if it is your own: stockade login --server %s --ca FILE",
                                u->text);
        }
        if (code != 0 && ERR_reason_error_string(code))
                (void)snprintf(text, sizeof text, "%s", ERR_reason_error_string(code));
        (void)err_set(err, ERR_REFUSED, "could not speak TLS with '%s': %s", u->text, text);
        return no_tls(u, err);
}

/* Those that a PEM text has, and no others. */
static bool trust_these(SSL_CTX *context, const char *pem) {
        BIO *in = BIO_new_mem_buf(pem, -1);
        X509 *one = NULL;
        size_t n = 0;
        bool good = in != NULL;

        while (good && (one = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
                good = X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one) == 1;
                X509_free(one);
                n++;
        }
        BIO_free(in);
        ERR_clear_error(); /* its end is an error too */
        return good && n > 0;
}

static int make_context(struct line *l, const struct trust *trust, struct err *err) {
        l->context = SSL_CTX_new(TLS_client_method());
        if (!l->context || SSL_CTX_set_min_proto_version(l->context, TLS1_2_VERSION) != 1)
                return err_set(err, -ENOMEM, "could not prepare TLS");
        SSL_CTX_set_verify(l->context, SSL_VERIFY_PEER, NULL);
        (void)SSL_CTX_set_mode(l->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        if (trust->ca ? trust_these(l->context, trust->ca) : SSL_CTX_set_default_verify_paths(l->context) == 1)
                return 0;
        ERR_clear_error();
        return err_set(err, ERR_INPUT, "cannot read the certificates %s",
                       trust->ca ? "that --ca named" : "that the system trusts");
}

static int begin_tls(struct line *l, const struct url *u, const struct trust *trust, struct err *err) {
        static const unsigned char protocols[] = "\x08http/1.1";
        uint64_t until = line_now() + HANDSHAKE_MS;

        int r = make_context(l, trust, err);
        if (r < 0)
                return r;
        l->ssl = SSL_new(l->context);
        if (!l->ssl || SSL_set_fd(l->ssl, l->fd) != 1 ||
            SSL_set_alpn_protos(l->ssl, protocols, sizeof protocols - 1) != 0 ||
            (u->is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(l->ssl), u->host)
                           : SSL_set1_host(l->ssl, u->host) && SSL_set_tlsext_host_name(l->ssl, u->host)) != 1)
                return err_set(err, -ENOMEM, "could not prepare TLS");
        SSL_set_hostflags(l->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        while ((r = SSL_connect(l->ssl)) != 1) {
                int why = SSL_get_error(l->ssl, r);

                if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
                        return tls_error(l, u, trust, err);
                r = line_wait(l, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until);
                if (r < 0) {
                        (void)err_set(err, r, "could not speak TLS with '%s'", u->text);
                        return no_tls(u, err);
                }
        }
        return SSL_get_verify_result(l->ssl) == X509_V_OK ? 0 : tls_error(l, u, trust, err);
}

int line_open(struct line *l, const struct url *u, const struct trust *trust, struct err *err) {
        *l = (struct line){.fd = -EBADF, .read_wants = POLLIN, .write_wants = POLLOUT};
        int r = connect_any(l, u, trust, err);

        if (r == 0 && u->tls)
                r = begin_tls(l, u, trust, err);
        if (r < 0)
                line_close(l);
        return r;
}

/* --- bytes ----------------------------------------------------------------------------------------------------------
 */

/* What SSL_read and SSL_write mean by nothing. */
static ssize_t nothing(const struct line *l, int result, short *wants) {
        switch (SSL_get_error(l->ssl, result)) {
        case SSL_ERROR_WANT_READ:
                *wants = POLLIN;
                return -EAGAIN;
        case SSL_ERROR_WANT_WRITE:
                *wants = POLLOUT;
                return -EAGAIN;
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        default:
                ERR_clear_error();
                return -ECONNRESET;
        }
}

ssize_t line_read(struct line *l, void *buf, size_t size) {
        if (!l->ssl) {
                ssize_t n = recv(l->fd, buf, size, MSG_DONTWAIT);
                return n >= 0 ? n : errno == EINTR ? -EAGAIN : -errno;
        }
        ERR_clear_error();
        int n = SSL_read(l->ssl, buf, (int)MIN(size, (size_t)INT32_MAX));
        l->read_wants = POLLIN;
        return n > 0 ? n : nothing(l, n, &l->read_wants);
}

ssize_t line_write(struct line *l, const void *data, size_t size) {
        if (!l->ssl) {
                ssize_t n = send(l->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
                return n >= 0 ? n : errno == EINTR ? -EAGAIN : -errno;
        }
        ERR_clear_error();
        int n = SSL_write(l->ssl, data, (int)MIN(size, (size_t)INT32_MAX));
        l->write_wants = POLLOUT;
        if (n > 0)
                return n;
        ssize_t r = nothing(l, n, &l->write_wants);
        return r == 0 ? -EPIPE : r;
}

bool line_pending(const struct line *l) {
        return l->ssl && SSL_pending(l->ssl) > 0;
}
