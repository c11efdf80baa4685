/* Strict reading of heads, on top of libmicrohttpd's. A head that two programs could read in two ways is refused, and
 * so is one for another host than us: a web page that had its name point here cannot use the API (DNS rebinding). */
#include "api/head.h"

#include <stdio.h>
#include <strings.h>
#include <sys/random.h>

#include "api/port-host.h"

#define HEADERS_MAX 64
#define VALUE_MAX   8192
#define LINE_END    "a line does not end with CR and LF"

struct scan {
        struct exchange *x;
        unsigned count;
        const char *wrong; /* what is wrong with it; NULL: nothing so far */
};

static const struct {
        const char *name;
        size_t offset;
} wanted[] = {
        {"host", offsetof(struct head, host)},
        {"origin", offsetof(struct head, origin)},
        {"authorization", offsetof(struct head, authorization)},
        {"content-length", offsetof(struct head, length)},
        {"transfer-encoding", offsetof(struct head, encoding)},
        {"content-type", offsetof(struct head, type)},
        {"x-forwarded-for", offsetof(struct head, forwarded)},
        {"x-request-id", offsetof(struct head, id)},
        {"last-event-id", offsetof(struct head, last_event)},
        {"range", offsetof(struct head, range)},
        {"upgrade", offsetof(struct head, upgrade)},
        {"sec-websocket-key", offsetof(struct head, websocket_key)},
        {"sec-websocket-version", offsetof(struct head, websocket_version)},
        {"cookie", offsetof(struct head, cookie)},
        {"expect", offsetof(struct head, expect)},
        {"if-match", offsetof(struct head, if_match)},
};

static bool is_token(const char *s, size_t size) {
        static const char marks[] = "!#$%&'*+-.^_`|~";

        for (size_t i = 0; i < size; i++)
                if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
                      (s[i] && strchr(marks, s[i]))))
                        return false;
        return size > 0;
}

/* Eight bytes at a time: the high bit of each byte that is below a blank, or 0x7f. A token is long. */
static uint64_t control_bytes(uint64_t eight) {
        const uint64_t each = 0x0101010101010101, high = each * 0x80, low = eight & ~high;
        uint64_t above = low + each * (0x80 - ' '); /* high: the byte is a blank or more, without its own high bit */
        uint64_t last = low + each;                 /* high: it is 0x7f */

        return (~above | last) & ~eight & high;
}

static bool is_value(const char *s, size_t size) {
        size_t i = 0;

        for (uint64_t eight; size - i >= sizeof eight; i += sizeof eight) {
                memcpy(&eight, s + i, sizeof eight);
                if (control_bytes(eight))
                        break; /* a tab is one, and may stand there */
        }
        for (; i < size; i++)
                if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
                        return false;
        return size <= VALUE_MAX;
}

/* libmicrohttpd before 0.9.77 takes a CR or LF alone for the end of a line, and puts a zero over each byte of an end:
 * two of them are right. Later ones refuse it themselves (http.c). */
static bool ends_right(const char *text, size_t size) {
#if MHD_VERSION < 0x00097700
        return text[size] != '\0' || text[size + 1] == '\0';
#else
        (void)text;
        (void)size;
        return true;
#endif
}

static enum MHD_Result look(void *data, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value,
                            size_t value_size) {
        struct scan *s = data;

        (void)kind;
        if (value && !ends_right(value, value_size))
                s->wrong = LINE_END;
        if (!value)
                value = "";
        if (++s->count > HEADERS_MAX)
                s->wrong = "there are more than 64 headers";
        else if (!is_token(name, name_size) || !is_value(value, value_size))
                s->wrong = "a header has characters that do not belong there";
        for (size_t i = 0; !s->wrong && i < ELEMENTSOF(wanted); i++) {
                const char **place = (const char **)(void *)((char *)&s->x->head + wanted[i].offset);

                if (strcasecmp(wanted[i].name, name) != 0)
                        continue;
                if (*place)
                        s->wrong = "a header that must be there once is there twice";
                *place = value;
                break;
        }
        return s->wrong ? MHD_NO : MHD_YES;
}

/* Which way the body is measured must be beyond doubt. */
static const char *check_framing(struct exchange *x) {
        const struct head *h = &x->head;

        if (h->encoding && h->length)
                return "Transfer-Encoding and Content-Length do not go together";
        if (h->encoding && strcasecmp(h->encoding, "chunked") != 0)
                return "the only Transfer-Encoding is chunked";
        if (h->encoding && !str_eq(x->version, "HTTP/1.1"))
                return "Transfer-Encoding is for HTTP/1.1";
        if (h->length && (!h->length[0] || strlen(h->length) > 18 || h->length[strspn(h->length, "0123456789")]))
                return "Content-Length is not a number";
        x->has_body = h->encoding || (h->length && h->length[strspn(h->length, "0")]);
        return NULL;
}

/* The client's own id if it is harmless. */
static void name_request(struct exchange *x) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
        static uint64_t count;
        const char *id = x->head.id;

        if (id && id[0] && strlen(id) < EXCHANGE_ID && !id[strspn(id, letters)]) {
                (void)snprintf(x->id, sizeof x->id, "%s", id);
                return;
        }
        if (count == 0)
                (void)!getrandom(&count, sizeof count, 0);
        memcpy(x->id, "req-", 4);
        count++;
        for (unsigned i = 0; i < 16; i++)
                x->id[4 + i] = "0123456789abcdef"[count >> (60 - 4 * i) & 15];
        x->id[20] = '\0';
}

