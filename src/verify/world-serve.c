/* What a client said, and what it is answered: HTTP, the beginning of TLS, and which attempt it is.
 *
 * The bytes come from a sandbox. Nothing here reads past what it is given, allocates, or does I/O. It is not an HTTP
 * server: it only has to see what arrived and to give a client reason to believe that somebody is there. */
#include <ctype.h>
#include <strings.h>

#include "verify/world-own.h"

void world_serve_printable(const void *data, size_t size, char *ret, size_t room) {
        const char *from = data;
        size_t n = MIN(size, room - 1);

        while (n > 0 && (from[n - 1] == '\n' || from[n - 1] == '\r'))
                n--;
        for (size_t i = 0; i < n; i++)
                ret[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : from[i] == '\n' || from[i] == '\r' ? ' ' : '.';
        ret[n] = '\0';
}

/* Copies a name of an attempt; whatever is none leaves "". */
static bool copy_attempt(const char *from, size_t size, char *ret, size_t room) {
        size_t n = 0;

        ret[0] = '\0';
        while (n < size && (islower((unsigned char)from[n]) || isdigit((unsigned char)from[n]) || from[n] == '-'))
                n++;
        if (n == 0 || n >= room)
                return false;
        memcpy(ret, from, n);
        ret[n] = '\0';
        return true;
}

void world_serve_attempt_of_name(const char *name, char *ret, size_t room) {
        size_t left;

        ret[0] = '\0';
        if (!world_dns_zone(name, &left) || left == 0)
                return;
        size_t start = left; /* the label next to the zone: what is before it may be data */
        while (start > 0 && name[start - 1] != '.')
                start--;
        if (!copy_attempt(name + start, left - start, ret, room) || strlen(ret) != left - start)
                ret[0] = '\0';
}

/* The value of Host in a head, in lower case and without its port. */
static void find_host(const char *head, size_t size, char *ret, size_t room) {
        static const char key[] = "\nhost:";
        size_t n = 0;

        ret[0] = '\0';
        for (size_t i = 0; i + sizeof key - 1 < size; i++) {
                if (strncasecmp(head + i, key, sizeof key - 1) != 0)
                        continue;
                for (i += sizeof key - 1; i < size && head[i] == ' '; i++)
                        ;
                for (; i < size && n + 1 < room && !memchr(":\r\n ", head[i], 4); i++)
                        ret[n++] = (char)tolower((unsigned char)head[i]);
                ret[n] = '\0';
                return;
        }
}

void world_serve_attempt(const char *nonce, const char *data, size_t size, char *ret, size_t room) {
        static const char mark[] = "attempt=";
        char host[256];
        size_t n = strlen(nonce);

        /* said in so many words, anywhere */
        const char *at = memmem(data, size, mark, sizeof mark - 1);
        if (at) {
                at += sizeof mark - 1;
                if (copy_attempt(at, size - (size_t)(at - data), ret, room))
                        return;
        }
        /* "TOKEN NAME": what comes without the token is nobody's */
        if (size > n + 1 && memcmp(data, nonce, n) == 0 && data[n] == ' ' &&
            copy_attempt(data + n + 1, size - n - 1, ret, room))
                return;
        find_host(data, size, host, sizeof host);
        world_serve_attempt_of_name(host, ret, room);
}

size_t world_serve_head(const char *data, size_t size) {
        const char *strict = memmem(data, size, "\r\n\r\n", 4), *loose = memmem(data, size, "\n\n", 2);

        if (loose && (!strict || loose < strict)) /* the first end counts: what follows is another request */
                return (size_t)(loose - data) + 2;
        return strict ? (size_t)(strict - data) + 4 : 0;
}

size_t world_serve_body(const char *head, size_t size, bool *ret_last) {
        static const char length[] = "\ncontent-length:", coding[] = "\ntransfer-encoding:",
                          end[] = "\nconnection: close";
        size_t body = 0;

        const char *line = memchr(head, '\n', size);
        *ret_last = !line || !memmem(head, (size_t)(line - head), " HTTP/1.1", 9);
        for (size_t i = 0; i < size; i++) {
                size_t left = size - i;

                if (head[i] != '\n')
                        continue;
                if ((left > sizeof coding && strncasecmp(head + i, coding, sizeof coding - 1) == 0) ||
                    (left > sizeof end && strncasecmp(head + i, end, sizeof end - 1) == 0))
                        *ret_last = true; /* what follows is not taken apart */
                if (left <= sizeof length || strncasecmp(head + i, length, sizeof length - 1) != 0)
                        continue;
                size_t k = i + sizeof length - 1;
                while (k < size && head[k] == ' ')
                        k++;
                for (body = 0; k < size && isdigit((unsigned char)head[k]) && body < SIZE_MAX / 16; k++)
                        body = body * 10 + (size_t)(head[k] - '0');
        }
        return body;
}

size_t world_serve_http(char *ret, size_t room, const char *server, const char *attempt, const char *head, size_t size,
                        bool redirect) {
        char said[160];

        int about = snprintf(said, sizeof said, "stockade-verify\nserver=%s\nattempt=%s\n", server, attempt);
        int n = snprintf(ret, room, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n%s\r\n%s",
                         redirect ? "302 Found" : "200 OK", (size_t)about + size,
                         redirect ? "Location: http://" WORLD_METADATA "/latest/meta-data/\r\n" : "", said);
        if (about < 0 || (size_t)about >= sizeof said || n < 0 || (size_t)n + size > room)
                return 0;
        memcpy(ret + n, head, size);
        return (size_t)n + size;
}

/* A cursor over a hello: every step is checked, and a false step makes all later ones false. */
struct cursor {
        const uint8_t *at;
        size_t left;
        bool bad;
};

static size_t take(struct cursor *c, size_t bytes) {
        size_t value = 0;

        if (c->bad || c->left < bytes) {
                c->bad = true;
                return 0;
        }
        for (size_t i = 0; i < bytes; i++)
                value = value << 8 | c->at[i];
        c->at += bytes;
        c->left -= bytes;
        return value;
}

static struct cursor part(struct cursor *c, size_t size) {
        struct cursor inner = {c->at, size, c->bad || size > c->left};

        if (inner.bad)
                c->bad = true;
        else {
                c->at += size;
                c->left -= size;
        }
        return inner;
}

/* What the records carry, one after the other: a hello may be in pieces. -EAGAIN: the last is not complete. */
static int join_records(const uint8_t *data, size_t size, uint8_t *ret, size_t room, size_t *ret_size) {
        size_t used = 0;

        for (size_t at = 0; at < size;) {
                if (data[at] != 22)
                        return -EINVAL;
                if (size - at < 5)
                        return -EAGAIN;
                size_t n = (size_t)data[at + 3] << 8 | data[at + 4];
                at += 5;
                size_t here = MIN(n, size - at);
                if (here > room - used)
                        return -EINVAL;
                memcpy(ret + used, data + at, here);
                used += here;
                at += here;
        }
        *ret_size = used;
        return 0;
}

/* The server's name among the extensions; "" if there is none. */
static void find_server(struct cursor extensions, char *ret, size_t room) {
        ret[0] = '\0';
        while (extensions.left > 0 && !extensions.bad) {
                size_t type = take(&extensions, 2);
                struct cursor body = part(&extensions, take(&extensions, 2));

                if (type != 0 || body.bad)
                        continue;
                (void)take(&body, 2 + 1); /* the list's length, a host name */
                struct cursor name = part(&body, take(&body, 2));
                if (!body.bad)
                        world_serve_printable(name.at, name.left, ret, room);
                for (char *p = ret; *p; p++)
                        *p = (char)tolower((unsigned char)*p);
                return;
        }
}

int world_serve_hello(const uint8_t *data, size_t size, char *ret, size_t room) {
        uint8_t joined[4096];
        size_t used = 0;

        int r = join_records(data, size, joined, sizeof joined, &used);
        if (r < 0)
                return r;
        if (used < 4)
                return -EAGAIN;
        struct cursor c = {joined, used, false};
        if (take(&c, 1) != 1)
                return -EINVAL;
        size_t length = take(&c, 3);
        if (length > c.left)
                return -EAGAIN;
        struct cursor hello = part(&c, length);
        (void)part(&hello, 2 + 32);          /* version, random */
        (void)part(&hello, take(&hello, 1)); /* session */
        (void)part(&hello, take(&hello, 2)); /* ciphers */
        (void)part(&hello, take(&hello, 1)); /* compression */
        struct cursor extensions = part(&hello, take(&hello, 2));
        if (hello.bad)
                return -EINVAL;
        find_server(extensions, ret, room);
        return 0;
}
