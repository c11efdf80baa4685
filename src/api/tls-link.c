/* See tls-link.h. A socket is watched only for what can be used at the moment, and not at all when that is nothing: an
 * end that was closed would be reported for ever.
 *
 * Must never: read from one side while what it said last waits for the other; ask GnuTLS for anything after it failed.
 */
#include "api/tls-link.h"

#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/tls.h"
#include "base/fd.h"

#define PIECE   (16U * 1024) /* of a record */
#define ROUNDS  8            /* pieces of one turn */
#define LAST_MS 10000
#define SHAKES  4 /* steps of handshakes, of all, in one turn */

struct pipe_end {
        uint8_t bytes[PIECE];
        size_t size, at; /* what waits; from where */
        bool ended;      /* nothing more comes */
        bool passed_on;  /* and the other side knows */
};

struct tls_link {
        struct tls_pair *pair;
        struct loop *loop;
        gnutls_session_t session;
        int fd, inner; /* inner: our end of the pair; -EBADF before the handshake is over */
        uint8_t address[16];
        const struct tls_link_events *events;
        void *owner, *data; /* data NULL: left */
        struct loop_watch outside, inside;
        struct loop_task more, end;
        struct loop_timer last;
        bool spoke, shaken, over;
        bool blocked; /* the client reads nothing now */
        struct pipe_end up, down;
};

static void finish(struct loop_task *t) {
        struct tls_link *l = LOOP_OWNER(t, struct tls_link, end);

        loop_unwatch(l->loop, &l->outside);
        loop_unwatch(l->loop, &l->inside);
        loop_cancel(l->loop, &l->more);
        loop_timer_clear(l->loop, &l->last);
        if (!l->shaken && l->data)
                l->events->failed(l->data);
        else if (l->data) { /* libmicrohttpd still has its end: it hears of this, and leaves */
                fd_close(&l->inner);
                fd_close(&l->fd);
                return;
        }
        fd_close(&l->inner);
        fd_close(&l->fd);
        l->events->over(l->owner, l->address);
        gnutls_deinit(l->session);
        tls_pair_drop(l->pair);
        explicit_bzero(&l->up, sizeof l->up);
        explicit_bzero(&l->down, sizeof l->down);
        free(l);
}

static void end(struct tls_link *l) {
        l->over = true;
        loop_later(l->loop, &l->end);
}

bool tls_link_spoke(const struct tls_link *l) {
        return l->spoke;
}

int tls_link_fd(const struct tls_link *l) {
        return l->fd;
}

void tls_link_cut(struct tls_link *l) {
        if (l->fd >= 0)
                (void)shutdown(l->fd, SHUT_RDWR);
        end(l);
}

static void on_last(struct loop_timer *t) {
        tls_link_cut(LOOP_OWNER(t, struct tls_link, last));
}

void tls_link_leave(struct tls_link *l) {
        l->data = NULL;
        if (l->over)
                loop_later(l->loop, &l->end);
        else
                loop_timer_set(l->loop, &l->last, loop_now(l->loop) + LAST_MS);
}

/* --- the handshake --------------------------------------------------------------------------------------------------
 */

static void introduce(struct tls_link *l) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
                end(l);
                return;
        }
        l->inner = ends[0];
        l->shaken = true;
        l->events->shaken(l->data, ends[1]);
}

/* Turns of one loop: there is one in this process. */
static bool may_shake(const struct tls_link *l) {
        static uint64_t turn;
        static unsigned count;

        if (turn != loop_now(l->loop))
                count = 0;
        turn = loop_now(l->loop);
        return count++ < SHAKES;
}

/* False: not in this turn. */
static bool shake(struct tls_link *l) {
        int r = GNUTLS_E_AGAIN;

        if (!may_shake(l))
                return false;
        for (unsigned i = 0; i < ROUNDS; i++) { /* there are warnings, which do not end it */
                r = gnutls_handshake(l->session);
                if (r == GNUTLS_E_SUCCESS || r == GNUTLS_E_AGAIN || gnutls_error_is_fatal(r))
                        break;
        }
        if (r == GNUTLS_E_SUCCESS)
                introduce(l);
        else if (r != GNUTLS_E_AGAIN)
                end(l);
        return true;
}

/* --- bytes ----------------------------------------------------------------------------------------------------------
 */

/* From the client. False: nothing can be done now. */
static bool read_client(struct tls_link *l) {
        if (l->up.ended)
                return false;
        ssize_t n = gnutls_record_recv(l->session, l->up.bytes, sizeof l->up.bytes);
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
                return n == GNUTLS_E_INTERRUPTED;
        if (n == 0 || n == GNUTLS_E_PREMATURE_TERMINATION) /* whether it was all is HTTP's to say */
                l->up.ended = true;
        else if (n < 0)
                end(l);
        else
                l->up.size = (size_t)n;
        return n >= 0 || l->up.ended;
}

