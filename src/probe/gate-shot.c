/* Many short conversations at once, over one poll loop, and the small protocols that they speak. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/gate.h"

#define SILENCE_MS 25 /* after an answer, this much silence ends the conversation */

static struct shot shots[SHOTS_MAX];
static size_t count;
static uint8_t room[512 << 10];
static size_t used;

const char *gate_mark(void) {
        static char text[80];

        (void)snprintf(text, sizeof text, "attempt=%s", probe_name());
        return text;
}

const char *gate_control(void) {
        static char text[80];

        (void)snprintf(text, sizeof text, "attempt=%s-control", probe_name());
        return text;
}

const char *gate_good(void) {
        const char *name = probe_fact("good-name");

        return name ? name : "good.invalid";
}

const char *gate_evil(void) {
        const char *name = probe_fact("evil-name");

        return name ? name : "evil.invalid";
}

bool gate_outside(void) {
        return probe_fact("control") != NULL;
}

static socklen_t parse(const char *text, unsigned port, struct sockaddr_storage *ret) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

        memset(ret, 0, sizeof *ret);
        if (text && inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
                v4->sin_family = AF_INET;
                v4->sin_port = htons((uint16_t)port);
                return sizeof *v4;
        }
        if (text && inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
                v6->sin6_family = AF_INET6;
                v6->sin6_port = htons((uint16_t)port);
                return sizeof *v6;
        }
        return 0;
}

struct shot *shot_bytes(const char *address, unsigned port, const void *bytes, size_t size) {
        struct sockaddr_storage to;
        socklen_t n = parse(address, port, &to);

        if (n == 0 || count >= SHOTS_MAX || size > sizeof room - used)
                return NULL;
        memcpy(room + used, bytes, size);
        shots[count] = (struct shot){.to = to, .to_size = n, .data = room + used, .size = size, .fd = -EBADF};
        used += size;
        return &shots[count++];
}

_printf_(3, 0) static struct shot *shot_format(const char *address, unsigned port, const char *format, va_list args) {
        char text[4096];
        int n = vsnprintf(text, sizeof text, format, args);

        return n < 0 || (size_t)n >= sizeof text ? NULL : shot_bytes(address, port, text, (size_t)n);
}

struct shot *shot_text(const char *address, unsigned port, const char *format, ...) {
        va_list args;

        va_start(args, format);
        struct shot *s = shot_format(address, port, format, args);
        va_end(args);
        return s;
}

/* The explicit proxy as the environment inside names it. Outside, the caller's own is nobody's business. */
static const char *proxy(unsigned *ret_port) {
        static char address[INET6_ADDRSTRLEN];
        const char *text = gate_outside() ? NULL : getenv("http_proxy");

        if (!text || sscanf(text, "http://%45[^:/]:%u", address, ret_port) != 2)
                return NULL;
        return address;
}

struct shot *shot_proxy(const void *bytes, size_t size) {
        unsigned port = 0;
        const char *address = proxy(&port);

        return address ? shot_bytes(address, port, bytes, size) : NULL;
}

struct shot *shot_proxy_text(const char *format, ...) {
        unsigned port = 0;
        const char *address = proxy(&port);
        va_list args;

        va_start(args, format);
        struct shot *s = address ? shot_format(address, port, format, args) : NULL;
        va_end(args);
        return s;
}

struct shot *shot_get(const char *address, unsigned port, const char *host, bool control) {
        const char *mark = control ? gate_control() : gate_mark();
        struct shot *s = shot_text(address, port, GATE_GET, mark, host);

        if (s)
                s->control = control;
        return s;
}

static void end(struct shot *s, int error) {
        s->over = true;
        s->error = s->error ? s->error : error;
        if (s->fd >= 0)
                (void)close(s->fd);
        s->fd = -EBADF;
}

