/* HTTP for two or three requests: no connection is kept, nothing is cached, nothing is followed. */
#include "remote/ask.h"

#include <poll.h>

#include "base/http.h"
#include "base/json-read.h"

enum { ASK_MS = 30000, BODY_MAX = 256 << 10, CONTINUE_MAX = 8 };

void ask_free(struct ask_answer *a) {
        if (a->body.data)
                explicit_bzero(a->body.data, a->body.room);
        buf_free(&a->body);
}

static void build(struct buf *b, const struct url *u, const struct ask *q) {
        buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: stockade/" STOCKADE_VERSION "\r\n", q->method, q->path,
                   u->domain);
        if (q->token)
                buf_printf(b, "Authorization: Bearer %s\r\n", q->token);
        if (q->body)
                buf_printf(b, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(q->body));
        buf_printf(b, "%s\r\n%s", q->more_head ? q->more_head : "Connection: close\r\n", q->body ? q->body : "");
}

static int send_all(struct line *l, const struct buf *b, uint64_t until) {
        for (size_t done = 0; done < b->size;) {
                ssize_t n = line_write(l, b->data + done, b->size - done);

                if (n > 0)
                        done += (size_t)n;
                else if (n != -EAGAIN)
                        return (int)n;
                else {
                        int r = line_wait(l, l->write_wants, until);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* More bytes behind those in b: how many, 0 at the end, -errno. */
static ssize_t more(struct line *l, struct buf *b, uint64_t until) {
        char bytes[16 << 10];

        for (;;) {
                ssize_t n = line_read(l, bytes, sizeof bytes);

                if (n > 0) {
                        buf_add(b, bytes, (size_t)n);
                        explicit_bzero(bytes, (size_t)n);
                        return buf_ok(b) ? n : -EMSGSIZE;
                }
                if (n != -EAGAIN)
                        return n;
                int r = line_pending(l) ? 0 : line_wait(l, l->read_wants, until);
                if (r < 0)
                        return r;
        }
}

struct gather {
        const char *from;
        struct buf *to;
};

static void gather(void *context, size_t at, size_t size) {
        struct gather *g = context;

        buf_add(g->to, g->from + at, size);
}

static int no_answer(const struct url *u, ssize_t why, struct err *err) {
        if (why < 0 && why != -EBADMSG && why != -EMSGSIZE) {
                (void)err_set(err, (int)why, "'%s' does not answer", u->text);
                return err_hint(err,
                                "is the network up? on its host, 'stockade health' says whether the daemon is well");
        }
        (void)err_set(err, ERR_CORRUPT,
                      why == 0           ? "'%s' ended the connection without an answer"
                      : why == -EMSGSIZE ? "the answer of '%s' is larger than any of ours"
                                         : "'%s' does not speak HTTP as a server of ours does",
                      u->text);
        return err_hint(err, "is a stockade listening there, and with or without TLS as the URL says?");
}

static ssize_t read_head(struct line *l, const struct buf *request, struct buf *b, struct http_head *head,
                         uint64_t until) {
        static struct http_head asked;

        if (http_request(request->data, request->size, &asked) != HTTP_DONE)
                return -EBADMSG;
        for (unsigned before = 0; before <= CONTINUE_MAX;) {
                enum http_result r = b->size > 0 ? http_response(b->data, b->size, &asked, head) : HTTP_MORE;

                if (r == HTTP_DONE && (head->status >= 200 || head->status == 101))
                        return 1;
                if (r == HTTP_DONE) { /* "100 Continue": what counts comes behind it */
                        memmove(b->data, b->data + head->size, b->size - head->size);
                        b->size -= head->size;
                        b->data[b->size] = '\0';
                        before++;
                        continue;
                }
                if (r != HTTP_MORE)
                        return r == HTTP_TOO_LARGE ? -EMSGSIZE : -EBADMSG;
                ssize_t n = more(l, b, until);
                if (n <= 0)
                        return n;
        }
        return -EBADMSG;
}

static ssize_t read_body(struct line *l, struct buf *b, const struct http_head *head, struct buf *body,
                         uint64_t until) {
        struct http_body framing;
        size_t at = head->size;

        http_body_init(&framing, head->framing, head->length);
        while (!framing.done && head->framing != HTTP_NO_BODY) {
                struct gather g = {b->data + at, body};
                ssize_t n = http_body_feed(&framing, (const uint8_t *)b->data + at, b->size - at, gather, &g);

                if (n < 0 || !buf_ok(body))
                        return n < 0 ? -EBADMSG : -EMSGSIZE;
                at += (size_t)n;
                if (framing.done)
                        break;
                n = more(l, b, until);
                if (n == 0 && head->framing == HTTP_UNTIL_CLOSE)
                        break;
                if (n <= 0)
                        return n;
        }
        return 1;
}

static void copy(const struct http_head *h, const char *name, char *ret, size_t size) {
        const struct http_header *found = http_find(h, name);

        if (found && found->value.size < size)
                (void)snprintf(ret, size, "%.*s", (int)found->value.size, found->value.data);
}

static int redirected(const struct url *u, const struct http_head *h, struct err *err) {
        char place[200] = "somewhere else";

        copy(h, "Location", place, sizeof place);
        (void)err_set(err, ERR_REFUSED, "'%s' sends us on to '%.150s'", u->text, place);
        return err_hint(err, "nothing is sent there by itself; if it is right, name it with --server");
}

static void wipe(struct buf *b) {
        if (b->data)
                explicit_bzero(b->data, b->room);
        buf_free(b);
}

int ask_on(struct line *l, const struct url *u, const struct ask *q, struct ask_answer *ret, struct err *err) {
        static struct http_head head;
        _cleanup_(wipe) struct buf request = {0};
        _cleanup_(wipe) struct buf b = {.max = BODY_MAX + HTTP_HEAD_MAX};
        uint64_t until = line_now() + ASK_MS;

        *ret = (struct ask_answer){.body = {.max = BODY_MAX}};
        build(&request, u, q);
        if (!buf_ok(&request))
                return err_set(err, -ENOMEM, "cannot make the request");
        int r = send_all(l, &request, until);
        ssize_t n = r < 0 && r != -EPIPE && r != -ECONNRESET ? r : read_head(l, &request, &b, &head, until);
        if (n <= 0)
                return no_answer(u, n, err);
        ret->status = head.status;
        copy(&head, "Sec-WebSocket-Accept", ret->accept, sizeof ret->accept);
        copy(&head, "Sec-WebSocket-Protocol", ret->protocol, sizeof ret->protocol);
        if (head.status == 101) {
                buf_add(&ret->body, b.data + head.size, b.size - head.size);
                return buf_ok(&ret->body) ? 0 : no_answer(u, -EMSGSIZE, err);
        }
        if (head.status >= 300 && head.status < 400)
                return redirected(u, &head, err);
        n = read_body(l, &b, &head, &ret->body, until);
        if (n > 0 && ret->body.size > 0 && json_check(ret->body.data, ret->body.size, NULL) < 0)
                n = -EBADMSG;
        if (n <= 0)
                return no_answer(u, n, err);
        if (ret->body.size == 0)
                buf_str(&ret->body, "{}");
        return buf_ok(&ret->body) ? 0 : no_answer(u, -EMSGSIZE, err);
}

int ask_refused(const struct url *u, const struct ask_answer *a, struct err *err) {
        char message[300] = "", hint[300] = "";

        if (a->body.data && a->status != 101)
                (void)(json_find_str(a->body.data, "error", message, sizeof message) &&
                       json_find_str(a->body.data, "hint", hint, sizeof hint));
        (void)err_set(err, ERR_REFUSED, "'%s' refuses (%u)%s%s", u->text, a->status, message[0] ? ": " : "", message);
        return hint[0] ? err_hint(err, "%s", hint) : ERR_REFUSED;
}

int ask(const struct url *u, const struct trust *trust, const struct ask *q, struct ask_answer *ret,
        unsigned *ret_status, struct err *err) {
        _cleanup_line_ struct line l;
        int r = line_open(&l, u, trust, err);

        *ret = (struct ask_answer){0};
        if (r == 0)
                r = ask_on(&l, u, q, ret, err);
        if (ret_status)
                *ret_status = ret->status;
        return r < 0 ? r : ret->status == 200 ? 0 : ask_refused(u, ret, err);
}
