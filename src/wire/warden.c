/* Messages between the operator and the warden. One table says which fields a kind has, which flags, how many
 * descriptors; writing and reading both follow it, so they cannot differ.
 *
 * What always holds: a message that warden_read lets through is whole, has nothing after its end, every id in it is
 * one, and every text is a line that a terminal can be shown. Nothing is allocated. */
#include "wire/warden.h"

#include "base/text.h"
#include "wire/driver.h"
#include "wire/packet.h"

enum shape {
        SHAPE_END,
        SHAPE_NUMBER, /* of 4 or 8 bytes, by its size in the struct */
        SHAPE_ID,
        SHAPE_ID_OR_NONE,
        SHAPE_LAYERS, /* count, then ids */
        SHAPE_TEXT,   /* stays in the packet */
};

struct field {
        uint16_t shape, at, size;
};

#define AT(member)   (uint16_t) offsetof(struct warden_message, member)
#define ROOM(member) (uint16_t)sizeof(((struct warden_message *)0)->member)
#define NUMBER(member)                                                                                                 \
        { SHAPE_NUMBER, AT(member), ROOM(member) }
#define ID(member)                                                                                                     \
        { SHAPE_ID, AT(member), ROOM(member) }
#define MAYBE(member)                                                                                                  \
        { SHAPE_ID_OR_NONE, AT(member), ROOM(member) }
#define TEXT(member)                                                                                                   \
        { SHAPE_TEXT, AT(member), WARDEN_TEXT_SIZE }
#define LAYERS                                                                                                         \
        { SHAPE_LAYERS, AT(layers), ROOM(layers) }
#define USAGE                                                                                                          \
        NUMBER(usage.cpu_us), NUMBER(usage.memory_now), NUMBER(usage.memory_peak), NUMBER(usage.processes_now),        \
                NUMBER(usage.processes_peak), NUMBER(usage.read_bytes), NUMBER(usage.write_bytes),                     \
                NUMBER(usage.oom_kills), NUMBER(usage.fork_refusals), NUMBER(usage.throttled_us)
#define NUMBERS                                                                                                        \
        NUMBER(numbers[0]), NUMBER(numbers[1]), NUMBER(numbers[2]), NUMBER(numbers[3]), NUMBER(numbers[4]),            \
                NUMBER(numbers[5])
#define FIELDS_MAX 26 /* more than any kind has */

