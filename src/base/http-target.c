/* Where a request wants to go: authorities, the four forms of a request's target, and whether bytes are a request at
 * all.
 *
 * A target is visible ASCII without a fragment; its path has no backslash and only whole percent-encodings, because
 * servers disagree about what those mean. An authority is a name in canonical form or an address in its exact text
 * form, by the same two readers that rules and DNS use; never both, never a user. */
#include "base/http.h"

static const bool token[256] = {
        ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['!'] = true, ['#'] = true, ['$'] = true,
        ['%'] = true,         ['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true, ['-'] = true,
        ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true, ['|'] = true, ['~'] = true,
};

size_t http_token_size(const char *bytes, size_t size) {
        size_t n = 0;

        while (n < size && token[(unsigned char)bytes[n]])
                n++;
        return n;
}

static bool read_port(const char *bytes, size_t size, uint16_t *ret) {
        unsigned value = 0;

        if (size == 0 || size > 5 || bytes[0] == '0')
                return false;
        for (size_t i = 0; i < size; i++) {
                if (bytes[i] < '0' || bytes[i] > '9')
                        return false;
                value = value * 10 + (unsigned)(bytes[i] - '0');
        }
        if (value > UINT16_MAX)
                return false;
        *ret = (uint16_t)value;
        return true;
}

bool http_authority(const char *bytes, size_t size, struct http_target *ret) {
        struct http_target t = {.present = true};
        const char *end;
        size_t host;

        if (size == 0)
                return false;
        if (bytes[0] == '[') {
                end = memchr(bytes, ']', size);
                if (!end)
                        return false;
                host = (size_t)(end - bytes) + 1;
        } else {
                end = memchr(bytes, ':', size);
                host = end ? (size_t)(end - bytes) : size;
        }
        if (host < size && (bytes[host] != ':' || !read_port(bytes + host + 1, size - host - 1, &t.port)))
                return false;
        if (!address_parse(bytes, host, true, &t.address) && hostname_canonical(bytes, host, t.name) < 0)
                return false;
        *ret = t;
        return true;
}

static bool is_hex(char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static const char *check_path(const char *p, size_t size) {
        for (size_t i = 0; i < size; i++) {
                if (p[i] == '\\')
                        return "the path has a backslash";
                if (p[i] == '%' && (size - i < 3 || !is_hex(p[i + 1]) || !is_hex(p[i + 2])))
                        return "the path has a '%' without two hexadecimal digits";
        }
        return NULL;
}

/* From the path's '/' on. */
static const char *read_origin(struct http_head *h, const char *p, size_t size) {
        const char *query = memchr(p, '?', size);

        h->path_and_query = (struct http_span){p, size};
        h->path = (struct http_span){p, query ? (size_t)(query - p) : size};
        return check_path(h->path.data, h->path.size);
}

/* Methods are what they are to the letter. */
static bool is_method(const struct http_head *h, const char *name) {
        return h->method.size == strlen(name) && memcmp(h->method.data, name, h->method.size) == 0;
}

static const char *read_absolute(struct http_head *h, size_t scheme) {
        const char *p = h->target.data + scheme;
        size_t left = h->target.size - scheme, size = 0;

        h->absolute = true;
        while (size < left && p[size] != '/' && p[size] != '?')
                size++;
        if (!http_authority(p, size, &h->line))
                return "the target's host is not a host name or an address";
        p += size;
        left -= size;
        if (left == 0) { /* the last proxy says "*" for such an OPTIONS */
                h->path = (struct http_span){is_method(h, "OPTIONS") ? "*" : "/", 1};
                h->path_and_query = h->path;
                return NULL;
        }
        if (*p != '/')
                return "the target has a query but no path";
        return read_origin(h, p, left);
}

static size_t scheme_size(const struct http_span *target, const char *scheme) {
        struct http_span head = {target->data, strlen(scheme)};

        return target->size >= head.size && http_name_is(&head, scheme) ? head.size : 0;
}

const char *http_target_read(struct http_head *h) {
        struct http_span t = h->target;
        size_t scheme;

        for (size_t i = 0; i < t.size; i++)
                if (t.data[i] <= ' ' || t.data[i] > '~' || t.data[i] == '#')
                        return t.data[i] == '#' ? "the target has a fragment"
                                                : "the target has a byte that is not visible ASCII";
        if (t.size == 0)
                return "the request has no target";
        if (is_method(h, "CONNECT")) {
                h->connect = true;
                h->path = h->path_and_query = (struct http_span){"", 0};
                if (!http_authority(t.data, t.size, &h->line) || h->line.port == 0)
                        return "CONNECT wants a host and a port";
                return NULL;
        }
        if (t.data[0] == '/')
                return read_origin(h, t.data, t.size);
        scheme = scheme_size(&t, "http://");
        if (scheme > 0)
                return read_absolute(h, scheme);
        scheme = scheme_size(&t, "https://");
        if (scheme > 0) {
                h->secure = true;
                return read_absolute(h, scheme);
        }
        if (t.size == 1 && t.data[0] == '*' && is_method(h, "OPTIONS")) {
                h->path = h->path_and_query = t;
                return NULL;
        }
        return "the target is neither a path nor an http address";
}

/* All that RFC 9112 lets a lenient reader split a request line at. */
static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

/* "HTTP/" as the beginning of a later word, in any case. */
static bool names_version(const char *p, size_t size) {
        for (size_t i = 1; i + 5 <= size; i++)
                if (is_blank(p[i - 1]) && http_name_is(&(struct http_span){p + i, 5}, "HTTP/"))
                        return true;
        return false;
}

/* Methods that every server knows, before what only a request's target begins with: no need to see the whole line. */
static bool begins_plainly(const char *p, size_t method, size_t size) {
        static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"};

        if (size < method + 2 || p[method] != ' ' || !strchr("/*hH", p[method + 1]) || p[method + 1] == '\0')
                return false;
        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if (method == strlen(known[i]) && memcmp(p, known[i], method) == 0)
                        return true;
        return false;
}

int http_sniff(const void *bytes, size_t size) {
        const char *p = bytes;
        size_t left = MIN(size, (size_t)HTTP_SNIFF_MAX), method, line = 0;

        while (left > 0 && (is_blank(*p) || *p == '\n')) {
                p++;
                left--;
        }
        method = http_token_size(p, left);
        if (method < left && !is_blank(p[method]))
                return 0;
        if (begins_plainly(p, method, left))
                return 1;
        while (line < left && p[line] != '\n' && p[line] != '\0')
                line++;
        if (names_version(p, line))
                return 1;
        if (line < left)
                return 0;
        return size >= HTTP_SNIFF_MAX ? 1 : -EAGAIN;
}
