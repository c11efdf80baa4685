/* The client: orders come on standard input, answers go to standard output. */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/load.h"

#define CONNS_MAX  16384
#define LATENCIES  100000
#define PATIENCE   20000 /* ms that a connection may need to come about */
#define HOLD_AHEAD 64    /* connections that are being made at a time */

static struct load_conn conns[CONNS_MAX];
static size_t held;
static int epoll_fd = -EBADF;

static int client_watch(int operation, size_t i, uint32_t events) {
        struct epoll_event e = {.events = events, .data.u64 = i};

        return epoll_ctl(epoll_fd, operation, conns[i].fd, &e) < 0 ? -errno : 0;
}

static int client_begin(size_t i, const struct load_via *via, enum load_wish wish, struct err *err) {
        int r = load_open(&conns[i], via, wish, err);

        if (r == 0 && client_watch(EPOLL_CTL_ADD, i, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0)
                r = err_set(err, -errno, "cannot watch a connection");
        return r;
}

/* Waits for events and runs the connections that have some. Returns how many, or an error; ret has which. */
static int client_turn(uint64_t until, size_t ret[64], struct err *err) {
        struct epoll_event events[64];
        uint64_t now = measure_now();
        int n = epoll_wait(epoll_fd, events, ELEMENTSOF(events), until > now ? (int)((until - now) / 1000000 + 1) : 0);

        if (n < 0 && errno != EINTR)
                return err_set(err, -errno, "cannot wait for events");
        for (int i = 0; i < n; i++) {
                ret[i] = (size_t)events[i].data.u64;
                load_step(&conns[ret[i]]);
                if (conns[ret[i]].state == LOAD_FAILED)
                        return err_set(err, ERR_REFUSED, "connection %zu failed after %llu bytes", ret[i],
                                       (unsigned long long)conns[ret[i]].bytes);
        }
        return MAX(n, 0);
}

static void client_close(size_t count) {
        for (size_t i = 0; i < count; i++)
                load_close(&conns[i]);
}

static uint64_t client_received(size_t count) {
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++)
                sum += conns[i].bytes;
        return sum;
}

/* A quarter of the time passes before counting begins, so that windows and buffers have grown. */
static int client_stream(const struct load_via *via, size_t count, uint64_t ms, uint64_t out[2], struct err *err) {
        size_t which[64], hearing = 0;
        uint64_t limit = measure_now() + PATIENCE * 1000000ULL, begin = 0, before = 0, end = 0, now = measure_now();
        int r = 0;

        for (size_t i = 0; i < count && r == 0; i++)
                r = client_begin(i, via, LOAD_STREAM, err);
        while (r >= 0 && (end == 0 || now < end)) {
                int n = r = client_turn(end ? end : limit, which, err);

                for (int i = 0; i < n; i++)
                        if (conns[which[i]].state == LOAD_HEAR && conns[which[i]].heard != SIZE_MAX) {
                                conns[which[i]].heard = SIZE_MAX; /* from now on it is only read */
                                (void)client_watch(EPOLL_CTL_MOD, which[i], EPOLLIN);
                                hearing++;
                        }
                now = measure_now();
                if (hearing == count && end == 0)
                        end = now + ms * 1250000;
                if (end && begin == 0 && now + ms * 1000000 >= end) {
                        begin = now;
                        before = client_received(count);
                }
                if (end == 0 && now > limit)
                        r = err_set(err, -ETIME, "%zu of %zu connections came about", hearing, count);
        }
        out[0] = client_received(count) - before;
        out[1] = now - begin;
        client_close(count);
        return MIN(r, 0);
}

/* Counting ends with the time; what is under way then is finished all the same, so that nothing is broken off. */
static int client_rate(const struct load_via *via, size_t count, uint64_t ms, uint64_t out[2], struct err *err) {
        uint64_t begin = measure_now(), end = begin + ms * 1000000, limit = end + PATIENCE * 1000000ULL, now = begin;
        size_t which[64], open = count;
        int r = 0;

        for (size_t i = 0; i < count && r == 0; i++)
                r = client_begin(i, via, LOAD_BYTE, err);
        while (r >= 0 && open > 0) {
                int n = r = client_turn(now < end ? end : limit, which, err);

                now = measure_now();
                for (int i = 0; i < n && r >= 0; i++) {
                        if (conns[which[i]].state != LOAD_DONE)
                                continue;
                        load_close(&conns[which[i]]);
                        if (now < end) {
                                out[0]++;
                                out[1] = now - begin;
                                r = client_begin(which[i], via, LOAD_BYTE, err);
                        } else
                                open--;
                }
                if (r >= 0 && now > limit)
                        r = err_set(err, -ETIME, "a connection took too long");
        }
        client_close(count);
        return MIN(r, 0);
}

