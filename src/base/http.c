/* Heads of HTTP/1 messages: lines, headers, and what they mean together.
 *
 * Three steps: find the empty line, cut the lines (bytes are checked here, once), judge the headers that decide about
 * framing, host and connection. Each of those may be there once, in one spelling. A reader before or behind us cannot
 * see another message in the same bytes: where two readers are known to differ, nothing is accepted. No allocation; all
 * spans point into the caller's bytes. */
#include "base/http.h"

static char lower(char c) {
        return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool http_name_is(const struct http_span *s, const char *name) {
        for (size_t i = 0; i < s->size; i++)
                if (name[i] == '\0' || lower(s->data[i]) != lower(name[i]))
                        return false;
        return name[s->size] == '\0';
}

const struct http_header *http_find(const struct http_head *h, const char *name) {
        for (size_t i = 0; i < h->header_count; i++)
                if (http_name_is(&h->headers[i].name, name))
                        return &h->headers[i];
        return NULL;
}

static bool is_exactly(const struct http_span *s, const char *text) {
        return s->size == strlen(text) && memcmp(s->data, text, s->size) == 0;
}

static enum http_result bad(struct http_head *h, const char *problem) {
        h->problem = problem;
        return HTTP_BAD;
}

static enum http_result too_large(struct http_head *h, const char *problem) {
        h->problem = problem;
        return HTTP_TOO_LARGE;
}

/* DONE: *ret_size is the head's size with its empty line, and every LF in it follows a CR. */
static enum http_result find_end(const char *bytes, size_t size, struct http_head *ret, size_t *ret_size) {
        const char *line = bytes, *end = bytes + MIN(size, (size_t)HTTP_HEAD_MAX), *lf;
        unsigned lines = 0;

        ret->problem = NULL;
        while ((lf = memchr(line, '\n', (size_t)(end - line)))) {
                if (lf == line || lf[-1] != '\r')
                        return bad(ret, "a line ends without CR");
                if (lf == line + 1) {
                        if (line == bytes)
                                return bad(ret, "an empty line stands in front");
                        *ret_size = (size_t)(lf + 1 - bytes);
                        return HTTP_DONE;
                }
                if (lines++ == HTTP_HEADERS_MAX + 1) /* also bounds what a call costs */
                        return too_large(ret, "there are more than 128 headers");
                line = lf + 1;
        }
        if (size >= HTTP_HEAD_MAX)
                return too_large(ret, "the head is larger than 32 KiB");
        return HTTP_MORE;
}

/* Takes the next line, without its CRLF; both are known to be there. */
static struct http_span take_line(const char **at, const char *end) {
        const char *start = *at, *lf = memchr(start, '\n', (size_t)(end - start));

        if (!lf) /* cannot be: find_end saw the last one */
                lf = end - 1;
        *at = lf + 1;
        return (struct http_span){start, (size_t)(lf - start) - 1};
}

/* Tabs and everything visible, beyond ASCII too. */
static bool is_text(const struct http_span *s) {
        for (size_t i = 0; i < s->size; i++) {
                unsigned char c = (unsigned char)s->data[i];

                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

static void trim(struct http_span *s) {
        while (s->size > 0 && (s->data[0] == ' ' || s->data[0] == '\t')) {
                s->data++;
                s->size--;
        }
        while (s->size > 0 && (s->data[s->size - 1] == ' ' || s->data[s->size - 1] == '\t'))
                s->size--;
}

static const char *read_header(const struct http_span *line, struct http_header *ret) {
        size_t name = http_token_size(line->data, line->size);

        if (name == 0)
                return line->data[0] == ' ' || line->data[0] == '\t' ? "a header goes on in a second line"
                                                                     : "a header has no name";
        if (name == line->size || line->data[name] != ':')
                return "a header's name has other bytes than a name may have, or no colon after it";
        ret->name = (struct http_span){line->data, name};
        ret->value = (struct http_span){line->data + name + 1, line->size - name - 1};
        if (!is_text(&ret->value))
                return "a header has a control byte";
        trim(&ret->value);
        return NULL;
}

static enum http_result read_headers(const char *at, const char *end, struct http_head *h) {
        for (;;) {
                struct http_span line = take_line(&at, end);
                const char *problem;

                if (line.size == 0)
                        return HTTP_DONE;
                assert(h->header_count < HTTP_HEADERS_MAX); /* find_end counted */
                problem = read_header(&line, &h->headers[h->header_count]);
                if (problem)
                        return bad(h, problem);
                h->header_count++;
        }
}

/* What the headers say, before it is judged together. */
struct meaning {
        const struct http_header *length, *coding, *host, *upgrade, *expect; /* each once */
        bool close, keep_alive, says_upgrade;                                /* in Connection */
};

/* The words of Connection. In a request only those that concern the connection itself: naming a header there asks the
 * next reader to drop it. Servers do name headers (Transfer-Encoding, even), and are not asked to pass anything on. */
static const char *read_connection(struct http_span list, bool request, struct meaning *m) {
        while (list.size > 0) {
                const char *comma = memchr(list.data, ',', list.size);
                struct http_span word = {list.data, comma ? (size_t)(comma - list.data) : list.size};
                size_t next = comma ? word.size + 1 : word.size;

                list.data += next;
                list.size -= next;
                trim(&word);
                if (word.size == 0)
                        continue;
                if (http_token_size(word.data, word.size) != word.size)
                        return "Connection is not a list of words";
                if (http_name_is(&word, "close"))
                        m->close = true;
                else if (http_name_is(&word, "keep-alive"))
                        m->keep_alive = true;
                else if (http_name_is(&word, "upgrade"))
                        m->says_upgrade = true;
                else if (request && !http_name_is(&word, "TE") && !http_name_is(&word, "HTTP2-Settings"))
                        return "Connection names a header to be dropped";
        }
        return NULL;
}

static const char *once(const struct http_header **place, const struct http_header *header, const char *problem) {
        if (*place)
                return problem;
        *place = header;
        return NULL;
}

static const char *read_meaning(const struct http_head *h, bool request, struct meaning *m) {
        for (size_t i = 0; i < h->header_count; i++) {
                const struct http_header *f = &h->headers[i];
                const char *problem = NULL;

                if (http_name_is(&f->name, "Content-Length"))
                        problem = once(&m->length, f, "there are two Content-Length headers");
                else if (http_name_is(&f->name, "Transfer-Encoding"))
                        problem = once(&m->coding, f, "there are two Transfer-Encoding headers");
                else if (request && http_name_is(&f->name, "Host"))
                        problem = once(&m->host, f, "there are two Host headers");
                else if (request && http_name_is(&f->name, "Expect"))
                        problem = once(&m->expect, f, "there are two Expect headers");
                else if (http_name_is(&f->name, "Connection"))
                        problem = read_connection(f->value, request, m);
                else if (http_name_is(&f->name, "Upgrade"))
                        (void)once(&m->upgrade, f, NULL); /* a second one: see wants_websocket */
                if (problem)
                        return problem;
        }
        return NULL;
}

/* Digits alone, no zero in front, below 2^63. */
static bool read_length(const struct http_span *s, uint64_t *ret) {
        uint64_t value = 0;

        if (s->size == 0 || s->size > 19 || (s->size > 1 && s->data[0] == '0'))
                return false;
        for (size_t i = 0; i < s->size; i++) {
                if (s->data[i] < '0' || s->data[i] > '9')
                        return false;
                value = value * 10 + (uint64_t)(s->data[i] - '0');
        }
        if (value > INT64_MAX)
                return false;
        *ret = value;
        return true;
}

/* Length or chunks as the headers say; framing stays as it is when they say neither. */
static const char *read_framing(struct http_head *h, const struct meaning *m, bool request) {
        if (m->length && m->coding)
                return "there are both Content-Length and Transfer-Encoding";
        if (m->coding) {
                if (h->minor == 0)
                        return "HTTP/1.0 has no Transfer-Encoding";
                if (request ? !is_exactly(&m->coding->value, "chunked") : !http_name_is(&m->coding->value, "chunked"))
                        return "Transfer-Encoding is not 'chunked'";
                h->framing = HTTP_CHUNKED;
        }
        if (m->length) {
                if (!read_length(&m->length->value, &h->length))
                        return "Content-Length is not a number";
                h->framing = HTTP_LENGTH;
        }
        return NULL;
}

/* Exactly one Upgrade header with exactly this word, and Connection says so too. */
static bool wants_websocket(const struct http_head *h, const struct meaning *m) {
        unsigned count = 0;

        for (size_t i = 0; i < h->header_count; i++)
                count += http_name_is(&h->headers[i].name, "Upgrade");
        return count == 1 && h->minor == 1 && m->says_upgrade && http_name_is(&m->upgrade->value, "websocket");
}

static bool has_body(const struct http_head *h) {
        return h->framing == HTTP_CHUNKED || (h->framing == HTTP_LENGTH && h->length > 0);
}

/* "METHOD target HTTP/1.x", one space between. */
static const char *read_request_line(const struct http_span *line, struct http_head *h) {
        const char *end = line->data + line->size, *space;
        size_t method = http_token_size(line->data, line->size);
        struct http_span version;

        if (method == 0 || method == line->size || line->data[method] != ' ')
                return "the request does not begin with a method";
        if (method > HTTP_METHOD_MAX)
                return "the method is longer than 31 bytes";
        h->method = (struct http_span){line->data, method};
        h->target.data = line->data + method + 1;
        space = memchr(h->target.data, ' ', (size_t)(end - h->target.data));
        if (!space)
                return "the request line has no version";
        h->target.size = (size_t)(space - h->target.data);
        version = (struct http_span){space + 1, (size_t)(end - space) - 1};
        if (is_exactly(&version, "HTTP/1.1"))
                h->minor = 1;
        else if (!is_exactly(&version, "HTTP/1.0"))
                return "the version is not HTTP/1.1 or HTTP/1.0";
        /* methods that change what follows must not be recognised by some and not by others */
        if ((http_name_is(&h->method, "HEAD") && !is_exactly(&h->method, "HEAD")) ||
            (http_name_is(&h->method, "CONNECT") && !is_exactly(&h->method, "CONNECT")))
                return "the method is in lower case";
        return http_target_read(h);
}

static const char *judge_request(struct http_head *h) {
        struct meaning m = {0};
        const char *problem = read_meaning(h, true, &m);

        if (!problem)
                problem = read_framing(h, &m, true);
        if (problem)
                return problem;
        if (m.host) {
                if (!http_authority(m.host->value.data, m.host->value.size, &h->host))
                        return "Host is not a host name or an address";
        } else if (h->minor == 1)
                return "there is no Host header";
        if (h->connect && has_body(h))
                return "CONNECT has a body";
        if (m.expect) {
                if (!http_name_is(&m.expect->value, "100-continue"))
                        return "Expect is not '100-continue'";
                h->expect_continue = h->minor == 1;
        }
        h->close = m.close || (h->minor == 0 && !m.keep_alive);
        if (m.upgrade) {
                h->upgrade = is_exactly(&h->method, "GET") && !has_body(h) && wants_websocket(h, &m);
                h->upgrade_unused = !h->upgrade;
        }
        return NULL;
}

/* A whole head: its first line, read as the caller wants it, and its headers. */
static enum http_result read_head(const char *bytes, size_t size,
                                  const char *(*read_line)(const struct http_span *, struct http_head *),
                                  struct http_head *ret) {
        const char *at = bytes;
        size_t head = 0;
        enum http_result r = find_end(bytes, size, ret, &head);

        if (r != HTTP_DONE)
                return r;
        memset(ret, 0, sizeof *ret);
        ret->size = head;
        struct http_span line = take_line(&at, bytes + head);
        const char *problem = read_line(&line, ret);
        return problem ? bad(ret, problem) : read_headers(at, bytes + head, ret);
}

enum http_result http_request(const char *bytes, size_t size, struct http_head *ret) {
        enum http_result r = read_head(bytes, size, read_request_line, ret);
        const char *problem = r == HTTP_DONE ? judge_request(ret) : NULL;

        return problem ? bad(ret, problem) : r;
}

/* "HTTP/1.x 200 reason"; the reason may be missing, and then the space before it too. */
static const char *read_status_line(const struct http_span *line, struct http_head *h) {
        const char *p = line->data;

        if (line->size < 12 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1') || p[8] != ' ' ||
            (line->size > 12 && p[12] != ' '))
                return "the answer does not begin with HTTP/1.1 or HTTP/1.0 and a status";
        h->minor = (unsigned)(p[7] - '0');
        for (size_t i = 9; i < 12; i++) {
                if (p[i] < '0' || p[i] > '9')
                        return "the status is not a number";
                h->status = h->status * 10 + (unsigned)(p[i] - '0');
        }
        if (h->status < 100)
                return "there is no such status";
        return is_text(line) ? NULL : "the status line has a control byte";
}

/* Answers that end with their head, whatever its headers say. */
static const char *judge_bodiless(struct http_head *h, const struct meaning *m) {
        /* to HEAD, and with 304, the headers describe a body that is not sent; these describe nothing */
        if ((h->status < 200 || h->status == 204) && (m->coding || has_body(h)))
                return "an answer that has no body says that it has one";
        h->framing = HTTP_NO_BODY;
        h->length = 0;
        return NULL;
}

static const char *judge_response(struct http_head *h, const struct http_head *request) {
        unsigned minor = request ? request->minor : 1;
        bool head = request && is_exactly(&request->method, "HEAD");
        bool tunnel = request && request->connect && h->status / 100 == 2;
        struct meaning m = {0};
        const char *problem = read_meaning(h, false, &m);

        h->framing = HTTP_UNTIL_CLOSE;
        if (!problem)
                problem = read_framing(h, &m, false);
        if (problem)
                return problem;
        if (minor == 0 && (h->framing == HTTP_CHUNKED || h->status < 200))
                return "HTTP/1.0 was spoken and the answer is of HTTP/1.1";
        if (h->status == 101) {
                h->upgrade = request && request->upgrade && wants_websocket(h, &m);
                if (!h->upgrade)
                        return "the answer changes to a protocol that was not asked for";
        }
        if (h->status < 200 || h->status == 204 || h->status == 304 || head || tunnel) {
                problem = judge_bodiless(h, &m);
                if (problem)
                        return problem;
        }
        h->upgrade_unused = m.upgrade && !h->upgrade;
        h->close = m.close || (h->minor == 0 && !m.keep_alive) || h->framing == HTTP_UNTIL_CLOSE;
        return NULL;
}

enum http_result http_response(const char *bytes, size_t size, const struct http_head *request, struct http_head *ret) {
        enum http_result r = read_head(bytes, size, read_status_line, ret);
        const char *problem = r == HTTP_DONE ? judge_response(ret, request) : NULL;

        return problem ? bad(ret, problem) : r;
}
