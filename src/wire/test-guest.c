/* Unit tests of the frames between operator and guest: every kind reads back as it was written and has one form; no
 * frame that is cut, longer, flagged or numbered wrongly passes; nothing is read beyond a frame's end. */
#include <limits.h>

#include "base/test.h"
#include "wire/guest.h"

static const char *const words[] = {"sh", "-c", "", "echo $X\n", NULL};
static const char *const variables[] = {"X=1", "PATH=/usr/bin", NULL};
static const char hostile_path[] = "/a\n\x1b[31m\xff b";

static const enum guest_kind all[] = {
        GUEST_HELLO,    GUEST_DATA,     GUEST_CREDIT,    GUEST_EXEC,   GUEST_INPUT,  GUEST_INPUT_END, GUEST_SIGNAL,
        GUEST_RESIZE,   GUEST_ATTACH,   GUEST_FORGET,    GUEST_STAT,   GUEST_LIST,   GUEST_LIST_RUNS, GUEST_READ,
        GUEST_WRITE,    GUEST_MKDIR,    GUEST_MOVE,      GUEST_REMOVE, GUEST_WATCH,  GUEST_TAR_OUT,   GUEST_TAR_IN,
        GUEST_CONNECT,  GUEST_USAGE,    GUEST_PROCESSES, GUEST_FINISH, GUEST_CANCEL, GUEST_STARTED,   GUEST_OUTPUT,
        GUEST_EXITED,   GUEST_RUN,      GUEST_ENTRY,     GUEST_CHANGE, GUEST_OPENED, GUEST_PROCESS,   GUEST_END,
        GUEST_WRITE_IF, GUEST_LEAF_END,
};

/* Every field that some kind has, with a value that every kind accepts. */
static struct guest_message sample(enum guest_kind kind) {
        struct guest_message m = {
                .kind = kind,
                .channel = kind == GUEST_HELLO ? 0 : 77,
                .version = GUEST_VERSION,
                .features = 0x80000001,
                .run = UINT32_MAX,
                .stream = GUEST_TTY,
                .offset = (uint64_t)1 << 40,
                .length = kind == GUEST_RUN ? 1 : UINT64_MAX,
                .data = (const uint8_t *)"a\0b\xff",
                .data_size = 4,
                .rows = 24,
                .cols = UINT16_MAX,
                .port = 8080,
                .mode = kind == GUEST_PROCESS ? 'S' : 0755,
                .number = kind == GUEST_CHANGE ? GUEST_MOVED : 9,
                .parent = 1,
                .error = kind == GUEST_EXITED || kind == GUEST_RUN || kind == GUEST_END ? -2 : 0,
                .path = hostile_path,
                .target = "/target",
                .text = "could not do it: \xc3\xa4",
                .fds = GUEST_FDS_MAX,
                .oldest = {0, 5, 10},
                .newest = {1, 5, UINT64_MAX},
                .rusage = {1, 2, UINT64_MAX},
                .size = UINT64_MAX,
                .time_ms = 1700000000000,
                .inode = 3,
                .numbers = {1, 2, 3, UINT64_MAX},
                .uid = 1000,
                .gid = UINT32_MAX,
        };

        return m;
}

static void put(struct buf *b, const struct guest_message *m) {
        bool exec = m->kind == GUEST_EXEC;

        b->size = 0;
        guest_put(b, m, exec ? words : NULL, exec ? variables : NULL);
}

static void check_exec(const struct guest_message *m) {
        const char *argv[8], *envp[8];

        CHECK(m->argc == 4 && m->envc == 2);
        guest_strings(m, argv, envp);
        for (size_t i = 0; i < 4; i++)
                CHECK_STR(argv[i], words[i]);
        for (size_t i = 0; i < 2; i++)
                CHECK_STR(envp[i], variables[i]);
        CHECK(!argv[4] && !envp[2]);
}

/* Copies the frame to memory of exactly its size, so that a sanitizer sees a read beyond it. */
static int read_exactly(const void *frame, size_t size, struct guest_message *ret) {
        uint8_t *copy = malloc(size ? size : 1);
        int r;

        memcpy(copy, frame, size);
        r = guest_read(copy, size, ret);
        free(copy);
        return r;
}

