/* Messages between a gate and its keeper. One table says which fields a kind of message has; writing and reading both
 * follow it, so they cannot differ.
 *
 * What always holds: a message that gate_read lets through is whole, has nothing after its end, and every number and
 * text in it was checked. Texts are printable ASCII: whatever bytes a sandbox used as a name, a terminal or a record
 * never sees them. The blob of a message (rules, a secret's value) is never copied here: it goes to the kernel from
 * where the caller keeps it, so there is no second copy of a secret to forget. */
#include "wire/gate.h"

#include "wire/packet.h"

#define HEAD_MAX 2048 /* everything of a message but its blob */

enum shape {
        SHAPE_NUMBER, /* of 2, 4 or 8 bytes, by its size in the struct */
        SHAPE_COPIED, /* text in an array of the struct */
        SHAPE_TEXT,   /* text that stays in the packet */
        SHAPE_BLOB,   /* bytes that stay in the packet; always the last field */
};

struct field {
        enum shape shape;
        size_t at;      /* in struct gate_message */
        size_t room;    /* bytes of the number; of a text with its NUL; of a blob */
        size_t size_at; /* where a blob's size is */
};

#define NUMBER(member)                                                                                                 \
        { SHAPE_NUMBER, offsetof(struct gate_message, member), sizeof(((struct gate_message *)0)->member), 0 }
#define COPIED(member)                                                                                                 \
        { SHAPE_COPIED, offsetof(struct gate_message, member), sizeof(((struct gate_message *)0)->member), 0 }
#define TEXT(member, max)                                                                                              \
        { SHAPE_TEXT, offsetof(struct gate_message, member), max, 0 }
