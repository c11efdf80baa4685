/* A guest that breaks the protocol, for tests of whoever talks to guests: put in the place of stockade-guest, or
 * started by hand with a listening socket as descriptor 4.
 *
 *   hostile-guest list                 prints the modes
 *   hostile-guest serve CWD [MODE]     serves; the mode is the argument, or the variable STOCKADE_HOSTILE, or "good"
 *
 * A mode says which part goes wrong: the first words, the answer to EXEC, the answer to a request. The other parts are
 * as they should be. "fuzz-N" answers everything with frames made at random from seed N. It never ends by itself. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/guest.h"
#include "wire/report.h"

static int peer = -EBADF;
static uint64_t seed = 1;
static uint32_t last_run, last_request; /* that were asked for */
static char bulk[GUEST_DATA_MAX];

/* --- saying things --- */

static void say_bytes(const void *data, size_t size) {
        for (size_t done = 0; done < size && peer >= 0;) {
                ssize_t n = send(peer, (const char *)data + done, size - done, MSG_NOSIGNAL);
                if (n <= 0 && errno != EINTR)
                        fd_close(&peer);
                else if (n > 0)
                        done += (size_t)n;
        }
}

/* A frame of any parts, right or wrong. */
static void say_raw(uint32_t size, unsigned kind, unsigned reserved, uint32_t channel, uint32_t flags,
                    const void *payload, size_t payload_size) {
        _cleanup_buf_ struct buf b = {0};

        wire_put_u32(&b, size);
        wire_put_u16(&b, (uint16_t)kind);
        wire_put_u16(&b, (uint16_t)reserved);
        wire_put_u32(&b, channel);
        wire_put_u32(&b, flags);
        buf_add(&b, payload, payload_size);
        say_bytes(b.data, b.size);
}

static void say(struct guest_message m) {
        _cleanup_buf_ struct buf b = {0};

        guest_put(&b, &m, NULL, NULL);
        if (buf_ok(&b))
                say_bytes(b.data, b.size);
}

/* A right frame with other bytes at one place of its payload. */
static void say_spoilt(struct guest_message m, size_t at, const void *bytes, size_t size) {
        _cleanup_buf_ struct buf b = {0};

        guest_put(&b, &m, NULL, NULL);
        assert(buf_ok(&b) && GUEST_HEAD + at + size <= b.size);
        memcpy(b.data + GUEST_HEAD + at, bytes, size);
        say_bytes(b.data, b.size);
}

#define SAY(...) say((struct guest_message){__VA_ARGS__})

static void hello(void) {
        SAY(.kind = GUEST_HELLO, .version = GUEST_VERSION);
}

static void output(uint32_t run, enum guest_stream stream, uint64_t offset, size_t size) {
        SAY(.kind = GUEST_OUTPUT, .channel = run, .stream = stream, .offset = offset, .data = (const uint8_t *)bulk,
            .data_size = size);
}

static void started(uint32_t run) {
        SAY(.kind = GUEST_STARTED, .channel = run, .number = 2);
}

static void exited(uint32_t run, uint64_t newest) {
        SAY(.kind = GUEST_EXITED, .channel = run, .newest = {newest});
}

static void end(uint32_t request) {
        SAY(.kind = GUEST_END, .channel = request);
}

static void data(uint32_t request, size_t size) {
        SAY(.kind = GUEST_DATA, .channel = request, .data = (const uint8_t *)bulk, .data_size = size);
}

static uint64_t draw(void) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        return seed;
}

/* --- first words --- */