static const struct kind {
        const char *name;
        uint32_t flags;        /* those it may have */
        uint8_t fds, fds_most; /* descriptors that come with it */
        bool unasked;          /* has no serial number */
        struct field fields[FIELDS_MAX];
} kinds[] = {
        [WARDEN_HELLO] = {"hello", .fields = {NUMBER(version)}},
        [WARDEN_LIST] = {"list"},
        [WARDEN_START] = {"start", WARDEN_AUTHORITY, 1, 4,
                          .fields = {ID(id), NUMBER(driver), MAYBE(disk), MAYBE(image), LAYERS}},
        [WARDEN_CONNECT] = {"connect", .fields = {ID(id)}},
        [WARDEN_NETWORK] = {"network", .fields = {ID(id)}},
        [WARDEN_KEEP_KEY] = {"keep-key", 0, 1, 1, .fields = {ID(id)}},
        [WARDEN_LEAF] = {"leaf", .fields = {ID(id), NUMBER(run)}},
        [WARDEN_LEAF_END] = {"leaf-end", WARDEN_KILL, .fields = {ID(id), NUMBER(run)}},
        [WARDEN_USAGE] = {"usage", .fields = {ID(id), NUMBER(run)}},
        [WARDEN_FREEZE] = {"freeze", .fields = {ID(id)}},
        [WARDEN_THAW] = {"thaw", .fields = {ID(id)}},
        [WARDEN_STOP] = {"stop", WARDEN_ABANDON, .fields = {ID(id)}},
        [WARDEN_CUT] = {"cut", .fields = {ID(id)}},
        [WARDEN_GATE] = {"gate", WARDEN_AUTHORITY, .fields = {NUMBER(slot)}},
        [WARDEN_DISK_MAKE] = {"disk-make", .fields = {ID(id), NUMBER(size), NUMBER(inodes), NUMBER(owner)}},
        [WARDEN_DISK_DROP] = {"disk-drop", .fields = {ID(id)}},
        [WARDEN_DISK_CLONE] = {"disk-clone", WARDEN_FROZEN, .fields = {ID(id), ID(target), NUMBER(numbers[0])}},
        [WARDEN_DISK_SPACE] = {"disk-space", WARDEN_DURABLE, .fields = {ID(id)}},
        [WARDEN_DIFF] = {"diff", 0, 1, 1, .fields = {MAYBE(image), NUMBER(split), LAYERS}},
        [WARDEN_EXPORT] = {"export", 0, 1, 1, .fields = {MAYBE(image), LAYERS}},
        [WARDEN_IMPORT] = {"import", 0, 1, 1, .fields = {ID(id), NUMBER(size), NUMBER(inodes)}},
        [WARDEN_FLATTEN] = {"flatten", .fields = {ID(target), MAYBE(image), NUMBER(size), NUMBER(inodes), LAYERS}},
        [WARDEN_IMAGE] = {"image", 0, 1, 1, .fields = {ID(id), NUMBER(size), NUMBER(inodes), TEXT(text)}},
        [WARDEN_IMAGE_DROP] = {"image-drop", .fields = {ID(id)}},
        [WARDEN_POOL] = {"pool", .fields = {NUMBER(size), NUMBER(inodes), NUMBER(numbers[0])}},
        [WARDEN_DOWN] = {"down", WARDEN_KILL},
        [WARDEN_READ] = {"read", 0, 2, 2, .fields = {MAYBE(image), LAYERS}},
        [WARDEN_PAPER] = {"paper", .fields = {NUMBER(paper)}},
};

static const struct kind from_warden[] = {
        [WARDEN_ANSWER - WARDEN_ANSWER] = {"answer",
                                           WARDEN_AUTHORITY | WARDEN_NETWORKED | WARDEN_ROOTLESS | WARDEN_NO_FREEZE, 0,
                                           WARDEN_FDS_MAX,
                                           .fields = {NUMBER(error), NUMBER(version), NUMBER(pid), NUMBER(start_time),
                                                      NUMBERS, USAGE, TEXT(text), TEXT(hint)}},
        [WARDEN_ITEM -
                WARDEN_ANSWER] = {"item", WARDEN_FROZEN | WARDEN_READONLY | WARDEN_NETWORKED | WARDEN_IN_USE,
                                  .fields = {NUMBER(item), MAYBE(id), NUMBER(slot), NUMBER(pid), NUMBER(start_time),
                                             NUMBER(driver), MAYBE(disk), MAYBE(image), LAYERS, NUMBERS}},
        [WARDEN_GONE - WARDEN_ANSWER] = {"gone", .unasked = true, .fields = {ID(id), NUMBER(error), USAGE}},
        [WARDEN_GATE_GONE - WARDEN_ANSWER] = {"gate-gone", .unasked = true, .fields = {NUMBER(slot)}},
        [WARDEN_PRESSURE -
                WARDEN_ANSWER] = {"pressure", .unasked = true, .fields = {NUMBER(numbers[0]), NUMBER(numbers[1])}},
        [WARDEN_END - WARDEN_ANSWER] = {"end", .unasked = true},
};
static_assert(ELEMENTSOF(kinds) == WARDEN_KIND_COUNT, "every request has a row");
static_assert(ELEMENTSOF(from_warden) == WARDEN_FROM_END - WARDEN_ANSWER, "whatever the warden says has a row");
static_assert(sizeof(struct warden_message) < UINT16_MAX, "a field's place fits");
static_assert(ELEMENTSOF(((struct warden_message *)0)->numbers) == 6, "all numbers are in NUMBERS");
static_assert(sizeof(struct warden_usage) == 10 * sizeof(uint64_t), "all counters are in USAGE");
static_assert(WARDEN_FDS_MAX <= PACKET_FDS_MAX, "a packet carries them all");
static_assert(WARDEN_PACKED_MAX <= WARDEN_PACKET_MAX, "what is packed can be received");
static_assert(WARDEN_PACKED_MAX > WARDEN_LAYERS_MAX * (WARDEN_ID_SIZE + 4) + 2 * WARDEN_TEXT_SIZE + 1024,
              "a packet holds whatever a kind has");