/* The port that goes without saying is said by some and left out by others. */
static bool same_host(const char *host, const char *ours, const char *usual) {
        size_t n = strlen(host), m = strlen(ours), k = strlen(usual);

        if (n > k && strcasecmp(host + n - k, usual) == 0)
                n -= k;
        if (m > k && strcasecmp(ours + m - k, usual) == 0)
                m -= k;
        return n == m && strncasecmp(host, ours, n) == 0;
}

bool head_is_host(const struct api *a, const char *host) {
        const char *usual = a->tls ? ":443" : ":80";
        char text[ENDPOINT_TEXT], local[32];

        if (same_host(host, a->domain, usual))
                return true;
        for (size_t i = 0; i < a->door_count; i++) {
                (void)snprintf(local, sizeof local, "localhost:%u", endpoint_port(&a->doors[i].at));
                if (same_host(host, endpoint_format(&a->doors[i].at, text), usual) ||
                    (endpoint_is_loopback(&a->doors[i].at) && same_host(host, local, usual)))
                        return true;
        }
        for (size_t i = 0; i < a->o->conf.hosts.count; i++)
                if (strcasecmp(host, a->o->conf.hosts.items[i]) == 0)
                        return true;
        return false;
}

/* Over TLS, by the name that was configured. Not by an address or "localhost": those have other tenants. */
static bool is_strict(const struct api *a, const char *host) {
        return a->tls && str_starts(a->o->conf.url, "https://") && strcasecmp(host, a->domain) == 0 &&
               a->domain[0] != '[' && a->domain[strspn(a->domain, "0123456789.:")] &&
               strncasecmp(a->domain, "localhost", 9) != 0;
}

/* Our own pages, or those that were named. */
static bool check_origin(struct exchange *x) {
        const struct conf_list *named = &x->api->o->conf.origins;
        const char *origin = x->head.origin, *host;

        if (!origin)
                return true;
        for (size_t i = 0; i < named->count; i++)
                if (strcasecmp(origin, named->items[i]) == 0) {
                        x->origin = origin;
                        return true;
                }
        host = strstr(origin, "://");
        if (!host || strcasecmp(host + 3, x->head.host) != 0)
                return false;
        size_t scheme = (size_t)(host + 3 - origin);
        return strncasecmp(origin, x->api->url, scheme) == 0 ||
               strncasecmp(origin, x->api->tls ? "https://" : "http://", scheme) == 0;
}

/* Behind a proxy that we believe: the last address that is not a proxy's. */
static void believe(struct exchange *x, const struct conf_list *proxies) {
        char text[VALUE_MAX + 1];
        uint8_t proxy[16];

        (void)snprintf(text, sizeof text, "%s", x->head.forwarded);
        for (;;) {
                bool believed = false;

                for (size_t i = 0; i < proxies->count; i++)
                        believed |= endpoint_parse_bytes(proxies->items[i], proxy) &&
                                    memcmp(proxy, x->address, sizeof proxy) == 0;
                if (!believed || !text[0])
                        return;
                char *comma = strrchr(text, ','), *last = comma ? comma + 1 : text;
                last += strspn(last, " \t");
                last[strcspn(last, " \t")] = '\0';
                if (!endpoint_parse_bytes(last, x->address))
                        return; /* what cannot be read: the proxy's own address counts */
                *(comma ? comma : text) = '\0';
        }
}

static void find_address(struct exchange *x) {
        const struct conf_list *proxies = &x->api->o->conf.proxies;

        memcpy(x->address, x->link->address, sizeof x->address);
        if (x->head.forwarded && proxies->count > 0)
                believe(x, proxies);
}

bool head_check(struct exchange *x) {
        struct scan s = {.x = x};

        (void)MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, look, &s);
        name_request(x);
        const char *wrong = s.wrong                                       ? s.wrong
                            : !ends_right(x->version, strlen(x->version)) ? LINE_END
                                                                          : check_framing(x);
        if (!wrong && x->spaced)
                wrong = "there is a blank in what is asked for";
        if (!wrong && !x->head.host)
                wrong = "there is no Host";
        if (!wrong && strlen(x->url) > 4096)
                wrong = "the path has more than 4096 bytes";
        if (wrong) {
                x->close = true; /* what follows cannot be told from a body */
                x->has_body = x->doubt = true;
                reply_error(x, "bad_request", "see RFC 9112", "%s", wrong);
                return false;
        }
        find_address(x);
        x->strict = is_strict(x->api, x->head.host);
        if (!port_host_is(x) && !head_is_host(x->api, x->head.host)) {
                x->close = true;
                reply_error(x, "bad_host",
                            "use the address that 'stockade health' shows, or name it in 'hosts' of "
                            "stockade.conf",
                            "this is not the host '%.100s'", x->head.host);
                return false;
        }
        if (!check_origin(x)) {
                x->close = true;
                reply_error(x, "bad_origin", "name it in 'origins' of stockade.conf if it is yours",
                            "pages of '%.100s' may not use this", x->head.origin);
                return false;
        }
        return true;
}