static void every_kind_reads_back(void) {
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                _cleanup_buf_ struct buf b = {0}, again = {0};
                struct guest_message m = sample(all[i]), got, dropped;
                uint32_t size, channel;
                uint16_t kind;

                put(&b, &m);
                CHECK(buf_ok(&b));
                CHECK(guest_head((const uint8_t *)b.data, &size, &kind, &channel) == 0);
                CHECK(size == b.size - GUEST_HEAD && kind == all[i] && channel == m.channel);
                if (guest_read(b.data, b.size, &got) < 0) {
                        (void)printf("# %s is refused\n", guest_kind_name(all[i]));
                        CHECK(false);
                        continue;
                }
                CHECK(got.kind == all[i] && got.channel == m.channel);
                if (all[i] == GUEST_EXEC)
                        check_exec(&got);
                put(&again, &got);
                CHECK(again.size == b.size && memcmp(again.data, b.data, b.size) == 0);
                for (size_t cut = 0; cut < b.size; cut++)
                        CHECK(read_exactly(b.data, cut, &dropped) == -EBADMSG);
                buf_add(&b, "", 1);
                CHECK(read_exactly(b.data, b.size, &dropped) == -EBADMSG);
        }
}

static void fields_arrive(void) {
        _cleanup_buf_ struct buf b = {0};
        struct guest_message m = sample(GUEST_RUN), got;

        m.flags = GUEST_TERMINAL | GUEST_ENDED | GUEST_OPEN;
        put(&b, &m);
        CHECK(guest_read(b.data, b.size, &got) == 0);
        CHECK(got.run == m.run && got.flags == m.flags && got.error == -2 && got.number == 9);
        CHECK(memcmp(got.oldest, m.oldest, sizeof m.oldest) == 0 && memcmp(got.newest, m.newest, sizeof m.newest) == 0);
        CHECK(memcmp(&got.rusage, &m.rusage, sizeof m.rusage) == 0 && got.length == 1 && got.offset == m.offset);
        CHECK(got.path[0] == '\0' && got.data == NULL && got.argc == 0);

        m = sample(GUEST_OUTPUT);
        put(&b, &m);
        CHECK(guest_read(b.data, b.size, &got) == 0);
        CHECK(got.stream == GUEST_TTY && got.offset == m.offset && got.data_size == 4 &&
              memcmp(got.data, m.data, 4) == 0);

        m = sample(GUEST_ENTRY);
        put(&b, &m);
        CHECK(guest_read(b.data, b.size, &got) == 0);
        CHECK_STR(got.path, hostile_path);
        CHECK_STR(got.target, "/target");
        CHECK(got.mode == 0755 && got.size == UINT64_MAX && got.uid == 1000 && got.gid == UINT32_MAX);
}

static bool refused(struct guest_message m) {
        _cleanup_buf_ struct buf b = {0};

        put(&b, &m);
        return !buf_ok(&b);
}

static void writer_refuses(void) {
        static char text[GUEST_PATH_MAX + 1];
        struct guest_message m;

#define REFUSES(kind, change)                                                                                          \
        do {                                                                                                           \
                m = sample(kind);                                                                                      \
                change;                                                                                                \
                CHECK(refused(m));                                                                                     \
        } while (0)

        REFUSES(GUEST_HELLO, m.channel = 1);
        REFUSES(GUEST_HELLO, m.version = 0);
        REFUSES(GUEST_DATA, m.channel = 0);
        REFUSES(GUEST_DATA, m.data_size = 0);
        REFUSES(GUEST_DATA, m.flags = GUEST_STDIN);
        REFUSES(GUEST_CREDIT, m.stream = GUEST_OF_REQUEST + 1);
        REFUSES(GUEST_CREDIT, m.offset = UINT64_MAX);
        REFUSES(GUEST_EXEC, m.fds = GUEST_FDS_MAX + 1);
        REFUSES(GUEST_EXEC, m.path = "tmp");
        REFUSES(GUEST_EXEC, m.flags = 1U << 31);
        REFUSES(GUEST_SIGNAL, m.number = 0);
        REFUSES(GUEST_SIGNAL, m.number = 65);
        REFUSES(GUEST_ATTACH, m.stream = GUEST_STREAMS);
        REFUSES(GUEST_WRITE, m.mode = 010000);
        REFUSES(GUEST_WRITE_IF, m.mode = 010000);
        REFUSES(GUEST_WRITE_IF, m.path = "a");
        REFUSES(GUEST_WRITE_IF, m.flags = GUEST_NO_REPLACE);
        REFUSES(GUEST_LEAF_END, m.run = 0);
        REFUSES(GUEST_LEAF_END, m.flags = GUEST_TO_GROUP);
        REFUSES(GUEST_MOVE, m.target = "x");
        REFUSES(GUEST_STAT, m.path = NULL);
        REFUSES(GUEST_CONNECT, m.port = 0);
        REFUSES(GUEST_OUTPUT, m.stream = GUEST_IN);
        REFUSES(GUEST_RUN, m.run = 0);
        REFUSES(GUEST_RUN, m.oldest[1] = 6);
        REFUSES(GUEST_RUN, m.length = m.offset + 1);
        REFUSES(GUEST_EXITED, m.error = 2);
        REFUSES(GUEST_END, m.error = -5000);
        REFUSES(GUEST_END, m.text = "two\nlines");
        REFUSES(GUEST_CHANGE, m.number = GUEST_CHANGES);
        REFUSES(GUEST_PROCESS, m.mode = 7);
        REFUSES((enum guest_kind)0, (void)0);
        REFUSES((enum guest_kind)5, (void)0);
        REFUSES((enum guest_kind)1000, (void)0);
        memset(text, 'a', GUEST_PATH_MAX);
        text[0] = '/';
        REFUSES(GUEST_STAT, m.path = text);
        text[GUEST_PATH_MAX - 1] = '\0';
        m = sample(GUEST_STAT);
        m.path = text;
        CHECK(!refused(m));
#undef REFUSES
}