bool warden_is_request(uint32_t kind) {
        return kind >= WARDEN_HELLO && kind < WARDEN_KIND_COUNT;
}

static const struct kind *find(uint32_t kind) {
        if (warden_is_request(kind))
                return &kinds[kind];
        return kind >= WARDEN_ANSWER && kind < WARDEN_FROM_END ? &from_warden[kind - WARDEN_ANSWER] : NULL;
}

const char *warden_kind_name(enum warden_kind k) {
        const struct kind *kind = find(k);

        return kind ? kind->name : "?";
}

bool warden_is_id(const char *text) {
        return strspn(text, "0123456789abcdef") == WARDEN_ID_SIZE - 1 && text[WARDEN_ID_SIZE - 1] == '\0';
}

/* What the fields of a message have to be, beyond fitting. Both ends ask: the sender so that its own mistakes show
 * where they are made. */
static bool check(const struct kind *k, const struct warden_message *m) {
        if (m->flags & ~k->flags || (m->serial == 0) != k->unasked)
                return false;
        switch ((int)m->kind) {
        case WARDEN_DIFF:
                return m->split <= m->layer_count;
        case WARDEN_GATE:
        case WARDEN_GATE_GONE:
                return m->slot < WARDEN_GATES_MAX;
        case WARDEN_LEAF:
        case WARDEN_LEAF_END:
                return m->run > 0;
        case WARDEN_FLATTEN:
                return m->layer_count > 0;
        case WARDEN_PAPER:
                return m->paper < WARDEN_PAPER_COUNT;
        case WARDEN_START:
                return m->driver < DRIVER_COUNT && (m->disk[0] || m->layer_count == 0); /* layers are below a disk */
        case WARDEN_ITEM:
                return m->item < WARDEN_ITEM_COUNT && m->driver < DRIVER_COUNT &&
                       (m->item == WARDEN_ITEM_GATE) == !m->id[0];
        default:
                return true;
        }
}

static bool fds_right(const struct kind *k, const struct warden_message *m, size_t count) {
        if (m->kind == WARDEN_START)
                return count == (m->flags & WARDEN_AUTHORITY ? k->fds_most : k->fds);
        return count >= k->fds && count <= k->fds_most;
}

static void put_id(struct buf *b, const char *id, bool needed) {
        if ((needed || id[0]) && !warden_is_id(id))
                b->failed = true;
        else
                wire_put_str(b, id);
}

static void put_text(struct buf *b, const char *text) {
        char clean[WARDEN_TEXT_SIZE];

        text_escape(clean, sizeof clean, text ? text : "");
        wire_put_str(b, clean);
}

static void put_field(struct buf *b, const struct warden_message *m, const struct field *f) {
        const uint8_t *at = (const uint8_t *)m + f->at;
        const char *text;

        switch ((enum shape)f->shape) {
        case SHAPE_END:
                return;
        case SHAPE_NUMBER:
                return packet_put_number(b, at, f->size);
        case SHAPE_ID:
        case SHAPE_ID_OR_NONE:
                return put_id(b, (const char *)at, f->shape == SHAPE_ID);
        case SHAPE_TEXT:
                memcpy(&text, at, sizeof text);
                return put_text(b, text);
        case SHAPE_LAYERS:
                if (m->layer_count > WARDEN_LAYERS_MAX) {
                        b->failed = true;
                        return;
                }
                wire_put_u32(b, m->layer_count);
                for (uint32_t i = 0; i < m->layer_count; i++)
                        put_id(b, m->layers[i], true);
        }
}

static void take_id(struct wire *w, char ret[WARDEN_ID_SIZE], bool needed) {
        const char *text = wire_str(w);

        if (warden_is_id(text))
                memcpy(ret, text, WARDEN_ID_SIZE);
        else if (needed || *text)
                w->failed = true;
}

