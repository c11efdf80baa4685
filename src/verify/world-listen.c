/* The listener: a process that holds sockets in both network namespaces, answers, and notes everything that arrives.
 *
 * It reads what sandboxes send, so it keeps nothing that is worth having: once its sockets are there it has no
 * capability and, started by root, another id. Its memory is a table of connections of fixed size and the shared table
 * of events; it dies with the judge. It never dials, resolves or opens anything. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/world-own.h"

enum {
        CONNECTIONS_MAX = 512,
        BUFFER = 4096,
        SLOW_MS = 1500,
        SETTLE_MS = 10000,
        NOBODY = 65534,
};

static const char *const service_names[] = {"tcp", "http", "tls", "dns"};
static_assert(ELEMENTSOF(service_names) == SERVICE_COUNT, "every service has a name");

struct connection {
        int fd; /* -EBADF: free */
        enum world_service service;
        struct world_event about; /* where it came to, and from where */
        bool noted;               /* it has made an event */
        uint32_t event;           /* the last of them; WORLD_NO_EVENT: bytes are counted nowhere */
        size_t used, skip;        /* bytes in buffer; bytes of a body still to come */
        bool last;                /* nothing more is answered */
        uint64_t due;             /* when the answer may go, in ms; 0: there is none */
        uint64_t number;          /* the oldest has the lowest */
        char buffer[BUFFER];
        size_t waiting; /* of the answer */
        char answer[BUFFER + 512];
};

static struct {
        const char *nonce;
        struct world_heard *heard;
        int epoll, control;
        struct world_port ports[WORLD_PORTS_MAX];
        size_t count;
        struct connection *connections;
        uint64_t number;
} me; /* the listener's process has no other state */

/* --- what is noted --- */

/* A connection said something that is worth an event of its own. */
static void note_connection(struct connection *c, const char *begin, size_t size, size_t bytes) {
        struct world_event e = c->about;

        world_serve_printable(begin, size, e.begin, sizeof e.begin);
        c->event = world_heard_note(me.heard, &e, bytes);
        c->noted = true;
}

static void count_bytes(const struct connection *c, size_t bytes) {
        world_heard_count(me.heard, c->event, bytes);
}

/* Address and port of a socket address as text; IPv4 in IPv6 is IPv4. */
static void describe(const struct sockaddr_storage *s, char *ret, size_t size, uint16_t *ret_port) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)s;
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)s;

        ret[0] = '\0';
        if (s->ss_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, ret, (socklen_t)size))
                *ret_port = ntohs(in->sin_port);
        else if (s->ss_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, ret, (socklen_t)size))
                *ret_port = ntohs(in6->sin6_port);
}

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- connections --- */

static void end(struct connection *c) {
        if (!c->noted && c->number)
                note_connection(c, c->buffer, c->used, c->used); /* it came, whatever it said */
        fd_close(&c->fd);
        c->number = 0;
}

static void answer(struct connection *c) {
        (void)send(c->fd, c->answer, c->waiting, MSG_NOSIGNAL | MSG_DONTWAIT);
        c->waiting = 0;
        c->due = 0;
        if (c->last)
                (void)shutdown(c->fd, SHUT_WR); /* it is read until the client ends it */
}

/* One request, if it is complete: noted and answered. False: not yet. */
static bool take_request(struct connection *c) {
        size_t head = world_serve_head(c->buffer, c->used);
        char server[128];

        if (head == 0 && c->used < sizeof c->buffer)
                return false;
        if (head == 0)
                head = c->used;
        c->skip = world_serve_body(c->buffer, head, &c->last);
        size_t body = MIN(c->skip, c->used - head); /* that has come already; what follows is another request */
        world_serve_attempt(me.nonce, c->buffer, head + body, c->about.attempt, sizeof c->about.attempt);
        note_connection(c, c->buffer, head, head + body);
        (void)snprintf(server, sizeof server, "%s:%u", c->about.address, c->about.port);
        bool redirect = str_eq(c->about.address, WORLD_REDIRECT) || str_eq(c->about.address, WORLD_REDIRECT6);
        c->waiting = world_serve_http(c->answer, sizeof c->answer, server, c->about.attempt, c->buffer, head, redirect);
        if (memmem(c->buffer, head, " /slow", 6))
                c->due = now_ms() + SLOW_MS;
        else
                answer(c);
        c->skip -= body;
        c->used -= head + body;
        memmove(c->buffer, c->buffer + head + body, c->used);
        return true;
}

