/* Answers of an engine, well-formed and not, whole and in pieces; and questions to one that is played by a child. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/test.h"
#include "driver/engine.h"

static const char plain[] = "HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n{\"Id\":\"ab\"}";
static const char chunks[] =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";

/* Feeds an answer in pieces of this size; what ask_feed said last, or ask_end when all of it was not enough. */
static int feed(const char *text, size_t size, size_t piece, struct ask_answer *ret, struct err *err) {
        _cleanup_reader_ struct ask_reader reader = {.who = "the engine", .answer = ret};

        *ret = (struct ask_answer){0};
        for (size_t at = 0; at < size; at += piece) {
                int r = ask_feed(&reader, text + at, MIN(piece, size - at), err);
                if (r != 0)
                        return r;
        }
        int r = ask_end(&reader, err);
        return r < 0 ? r : 1;
}

static int feed_text(const char *text, struct err *err) {
        _cleanup_answer_ struct ask_answer a;

        return feed(text, strlen(text), strlen(text), &a, err);
}

static void reads_in_any_pieces(void) {
        for (size_t piece = 1; piece < 200; piece += 7) {
                _cleanup_answer_ struct ask_answer a, b;

                CHECK(feed(plain, sizeof plain - 1, piece, &a, NULL) == 1 && a.status == 201);
                CHECK_STR(a.body.data, "{\"Id\":\"ab\"}");
                CHECK(feed(chunks, sizeof chunks - 1, piece, &b, NULL) == 1 && b.status == 200);
                CHECK_STR(b.body.data, "{\"a\":1}");
        }
}

static void reads_every_framing(void) {
        _cleanup_answer_ struct ask_answer none, close, more;
        const char text[] = "HTTP/1.1 204 No Content\r\n\r\n", until[] = "HTTP/1.1 200 OK\r\n\r\n[1,2]",
                   first[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";

        CHECK(feed(text, sizeof text - 1, 5, &none, NULL) == 1 && none.status == 204 && none.body.size == 0);
        CHECK(feed(until, sizeof until - 1, 5, &close, NULL) == 1);
        CHECK_STR(close.body.data, "[1,2]");
        CHECK(feed(first, sizeof first - 1, 5, &more, NULL) == 1 && more.status == 404);
        CHECK_STR(more.body.data, "{}");
}

static void refuses_what_is_not_http(void) {
        static const char *const bad[] = {
                "",
                "SSH-2.0-x\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n123",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
                "HTTP/1.1 2000 OK\r\n\r\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                struct err err = {0};
                CHECK(feed_text(bad[i], &err) < 0 && err.text[0]);
        }
}

static void bounds_what_it_keeps(void) {
        _cleanup_buf_ struct buf large = {.max = 4 << 20}, head = {0};
        _cleanup_answer_ struct ask_answer a, b;
        struct err err = {0};

        buf_str(&large, "HTTP/1.1 200 OK\r\n\r\n");
        for (size_t i = 0; i < ASK_ANSWER_MAX / 16 + 1; i++)
                buf_str(&large, "0123456789abcdef");
        CHECK(feed(large.data, large.size, 16384, &a, &err) == ERR_LIMIT);
        buf_str(&head, "HTTP/1.1 200 OK\r\n");
        for (size_t i = 0; i < HTTP_HEAD_MAX / 16 + 1; i++)
                buf_str(&head, "X: 0123456789a\r\n");
        CHECK(feed(head.data, head.size, 4096, &b, &err) < 0);
}

static void picks_a_version(void) {
        char version[16];
        struct err err = {0};

        CHECK(engine_pick_version("1.41", "1.12", version, NULL) == 0);
        CHECK_STR(version, "/v1.41");
        CHECK(engine_pick_version("1.52", "1.44", version, NULL) == 0);
        CHECK_STR(version, "/v1.44");
        CHECK(engine_pick_version("1.40", "1.12", version, &err) == ERR_UNENFORCED && err.hint[0]);
        CHECK(engine_pick_version("", "", version, NULL) == ERR_UNENFORCED);
        CHECK(engine_pick_version("1.41/../x", "1.12", version, NULL) == ERR_UNENFORCED);
}

static void quotes_what_the_engine_says(void) {
        struct ask_answer a = {.status = 409};
        struct err err = {0};

        buf_str(&a.body, "{\"message\":\"in use\\u001b[31m\\nby x\"}");
        CHECK(engine_refused(&a, "could not make a container", &err) == -EEXIST && err.code == -EEXIST);
        CHECK_STR(err.text, "could not make a container: the engine says (409) 'in use\\x1b[31m\\x0aby x'");
        ask_answer_free(&a);
        a.status = 500;
        buf_str(&a.body, "<html>");
        CHECK(engine_refused(&a, "could not make a container", &err) == -EIO);
        CHECK_STR(err.text, "could not make a container: the engine says (500) 'nothing'");
        ask_answer_free(&a);
}

/* A child that answers one connection, and keeps what it was asked in `asked`. */
static pid_t play(const char *path, const char *answer, char *asked, size_t size, int *ret_pipe) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int ends[2], door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
        (void)unlink(path);
        if (door < 0 || bind(door, (struct sockaddr *)&at, sizeof at) < 0 || listen(door, 1) < 0 || pipe(ends) < 0)
                return -1;
        pid_t pid = fork();
        if (pid == 0) {
                int fd = accept(door, NULL, NULL);
                ssize_t n = recv(fd, asked, size, 0);
                (void)!write(ends[1], asked, n > 0 ? (size_t)n : 0);
                (void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
                _exit(0);
        }
        (void)close(door);
        (void)close(ends[1]);
        *ret_pipe = ends[0];
        return pid;
}

static void asks_over_a_socket(void) {
        char path[64], asked[512] = "";
        struct engine e;
        struct err err = {0};
        int from;

        (void)snprintf(path, sizeof path, "/tmp/stockade-test-engine-%d", (int)getpid());
        pid_t pid = play(path,
                         "HTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n"
                         "{\"Version\":\"9\",\"ApiVersion\":\"1.50\",\"MinAPIVersion\":\"1.24\"}",
                         asked, sizeof asked, &from);
        CHECK(pid > 0 && engine_open(&e, path, &err) == ERR_CORRUPT); /* it has a byte more than it says */
        (void)waitpid(pid, NULL, 0);
        (void)close(from);
        pid = play(path,
                   "HTTP/1.1 200 OK\r\nContent-Length: 58\r\n\r\n"
                   "{\"Version\":\"9\",\"ApiVersion\":\"1.50\",\"MinAPIVersion\":\"1.24\"}",
                   asked, sizeof asked, &from);
        CHECK(pid > 0 && engine_open(&e, path, &err) == 0);
        CHECK_STR(e.prefix, "/v1.41");
        CHECK_STR(e.release, "9");
        ssize_t n = fd_read_full(from, asked, sizeof asked - 1);
        asked[MAX(n, 0)] = '\0';
        CHECK(str_starts(asked, "GET /version HTTP/1.1\r\nHost: docker\r\n"));
        (void)waitpid(pid, NULL, 0);
        (void)close(from);
        (void)unlink(path);
        CHECK(engine_open(&e, path, &err) == -ENOENT && strstr(err.hint, "docker_socket"));
}

TEST_MAIN(TEST(reads_in_any_pieces), TEST(reads_every_framing), TEST(refuses_what_is_not_http),
          TEST(bounds_what_it_keeps), TEST(picks_a_version), TEST(quotes_what_the_engine_says),
          TEST(asks_over_a_socket))