static bool write_inner(struct tls_link *l) {
        ssize_t n = send(l->inner, l->up.bytes + l->up.at, l->up.size - l->up.at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
                return false;
        if (n < 0) /* libmicrohttpd has closed: what comes is for nobody */
                n = (ssize_t)(l->up.size - l->up.at);
        l->up.at += (size_t)n;
        if (l->up.at == l->up.size)
                l->up.at = l->up.size = 0;
        return true;
}

static bool pump_up(struct tls_link *l) {
        if (l->up.size > 0)
                return write_inner(l);
        if (l->up.ended && !l->up.passed_on) {
                (void)shutdown(l->inner, SHUT_WR);
                l->up.passed_on = true;
        }
        return read_client(l);
}

static bool read_inner(struct tls_link *l) {
        if (l->down.ended)
                return false;
        ssize_t n = recv(l->inner, l->down.bytes, sizeof l->down.bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
                return false;
        if (n <= 0)
                l->down.ended = true;
        else
                l->down.size = (size_t)n;
        return true;
}

static bool write_client(struct tls_link *l) {
        ssize_t n = gnutls_record_send(l->session, l->down.bytes + l->down.at, l->down.size - l->down.at);

        l->blocked = n == GNUTLS_E_AGAIN;
        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED)
                return n == GNUTLS_E_INTERRUPTED;
        if (n < 0) {
                end(l);
                return false;
        }
        l->down.at += (size_t)n;
        if (l->down.at == l->down.size)
                l->down.at = l->down.size = 0;
        return true;
}

/* Our last word, in TLS and in TCP. */
static bool say_bye(struct tls_link *l) {
        int r = gnutls_bye(l->session, GNUTLS_SHUT_WR);

        l->blocked = r == GNUTLS_E_AGAIN;
        if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED)
                return r == GNUTLS_E_INTERRUPTED;
        (void)shutdown(l->fd, SHUT_WR);
        l->down.passed_on = true;
        return false;
}

static bool pump_down(struct tls_link *l) {
        if (l->down.size > 0)
                return write_client(l);
        if (l->down.ended)
                return !l->down.passed_on && say_bye(l);
        return read_inner(l);
}

/* --- events ---------------------------------------------------------------------------------------------------------
 */

static void want(struct tls_link *l, struct loop_watch *w, int fd, uint32_t events) {
        if (events == 0)
                loop_unwatch(l->loop, w);
        else if ((!w->on || w->events != events) && loop_watch(l->loop, w, fd, events) < 0)
                end(l);
}

static void go_on(struct tls_link *l) {
        bool up = true, down = true;

        if (!l->over && !l->shaken) {
                l->spoke = true;
                if (!shake(l)) {
                        want(l, &l->outside, l->fd, 0);
                        loop_later(l->loop, &l->more);
                        return;
                }
        }
        for (unsigned i = 0; l->shaken && i < ROUNDS && (up || down); i++) {
                up = !l->over && pump_up(l);
                down = !l->over && pump_down(l);
        }
        if (l->over)
                return;
        if (!l->shaken) {
                want(l, &l->outside, l->fd, gnutls_record_get_direction(l->session) ? EPOLLOUT : EPOLLIN);
                return;
        }
        if (l->up.passed_on && l->down.passed_on) {
                end(l);
                return;
        }
        want(l, &l->outside, l->fd, (!l->up.ended && l->up.size == 0 ? EPOLLIN : 0U) | (l->blocked ? EPOLLOUT : 0U));
        want(l, &l->inside, l->inner,
             (!l->down.ended && l->down.size == 0 ? EPOLLIN : 0U) | (l->up.size > 0 ? EPOLLOUT : 0U));
        if (up || down) /* what GnuTLS has read already, no socket tells of */
                loop_later(l->loop, &l->more);
}

static void on_outside(struct loop_watch *w, uint32_t events) {
        (void)events;
        go_on(LOOP_OWNER(w, struct tls_link, outside));
}

static void on_inside(struct loop_watch *w, uint32_t events) {
        (void)events;
        go_on(LOOP_OWNER(w, struct tls_link, inside));
}

static void on_more(struct loop_task *t) {
        go_on(LOOP_OWNER(t, struct tls_link, more));
}

struct tls_link *tls_link_new(struct tls *t, struct loop *loop, int fd, const uint8_t address[16],
                              const struct tls_link_events *events, void *owner, void *data) {
        struct tls_link *l = calloc(1, sizeof *l);
        struct tls_pair *pair = tls_pair_take(t);

        if (!l || !pair || tls_session(t, pair, fd, &l->session) < 0) {
                tls_pair_drop(pair);
                free(l);
                (void)close(fd);
                return NULL;
        }
        l->pair = pair;
        l->loop = loop;
        l->fd = fd;
        l->inner = -EBADF;
        l->events = events;
        l->owner = owner;
        l->data = data;
        memcpy(l->address, address, sizeof l->address);
        l->outside.ready = on_outside;
        l->inside.ready = on_inside;
        l->more.run = on_more;
        l->end.run = finish;
        l->last.fire = on_last;
        want(l, &l->outside, fd, EPOLLIN);
        return l;
}