#define BLOB(member, max)                                                                                              \
        { SHAPE_BLOB, offsetof(struct gate_message, member), max, offsetof(struct gate_message, member##_size) }
#define FIELDS_MAX 12 /* more than any kind has */

/* Each kind's fields, up to the first that has no room. */
static const struct field kinds[][FIELDS_MAX] = {
        [GATE_ADD] = {NUMBER(flags), NUMBER(fds), NUMBER(limits.connections), NUMBER(limits.lookups),
                      NUMBER(limits.bandwidth), NUMBER(limits.egress)},
        [GATE_RULES] = {NUMBER(token), BLOB(rules, RULES_MAX_SIZE)},
        [GATE_SECRET] = {TEXT(name, GATE_NAME_SIZE), TEXT(holder, GATE_HOLDER_SIZE), BLOB(value, GATE_SECRET_MAX)},
        [GATE_REMOVE] = {},
        [GATE_FLUSH] = {NUMBER(token)},
        [GATE_READY] = {},
        [GATE_AUTHORITY] = {},
        [GATE_APPLIED] = {NUMBER(token), NUMBER(closed)},
        [GATE_EVENT] = {NUMBER(event.reason), NUMBER(event.count), NUMBER(event.sent), NUMBER(event.received),
                        NUMBER(event.port), NUMBER(event.rule), COPIED(event.host), COPIED(event.method),
                        COPIED(event.path), COPIED(event.detail)},
        [GATE_FLUSHED] = {NUMBER(token), NUMBER(totals.connections), NUMBER(totals.refused), NUMBER(totals.lookups),
                          NUMBER(totals.lookups_refused), NUMBER(totals.sent), NUMBER(totals.received),
                          NUMBER(totals.active)},
        [GATE_FAILED] = {TEXT(text, GATE_TEXT_SIZE)},
};
static_assert(ELEMENTSOF(kinds) == GATE_KIND_COUNT, "every kind has a row");
static_assert(sizeof(enum gate_reason) == 4, "an enum is a number of 4 bytes");
static_assert(HEAD_MAX > sizeof(struct gate_message) + GATE_TEXT_SIZE, "a head holds whatever a kind has");
static_assert(GATE_PACKET_MAX > HEAD_MAX + RULES_MAX_SIZE, "a packet holds a set of rules");

static bool printable(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (text[i] < 0x20 || text[i] > 0x7e)
                        return false;
        return true;
}

static bool variable_name(const char *text) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

        return text[0] && !(text[0] >= '0' && text[0] <= '9') && text[strspn(text, letters)] == '\0' &&
               strlen(text) < GATE_NAME_SIZE;
}

/* One word, so that it is found again where programs put it. Only a message that wipes a secret can do without. */
static bool holder(const char *text, bool needed) {
        size_t n = strlen(text);

        return n < GATE_HOLDER_SIZE && printable(text, n) && !strchr(text, ' ') && (n > 0 || !needed);
}

/* What the fields of a message have to be, beyond fitting. Both ends ask: the sender so that its own mistakes show
 * where they are made. */
static int check(const struct gate_message *m) {
        if (m->ward >= GATE_WARDS_MAX)
                return -EBADMSG;
        switch (m->kind) {
        case GATE_ADD:
                return m->flags & ~(uint32_t)GATE_WARD_LEARN || m->fds >> GATE_FD_COUNT ? -EBADMSG : 0;
        case GATE_RULES:
                return rules_check(m->rules, m->rules_size, NULL) < 0 ? -EBADMSG : 0;
        case GATE_SECRET:
                return variable_name(m->name) && holder(m->holder, m->value_size > 0) ? 0 : -EBADMSG;
        case GATE_READY:
                return m->ward != 0 ? -EBADMSG : 0;
        case GATE_EVENT:
                return (unsigned)m->event.reason >= GATE_REASON_COUNT || m->event.rule < -1 ? -EBADMSG : 0;
        case GATE_REMOVE:
        case GATE_FLUSH:
        case GATE_AUTHORITY:
        case GATE_APPLIED:
        case GATE_FLUSHED:
        case GATE_FAILED:
                return 0;
        case GATE_KIND_COUNT:
        default:
                return -EBADMSG;
        }
}

/* How many descriptors come with it: never fewer, never more. */
static size_t fds_of(const struct gate_message *m) {
        return m->kind == GATE_ADD ? (size_t)__builtin_popcount(m->fds) : m->kind == GATE_AUTHORITY ? GATE_CA_COUNT : 0;
}

static bool known(uint32_t kind) {
        return kind >= GATE_ADD && kind < GATE_KIND_COUNT;
}

/* Cut to what fits; bytes that do not print become '?', which no name has. */
static void put_text(struct buf *b, const char *text, size_t room) {
        char clean[MAX(HOSTNAME_SIZE, GATE_TEXT_SIZE)];
        size_t n = text ? strnlen(text, MIN(room, sizeof clean) - 1) : 0;

        for (size_t i = 0; i < n; i++)
                clean[i] = printable(text + i, 1) ? text[i] : '?';
        clean[n] = '\0';
        wire_put_str(b, clean);
}

/* Writes everything but the blob's bytes, which *ret_blob then is. */
static void put_head(struct buf *b, const struct gate_message *m, struct iovec *ret_blob) {
        const uint8_t *base = (const uint8_t *)m;

        wire_put_u32(b, m->kind);
        wire_put_u32(b, m->ward);
        for (const struct field *f = kinds[m->kind]; f->room; f++) {
                const void *at = base + f->at;
                const char *text;
                size_t size;

                switch (f->shape) {
                case SHAPE_NUMBER:
                        packet_put_number(b, at, f->room);
                        break;
                case SHAPE_COPIED:
                        put_text(b, at, f->room);
                        break;
                case SHAPE_TEXT:
                        memcpy(&text, at, sizeof text);
                        put_text(b, text, f->room);
                        break;
                case SHAPE_BLOB:
                        memcpy(&ret_blob->iov_base, at, sizeof ret_blob->iov_base);
                        memcpy(&size, base + f->size_at, sizeof size);
                        ret_blob->iov_len = size;
                        if (size > f->room)
                                b->failed = true;
                        wire_put_u32(b, (uint32_t)size);
                        buf_pad(b, 8);
                        break;
                }
        }
}

static void take_text(struct wire *w, const struct field *f, uint8_t *at) {
        const char *text = wire_str(w);
        size_t n = strlen(text);

        if (n >= f->room || !printable(text, n))
                w->failed = true;
        else if (f->shape == SHAPE_COPIED)
                memcpy(at, text, n + 1);
        else
                memcpy(at, &text, sizeof text);
}

int gate_read(const void *packet, size_t size, struct gate_message *ret) {
        struct wire w = {.start = packet, .size = size};
        struct gate_message m = {.kind = wire_u32(&w), .ward = wire_u32(&w)};

        if (!wire_ok(&w) || !known(m.kind))
                return -EBADMSG;
        for (const struct field *f = kinds[m.kind]; f->room; f++) {
                uint8_t *at = (uint8_t *)&m + f->at;

                if (f->shape == SHAPE_NUMBER) {
                        packet_take_number(&w, at, f->room);
                } else if (f->shape == SHAPE_BLOB) {
                        size_t n;
                        const void *blob = wire_blob(&w, &n);

                        if (n > f->room)
                                return -EBADMSG;
                        memcpy(at, &blob, sizeof blob);
                        memcpy((uint8_t *)&m + f->size_at, &n, sizeof n);
                } else {
                        take_text(&w, f, at);
                }
        }
        if (!wire_ok(&w) || !wire_end(&w) || check(&m) < 0)
                return -EBADMSG;
        *ret = m;
        return 0;
}

int gate_send(int socket, const struct gate_message *m, const int *fds, size_t fd_count) {
        char head[HEAD_MAX];
        struct buf b = {.data = head, .room = sizeof head, .max = sizeof head - 1}; /* cannot grow, so is not freed */
        struct iovec parts[2] = {{.iov_base = head}};
        struct gate_message whole = *m;

        if (!known(m->kind))
                return -EINVAL;
        whole.name = m->name ? m->name : "";
        whole.holder = m->holder ? m->holder : "";
        if (check(&whole) < 0 || fd_count != fds_of(&whole))
                return -EINVAL;
        put_head(&b, &whole, &parts[1]);
        if (!buf_ok(&b))
                return -EMSGSIZE;
        parts[0].iov_len = b.size;
        return packet_send(socket, parts, ELEMENTSOF(parts), fds, fd_count);
}

int gate_receive(int socket, void *packet, struct gate_message *ret, int fds[GATE_FDS_MAX], size_t *ret_fd_count) {
        struct gate_message m;
        int arrived[GATE_FDS_MAX], r;
        size_t count = 0;
        bool lost = false;
        ssize_t n = packet_receive_anyway(socket, packet, GATE_PACKET_MAX, arrived, GATE_FDS_MAX, &count, &lost);

        if (n == -EBADMSG)
                explicit_bzero(packet, GATE_PACKET_MAX); /* it may have been a secret */
        if (n < 0 || (n == 0 && count == 0 && !lost))
                return (int)n;
        r = gate_read(packet, (size_t)n, &m);
        if (r == 0 && lost)
                r = m.kind == GATE_AUTHORITY ? -EMFILE : -EBADMSG;
        else if (r == 0 && count != fds_of(&m))
                r = -EBADMSG;
        if (r < 0) {
                explicit_bzero(packet, (size_t)n);
                packet_close(arrived, count);
                return r;
        }
        if (count > 0)
                memcpy(fds, arrived, count * sizeof *fds);
        *ret_fd_count = count;
        *ret = m;
        return 1;
}
