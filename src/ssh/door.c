/* Requests to the operator, frame by frame. */
#include "ssh/door.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/text.h"

#define LINK_MS  10000 /* for an operator that is being started again */
#define READ_MAX (64U * 1024)

void door_begin(struct door_request *q, const struct door *d, const char *verb) {
        *q = (struct door_request){.text = {.max = LOCAL_JSON_MAX}};
        q->json.out = &q->text;
        json_open(&q->json, NULL, '{');
        json_str(&q->json, "verb", verb);
        if (!d)
                return;
        json_str(&q->json, "door", d->token);
        json_str(&q->json, "sandbox", d->sandbox);
}

bool door_text(struct door_request *q, const char *key, const char *value) {
        if (!text_is_utf8(value)) {
                q->text.failed = true;
                return false;
        }
        json_str(&q->json, key, value);
        return true;
}

/* One byte with a descriptor. Several of us share the link: a packet is whole or not sent. */
static int hand_over(int fd) {
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(sizeof(int))];
        } control = {0};
        char byte = 0;
        struct iovec part = {&byte, 1};
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);

        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
        for (;;) {
                struct pollfd p = {.fd = DOOR_LINK_FD, .events = POLLOUT};

                if (sendmsg(DOOR_LINK_FD, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
                        return 0;
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                if (errno == EAGAIN && poll(&p, 1, LINK_MS) == 0)
                        return -ETIMEDOUT;
        }
}

int door_go(struct door_request *q, struct door_stream *ret) {
        int ends[2];

        json_close(&q->json, '}');
        *ret = (struct door_stream){.fd = -EBADF};
        if (!buf_ok(&q->text)) {
                buf_free(&q->text);
                return -EINVAL;
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
                buf_free(&q->text);
                return -errno;
        }
        int r = hand_over(ends[1]);
        (void)close(ends[1]);
        *ret = (struct door_stream){.fd = ends[0]};
        ret->in.max = LOCAL_ANSWER_MAX + READ_MAX + LOCAL_HEAD;
        ret->out.max = DOOR_QUEUE + LOCAL_FRAME_MAX + 2 * LOCAL_HEAD;
        if (r == 0)
                r = door_put(ret, LOCAL_REQUEST, q->text.data, q->text.size);
        if (q->text.data)
                explicit_bzero(q->text.data, q->text.size);
        buf_free(&q->text);
        if (r == 0)
                r = door_flush(ret);
        if (r < 0)
                door_close(ret);
        return r;
}

void door_close(struct door_stream *s) {
        fd_close(&s->fd);
        buf_free(&s->in);
        buf_free(&s->out);
        s->at = s->sent = 0;
}

/* --- out --- */

bool door_room(const struct door_stream *s) {
        return s->out.size - s->sent < DOOR_QUEUE;
}

bool door_waiting(const struct door_stream *s) {
        return s->out.size > s->sent;
}

int door_put(struct door_stream *s, enum local_kind kind, const void *data, size_t size) {
        if (s->sent > 0) { /* what was sent makes room */
                memmove(s->out.data, s->out.data + s->sent, s->out.size - s->sent);
                s->out.size -= s->sent;
                s->sent = 0;
        }
        local_put(&s->out, kind, data, size);
        return buf_ok(&s->out) ? 0 : -ENOBUFS;
}

int door_flush(struct door_stream *s) {
        while (s->sent < s->out.size) {
                ssize_t n = send(s->fd, s->out.data + s->sent, s->out.size - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno != EINTR)
                        return errno == EAGAIN ? 0 : -errno;
                s->sent += n > 0 ? (size_t)n : 0;
        }
        s->sent = s->out.size = 0;
        return 0;
}

/* --- in --- */

int door_fill(struct door_stream *s) {
        static uint8_t piece[READ_MAX];

        ssize_t n = recv(s->fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
                return -EPIPE;
        if (s->at > 0) {
                memmove(s->in.data, s->in.data + s->at, s->in.size - s->at);
                s->in.size -= s->at;
                s->at = 0;
        }
        buf_add(&s->in, piece, (size_t)n);
        return buf_ok(&s->in) ? 1 : -EMSGSIZE;
}

int door_next(struct door_stream *s, struct door_frame *ret) {
        uint8_t *start = (uint8_t *)s->in.data + s->at;

        if (s->in.size == s->at)
                return 0;
        ssize_t n = local_next(start, s->in.size - s->at, LOCAL_ANSWER_MAX, &ret->kind, &ret->data, &ret->size);
        if (n <= 0)
                return n < 0 ? -EBADMSG : 0;
        s->at += (size_t)n;
        if (ret->kind != LOCAL_ANSWER && ret->kind != LOCAL_EVENT)
                return 1;
        /* the head has been read: the text goes one byte to the left, and its NUL has room */
        char *text = (char *)start + LOCAL_HEAD - 1;
        memmove(text, ret->data, ret->size);
        text[ret->size] = '\0';
        ret->data = (const uint8_t *)text;
        return json_check(text, ret->size, NULL) < 0 ? -EBADMSG : 1;
}

static int wait_for(const struct door_stream *s, short events, int ms) {
        struct pollfd p = {.fd = s->fd, .events = events};
        int r = poll(&p, 1, ms);

        return r < 0 && errno != EINTR ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

int door_wait(struct door_stream *s, int ms, struct door_frame *ret) {
        for (;;) {
                int r = door_next(s, ret);

                if (r != 0)
                        return r;
                /* what cannot be sent any more does not matter: the answer says why */
                if (door_flush(s) < 0)
                        s->sent = s->out.size = 0;
                r = wait_for(s, door_waiting(s) ? POLLIN | POLLOUT : POLLIN, ms);
                if (r == 0 && (r = door_fill(s)) >= 0)
                        continue;
                return r;
        }
}

int door_drain(struct door_stream *s, int ms) {
        while (!door_room(s)) {
                int r = door_flush(s);

                if (r < 0 || door_room(s))
                        return r;
                r = wait_for(s, POLLIN | POLLOUT, ms);
                if (r < 0)
                        return r;
                r = door_fill(s);
                if (r != 0)
                        return r < 0 ? r : -EISCONN;
        }
        return 0;
}

bool door_good(const struct door_frame *answer, char code[32], char message[512]) {
        const char *text = (const char *)answer->data;
        bool good = false;

        (void)snprintf(code, 32, "failed");
        (void)snprintf(message, 512, "the operator does not answer");
        if (json_find_bool(text, "ok", &good) && good)
                return true;
        (void)json_find_str(text, "error.code", code, 32);
        (void)json_find_str(text, "error.message", message, 512);
        return false;
}

int door_ask(struct door_request *q, int ms, char **ret, char code[32], char message[512]) {
        _cleanup_door_ struct door_stream s = {.fd = -EBADF};
        struct door_frame f;
        size_t size = 0;

        (void)snprintf(code, 32, "failed");
        (void)snprintf(message, 512, "the operator does not answer");
        int r = door_go(q, &s);
        while (r >= 0) {
                r = door_wait(&s, ms, &f);
                if (r < 0 || f.kind != LOCAL_ANSWER)
                        continue;
                if (!door_good(&f, code, message))
                        return -EREMOTEIO;
                const char *result = json_at((const char *)f.data, "result", &size);
                *ret = result ? strndup(result, size) : NULL;
                return *ret ? 0 : -ENOMEM;
        }
        return r;
}
