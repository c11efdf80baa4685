/* Clients, well-behaved and not, against the server with verbs of our own: framing in any pieces, answers,
 * back-pressure both ways, who is counted, who is told. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/test.h"
#include "operator/server.h"

static struct core core;
static struct sockaddr_un place = {.sun_family = AF_UNIX};
static socklen_t place_size;

static struct {
        unsigned requests, inputs, finishes, controls, writables, gones;
        size_t bytes;
        struct client *kept;
        char control[100];
        bool hold_input;
} seen;

static void on_input(struct client *c, enum local_kind kind, const uint8_t *data, size_t size) {
        CHECK(c == seen.kept);
        if (kind == LOCAL_INPUT) {
                seen.inputs++;
                seen.bytes += size;
                if (seen.hold_input)
                        client_hold_input(c, true);
        } else if (kind == LOCAL_CONTROL) {
                seen.controls++;
                (void)snprintf(seen.control, sizeof seen.control, "%s", (const char *)data);
        } else if (kind == LOCAL_FINISH)
                seen.finishes++;
}

static void on_writable(struct client *c) {
        (void)c;
        seen.writables++;
}

static void on_gone(struct client *c) {
        CHECK(c == seen.kept);
        seen.gones++;
        seen.kept = NULL;
        client_answer(c, "{}"); /* said too late: dropped */
}

void verbs_dispatch(struct client *c) {
        char verb[32] = "";

        seen.requests++;
        CHECK(json_find_str(c->request, "verb", verb, sizeof verb));
        if (str_eq(verb, "at-once"))
                client_answer(c, "{\"a\":1}");
        else if (str_eq(verb, "large") || str_eq(verb, "too-large")) {
                size_t size = str_eq(verb, "large") ? 4U << 20 : 17U << 20;
                char *text_ = malloc(size);

                memset(text_, ' ', size);
                memcpy(text_, "[]", 2);
                text_[size - 1] = '\0';
                client_answer(c, text_);
                free(text_);
        } else if (str_eq(verb, "refuse"))
                client_refuse_text(c, "not_found", "look\nelsewhere", "there is no '%s'", "x\"y");
        else {
                seen.kept = c;
                if (str_eq(verb, "talk") || str_eq(verb, "talk-later")) {
                        c->gone = on_gone;
                        c->writable = on_writable;
                        if (str_eq(verb, "talk"))
                                c->input = on_input;
                }
        }
}

static void turns(void) {
        for (unsigned i = 0; i < 30; i++)
                CHECK(loop_turn(core.loop, 0) == 0);
}

static void begin(void) {
        struct err err = {0};
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        memset(&seen, 0, sizeof seen);
        core = (struct core){.local = listener, .own_uid = (uid_t)-2, .conf.owner_clients = 256};
        CHECK(loop_create(&core.loop, &err) == 0);
        /* an address that the kernel picks: nothing is left in a file system */
        CHECK(bind(listener, (struct sockaddr *)&place, sizeof(sa_family_t)) == 0 && listen(listener, 2000) == 0);
        place_size = sizeof place;
        CHECK(getsockname(listener, (struct sockaddr *)&place, &place_size) == 0);
        CHECK(server_open(&core, listener, &err) == 0);
}

static void end(void) {
        server_close(&core);
        (void)close(core.local);
        loop_destroy(core.loop);
}

static int dial(void) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CHECK(connect(fd, (struct sockaddr *)&place, place_size) == 0);
        return fd;
}

static void say(int fd, enum local_kind kind, const void *data, size_t size) {
        _cleanup_buf_ struct buf b = {0};

        local_put(&b, kind, data, size);
        CHECK(buf_ok(&b) && write(fd, b.data, b.size) == (ssize_t)b.size);
        turns();
}

static void ask(int fd, const char *json) {
        say(fd, LOCAL_REQUEST, json, strlen(json));
}

/* The next frame; its payload as text. "" at the end of the connection. */
static char text[1 << 20];
static enum local_kind hear(int fd) {
        uint8_t head[LOCAL_HEAD];

        text[0] = '\0';
        turns();
        if (fd_read_full(fd, head, sizeof head) != sizeof head)
                return 0;
        size_t size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
        CHECK(size < sizeof text);
        for (size_t at = 0; at < size;) {
                ssize_t n = recv(fd, text + at, size - at, MSG_DONTWAIT);
                if (n > 0)
                        at += (size_t)n;
                else
                        turns();
        }
        text[size] = '\0';
        return (enum local_kind)head[4];
}