static void largest(void) {
        static uint8_t data[GUEST_DATA_MAX + 1];
        static const char *list[GUEST_ARGS_MAX + 2];
        _cleanup_buf_ struct buf b = {0}, over = {0}, few = {0}, many = {0};
        struct guest_message m = sample(GUEST_DATA), got;

        m.data = data;
        m.data_size = GUEST_DATA_MAX;
        put(&b, &m);
        CHECK(buf_ok(&b) && guest_read(b.data, b.size, &got) == 0 && got.data_size == GUEST_DATA_MAX);
        m.data_size++;
        put(&over, &m);
        CHECK(!buf_ok(&over));

        m = sample(GUEST_EXEC);
        for (size_t i = 0; i < GUEST_ARGS_MAX; i++)
                list[i] = "x";
        guest_put(&few, &m, list, list);
        CHECK(buf_ok(&few) && guest_read(few.data, few.size, &got) == 0 && got.argc == GUEST_ARGS_MAX);
        list[GUEST_ARGS_MAX] = "x";
        guest_put(&many, &m, list, NULL);
        CHECK(!buf_ok(&many));
        list[0] = NULL; /* no program */
        buf_free(&many);
        guest_put(&many, &m, list, NULL);
        CHECK(!buf_ok(&many));
}

/* One byte of a frame after another takes other values: what still passes has one form, and the frame's bytes are it.
 */
static void changed_bytes(void) {
        for (size_t i = 0; i < ELEMENTSOF(all); i++) {
                _cleanup_buf_ struct buf b = {0};
                struct guest_message m = sample(all[i]), got;
                static const char *argv[GUEST_ARGS_MAX + 1], *envp[GUEST_ARGS_MAX + 1];

                put(&b, &m);
                for (size_t at = 0; at < b.size; at++)
                        for (unsigned bit = 0; bit < 8; bit++) {
                                _cleanup_buf_ struct buf again = {0};

                                b.data[at] = (char)(b.data[at] ^ (1 << bit));
                                if (guest_read(b.data, b.size, &got) == 0) {
                                        if (got.kind == GUEST_EXEC)
                                                guest_strings(&got, argv, envp);
                                        guest_put(&again, &got, got.kind == GUEST_EXEC ? argv : NULL,
                                                  got.kind == GUEST_EXEC ? envp : NULL);
                                        CHECK(again.size == b.size && memcmp(again.data, b.data, b.size) == 0);
                                }
                                b.data[at] = (char)(b.data[at] ^ (1 << bit));
                        }
        }
}

static void heads(void) {
        uint8_t head[GUEST_HEAD] = {0, 0, 4, 0, GUEST_DATA, 0, 0, 0, 1};
        uint32_t size, channel;
        uint16_t kind;

        CHECK(guest_head(head, &size, &kind, &channel) == 0 && size == GUEST_PAYLOAD_MAX && channel == 1);
        head[0] = 1;
        CHECK(guest_head(head, &size, &kind, &channel) == -EBADMSG);
        head[0] = 0;
        head[6] = 1;
        CHECK(guest_head(head, &size, &kind, &channel) == -EBADMSG);
        head[6] = 0;
        head[4] = 15;
        CHECK(guest_head(head, &size, &kind, &channel) == -EBADMSG);
        head[5] = 255;
        CHECK(guest_head(head, &size, &kind, &channel) == -EBADMSG);
}

static void names(void) {
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                CHECK(!str_eq(guest_kind_name(all[i]), "?"));
        CHECK_STR(guest_kind_name(GUEST_TAR_OUT), "tar-out");
        CHECK_STR(guest_kind_name((enum guest_kind)0), "?");
        CHECK_STR(guest_kind_name((enum guest_kind)9999), "?");
}

TEST_MAIN(TEST(every_kind_reads_back), TEST(fields_arrive), TEST(writer_refuses), TEST(largest), TEST(changed_bytes),
          TEST(heads), TEST(names))