static void hello_silent(void) {
}
static void hello_close(void) {
        fd_close(&peer);
}
static void hello_none(void) {
        end(5);
}
static void hello_twice(void) {
        hello();
        hello();
}
static void hello_version_0(void) {
        say_spoilt((struct guest_message){.kind = GUEST_HELLO, .version = 1}, 0, "\0\0\0\0", 4);
}
static void hello_channel(void) {
        say_raw(8, GUEST_HELLO, 0, 1, 0, "\1\0\0\0\0\0\0\0", 8);
}
static void hello_garbage(void) {
        for (size_t i = 0; i < sizeof bulk; i++)
                bulk[i] = (char)draw();
        say_bytes(bulk, 4096);
}
static void hello_text(void) {
        static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        say_bytes(text, sizeof text - 1);
}
static void hello_zeros(void) {
        say_bytes(bulk, 4096);
}
static void hello_half(void) {
        hello();
        say_bytes("\10\0\0", 3);
}
static void hello_half_frame(void) {
        hello();
        say_raw(5000, GUEST_OUTPUT, 0, 1, 0, bulk, 100);
}
static void hello_size(void) {
        hello();
        say_raw(UINT32_MAX, GUEST_DATA, 0, 1, 0, bulk, 100);
}
static void hello_kind(void) {
        hello();
        say_raw(0, 5, 0, 1, 0, "", 0);
}
static void hello_reserved(void) {
        hello();
        say_raw(0, GUEST_OPENED, 7, 1, 0, "", 0);
}
static void hello_flags(void) {
        hello();
        say_raw(0, GUEST_OPENED, 0, 1, 1U << 31, "", 0);
}
static void hello_trailing(void) {
        hello();
        say_raw(1, GUEST_OPENED, 0, 1, 0, "", 1);
}
static void hello_slow(void) {
        _cleanup_buf_ struct buf b = {0};

        guest_put(&b, &(struct guest_message){.kind = GUEST_HELLO, .version = 1}, NULL, NULL);
        for (size_t i = 0; i < b.size && peer >= 0; i++) {
                say_bytes(b.data + i, 1);
                (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
}
static void hello_operator(void) {
        hello();
        SAY(.kind = GUEST_STAT, .channel = 7, .path = "/");
}
static void hello_unasked_end(void) {
        hello();
        end(4711);
}
static void hello_unasked_run(void) {
        hello();
        output(4711, GUEST_OUT, 0, 10);
}
static void hello_unasked_credit(void) {
        hello();
        SAY(.kind = GUEST_CREDIT, .channel = 4711, .stream = GUEST_OF_REQUEST, .offset = 1);
}
static void hello_flood(void) {
        hello();
        for (unsigned i = 0; i < 100000 && peer >= 0; i++)
                output(4711 + i, GUEST_OUT, 0, 1000);
}

/* --- answers to EXEC --- */

static void exec_good(uint32_t run) {
        started(run);
        SAY(.kind = GUEST_OUTPUT, .channel = run, .data = (const uint8_t *)"hello\n", .data_size = 6);
        exited(run, 6);
}
static void exec_never(uint32_t run) {
        (void)run;
}
static void exec_no_end(uint32_t run) {
        started(run);
}
static void exec_twice(uint32_t run) {
        started(run);
        started(run);
}
static void exec_pid_0(uint32_t run) {
        say_spoilt((struct guest_message){.kind = GUEST_STARTED, .channel = run, .number = 1}, 0, "\0\0\0\0", 4);
}
static void exec_other(uint32_t run) {
        started(run + 1);
        output(run + 1, GUEST_OUT, 0, 10);
}
static void exec_end_twice(uint32_t run) {
        started(run);
        exited(run, 0);
        exited(run, 0);
}
static void exec_end_early(uint32_t run) {
        started(run);
        output(run, GUEST_OUT, 0, 100);
        exited(run, 50);
}
static void exec_end_far(uint32_t run) {
        started(run);
        exited(run, UINT64_MAX);
}
static void exec_end_error(uint32_t run) {
        say_spoilt((struct guest_message){.kind = GUEST_EXITED, .channel = run}, 4, "\2\0\0\0", 4);
}
static void exec_end_lines(uint32_t run) {
        say_spoilt((struct guest_message){.kind = GUEST_EXITED, .channel = run, .error = -2, .text = "abcdefgh"}, 60,
                   "\x1b[2J\n", 5);
}
static void exec_gap(uint32_t run) {
        started(run);
        output(run, GUEST_OUT, 0, 10);
        output(run, GUEST_OUT, 20, 10);
}
static void exec_again(uint32_t run) {
        started(run);
        output(run, GUEST_OUT, 0, 10);
        output(run, GUEST_OUT, 5, 10);
}
static void exec_far(uint32_t run) {
        started(run);
        output(run, GUEST_OUT, INT64_MAX, 10);
}
static void exec_stream(uint32_t run) {
        started(run);
        output(run, GUEST_TTY, 0, 10);
        output(run, GUEST_OUT, 0, 10);
}
static void exec_no_stream(uint32_t run) {
        started(run);
        say_spoilt(
                (struct guest_message){
                        .kind = GUEST_OUTPUT, .channel = run, .data = (const uint8_t *)"x", .data_size = 1},
                0, "\3\0\0\0", 4);
}
static void exec_window(uint32_t run) {
        started(run);
        for (uint64_t at = 0; at < 64 * GUEST_WINDOW && peer >= 0; at += 60000)
                output(run, GUEST_OUT, at, 60000);
}
static void exec_behind(uint32_t run) {
        exec_good(run);
        output(run, GUEST_OUT, 6, 10);
}
static void exec_credit(uint32_t run) {
        started(run);
        SAY(.kind = GUEST_CREDIT, .channel = run, .stream = GUEST_IN, .offset = 1 << 20);
}
static void exec_wrong_credit(uint32_t run) {
        started(run);
        SAY(.kind = GUEST_CREDIT, .channel = run, .stream = GUEST_OUT, .offset = 0);
}
static void exec_escapes(uint32_t run) {
        static const char text[] = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x9b\x00\xff\xfe\r\n";

        started(run);
        SAY(.kind = GUEST_OUTPUT, .channel = run, .data = (const uint8_t *)text, .data_size = sizeof text - 1);
        exited(run, sizeof text - 1);
}
static void exec_chatter(uint32_t run) {
        started(run);
        for (uint64_t at = 0; at < 3000 && peer >= 0; at++)
                output(run, GUEST_OUT, at, 1);
        exited(run, 3000);
}

/* --- answers to requests --- */

static void request_good(const struct guest_message *m) {
        switch ((int)m->kind) {
        case GUEST_STAT:
                SAY(.kind = GUEST_ENTRY, .channel = m->channel, .mode = S_IFREG | 0644, .path = m->path);
                break;
        case GUEST_CONNECT:
        case GUEST_WATCH:
                SAY(.kind = GUEST_OPENED, .channel = m->channel);
                return;
        case GUEST_WRITE:
        case GUEST_TAR_IN:
                return; /* FINISH ends it */
        default:
                break;
        }
        end(m->channel);
}
static void request_never(const struct guest_message *m) {
        (void)m;
}
static void request_twice(const struct guest_message *m) {
        end(m->channel);
        end(m->channel);
}
static void request_other(const struct guest_message *m) {
        end(m->channel + 1);
}
static void request_error(const struct guest_message *m) {
        say_spoilt((struct guest_message){.kind = GUEST_END, .channel = m->channel}, 0, "\5\0\0\0", 4);
}
static void request_lines(const struct guest_message *m) {
        say_spoilt((struct guest_message){.kind = GUEST_END, .channel = m->channel, .error = -5, .text = "abcdefgh"},
                   40, "\x1b[2J\n", 5);
}
static void request_unasked(const struct guest_message *m) {
        SAY(.kind = GUEST_PROCESS, .channel = m->channel, .number = 1, .mode = 'S');
        SAY(.kind = GUEST_ENTRY, .channel = m->channel, .path = "x");
        SAY(.kind = GUEST_CHANGE, .channel = m->channel, .number = GUEST_MADE, .path = "x");
        SAY(.kind = GUEST_RUN, .channel = m->channel, .run = 1);
        end(m->channel);
}
static void request_data_unasked(const struct guest_message *m) {
        data(m->channel, 100);
        end(m->channel);
}
static void request_flood(const struct guest_message *m) {
        SAY(.kind = GUEST_OPENED, .channel = m->channel);
        for (unsigned i = 0; i < 64 && peer >= 0; i++)
                data(m->channel, GUEST_DATA_MAX);
        end(m->channel);
}
static void request_too_much(const struct guest_message *m) {
        data(m->channel, (size_t)MIN(m->length, (uint64_t)1000) + 1);
        end(m->channel);
}
static void request_opened(const struct guest_message *m) {
        SAY(.kind = GUEST_OPENED, .channel = m->channel);
        SAY(.kind = GUEST_OPENED, .channel = m->channel);
}
static void request_finish(const struct guest_message *m) {
        SAY(.kind = GUEST_FINISH, .channel = m->channel);
        SAY(.kind = GUEST_FINISH, .channel = m->channel);
}
static void request_credit(const struct guest_message *m) {
        SAY(.kind = GUEST_CREDIT, .channel = m->channel, .stream = GUEST_OF_REQUEST, .offset = 1 << 30);
}
static void request_names(const struct guest_message *m) {
        static const char *const names[] = {
                "..",       ".",        "",           "a/b", "/etc/passwd",           "../../../etc/passwd",
                "\x1b[2Jx", "\xff\xfe", "line\nline", "-rf", "\xe2\x80\xae\x67np.exe"};

        if (m->kind != GUEST_LIST)
                return request_good(m);
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                SAY(.kind = GUEST_ENTRY, .channel = m->channel, .mode = S_IFREG | 06777, .size = UINT64_MAX,
                    .time_ms = UINT64_MAX, .path = names[i], .target = names[i]);
        end(m->channel);
}
static void request_endless(const struct guest_message *m) {
        for (uint32_t i = 1; i < 300000 && peer >= 0; i++) {
                if (m->kind == GUEST_LIST_RUNS)
                        SAY(.kind = GUEST_RUN, .channel = m->channel, .run = i, .newest = {UINT64_MAX});
                else if (m->kind == GUEST_PROCESSES)
                        SAY(.kind = GUEST_PROCESS, .channel = m->channel, .number = 1, .mode = 'S', .text = "x");
                else
                        SAY(.kind = GUEST_ENTRY, .channel = m->channel, .path = "x");
        }
}
static void request_lies(const struct guest_message *m) {
        if (m->kind != GUEST_LIST_RUNS)
                return request_good(m);
        SAY(.kind = GUEST_RUN, .channel = m->channel, .run = 1, .flags = GUEST_ENDED, .number = -1);
        SAY(.kind = GUEST_RUN, .channel = m->channel, .run = 1, .newest = {UINT64_MAX, UINT64_MAX, UINT64_MAX});
        SAY(.kind = GUEST_RUN, .channel = m->channel, .run = UINT32_MAX, .flags = GUEST_TERMINAL,
            .oldest = {0, 0, UINT64_MAX}, .newest = {0, 0, UINT64_MAX});
        end(m->channel);
}
static void request_archive(const struct guest_message *m) {
        if (m->kind != GUEST_TAR_OUT)
                return request_good(m);
        /* "../escape", a file of one byte: a header with its sum, contents, end */
        static char block[4 * 512];
        unsigned sum = 0;

        memset(block, 0, sizeof block);
        memcpy(block, "../escape", 9);
        memcpy(block + 100,
               "0006777\0"
               "0000000\0"
               "0000000\0"
               "00000000001\0"
               "00000000000\0",
               48);
        memset(block + 148, ' ', 8);
        block[156] = '0';
        memcpy(block + 257,
               "ustar\0"
               "00",
               8);
        for (size_t i = 0; i < 512; i++)
                sum += (unsigned char)block[i];
        (void)snprintf(block + 148, 8, "%06o", sum);
        block[512] = 'x';
        SAY(.kind = GUEST_DATA, .channel = m->channel, .data = (const uint8_t *)block, .data_size = sizeof block);
        end(m->channel);
}

/* --- the table --- */

static const struct mode {
        const char *name;
        void (*hello)(void);
        void (*exec)(uint32_t run);
        void (*request)(const struct guest_message *m);
} modes[] = {
        {"good", NULL, NULL, NULL},
        {"silent", hello_silent, NULL, NULL},
        {"close", hello_close, NULL, NULL},
        {"no-hello", hello_none, NULL, NULL},
        {"hello-twice", hello_twice, NULL, NULL},
        {"hello-version", hello_version_0, NULL, NULL},
        {"hello-channel", hello_channel, NULL, NULL},
        {"garbage", hello_garbage, NULL, NULL},
        {"text", hello_text, NULL, NULL},
        {"zeros", hello_zeros, NULL, NULL},
        {"half-head", hello_half, NULL, NULL},
        {"half-frame", hello_half_frame, NULL, NULL},
        {"size", hello_size, NULL, NULL},
        {"kind", hello_kind, NULL, NULL},
        {"reserved", hello_reserved, NULL, NULL},
        {"flags", hello_flags, NULL, NULL},
        {"trailing", hello_trailing, NULL, NULL},
        {"slow", hello_slow, NULL, NULL},
        {"operator-frame", hello_operator, NULL, NULL},
        {"unasked-end", hello_unasked_end, NULL, NULL},
        {"unasked-output", hello_unasked_run, NULL, NULL},
        {"unasked-credit", hello_unasked_credit, NULL, NULL},
        {"flood", hello_flood, NULL, NULL},
        {"exec-never", NULL, exec_never, NULL},
        {"exec-no-end", NULL, exec_no_end, NULL},
        {"exec-twice", NULL, exec_twice, NULL},
        {"exec-pid", NULL, exec_pid_0, NULL},
        {"exec-other", NULL, exec_other, NULL},
        {"exec-end-twice", NULL, exec_end_twice, NULL},
        {"exec-end-early", NULL, exec_end_early, NULL},
        {"exec-end-far", NULL, exec_end_far, NULL},
        {"exec-end-error", NULL, exec_end_error, NULL},
        {"exec-end-lines", NULL, exec_end_lines, NULL},
        {"exec-gap", NULL, exec_gap, NULL},
        {"exec-again", NULL, exec_again, NULL},
        {"exec-far", NULL, exec_far, NULL},
        {"exec-stream", NULL, exec_stream, NULL},
        {"exec-no-stream", NULL, exec_no_stream, NULL},
        {"exec-window", NULL, exec_window, NULL},
        {"exec-behind", NULL, exec_behind, NULL},
        {"exec-credit", NULL, exec_credit, NULL},
        {"exec-wrong-credit", NULL, exec_wrong_credit, NULL},
        {"exec-escapes", NULL, exec_escapes, NULL},
        {"exec-chatter", NULL, exec_chatter, NULL},
        {"request-never", NULL, NULL, request_never},
        {"request-twice", NULL, NULL, request_twice},
        {"request-other", NULL, NULL, request_other},
        {"request-error", NULL, NULL, request_error},
        {"request-lines", NULL, NULL, request_lines},
        {"request-unasked", NULL, NULL, request_unasked},
        {"request-data", NULL, NULL, request_data_unasked},
        {"request-flood", NULL, NULL, request_flood},
        {"request-too-much", NULL, NULL, request_too_much},
        {"request-opened", NULL, NULL, request_opened},
        {"request-finish", NULL, NULL, request_finish},
        {"request-credit", NULL, NULL, request_credit},
        {"request-names", NULL, NULL, request_names},
        {"request-endless", NULL, NULL, request_endless},
        {"request-lies", NULL, NULL, request_lies},
        {"request-archive", NULL, NULL, request_archive},
};

/* --- at random --- */

static void fuzz_once(void) {
        static const enum guest_kind kinds[] = {GUEST_HELLO,   GUEST_DATA, GUEST_CREDIT, GUEST_STARTED, GUEST_OUTPUT,
                                                GUEST_EXITED,  GUEST_RUN,  GUEST_ENTRY,  GUEST_CHANGE,  GUEST_OPENED,
                                                GUEST_PROCESS, GUEST_END,  GUEST_FINISH, GUEST_STAT};
        _cleanup_buf_ struct buf b = {0};
        enum guest_kind kind = kinds[draw() % ELEMENTSOF(kinds)];
        bool of_run = kind >= GUEST_STARTED && kind <= GUEST_EXITED;
        struct guest_message m = {
                .kind = kind,
                .channel = kind == GUEST_HELLO ? 0 : (of_run ? last_run : last_request) + (draw() % 8 == 0),
                .version = 1,
                .run = (uint32_t)(draw() % 3 + 1),
                .stream = (enum guest_stream)(draw() % (GUEST_OF_REQUEST + 1)),
                .offset = draw() % 4 ? draw() % 100 : draw() >> 1,
                .data = (const uint8_t *)bulk,
                .data_size = draw() % 4 ? draw() % 100 + 1 : draw() % GUEST_DATA_MAX + 1,
                .mode = kind == GUEST_PROCESS ? 'S' : (uint32_t)(draw() % 0200000),
                .number = (int32_t)(draw() % 6 + 1),
                .error = draw() % 2 ? 0 : -(int32_t)(draw() % 100),
                .path = draw() % 2 ? "/" : "x",
                .target = "y",
                .text = "z",
                .newest = {draw() % 100, draw() % 100, draw()},
                .numbers = {draw(), draw(), draw(), draw()},
        };

        guest_put(&b, &m, NULL, NULL);
        if (!buf_ok(&b))
                return;
        if (draw() % 16 == 0)
                b.data[draw() % b.size] ^= (char)(1U << (draw() % 8));
        say_bytes(b.data, b.size);
}

/* --- serving --- */

static void answer(const struct mode *mode, bool fuzz, const struct guest_message *m) {
        bool run = m->kind >= GUEST_EXEC && m->kind < GUEST_LIST_RUNS;
        bool asks = m->kind >= GUEST_LIST_RUNS && m->kind < GUEST_FINISH;

        if (run && m->kind == GUEST_EXEC)
                last_run = m->channel;
        if (asks)
                last_request = m->channel;
        for (unsigned n = fuzz ? draw() % 4 : 0; n > 0; n--)
                fuzz_once();
        if (m->kind == GUEST_EXEC)
                (mode->exec ? mode->exec : exec_good)(m->channel);
        else if (asks)
                (mode->request ? mode->request : request_good)(m);
        else if (m->kind == GUEST_FINISH || m->kind == GUEST_CANCEL)
                end(m->channel);
}

static void converse(const struct mode *mode, bool fuzz) {
        static uint8_t in[GUEST_HEAD + GUEST_PAYLOAD_MAX];
        size_t size = 0;

        (mode->hello ? mode->hello : hello)();
        while (peer >= 0) {
                ssize_t n = recv(peer, in + size, sizeof in - size, 0);
                if (n <= 0)
                        break;
                size += (size_t)n;
                for (;;) {
                        struct guest_message m;
                        uint32_t payload, channel;
                        uint16_t kind;

                        if (size < GUEST_HEAD || guest_head(in, &payload, &kind, &channel) < 0 ||
                            size < GUEST_HEAD + payload)
                                break;
                        if (guest_read(in, GUEST_HEAD + payload, &m) == 0)
                                answer(mode, fuzz, &m);
                        size -= GUEST_HEAD + payload;
                        memmove(in, in + GUEST_HEAD + payload, size);
                }
        }
        fd_close(&peer);
}

static const struct mode *find(const char *name, bool *ret_fuzz) {
        *ret_fuzz = str_starts(name, "fuzz-");
        if (*ret_fuzz) {
                seed = strtoull(name + 5, NULL, 10) * 0x9e3779b97f4a7c15ULL | 1;
                return &modes[0];
        }
        for (size_t i = 0; i < ELEMENTSOF(modes); i++)
                if (str_eq(modes[i].name, name))
                        return &modes[i];
        return NULL;
}

int main(int argc, char **argv) {
        const char *variable = getenv("STOCKADE_HOSTILE");
        struct report up = {.kind = REPORT_SERVING};
        bool fuzz;
        char byte;

        if (argc == 2 && str_eq(argv[1], "list")) {
                for (size_t i = 0; i < ELEMENTSOF(modes); i++)
                        (void)puts(modes[i].name);
                return 0;
        }
        const struct mode *mode = find(argc > 3 ? argv[3] : variable ? variable : "good", &fuzz);
        if (!mode || argc < 3 || recv(REPORT_FD, &byte, 1, 0) != 1)
                return 2;
        (void)send(REPORT_FD, &up, sizeof up, MSG_NOSIGNAL);
        (void)close(REPORT_FD);
        for (;;) {
                peer = accept4(GUEST_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
                if (peer >= 0)
                        converse(mode, fuzz);
                else
                        (void)poll(NULL, 0, 50);
        }
}
