/* The bare relay: what a gate would be that judges nothing. It is put in the place of stockade-gate, beside a copy of
 * the launcher, so that client, namespace, redirection and server are the same as in the gate's own rows, and only the
 * program between them is another. One thread, epoll, no limits, no names, no rules.
 *
 * In a folder named "splice" it moves bytes with splice through a pipe per direction; elsewhere it reads and writes
 * with one buffer of 256 KiB. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/gate.h"

#define BARE_CHUNK   (256 * 1024)
#define BARE_CHUNKS  4     /* per direction and turn */
#define BARE_MAX     32768 /* by descriptor */
#define ORIGINAL_DST 80

/* A connection's end; peer is the other one. */
struct end {
        int fd, peer; /* 0: not in use */
        bool can_read, can_write, ended, shut;
        uint8_t *kept; /* read from the peer, not written to this end yet */
        size_t at, size;
        int pipe[2]; /* the same, in the kernel */
        bool listed;
};

static struct end ends[BARE_MAX];
static uint8_t scratch[BARE_CHUNK];
static int epoll_fd = -EBADF, listener = -EBADF;
static bool spliced;
static int again[BARE_MAX];
static size_t again_count;

static int bare_watch(int fd, uint32_t events) {
        struct epoll_event e = {.events = events, .data.fd = fd};

        return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static void bare_end(struct end *e) {
        free(e->kept);
        if (e->pipe[0] > 0) {
                (void)close(e->pipe[0]);
                (void)close(e->pipe[1]);
        }
        (void)close(e->fd);
        bool listed = e->listed;
        *e = (struct end){.listed = listed};
}

static void bare_end_both(struct end *e) {
        bare_end(&ends[e->peer]);
        bare_end(e);
}

/* What waits for this end. 1: all is out, 0: not yet, -1: it is gone. */
static int bare_flush(struct end *to) {
        while (to->size > 0) {
                ssize_t n = spliced ? splice(to->pipe[0], NULL, to->fd, NULL, to->size,
                                             SPLICE_F_NONBLOCK | SPLICE_F_MOVE)
                                    : send(to->fd, to->kept + to->at, to->size, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n <= 0) {
                        to->can_write = false;
                        return n < 0 && errno == EAGAIN ? 0 : -1;
                }
                to->at += (size_t)n;
                to->size -= (size_t)n;
        }
        return 1;
}

static ssize_t bare_copy(struct end *from, struct end *to) {
        ssize_t n = recv(from->fd, scratch, sizeof(scratch), MSG_DONTWAIT);

        if (n <= 0)
                return n;
        ssize_t sent = send(to->fd, scratch, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
                return -1;
        sent = MAX(sent, 0);
        if (sent < n) {
                if (!to->kept && !(to->kept = malloc(BARE_CHUNK)))
                        return -1;
                memcpy(to->kept, scratch + sent, (size_t)(n - sent));
                to->at = 0;
                to->size = (size_t)(n - sent);
                to->can_write = false;
        }
        return n;
}

static ssize_t bare_splice(struct end *from, struct end *to) {
        if (to->pipe[0] == 0) {
                if (pipe2(to->pipe, O_NONBLOCK | O_CLOEXEC) < 0)
                        return -1;
                (void)fcntl(to->pipe[1], F_SETPIPE_SZ, BARE_CHUNK);
        }
        ssize_t n = splice(from->fd, NULL, to->pipe[1], NULL, BARE_CHUNK, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n > 0) {
                to->size = (size_t)n;
                if (bare_flush(to) < 0)
                        return -1;
        }
        return n;
}

/* One direction. False: both ends are gone. */
static bool bare_move(struct end *from, struct end *to) {
        for (unsigned i = 0; i < BARE_CHUNKS; i++) {
                if (to->can_write && bare_flush(to) < 0)
                        return false;
                if (to->size > 0 || to->shut)
                        return true;
                if (from->ended) {
                        to->shut = true;
                        (void)shutdown(to->fd, SHUT_WR);
                        return true;
                }
                if (!from->can_read || !to->can_write)
                        return true;
                ssize_t n = spliced ? bare_splice(from, to) : bare_copy(from, to);
                if (n < 0 && errno != EAGAIN)
                        return false;
                if (n < 0)
                        from->can_read = false;
                from->ended = n == 0;
        }
        if (!from->listed) {
                from->listed = true;
                again[again_count++] = from->fd;
        }
        return true;
}

static void bare_run(struct end *e) {
        struct end *p = &ends[e->peer];

        if (!bare_move(e, p) || !bare_move(p, e) || (e->shut && p->shut))
                bare_end_both(e);
}

static void bare_accept(void) {
        for (unsigned i = 0; i < 64; i++) {
                struct sockaddr_in to;
                socklen_t size = sizeof(to);
                int one = 1;
                int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (client < 0)
                        return;
                int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                if (server < 0 || MAX(client, server) >= BARE_MAX ||
                    getsockopt(client, SOL_IP, ORIGINAL_DST, &to, &size) < 0 ||
                    (connect(server, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)) {
                        (void)close(client);
                        (void)close(server);
                        continue;
                }
                (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
                ends[client] = (struct end){.fd = client, .peer = server, .listed = ends[client].listed};
                ends[server] = (struct end){.fd = server, .peer = client, .listed = ends[server].listed};
                (void)bare_watch(client, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
                (void)bare_watch(server, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
        }
}

/* The launcher's messages: the listening socket is taken, the rest is agreed with. */
static void bare_control(void) {
        static uint8_t packet[GATE_PACKET_MAX];
        struct gate_message m;
        int fds[GATE_FDS_MAX];
        size_t count = 0, used = 0;

        if (gate_receive(GATE_FD, packet, &m, fds, &count) <= 0)
                _exit(0);
        for (unsigned i = 0; m.kind == GATE_ADD && i < GATE_FD_COUNT; i++) {
                if (!(m.fds & 1U << i))
                        continue;
                if (i == GATE_TCP)
                        listener = fds[used];
                used++;
        }
        if (m.kind == GATE_ADD && listener >= 0)
                (void)bare_watch(listener, EPOLLIN);
        struct gate_message reply = {.kind = GATE_FLUSHED, .ward = m.ward, .token = m.token};
        if (m.kind == GATE_FLUSH)
                (void)gate_send(GATE_FD, &reply, NULL, 0);
}

static void bare_turn(void) {
        struct epoll_event events[256];
        static int turn[BARE_MAX];
        int n = epoll_wait(epoll_fd, events, ELEMENTSOF(events), again_count > 0 ? 0 : -1);

        for (int i = 0; i < n; i++) {
                struct end *e = &ends[events[i].data.fd];
                uint32_t what = events[i].events;

                if (events[i].data.fd == GATE_FD)
                        bare_control();
                else if (events[i].data.fd == listener)
                        bare_accept();
                else if (e->fd > 0) {
                        e->can_read |= (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
                        e->can_write |= (what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
                        bare_run(e);
                }
        }
        size_t count = again_count;
        memcpy(turn, again, count * sizeof(*turn));
        again_count = 0;
        for (size_t i = 0; i < count; i++) {
                ends[turn[i]].listed = false;
                if (ends[turn[i]].fd > 0)
                        bare_run(&ends[turn[i]]);
        }
}

int main(void) {
        char self[4096] = "";
        struct rlimit limit;
        struct gate_message ready = {.kind = GATE_READY};

        if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
                return 1;
        spliced = strstr(self, "/splice/") != NULL;
        (void)signal(SIGPIPE, SIG_IGN);
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_fd < 0 || bare_watch(GATE_FD, EPOLLIN) < 0 || gate_send(GATE_FD, &ready, NULL, 0) < 0)
                return 1;
        for (;;)
                bare_turn();
}
