/* The crowd of bench/api: many connections that hold on to a server and want nothing of it.
 *
 *   api-crowd PORT COUNT slow   each sends one byte of a head every ten seconds
 *   api-crowd PORT COUNT idle   each says nothing
 * Prints "open" when all of them are, then a line for every line on its standard input: how many were cut so far, and
 * the microseconds of processor time that it took itself. Ends when its standard input does.
 *
 * What always holds: whoever is cut comes again, one after the other, as fast as the server lets them in. The bytes are
 * spread over the ten seconds, as those of clients that know nothing of each other are, and what this program costs is
 * a few microseconds for each byte: it must not be what the others wait for. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"

#define PERIOD_NS UINT64_C(10000000000)
#define COUNT_MAX 60000U
#define EVENTS    64

enum { WORD = UINT32_MAX, CLOCK = UINT32_MAX - 1 }; /* epoll's data; all other values are places in the table */

struct crowd {
        int epoll, clock;
        struct sockaddr_in to;
        uint32_t count, at; /* at: whose turn it is */
        uint64_t cut;
        int *fds;
        uint32_t *said; /* bytes */
};

static const char head[] = "GET /health HTTP/1.1\r\nHost: nobody\r\nX-Slow: ";

static int enter(struct crowd *c, uint32_t i) {
        struct epoll_event e = {.events = EPOLLRDHUP | EPOLLHUP | EPOLLERR, .data.u32 = i};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        /* waits for a place in the queue of the server, and no longer: to accept it is his business */
        if (fd < 0 || connect(fd, (struct sockaddr *)&c->to, sizeof c->to) < 0 ||
            epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
                int r = -errno;
                fd_close(&fd);
                return r;
        }
        c->fds[i] = fd;
        c->said[i] = 0;
        return 0;
}

static int come_again(struct crowd *c, uint32_t i) {
        fd_close(&c->fds[i]);
        c->cut++;
        return enter(c, i);
}

/* The next one says its byte. Whom the server has cut meanwhile is heard of by epoll. */
static void say(struct crowd *c) {
        uint32_t i = c->at;
        const char *byte = c->said[i] < sizeof head - 1 ? &head[c->said[i]] : "x";

        c->at = (c->at + 1) % c->count;
        if (send(c->fds[i], byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
                c->said[i]++;
}

static bool answer_word(const struct crowd *c) {
        char word[64];
        struct rusage u;

        if (read(STDIN_FILENO, word, sizeof word) <= 0 || getrusage(RUSAGE_SELF, &u) < 0)
                return false;
        (void)printf("%llu %lld\n", (unsigned long long)c->cut,
                     (long long)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
                             u.ru_stime.tv_usec);
        (void)fflush(stdout);
        return true;
}

static int stay(struct crowd *c) {
        for (;;) {
                struct epoll_event events[EVENTS];
                int n = epoll_wait(c->epoll, events, EVENTS, -1);

                for (int i = 0; i < n; i++) {
                        uint32_t who = events[i].data.u32;
                        uint64_t ticks = 0;

                        if (who == WORD && !answer_word(c))
                                return 0;
                        if (who == CLOCK && read(c->clock, &ticks, sizeof ticks) == sizeof ticks)
                                for (ticks = MIN(ticks, (uint64_t)EVENTS); ticks > 0; ticks--)
                                        say(c);
                        if (who < c->count) {
                                int r = come_again(c, who);
                                if (r < 0)
                                        return r;
                        }
                }
        }
}

static int gather(struct crowd *c, bool slow) {
        struct epoll_event word = {.events = EPOLLIN, .data.u32 = WORD}, tick = {.events = EPOLLIN, .data.u32 = CLOCK};
        struct rlimit files = {c->count + 64, c->count + 64};
        uint64_t step = PERIOD_NS / c->count;
        struct itimerspec every = {.it_interval = {(time_t)(step / 1000000000), (long)(step % 1000000000)}};

        every.it_value = every.it_interval;
        c->epoll = epoll_create1(EPOLL_CLOEXEC);
        c->clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        c->fds = calloc(c->count, sizeof *c->fds);
        c->said = calloc(c->count, sizeof *c->said);
        if (c->epoll < 0 || c->clock < 0 || !c->fds || !c->said || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
            epoll_ctl(c->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &word) < 0 ||
            epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->clock, &tick) < 0)
                return -errno;
        for (uint32_t i = 0; i < c->count; i++) {
                int r = enter(c, i);
                if (r < 0)
                        return r;
        }
        return slow && timerfd_settime(c->clock, 0, &every, NULL) < 0 ? -errno : 0;
}

int main(int argc, char **argv) {
        struct crowd c = {.to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
        unsigned long count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;

        if (count == 0 || count > COUNT_MAX || !(str_eq(argv[3], "slow") || str_eq(argv[3], "idle"))) {
                (void)fputs("Usage: api-crowd PORT COUNT slow|idle\n", stderr);
                return 2;
        }
        c.count = (uint32_t)count;
        c.to.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
        int r = gather(&c, str_eq(argv[3], "slow"));
        if (r == 0) {
                (void)puts("open");
                (void)fflush(stdout);
                r = stay(&c);
        }
        if (r < 0)
                (void)fprintf(stderr, "api-crowd: %s\n", strerror(-r));
        return r < 0;
}