static void begin(struct shot *s) {
        int one = 1;

        s->fd = socket(s->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s->fd < 0 || (connect(s->fd, (struct sockaddr *)&s->to, s->to_size) < 0 && errno != EINPROGRESS))
                end(s, errno);
        else
                (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void give(struct shot *s) {
        size_t left = s->size - s->sent, n = s->piece && s->piece < left ? s->piece : left;
        ssize_t sent = send(s->fd, s->data + s->sent, n, MSG_NOSIGNAL);

        if (sent >= 0)
                s->sent += (size_t)sent;
        else if (errno != EAGAIN && s->error == 0) {
                s->error = errno;
                s->sent = s->size; /* an answer may be there all the same */
        }
}

static void take(struct shot *s) {
        char dropped[512];
        bool full = s->got >= SHOT_REPLY;
        ssize_t n = full ? recv(s->fd, dropped, sizeof dropped, 0)
                         : recv(s->fd, s->reply + s->got, SHOT_REPLY - s->got, 0);

        if (n > 0 && !full)
                s->got += (size_t)n;
        else if (n == 0 || (n < 0 && errno != EAGAIN))
                end(s, n == 0 ? 0 : errno);
}

uint64_t gate_now(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One round over all that are open. Returns how many still are, and whether anything happened. */
static size_t round_of(unsigned wait, bool *ret_event) {
        struct pollfd list[SHOTS_MAX];
        size_t which[SHOTS_MAX], n = 0;

        for (size_t i = 0; i < count; i++)
                if (!shots[i].over) {
                        bool more = shots[i].sent < shots[i].size;
                        list[n] = (struct pollfd){.fd = shots[i].fd, .events = (short)(POLLIN | (more ? POLLOUT : 0))};
                        which[n++] = i;
                }
        *ret_event = n > 0 && poll(list, n, (int)wait) > 0;
        for (size_t i = 0; *ret_event && i < n; i++) {
                struct shot *s = &shots[which[i]];
                if (list[i].revents & (POLLIN | POLLERR | POLLHUP))
                        take(s);
                if (!s->over && (list[i].revents & POLLOUT) && s->sent < s->size)
                        give(s);
        }
        return n;
}

static bool all_answered(void) {
        for (size_t i = 0; i < count; i++)
                if (!shots[i].over && shots[i].got == 0)
                        return false;
        return true;
}

/* The judge's servers say which attempt they take it for. */
static bool is_answer(const struct shot *s) {
        char line[80];
        int n = snprintf(line, sizeof line, "\nattempt=%s\n", probe_name());

        return memmem(s->reply, s->got, line, (size_t)n) != NULL;
}

static void sum_up(struct result *r) {
        unsigned answered = 0, tried = 0, told = 0, controls = 0;
        int error = 0;
        const char *words = "";

        for (size_t i = 0; i < count; i++) {
                struct shot *s = &shots[i];

                s->reply[s->got] = '\0';
                if (s->control) {
                        controls++;
                        continue;
                }
                tried++;
                answered += is_answer(s);
                told += s->got > 0;
                if (s->error)
                        error = s->error;
                if (s->got > 0 && !words[0])
                        words = s->reply;
        }
        if (tried == 0)
                probe_note(r, "%s", controls ? "nothing but controls" : "there is nobody to talk to here");
        else if (answered > 0)
                probe_done(r, "%u of %u answered by a server: %.120s", answered, tried, words);
        else if (told > 0)
                probe_refused(r, EACCES, "%u conversations, %u told no: %.60s", tried, told,
                              (unsigned char)words[0] >= ' ' ? words : "(bytes)");
        else
                probe_refused(r, error ? error : ECONNRESET, "%u conversations, %s", tried,
                              error ? strerror(error) : "each was closed without an answer");
}

static void converse(unsigned ms) {
        uint64_t deadline = gate_now() + ms;
        bool event = false;

        for (size_t i = 0; i < count; i++)
                begin(&shots[i]);
        while (gate_now() < deadline) {
                unsigned wait = all_answered() ? SILENCE_MS : (unsigned)(deadline - gate_now());
                if (round_of(wait, &event) == 0 || (!event && all_answered()))
                        break;
        }
        for (size_t i = 0; i < count; i++)
                if (!shots[i].over)
                        end(&shots[i], shots[i].got ? 0 : ETIMEDOUT);
}

void shots_fire(struct result *r, unsigned ms) {
        converse(ms);
        sum_up(r);
        count = used = 0;
}

void shots_print(unsigned ms) {
        converse(ms);
        for (size_t i = 0; i < count; i++)
                (void)fd_write_full(STDOUT_FILENO, shots[i].reply, shots[i].got);
        count = used = 0;
}

size_t gate_question(uint8_t *buf, size_t size, const char *name, unsigned type) {
        static const uint8_t head[12] = {0x5a, 0xa5, 1, 0, 0, 1};
        size_t at = sizeof head;

        if (size < sizeof head + strlen(name) + 6)
                return 0;
        memcpy(buf, head, sizeof head);
        while (*name) {
                size_t n = strcspn(name, ".");
                if (n > 0) {
                        buf[at++] = (uint8_t)n;
                        memcpy(buf + at, name, n);
                        at += n;
                }
                name += n + (name[n] == '.');
        }
        const uint8_t tail[] = {0, (uint8_t)(type >> 8), (uint8_t)type, 0, 1};
        memcpy(buf + at, tail, sizeof tail);
        return at + sizeof tail;
}

ssize_t gate_datagram(const char *address, unsigned port, const void *bytes, size_t size, void *answer,
                      size_t answer_room, unsigned ms) {
        struct sockaddr_storage to;
        socklen_t n = parse(address, port, &to);
        _cleanup_fd_ int fd = n ? socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -EBADF;
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (fd < 0 || connect(fd, (struct sockaddr *)&to, n) < 0 || send(fd, bytes, size, 0) < 0)
                return n ? -errno : -EINVAL;
        if (poll(&p, 1, (int)ms) <= 0)
                return -ETIMEDOUT;
        ssize_t got = recv(fd, answer, answer_room, 0);
        return got < 0 ? -errno : got;
}

static const char *name_server(void) {
        static char address[64];
        char text[1024], *line;
        ssize_t n = fd_read_at(AT_FDCWD, "/etc/resolv.conf", text, sizeof text);

        if (gate_outside() || n <= 0 || !(line = strstr(text, "nameserver ")) ||
            sscanf(line, "nameserver %63s", address) != 1)
                return probe_fact("dns-address");
        return address;
}

void gate_lookup(const char *name, int family, char *ret, size_t size) {
        uint8_t ask[512], answer[1024];
        size_t length = gate_question(ask, sizeof ask, name, family == AF_INET ? 1 : 28);
        size_t width = family == AF_INET ? 4 : 16;
        const char *server = name_server();
        ssize_t n = server && length ? gate_datagram(server, 53, ask, length, answer, sizeof answer, 1000) : -1;

        ret[0] = '\0';
        /* the first record of an answer, where its name is a pointer: enough for our own servers */
        for (size_t at = length; n > 0 && at + 12 <= (size_t)n;) {
                size_t data = (size_t)answer[at + 10] << 8 | answer[at + 11];
                if ((answer[at] & 0xc0) != 0xc0 || at + 12 + data > (size_t)n)
                        return;
                if (data == width && answer[at + 3] == (family == AF_INET ? 1 : 28)) {
                        (void)inet_ntop(family, answer + at + 12, ret, (socklen_t)size);
                        return;
                }
                at += 12 + data;
        }
}

static size_t put16(uint8_t *to, size_t value) {
        to[0] = (uint8_t)(value >> 8);
        to[1] = (uint8_t)value;
        return 2;
}

size_t gate_hello(uint8_t *buf, size_t size, const char *const *names, const char *mark) {
        uint8_t list[1024], *e = buf;
        size_t n = 0, length = strlen(mark);

        for (; *names; names++) {
                size_t one = strlen(*names);
                if (n + one + 3 > sizeof list)
                        return 0;
                list[n++] = 0;
                n += put16(list + n, one);
                memcpy(list + n, *names, one);
                n += one;
        }
        if (size < 256 + n + length)
                return 0;
        memset(buf, 0, 256 + n + length);
        buf[0] = 1;                                              /* a hello; its length comes last */
        buf[4] = buf[5] = 3;                                     /* TLS 1.2, and 32 bytes that should be random */
        e = buf + 38;                                            /* no session */
        memcpy(e, "\0\0\x06\x13\x01\x13\x02\xc0\x2f\x01\0", 11); /* three ciphers, no compression */
        e += 11;
        uint8_t *extensions = e;
        e += 2;
        if (n > 0) {
                e += put16(e, 0);
                e += put16(e, n + 2);
                e += put16(e, n);
                memcpy(e, list, n);
                e += n;
        }
        memcpy(e, "\0\x2b\0\x03\x02\x03\x04\0\x0a\0\x04\0\x02\0\x1d\0\x0d\0\x04\0\x02\x04\x03", 23);
        e += 23;
        e += put16(e, 0x4a4a); /* an extension that nobody knows, as browsers send them */
        e += put16(e, length);
        memcpy(e, mark, length);
        e += length;
        (void)put16(extensions, (size_t)(e - extensions) - 2);
        (void)put16(buf + 2, (size_t)(e - buf) - 4);
        return (size_t)(e - buf);
}

size_t gate_records(uint8_t *buf, size_t size, const uint8_t *handshake, size_t length, size_t record) {
        size_t at = 0;

        while (length > 0) {
                size_t n = length < record ? length : record;
                if (size - at < n + 5)
                        return 0;
                memcpy(buf + at, "\x16\x03\x01", 3);
                (void)put16(buf + at + 3, n);
                memcpy(buf + at + 5, handshake, n);
                at += n + 5;
                handshake += n;
                length -= n;
        }
        return at;
}

size_t gate_socks(uint8_t *buf, size_t size, unsigned type, const void *host, size_t length, unsigned port) {
        const uint8_t head[] = {5, 1, 0, 5, 1, 0, (uint8_t)type, (uint8_t)length};
        size_t at = type == 3 ? 8 : 7;

        if (size < at + length + 2 || length > 255)
                return 0;
        memcpy(buf, head, at);
        memcpy(buf + at, host, length);
        return at + length + put16(buf + at + length, port);
}

const char *gate_good_address(void) {
        static char text[INET6_ADDRSTRLEN];

        gate_lookup(gate_good(), AF_INET, text, sizeof text);
        return text;
}

void shot_good(void) {
        (void)shot_get(gate_good_address(), 80, gate_good(), true);
}
