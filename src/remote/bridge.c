/* One poll over the socket pair and the server. Framing is wslay's.
 *
 * Always holds: the head of the answer was checked before a byte of ours follows it; when the command line has gone,
 * what it said last is sent, for a bounded time; when the server has gone, the command line still gets what came. */
#include "remote/bridge.h"

#include <openssl/evp.h>
#include <poll.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wslay/wslay.h>

#include "base/fd.h"
#include "wire/local.h"

#define PROTOCOL    "stockade.local.1"
#define MESSAGE_MAX (LOCAL_HEAD + LOCAL_FRAME_MAX)
#define MARK        (256U * 1024)
#define PIECE       (32U * 1024)

/* Messages that wait to be sent. What the command line says stops at the first number, so that only answers to pings
 * come above it; at the second nothing more is read that could want an answer. */
enum { QUEUE_LOW = 32, QUEUE_HIGH = 64 };

enum { LINGER_MS = 2000, KEY = 16, KEY_TEXT = 25, ACCEPT_TEXT = 29 };

/* --- opening --------------------------------------------------------------------------------------------------------
 */

/* RFC 6455, 4.1: what a server that read the key must answer. */
static bool expect(const char *key, char ret[ACCEPT_TEXT]) {
        char text[80];
        uint8_t hash[EVP_MAX_MD_SIZE];
        unsigned size = 0;
        int n = snprintf(text, sizeof text, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);

        return EVP_Digest(text, (size_t)n, hash, &size, EVP_sha1(), NULL) == 1 && size == 20 &&
               EVP_EncodeBlock((uint8_t *)ret, hash, (int)size) == ACCEPT_TEXT - 1;
}

static int not_signed_in(const struct url *u, struct err *err) {
        (void)err_set(err, ERR_REFUSED, "the session at '%s' has ended: it expired, or was revoked", u->text);
        (void)err_hint(err, "stockade login --server %s", u->text);
        return -EKEYREJECTED;
}

void bridge_close(struct bridge *b) {
        line_close(&b->line);
        buf_free(&b->rest);
}

static int upgrade(struct bridge *b, const struct url *u, const char *token, struct err *err) {
        _cleanup_answer_ struct ask_answer answer = {0};
        uint8_t random[KEY];
        char key[KEY_TEXT], right[ACCEPT_TEXT], head[256];

        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
            EVP_EncodeBlock((uint8_t *)key, random, sizeof random) != KEY_TEXT - 1 || !expect(key, right))
                return err_set(err, -EIO, "could not make the key of a WebSocket");
        (void)snprintf(head, sizeof head,
                       "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: " PROTOCOL "\r\n",
                       key);
        struct ask q = {.method = "GET", .path = "/api/local", .token = token, .more_head = head};
        int r = ask_on(&b->line, u, &q, &answer, err);
        if (r < 0)
                return r;
        if (answer.status == 401)
                return not_signed_in(u, err);
        if (answer.status == 404) {
                (void)err_set(err, ERR_REFUSED, "'%s' does not know how to serve a stockade from afar", u->text);
                return err_hint(err, "it is older than this program, or something else");
        }
        if (answer.status != 101)
                return ask_refused(u, &answer, err);
        if (!str_eq(answer.accept, right) || !str_eq(answer.protocol, PROTOCOL))
                return err_set(err, ERR_CORRUPT, "'%s' opens something that is not the local protocol", u->text);
        b->rest.max = MESSAGE_MAX;
        buf_add(&b->rest, answer.body.data, answer.body.size);
        return buf_ok(&b->rest) ? 0 : err_set(err, -ENOMEM, "could not open the connection");
}

int bridge_open(struct bridge *b, const struct url *u, const struct keep *k, struct err *err) {
        struct trust trust;

        *b = (struct bridge){.line = {.fd = -EBADF}};
        keep_trust(k, &trust);
        int r = line_open(&b->line, u, &trust, err);
        if (r == 0)
                r = upgrade(b, u, k->token, err);
        if (r < 0)
                bridge_close(b);
        return r;
}

/* --- both ways ------------------------------------------------------------------------------------------------------
 */

struct run {
        struct bridge *b;
        int local;
        struct wslay_event_context *ws;
        struct buf out; /* for the command line */
        size_t out_at;
        size_t rest_at;
        bool local_over, far_over;
};

/* May the server go on talking? */
static bool has_room(const struct run *r) {
        return r->out.size - r->out_at < MARK && wslay_event_get_queued_msg_count(r->ws) <= QUEUE_HIGH;
}

