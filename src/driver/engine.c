/* Questions to a Docker engine. See engine.h for what always holds. */
#include "driver/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/text.h"

#define DEADLINE_S 20
#define API_MINOR  41 /* what we were written for: 1.41, Docker 20.10 */

void engine_answer_free(struct engine_answer *a) {
        buf_free(&a->body);
        *a = (struct engine_answer){0};
}

void engine_reader_free(struct engine_reader *r) {
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

static int feed_body(struct engine_reader *r, const uint8_t *bytes, size_t size, struct err *err) {
        struct payload p = {.out = &r->answer->body, .bytes = bytes};

        if (r->until_close)
                buf_add(p.out, bytes, size);
        else if (http_body_feed(&r->body, bytes, size, keep_payload, &p) < 0)
                return err_set(err, ERR_CORRUPT, "the engine's answer is not well-formed");
        if (!buf_ok(p.out))
                return err_set(err, ERR_LIMIT, "the engine's answer is larger than %u bytes", ENGINE_ANSWER_MAX);
        return !r->until_close && r->body.done;
}

static int take_head(struct engine_reader *r, const struct http_head *h, struct err *err) {
        r->in_body = true;
        r->until_close = h->framing == HTTP_UNTIL_CLOSE;
        r->answer->status = h->status;
        r->answer->body.max = ENGINE_ANSWER_MAX;
        buf_str(&r->answer->body, ""); /* its data is never NULL from here on */
        http_body_init(&r->body, h->framing, h->length);
        return feed_body(r, (const uint8_t *)r->head.data + h->size, r->head.size - h->size, err);
}

int engine_feed(struct engine_reader *r, const void *bytes, size_t size, struct err *err) {
        struct http_head h;

        if (r->in_body)
                return feed_body(r, bytes, size, err);
        buf_add(&r->head, bytes, size);
        if (!buf_ok(&r->head))
                return err_set(err, ERR_LIMIT, "the head of the engine's answer is too large");
        for (;;) {
                switch (http_response(r->head.data ? r->head.data : "", r->head.size, NULL, &h)) {
                case HTTP_MORE:
                        return 0;
                case HTTP_DONE:
                        break;
                case HTTP_BAD:
                case HTTP_TOO_LARGE:
                default:
                        return err_set(err, ERR_CORRUPT, "the engine's answer is not HTTP: %s", h.problem);
                }
                if (h.status >= 200)
                        return take_head(r, &h, err);
                memmove(r->head.data, r->head.data + h.size, r->head.size - h.size + 1); /* 1xx: another head follows */
                r->head.size -= h.size;
        }
}

int engine_end(const struct engine_reader *r, struct err *err) {
        if (r->in_body && (r->until_close || r->body.done))
                return 0;
        return err_set(err, ERR_CORRUPT, "the engine closed the connection before its answer was whole");
}

/* --- one question --- */

static int connect_to(const char *path, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        const struct timeval patience = {.tv_sec = DEADLINE_S};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return err_set(err, -errno, "could not make a socket");
        if (strlen(path) >= sizeof at.sun_path)
                return err_set(err, ERR_INPUT, "the path of the engine's socket is too long: '%s'", path);
        memcpy(at.sun_path, path, strlen(path));
        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
                return err_set(err, -errno, "could not set up a socket");
        if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
                int r = err_set(err, -errno, "the Docker engine does not answer at '%s'", path);
                (void)err_hint(err, "start it ('systemctl start docker'), or set docker_socket in stockade.conf");
                return r;
        }
        return TAKE_FD(fd);
}

static int send_all(int fd, const char *bytes, size_t size, struct err *err) {
        while (size > 0) {
                ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return err_set(err, -errno, "could not send a question to the engine");
                bytes += n;
                size -= (size_t)n;
        }
        return 0;
}

static int send_question(int fd, const struct engine *e, const struct engine_question *q, struct err *err) {
        _cleanup_buf_ struct buf head = {0};

        buf_printf(&head, "%s %s%s%s HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n", q->method,
                   e->version[0] ? "/" : "", e->version, q->path);
        if (q->type)
                buf_printf(&head, "Content-Type: %s\r\nContent-Length: %zu\r\n", q->type, q->size);
        else if (!str_eq(q->method, "GET"))
                buf_str(&head, "Content-Length: 0\r\n");
        buf_str(&head, "\r\n");
        if (!buf_ok(&head))
                return err_set(err, -ENOMEM, "could not write a question to the engine");
        int r = send_all(fd, head.data, head.size, err);
        return r == 0 && q->type ? send_all(fd, q->body, q->size, err) : r;
}

