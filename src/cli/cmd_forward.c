/* `stockade forward`: a port of a sandbox on the host's loopback, for as long as this runs. Each connection is a
 * request of its own to the daemon, which has the guest connect to the port inside. One poll serves them all. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/client.h"
#include "cli/cmd.h"

enum { CONNECTIONS_MAX = 128, CHUNK = 64 * 1024 };

struct options {
        struct args_common common;
};

const struct args_verb forward_verb = {
        .name = "forward",
        .words = "SANDBOX PORT[:LOCAL]",
        .summary = "make a port of a sandbox reachable on this host's loopback",
        .about =
                "Listens on 127.0.0.1 at LOCAL (the same number if none is given; 0 takes a free one) and passes each "
                "connection on to PORT inside, until it is ended. Every user of this host can connect to it meanwhile.",
        .least = 2,
        .most = 2,
        .what = {WHAT_SANDBOX, WHAT_TEXT},
};

/* One connection: the caller's socket and the request. Bytes that one side did not take yet wait here. */
struct pair {
        int local; /* -EBADF: the place is free */
        struct talk talk;
        struct buf to_daemon; /* frames */
        size_t sent;
        const char *to_local; /* of a frame, in the talk's buffer */
        size_t to_local_size;
        bool local_ended; /* we have read its end */
        bool answered;
};

struct forward {
        const struct options *o;
        const char *sandbox;
        uint64_t port;
        int listener, signals;
        struct pair pairs[CONNECTIONS_MAX];
};

static void pair_close(struct pair *p) {
        fd_close(&p->local);
        talk_close(&p->talk);
        buf_free(&p->to_daemon);
        *p = (struct pair){.local = -EBADF, .talk = {.fd = -EBADF}};
}

/* --- beginning ------------------------------------------------------------------------------------------------ */

static int listen_local(uint64_t port, int *ret, uint16_t *ret_port, struct err *err) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t size = sizeof a;

        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
            bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 64) < 0 ||
            getsockname(fd, (struct sockaddr *)&a, &size) < 0) {
                (void)err_set(err, -errno, "cannot listen on 127.0.0.1 port %llu", (unsigned long long)port);
                return err_hint(err, "name another one: PORT:LOCAL, or PORT:0 for any that is free");
        }
        *ret_port = ntohs(a.sin_port);
        *ret = TAKE_FD(fd);
        return 0;
}

static void begin_pair(struct forward *f) {
        struct pair *p = NULL;
        struct err err = {0};

        for (size_t i = 0; i < CONNECTIONS_MAX && !p; i++)
                if (f->pairs[i].local < 0)
                        p = &f->pairs[i];
        if (!p)
                return; /* it waits in the listener's queue */
        int local = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (local < 0)
                return;
        _cleanup_request_ struct talk_request q;
        talk_begin(&q, "connect");
        talk_str(&q, "sandbox", f->sandbox);
        json_u64(&q.json, "port", f->port);
        *p = (struct pair){.local = local, .talk = {.fd = -EBADF}, .to_daemon = {.max = LOCAL_FRAME_MAX + LOCAL_HEAD}};
        if (talk_go(&p->talk, &f->o->common, &q, &err) < 0) {
                err_print(&err);
                pair_close(p);
        }
}

/* --- moving --------------------------------------------------------------------------------------------------- */

