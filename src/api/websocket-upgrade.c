/* The socket behind a 101.
 *
 * Always holds: the descriptor in the stream is a copy of our own, so libmicrohttpd's is closed by nobody else; the
 * verb is told `gone` before libmicrohttpd gets the connection back, and after that it is not touched any more. */
#include "api/websocket-upgrade.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/fd.h"

#define OUT_MARK (64U * 1024)
#define OUT_MOST (1U << 20)

static struct upgrade *of(struct stream *s) {
        return LOOP_OWNER(s, struct upgrade, stream);
}

/* Bytes have no frames here: whatever is there is one. */
static ssize_t measure(struct stream *s, const uint8_t *bytes, size_t size) {
        (void)s;
        (void)bytes;
        return (ssize_t)MIN(size, (size_t)LOCAL_FRAME_MAX);
}

static void on_bytes(struct stream *s, const uint8_t *data, size_t size) {
        struct upgrade *u = of(s);

        if (!u->over)
                u->events->bytes(u, data, size);
}

static void on_room(struct stream *s) {
        struct upgrade *u = of(s);

        if (!u->over)
                u->events->room(u);
}

static void on_broken(struct stream *s, int error) {
        (void)error;
        upgrade_end(of(s));
}

static const struct stream_events events = {measure, on_bytes, on_room, on_broken};

/* From the loop: nothing of ours is on the stack. */
static void finish(struct loop_task *t) {
        struct upgrade *u = LOOP_OWNER(t, struct upgrade, end);
        struct exchange *x = u->x;

        if (u->open)
                stream_close(&u->stream);
        u->open = false;
        if (x->busy && x->c.gone) {
                x->busy = false;
                x->c.gone(&x->c);
        }
        if (u->handle) {
                (void)MHD_upgrade_action(TAKE_PTR(u->handle), MHD_UPGRADE_ACTION_CLOSE);
                http_wake(x->api);
        }
}

void upgrade_init(struct upgrade *u, struct exchange *x, const struct upgrade_events *e) {
        *u = (struct upgrade){.x = x, .events = e, .stream = {.fd = -EBADF}, .end = {.run = finish}};
}

void upgrade_free(struct upgrade *u) {
        loop_cancel(u->x->api->o->loop, &u->end);
        if (u->open)
                stream_close(&u->stream);
        u->open = false;
}

/* Called by libmicrohttpd, once, when the head is on its way. */
static void upgraded(void *data, struct MHD_Connection *c, void *request, const char *extra, size_t extra_size,
                     MHD_socket fd, struct MHD_UpgradeResponseHandle *handle) {
        struct upgrade *u = data;
        struct exchange *x = u->x;
        int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), yes = 1;

        (void)c;
        (void)request;
        if (own >= x->api->fd_most) /* the last ones are not for connections */
                fd_close(&own);
        /* a key's echo does not wait until the other end has confirmed the one before (40 ms) */
        (void)setsockopt(x->link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        u->handle = handle;
        x->link->kept = true;
        x->link->expires = 0;
        if (own >= 0 && stream_open(&u->stream, x->api->o->loop, own, &events, OUT_MARK, OUT_MOST) == 0) {
                u->open = true;
                if (stream_unread(&u->stream, extra, extra_size) < 0)
                        upgrade_end(u);
        }
        if (!u->open || u->over) {
                upgrade_end(u);
                return;
        }
        u->events->opened(u);
}

void upgrade_begin(struct upgrade *u) {
        struct exchange *x = u->x;

        x->streaming = true;
        x->status = 101;
        if (x->response)
                MHD_destroy_response(x->response);
        x->response = MHD_create_response_for_upgrade(upgraded, u);
        if (!x->response) {
                reply_fail(x);
                return;
        }
        reply_header(x, "Upgrade", "websocket");
        reply_header(x, "X-Request-Id", x->id);
        if (!x->inside)
                exchange_wake(x);
}

bool upgrade_has_room(const struct upgrade *u) {
        return u->open && !u->over && stream_has_room(&u->stream);
}

int upgrade_send(struct upgrade *u, const void *data, size_t size) {
        return u->open && !u->over ? stream_send(&u->stream, data, size, NULL, 0) : -EAGAIN;
}

void upgrade_hold(struct upgrade *u, bool hold) {
        if (u->open && !u->over)
                stream_hold(&u->stream, hold);
}

void upgrade_last_word(struct upgrade *u) {
        if (u->open && u->stream.fd >= 0 && u->stream.queued == 0)
                (void)shutdown(u->stream.fd, SHUT_WR);
}

void upgrade_end(struct upgrade *u) {
        u->over = true;
        loop_later(u->x->api->o->loop, &u->end);
}