static time_t now_s(void) {
        struct timespec now = {0};

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec;
}

static int receive_answer(int fd, struct engine_answer *ret, struct err *err) {
        _cleanup_reader_ struct engine_reader reader = {.answer = ret};
        char bytes[16384];

        for (time_t end = now_s() + DEADLINE_S; now_s() <= end;) {
                ssize_t n = recv(fd, bytes, sizeof bytes, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        break;
                if (n < 0)
                        return err_set(err, -errno, "could not read the engine's answer");
                if (n == 0)
                        return engine_end(&reader, err);
                int r = engine_feed(&reader, bytes, (size_t)n, err);
                if (r != 0)
                        return MIN(r, 0);
        }
        return err_set(err, -ETIMEDOUT, "the engine did not answer within %d seconds", DEADLINE_S);
}

int engine_ask(const struct engine *e, const struct engine_question *q, struct engine_answer *ret, struct err *err) {
        *ret = (struct engine_answer){0};
        _cleanup_fd_ int fd = connect_to(e->socket, err);
        if (fd < 0)
                return fd;
        int r = send_question(fd, e, q, err);
        return r < 0 ? r : receive_answer(fd, ret, err);
}

int engine_ask_json(const struct engine *e, const struct engine_question *q, struct engine_answer *ret,
                    struct err *err) {
        int r = engine_ask(e, q, ret, err);

        if (r == 0 && json_check(ret->body.data, ret->body.size, NULL) < 0)
                return err_set(err, ERR_CORRUPT, "the engine's answer to %s %s is not JSON", q->method, q->path);
        return r;
}

int engine_refused(const struct engine_answer *a, const char *what, struct err *err) {
        char said[1024] = "nothing", plain[240];
        int code = a->status == 404 ? -ENOENT : a->status == 409 ? -EEXIST : -EIO;

        if (a->body.data && json_check(a->body.data, a->body.size, NULL) == 0)
                (void)json_find_str(a->body.data, "message", said, sizeof said);
        text_escape(plain, sizeof plain, said);
        (void)err_set(err, ERR_REFUSED, "%s: the engine says (%u) '%s'", what, a->status, plain);
        if (err)
                err->code = code;
        return code;
}

/* --- versions --- */

/* The NN of "1.NN"; -1 for anything else. */
static int minor_of(const char *version) {
        char *end;

        if (!str_starts(version, "1.") || version[2] < '0' || version[2] > '9')
                return -1;
        long n = strtol(version + 2, &end, 10);
        return *end == '\0' && n < 1000 ? (int)n : -1;
}

int engine_pick_version(const char *newest, const char *oldest, char ret[16], struct err *err) {
        int most = minor_of(newest), least = minor_of(oldest);

        if (most < API_MINOR) {
                (void)err_set(err, ERR_UNENFORCED, "the engine is too old for us: its API is not 1.%d or newer",
                              API_MINOR);
                (void)err_hint(err, "Docker 20.10 or newer is needed");
                return ERR_UNENFORCED;
        }
        (void)snprintf(ret, 16, "v1.%d", MAX(API_MINOR, least));
        return 0;
}

int engine_open(struct engine *e, const char *socket, struct err *err) {
        _cleanup_answer_ struct engine_answer a = {0};
        char newest[16] = "", oldest[16] = "";

        *e = (struct engine){.socket = socket};
        int r = engine_ask_json(e, &(struct engine_question){.method = "GET", .path = "/version"}, &a, err);
        if (r < 0)
                return r;
        if (a.status != 200)
                return engine_refused(&a, "could not ask for the engine's version", err);
        (void)json_find_str(a.body.data, "ApiVersion", newest, sizeof newest);
        (void)json_find_str(a.body.data, "MinAPIVersion", oldest, sizeof oldest);
        (void)json_find_str(a.body.data, "Version", e->release, sizeof e->release);
        return engine_pick_version(newest, oldest, e->version, err);
}
