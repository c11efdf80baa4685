/* Frames between the operator and a guest. One table says which fields a kind has; writing and reading both follow it,
 * so they cannot differ.
 *
 * What always holds: a frame that guest_read lets through is whole, has nothing after its end, every number in it was
 * checked, and it has one form only. Sentences and command lines have no control bytes; paths may have any byte but
 * NUL, because files have. Nothing is allocated when reading. */
#include "wire/guest.h"

#include "wire/packet.h"

enum shape {
        SHAPE_NUMBER, /* of 2, 4 or 8 bytes, by its size in the struct */
        SHAPE_PATH,   /* text with any byte but NUL */
        SHAPE_TEXT,   /* text without control bytes */
        SHAPE_REST,   /* all bytes up to the end of the frame, at least one; always the last field */
        SHAPE_WORDS,  /* how many arguments and variables, then these; always the last field */
};

/* Small and without pointers: a guest is many processes, and a table that must be relocated is memory of each. */
struct field {
        uint16_t shape; /* enum shape */
        uint16_t at;    /* in struct guest_message */
        uint32_t room;  /* bytes of the number; of a text with its NUL; of the rest */
};

#define NUMBER(member)                                                                                                 \
        { SHAPE_NUMBER, offsetof(struct guest_message, member), sizeof(((struct guest_message *)0)->member) }
#define PATH(member)                                                                                                   \
        { SHAPE_PATH, offsetof(struct guest_message, member), GUEST_PATH_MAX }
#define TEXT                                                                                                           \
        { SHAPE_TEXT, offsetof(struct guest_message, text), GUEST_TEXT_MAX }
#define REST                                                                                                           \
        { SHAPE_REST, offsetof(struct guest_message, data), GUEST_DATA_MAX }
#define WORDS                                                                                                          \
        { SHAPE_WORDS, offsetof(struct guest_message, strings), GUEST_ARGS_MAX }
#define OLDEST NUMBER(oldest[0]), NUMBER(oldest[1]), NUMBER(oldest[2])
#define NEWEST NUMBER(newest[0]), NUMBER(newest[1]), NUMBER(newest[2])
#define USED   NUMBER(rusage.user_us), NUMBER(rusage.system_us), NUMBER(rusage.memory_peak)
static_assert(GUEST_STREAMS == 3, "OLDEST and NEWEST name every output");

#define FIELDS_MAX 16 /* more than any kind has */

struct kind {
        char name[12];
        uint32_t flags;                  /* that it may have */
        struct field fields[FIELDS_MAX]; /* up to the first that has no room */
};

