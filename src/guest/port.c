/* A connection to a TCP port on the sandbox's loopback, IPv4 first and then IPv6: bytes both ways, each way with its
 * own end. What the port does not take is kept in a ring no larger than the window; what the operator does not take is
 * not read from the port. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/request.h"
#include "guest/ring.h"

#define PORT_ONCE (32U * 1024) /* of one step */

struct port {
        struct request request;
        struct guest *guest;
        struct loop_watch watch;
        int fd;
        uint16_t number;
        bool six;             /* the second family is being tried */
        bool open;            /* it stands */
        bool end_here;        /* the port has no more to say, which was told */
        bool end_there, shut; /* the operator has no more to say; the port was told */
        bool deaf;            /* the port takes nothing any more: what comes is dropped */
        struct ring to_port;
};

static void set_events(struct port *p) {
        struct guest *g = p->guest;
        uint32_t events = 0;

        if (!p->open || ring_used(&p->to_port) > 0)
                events |= EPOLLOUT;
        if (p->open && !p->end_here && !p->request.ready && request_window(&p->request) > 0)
                events |= EPOLLIN;
        if (events == 0)
                loop_unwatch(g->loop, &p->watch);
        else if (loop_watch(g->loop, &p->watch, p->fd, events) < 0)
                request_end(g, &p->request, -ENOMEM, "cannot watch port %u", p->number);
}

/* One family's attempt: 0 when it stands or is under way, -errno. */
static int dial(struct port *p) {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(p->number)};
        struct sockaddr_in6 six = {
                .sin6_family = AF_INET6, .sin6_port = htons(p->number), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        const int on = 1;

        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        p->fd = socket(p->six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (p->fd < 0)
                return -errno;
        (void)setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        int r = p->six ? connect(p->fd, (struct sockaddr *)&six, sizeof six)
                       : connect(p->fd, (struct sockaddr *)&four, sizeof four);
        return r < 0 && errno != EINPROGRESS ? -errno : 0;
}

static int send_some(struct port *p, const void *data, size_t size) {
        ssize_t n = send(p->fd, data, size, MSG_NOSIGNAL);

        if (n >= 0)
                return (int)n;
        if (errno == EAGAIN || errno == EINTR)
                return 0;
        p->deaf = true; /* why is said when reading */
        return (int)size;
}

static void drain(struct port *p) {
        while (ring_used(&p->to_port) > 0) {
                size_t size;
                const uint8_t *data = ring_at(&p->to_port, p->to_port.oldest, &size);
                int n = send_some(p, data, size);

                if (n == 0)
                        return;
                ring_drop(&p->to_port, p->to_port.oldest + (size_t)n);
                request_took(p->guest, &p->request, (size_t)n);
        }
        if (p->end_there && !p->shut) {
                p->shut = true;
                (void)shutdown(p->fd, SHUT_WR);
        }
}

static void stands(struct port *p) {
        struct guest_message m = {.kind = GUEST_OPENED};

        p->open = true;
        request_say(p->guest, &p->request, &m);
        drain(p); /* what came before */
        request_wake(p->guest, &p->request);
}

/* After an attempt has come to an end: 0 when it stands, or when the other family is on its way; -errno. */
static int attempted(struct port *p, int error) {
        int first = error;

        if (error == 0) {
                stands(p);
                return 0;
        }
        loop_unwatch(p->guest->loop, &p->watch);
        fd_close(&p->fd);
        if (p->six)
                return error;
        p->six = true;
        error = dial(p);
        /* without IPv6 the first answer is the true one */
        return error == -EAFNOSUPPORT || error == -EADDRNOTAVAIL ? first : error;
}

/* Ends the request if both ways have ended; true if so. */
static bool is_over(struct port *p) {
        if (!p->end_here || !p->shut)
                return false;
        request_end(p->guest, &p->request, 0, NULL);
        return true;
}

static void ready(struct loop_watch *w, uint32_t events) {
        struct port *p = LOOP_OWNER(w, struct port, watch);
        struct guest *g = p->guest;

        if (!p->open) {
                int error = 0;
                socklen_t size = sizeof error;

                (void)getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &size);
                error = attempted(p, -error);
                if (error < 0)
                        return request_end(g, &p->request, error, "cannot connect to port %u", p->number);
                return set_events(p);
        }
        if (events & EPOLLOUT)
                drain(p);
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !p->end_here)
                request_wake(g, &p->request);
        if (!is_over(p))
                set_events(p);
}

static int port_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct port *p = (struct port *)r;

        p->guest = g;
        p->watch.ready = ready;
        p->fd = -EBADF;
        p->number = m->port;
        ring_init(&p->to_port, GUEST_WINDOW);
        int error = dial(p);
        if (error < 0)
                error = attempted(p, error);
        if (error < 0)
                request_end(g, r, error, "cannot connect to port %u", m->port);
        else
                set_events(p);
        return 0;
}

static void port_step(struct guest *g, struct request *r) {
        struct port *p = (struct port *)r;
        size_t room = MIN((size_t)PORT_ONCE, request_window(r));
        struct guest_message finish = {.kind = GUEST_FINISH};

        r->ready = false;
        if (!p->open || p->end_here || room == 0)
                return set_events(p);
        ssize_t n = recv(p->fd, g->scratch, room, 0);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                return request_end(g, r, -errno, "the connection to port %u broke", p->number);
        if (n > 0) {
                request_send(g, r, g->scratch, (size_t)n);
                r->ready = (size_t)n == room; /* there is more, perhaps */
        } else if (n == 0) {
                p->end_here = true;
                request_say(g, r, &finish);
        }
        if (!is_over(p))
                set_events(p);
}

static int port_data(struct guest *g, struct request *r, const uint8_t *bytes, size_t size) {
        struct port *p = (struct port *)r;

        if (p->end_there)
                return -EPIPE;
        if (p->open && !p->deaf && ring_used(&p->to_port) == 0) {
                int n = send_some(p, bytes, size);
                request_took(g, r, (size_t)n);
                bytes += n;
                size -= (size_t)n;
        }
        if (p->deaf) {
                request_took(g, r, size);
                return 0;
        }
        int error = size > 0 ? ring_add(&p->to_port, bytes, size) : 0;
        if (error == 0)
                set_events(p);
        return error;
}

static void port_finish(struct guest *g, struct request *r) {
        struct port *p = (struct port *)r;

        (void)g;
        p->end_there = true;
        if (p->open)
                drain(p);
        if (!is_over(p))
                set_events(p);
}

static void port_free(struct guest *g, struct request *r) {
        struct port *p = (struct port *)r;

        loop_unwatch(g->loop, &p->watch);
        fd_close(&p->fd);
        ring_free(&p->to_port);
}
const struct request_kind port_kind = {.size = sizeof(struct port),
                                       .begin = port_begin,
                                       .step = port_step,
                                       .data = port_data,
                                       .finish = port_finish,
                                       .free = port_free};
