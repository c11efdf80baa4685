/* A guest that breaks the protocol, for tests of the operator: the first argument of a run says how. It takes the place
 * of stockade-guest, so it is what a sandbox's PID 1 becomes when everything inside has been taken over.
 *
 * Without a known word it behaves: it says that the run started, prints the word, and ends it. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/guest.h"
#include "wire/report.h"

static int peer = -1;
static unsigned connections;
static bool close_always, deaf, many;
static uint64_t chance = 88172645463325252ULL;

static uint64_t pick(uint64_t below) {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        return chance % below;
}

static void say_bytes(const void *data, size_t size) {
        (void)fd_write_full(peer, data, size);
}

static void say(struct guest_message m) {
        _cleanup_buf_ struct buf b = {0};

        guest_put(&b, &m, NULL, NULL);
        if (buf_ok(&b))
                say_bytes(b.data, b.size);
}

static void started(uint32_t run) {
        say((struct guest_message){.kind = GUEST_STARTED, .channel = run, .number = 7});
}

static void output(uint32_t run, enum guest_stream stream, uint64_t offset, const void *data, size_t size) {
        say((struct guest_message){.kind = GUEST_OUTPUT,
                                   .channel = run,
                                   .stream = stream,
                                   .offset = offset,
                                   .data = data,
                                   .data_size = size});
}

static void exited(uint32_t run, uint64_t newest) {
        say((struct guest_message){.kind = GUEST_EXITED, .channel = run, .newest = {newest, 0, 0}});
}

static void behave(uint32_t run, const char *word) {
        char text[64];
        int n = snprintf(text, sizeof text, "%.50s\n", word);

        started(run);
        output(run, GUEST_OUT, 0, text, (size_t)n);
        exited(run, (uint64_t)n);
}

/* --- the ways --- */

static uint8_t block[GUEST_DATA_MAX];

static void garbage(uint32_t run) {
        (void)run;
        for (size_t i = 0; i < sizeof block; i++)
                block[i] = (uint8_t)pick(256);
        say_bytes(block, sizeof block);
}

static void zeros(uint32_t run) {
        (void)run;
        memset(block, 0, sizeof block);
        say_bytes(block, sizeof block);
}

static void beyond_window(uint32_t run) {
        started(run);
        for (uint64_t i = 0; i < 64; i++)
                output(run, GUEST_OUT, i * sizeof block, block, sizeof block);
}

static void gap(uint32_t run) {
        started(run);
        output(run, GUEST_OUT, 1000, "x", 1);
}

static void wrong_stream(uint32_t run) {
        output(run, GUEST_TTY, 0, "x", 1);
}

static void other_run(uint32_t run) {
        output(run + 1000, GUEST_OUT, 0, "x", 1);
}

static void end_twice(uint32_t run) {
        started(run);
        exited(run, 0);
        exited(run, 0);
}

static void start_twice(uint32_t run) {
        started(run);
        started(run);
}

static void hello_twice(uint32_t run) {
        (void)run;
        say((struct guest_message){.kind = GUEST_HELLO, .version = 1});
}

static void our_kind(uint32_t run) {
        say((struct guest_message){.kind = GUEST_SIGNAL, .channel = run, .number = 9});
}

static void unasked(uint32_t run) {
        say((struct guest_message){.kind = GUEST_END, .channel = run + 64});
}

static void credit(uint32_t run) {
        started(run);
        say((struct guest_message){.kind = GUEST_CREDIT, .channel = run, .stream = GUEST_IN, .offset = 1ULL << 40});
}

static void huge_frame(uint32_t run) {
        (void)run;
        memset(block, 0xff, sizeof block);
        say_bytes(block, GUEST_HEAD);
}

static void half_frame(uint32_t run) {
        _cleanup_buf_ struct buf b = {0};
        struct guest_message m = {.kind = GUEST_OUTPUT, .channel = run, .data = block, .data_size = sizeof block};

        started(run);
        guest_put(&b, &m, NULL, NULL);
        say_bytes(b.data, b.size / 2); /* and never the rest */
        deaf = true;
}

static void hang_up(uint32_t run) {
        (void)run;
        (void)close(peer);
        peer = -1;
}

static void descriptors(uint32_t run) {
        char control[CMSG_SPACE(8 * sizeof(int))] = {0};
        struct iovec part = {block, 1};
        struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        int fds[8];

        (void)run;
        for (unsigned i = 0; i < 8; i++)
                fds[i] = peer;
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(c), fds, sizeof fds);
        for (unsigned i = 0; i < 200; i++)
                (void)sendmsg(peer, &h, MSG_NOSIGNAL);
}

/* Well-formed, as fast as it goes: frames of one byte, within the window. */
static void storm(uint32_t run) {
        started(run);
        for (uint64_t i = 0; i < GUEST_WINDOW / 2; i++)
                output(run, GUEST_OUT, i, "x", 1);
        exited(run, GUEST_WINDOW / 2);
}

static void news_of_nobody(uint32_t run) {
        for (unsigned i = 0; i < 20000; i++)
                exited(run + 1 + i, 0);
        behave(run, "news");
}

static void silent(uint32_t run) {
        (void)run;
        deaf = true;
}

static void many_runs(uint32_t run) {
        hang_up(run);
        many = true; /* the next one who asks hears of them */
}