static const struct kind kinds[] = {
        [GUEST_HELLO] = {"hello", 0, {NUMBER(version), NUMBER(features)}},
        [GUEST_DATA] = {"data", 0, {REST}},
        [GUEST_CREDIT] = {"credit", 0, {NUMBER(stream), NUMBER(offset)}},

        [GUEST_EXEC] = {"exec",
                        GUEST_TERMINAL | GUEST_STDIN,
                        {NUMBER(rows), NUMBER(cols), NUMBER(fds), PATH(path), WORDS}},
        [GUEST_INPUT] = {"input", 0, {REST}},
        [GUEST_INPUT_END] = {"input-end", 0, {}},
        [GUEST_SIGNAL] = {"signal", GUEST_TO_GROUP, {NUMBER(number)}},
        [GUEST_RESIZE] = {"resize", 0, {NUMBER(rows), NUMBER(cols)}},
        [GUEST_ATTACH] = {"attach", 0, {NUMBER(stream), NUMBER(offset)}},
        [GUEST_FORGET] = {"forget", 0, {}},
        [GUEST_LIST_RUNS] = {"list-runs", 0, {}},

        [GUEST_STAT] = {"stat", 0, {PATH(path)}},
        [GUEST_LIST] = {"list", 0, {PATH(path)}},
        [GUEST_READ] = {"read", 0, {NUMBER(offset), NUMBER(length), PATH(path)}},
        [GUEST_WRITE] = {"write", GUEST_NO_REPLACE | GUEST_PARENTS, {NUMBER(mode), PATH(path)}},
        [GUEST_MKDIR] = {"mkdir", GUEST_PARENTS, {NUMBER(mode), PATH(path)}},
        [GUEST_MOVE] = {"move", GUEST_NO_REPLACE, {PATH(path), PATH(target)}},
        [GUEST_REMOVE] = {"remove", GUEST_RECURSIVE, {PATH(path)}},
        [GUEST_TAR_OUT] = {"tar-out", 0, {PATH(path)}},
        [GUEST_TAR_IN] = {"tar-in", 0, {PATH(path)}},
        [GUEST_WATCH] = {"watch", GUEST_RECURSIVE, {PATH(path)}},
        [GUEST_CONNECT] = {"connect", 0, {NUMBER(port)}},
        [GUEST_PROCESSES] = {"processes", 0, {}},
        [GUEST_USAGE] = {"usage", 0, {PATH(path)}},
        [GUEST_FINISH] = {"finish", 0, {}},
        [GUEST_CANCEL] = {"cancel", 0, {}},
        [GUEST_WRITE_IF] = {"write-if", 0, {NUMBER(mode), NUMBER(size), NUMBER(time_ms), NUMBER(inode), PATH(path)}},
        [GUEST_LEAF_END] = {"leaf-end", GUEST_KILL, {NUMBER(run)}},

        [GUEST_STARTED] = {"started", 0, {NUMBER(number)}},
        [GUEST_OUTPUT] = {"output", 0, {NUMBER(stream), NUMBER(offset), REST}},
        [GUEST_EXITED] = {"exited", GUEST_OPEN, {NUMBER(number), NUMBER(error), USED, NEWEST, TEXT}},
        [GUEST_RUN] = {"run",
                       GUEST_TERMINAL | GUEST_STDIN | GUEST_ENDED | GUEST_OPEN,
                       {NUMBER(run), NUMBER(number), NUMBER(error), NUMBER(length), NUMBER(offset), USED, OLDEST,
                        NEWEST}},
        [GUEST_ENTRY] = {"entry",
                         0,
                         {NUMBER(mode), NUMBER(size), NUMBER(time_ms), NUMBER(inode), NUMBER(uid), NUMBER(gid),
                          PATH(path), PATH(target)}},
        [GUEST_CHANGE] = {"change", 0, {NUMBER(number), NUMBER(mode), PATH(path), PATH(target)}},
        [GUEST_OPENED] = {"opened", 0, {}},
        [GUEST_PROCESS] = {"process",
                           0,
                           {NUMBER(number), NUMBER(parent), NUMBER(mode), NUMBER(uid), NUMBER(size), NUMBER(time_ms),
                            NUMBER(rusage.user_us), NUMBER(rusage.system_us), TEXT}},
        [GUEST_END] = {"end",
                       0,
                       {NUMBER(error), NUMBER(numbers[0]), NUMBER(numbers[1]), NUMBER(numbers[2]), NUMBER(numbers[3]),
                        TEXT}},
};
static_assert(ELEMENTSOF(kinds) == GUEST_END + 1, "every kind has a row");
static_assert(GUEST_NUMBERS == 4 && (int)GUEST_LEAF_NUMBERS == (int)GUEST_NUMBERS, "END names every number");
static_assert(sizeof(enum guest_stream) == 4, "an enum is a number of 4 bytes");

static const struct kind *kind_of(uint32_t kind) {
        return kind < ELEMENTSOF(kinds) && kinds[kind].name[0] ? &kinds[kind] : NULL;
}

const char *guest_kind_name(enum guest_kind k) {
        const struct kind *kind = kind_of(k);

        return kind ? kind->name : "?";
}

static bool plain(const char *text) {
        for (const unsigned char *p = (const unsigned char *)text; *p; p++)
                if (*p < 0x20 || *p == 0x7f)
                        return false;
        return true;
}

static bool is_errno(int32_t error) {
        return error <= 0 && error >= -4095;
}

static bool ranges(const struct guest_message *m) {
        for (size_t i = 0; i < GUEST_STREAMS; i++)
                if (m->oldest[i] > m->newest[i])
                        return false;
        return true;
}

static bool type_bits(uint32_t mode) {
        return (mode & ~(uint32_t)0177777) == 0;
}