/* In one form only: what text_escape leaves as it is. */
static void take_text(struct wire *w, void *at) {
        char clean[WARDEN_TEXT_SIZE];
        const char *text = wire_str(w);

        text_escape(clean, sizeof clean, text);
        if (!str_eq(clean, text))
                w->failed = true;
        memcpy(at, &text, sizeof text);
}

static void take_field(struct wire *w, struct warden_message *m, const struct field *f) {
        uint8_t *at = (uint8_t *)m + f->at;

        switch ((enum shape)f->shape) {
        case SHAPE_END:
                return;
        case SHAPE_NUMBER:
                return packet_take_number(w, at, f->size);
        case SHAPE_ID:
        case SHAPE_ID_OR_NONE:
                return take_id(w, (char *)at, f->shape == SHAPE_ID);
        case SHAPE_TEXT:
                return take_text(w, at);
        case SHAPE_LAYERS:
                m->layer_count = wire_u32(w);
                if (m->layer_count > WARDEN_LAYERS_MAX) {
                        w->failed = true;
                        return;
                }
                for (uint32_t i = 0; i < m->layer_count && wire_ok(w); i++)
                        take_id(w, m->layers[i], true);
        }
}

int warden_read(const void *packet, size_t size, struct warden_message *ret) {
        struct wire w = {.start = packet, .size = size};
        struct warden_message m = {
                .kind = wire_u32(&w), .serial = wire_u32(&w), .flags = wire_u32(&w), .text = "", .hint = ""};
        const struct kind *k = find(m.kind);

        if (!wire_ok(&w) || !k)
                return -EBADMSG;
        for (const struct field *f = k->fields; f->shape != SHAPE_END; f++)
                take_field(&w, &m, f);
        if (!wire_ok(&w) || !wire_end(&w) || !check(k, &m))
                return -EBADMSG;
        *ret = m;
        return 0;
}

ssize_t warden_pack(const struct warden_message *m, size_t fd_count, uint8_t ret[WARDEN_PACKED_MAX]) {
        struct buf b = {.data = (char *)ret, .room = WARDEN_PACKED_MAX, .max = WARDEN_PACKED_MAX - 1}; /* cannot grow */
        const struct kind *k = find(m->kind);

        if (!k || !check(k, m) || !fds_right(k, m, fd_count))
                return -EINVAL;
        wire_put_u32(&b, m->kind);
        wire_put_u32(&b, m->serial);
        wire_put_u32(&b, m->flags);
        for (const struct field *f = k->fields; f->shape != SHAPE_END; f++)
                put_field(&b, m, f);
        return buf_ok(&b) ? (ssize_t)b.size : -EINVAL;
}

int warden_send(int socket, const struct warden_message *m, const int *fds, size_t fd_count) {
        uint8_t bytes[WARDEN_PACKED_MAX];
        ssize_t n = warden_pack(m, fd_count, bytes);

        return n < 0 ? (int)n : packet_send(socket, &(struct iovec){bytes, (size_t)n}, 1, fds, fd_count);
}

int warden_receive(int socket, void *packet, struct warden_message *ret, int fds[WARDEN_FDS_MAX], size_t *ret_count) {
        struct warden_message m;
        size_t count = 0;
        bool lost = false;
        ssize_t n = packet_receive_anyway(socket, packet, WARDEN_PACKET_MAX, fds, WARDEN_FDS_MAX, &count, &lost);

        if (n < 0 || (n == 0 && count == 0 && !lost))
                return (int)n;
        int r = warden_read(packet, (size_t)n, &m);
        if (r == 0 && lost && m.kind == WARDEN_ANSWER) { /* what was asked for is there, and we cannot take it */
                m.error = -EMFILE;
                m.text = "no descriptor is left for what the warden sent";
                m.hint = "end some sandboxes and connections, or raise the limit of open files (LimitNOFILE)";
        } else if (r < 0 || lost || !fds_right(find(m.kind), &m, count)) {
                packet_close(fds, count);
                return -EBADMSG;
        }
        *ret_count = count;
        *ret = m;
        return 1;
}
