/* What a proxy may pass on. Requests lose whatever is between the client and us; answers lose whatever is between the
 * server and us, and what a hostile page on our own origin must not have. */
#include <stdio.h>
#include <strings.h>

#include "api/head.h"
#include "api/port-host.h"
#include "api/port.h"
#include "api/route.h"
#include "auth/capability.h"
#include "base/endpoint.h"

/* Between neighbours, or ours to say. */
static const char *const hops[] = {"connection", "keep-alive",        "te",          "trailer",        "trailers",
                                   "upgrade",    "transfer-encoding", "expect",      "content-length", "http2-settings",
                                   "host",       "authorization",     "cookie",      "referer",        "origin",
                                   "forwarded",  "x-real-ip",         "x-request-id"};

static const char *const dropped[] = {"connection",
                                      "keep-alive",
                                      "te",
                                      "trailer",
                                      "trailers",
                                      "upgrade",
                                      "transfer-encoding",
                                      "content-length",
                                      "set-cookie",
                                      "set-cookie2",
                                      "clear-site-data",
                                      "strict-transport-security",
                                      "alt-svc",
                                      "nel",
                                      "report-to",
                                      "reporting-endpoints",
                                      "service-worker-allowed",
                                      "x-request-id",
                                      "x-frame-options",
                                      "referrer-policy",
                                      "x-content-type-options",
                                      "cache-control",
                                      "www-authenticate",
                                      "location",
                                      "date"};

/* What a page on our own origin may say about itself. Browsers learn new headers every year: others are dropped. */
static const char *const harmless[] = {"content-type",
                                       "content-language",
                                       "content-encoding",
                                       "content-disposition",
                                       "content-range",
                                       "accept-ranges",
                                       "etag",
                                       "last-modified",
                                       "expires",
                                       "age",
                                       "vary",
                                       "allow",
                                       "retry-after",
                                       "content-location",
                                       "server"};

/* Words to a proxy in front of us, which would do as it is told. */
static bool is_for_proxies(const char *name) {
        return strncasecmp(name, "x-accel-", 8) == 0 || strncasecmp(name, "x-sendfile", 10) == 0 ||
               strncasecmp(name, "x-lighttpd-", 11) == 0;
}

static bool among(const char *const *names, size_t count, const char *name) {
        for (size_t i = 0; i < count; i++)
                if (strcasecmp(names[i], name) == 0)
                        return true;
        return strncasecmp(name, "proxy-", 6) == 0 || strncasecmp(name, "x-forwarded-", 12) == 0 ||
               strncasecmp(name, "access-control-", 15) == 0;
}

/* Does this list of words name it? */
static bool names(const char *list, size_t size, const char *name) {
        size_t length = strlen(name);

        for (size_t at = 0; at < size;) {
                size_t n = 0;

                while (at + n < size && !strchr(", \t", list[at + n]))
                        n++;
                if (n == length && n > 0 && strncasecmp(list + at, name, n) == 0)
                        return true;
                at += n + 1;
        }
        return false;
}

/* --- requests -------------------------------------------------------------------------------------------------------
 */

struct making {
        struct exchange *x;
        struct buf *out;
        const char *connection; /* the client's own header; NULL: none */
        bool any;               /* the query has begun */
};

/* The query as it was sent, but for our ticket. libmicrohttpd made blanks of its plus signs, and cut it. */
static enum MHD_Result add_argument(void *data, enum MHD_ValueKind kind, const char *name, const char *value) {
        struct making *m = data;

        (void)kind;
        if ((m->x->route->flags & ROUTE_TICKET) && str_eq(name, "ticket"))
                return MHD_YES;
        buf_str(m->out, m->any ? "&" : "?");
        m->any = true;
        for (unsigned part = 0; part < 2; part++) {
                const char *text = part == 0 ? name : value;

                if (part == 1 && text)
                        buf_str(m->out, "=");
                for (; text && *text; text++) {
                        char c = *text == ' ' ? '+' : *text;

                        if ((unsigned char)c <= ' ' || c == 0x7f)
                                m->out->failed = true;
                        buf_add(m->out, &c, 1);
                }
        }
        return MHD_YES;
}

/* A token of ours, sent here by mistake. */
static bool is_ours(const char *authorization) {
        const char *token = authorization + strcspn(authorization, " ");

        token += strspn(token, " ");
        return str_starts(token, "v4.") || capability_is(token, strlen(token));
}

/* The server's own cookies, without ours. */
static void add_cookies(struct buf *out, const char *list) {
        bool any = false;

        for (const char *p = list + strspn(list, "; "); *p; p += strspn(p, "; ")) {
                size_t size = strcspn(p, ";");

                if (!port_host_is_cookie(p, size)) {
                        buf_str(out, any ? "; " : "Cookie: ");
                        buf_add(out, p, size);
                        any = true;
                }
                p += size;
        }
        if (any)
                buf_str(out, "\r\n");
}

static enum MHD_Result add_header(void *data, enum MHD_ValueKind kind, const char *name, const char *value) {
        struct making *m = data;

