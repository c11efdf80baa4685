/* Writing heads. What concerns one connection only (Connection and what it names, Keep-Alive, Proxy-…, TE, Trailer,
 * Upgrade) is dropped and said again as we mean it, and so is what says where the body ends: nobody behind us can read
 * another length than the one that we count. */
#include "gate/exchange-head.h"

static const char *const always_dropped[] = {
        "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "HTTP2-Settings", "Transfer-Encoding", "Content-Length",
};
/* While answers are searched: codings that hide a value, and parts that split it. */
static const char *const dropped_when_searched[] = {
        "Accept-Encoding",
        "Sec-WebSocket-Extensions",
        "Range",
        "If-Range",
};

static bool is_one_of(const struct http_span *name, const char *const *list, size_t count) {
        for (size_t i = 0; i < count; i++)
                if (http_name_is(name, list[i]))
                        return true;
        return false;
}

static bool is_proxys(const struct http_span *name) {
        return name->size > 6 && http_name_is(&(struct http_span){name->data, 6}, "Proxy-");
}

static void number(struct fill_out *o, uint64_t value) {
        char text[24];

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        fill_text(o, text);
}

static void host(const struct fill *f, const struct http_head *h, struct fill_out *o) {
        const struct exchange_setup *s = f->setup;
        const struct http_target *t = h->absolute ? &h->line : &h->host;
        const struct address *address = t->present && t->name[0] == '\0' ? &t->address : &s->address;
        const char *name = s->name ? s->name : t->present && t->name[0] ? t->name : NULL;
        char text[ADDRESS_TEXT_MAX];

        fill_text(o, "Host: ");
        if (name) {
                fill_text(o, name);
        } else {
                address_print(address, text);
                fill_text(o, address_is_v4(address) ? "" : "[");
                fill_text(o, text);
                fill_text(o, address_is_v4(address) ? "" : "]");
        }
        if (s->port != (s->tls ? 443 : 80)) {
                fill_text(o, ":");
                number(o, s->port);
        }
        fill_text(o, "\r\n");
}

static void framing(const struct http_head *h, struct fill_out *o) {
        switch (h->framing) {
        case HTTP_LENGTH:
                fill_text(o, "Content-Length: ");
                number(o, h->length);
                fill_text(o, "\r\n");
                break;
        case HTTP_CHUNKED:
                fill_text(o, "Transfer-Encoding: chunked\r\n");
                break;
        case HTTP_NO_BODY:
        case HTTP_UNTIL_CLOSE:
        default:
                break;
        }
}

void exchange_head_request(struct fill *f, const struct http_head *h, struct fill_out *o) {
        bool searched = f->redact->count > 0;

        fill_add(o, h->method.data, h->method.size);
        fill_text(o, " ");
        fill_add(o, h->path_and_query.data, h->path_and_query.size);
        fill_text(o, h->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
        host(f, h, o);
        for (size_t i = 0; i < h->header_count; i++) {
                const struct http_header *header = &h->headers[i];

                if (http_name_is(&header->name, "Host") || is_proxys(&header->name) ||
                    is_one_of(&header->name, always_dropped, ELEMENTSOF(always_dropped)) ||
                    (searched && is_one_of(&header->name, dropped_when_searched, ELEMENTSOF(dropped_when_searched))))
                        continue;
                fill_add(o, header->name.data, header->name.size);
                fill_text(o, ": ");
                fill_value(f, header, o);
                fill_text(o, "\r\n");
        }
        if (searched)
                fill_text(o, "Accept-Encoding: identity\r\n");
        framing(h, o);
        if (h->upgrade)
                fill_text(o, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
        else if (h->close)
                fill_text(o, "Connection: close\r\n");
        else if (h->minor == 0)
                fill_text(o, "Connection: keep-alive\r\n");
        fill_text(o, "\r\n");
}

/* Does Connection name this header? */
static bool is_named(const struct http_head *h, const struct http_span *name) {
        for (size_t i = 0; i < h->header_count; i++) {
                const struct http_span *list = &h->headers[i].value;

                if (!http_name_is(&h->headers[i].name, "Connection"))
                        continue;
                for (size_t at = 0; at < list->size;) {
                        size_t size = http_token_size(list->data + at, list->size - at);
                        struct http_span word = {list->data + at, size};

                        if (size == name->size && strncasecmp(word.data, name->data, size) == 0)
                                return true;
                        at += MAX(size, (size_t)1);
                }
        }
        return false;
}

/* To HEAD, and with 304, the length is that of a body which is not sent. */
static bool is_told_length(const struct http_head *h, const struct http_header *header) {
        return h->framing == HTTP_NO_BODY && http_name_is(&header->name, "Content-Length");
}

static void searched_line(const struct redact *r, struct fill_out *o, size_t from) {
        if (!o->full)
                redact_line(r, (char *)o->bytes + from, o->size - from);
        fill_text(o, "\r\n");
}

/* The status as understood, and the server's words for it. */
static void status_line(const char *bytes, const struct http_head *h, const struct redact *r, struct fill_out *o) {
        static const size_t words = sizeof "HTTP/1.1 200" - 1;
        const char *end = memchr(bytes, '\r', h->size);
        size_t size = end ? (size_t)(end - bytes) : 0;

        fill_text(o, h->minor ? "HTTP/1.1 " : "HTTP/1.0 ");
        number(o, h->status);
        size_t from = o->size;
        if (size > words)
                fill_add(o, bytes + words, size - words);
        else
                fill_text(o, " ");
        searched_line(r, o, from);
}

void exchange_head_response(const char *bytes, const struct http_head *h, const struct exchange_asked *asked,
                            bool close, const struct redact *r, struct fill_out *o) {
        status_line(bytes, h, r, o);
        for (size_t i = 0; i < h->header_count; i++) {
                const struct http_header *header = &h->headers[i];
                size_t from = o->size;

                if (!is_told_length(h, header) &&
                    (is_proxys(&header->name) || http_name_is(&header->name, "Alt-Svc") || is_named(h, &header->name) ||
                     is_one_of(&header->name, always_dropped, ELEMENTSOF(always_dropped))))
                        continue;
                fill_add(o, header->name.data, header->name.size);
                fill_text(o, ": ");
                fill_add(o, header->value.data, header->value.size);
                searched_line(r, o, from);
        }
        framing(h, o);
        if (h->upgrade)
                fill_text(o, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
        else if (close && h->status >= 200)
                fill_text(o, "Connection: close\r\n");
        else if (asked->minor == 0)
                fill_text(o, "Connection: keep-alive\r\n");
        fill_text(o, "\r\n");
}
