/* See ask.h for what always holds. */
#include "driver/ask.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/text.h"

void ask_answer_free(struct ask_answer *a) {
        buf_free(&a->body);
        *a = (struct ask_answer){0};
}

void ask_reader_free(struct ask_reader *r) {
        buf_free(&r->head);
}

/* --- reading --- */

struct payload {
        struct buf *out;
        const uint8_t *bytes;
};

static void keep_payload(void *context, size_t at, size_t size) {
        struct payload *p = context;

        buf_add(p->out, p->bytes + at, size);
}

static int feed_body(struct ask_reader *r, const uint8_t *bytes, size_t size, struct err *err) {
        struct payload p = {.out = &r->answer->body, .bytes = bytes};

        if (r->until_close)
                buf_add(p.out, bytes, size);
        else if (http_body_feed(&r->body, bytes, size, keep_payload, &p) < 0)
                return err_set(err, ERR_CORRUPT, "%s: the answer is not well-formed", r->who);
        if (!buf_ok(p.out))
                return err_set(err, ERR_LIMIT, "%s: the answer is larger than %u bytes", r->who, ASK_ANSWER_MAX);
        return !r->until_close && r->body.done;
}

static int take_head(struct ask_reader *r, const struct http_head *h, struct err *err) {
        r->in_body = true;
        r->until_close = h->framing == HTTP_UNTIL_CLOSE;
        r->answer->status = h->status;
        r->answer->body.max = ASK_ANSWER_MAX;
        buf_str(&r->answer->body, ""); /* its data is never NULL from here on */
        http_body_init(&r->body, h->framing, h->length);
        return feed_body(r, (const uint8_t *)r->head.data + h->size, r->head.size - h->size, err);
}

int ask_feed(struct ask_reader *r, const void *bytes, size_t size, struct err *err) {
        struct http_head h;

        if (r->in_body)
                return feed_body(r, bytes, size, err);
        buf_add(&r->head, bytes, size);
        if (!buf_ok(&r->head))
                return err_set(err, ERR_LIMIT, "%s: the head of the answer is too large", r->who);
        for (;;) {
                switch (http_response(r->head.data ? r->head.data : "", r->head.size, NULL, &h)) {
                case HTTP_MORE:
                        return 0;
                case HTTP_DONE:
                        break;
                case HTTP_BAD:
                case HTTP_TOO_LARGE:
                default:
                        return err_set(err, ERR_CORRUPT, "%s: the answer is not HTTP: %s", r->who, h.problem);
                }
                if (h.status >= 200)
                        return take_head(r, &h, err);
                memmove(r->head.data, r->head.data + h.size, r->head.size - h.size + 1); /* 1xx: another head follows */
                r->head.size -= h.size;
        }
}

int ask_end(const struct ask_reader *r, struct err *err) {
        if (r->in_body && (r->until_close || r->body.done))
                return 0;
        return err_set(err, ERR_CORRUPT, "%s closed the connection before the answer was whole", r->who);
}

/* --- one question --- */

static int connect_to(const struct ask_peer *p, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        const struct timeval patience = {.tv_sec = p->seconds};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return err_set(err, -errno, "could not make a socket");
        if (strlen(p->socket) >= sizeof at.sun_path)
                return err_set(err, ERR_INPUT, "the path of a socket is too long: '%s'", p->socket);
        memcpy(at.sun_path, p->socket, strlen(p->socket));
        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
                return err_set(err, -errno, "could not set up a socket");
        if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
                int r = err_set(err, -errno, "%s does not answer at '%s'", p->who, p->socket);
                (void)err_hint(err, "%s", p->hint);
                return r;
        }
        return TAKE_FD(fd);
}

static int send_all(int fd, const char *bytes, size_t size) {
        while (size > 0) {
                ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -errno;
                bytes += n;
                size -= (size_t)n;
        }
        return 0;
}

static int send_question(int fd, const struct ask_peer *p, const struct ask_question *q, struct err *err) {
        _cleanup_buf_ struct buf head = {0};

        buf_printf(&head, "%s %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", q->method, p->prefix, q->path,
                   p->host);
        if (q->type)
                buf_printf(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n", q->type, q->size);
        else if (!str_eq(q->method, "GET"))
                buf_str(&head, "Content-Length: 0\r\n");
        buf_str(&head, "\r\n");
        int r = buf_ok(&head) ? send_all(fd, head.data, head.size) : -ENOMEM;
        if (r == 0 && q->type)
                r = send_all(fd, q->body, q->size);
        return r < 0 ? err_set(err, r, "could not send a question to %s", p->who) : 0;
}

static time_t now_s(void) {
        struct timespec now = {0};

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec;
}

static int receive_answer(int fd, const struct ask_peer *p, struct ask_answer *ret, struct err *err) {
        _cleanup_reader_ struct ask_reader reader = {.who = p->who, .answer = ret};
        char bytes[16384];

        for (time_t end = now_s() + p->seconds; now_s() <= end;) {
                ssize_t n = recv(fd, bytes, sizeof bytes, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        break;
                if (n < 0)
                        return err_set(err, -errno, "could not read the answer of %s", p->who);
                if (n == 0)
                        return ask_end(&reader, err);
                int r = ask_feed(&reader, bytes, (size_t)n, err);
                if (r != 0)
                        return MIN(r, 0);
        }
        return err_set(err, -ETIMEDOUT, "%s did not answer within %u seconds", p->who, p->seconds);
}

int ask(const struct ask_peer *p, const struct ask_question *q, struct ask_answer *ret, struct err *err) {
        *ret = (struct ask_answer){0};
        _cleanup_fd_ int fd = connect_to(p, err);
        if (fd < 0)
                return fd;
        int r = send_question(fd, p, q, err);
        return r < 0 ? r : receive_answer(fd, p, ret, err);
}

int ask_json(const struct ask_peer *p, const struct ask_question *q, struct ask_answer *ret, struct err *err) {
        int r = ask(p, q, ret, err);

        if (r == 0 && json_check(ret->body.data, ret->body.size, NULL) < 0)
                return err_set(err, ERR_CORRUPT, "the answer of %s to %s %s is not JSON", p->who, q->method, q->path);
        return r;
}

int ask_refused(const struct ask_peer *p, const struct ask_answer *a, const char *what, struct err *err) {
        char said[1024] = "nothing", plain[240];
        int code = a->status == 404 ? -ENOENT : a->status == 409 ? -EEXIST : -EIO;

        if (a->body.data && json_check(a->body.data, a->body.size, NULL) == 0)
                (void)json_find_str(a->body.data, p->reason, said, sizeof said);
        text_escape(plain, sizeof plain, said);
        (void)err_set(err, ERR_REFUSED, "%s: %s says (%u) '%s'", what, p->who, a->status, plain);
        if (err)
                err->code = code;
        return code;
}