static void answers(void) {
        begin();
        int fd = dial();
        ask(fd, "{\"verb\":\"at-once\"}");
        CHECK(hear(fd) == LOCAL_ANSWER);
        CHECK_STR(text, "{\"ok\":true,\"result\":{\"a\":1}}");
        CHECK(hear(fd) == 0);
        (void)close(fd);
        fd = dial();
        ask(fd, "{\"verb\":\"refuse\"}");
        CHECK(hear(fd) == LOCAL_ANSWER);
        CHECK_STR(text, "{\"ok\":false,\"error\":{\"code\":\"not_found\",\"message\":\"there is no 'x\\\"y'\","
                        "\"hint\":\"look\\u000aelsewhere\"}}");
        (void)close(fd);
        /* in single bytes */
        _cleanup_buf_ struct buf b = {0};
        local_put(&b, LOCAL_REQUEST, "{\"verb\":\"at-once\"}", 18);
        fd = dial();
        for (size_t i = 0; i < b.size; i++) {
                CHECK(seen.requests == 2);
                CHECK(write(fd, b.data + i, 1) == 1);
                turns();
        }
        CHECK(seen.requests == 3 && hear(fd) == LOCAL_ANSWER);
        (void)close(fd);
        /* and one that goes away at once is heard all the same */
        fd = dial();
        CHECK(write(fd, b.data, b.size) == (ssize_t)b.size);
        (void)close(fd);
        turns();
        CHECK(seen.requests == 4);
        end();
}

static void conversation(void) {
        static uint8_t data[LOCAL_FRAME_MAX];
        _cleanup_buf_ struct buf b = {0};

        begin();
        int fd = dial();
        local_put(&b, LOCAL_REQUEST, "{\"verb\":\"talk\"}", 15); /* everything at once */
        local_put(&b, LOCAL_INPUT, "abc", 3);
        local_put(&b, LOCAL_CONTROL, "{\"signal\":2}", 12);
        local_put(&b, LOCAL_FINISH, NULL, 0);
        CHECK(write(fd, b.data, b.size) == (ssize_t)b.size);
        turns();
        CHECK(seen.requests == 1 && seen.bytes == 3 && seen.finishes == 1);
        CHECK_STR(seen.control, "{\"signal\":2}");
        CHECK(client_send(seen.kept, LOCAL_OUTPUT, "out", 3) && client_send(seen.kept, LOCAL_ERRORS, "err", 3));
        CHECK(hear(fd) == LOCAL_OUTPUT && str_eq(text, "out") && hear(fd) == LOCAL_ERRORS && str_eq(text, "err"));
        while (client_send(seen.kept, LOCAL_OUTPUT, data, sizeof data)) /* until there is no room */
                ;
        CHECK(!client_has_room(seen.kept) && seen.writables == 0);
        while (hear(fd) == LOCAL_OUTPUT && !seen.writables)
                ;
        CHECK(seen.writables == 1 && client_has_room(seen.kept) && seen.gones == 0);
        client_answer(seen.kept, "{}");
        enum local_kind k;
        while ((k = hear(fd)) == LOCAL_OUTPUT)
                ;
        CHECK(k == LOCAL_ANSWER && hear(fd) == 0 && seen.gones == 0);
        (void)close(fd);
        end();
}

static void held_input(void) {
        begin();
        int fd = dial();
        ask(fd, "{\"verb\":\"talk\"}");
        seen.hold_input = true;
        for (unsigned i = 0; i < 3; i++)
                say(fd, LOCAL_INPUT, "x", 1);
        CHECK(seen.inputs == 1);
        client_hold_input(seen.kept, false);
        turns();
        CHECK(seen.inputs == 2);
        seen.hold_input = false;
        client_hold_input(seen.kept, false);
        turns();
        CHECK(seen.inputs == 3);
        (void)close(fd);
        turns();
        CHECK(seen.gones == 1);
        /* a handler that wants input only later */
        fd = dial();
        ask(fd, "{\"verb\":\"talk-later\"}");
        say(fd, LOCAL_INPUT, "x", 1);
        CHECK(seen.inputs == 3);
        seen.kept->input = on_input;
        client_hold_input(seen.kept, false);
        turns();
        CHECK(seen.inputs == 4);
        (void)close(fd);
        turns();
        CHECK(seen.gones == 2);
        end();
}

static void hanging_up(void) {
        begin();
        int fd = dial();
        ask(fd, "{\"verb\":\"silent\"}"); /* kept without `gone`: the struct stays until it is answered */
        (void)close(fd);
        turns();
        CHECK(!client_send(seen.kept, LOCAL_OUTPUT, "x", 1) && !client_has_room(seen.kept));
        client_answer(seen.kept, "{}");
        fd = dial();
        ask(fd, "{\"verb\":\"silent\"}"); /* and one that only says that it will say no more */
        CHECK(shutdown(fd, SHUT_WR) == 0);
        turns();
        client_answer(seen.kept, "[]");
        CHECK(hear(fd) == LOCAL_ANSWER);
        CHECK_STR(text, "{\"ok\":true,\"result\":[]}");
        (void)close(fd);
        fd = dial();
        ask(fd, "{\"verb\":\"talk\"}");
        (void)close(fd);
        turns();
        CHECK(seen.gones == 1);
        fd = dial();
        ask(fd, "{\"verb\":\"talk\"}");
        server_close(&core);
        CHECK(seen.gones == 2);
        (void)close(fd);
        end();
}