static int client_latency(const struct load_via *via, size_t count, uint64_t out[2], struct err *err) {
        static uint64_t ns[LATENCIES];
        struct samples samples = {.ns = ns};
        size_t which[64];
        int r = 0;

        while (r >= 0 && samples.count < MIN(count, (size_t)LATENCIES)) {
                uint64_t limit = measure_now() + PATIENCE * 1000000ULL;

                r = client_begin(0, via, LOAD_BYTE, err);
                while (r >= 0 && conns[0].state != LOAD_DONE)
                        if ((r = client_turn(limit, which, err)) >= 0 && measure_now() > limit)
                                r = err_set(err, -ETIME, "a connection took too long");
                if (r >= 0)
                        ns[samples.count++] = conns[0].first - conns[0].began;
                load_close(&conns[0]);
        }
        struct summary s = measure_summary(&samples);
        out[0] = s.p50;
        out[1] = s.p95;
        return MIN(r, 0);
}

static int client_hold(const struct load_via *via, size_t count, uint64_t out[2], struct err *err) {
        uint64_t limit = measure_now() + PATIENCE * 1000000ULL;
        size_t which[64], open = held, ready = held;
        int r = 0;

        while (r >= 0 && ready < MIN(count, (size_t)CONNS_MAX)) {
                while (r >= 0 && open < count && open < ready + HOLD_AHEAD)
                        if ((r = client_begin(open, via, LOAD_HOLD, err)) == 0)
                                open++;
                int n = r < 0 ? 0 : (r = client_turn(limit, which, err));
                for (int i = 0; i < n; i++)
                        if (conns[which[i]].bytes > 0 && conns[which[i]].heard == 0) {
                                conns[which[i]].heard = SIZE_MAX;
                                ready++;
                        }
                if (measure_now() > limit && r >= 0)
                        r = err_set(err, -ETIME, "%zu of %zu connections came about", ready, count);
        }
        held = open;
        out[0] = ready;
        return MIN(r, 0);
}

static int client_names(const char *address, const char *name, size_t count, uint64_t out[2], struct err *err) {
        struct summary s = {0};
        int r = load_names(address, name, count, &s, err);

        out[0] = s.p50;
        out[1] = s.p95;
        return r;
}

/* One order. */
static int client_order(char *line, uint64_t out[2], struct err *err) {
        char *words[5] = {NULL}, *at = NULL;
        struct load_via via = {0};
        size_t count = 0;

        for (char *w = strtok_r(line, " \n", &at); w && count < ELEMENTSOF(words); w = strtok_r(NULL, " \n", &at))
                words[count++] = w;
        if (count == 1 && str_eq(words[0], "drop")) {
                client_close(held);
                held = 0;
                return 0;
        }
        if (count < 3)
                return err_set(err, ERR_INPUT, "an order has more words");
        uint64_t a = strtoull(words[count - 2], NULL, 10), b = strtoull(words[count - 1], NULL, 10);
        if (count == 4 && str_eq(words[0], "names"))
                return client_names(words[1], words[2], b, out, err);
        if (count == 4 && str_eq(words[0], "asks"))
                return load_asks(words[1], words[2], b, &out[0], &out[1], err);
        int r = load_parse_via(words[1], &via, err);
        if (r < 0)
                return r;
        if (MAX(a, b) > CONNS_MAX * 8ULL)
                return err_set(err, ERR_INPUT, "more than this client can hold");
        if (count == 4 && str_eq(words[0], "stream"))
                return client_stream(&via, MIN(a, (uint64_t)CONNS_MAX), b, out, err);
        if (count == 4 && str_eq(words[0], "rate"))
                return client_rate(&via, MIN(a, (uint64_t)CONNS_MAX), b, out, err);
        if (count == 3 && str_eq(words[0], "latency"))
                return client_latency(&via, b, out, err);
        static struct load_via kept; /* the connections stay and point to it */
        kept = via;
        if (count == 3 && str_eq(words[0], "hold"))
                return client_hold(&kept, b, out, err);
        return err_set(err, ERR_INPUT, "not an order");
}

int load_client(void) {
        char line[1024];

        for (epoll_fd = epoll_create1(EPOLL_CLOEXEC); epoll_fd >= 0 && fgets(line, sizeof(line), stdin);) {
                struct err err = {0};
                uint64_t out[2] = {0, 0};

                if (client_order(line, out, &err) < 0)
                        (void)printf("failed %s\n", err.text);
                else
                        (void)printf("ok %llu %llu\n", (unsigned long long)out[0], (unsigned long long)out[1]);
                (void)fflush(stdout);
        }
        return epoll_fd < 0;
}
