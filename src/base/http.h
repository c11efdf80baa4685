/* HTTP/1.1 heads and body framing, read strictly. Pure; heads are parsed in place from a buffer that holds them whole.
 *
 * One message has one meaning or is refused: CRLF line ends only, no NUL or bare CR, no line folding, no space before
 * a colon, token characters in names and methods, at most one Content-Length (equal duplicates are refused too), never
 * both Content-Length and Transfer-Encoding, Transfer-Encoding exactly "chunked", exactly one Host in a 1.1 request,
 * version exactly HTTP/1.1 or HTTP/1.0 (no Transfer-Encoding in 1.0), no "PRI * HTTP/2.0".
 *
 * Connection in a request may say close, keep-alive, upgrade, TE, HTTP2-Settings and nothing else: any other word asks
 * whoever reads it to drop the header of that name. The only other protocol is WebSocket: what comes after an upgrade
 * is not judged, so it must not be HTTP again. */
#pragma once

#include "base/address.h"
#include "base/hostname.h"

#define HTTP_HEAD_MAX    (32 * 1024)
#define HTTP_HEADERS_MAX 128
#define HTTP_SNIFF_MAX   2048
#define HTTP_METHOD_MAX  31 /* bytes: it fits into an event */

enum http_result { HTTP_MORE, HTTP_BAD, HTTP_TOO_LARGE, HTTP_DONE };

struct http_span {
        const char *data;
        size_t size;
};

struct http_header {
        struct http_span name, value; /* value without surrounding white space */
};

enum http_framing {
        HTTP_NO_BODY,
        HTTP_LENGTH,
        HTTP_CHUNKED,
        HTTP_UNTIL_CLOSE, /* responses only */
};

/* Where a request wants to go. */
struct http_target {
        bool present;             /* an authority was given: Host, absolute form, or authority form */
        char name[HOSTNAME_SIZE]; /* canonical, "" for an address */
        struct address address;
        uint16_t port; /* 0: not given */
};

struct http_head {
        size_t size;    /* of the head with its empty line */
        unsigned minor; /* 1.0 or 1.1 */
        /* requests */
        struct http_span method, target; /* target as it stood on the line */
        struct http_span path;           /* without query; "/" for an empty one; "*" for OPTIONS * */
        struct http_span path_and_query; /* what origin form would say */
        bool absolute;                   /* target was http://… (or https://…: then secure) */
        bool secure;
        bool connect;                  /* authority form */
        struct http_target line, host; /* authority in the request line; in the Host header */
        /* responses */
        unsigned status;
        /* both */
        struct http_header headers[HTTP_HEADERS_MAX];
        size_t header_count;
        enum http_framing framing;
        uint64_t length;
        bool close;          /* the connection ends after this message */
        bool upgrade;        /* asks for, or grants (101), WebSocket */
        bool upgrade_unused; /* has an Upgrade header that does not count (h2c, TLS, a list, none in Connection, a
                                body): it must not be passed on, nor HTTP2-Settings */
        bool expect_continue;
        const char *problem; /* HTTP_BAD, HTTP_TOO_LARGE: a clause for a person */
};

/* Both are cheap while the empty line is not there yet, and are called again with all bytes so far; *ret has a meaning
 * with HTTP_DONE, and with HTTP_BAD and HTTP_TOO_LARGE its problem. A line end without CR is refused at once. */
enum http_result http_request(const char *bytes, size_t size, struct http_head *ret);
/* request: what is being answered, as the server got it (HEAD and CONNECT change the framing; HTTP/1.0 gets neither 1xx
 * nor chunks; 101 only if it asked). NULL: a plain GET of HTTP/1.1. 1xx other than 101 are heads of their own. */
enum http_result http_response(const char *bytes, size_t size, const struct http_head *request, struct http_head *ret);
const struct http_header *http_find(const struct http_head *h, const char *name); /* case-insensitive; the first */
bool http_name_is(const struct http_span *s, const char *name);                   /* case-insensitive */

/* Does this look like the beginning of an HTTP request? For telling protocols apart on a connection. 1 yes, 0 no,
 * -EAGAIN: too few bytes to tell. Yes also for what a lenient server would take for one (empty lines before it, unknown
 * methods, lower case), though http_request then refuses it: a request that is not seen as one would not be judged.
 * Another protocol may need its whole first line to be told; what is still open after HTTP_SNIFF_MAX bytes is taken
 * for a request. */
int http_sniff(const void *bytes, size_t size);

/* "host", "host:port", "[v6]:port" as in Host or CONNECT: no user, no path, no white space; a port is 1 to 65535
 * without leading zeros. False if malformed; *ret is then untouched. */
bool http_authority(const char *bytes, size_t size, struct http_target *ret);

/* For http.c: reads h->target as h->method has it and sets path, path_and_query, absolute, secure, connect and line.
 * NULL, or what is wrong with it. */
const char *http_target_read(struct http_head *h);
size_t http_token_size(const char *bytes, size_t size); /* how many token characters it begins with */

/* Body framing, incrementally: how many of these bytes belong to the message, and is it complete? Chunk extensions are
 * refused; trailers are refused (an empty trailer part only); a chunk's size has at most 8 hexadecimal digits, zeros
 * in front included: nobody can count them differently. */
struct http_body {
        enum http_framing framing;
        uint64_t left; /* of the length, or of this chunk */
        unsigned state;
        unsigned digits;
        bool done; /* never with HTTP_UNTIL_CLOSE */
};
void http_body_init(struct http_body *b, enum http_framing framing, uint64_t length);
/* Consumes up to size bytes; returns how many belong to the body (framing bytes included), or ERR_INPUT. Stops at the
 * end of the message: b->done. After an error every call is one. on_data, if not NULL, is told each run of payload
 * bytes with its place in bytes. */
ssize_t http_body_feed(struct http_body *b, const uint8_t *bytes, size_t size,
                       void (*on_data)(void *context, size_t at, size_t size), void *context);
