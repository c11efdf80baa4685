/* One connection of the client: to the server itself, through a proxy's CONNECT, or within TLS. Nothing here waits; the
 * caller runs a step whenever the kernel says that something can be done. */
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/load.h"

#define READS 16 /* per step of a stream within TLS: a record each */

static SSL_CTX *conn_context(void) {
        static SSL_CTX *context;

        if (!context && (context = SSL_CTX_new(TLS_client_method()))) {
                SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
                (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
                if (SSL_CTX_set_default_verify_paths(context) != 1) {
                        SSL_CTX_free(context);
                        context = NULL;
                }
        }
        return context;
}

static char *conn_part(char **text) {
        char *part = *text, *colon = part ? strchr(part, ':') : NULL;

        if (colon)
                *colon++ = '\0';
        *text = colon;
        return part;
}

static int conn_resolve(const char *host, const char *port, struct sockaddr_in *ret, struct err *err) {
        struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list = NULL;
        int r = getaddrinfo(host, port, &hints, &list);

        if (r != 0)
                return err_set(err, ERR_INPUT, "%s: %s", host, gai_strerror(r));
        memcpy(ret, list->ai_addr, sizeof(*ret));
        freeaddrinfo(list);
        return 0;
}

int load_parse_via(char *text, struct load_via *ret, struct err *err) {
        static const char *const kinds[] = {[LOAD_PLAIN] = "plain", [LOAD_PROXY] = "proxy", [LOAD_TLS] = "tls"};
        char *kind = conn_part(&text), *host = conn_part(&text), *port = conn_part(&text);

        *ret = (struct load_via){.kind = LOAD_PLAIN};
        while (ret->kind < ELEMENTSOF(kinds) && kind && !str_eq(kind, kinds[ret->kind]))
                ret->kind++;
        if (!port || ret->kind == ELEMENTSOF(kinds))
                return err_set(err, ERR_INPUT, "not a way to the server");
        int r = conn_resolve(host, port, &ret->to, err);
        if (ret->kind == LOAD_PROXY) {
                host = conn_part(&text);
                port = conn_part(&text);
        }
        if (r == 0 && (!host || !port))
                r = err_set(err, ERR_INPUT, "a proxy, but no server behind it");
        if (r < 0)
                return r;
        (void)snprintf(ret->host, sizeof(ret->host), "%s", host);
        (void)snprintf(ret->port, sizeof(ret->port), "%s", port);
        return 0;
}

int load_open(struct load_conn *c, const struct load_via *via, enum load_wish wish, struct err *err) {
        static const enum load_state first[] = {
                [LOAD_PLAIN] = LOAD_SAY, [LOAD_PROXY] = LOAD_ASK_PROXY, [LOAD_TLS] = LOAD_HANDSHAKE};

        *c = (struct load_conn){.fd = -EBADF, .state = first[via->kind], .wish = wish, .via = via};
        c->began = measure_now();
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->fd < 0 ||
            (connect(c->fd, (const struct sockaddr *)&via->to, sizeof(via->to)) < 0 && errno != EINPROGRESS)) {
                int e = -errno;
                fd_close(&c->fd);
                return err_set(err, e, "could not connect");
        }
        int one = 1;
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (via->kind != LOAD_TLS)
                return 0;
        SSL_CTX *context = conn_context();
        c->ssl = context ? SSL_new(context) : NULL;
        if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_set_tlsext_host_name(c->ssl, via->host) != 1 ||
            SSL_set1_host(c->ssl, via->host) != 1) {
                load_close(c);
                return err_set(err, -ENOMEM, "TLS could not be set up");
        }
        SSL_set_connect_state(c->ssl);
        return 0;
}

void load_close(struct load_conn *c) {
        SSL_free(c->ssl);
        c->ssl = NULL;
        fd_close(&c->fd);
}

/* Read and write: a count, 0 at the end, -EAGAIN, or another error. */
static ssize_t conn_result(struct load_conn *c, int r) {
        if (!c->ssl)
                return r < 0 ? -errno : r;
        if (r > 0)
                return r;
        switch (SSL_get_error(c->ssl, r)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE:
                return -EAGAIN;
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        default:
                return -EIO;
        }
}

