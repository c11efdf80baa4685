/* Reads a ClientHello in place, however it is cut into records.
 *
 * Two passes: the first hops over the records and finds out whether the hello is there whole, which costs next to
 * nothing while bytes trickle in; the second walks the message with a cursor that steps over record headers. Every
 * length is held against the block that it stands in, and every block must be used up to its last byte: what could be
 * read in two ways is refused. Nothing is copied but the name. */
#include "gate/hello.h"

#define RECORD_HEADER  5
#define RECORD_MAX     (16 * 1024)
#define MESSAGE_HEADER 4
#define RANDOM_SIZE    32
#define SESSION_MAX    32

enum { CONTENT_HANDSHAKE = 22, CONTENT_ALERT = 21, ALERT_FATAL = 2, MESSAGE_CLIENT_HELLO = 1 };
enum { EXTENSION_SERVER_NAME = 0, EXTENSION_ALPN = 16, EXTENSION_ECH = 0xfe0d, ECH_OUTER = 0, NAME_HOST = 0 };

static unsigned number16(const uint8_t *p) {
        return (unsigned)p[0] << 8 | p[1];
}

/* Inside a message whose records are known to be there. A read past the block's end marks it bad and gives zeros. */
struct cursor {
        const uint8_t *at; /* next byte, or the next record's header when record is 0 */
        size_t record;     /* left of this record */
        size_t left;       /* left of the block that is being read */
        bool bad;
};

static size_t step(struct cursor *c, size_t size) {
        size_t n;

        if (c->record == 0) {
                c->record = number16(c->at + 3);
                c->at += RECORD_HEADER;
        }
        n = MIN(size, c->record);
        c->at += n;
        c->record -= n;
        c->left -= n;
        return n;
}

/* ret may be NULL: skipped. */
static void take(struct cursor *c, void *ret, size_t size) {
        uint8_t *out = ret;

        if (c->bad || size > c->left) {
                c->bad = true;
                if (out)
                        memset(out, 0, size);
                return;
        }
        while (size > 0) {
                size_t n = step(c, size);

                if (out) {
                        memcpy(out, c->at - n, n);
                        out += n;
                }
                size -= n;
        }
}

static unsigned take_number(struct cursor *c, size_t size) {
        uint8_t bytes[4] = {0};
        unsigned value = 0;

        take(c, bytes, size);
        for (size_t i = 0; i < size; i++)
                value = value << 8 | bytes[i];
        return value;
}

/* Goes into a block that begins with its length (of `width` bytes); leave with the result. */
static size_t enter(struct cursor *c, size_t width) {
        size_t size = take_number(c, width), outer;

        if (size > c->left) {
                c->bad = true;
                size = c->left;
        }
        outer = c->left - size;
        c->left = size;
        return outer;
}

static void leave(struct cursor *c, size_t outer) {
        if (c->left > 0)
                c->bad = true;
        c->left = outer;
}

/* Over a block of at least min and at most max bytes, in units of so many. */
static void skip_block(struct cursor *c, size_t width, size_t min, size_t max, size_t unit) {
        size_t outer = enter(c, width);

        if (c->left < min || c->left > max || c->left % unit != 0)
                c->bad = true;
        take(c, NULL, c->left);
        leave(c, outer);
}

/* Exactly one name of the one kind that there is. */
static void read_server_name(struct cursor *c, struct hello *h) {
        char name[HOSTNAME_SIZE];
        size_t list = enter(c, 2), size, outer;

        if (take_number(c, 1) != NAME_HOST)
                c->bad = true;
        outer = enter(c, 2);
        size = c->left;
        if (size == 0)
                c->bad = true;
        h->named = true;
        if (size < sizeof name)
                take(c, name, size);
        else
                take(c, NULL, size);
        if (c->bad || size >= sizeof name || hostname_canonical(name, size, h->name) < 0)
                h->name[0] = '\0';
        leave(c, outer);
        leave(c, list);
}

/* Values that clients put in only so that servers stay tolerant (RFC 8701): 0x0a0a, 0x1a1a, … */
static bool is_grease(const uint8_t *p, size_t size) {
        return size == 2 && p[0] == p[1] && (p[0] & 0x0f) == 0x0a;
}

static bool is_protocol(const uint8_t *p, size_t size, const char *name) {
        return size == strlen(name) && memcmp(p, name, size) == 0;
}

static void read_alpn(struct cursor *c, struct hello *h) {
        uint8_t protocol[255];
        size_t list = enter(c, 2);

        if (c->left == 0)
                c->bad = true;
        while (c->left > 0 && !c->bad) {
                size_t outer = enter(c, 1), size = c->left;

                if (size == 0)
                        c->bad = true;
                take(c, protocol, size);
                leave(c, outer);
                if (is_protocol(protocol, size, "http/1.1") || is_protocol(protocol, size, "http/1.0"))
                        h->alpn_http1 = true;
                else if (is_protocol(protocol, size, "h2"))
                        h->alpn_h2 = true;
                else if (is_protocol(protocol, size, "acme-tls/1"))
                        h->acme = true;
                else if (!is_grease(protocol, size))
                        h->alpn_other = true;
        }
        leave(c, list);
}

