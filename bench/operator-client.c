/* The client of bench/operator: speaks to the operator's local socket and takes times around what it asks.
 *
 *   operator-client SOCKET create N JSON COMMAND…   creates (with the fields of JSON), executes, deletes; N times
 *   operator-client SOCKET exec N SANDBOX COMMAND…  executes in a running sandbox, N times
 *   operator-client SOCKET many N JSON              N creates at once; the sandboxes stay
 *   operator-client - spawn N COMMAND…              the same program without any sandbox
 *
 * One line per round with microseconds: of `create` until the answer, until the first output, until the end; of `exec`
 * and `spawn` until the first output and until the end; of `many` one line for all. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json-read.h"
#include "base/json.h"
#include "wire/local.h"

static const char *socket_path;

static uint64_t now_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

_noreturn_ static void fail(const char *what) {
        (void)fprintf(stderr, "operator-client: %s\n", what);
        exit(1);
}

static int dial(void) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || strlen(socket_path) >= sizeof to.sun_path)
                fail("no socket");
        memcpy(to.sun_path, socket_path, strlen(socket_path));
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0)
                fail("nobody listens at the socket");
        return fd;
}

static void ask(int fd, const struct buf *json) {
        _cleanup_buf_ struct buf frame = {0};

        local_put(&frame, LOCAL_REQUEST, json->data, json->size);
        if (!buf_ok(json) || !buf_ok(&frame) || fd_write_full(fd, frame.data, frame.size) < 0)
                fail("could not ask");
}

/* Reads until the answer, which the caller frees; the moment of the first output byte goes to *ret_output. */
static char *answer(int fd, uint64_t *ret_output) {
        static uint8_t bytes[LOCAL_HEAD + LOCAL_FRAME_MAX];
        size_t size = 0;

        for (;;) {
                ssize_t n = read(fd, bytes + size, sizeof bytes - size);
                if (n <= 0)
                        fail("the operator went away");
                size += (size_t)n;
                for (;;) {
                        enum local_kind kind;
                        const uint8_t *data;
                        size_t data_size;
                        ssize_t whole = local_next(bytes, size, LOCAL_FRAME_MAX, &kind, &data, &data_size);

                        if (whole < 0)
                                fail("not a frame");
                        if (whole == 0)
                                break;
                        if (kind == LOCAL_OUTPUT && ret_output && *ret_output == 0)
                                *ret_output = now_us();
                        if (kind == LOCAL_ANSWER) {
                                char *text = strndup((const char *)data, data_size);
                                bool ok = false;

                                (void)close(fd);
                                if (!text || json_check(text, data_size, NULL) < 0 ||
                                    !json_find_bool(text, "ok", &ok) || !ok) {
                                        (void)fprintf(stderr, "%s\n", text ? text : "");
                                        fail("refused");
                                }
                                return text;
                        }
                        memmove(bytes, bytes + whole, size - (size_t)whole);
                        size -= (size_t)whole;
                }
        }
}

/* {"verb": "create", …fields of extra…} */
static void create_request(struct buf *out, const char *extra) {
        const char *fields = strchr(extra, '{');

        if (!fields)
                fail("the fields have to be a JSON object");
        buf_printf(out, "{\"verb\":\"create\"%s%s", fields[1] == '}' ? "" : ",", fields + 1);
}

static void exec_request(struct buf *out, const char *sandbox, char **command) {
        struct json j = {.out = out};

        json_open(&j, NULL, '{');
        json_str(&j, "verb", "exec");
        json_str(&j, "sandbox", sandbox);
        json_open(&j, "argv", '[');
        for (; *command; command++)
                json_str(&j, NULL, *command);
        json_close(&j, ']');
        json_close(&j, '}');
}

static void remove_sandbox(const char *id) {
        _cleanup_buf_ struct buf json = {0};

        buf_printf(&json, "{\"verb\":\"delete\",\"sandbox\":\"%s\",\"force\":true}", id);
        int fd = dial();
        ask(fd, &json);
        free(answer(fd, NULL));
}

static void create_once(const char *extra, char **command) {
        _cleanup_buf_ struct buf create = {0}, exec = {0};
        char id[17];
        uint64_t output = 0;

        create_request(&create, extra);
        uint64_t begin = now_us();
        int fd = dial();
        ask(fd, &create);
        _cleanup_free_ char *made = answer(fd, NULL);
        uint64_t created = now_us();
        if (!json_find_str(made, "result.id", id, sizeof id))
                fail("no id");
        exec_request(&exec, id, command);
        fd = dial();
        ask(fd, &exec);
        _cleanup_free_ _unused_ char *done = answer(fd, &output);
        uint64_t end = now_us();
        (void)printf("%llu %llu %llu\n", (unsigned long long)(created - begin), (unsigned long long)(output - begin),
                     (unsigned long long)(end - begin));
        (void)fflush(stdout);
        remove_sandbox(id);
}

static void exec_once(const char *id, char **command) {
        _cleanup_buf_ struct buf exec = {0};
        uint64_t output = 0;

        exec_request(&exec, id, command);
        uint64_t begin = now_us();
        int fd = dial();
        ask(fd, &exec);
        _cleanup_free_ _unused_ char *done = answer(fd, &output);
        uint64_t end = now_us();
        (void)printf("%llu %llu\n", (unsigned long long)(output ? output - begin : 0),
                     (unsigned long long)(end - begin));
}

static void many(unsigned count, const char *extra) {
        _cleanup_buf_ struct buf create = {0};
        _cleanup_free_ int *fds = calloc(count, sizeof *fds);

        if (!fds)
                fail("no memory");
        create_request(&create, extra);
        uint64_t begin = now_us();
        for (unsigned i = 0; i < count; i++) {
                fds[i] = dial();
                ask(fds[i], &create);
        }
        for (unsigned i = 0; i < count; i++) /* each answer is small enough to wait in its socket */
                free(answer(fds[i], NULL));
        (void)printf("%llu\n", (unsigned long long)(now_us() - begin));
}

static void spawn_once(char **command) {
        int ends[2];
        posix_spawn_file_actions_t actions;
        pid_t pid;
        char block[256];
        uint64_t output = 0;

        if (pipe2(ends, O_CLOEXEC) < 0 || posix_spawn_file_actions_init(&actions) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0)
                fail("no pipe");
        uint64_t begin = now_us();
        if (posix_spawn(&pid, command[0], &actions, NULL, command, environ) != 0)
                fail("could not spawn");
        (void)close(ends[1]);
        while (read(ends[0], block, sizeof block) > 0)
                if (output == 0)
                        output = now_us();
        while (waitpid(pid, NULL, 0) < 0)
                ;
        uint64_t end = now_us();
        (void)close(ends[0]);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)printf("%llu %llu\n", (unsigned long long)(output ? output - begin : 0),
                     (unsigned long long)(end - begin));
}

int main(int argc, char **argv) {
        if (argc < 5)
                fail("usage: operator-client SOCKET|- create|exec|many|spawn N …");
        socket_path = argv[1];
        unsigned count = (unsigned)strtoul(argv[3], NULL, 10);
        (void)signal(SIGPIPE, SIG_IGN);
        if (str_eq(argv[2], "many")) {
                many(count, argv[4]);
                return 0;
        }
        for (unsigned i = 0; i < count; i++) {
                if (str_eq(argv[2], "create"))
                        create_once(argv[4], argv + 5);
                else if (str_eq(argv[2], "exec"))
                        exec_once(argv[4], argv + 5);
                else if (str_eq(argv[2], "spawn"))
                        spawn_once(argv + 4);
                else
                        fail("create, exec, many or spawn");
        }
        return 0;
}