static void expect_bad(const void *data, size_t size, const char *part) {
        int fd = dial();

        CHECK(write(fd, data, size) == (ssize_t)size);
        CHECK(hear(fd) == LOCAL_ANSWER && strstr(text, "\"bad_request\""));
        if (!strstr(text, part))
                (void)printf("# got %s\n", text);
        CHECK(strstr(text, part));
        CHECK(hear(fd) == 0);
        (void)close(fd);
}

static void bad_requests(void) {
        static const uint8_t noise[] = "GET / HTTP/1.1\r\n\r\n", large[] = {0xff, 0xff, 0xff, 0x00, 'Q', 0, 0, 0};
        _cleanup_buf_ struct buf b = {0};

        begin();
        expect_bad(noise, sizeof noise - 1, "no request");
        expect_bad(large, sizeof large, "no request");
        local_put(&b, LOCAL_INPUT, "x", 1);
        expect_bad(b.data, b.size, "the first frame is no request");
        buf_free(&b);
        local_put(&b, LOCAL_REQUEST, "{\"verb\":1,}", 11);
        expect_bad(b.data, b.size, "byte");
        buf_free(&b);
        local_put(&b, LOCAL_REQUEST, "[1]", 3);
        expect_bad(b.data, b.size, "a request is a JSON object");
        buf_free(&b);
        local_put(&b, LOCAL_REQUEST, "{\"a\":\"\0\"}", 9);
        expect_bad(b.data, b.size, "");
        CHECK(seen.requests == 0);
        /* after the request: garbage ends it, and its handler hears of that */
        int fd = dial();
        ask(fd, "{\"verb\":\"talk\"}");
        say(fd, LOCAL_CONTROL, "{", 1);
        CHECK(seen.gones == 1 && seen.controls == 0);
        (void)close(fd);
        fd = dial();
        ask(fd, "{\"verb\":\"talk\"}");
        ask(fd, "{\"verb\":\"talk\"}");
        CHECK(seen.gones == 2 && seen.requests == 2);
        (void)close(fd);
        end();
}

/* A user's connections are counted, and the others still get in. */
static void too_many(void) {
        static int fds[1200];
        unsigned busy = 0, open_ = 0;

        begin();
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = dial();
                if (i % 16 == 0)
                        turns();
        }
        turns();
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                char c;
                ssize_t n = recv(fds[i], &c, 1, MSG_DONTWAIT);
                busy += n == 1;
                open_ += n < 0;
        }
        unsigned most = geteuid() == 0 ? 1024 : 256;
        CHECK(open_ == most && busy == ELEMENTSOF(fds) - most);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void)close(fds[i]);
        turns();
        for (unsigned i = 0; i < 60; i++)
                turns();
        int fd = dial();
        ask(fd, "{\"verb\":\"at-once\"}");
        CHECK(hear(fd) == LOCAL_ANSWER);
        (void)close(fd);
        end();
}

/* Answers that nobody reads do not add up without end. */
static void large_answers(void) {
        int fds[24], fd;
        unsigned refused = 0;

        begin();
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = dial();
                ask(fds[i], "{\"verb\":\"large\"}");
        }
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                uint8_t head[LOCAL_HEAD];
                CHECK(fd_read_full(fds[i], head, sizeof head) == sizeof head);
                refused += head[2] == 0; /* below 64 KiB: not the long one */
        }
        CHECK(refused >= 8 && refused < 16);
        fd = dial();
        ask(fd, "{\"verb\":\"at-once\"}"); /* small ones go on */
        CHECK(hear(fd) == LOCAL_ANSWER && strstr(text, "true"));
        (void)close(fd);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                (void)close(fds[i]);
        turns();
        fd = dial();
        ask(fd, "{\"verb\":\"too-large\"}");
        CHECK(hear(fd) == LOCAL_ANSWER && strstr(text, "too_large"));
        (void)close(fd);
        end();
}

static void draining(void) {
        begin();
        int early = dial(), fd;
        turns();
        server_drain(&core);
        ask(early, "{\"verb\":\"at-once\"}");
        CHECK(hear(early) == LOCAL_ANSWER && strstr(text, "\"busy\""));
        fd = dial(); /* waits for the next operator */
        ask(fd, "{\"verb\":\"at-once\"}");
        CHECK(seen.requests == 0);
        (void)close(early);
        (void)close(fd);
        end();
}

TEST_MAIN(TEST(answers), TEST(conversation), TEST(held_input), TEST(hanging_up), TEST(bad_requests), TEST(too_many),
          TEST(large_answers), TEST(draining))
