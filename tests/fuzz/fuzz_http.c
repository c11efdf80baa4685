/* Fuzz target: HTTP heads and bodies. What is accepted says the same when it is written out again; a result never
 * changes with bytes that come later; a body ends at the same byte however it is cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/http.h"
#include "tests/fuzz/fuzz.h"

struct text {
        char bytes[HTTP_HEAD_MAX];
        size_t size;
};

static void put(struct text *t, const void *bytes, size_t size) {
        assert(size <= sizeof t->bytes - t->size);
        memcpy(t->bytes + t->size, bytes, size);
        t->size += size;
}

static void put_headers(struct text *t, const struct http_head *h) {
        for (size_t i = 0; i < h->header_count; i++) {
                put(t, h->headers[i].name.data, h->headers[i].name.size);
                put(t, ":", 1);
                put(t, h->headers[i].value.data, h->headers[i].value.size);
                put(t, "\r\n", 2);
        }
        put(t, "\r\n", 2);
}

static bool same_span(const struct http_span *a, const struct http_span *b) {
        return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static bool same_target(const struct http_target *a, const struct http_target *b) {
        return a->present == b->present && str_eq(a->name, b->name) && a->port == b->port &&
               memcmp(&a->address, &b->address, sizeof a->address) == 0;
}

static void assert_same(const struct http_head *a, const struct http_head *b) {
        assert(a->minor == b->minor && a->status == b->status && a->header_count == b->header_count);
        assert(a->framing == b->framing && a->length == b->length && a->close == b->close);
        assert(a->upgrade == b->upgrade && a->upgrade_unused == b->upgrade_unused);
        assert(a->expect_continue == b->expect_continue && a->connect == b->connect);
        assert(same_span(&a->method, &b->method) && same_span(&a->path, &b->path));
        assert(same_span(&a->path_and_query, &b->path_and_query) && same_target(&a->host, &b->host));
        for (size_t i = 0; i < a->header_count; i++)
                assert(same_span(&a->headers[i].name, &b->headers[i].name) &&
                       same_span(&a->headers[i].value, &b->headers[i].value));
}

static unsigned count(const struct http_head *h, const char *name) {
        unsigned n = 0;

        for (size_t i = 0; i < h->header_count; i++)
                n += http_name_is(&h->headers[i].name, name);
        return n;
}

/* What must hold for every head that was accepted, counted anew. */
static void assert_one_meaning(const struct http_head *h, const char *data, size_t size) {
        assert(h->size <= size && h->size <= HTTP_HEAD_MAX && memcmp(data + h->size - 4, "\r\n\r\n", 4) == 0);
        assert(memmem(data, h->size, "\r\n\r\n", 4) == data + h->size - 4 && !memchr(data, '\0', h->size));
        assert(count(h, "Content-Length") + count(h, "Transfer-Encoding") <= 1);
        assert(h->framing != HTTP_CHUNKED || (count(h, "Transfer-Encoding") == 1 && h->minor == 1));
        assert(h->framing != HTTP_LENGTH || count(h, "Content-Length") == 1);
        assert(h->framing == HTTP_LENGTH || h->length == 0);
        assert(!(h->upgrade && h->upgrade_unused) && h->problem == NULL);
        for (const char *p = data; p < data + h->size; p++) {
                if (*p == '\n')
                        assert(p > data && p[-1] == '\r');
                if (*p == '\r')
                        assert(p[1] == '\n');
        }
}

struct payload {
        const uint8_t *bytes;
        uint64_t hash;
        size_t size;
};

static void add_payload(void *context, size_t at, size_t size) {
        struct payload *p = context;

        assert(size > 0);
        for (size_t i = 0; i < size; i++)
                p->hash = (p->hash ^ p->bytes[at + i]) * 1099511628211U;
        p->size += size;
}

/* Returns how many bytes belong to it, or the error. */
static ssize_t feed(struct http_body *b, const uint8_t *data, size_t size, size_t piece, struct payload *p) {
        size_t at = 0;

        while (at < size && !b->done) {
                size_t want = MIN(piece, size - at);
                ssize_t n;

                p->bytes = data + at;
                n = http_body_feed(b, data + at, want, add_payload, p);
                if (n < 0)
                        return n;
                assert((size_t)n == want || b->done);
                at += (size_t)n;
        }
        return (ssize_t)at;
}

