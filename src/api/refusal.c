/* Our words for the pages of libmicrohttpd. See refusal.h.
 *
 * Always: the status stays what the library says, and the connection is closed after it. We write the answer ourselves
 * and say that it cannot be queued, upon which the library closes: with one in its queue, version 0.9.75 sends the head
 * twice where a Content-Length or a cookie is to blame. Nothing else of the connection can be on its way then: the
 * answers before it were sent whole, and its own was not begun. */
#include "api/refusal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "api/exchange.h"

#define DRAIN_MAX (64U * 1024) /* of what was not read yet: closing over it would take the answer back */

static const struct {
        unsigned status;
        const char *code, *message, *hint;
} words[] = {
        {MHD_HTTP_BAD_REQUEST, "bad_request", "this is no request that can be read in one way only", "see RFC 9112"},
        {MHD_HTTP_CONTENT_TOO_LARGE, "too_large", "the body says that it is larger than any can be",
         "send less at a time"},
        {MHD_HTTP_URI_TOO_LONG, "too_large", "what is asked for does not fit",
         "a path has at most 4096 bytes; send the rest in the body"},
        {MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "too_large", "the head of the request does not fit",
         "send at most 64 headers, of 16 KiB in all"},
        {MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED, "bad_request", "this version of HTTP is not spoken here",
         "send HTTP/1.1"},
};

typedef enum MHD_Result queue(struct MHD_Connection *c, unsigned status, struct MHD_Response *r);

static queue *library(void) {
        static queue *found;

        if (!found)
                *(void **)&found = dlsym(RTLD_NEXT, "MHD_queue_response");
        return found;
}

enum MHD_Result refusal_queue(struct MHD_Connection *c, unsigned status, struct MHD_Response *r) {
        return library() ? library()(c, status, r) : MHD_NO;
}

static void write_answer(unsigned status, struct buf *out) {
        _cleanup_buf_ struct buf body = {0};
        struct json j = {.out = &body};
        uint64_t number = 0;
        size_t i = 0;

        while (i < ELEMENTSOF(words) && words[i].status != status)
                i++;
        if (i < ELEMENTSOF(words))
                reply_error_json(&j, words[i].code, words[i].message, words[i].hint);
        else
                reply_error_json(&j, "failed", "the request could not be handled", "try again");
        (void)!getrandom(&number, sizeof number, 0);
        buf_printf(out,
                   "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                   "X-Request-Id: req-%016llx\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
                   "Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
                   "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n\r\n",
                   status, MHD_get_reason_phrase_for(status), body.size, (unsigned long long)number);
        buf_add(out, buf_ok(&body) ? body.data : "", body.size);
}

/* What the client has sent and nobody wants. */
static void drain(int fd) {
        char bytes[4096];
        size_t all = 0;
        ssize_t n;

        while (all < DRAIN_MAX && (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
                all += (size_t)n;
}

/* Called by the library alone, for a page of its own, which it frees. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *c, unsigned int status, struct MHD_Response *page) {
        const union MHD_ConnectionInfo *at = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        _cleanup_buf_ struct buf b = {0};

        (void)page;
        write_answer(status, &b);
        if (at && buf_ok(&b)) {
                (void)send(at->connect_fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
                (void)shutdown(at->connect_fd, SHUT_WR);
                drain(at->connect_fd);
        }
        return MHD_NO;
}