static void take_hello(struct connection *c) {
        static const char alert[] = {21, 3, 1, 0, 2, 2, 40}; /* handshake failure: somebody is there */
        char name[256] = "";

        int r = world_serve_hello((const uint8_t *)c->buffer, c->used, name, sizeof name);
        if (r == -EAGAIN && c->used < sizeof c->buffer)
                return;
        world_serve_attempt_of_name(name, c->about.attempt, sizeof c->about.attempt);
        if (c->about.attempt[0] == '\0')
                world_serve_attempt(me.nonce, c->buffer, c->used, c->about.attempt, sizeof c->about.attempt);
        if (r == 0)
                note_connection(c, name, strlen(name), c->used);
        else
                note_connection(c, c->buffer, c->used, c->used);
        memcpy(c->answer, alert, sizeof alert);
        c->waiting = sizeof alert;
        c->last = true;
        answer(c);
}

static size_t take_question(const struct world_event *about, const char *data, size_t size, uint8_t *ret, size_t room) {
        struct world_event e = *about;
        char name[256];

        size_t n = world_dns_answer((const uint8_t *)data, size, ret, room, name, &e.type, &me.heard->rebinds);
        world_serve_attempt_of_name(name, e.attempt, sizeof e.attempt);
        if (e.attempt[0] == '\0')
                world_serve_attempt(me.nonce, data, size, e.attempt, sizeof e.attempt);
        e.dns = n > 0;
        if (n > 0)
                (void)snprintf(e.begin, sizeof e.begin, "%s", name);
        else
                world_serve_printable(data, size, e.begin, sizeof e.begin);
        (void)atomic_fetch_add(&me.heard->questions, n > 0);
        (void)world_heard_note(me.heard, &e, size);
        return n;
}

/* Questions over TCP have their length before them. */
static bool take_questions(struct connection *c) {
        size_t size = c->used < 2 ? 0 : (size_t)((uint8_t)c->buffer[0] << 8 | (uint8_t)c->buffer[1]);

        if (c->used < 2 || (c->used < size + 2 && c->used < sizeof c->buffer))
                return false;
        size = MIN(size, c->used - 2);
        size_t n = take_question(&c->about, c->buffer + 2, size, (uint8_t *)c->answer + 2, 512);
        c->noted = true;
        c->used -= size + 2;
        memmove(c->buffer, c->buffer + size + 2, c->used);
        c->answer[0] = (char)(n >> 8);
        c->answer[1] = (char)n;
        c->waiting = n > 0 ? n + 2 : 0;
        c->last = n == 0;
        answer(c);
        return n > 0;
}

static void take_bytes(struct connection *c) {
        world_serve_attempt(me.nonce, c->buffer, c->used, c->about.attempt, sizeof c->about.attempt);
        note_connection(c, c->buffer, c->used, c->used);
        memcpy(c->answer, "here\n", 5);
        c->waiting = 5;
        answer(c);
}

static void take_all(struct connection *c) {
        switch (c->service) {
        case SERVICE_HTTP:
                while (c->used > 0 && c->due == 0 && !c->last && take_request(c))
                        ;
                break;
        case SERVICE_TLS:
                take_hello(c);
                break;
        case SERVICE_NAMES:
                while (take_questions(c))
                        ;
                break;
        case SERVICE_RAW:
        case SERVICE_COUNT:
        default:
                take_bytes(c);
                c->used = 0;
        }
        if (c->last)
                c->used = 0;
}

static void hear_connection(struct connection *c) {
        ssize_t n = recv(c->fd, c->buffer + c->used, sizeof c->buffer - c->used, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                end(c);
                return;
        }
        size_t got = (size_t)n, body = MIN(c->skip, got);
        if (c->last || (c->service == SERVICE_RAW && c->noted)) { /* only counted */
                count_bytes(c, got);
                return;
        }
        if (body > 0) {
                count_bytes(c, body);
                memmove(c->buffer, c->buffer + body, got - body);
                c->skip -= body;
                got -= body;
        }
        c->used += got;
        take_all(c);
        if (c->used >= sizeof c->buffer) /* behind an answer that is slow */
                end(c);
}

/* The connection that is here longest, NULL if there is none. */
static struct connection *find_oldest(void) {
        struct connection *oldest = NULL;

        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                if (me.connections[i].number && (!oldest || me.connections[i].number < oldest->number))
                        oldest = &me.connections[i];
        return oldest;
}

/* A free place, or that of the oldest. */
static struct connection *place(void) {
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                if (me.connections[i].number == 0)
                        return &me.connections[i];
        struct connection *oldest = find_oldest();
        end(oldest);
        return oldest;
}

static void count_open(const struct connection *new) {
        uint32_t open = 0;

        if (new->service != SERVICE_HTTP ||
            (!str_eq(new->about.address, WORLD_GOOD) && !str_eq(new->about.address, WORLD_GOOD6)))
                return;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                open += me.connections[i].number && me.connections[i].service == SERVICE_HTTP &&
                        str_eq(me.connections[i].about.address, new->about.address);
        if (open > atomic_load(&me.heard->most))
                atomic_store(&me.heard->most, open);
}