static void try_body(enum http_framing framing, uint64_t length, const uint8_t *data, size_t size) {
        static const size_t pieces[] = {1, 2, 3, 7};
        struct http_body whole;
        struct payload a = {0};
        ssize_t n;

        http_body_init(&whole, framing, length);
        n = feed(&whole, data, size, size, &a);
        for (size_t i = 0; i < ELEMENTSOF(pieces); i++) {
                struct http_body cut;
                struct payload b = {0};

                http_body_init(&cut, framing, length);
                assert(feed(&cut, data, size, pieces[i], &b) == n && cut.done == whole.done);
                assert(n < 0 || (cut.left == whole.left && cut.state == whole.state));
                assert(a.size == b.size && a.hash == b.hash);
        }
        if (n >= 0 && whole.done && framing == HTTP_CHUNKED)
                assert(n >= 5 && memcmp(data + n - 5, "0\r\n\r\n", 5) == 0);
}

static void write_request(const struct http_head *h, const struct http_span *target, struct text *t) {
        t->size = 0;
        put(t, h->method.data, h->method.size);
        put(t, " ", 1);
        put(t, target->data, target->size);
        put(t, h->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n", 11);
        put_headers(t, h);
}

static void try_request(const uint8_t *data, size_t size) {
        static struct http_head h, again;
        static struct text t;
        const char *bytes = (const char *)data;
        enum http_result r = http_request(bytes, size, &h);

        assert((r != HTTP_BAD && r != HTTP_TOO_LARGE) || h.problem);
        for (size_t n = 0; n < size; n += 1 + size / 32) {
                enum http_result before = http_request(bytes, n, &again);

                assert(before == HTTP_MORE || before == r);
        }
        if (r != HTTP_DONE)
                return;
        assert_one_meaning(&h, bytes, size);
        assert(http_sniff(bytes, size) == 1);
        assert(h.minor == 0 || count(&h, "Host") == 1);
        assert(h.connect
                       ? h.line.present && h.line.port && h.framing != HTTP_CHUNKED
                       : h.path.size > 0 && (h.path.data[0] == '/' || same_span(&h.path, &(struct http_span){"*", 1})));
        write_request(&h, &h.target, &t);
        assert(http_request(t.bytes, t.size, &again) == HTTP_DONE && again.size == t.size);
        assert_same(&h, &again);
        assert(same_target(&h.line, &again.line) && h.absolute == again.absolute && h.secure == again.secure);
        if (!h.connect) {
                write_request(&h, &h.path_and_query, &t);
                assert(http_request(t.bytes, t.size, &again) == HTTP_DONE);
                assert_same(&h, &again);
                assert(!again.line.present);
        }
        try_body(h.framing, h.length, data + h.size, size - h.size);
}

static void try_response(const uint8_t *data, size_t size, const struct http_head *request) {
        static struct http_head h, again;
        static struct text t;
        const char *bytes = (const char *)data;

        if (http_response(bytes, size, request, &h) != HTTP_DONE)
                return;
        assert_one_meaning(&h, bytes, size);
        assert(h.status >= 100 && h.status <= 999 && (h.status != 101 || h.upgrade));
        assert(h.framing != HTTP_UNTIL_CLOSE || h.close);
        t.size = 0;
        put(&t, bytes, (size_t)((const char *)memchr(bytes, '\n', size) + 1 - bytes));
        put_headers(&t, &h);
        assert(http_response(t.bytes, t.size, request, &again) == HTTP_DONE && again.size == t.size);
        assert_same(&h, &again);
        try_body(h.framing, h.length, data + h.size, size - h.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const struct http_head asked[] = {
                {.minor = 1, .method = {"HEAD", 4}},
                {.minor = 0, .method = {"GET", 3}},
                {.minor = 1, .method = {"GET", 3}, .upgrade = true},
                {.minor = 1, .method = {"CONNECT", 7}, .connect = true},
        };
        struct http_target target;
        int sniffed = http_sniff(data, size);

        for (size_t n = 0; n < size; n += 1 + size / 32) {
                int before = http_sniff(data, n);

                assert(before == -EAGAIN || before == sniffed);
        }
        try_request(data, size);
        try_response(data, size, NULL);
        for (size_t i = 0; i < ELEMENTSOF(asked); i++)
                try_response(data, size, &asked[i]);
        try_body(HTTP_CHUNKED, 0, data, size);
        if (http_authority((const char *)data, size, &target))
                assert(target.present && !memchr(data, '@', size) && !memchr(data, '/', size));
        return 0;
}