/* What the fields have to be, beyond fitting. Both ends ask: the writer so that its own mistakes show where they are
 * made. */
static bool right(const struct guest_message *m) {
        if ((m->channel == 0) != (m->kind == GUEST_HELLO))
                return false;
        switch (m->kind) {
        case GUEST_HELLO:
                return m->version > 0;
        case GUEST_CREDIT:
                return (unsigned)m->stream <= GUEST_OF_REQUEST && m->offset <= INT64_MAX;
        case GUEST_EXEC:
                return m->argc > 0 && m->fds <= GUEST_FDS_MAX && m->path[0] == '/';
        case GUEST_SIGNAL:
                return m->number >= 1 && m->number <= 64;
        case GUEST_ATTACH:
                return (unsigned)m->stream < GUEST_STREAMS && m->offset <= INT64_MAX;
        case GUEST_READ:
                return m->path[0] == '/' && m->offset <= INT64_MAX;
        case GUEST_WRITE:
        case GUEST_WRITE_IF:
        case GUEST_MKDIR:
                return m->path[0] == '/' && (m->mode & ~07777U) == 0;
        case GUEST_MOVE:
                return m->path[0] == '/' && m->target[0] == '/';
        case GUEST_STAT:
        case GUEST_LIST:
        case GUEST_REMOVE:
        case GUEST_TAR_OUT:
        case GUEST_TAR_IN:
        case GUEST_WATCH:
        case GUEST_USAGE:
                return m->path[0] == '/';
        case GUEST_LEAF_END:
                return m->run > 0;
        case GUEST_CONNECT:
                return m->port > 0;
        case GUEST_STARTED:
                return m->number > 0;
        case GUEST_OUTPUT:
                return (unsigned)m->stream < GUEST_STREAMS && m->offset <= INT64_MAX;
        case GUEST_EXITED:
                return is_errno(m->error);
        case GUEST_RUN:
                return m->run > 0 && is_errno(m->error) && m->length <= m->offset && ranges(m);
        case GUEST_ENTRY:
                return type_bits(m->mode);
        case GUEST_CHANGE:
                return m->number > 0 && m->number < GUEST_CHANGES && type_bits(m->mode);
        case GUEST_PROCESS:
                return m->number > 0 && m->parent >= 0 && m->mode >= 'A' && m->mode <= 'z';
        case GUEST_END:
                return is_errno(m->error);
        case GUEST_DATA:
        case GUEST_INPUT:
        case GUEST_INPUT_END:
        case GUEST_RESIZE:
        case GUEST_FORGET:
        case GUEST_LIST_RUNS:
        case GUEST_PROCESSES:
        case GUEST_FINISH:
        case GUEST_CANCEL:
        case GUEST_OPENED:
                return true;
        default:
                return false;
        }
}

static void put_list(struct buf *b, const char *const *list) {
        for (; list && *list; list++)
                wire_put_str(b, *list);
}

static uint32_t count_list(const char *const *list) {
        uint32_t count = 0;

        while (list && list[count])
                count++;
        return count;
}

static void put_field(struct buf *b, const struct guest_message *m, const struct field *f, const char *const *argv,
                      const char *const *envp) {
        const void *at = (const uint8_t *)m + f->at;
        const char *text;

        switch ((enum shape)f->shape) {
        case SHAPE_NUMBER:
                packet_put_number(b, at, f->room);
                break;
        case SHAPE_PATH:
        case SHAPE_TEXT:
                memcpy(&text, at, sizeof text);
                if (strlen(text) >= f->room || (f->shape == SHAPE_TEXT && !plain(text)))
                        b->failed = true;
                else
                        wire_put_str(b, text);
                break;
        case SHAPE_REST:
                if (m->data_size == 0 || m->data_size > f->room)
                        b->failed = true;
                else
                        buf_add(b, m->data, m->data_size);
                break;
        case SHAPE_WORDS:
                if (m->argc > f->room || m->envc > f->room)
                        b->failed = true;
                wire_put_u32(b, m->argc);
                wire_put_u32(b, m->envc);
                put_list(b, argv);
                put_list(b, envp);
                break;
        }
}