static void meet(const struct world_port *l) {
        struct sockaddr_storage own = {0}, peer = {0};
        socklen_t own_size = sizeof own, peer_size = sizeof peer;
        uint16_t port = 0;
        int fd = accept4(l->fd, (struct sockaddr *)&peer, &peer_size, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
                struct connection *oldest = errno == EMFILE || errno == ENFILE ? find_oldest() : NULL;

                if (oldest)
                        end(oldest); /* it asks again at once */
                return;
        }
        struct connection *c = place();
        c->fd = fd;
        c->service = l->service;
        c->event = WORLD_NO_EVENT;
        c->noted = c->last = false;
        c->used = c->skip = c->waiting = 0;
        c->due = 0;
        c->number = ++me.number;
        c->about = (struct world_event){0};
        (void)snprintf(c->about.kind, sizeof c->about.kind, "%s", l->local ? "unix" : service_names[l->service]);
        if (l->local) {
                struct ucred who = {0};
                socklen_t size = sizeof who;

                (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
                (void)snprintf(c->about.address, sizeof c->about.address, "%s", l->name);
                (void)snprintf(c->about.from, sizeof c->about.from, "process %d, user %u", who.pid, who.uid);
        } else {
                (void)getsockname(fd, (struct sockaddr *)&own, &own_size);
                describe(&own, c->about.address, sizeof c->about.address, &c->about.port);
                describe(&peer, c->about.from, sizeof c->about.from, &port);
        }
        count_open(c);
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = WORLD_PORTS_MAX + (uint64_t)(c - me.connections)};
        if (epoll_ctl(me.epoll, EPOLL_CTL_ADD, fd, &e) < 0)
                end(c);
}

/* --- datagrams --- */