/* What drafts of the encrypted hello used; a server may still speak one. */
static bool is_encrypted_hello(unsigned type) {
        return (type >= 0xfe08 && type <= EXTENSION_ECH) || type == 0xff02 || type == 0xffce;
}

static void read_extension(struct cursor *c, struct hello *h, bool *alpn) {
        unsigned type = take_number(c, 2);
        size_t outer = enter(c, 2);

        if (type == EXTENSION_SERVER_NAME) {
                if (h->named)
                        c->bad = true;
                read_server_name(c, h);
        } else if (type == EXTENSION_ALPN) {
                if (*alpn)
                        c->bad = true;
                *alpn = true;
                read_alpn(c, h);
        } else if (is_encrypted_hello(type)) {
                /* the inner form belongs inside an encrypted one, never on the wire */
                if (h->encrypted || (type == EXTENSION_ECH && take_number(c, 1) != ECH_OUTER))
                        c->bad = true;
                h->encrypted = true;
                take(c, NULL, c->left);
        } else
                take(c, NULL, c->left);
        leave(c, outer);
}

static bool read_message(struct cursor *c, struct hello *h) {
        bool alpn = false;
        size_t outer;

        take(c, NULL, MESSAGE_HEADER);
        if (take_number(c, 2) >> 8 != 3) /* version */
                return false;
        take(c, NULL, RANDOM_SIZE);
        skip_block(c, 1, 0, SESSION_MAX, 1);
        skip_block(c, 2, 2, UINT16_MAX, 2); /* cipher suites */
        skip_block(c, 1, 1, UINT8_MAX, 1);  /* compression */
        if (c->bad || c->left == 0)
                return !c->bad; /* before TLS 1.3 extensions are optional */
        outer = enter(c, 2);
        while (c->left > 0 && !c->bad)
                read_extension(c, h, &alpn);
        leave(c, outer);
        return !c->bad && c->left == 0;
}

/* SSL 2's hello, in which TLS can be asked for: length with its top bit set, 1, version. */
static enum hello_result old_hello(const uint8_t *bytes, size_t size) {
        if (!(bytes[0] & 0x80))
                return HELLO_NOT_TLS;
        if ((size > 2 && bytes[2] != MESSAGE_CLIENT_HELLO) || (size > 3 && bytes[3] != 3 && bytes[3] != 0))
                return HELLO_NOT_TLS;
        if (size < 5)
                return HELLO_MORE;
        return bytes[3] == 3 || bytes[4] == 2 ? HELLO_BAD : HELLO_NOT_TLS;
}

/* Hops over the records. DONE: *ret bytes of message, header included, are there. */
static enum hello_result gather(const uint8_t *bytes, size_t size, size_t *ret) {
        uint8_t header[MESSAGE_HEADER];
        size_t have = 0, need = MESSAGE_HEADER, at = 0;

        for (unsigned records = 0; have < need; records++) {
                const uint8_t *p = bytes + at;
                size_t left = size - at, length, here;

                if (records == HELLO_RECORDS_MAX || (left > 0 && p[0] != CONTENT_HANDSHAKE) ||
                    (left > 1 && p[1] != 3) || (left > 2 && p[2] > 4))
                        return HELLO_BAD;
                if (left < RECORD_HEADER)
                        return HELLO_MORE;
                length = number16(p + 3);
                if (length == 0 || length > RECORD_MAX)
                        return HELLO_BAD;
                here = MIN(length, left - RECORD_HEADER);
                for (size_t i = 0; i < here && have + i < sizeof header; i++)
                        header[have + i] = p[RECORD_HEADER + i];
                have += here;
                if (have > 0 && header[0] != MESSAGE_CLIENT_HELLO)
                        return HELLO_BAD;
                if (have >= sizeof header)
                        need = sizeof header + ((size_t)header[1] << 16 | number16(header + 2));
                if (need > HELLO_MAX)
                        return HELLO_BAD;
                if (here < length && have < need)
                        return HELLO_MORE;
                at += RECORD_HEADER + here;
        }
        *ret = need;
        return HELLO_DONE;
}

enum hello_result hello_parse(const uint8_t *bytes, size_t size, struct hello *ret) {
        enum hello_result r;
        struct cursor c = {.at = bytes};
        struct hello h = {0};

        if (size == 0)
                return HELLO_MORE;
        if (bytes[0] != CONTENT_HANDSHAKE)
                return old_hello(bytes, size);
        if (size > 1 && bytes[1] != 3)
                return HELLO_NOT_TLS;
        r = gather(bytes, MIN(size, (size_t)HELLO_MAX), &c.left);
        if (r == HELLO_MORE && size >= HELLO_MAX)
                return HELLO_BAD;
        if (r != HELLO_DONE)
                return r;
        if (!read_message(&c, &h))
                return HELLO_BAD;
        *ret = h;
        return HELLO_DONE;
}

void hello_alert(uint8_t description, uint8_t ret[HELLO_ALERT_SIZE]) {
        const uint8_t record[HELLO_ALERT_SIZE] = {CONTENT_ALERT, 3, 3, 0, 2, ALERT_FATAL, description};

        memcpy(ret, record, sizeof record);
}
