/* The server: streams zeros, answers with one byte, or keeps a connection. One thread, epoll, no allocation per byte.
 *
 * Plain connections say what they want with one byte; within TLS it is the path of a request. It also answers every
 * DNS question for an IPv4 address with its own, so that a row without a gate has something to be compared with, and
 * the gate somebody to ask. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/load.h"

#define SERVER_MAX     32768 /* connections, by descriptor */
#define SERVER_TURN    16    /* records written per connection and turn */
#define SERVER_ADDRESS 203, 0, 113, 10

struct served {
        SSL *ssl;
        enum load_wish wish; /* 0: not said yet */
        bool said;           /* the head of a stream within TLS is out */
};

static struct served served[SERVER_MAX];
static uint8_t zeros[LOAD_BUFFER];
static SSL_CTX *context;
static int epoll_fd = -EBADF, plain_fd = -EBADF, tls_fd = -EBADF, names_fd = -EBADF;

static int server_watch(int operation, int fd, uint32_t events) {
        struct epoll_event e = {.events = events, .data.fd = fd};

        return epoll_ctl(epoll_fd, operation, fd, &e) < 0 ? -errno : 0;
}

/* --- what it says in TLS --- */

static X509 *server_certificate(EVP_PKEY *key) {
        X509 *x = X509_new();
        X509V3_CTX how;
        X509_EXTENSION *name = NULL;

        X509V3_set_ctx_nodb(&how);
        if (x)
                X509V3_set_ctx(&how, x, x, NULL, NULL, 0);
        if (!x || X509_set_version(x, X509_VERSION_3) != 1 || ASN1_INTEGER_set(X509_get_serialNumber(x), 1) != 1 ||
            !X509_gmtime_adj(X509_getm_notBefore(x), -3600) || !X509_gmtime_adj(X509_getm_notAfter(x), 86400) ||
            X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const uint8_t *)LOAD_NAME, -1, -1,
                                       0) != 1 ||
            X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 || X509_set_pubkey(x, key) != 1 ||
            !(name = X509V3_EXT_conf_nid(NULL, &how, NID_subject_alt_name, "DNS:" LOAD_NAME)) ||
            X509_add_ext(x, name, -1) != 1 || X509_sign(x, key, EVP_sha256()) == 0) {
                X509_free(x);
                x = NULL;
        }
        X509_EXTENSION_free(name);
        return x;
}