union control {
        struct cmsghdr header;
        char v4[CMSG_SPACE(sizeof(struct in_pktinfo))], v6[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Where a datagram was sent to. An answer comes from there, unless that is many at once. */
static void read_target(struct msghdr *m, struct sockaddr_storage *ret) {
        struct cmsghdr *c = CMSG_FIRSTHDR(m);
        bool many = false;

        *ret = (struct sockaddr_storage){0};
        if (c && c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
                struct in_pktinfo info;
                struct sockaddr_in *in = (struct sockaddr_in *)ret;

                memcpy(&info, CMSG_DATA(c), sizeof info);
                in->sin_family = AF_INET;
                in->sin_addr = info.ipi_addr;
                many = IN_MULTICAST(ntohl(info.ipi_addr.s_addr)) || info.ipi_addr.s_addr == INADDR_BROADCAST;
                info.ipi_spec_dst = info.ipi_addr;
                info.ipi_ifindex = 0;
                memcpy(CMSG_DATA(c), &info, sizeof info);
        } else if (c && c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
                struct in6_pktinfo info;
                struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

                memcpy(&info, CMSG_DATA(c), sizeof info);
                in6->sin6_family = AF_INET6;
                in6->sin6_addr = info.ipi6_addr;
                many = IN6_IS_ADDR_MULTICAST(&info.ipi6_addr);
                if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
                        info.ipi6_ifindex = 0;
                memcpy(CMSG_DATA(c), &info, sizeof info);
        }
        if (many || !c) {
                m->msg_control = NULL;
                m->msg_controllen = 0;
        }
}

static void hear_datagram(const struct world_port *l) {
        struct sockaddr_storage peer = {0}, target, own = {0};
        socklen_t own_size = sizeof own;
        union control control;
        char data[1024], reply[512], text[64];
        uint16_t port = 0;
        struct iovec io = {data, sizeof data};
        struct msghdr m = {.msg_name = &peer,
                           .msg_namelen = sizeof peer,
                           .msg_iov = &io,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
        struct world_event e = {.udp = true};

        ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT);
        if (n < 0)
                return;
        read_target(&m, &target);
        (void)getsockname(l->fd, (struct sockaddr *)&own, &own_size);
        describe(&own, text, sizeof text, &e.port);
        describe(&target, e.address, sizeof e.address, &port);
        describe(&peer, e.from, sizeof e.from, &port);
        (void)snprintf(e.kind, sizeof e.kind, "%s", l->service == SERVICE_RAW ? "udp" : service_names[l->service]);
        if (l->service == SERVICE_NAMES)
                io.iov_len = take_question(&e, data, (size_t)n, (uint8_t *)reply, sizeof reply);
        else {
                world_serve_attempt(me.nonce, data, (size_t)n, e.attempt, sizeof e.attempt);
                world_serve_printable(data, (size_t)n, e.begin, sizeof e.begin);
                (void)world_heard_note(me.heard, &e, (size_t)n);
                memcpy(reply, "here", 4);
                io.iov_len = 4;
        }
        io.iov_base = reply;
        m.msg_flags = 0;
        if (io.iov_len > 0)
                (void)sendmsg(l->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- the process --- */

/* Answers that had to wait. Returns how long until the next, -1: none. */
static int answer_slowly(void) {
        uint64_t now = now_ms(), next = UINT64_MAX;

        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                struct connection *c = &me.connections[i];

                if (c->number && c->due && c->due <= now) {
                        answer(c);
                        take_all(c);
                }
                if (c->number && c->due)
                        next = MIN(next, c->due);
        }
        return next == UINT64_MAX ? -1 : (int)(next - MIN(next, now)) + 1;
}

/* Nothing more is waiting: who is here and has said nothing is noted too, and the judge is told. */
static void report(void) {
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                if (me.connections[i].number && !me.connections[i].noted)
                        note_connection(&me.connections[i], "", 0, 0);
        (void)send(me.control, "", 1, MSG_NOSIGNAL);
}

static void handle(uint64_t what, bool *asked) {
        char byte;

        if (what == UINT64_MAX) {
                if (recv(me.control, &byte, 1, MSG_DONTWAIT) == 0)
                        _exit(0);
                *asked = true;
        } else if (what >= WORLD_PORTS_MAX) {
                if (me.connections[what - WORLD_PORTS_MAX].number)
                        hear_connection(&me.connections[what - WORLD_PORTS_MAX]);
        } else if (me.ports[what].udp)
                hear_datagram(&me.ports[what]);
        else
                meet(&me.ports[what]);
}

_noreturn_ static void serve(void) {
        bool asked = false;

        for (;;) {
                struct epoll_event events[64];
                int wait = answer_slowly();
                int n = epoll_wait(me.epoll, events, ELEMENTSOF(events), asked ? 0 : wait);

                if (n < 0 && errno != EINTR)
                        _exit(1);
                for (int i = 0; i < n; i++)
                        handle(events[i].data.u64, &asked);
                if (n == 0 && asked) {
                        report();
                        asked = false;
                }
        }
}

static int watch(int fd, uint64_t what) {
        struct epoll_event e = {.events = EPOLLIN, .data.u64 = what};

        return epoll_ctl(me.epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

/* Sockets first, then nothing that is worth having. */
static int prepare(const struct world *w, int far) {
        int r = world_ports_open(w, far, me.ports, &me.count);

        if (r < 0)
                return r;
        me.connections = mmap(NULL, CONNECTIONS_MAX * sizeof *me.connections, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        me.epoll = epoll_create1(EPOLL_CLOEXEC);
        if (me.connections == MAP_FAILED || me.epoll < 0)
                return -errno;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                me.connections[i].fd = -EBADF;
        for (size_t i = 0; i < me.count && r == 0; i++)
                r = watch(me.ports[i].fd, i);
        return r == 0 ? watch(me.control, UINT64_MAX) : r;
}

static int become_nobody(void) {
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (geteuid() == 0 &&
            (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0))
                return -errno;
        return world_drop_capabilities();
}

_noreturn_ static void live(const struct world *w, pid_t judge, int far, int control) {
        me.nonce = w->nonce;
        me.heard = w->heard;
        me.control = control;
        world_child_begin(judge, far, control);
        int r = prepare(w, far);
        (void)close(far);
        if (r == 0)
                r = become_nobody();
        world_child_tie(judge);
        (void)send(me.control, &r, sizeof r, MSG_NOSIGNAL);
        if (r < 0)
                _exit(1);
        serve();
}

int world_listen_start(struct world *w, struct err *err) {
        int ends[2], status = -ETIMEDOUT;
        pid_t judge = getpid();

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, -errno, "could not make a socket pair");
        w->listener = fork();
        if (w->listener == 0)
                live(w, judge, world_own(w)->far, ends[1]);
        (void)close(ends[1]);
        world_own(w)->control = ends[0];
        if (w->listener < 0) {
                w->listener = 0;
                return err_set(err, -errno, "could not start the listener");
        }
        struct pollfd p = {.fd = ends[0], .events = POLLIN};
        if (poll(&p, 1, 5000) > 0 && recv(ends[0], &status, sizeof status, 0) != (ssize_t)sizeof status)
                status = -EPIPE;
        return status < 0 ? err_set(err, status, "the listener could not open its sockets") : 0;
}

bool world_listen_settle(const struct world *w) {
        struct pollfd p = {.fd = world_own(w)->control, .events = POLLIN};
        char byte;

        while (recv(p.fd, &byte, 1, MSG_DONTWAIT) > 0)
                ; /* an answer that came too late for an earlier question */
        return send(p.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 && poll(&p, 1, SETTLE_MS) > 0 &&
               recv(p.fd, &byte, 1, MSG_DONTWAIT) == 1;
}