        (void)kind;
        if (value && m->x->own_host && strcasecmp(name, "authorization") == 0 && !is_ours(value)) {
                buf_printf(m->out, "Authorization: %s\r\n", value); /* the server's own */
                return MHD_YES;
        }
        if (value && m->x->own_host && strcasecmp(name, "cookie") == 0)
                add_cookies(m->out, value);
        if (!value || among(hops, ELEMENTSOF(hops), name) ||
            (m->connection && names(m->connection, strlen(m->connection), name)))
                return MHD_YES;
        buf_printf(m->out, "%s: %s\r\n", name, value);
        return MHD_YES;
}

void port_request_head(struct exchange *x, bool chunked, bool upgrade, struct buf *ret) {
        struct making m = {.x = x, .out = ret};
        const char *port = route_param(x, "port");

        m.connection = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Connection");
        buf_printf(ret, "%s %s", x->method, x->rest[0] ? x->rest : "/");
        (void)MHD_get_connection_values(x->connection, MHD_GET_ARGUMENT_KIND, add_argument, &m);
        buf_printf(ret, " HTTP/1.1\r\nHost: localhost:%s\r\n", port);
        (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, add_header, &m);
        if (x->head.origin)
                buf_printf(ret, "Origin: http://localhost:%s\r\n", port);
        if (upgrade)
                buf_str(ret, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
        else
                buf_str(ret, "Connection: close\r\n");
        if (chunked)
                buf_str(ret, "Transfer-Encoding: chunked\r\n");
        else if (x->head.length)
                buf_printf(ret, "Content-Length: %s\r\n", x->head.length);
        buf_str(ret, "\r\n");
}

/* --- answers --------------------------------------------------------------------------------------------------------
 */

static void add(struct exchange *x, const struct http_header *f) {
        char name[256];
        _cleanup_free_ char *value = strndup(f->value.data, f->value.size);

        if (f->name.size >= sizeof name || !value)
                return;
        memcpy(name, f->name.data, f->name.size);
        name[f->name.size] = '\0';
        reply_header(x, name, value);
}

/* Whoever follows takes his token along as long as he stays with us. So a place here is one below the port, worked out
 * as by a client for whom the port is the whole server, and leads nowhere else; other servers are the client's to
 * judge. */

enum { PLACE_MAX = 2048, PREFIX_MAX = 1024 };

/* "." is 1, ".." is 2, however clients may write them. */
static unsigned count_dots(const char *part, size_t size) {
        unsigned dots = 0;

        for (size_t i = 0; i < size; dots++) {
                if (part[i] == '.')
                        i++;
                else if (size - i >= 3 && strncasecmp(part + i, "%2e", 3) == 0)
                        i += 3;
                else
                        return 0;
        }
        return dots <= 2 ? dots : 0;
}

/* Path as RFC 3986, 5.2.4 has it, with backslashes as browsers take them: nothing goes above the first slash. */
static void add_place(struct buf *out, const char *path, size_t size) {
        size_t begin = out->size;

        for (size_t at = 0; at < size && buf_ok(out);) {
                size_t from = at + 1, n = 0; /* behind a slash */

                while (from + n < size && path[from + n] != '/' && path[from + n] != '\\')
                        n++;
                unsigned dots = count_dots(path + from, n);
                if (dots == 2)
                        while (out->size > begin && out->data[--out->size] != '/')
                                ;
                if (dots == 0) {
                        buf_str(out, "/");
                        buf_add(out, path + from, n);
                } else if (from + n == size)
                        buf_str(out, "/");
                at = from + n;
        }
        if (out->size == begin)
                buf_str(out, "/");
}

/* A host that is not us, whatever its port, written in the one way that all clients read alike. */
static bool is_elsewhere(const struct exchange *x, const char *authority, size_t size) {
        char host[256], own[256];
        uint8_t bytes[16];
        const char *names[] = {x->head.host, x->api->domain};
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]";

        if (size == 0 || size >= sizeof host)
                return false;
        (void)snprintf(host, sizeof host, "%.*s", (int)size, authority);
        if (host[strspn(host, letters)] || host[0] == ':')
                return false;
        if (host[0] == '[' || head_is_host(x->api, host))
                return false;
        host[strcspn(host, ":")] = '\0';
        size_t length = strlen(host);
        if (endpoint_parse_bytes(host, bytes)) { /* four numbers */
                if (bytes[12] == 127 || bytes[12] == 0)
                        return false;
        } else {
                const char *last = strrchr(host, '.');

                last = last ? last + 1 : host;
                if (!last[0] || (last[0] >= '0' && last[0] <= '9') ||
                    (length >= 9 && strcasecmp(host + length - 9, "localhost") == 0))
                        return false;
        }
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(own, sizeof own, "%.*s", (int)strcspn(names[i], ":"), names[i]);
                if (strcasecmp(own, host) == 0)
                        return false;
        }
        return true;
}

static bool is_slash(char c) {
        return c == '/' || c == '\\';
}

