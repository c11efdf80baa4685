/* A guest on the other end of a socket pair, well-behaved and not: what passes, what is held back, and what ends the
 * connection, with the sentence that says how. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "operator/guest-link.h"

static struct core core;
static struct guest_link *link_;
static int guest; /* its end */

static struct {
        unsigned hellos, starts, exits, breaks, rooms;
        int pid, status;
        uint32_t room_of;
        char why[300];
        char out[1 << 18];
        size_t out_size;
        uint64_t first, next;
        bool full;       /* output: no credit */
        bool close_then; /* any callback closes the link */
} seen;

static void maybe_close(void) {
        if (seen.close_then && link_)
                guest_link_close(TAKE_PTR(link_));
}

static void on_hello(void *data) {
        CHECK(data == &seen);
        seen.hellos++;
        maybe_close();
}

static void on_started(void *data, uint32_t run, int pid) {
        (void)data;
        (void)run;
        seen.starts++;
        seen.pid = pid;
        maybe_close();
}

static bool on_output(void *data, uint32_t run, enum guest_stream stream, uint64_t offset, const uint8_t *bytes,
                      size_t size) {
        (void)data;
        (void)run;
        (void)stream;
        if (seen.out_size == 0)
                seen.first = offset;
        if (size <= sizeof seen.out - seen.out_size)
                memcpy(seen.out + seen.out_size, bytes, size);
        seen.out_size += size;
        seen.next = offset + size;
        maybe_close();
        return !seen.full;
}

static void on_exited(void *data, const struct guest_message *m) {
        (void)data;
        seen.exits++;
        seen.status = m->number;
        maybe_close();
}

static void on_room(void *data, uint32_t run) {
        (void)data;
        seen.rooms++;
        seen.room_of = run;
        maybe_close();
}

static void on_broken(void *data, const char *why) {
        (void)data;
        seen.breaks++;
        link_ = NULL;
        (void)snprintf(seen.why, sizeof seen.why, "%s", why);
}

static const struct guest_link_events events = {on_hello, on_started, on_output, on_exited, on_room, on_broken};

static void turns(void) {
        for (unsigned i = 0; i < 40; i++)
                CHECK(loop_turn(core.loop, 0) == 0);
}

static void say_bytes(const void *data, size_t size) {
        if (write(guest, data, size) != (ssize_t)size)
                (void)printf("# the other end is closed\n");
}

static void say(const struct guest_message *m) {
        _cleanup_buf_ struct buf b = {0};

        guest_put(&b, m, NULL, NULL);
        CHECK(buf_ok(&b));
        say_bytes(b.data, b.size);
        turns();
}

/* The next frame that we were sent; its bytes stay in a static buffer. */
static bool heard(struct guest_message *ret) {
        static uint8_t frame[GUEST_HEAD + GUEST_PAYLOAD_MAX];
        uint32_t size, channel;
        uint16_t kind;

        if (recv(guest, frame, GUEST_HEAD, MSG_DONTWAIT | MSG_PEEK) < GUEST_HEAD)
                return false;
        CHECK(fd_read_full(guest, frame, GUEST_HEAD) == GUEST_HEAD);
        CHECK(guest_head(frame, &size, &kind, &channel) == 0);
        for (size_t at = 0; at < size;) { /* what does not fit the socket at once comes with the next turns */
                ssize_t n = recv(guest, frame + GUEST_HEAD + at, size - at, MSG_DONTWAIT);
                if (n > 0)
                        at += (size_t)n;
                else
                        turns();
        }
        CHECK(guest_read(frame, GUEST_HEAD + size, ret) == 0);
        return true;
}