/* A key and a certificate of its own for this run; clients and the gate are told to believe that one. */
static int server_tls(const char *folder, struct err *err) {
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *x = key ? server_certificate(key) : NULL;
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s/server.pem", folder);
        FILE *f = fopen(path, "wxe");
        bool good = x && f && PEM_write_X509(f, x) == 1 && fclose(f) == 0;
        context = SSL_CTX_new(TLS_server_method());
        if (!good || !context || SSL_CTX_use_certificate(context, x) != 1 || SSL_CTX_use_PrivateKey(context, key) != 1)
                return err_set(err, ERR_REFUSED, "cannot make a certificate in '%s'", folder);
        (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        (void)SSL_CTX_set_num_tickets(context, 0);
        (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        X509_free(x);
        EVP_PKEY_free(key);
        return 0;
}

/* --- connections --- */

static void server_end(int fd) {
        struct served *s = &served[fd];

        if (s->ssl) {
                (void)SSL_shutdown(s->ssl);
                SSL_free(s->ssl);
        }
        *s = (struct served){0};
        (void)close(fd);
}

static void server_accept(int listener) {
        for (unsigned i = 0; i < 64; i++) {
                int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd < 0)
                        return;
                if (fd >= SERVER_MAX || server_watch(EPOLL_CTL_ADD, fd, EPOLLIN) < 0) {
                        (void)close(fd);
                        continue;
                }
                int one = 1;
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                served[fd] = (struct served){.ssl = NULL};
                if (listener != tls_fd)
                        continue;
                served[fd].ssl = SSL_new(context);
                if (!served[fd].ssl || SSL_set_fd(served[fd].ssl, fd) != 1) {
                        server_end(fd);
                        continue;
                }
                SSL_set_accept_state(served[fd].ssl);
        }
}

static bool server_again(const struct served *s, int r) {
        int e = s->ssl ? SSL_get_error(s->ssl, r) : 0;

        return s->ssl ? e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE : errno == EAGAIN;
}

static int server_write(const struct served *s, int fd, const void *bytes, size_t size) {
        return s->ssl ? SSL_write(s->ssl, bytes, (int)size) : (int)send(fd, bytes, size, MSG_NOSIGNAL);
}

static void server_stream(int fd) {
        static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n";
        struct served *s = &served[fd];
        int r = 1;

        if (s->ssl && !s->said)
                r = server_write(s, fd, head, sizeof(head) - 1);
        s->said = true;
        for (unsigned i = 0; i < (s->ssl ? SERVER_TURN : 2) && r > 0; i++)
                r = server_write(s, fd, zeros, sizeof(zeros));
        if (r <= 0 && !server_again(s, r))
                server_end(fd);
}

static void server_hear(int fd) {
        struct served *s = &served[fd];
        char text[1024];
        int n = s->ssl ? SSL_read(s->ssl, text, sizeof(text)) : (int)recv(fd, text, sizeof(text), 0);

        if (n <= 0) {
                if (!server_again(s, n) || (!s->ssl && n == 0))
                        server_end(fd);
                return;
        }
        if (s->ssl)
                s->wish = n > 6 && text[5] == 's' ? LOAD_STREAM : n > 6 && text[5] == 'b' ? LOAD_BYTE : LOAD_HOLD;
        else
                s->wish = (enum load_wish)text[0];
        if (s->wish == LOAD_STREAM) {
                (void)server_watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
                return;
        }
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
        static const char keep[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
        const char *words = !s->ssl ? "x" : s->wish == LOAD_BYTE ? answer : keep;
        (void)server_write(s, fd, words, strlen(words));
        if (s->wish == LOAD_BYTE)
                server_end(fd);
}

/* --- names --- */

static void server_names(void) {
        for (unsigned i = 0; i < 64; i++) {
                uint8_t m[600];
                struct sockaddr_in from;
                socklen_t size = sizeof(from);
                ssize_t n = recvfrom(names_fd, m, 512, MSG_DONTWAIT, (struct sockaddr *)&from, &size);

                if (n < 0)
                        return;
                size_t at = 12;
                while (at < (size_t)n && m[at] > 0)
                        at += m[at] + 1U;
                at += 5;
                if (n < 17 || at > (size_t)n)
                        continue;
                bool v4 = m[at - 3] == 1;
                m[2] = 0x85; /* an answer, from the authority */
                m[3] = 0x80;
                memcpy(m + 6, (const uint8_t[]){0, v4, 0, 0, 0, 0}, 6);
                memcpy(m + at, (const uint8_t[]){0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, SERVER_ADDRESS}, 16);
                (void)sendto(names_fd, m, at + (v4 ? 16 : 0), MSG_DONTWAIT, (struct sockaddr *)&from, size);
        }
}

/* --- the whole --- */

static int server_listen(int type, uint16_t port, struct err *err) {
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
        _cleanup_fd_ int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int one = 1;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
            bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0 || (type == SOCK_STREAM && listen(fd, 4096) < 0) ||
            server_watch(EPOLL_CTL_ADD, fd, EPOLLIN) < 0)
                return err_set(err, -errno, "cannot listen on port %u", port);
        return TAKE_FD(fd);
}

static _noreturn_ void server_run(void) {
        for (;;) {
                struct epoll_event events[64];
                int n = epoll_wait(epoll_fd, events, ELEMENTSOF(events), -1);

                for (int i = 0; i < n; i++) {
                        int fd = events[i].data.fd;

                        if (fd == plain_fd || fd == tls_fd)
                                server_accept(fd);
                        else if (fd == names_fd)
                                server_names();
                        else if (served[fd].wish == LOAD_STREAM)
                                server_stream(fd);
                        else
                                server_hear(fd);
                }
        }
}

int load_server(const char *folder) {
        struct err err = {0};

        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (server_tls(folder, &err) < 0 || (plain_fd = server_listen(SOCK_STREAM, LOAD_PORT, &err)) < 0 ||
            (tls_fd = server_listen(SOCK_STREAM, LOAD_TLS_PORT, &err)) < 0 ||
            (names_fd = server_listen(SOCK_DGRAM, 53, &err)) < 0) {
                (void)printf("failed %s\n", err.text);
                return 1;
        }
        (void)printf("ok 0 0\n");
        (void)fflush(stdout);
        server_run();
}