static void refuse(uint32_t run) {
        hang_up(run);
        close_always = true;
}

/* Frames of every kind with fields at random, some of them damaged. */
static void fuzz(uint32_t run) {
        static const uint16_t kinds[] = {GUEST_HELLO,  GUEST_DATA,    GUEST_CREDIT, GUEST_FINISH, GUEST_STARTED,
                                         GUEST_OUTPUT, GUEST_EXITED,  GUEST_RUN,    GUEST_ENTRY,  GUEST_CHANGE,
                                         GUEST_OPENED, GUEST_PROCESS, GUEST_END};

        chance ^= ((uint64_t)run << 32 | (uint64_t)getpid()) * 2654435761U;
        if (pick(2))
                started(run);
        for (unsigned i = 0; i < 1 + pick(30) && peer >= 0; i++) {
                _cleanup_buf_ struct buf b = {0};
                struct guest_message m = {.kind = kinds[pick(ELEMENTSOF(kinds))],
                                          .channel = pick(2) ? run : (uint32_t)pick(256),
                                          .stream = (enum guest_stream)pick(5),
                                          .offset = pick(3) ? 0 : pick(UINT64_MAX),
                                          .run = run,
                                          .version = 1,
                                          .number = (int32_t)pick(100),
                                          .mode = 0100644,
                                          .path = "x",
                                          .data = block,
                                          .data_size = 1 + pick(100)};

                guest_put(&b, &m, NULL, NULL);
                if (!buf_ok(&b))
                        continue;
                if (pick(4) == 0)
                        b.data[pick(b.size)] ^= (char)(1 << pick(8));
                say_bytes(b.data, pick(8) ? b.size : pick(b.size));
        }
}

static const struct {
        const char *word;
        void (*way)(uint32_t run);
} ways[] = {
        {"garbage", garbage},
        {"zeros", zeros},
        {"beyond-window", beyond_window},
        {"gap", gap},
        {"wrong-stream", wrong_stream},
        {"other-run", other_run},
        {"end-twice", end_twice},
        {"start-twice", start_twice},
        {"hello-twice", hello_twice},
        {"our-kind", our_kind},
        {"unasked", unasked},
        {"credit", credit},
        {"huge-frame", huge_frame},
        {"half-frame", half_frame},
        {"hang-up", hang_up},
        {"descriptors", descriptors},
        {"storm", storm},
        {"news-of-nobody", news_of_nobody},
        {"silent", silent},
        {"many-runs", many_runs},
        {"refuse", refuse},
        {"fuzz", fuzz},
};

static void take_exec(const struct guest_message *m) {
        static const char *argv[GUEST_ARGS_MAX + 1], *envp[GUEST_ARGS_MAX + 1];
        char text[16];

        guest_strings(m, argv, envp);
        for (size_t i = 0; i < ELEMENTSOF(ways); i++)
                if (str_eq(ways[i].word, argv[0])) {
                        ways[i].way(m->channel);
                        return;
                }
        if (str_eq(argv[0], "connections")) {
                (void)snprintf(text, sizeof text, "%u", connections);
                behave(m->channel, text);
        } else
                behave(m->channel, argv[0]);
}

static bool serve_one(void) {
        static uint8_t frame[GUEST_HEAD + GUEST_PAYLOAD_MAX];
        struct guest_message m;
        uint32_t size, channel;
        uint16_t kind;

        if (fd_read_full(peer, frame, GUEST_HEAD) != GUEST_HEAD || guest_head(frame, &size, &kind, &channel) < 0 ||
            fd_read_full(peer, frame + GUEST_HEAD, size) != (ssize_t)size ||
            guest_read(frame, GUEST_HEAD + size, &m) < 0)
                return false;
        if (m.kind == GUEST_EXEC)
                take_exec(&m);
        else if (m.kind >= GUEST_STAT || m.kind == GUEST_LIST_RUNS) {
                for (uint32_t i = 1; i <= 5000 && many && m.kind == GUEST_LIST_RUNS; i++)
                        say((struct guest_message){.kind = GUEST_RUN, .channel = channel, .run = 1000 + i});
                many = false;
                say((struct guest_message){.kind = GUEST_END, .channel = channel});
        }
        return true;
}

int main(void) {
        struct report up = {.kind = REPORT_SERVING};
        char byte;

        if (read(REPORT_FD, &byte, 1) != 1)
                return 0;
        (void)send(REPORT_FD, &up, sizeof up, MSG_NOSIGNAL);
        (void)close(REPORT_FD);
        for (;;) {
                struct pollfd p[2] = {{.fd = GUEST_LISTEN_FD, .events = POLLIN}, {.fd = peer, .events = POLLIN}};

                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
                if (poll(p, peer >= 0 && !deaf ? 2 : 1, 1000) <= 0)
                        continue;
                if (p[0].revents) {
                        if (peer >= 0)
                                (void)close(peer);
                        int flags = fcntl(GUEST_LISTEN_FD, F_GETFL);
                        (void)fcntl(GUEST_LISTEN_FD, F_SETFL, flags & ~O_NONBLOCK);
                        peer = accept4(GUEST_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
                        connections++;
                        deaf = false;
                        if (close_always)
                                hang_up(0);
                        else
                                hello_twice(0); /* the first time it is right */
                } else if (p[1].revents && !serve_one() && peer >= 0)
                        hang_up(0);
        }
}