static void begin(void) {
        struct guest_message hello = {.kind = GUEST_HELLO, .version = 1}, m;
        struct err err = {0};
        int fds[2];

        memset(&seen, 0, sizeof seen);
        CHECK(loop_create(&core.loop, &err) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        guest = fds[1];
        CHECK(guest_link_open(&core, fds[0], &events, &seen, &link_, &err) == 0);
        CHECK(heard(&m) && m.kind == GUEST_HELLO && m.version == GUEST_VERSION);
        say(&hello);
        CHECK(seen.hellos == 1);
}

static void end(void) {
        if (link_)
                guest_link_close(TAKE_PTR(link_));
        fd_close(&guest);
        loop_destroy(core.loop);
}

static int exec_run(uint32_t run, uint32_t flags) {
        static const char *const argv[] = {"true", NULL}, *const envp[] = {NULL};
        struct guest_message m = {.channel = run, .flags = flags, .path = "/"};

        return guest_link_exec(link_, &m, argv, envp, NULL, 0);
}

static struct guest_message output(uint32_t run, enum guest_stream stream, uint64_t offset, const void *data,
                                   size_t size) {
        return (struct guest_message){.kind = GUEST_OUTPUT,
                                      .channel = run,
                                      .stream = stream,
                                      .offset = offset,
                                      .data = data,
                                      .data_size = size};
}

/* --- what works --- */

static void run_with_output(void) {
        struct guest_message m, started = {.kind = GUEST_STARTED, .channel = 7, .number = 42};
        struct guest_message exited = {.kind = GUEST_EXITED, .channel = 7, .number = 256, .newest = {5, 0, 0}};
        _cleanup_buf_ struct buf b = {0};

        begin();
        CHECK(exec_run(7, 0) == 0);
        CHECK(heard(&m) && m.kind == GUEST_EXEC && m.channel == 7 && m.argc == 1 && m.fds == 0);
        CHECK(exec_run(7, 0) == -EINVAL); /* a number is used once */
        say(&started);
        CHECK(seen.starts == 1 && seen.pid == 42);
        struct guest_message a = output(7, GUEST_OUT, 0, "he", 2), c = output(7, GUEST_OUT, 2, "llo", 3);
        guest_put(&b, &a, NULL, NULL);
        guest_put(&b, &c, NULL, NULL);
        guest_put(&b, &exited, NULL, NULL);
        for (size_t i = 0; i < b.size; i++) { /* in the smallest pieces */
                say_bytes(b.data + i, 1);
                CHECK(loop_turn(core.loop, 0) == 0);
        }
        turns();
        CHECK(seen.out_size == 5 && memcmp(seen.out, "hello", 5) == 0 && seen.exits == 1 && seen.status == 256);
        struct guest_message forget = {.kind = GUEST_FORGET, .channel = 7};
        CHECK(guest_link_send(link_, &forget) == 0);
        CHECK(heard(&m) && m.kind == GUEST_FORGET);
        struct guest_message late = output(7, GUEST_OUT, 5, "x", 1); /* it was under way */
        say(&late);
        CHECK(seen.breaks == 0 && seen.out_size == 5);
        end();
}

static void descriptors(void) {
        static const char *const argv[] = {"true", NULL}, *const envp[] = {"A=b", NULL};
        struct guest_message m = {.channel = 1, .path = "/"};
        char control[CMSG_SPACE(8 * sizeof(int))], head[GUEST_HEAD];
        struct iovec part = {head, sizeof head};
        struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        int pipes[2], got[2], many[9] = {0};

        begin();
        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        CHECK(guest_link_exec(link_, &m, argv, envp, many, 9) == -EINVAL);
        CHECK(guest_link_exec(link_, &m, argv, envp, pipes, 2) == 0);
        CHECK(recvmsg(guest, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == GUEST_HEAD);
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        CHECK(c && c->cmsg_len == CMSG_LEN(2 * sizeof(int)));
        memcpy(got, CMSG_DATA(c), sizeof got);
        CHECK(write(got[1], "x", 1) == 1 && read(pipes[0], head, 1) == 1);
        for (unsigned i = 0; i < 2; i++) {
                (void)close(got[i]);
                (void)close(pipes[i]);
        }
        end();
}

static void credit(void) {
        static char data[GUEST_WINDOW];
        struct guest_message m, started = {.kind = GUEST_STARTED, .channel = 1, .number = 2};

        begin();
        CHECK(exec_run(1, GUEST_STDIN) == 0 && heard(&m));
        say(&started);
        struct guest_message half = output(1, GUEST_ERR, 0, data, GUEST_WINDOW / 2);
        say(&half);
        CHECK(heard(&m) && m.kind == GUEST_CREDIT && m.stream == GUEST_ERR && m.offset == GUEST_WINDOW / 2);
        seen.full = true;
        half.offset = GUEST_WINDOW / 2;
        say(&half);
        half.offset = GUEST_WINDOW;
        say(&half);
        CHECK(!heard(&m) && seen.out_size == 3 * GUEST_WINDOW / 2);
        guest_link_take(link_, 1, GUEST_ERR, GUEST_WINDOW);
        CHECK(heard(&m) && m.kind == GUEST_CREDIT && m.offset == GUEST_WINDOW);
        guest_link_take(link_, 1, GUEST_ERR, 10 * GUEST_WINDOW); /* not more than there was */
        CHECK(heard(&m) && m.offset == 3 * GUEST_WINDOW / 2);

        /* and the other way: input */
        CHECK(guest_link_input(link_, 1, data, sizeof data) == GUEST_WINDOW);
        CHECK(heard(&m) && m.kind == GUEST_INPUT && m.data_size == GUEST_WINDOW);
        CHECK(guest_link_input(link_, 1, data, 10) == 0 && seen.rooms == 0);
        struct guest_message taken = {.kind = GUEST_CREDIT, .channel = 1, .stream = GUEST_IN, .offset = 5};
        say(&taken);
        CHECK(seen.rooms == 1 && seen.room_of == 1);
        CHECK(guest_link_input(link_, 1, data, 10) == 5);
        CHECK(guest_link_input(link_, 2, data, 10) == -ENOENT);
        CHECK(seen.breaks == 0);
        end();
}

/* A guest that does not read: what is queued is bounded, and what it is owed still fits. */
static void does_not_read(void) {
        static char data[GUEST_WINDOW];
        struct guest_message m = {.kind = GUEST_SIGNAL, .channel = 1, .number = 15};
        unsigned sent = 0;

        begin();
        while (guest_link_send(link_, &m) == 0 && sent < 1000000)
                sent++;
        CHECK(sent > 1000 && sent < 1000000);
        CHECK(guest_link_send(link_, &m) == -EAGAIN && !guest_link_has_room(link_));
        CHECK(exec_run(1, 0) == -EAGAIN);
        struct guest_request r = {0};
        struct guest_message stat = {.kind = GUEST_STAT, .path = "/"};
        CHECK(guest_link_ask(link_, &r, &stat) == -EAGAIN);
        while (heard(&m)) /* it reads after all */
                turns();
        CHECK(seen.rooms == 1 && seen.room_of == 0 && guest_link_has_room(link_));
        CHECK(exec_run(1, 0) == 0 && seen.breaks == 0);
        (void)data;
        end();
}

static void unstarted(void) {
        struct guest_message started = {.kind = GUEST_STARTED, .channel = 3, .number = 2};

        begin();
        for (uint32_t i = 1; i <= GUEST_LINK_UNSTARTED; i++)
                CHECK(exec_run(i, 0) == 0);
        CHECK(exec_run(100, 0) == -EAGAIN);
        say(&started);
        CHECK(seen.rooms == 1 && seen.room_of == 0 && exec_run(100, 0) == 0);
        end();
}

/* --- requests --- */

static struct {
        unsigned items, ends, rooms;
        size_t bytes;
        int error;
        bool full;
        struct guest_request *cancel;
} asked;

static void r_item(struct guest_request *r, const struct guest_message *m) {
        (void)m;
        asked.items++;
        if (asked.cancel == r)
                guest_link_cancel(r);
}

static bool r_data(struct guest_request *r, const uint8_t *bytes, size_t size) {
        (void)bytes;
        asked.bytes += size;
        if (asked.cancel == r)
                guest_link_cancel(r);
        return !asked.full;
}

static void r_room(struct guest_request *r) {
        (void)r;
        asked.rooms++;
}

static void r_end(struct guest_request *r, const struct guest_message *m) {
        CHECK(r->channel == 0);
        asked.ends++;
        asked.error = m->error;
        maybe_close();
}

static struct guest_request request(void) {
        memset(&asked, 0, sizeof asked);
        return (struct guest_request){.item = r_item, .data = r_data, .room = r_room, .end = r_end};
}

static void requests(void) {
        static char data[2 * GUEST_WINDOW];
        struct guest_request r = request();
        struct guest_message m, list = {.kind = GUEST_LIST, .path = "/"},
                                get = {.kind = GUEST_READ, .path = "/a", .length = UINT64_MAX};

        begin();
        CHECK(guest_link_ask(link_, &r, &list) == 0 && r.channel == list.channel && heard(&m) && m.kind == GUEST_LIST);
        struct guest_message entry = {.kind = GUEST_ENTRY, .channel = list.channel, .path = "x", .mode = 0100644};
        say(&entry);
        say(&entry);
        struct guest_message done = {.kind = GUEST_END, .channel = list.channel, .error = -ENOENT};
        say(&done);
        CHECK(asked.items == 2 && asked.ends == 1 && asked.error == -ENOENT);

        r = request();
        CHECK(guest_link_ask(link_, &r, &get) == 0 && get.channel != list.channel && heard(&m));
        asked.full = true;
        struct guest_message bytes = {
                .kind = GUEST_DATA, .channel = get.channel, .data = (uint8_t *)data, .data_size = GUEST_WINDOW};
        say(&bytes);
        CHECK(asked.bytes == GUEST_WINDOW && !heard(&m));
        guest_link_more(&r);
        CHECK(heard(&m) && m.kind == GUEST_CREDIT && m.stream == GUEST_OF_REQUEST && m.offset == GUEST_WINDOW);
        done.channel = get.channel;
        done.error = 0;
        say(&done);
        CHECK(asked.ends == 1 && asked.error == 0);

        r = request();
        struct guest_message put = {.kind = GUEST_WRITE, .path = "/a", .mode = 0644};
        CHECK(guest_link_ask(link_, &r, &put) == 0 && heard(&m));
        CHECK(guest_link_data(&r, data, sizeof data) == GUEST_WINDOW && heard(&m) && m.kind == GUEST_DATA);
        CHECK(guest_link_data(&r, data, 1) == 0);
        struct guest_message taken = {
                .kind = GUEST_CREDIT, .channel = put.channel, .stream = GUEST_OF_REQUEST, .offset = 9};
        say(&taken);
        CHECK(asked.rooms == 1 && guest_link_data(&r, data, 100) == 9 && heard(&m));
        CHECK(guest_link_finish(&r) == 0 && heard(&m) && m.kind == GUEST_FINISH);
        guest_link_cancel(&r);
        CHECK(r.channel == 0 && heard(&m) && m.kind == GUEST_CANCEL && m.channel == put.channel);
        done.channel = put.channel;
        say(&done);
        CHECK(asked.ends == 0 && seen.breaks == 0); /* nothing is called after a cancel, and the END was awaited */
        say(&done);
        CHECK(seen.breaks == 1);
        CHECK_STR(seen.why, "the guest broke the protocol: it answered what nobody asked");
        end();
}

/* What a guest of an older version does not have is not said to it. */
static void only_what_it_knows(void) {
        struct guest_request r = request();
        struct guest_message m, put = {.kind = GUEST_WRITE_IF, .path = "/a"}, hello = {.kind = GUEST_HELLO};
        struct err err = {0};
        int fds[2];

        begin(); /* version 1 */
        CHECK(guest_link_ask(link_, &r, &put) == -EOPNOTSUPP && !heard(&m));
        guest_link_close(TAKE_PTR(link_));
        fd_close(&guest);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        guest = fds[1];
        CHECK(guest_link_open(&core, fds[0], &events, &seen, &link_, &err) == 0 && heard(&m));
        CHECK(guest_link_ask(link_, &r, &put) == -EAGAIN); /* it has not said what it is */
        hello.version = 3;
        say(&hello);
        CHECK(guest_link_ask(link_, &r, &put) == 0 && heard(&m) && m.kind == GUEST_WRITE_IF);
        end();
}

/* Of a file more may be under way than of anything else, and not a byte beyond that. */
static void files_have_a_window_of_their_own(void) {
        static char data[GUEST_DATA_MAX];
        struct guest_request r = request();
        struct guest_message m, get = {.kind = GUEST_READ, .path = "/a", .length = UINT64_MAX};

        begin();
        CHECK(guest_link_ask(link_, &r, &get) == 0 && heard(&m));
        asked.full = true;
        struct guest_message bytes = {
                .kind = GUEST_DATA, .channel = get.channel, .data = (uint8_t *)data, .data_size = sizeof data};
        for (unsigned i = 0; i < GUEST_BULK_WINDOW / GUEST_DATA_MAX; i++)
                say(&bytes);
        CHECK(asked.bytes == GUEST_BULK_WINDOW && seen.breaks == 0 && !heard(&m));
        bytes.data_size = 1;
        say(&bytes);
        CHECK(seen.breaks == 1 && asked.bytes == GUEST_BULK_WINDOW);
        CHECK_STR(seen.why, "the guest broke the protocol: it sent more data than it had credit for");
        end();
}

static void cancelled_inside(void) {
        struct guest_request r = request();
        struct guest_message m, get = {.kind = GUEST_READ, .path = "/a", .length = 100000};
        static char data[GUEST_WINDOW];

        begin();
        CHECK(guest_link_ask(link_, &r, &get) == 0 && heard(&m));
        asked.cancel = &r;
        struct guest_message bytes = {
                .kind = GUEST_DATA, .channel = get.channel, .data = (uint8_t *)data, .data_size = 40000};
        say(&bytes);
        CHECK(heard(&m) && m.kind == GUEST_CANCEL);
        bytes.data_size = 10;
        say(&bytes); /* still under way: dropped */
        CHECK(asked.bytes == 40000 && seen.breaks == 0 && asked.ends == 0);
        end();
}

static void many_requests(void) {
        static struct guest_request r[GUEST_REQUESTS_MAX + 1];
        struct guest_message m;

        begin();
        for (size_t i = 0; i < GUEST_REQUESTS_MAX; i++) {
                struct guest_message list = {.kind = GUEST_LIST, .path = "/"};
                r[i] = request();
                CHECK(guest_link_ask(link_, &r[i], &list) == 0 && heard(&m));
        }
        struct guest_message one = {.kind = GUEST_LIST, .path = "/"};
        r[GUEST_REQUESTS_MAX] = request();
        CHECK(guest_link_ask(link_, &r[GUEST_REQUESTS_MAX], &one) == -EAGAIN);
        guest_link_close(TAKE_PTR(link_));
        CHECK(asked.ends == GUEST_REQUESTS_MAX && asked.error == -ECONNRESET && seen.breaks == 0);
        end();
}

/* Whichever callback closes the link: nothing is touched afterwards (the sanitizer looks). */
static void closed_inside(void) {
        struct guest_message m, started = {.kind = GUEST_STARTED, .channel = 1, .number = 2},
                                exited = {.kind = GUEST_EXITED, .channel = 1};
        struct guest_message out = output(1, GUEST_OUT, 0, "x", 1);
        const struct guest_message *each[] = {&started, &out, &exited};

        for (size_t i = 0; i < ELEMENTSOF(each); i++) {
                _cleanup_buf_ struct buf b = {0};

                begin();
                CHECK(exec_run(1, 0) == 0 && heard(&m));
                seen.close_then = true;
                guest_put(&b, each[i], NULL, NULL);
                guest_put(&b, each[i], NULL, NULL); /* more behind it */
                say_bytes(b.data, b.size);
                turns();
                CHECK(link_ == NULL && seen.breaks == 0);
                end();
        }
        begin();
        struct guest_request r = request();
        struct guest_message list = {.kind = GUEST_LIST, .path = "/"};
        CHECK(guest_link_ask(link_, &r, &list) == 0);
        seen.close_then = true;
        fd_close(&guest); /* the request ends, and closes the link that is being broken */
        turns();
        CHECK(asked.ends == 1 && asked.error == -ECONNRESET && seen.breaks == 0);
        end();
}

static void attaching(void) {
        struct guest_message m, list = {.kind = GUEST_LIST_RUNS};
        struct guest_request r = request();
        uint64_t offsets[GUEST_STREAMS] = {UINT64_MAX, UINT64_MAX, 1000};

        begin();
        CHECK(guest_link_ask(link_, &r, &list) == 0 && heard(&m));
        struct guest_message run = {.kind = GUEST_RUN,
                                    .channel = list.channel,
                                    .run = 3,
                                    .flags = GUEST_TERMINAL,
                                    .length = 77,
                                    .offset = 77,
                                    .oldest = {0, 0, 1500},
                                    .newest = {0, 0, 1600}};
        say(&run);
        CHECK(asked.items == 1);
        CHECK(guest_link_attach(link_, &run, offsets) == 0);
        CHECK(heard(&m) && m.kind == GUEST_ATTACH && m.channel == 3 && m.stream == GUEST_TTY && m.offset == 1000);
        struct guest_message out = output(3, GUEST_TTY, 1500, "abc", 3);
        say(&out);
        CHECK(seen.out_size == 3 && seen.first == 1500);
        out.offset = 1503;
        say(&out);
        CHECK(seen.out_size == 6 && seen.breaks == 0);
        CHECK(guest_link_input(link_, 3, "x", 1) == 1);
        struct guest_message taken = {.kind = GUEST_CREDIT, .channel = 3, .stream = GUEST_IN, .offset = 78};
        say(&taken);
        /* again from further back: what was under way comes first, then from there */
        offsets[GUEST_TTY] = 1501;
        CHECK(guest_link_attach(link_, &run, offsets) == 0);
        out.offset = 1506;
        say(&out);
        out.offset = 1501;
        say(&out);
        CHECK(seen.breaks == 0 && seen.next == 1504);
        struct guest_message exited = {.kind = GUEST_EXITED, .channel = 3, .newest = {0, 0, 1600}};
        say(&exited);
        CHECK(seen.exits == 1);
        out.offset = 1590;
        say(&out);
        CHECK(seen.breaks == 1);
        end();
}

/* --- what does not --- */

static void expect_breach(const struct guest_message *m, const char *why) {
        char text[300];

        (void)snprintf(text, sizeof text, "the guest broke the protocol: %s", why);
        say(m);
        CHECK(seen.breaks == 1 && !link_);
        CHECK_STR(seen.why, text);
        end();
}

static void begin_run(void) {
        struct guest_message m, started = {.kind = GUEST_STARTED, .channel = 1, .number = 2};

        begin();
        CHECK(exec_run(1, GUEST_STDIN) == 0 && heard(&m));
        say(&started);
}

static void breaches_of_runs(void) {
        static char data[GUEST_WINDOW];
        struct guest_message m, half = output(1, GUEST_OUT, 0, data, GUEST_WINDOW / 2 + 1);

        begin_run();
        m = output(1, GUEST_OUT, 1, "x", 1);
        expect_breach(&m, "it sent output with a gap, or twice");

        begin_run();
        m = output(1, GUEST_TTY, 0, "x", 1);
        expect_breach(&m, "it sent output of a stream that was not asked for");

        begin_run();
        m = output(2, GUEST_OUT, 0, "x", 1);
        expect_breach(&m, "it sent output of a run that nobody started");

        begin_run();
        seen.full = true;
        say(&half);
        half.offset += half.data_size;
        expect_breach(&half, "it sent more output than it had credit for");

        begin_run();
        m = (struct guest_message){.kind = GUEST_STARTED, .channel = 1, .number = 2};
        expect_breach(&m, "it began a run twice");

        begin_run();
        m = (struct guest_message){.kind = GUEST_EXITED, .channel = 1};
        say(&m);
        expect_breach(&m, "it ended a run twice");

        begin_run();
        m = output(1, GUEST_OUT, 0, "xyz", 3);
        say(&m);
        m = (struct guest_message){.kind = GUEST_EXITED, .channel = 1, .newest = {2, 0, 0}};
        expect_breach(&m, "it ended a run before its own output");

        begin_run();
        m = (struct guest_message){.kind = GUEST_EXITED, .channel = 1, .newest = {2, 0, 0}};
        say(&m);
        m = output(1, GUEST_OUT, 0, "xyz", 3);
        expect_breach(&m, "it sent output of a run behind its end");

        begin_run();
        m = (struct guest_message){.kind = GUEST_CREDIT, .channel = 1, .stream = GUEST_IN, .offset = 1};
        expect_breach(&m, "it gave credit for input that was never sent");

        begin_run();
        m = (struct guest_message){.kind = GUEST_CREDIT, .channel = 1, .stream = GUEST_OUT, .offset = 0};
        expect_breach(&m, "it gave credit for input that was never sent");
}

static struct guest_request pending;

static uint32_t begin_request(enum guest_kind kind) {
        struct guest_message m, ask = {.kind = kind, .path = "/a", .length = kind == GUEST_READ ? 10 : 0, .target = ""};

        if (kind == GUEST_CONNECT || kind == GUEST_LIST_RUNS) {
                ask.path = NULL;
                ask.port = kind == GUEST_CONNECT ? 80 : 0;
        }
        begin();
        pending = request();
        CHECK(guest_link_ask(link_, &pending, &ask) == 0 && heard(&m) && m.kind == kind);
        return ask.channel;
}

static void breaches_of_requests(void) {
        struct guest_message m = {.kind = GUEST_ENTRY, .path = "x"};

        m.channel = begin_request(GUEST_READ);
        expect_breach(&m, "its answer does not fit the question");
        CHECK(asked.ends == 1 && asked.error == -ECONNRESET);

        m.channel = begin_request(GUEST_STAT);
        say(&m);
        expect_breach(&m, "its answer has more parts than there can be");

        m = (struct guest_message){.kind = GUEST_RUN, .run = 1};
        m.channel = begin_request(GUEST_LIST_RUNS);
        for (uint32_t i = 0; i < GUEST_RUNS_MAX; i++, m.run++)
                say(&m);
        CHECK(asked.items == GUEST_RUNS_MAX && seen.breaks == 0);
        expect_breach(&m, "its answer has more parts than there can be");

        m = (struct guest_message){.kind = GUEST_DATA, .data = (const uint8_t *)"0123456789a", .data_size = 11};
        m.channel = begin_request(GUEST_READ);
        expect_breach(&m, "it sent more data than were asked for");

        m.channel = begin_request(GUEST_WRITE);
        expect_breach(&m, "it sent data that were not asked for");

        m.channel = begin_request(GUEST_CONNECT); /* before OPENED */
        expect_breach(&m, "it sent data that were not asked for");

        m = (struct guest_message){.kind = GUEST_FINISH};
        m.channel = begin_request(GUEST_CONNECT);
        expect_breach(&m, "it finished what was not open");

        m = (struct guest_message){.kind = GUEST_OPENED};
        m.channel = begin_request(GUEST_CONNECT);
        say(&m);
        CHECK(asked.items == 1);
        expect_breach(&m, "it opened what was not to be opened, or twice");

        m = (struct guest_message){.kind = GUEST_CREDIT, .stream = GUEST_OF_REQUEST, .offset = 1};
        m.channel = begin_request(GUEST_WRITE);
        expect_breach(&m, "it gave credit for data that were never sent");

        m.channel = begin_request(GUEST_READ);
        expect_breach(&m, "it gave credit for data that were never sent");

        m = (struct guest_message){.kind = GUEST_CHANGE, .number = GUEST_LOST};
        m.channel = begin_request(GUEST_WATCH);
        expect_breach(&m, "its answer does not fit the question");
}

static void other_breaches(void) {
        struct guest_message hello = {.kind = GUEST_HELLO, .version = 1},
                             stat = {.kind = GUEST_STAT, .channel = 1, .path = "/"};
        uint8_t frame[GUEST_HEAD + 8] = {0};
        _cleanup_buf_ struct buf b = {0};
        struct err err = {0};
        int fds[2];

        begin();
        expect_breach(&hello, "it said hello twice");

        begin();
        say(&stat);
        CHECK_STR(seen.why, "the guest broke the protocol: it sent a frame 'stat' of 6 bytes");
        end();

        begin();
        memset(frame, 0xff, sizeof frame);
        say_bytes(frame, sizeof frame);
        turns();
        CHECK_STR(seen.why, "the guest broke the protocol: it sent what can be no frame");
        end();

        begin(); /* a frame that is cut inside, by its own length */
        guest_put(&b, &(struct guest_message){.kind = GUEST_STARTED, .channel = 1, .number = 2}, NULL, NULL);
        CHECK(b.size > GUEST_HEAD);
        for (size_t i = 0; i < GUEST_HEAD; i++)
                if ((uint8_t)b.data[i] == b.size - GUEST_HEAD) {
                        b.data[i]--;
                        break;
                }
        say_bytes(b.data, b.size - 1);
        turns();
        CHECK(seen.breaks == 1 && strstr(seen.why, "malformed frame 'started'"));
        end();

        /* anything before hello */
        memset(&seen, 0, sizeof seen);
        CHECK(loop_create(&core.loop, &err) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
        guest = fds[1];
        CHECK(guest_link_open(&core, fds[0], &events, &seen, &link_, &err) == 0);
        struct guest_message early = {.kind = GUEST_STARTED, .channel = 1, .number = 2};
        expect_breach(&early, "it did not say hello first");

        begin(); /* it goes away: no breach */
        fd_close(&guest);
        turns();
        CHECK(seen.breaks == 1);
        CHECK_STR(seen.why, "the guest closed the connection");
        CHECK(!link_);
        end();
}

/* What a guest says last is heard, also when it is dead already; and descriptors that it sends are closed. */
static void last_words(void) {
        struct guest_message m, started = {.kind = GUEST_STARTED, .channel = 1, .number = 2};
        _cleanup_buf_ struct buf b = {0};
        char control[CMSG_SPACE(sizeof(int))] = {0};
        int pipes[2];

        begin();
        CHECK(exec_run(1, 0) == 0 && heard(&m));
        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        guest_put(&b, &started, NULL, NULL);
        struct iovec part = {b.data, b.size};
        struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pipes[1], sizeof(int));
        CHECK(sendmsg(guest, &h, 0) == (ssize_t)b.size);
        fd_close(&pipes[1]);
        buf_free(&b);
        for (uint64_t i = 0; i < 2000; i++) { /* more frames than one turn takes */
                struct guest_message out = output(1, GUEST_OUT, i, "x", 1);
                guest_put(&b, &out, NULL, NULL);
        }
        say_bytes(b.data, b.size);
        fd_close(&guest);
        turns();
        turns();
        CHECK(seen.starts == 1 && seen.out_size == 2000 && seen.breaks == 1);
        CHECK(read(pipes[0], &control, 1) == 0); /* end of file: nobody holds the other end */
        (void)close(pipes[0]);
        end();
}

TEST_MAIN(TEST(run_with_output), TEST(descriptors), TEST(credit), TEST(does_not_read), TEST(unstarted), TEST(requests),
          TEST(only_what_it_knows), TEST(files_have_a_window_of_their_own), TEST(cancelled_inside), TEST(many_requests),
          TEST(closed_inside), TEST(attaching), TEST(breaches_of_runs), TEST(breaches_of_requests),
          TEST(other_breaches), TEST(last_words))