/* False: it leads to us, or nobody knows where. */
static bool find_place(const struct exchange *x, const char *to, size_t size, struct buf *out) {
        const char *rest = x->rest[0] ? x->rest : "/", *scheme = strpbrk(to, ":/\\?#");
        size_t path = strcspn(to, "?#"), folder = (size_t)(strrchr(rest, '/') - rest);
        _cleanup_buf_ struct buf merged = {.max = 2 * EXCHANGE_MARK};

        for (size_t i = 0; i < size; i++)
                if ((unsigned char)to[i] < ' ' || to[i] == 0x7f)
                        return false; /* clients leave them out, and read something else */
        bool with_scheme = scheme && *scheme == ':';
        if (with_scheme || (is_slash(to[0]) && is_slash(to[1]))) {
                const char *authority = strstr(to, "//");

                if (!authority || (with_scheme && (size_t)(authority - to) != (size_t)(scheme - to) + 1) ||
                    (with_scheme && strncasecmp(to, "http:", 5) != 0 && strncasecmp(to, "https:", 6) != 0) ||
                    (!with_scheme && authority != to) ||
                    !is_elsewhere(x, authority + 2, strcspn(authority + 2, "/\\?#")))
                        return false;
                buf_add(out, to, size);
                return buf_ok(out);
        }
        buf_add(out, x->url, (size_t)(x->rest - x->url));
        if (path == 0)
                buf_str(&merged, rest);
        else if (!is_slash(to[0]))
                buf_add(&merged, rest, folder + 1);
        buf_add(&merged, to, path);
        if (!buf_ok(&merged))
                return false;
        add_place(out, merged.data, merged.size);
        buf_add(out, to + path, size - path);
        return buf_ok(out);
}

static void add_location(struct exchange *x, const struct http_span *to) {
        _cleanup_buf_ struct buf place = {.max = EXCHANGE_MARK};
        _cleanup_free_ char *text = strndup(to->data, to->size);

        if (!text || to->size == 0 || to->size > PLACE_MAX || x->rest - x->url > PREFIX_MAX)
                return;
        if (x->own_host) /* it has a name of its own, where no token of ours goes along */
                reply_header(x, "Location", text);
        else if (find_place(x, text, strlen(text), &place))
                reply_header(x, "Location", place.data);
}

/* What a page on an origin of its own may say about itself, besides what every page may. A cookie for a whole domain
 * would be one for the neighbours too. */
static bool may_have_own(const char *name, const struct http_span *value) {
        static const char *const own[] = {"cache-control",          "x-frame-options",        "referrer-policy",
                                          "x-content-type-options", "service-worker-allowed", "www-authenticate"};

        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (strcasecmp(own[i], name) == 0)
                        return true;
        if (strcasecmp(name, "set-cookie") != 0 || port_host_is_cookie(value->data, value->size))
                return false;
        for (size_t i = 0; i + 6 <= value->size; i++)
                if (strncasecmp(value->data + i, "domain", 6) == 0)
                        return false;
        return true;
}

static bool may_pass(const struct exchange *x, const char *name) {
        if (among(dropped, ELEMENTSOF(dropped), name) || is_for_proxies(name))
                return false;
        if (x->own_host || strncasecmp(name, "x-", 2) == 0)
                return true;
        for (size_t i = 0; i < ELEMENTSOF(harmless); i++)
                if (strcasecmp(harmless[i], name) == 0)
                        return true;
        return false;
}

void port_answer_head(struct exchange *x, const struct http_head *h) {
        const struct http_header *connection = http_find(h, "Connection");

        for (size_t i = 0; i < h->header_count; i++) {
                const struct http_header *f = &h->headers[i];
                char name[256];

                if (f->name.size >= sizeof name)
                        continue;
                memcpy(name, f->name.data, f->name.size);
                name[f->name.size] = '\0';
                if (strcasecmp(name, "location") == 0)
                        add_location(x, &f->value);
                else if (x->own_host && may_have_own(name, &f->value))
                        add(x, f);
                else if (may_pass(x, name) &&
                         !(connection && names(connection->value.data, connection->value.size, name)))
                        add(x, f);
        }
        reply_header(x, "X-Request-Id", x->id);
        if (x->own_host)
                return;
        reply_header(x, "Content-Security-Policy", "sandbox");
        reply_header(x, "X-Content-Type-Options", "nosniff");
        reply_header(x, "X-Frame-Options", "DENY");
        reply_header(x, "Referrer-Policy", "no-referrer");
        reply_header(x, "Cache-Control", "no-store");
}

void port_upgrade_head(struct exchange *x, const struct http_head *h) {
        static const char *const wanted[] = {"Sec-WebSocket-Accept", "Sec-WebSocket-Protocol",
                                             "Sec-WebSocket-Extensions"};

        for (size_t i = 0; i < ELEMENTSOF(wanted); i++) {
                const struct http_header *f = http_find(h, wanted[i]);

                if (f)
                        add(x, f);
        }
}