static void read_local(struct pair *p) {
        char chunk[CHUNK];
        ssize_t n = recv(p->local, chunk, sizeof chunk, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        p->sent = p->to_daemon.size = 0;
        if (n > 0)
                local_put(&p->to_daemon, LOCAL_INPUT, chunk, (size_t)n);
        else {
                p->local_ended = true;
                local_put(&p->to_daemon, LOCAL_FINISH, NULL, 0);
        }
}

/* False when the pair is over. */
static bool write_daemon(struct pair *p) {
        ssize_t n = send(p->talk.fd, p->to_daemon.data + p->sent, p->to_daemon.size - p->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        p->sent += (size_t)n;
        return true;
}

static bool write_local(struct pair *p) {
        ssize_t n = send(p->local, p->to_local, p->to_local_size, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        p->to_local += n;
        p->to_local_size -= (size_t)n;
        return true;
}

static bool take_frames(struct pair *p) {
        struct talk_frame f;
        struct err err = {0};
        const char *result;
        int r;

        while (p->to_local_size == 0 && !p->answered && (r = talk_take(&p->talk, &f, &err)) != 0) {
                if (r < 0)
                        return false;
                if (f.kind == LOCAL_OUTPUT) {
                        p->to_local = f.data;
                        p->to_local_size = f.size;
                } else if (f.kind == LOCAL_FINISH)
                        (void)shutdown(p->local, SHUT_WR);
                else if (f.kind == LOCAL_ANSWER) {
                        p->answered = true;
                        if (talk_result(&p->talk, &result, &err) < 0)
                                err_print(&err);
                }
        }
        return !p->answered || p->to_local_size > 0;
}

static bool serve_pair(struct pair *p, short local, short daemon) {
        if ((local & (POLLIN | POLLHUP | POLLERR)) && !p->local_ended && p->sent == p->to_daemon.size)
                read_local(p);
        if ((local & POLLOUT) && p->to_local_size > 0 && !write_local(p))
                return false;
        if ((daemon & POLLOUT) && p->sent < p->to_daemon.size && !write_daemon(p))
                return false;
        /* what has come is looked at first: behind it may be the end of the connection */
        if (!take_frames(p))
                return false;
        if (!(daemon & (POLLIN | POLLHUP | POLLERR)) || p->to_local_size > 0)
                return true;
        return talk_fill(&p->talk) >= 0 && take_frames(p);
}

static void poll_pair(const struct pair *p, struct pollfd *local, struct pollfd *daemon) {
        bool may_read = !p->local_ended && p->sent == p->to_daemon.size, may_write = p->to_local_size > 0;

        *local = (struct pollfd){.fd = p->local >= 0 && (may_read || may_write) ? p->local : -1,
                                 .events = (short)((may_read ? POLLIN : 0) | (may_write ? POLLOUT : 0))};
        may_read = p->to_local_size == 0;
        may_write = p->sent < p->to_daemon.size;
        *daemon = (struct pollfd){.fd = p->local >= 0 && (may_read || may_write) ? p->talk.fd : -1,
                                  .events = (short)((may_read ? POLLIN : 0) | (may_write ? POLLOUT : 0))};
}

static void run(struct forward *f) {
        struct pollfd fds[2 + 2 * CONNECTIONS_MAX];

        for (;;) {
                bool room = false;

                for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                        poll_pair(&f->pairs[i], &fds[2 + 2 * i], &fds[3 + 2 * i]);
                        room |= f->pairs[i].local < 0;
                }
                fds[0] = (struct pollfd){.fd = f->signals, .events = POLLIN};
                fds[1] = (struct pollfd){.fd = room ? f->listener : -1, .events = POLLIN};
                if (poll(fds, ELEMENTSOF(fds), -1) < 0)
                        continue;
                if (fds[0].revents)
                        return;
                for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                        if (f->pairs[i].local >= 0 && (fds[2 + 2 * i].revents || fds[3 + 2 * i].revents) &&
                            !serve_pair(&f->pairs[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents))
                                pair_close(&f->pairs[i]);
                if (fds[1].revents)
                        begin_pair(f);
        }
}

static int parse_ports(const char *text, uint64_t *port, uint64_t *local, struct err *err) {
        static const char what[] = "a port, or PORT:LOCAL";
        size_t n = strcspn(text, ":");
        _cleanup_free_ char *first = strndup(text, n);

        if (!first)
                return err_set(err, -ENOMEM, "cannot read the port");
        int r = client_number(first, what, UINT16_MAX, port, err);
        *local = *port;
        if (r < 0 || text[n] == '\0')
                return r;
        if (str_eq(text + n, ":0")) {
                *local = 0;
                return 0;
        }
        return client_number(text + n + 1, what, UINT16_MAX, local, err);
}

int cmd_forward(int argc, char **argv) {
        static struct forward f;
        struct options o = {0};
        struct err err = {0};
        uint64_t local = 0;
        uint16_t port = 0;
        sigset_t set;
        int status;

        if (!client_begin(&forward_verb, &argc, argv, &o, &status))
                return status;
        f = (struct forward){.o = &o, .sandbox = argv[1], .listener = -EBADF, .signals = -EBADF};
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                f.pairs[i] = (struct pair){.local = -EBADF, .talk = {.fd = -EBADF}};
        int r = parse_ports(argv[2], &f.port, &local, &err);
        if (r == 0)
                r = listen_local(local, &f.listener, &port, &err);
        if (r < 0)
                return talk_failed(NULL, &o.common, &err);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGHUP);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        f.signals = signalfd(-1, &set, SFD_CLOEXEC);
        (void)printf("127.0.0.1:%u leads to port %llu of %s; Ctrl-C ends it\n", port, (unsigned long long)f.port,
                     f.sandbox);
        (void)fflush(stdout);
        run(&f);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                pair_close(&f.pairs[i]);
        fd_close(&f.listener);
        fd_close(&f.signals);
        return 0;
}