static ssize_t conn_read(struct load_conn *c, void *room, size_t size) {
        return conn_result(c, c->ssl ? SSL_read(c->ssl, room, (int)size) : (int)recv(c->fd, room, size, 0));
}

static bool conn_send(struct load_conn *c, const char *text, size_t size, enum load_state next) {
        ssize_t n = conn_result(c, c->ssl ? SSL_write(c->ssl, text, (int)size)
                                          : (int)send(c->fd, text, size, MSG_NOSIGNAL));

        if (n == -EAGAIN)
                return false;
        c->state = n == (ssize_t)size ? next : LOAD_FAILED;
        return true;
}

static bool conn_say(struct load_conn *c) {
        static const char *const paths[] = {[LOAD_STREAM] = "/stream", [LOAD_BYTE] = "/byte", [LOAD_HOLD] = "/hold"};
        char text[400] = {(char)c->wish};
        int n = 1;

        if (c->ssl)
                n = snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", paths[c->wish], c->via->host);
        return conn_send(c, text, (size_t)n, LOAD_HEAR);
}

static bool conn_ask_proxy(struct load_conn *c) {
        char text[400];
        int n = snprintf(text, sizeof(text), "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", c->via->host,
                         c->via->port, c->via->host, c->via->port);

        return conn_send(c, text, (size_t)n, LOAD_HEAR_PROXY);
}

/* The proxy's head, and nothing after it: the server speaks only when it is spoken to. */
static bool conn_hear_proxy(struct load_conn *c) {
        ssize_t n = conn_read(c, c->head + c->heard, sizeof(c->head) - 1 - c->heard);

        if (n == -EAGAIN)
                return false;
        c->heard += n > 0 ? (size_t)n : 0;
        if (n <= 0 || c->heard == sizeof(c->head) - 1)
                c->state = LOAD_FAILED;
        else if (strstr(c->head, "\r\n\r\n"))
                c->state = strncmp(c->head, "HTTP/1.", 7) == 0 && strncmp(c->head + 8, " 200", 4) == 0 ? LOAD_SAY
                                                                                                       : LOAD_FAILED;
        return true;
}

static bool conn_handshake(struct load_conn *c) {
        ssize_t n = conn_result(c, SSL_do_handshake(c->ssl));

        if (n == -EAGAIN)
                return false;
        c->state = n > 0 ? LOAD_SAY : LOAD_FAILED;
        return true;
}

static bool conn_hear(struct load_conn *c) {
        static uint8_t room[LOAD_BUFFER];

        for (unsigned i = 0; i < (c->ssl ? READS : 1); i++) {
                ssize_t n = conn_read(c, room, sizeof(room));

                if (n == -EAGAIN)
                        return false;
                if (n <= 0) {
                        c->state = n == 0 && c->wish == LOAD_BYTE && c->bytes > 0 ? LOAD_DONE : LOAD_FAILED;
                        return true;
                }
                if (c->bytes == 0) {
                        c->first = measure_now();
                        if (c->ssl && (n < 12 || memcmp(room, "HTTP/1.1 200", 12) != 0)) {
                                c->state = LOAD_FAILED;
                                return true;
                        }
                }
                c->bytes += (uint64_t)n;
        }
        return c->wish != LOAD_STREAM;
}

void load_step(struct load_conn *c) {
        static bool (*const steps[])(struct load_conn * c) = {
                [LOAD_ASK_PROXY] = conn_ask_proxy,
                [LOAD_HEAR_PROXY] = conn_hear_proxy,
                [LOAD_HANDSHAKE] = conn_handshake,
                [LOAD_SAY] = conn_say,
                [LOAD_HEAR] = conn_hear,
                [LOAD_DONE] = NULL,
                [LOAD_FAILED] = NULL,
        };

        while (steps[c->state] && steps[c->state](c))
                ;
}