void guest_put(struct buf *b, const struct guest_message *m, const char *const *argv, const char *const *envp) {
        const struct kind *kind = kind_of(m->kind);
        struct guest_message whole = *m;
        size_t start = b->size;

        whole.path = m->path ? m->path : "";
        whole.target = m->target ? m->target : "";
        whole.text = m->text ? m->text : "";
        whole.argc = count_list(argv);
        whole.envc = count_list(envp);
        if (!kind || (m->flags & ~kind->flags) || !right(&whole)) {
                b->failed = true;
                return;
        }
        wire_put_u32(b, 0);
        wire_put_u16(b, (uint16_t)m->kind);
        wire_put_u16(b, 0);
        wire_put_u32(b, m->channel);
        wire_put_u32(b, m->flags);
        for (const struct field *f = kind->fields; f->room; f++)
                put_field(b, &whole, f, argv, envp);
        if (!buf_ok(b))
                return;
        size_t size = b->size - start - GUEST_HEAD;
        if (size > GUEST_PAYLOAD_MAX) {
                b->failed = true;
                return;
        }
        for (size_t i = 0; i < 4; i++)
                b->data[start + i] = (char)(size >> (8 * i));
}

int guest_head(const uint8_t head[GUEST_HEAD], uint32_t *ret_size, uint16_t *ret_kind, uint32_t *ret_channel) {
        struct wire w = {.start = head, .size = GUEST_HEAD};
        uint32_t size = wire_u32(&w);
        uint16_t kind = wire_u16(&w), zero = wire_u16(&w);

        if (size > GUEST_PAYLOAD_MAX || zero != 0 || !kind_of(kind))
                return -EBADMSG;
        *ret_size = size;
        *ret_kind = kind;
        *ret_channel = wire_u32(&w);
        return 0;
}

static void take_field(struct wire *w, struct guest_message *m, const struct field *f) {
        uint8_t *at = (uint8_t *)m + f->at;
        const char *text;

        switch ((enum shape)f->shape) {
        case SHAPE_NUMBER:
                packet_take_number(w, at, f->room);
                break;
        case SHAPE_PATH:
        case SHAPE_TEXT:
                text = wire_str(w);
                if (strlen(text) >= f->room || (f->shape == SHAPE_TEXT && !plain(text)))
                        w->failed = true;
                memcpy(at, &text, sizeof text);
                break;
        case SHAPE_REST:
                m->data_size = w->failed ? 0 : w->size - w->at;
                if (m->data_size == 0 || m->data_size > f->room)
                        w->failed = true;
                m->data = wire_bytes(w, m->data_size);
                break;
        case SHAPE_WORDS:
                m->argc = wire_u32(w);
                m->envc = wire_u32(w);
                if (m->argc > f->room || m->envc > f->room)
                        w->failed = true;
                m->strings = *w;
                for (uint32_t i = 0; wire_ok(w) && i < m->argc + m->envc; i++)
                        (void)wire_str(w);
                break;
        }
}

int guest_read(const void *frame, size_t size, struct guest_message *ret) {
        struct wire w = {.start = frame, .size = size, .at = GUEST_HEAD - sizeof(uint32_t)};
        struct guest_message m = {.path = "", .target = "", .text = ""};
        uint32_t payload;
        uint16_t number;

        if (size < GUEST_HEAD || guest_head(frame, &payload, &number, &m.channel) < 0 || payload != size - GUEST_HEAD)
                return -EBADMSG;
        const struct kind *kind = kind_of(number);
        if (!kind)
                return -EBADMSG;
        m.kind = number;
        m.flags = wire_u32(&w);
        if (m.flags & ~kind->flags)
                return -EBADMSG;
        for (const struct field *f = kind->fields; f->room; f++)
                take_field(&w, &m, f);
        if (!wire_ok(&w) || !wire_end(&w) || !right(&m))
                return -EBADMSG;
        *ret = m;
        return 0;
}

void guest_strings(const struct guest_message *m, const char **argv, const char **envp) {
        struct wire w = m->strings;

        for (uint32_t i = 0; i < m->argc; i++)
                argv[i] = wire_str(&w);
        argv[m->argc] = NULL;
        for (uint32_t i = 0; i < m->envc; i++)
                envp[i] = wire_str(&w);
        envp[m->envc] = NULL;
}