static ssize_t take_bytes(struct wslay_event_context *c, uint8_t *data, size_t size, int flags, void *user) {
        struct run *r = user;
        struct buf *rest = &r->b->rest;
        bool room = has_room(r);
        size_t n = room ? MIN(size, rest->size - r->rest_at) : 0;

        (void)flags;
        if (n > 0) {
                memcpy(data, rest->data + r->rest_at, n);
                r->rest_at += n;
                return (ssize_t)n;
        }
        ssize_t got = !room ? -EAGAIN : line_read(&r->b->line, data, size);
        if (got > 0)
                return got;
        wslay_event_set_error(c, got == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static ssize_t give_bytes(struct wslay_event_context *c, const uint8_t *data, size_t size, int flags, void *user) {
        struct run *r = user;
        ssize_t n = line_write(&r->b->line, data, size);

        (void)flags;
        if (n > 0)
                return n;
        wslay_event_set_error(c, n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static int make_mask(struct wslay_event_context *c, uint8_t *data, size_t size, void *user) {
        (void)user;
        if (getrandom(data, size, 0) == (ssize_t)size)
                return 0;
        wslay_event_set_error(c, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static void on_message(struct wslay_event_context *c, const struct wslay_event_on_msg_recv_arg *m, void *user) {
        struct run *r = user;

        (void)c;
        if (m->opcode == WSLAY_TEXT_FRAME)
                r->far_over = true; /* nothing of ours says that */
        if (m->opcode != WSLAY_BINARY_FRAME)
                return;
        if (r->out_at >= r->out.size - r->out_at && r->out_at > 0) { /* half of it has gone: the rest moves up */
                memmove(r->out.data, r->out.data + r->out_at, r->out.size - r->out_at);
                r->out.size -= r->out_at;
                r->out_at = 0;
        }
        buf_add(&r->out, m->msg, m->msg_length);
        r->far_over |= !buf_ok(&r->out);
}

static void read_local(struct run *r) {
        uint8_t bytes[PIECE];
        ssize_t n = recv(r->local, bytes, sizeof bytes, MSG_DONTWAIT);
        struct wslay_event_msg m = {.opcode = WSLAY_BINARY_FRAME, .msg = bytes, .msg_length = n > 0 ? (size_t)n : 0};

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        r->local_over = n <= 0 || wslay_event_queue_msg(r->ws, &m) != 0;
        if (n > 0)
                explicit_bzero(bytes, (size_t)n);
}

static void write_local(struct run *r) {
        ssize_t n = send(r->local, r->out.data + r->out_at, r->out.size - r->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0)
                r->out_at += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
                r->local_over = true;
}

static void talk_to_server(struct run *r) {
        if (wslay_event_want_read(r->ws) && wslay_event_recv(r->ws) != 0)
                r->far_over = true;
        if (!r->far_over && wslay_event_want_write(r->ws) && wslay_event_send(r->ws) != 0)
                r->far_over = true;
        /* it has closed, or what it said is no WebSocket: wslay has told it so, and reads no more */
        r->far_over |= wslay_event_get_close_received(r->ws) || !wslay_event_want_read(r->ws);
}

static void turn(struct run *r) {
        const struct line *l = &r->b->line;
        bool room = has_room(r), waiting = r->out_at < r->out.size;
        bool listen = wslay_event_get_queued_msg_length(r->ws) < MARK &&
                      wslay_event_get_queued_msg_count(r->ws) < QUEUE_LOW;
        struct pollfd p[] = {
                {.fd = r->local, .events = (short)((listen ? POLLIN : 0) | (waiting ? POLLOUT : 0))},
                {.fd = l->fd,
                 .events = (short)((room ? l->read_wants : 0) | (wslay_event_want_write(r->ws) ? l->write_wants : 0))},
        };
        if (p[1].events == 0) /* whatever is the matter there can wait until we want something of it */
                p[1].fd = -1;
        bool more = room && (line_pending(l) || r->rest_at < r->b->rest.size);

        if (poll(p, ELEMENTSOF(p), more ? 0 : -1) < 0 && errno != EINTR) {
                r->far_over = true;
                return;
        }
        if (p[0].revents & (POLLOUT | POLLERR | POLLHUP) && waiting)
                write_local(r);
        if (p[0].revents & (POLLIN | POLLERR | POLLHUP) && !r->local_over)
                read_local(r);
        talk_to_server(r);
}

/* The command line has gone: its last words, and a closing frame. */
static void take_leave(struct run *r) {
        uint64_t until = line_now() + LINGER_MS;

        (void)wslay_event_queue_close(r->ws, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
        while (wslay_event_want_write(r->ws) && wslay_event_send(r->ws) == 0)
                if (wslay_event_want_write(r->ws) && line_wait(&r->b->line, r->b->line.write_wants, until) < 0)
                        break;
}

/* The server has gone: what it said last. */
static void hand_over_rest(struct run *r) {
        struct pollfd p = {.fd = r->local, .events = POLLOUT};

        while (buf_ok(&r->out) && r->out_at < r->out.size && !r->local_over)
                if (poll(&p, 1, -1) > 0)
                        write_local(r);
}

void bridge_run(struct bridge *b, int local) {
        static const struct wslay_event_callbacks calls = {.recv_callback = take_bytes,
                                                           .send_callback = give_bytes,
                                                           .genmask_callback = make_mask,
                                                           .on_msg_recv_callback = on_message};
        struct run r = {.b = b, .local = local, .out = {.max = 8 * MARK}};

        if (wslay_event_context_client_init(&r.ws, &calls, &r) != 0)
                return;
        wslay_event_config_set_max_recv_msg_length(r.ws, MESSAGE_MAX);
        while (!r.local_over && !r.far_over)
                turn(&r);
        if (r.local_over)
                take_leave(&r);
        else
                hand_over_rest(&r);
        wslay_event_context_free(r.ws);
        buf_free(&r.out);
}
