/* The loop: what is taken back is never called, what is asked for is called once, in order. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "base/test.h"

static struct loop *loop;
static unsigned calls;
static uint32_t seen;

struct end {
        struct loop_watch watch;
        int fd, other;
        struct end *victim; /* taken back when we are called */
        bool reuse;         /* the victim's number is watched anew, by `heir` */
        struct loop_watch heir;
};

static void nothing(struct loop_watch *w, uint32_t events) {
        (void)w;
        seen = events;
        calls++;
}

static void pair(struct end *e) {
        int fds[2];

        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        e->fd = fds[0];
        e->other = fds[1];
        e->watch.ready = nothing;
}

static void unpair(struct end *e) {
        loop_unwatch(loop, &e->watch);
        loop_unwatch(loop, &e->heir);
        fd_close(&e->fd);
        fd_close(&e->other);
}

static void begin(void) {
        struct err err = {0};

        calls = 0;
        seen = 0;
        CHECK(loop_create(&loop, &err) == 0);
}

static void watches(void) {
        struct end e = {0};

        begin();
        pair(&e);
        CHECK(loop_watch(loop, &e.watch, e.fd, EPOLLIN) == 0);
        CHECK(loop_turn(loop, 0) == 0 && calls == 0);
        CHECK(write(e.other, "x", 1) == 1);
        CHECK(loop_turn(loop, 0) == 0 && calls == 1 && seen == EPOLLIN);
        CHECK(loop_watch(loop, &e.watch, e.fd, EPOLLIN | EPOLLOUT) == 0); /* again, with other events */
        CHECK(loop_turn(loop, 0) == 0 && calls == 2 && seen == (EPOLLIN | EPOLLOUT));
        CHECK(loop_watch(loop, &e.watch, e.fd, 0) == 0);
        CHECK(loop_turn(loop, 0) == 0 && calls == 2);
        struct loop_watch second = {.ready = nothing};
        CHECK(loop_watch(loop, &second, e.fd, EPOLLIN) == -EEXIST);
        CHECK(loop_watch(loop, &second, -EBADF, EPOLLIN) == -EBADF);
        loop_unwatch(loop, &e.watch);
        loop_unwatch(loop, &e.watch); /* once is enough, twice does no harm */
        CHECK(loop_turn(loop, 0) == 0 && calls == 2);
        CHECK(loop_watch(loop, &second, e.fd, EPOLLIN) == 0);
        CHECK(loop_turn(loop, 0) == 0 && calls == 3);
        loop_unwatch(loop, &second);
        unpair(&e);
        loop_destroy(loop);
}

/* Whoever is called first takes the other back; its event is fetched already. */
static void take_back(struct loop_watch *w, uint32_t events) {
        struct end *e = LOOP_OWNER(w, struct end, watch), *v = e->victim;

        (void)events;
        calls++;
        int number = v->fd;
        loop_unwatch(loop, &v->watch);
        memset(&v->watch, 0xff, sizeof v->watch); /* as if it was freed */
        v->watch.on = false;
        if (e->reuse) {
                int fresh[2];
                CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fresh) == 0);
                CHECK(dup3(fresh[0], number, O_CLOEXEC) == number); /* the same number, another socket */
                (void)close(fresh[0]);
                (void)close(v->other);
                v->other = fresh[1];
                e->heir.ready = nothing;
                CHECK(loop_watch(loop, &e->heir, number, EPOLLIN) == 0);
        }
}

static void stale(bool reuse) {
        struct end a = {0}, b = {0};

        begin();
        pair(&a);
        pair(&b);
        a.victim = &b;
        b.victim = &a;
        a.reuse = b.reuse = reuse;
        a.watch.ready = b.watch.ready = take_back;
        CHECK(loop_watch(loop, &a.watch, a.fd, EPOLLIN) == 0 && loop_watch(loop, &b.watch, b.fd, EPOLLIN) == 0);
        CHECK(write(a.other, "x", 1) == 1 && write(b.other, "x", 1) == 1);
        CHECK(loop_turn(loop, 0) == 0);
        CHECK(calls == 1 && seen == 0); /* one of them, and not the heir of the other's number */
        unpair(&a);
        unpair(&b);
        loop_destroy(loop);
}

static void stale_taken_back(void) {
        stale(false);
}

static void stale_number_used_again(void) {
        stale(true);
}

static uint64_t fired[2000];
static size_t fired_count;
static struct loop_timer timers[2000];

static void note(struct loop_timer *t) {
        CHECK(t->place == 0);
        fired[fired_count++] = t->when;
}

static void again(struct loop_timer *t) {
        calls++;
        loop_timer_set(loop, t, loop_now(loop));
}

static void many_timers(void) {
        uint32_t seed = 7, cleared = 0;

        begin();
        fired_count = 0;
        uint64_t now = loop_now(loop);
        for (size_t i = 0; i < ELEMENTSOF(timers); i++) {
                timers[i] = (struct loop_timer){.fire = note};
                seed = seed * 1664525 + 1013904223;
                loop_timer_set(loop, &timers[i], now - 1000 + (seed >> 16) % 1000); /* all of them due */
        }
        for (size_t i = 0; i < ELEMENTSOF(timers); i += 3) {
                seed = seed * 1664525 + 1013904223;
                if (i % 2) {
                        loop_timer_clear(loop, &timers[i]);
                        loop_timer_clear(loop, &timers[i]);
                        cleared++;
                } else
                        loop_timer_set(loop, &timers[i], now - 1000 + (seed >> 16) % 1000);
        }
        CHECK(loop_turn(loop, -1) == 0);
        CHECK(fired_count == ELEMENTSOF(timers) - cleared);
        for (size_t i = 1; i < fired_count; i++)
                CHECK(fired[i - 1] <= fired[i]);
        loop_destroy(loop);
}

static void timers_wait(void) {
        struct loop_timer t = {.fire = note}, late = {.fire = note}, restless = {.fire = again};

        begin();
        fired_count = 0;
        uint64_t before = loop_now(loop);
        loop_timer_set(loop, &t, before + 30);
        loop_timer_set(loop, &late, before + 3600000);
        CHECK(loop_turn(loop, -1) == 0 && fired_count == 1 && loop_now(loop) >= before + 30);
        CHECK(loop_turn(loop, 1) == 0 && fired_count == 1); /* no longer than asked */
        loop_timer_set(loop, &restless, 0);
        CHECK(loop_turn(loop, -1) == 0 && calls == 1); /* once a turn */
        loop_timer_clear(loop, &restless);
        loop_timer_clear(loop, &late);
        loop_destroy(loop);
}

static char order[16];
struct work {
        struct loop_task task;
        char name;
        struct work *cancel, *queue;
};

static void work(struct loop_task *t) {
        struct work *w = LOOP_OWNER(t, struct work, task);

        order[strlen(order)] = w->name;
        if (w->cancel)
                loop_cancel(loop, &w->cancel->task);
        if (w->queue)
                loop_later(loop, &w->queue->task);
}

static void tasks(void) {
        struct work a = {{.run = work}, 'a', NULL, NULL}, b = {{.run = work}, 'b', NULL, NULL},
                    c = {{.run = work}, 'c', NULL, NULL};

        begin();
        memset(order, 0, sizeof order);
        a.cancel = &b; /* in the same round */
        c.queue = &c;  /* itself, for the next */
        loop_later(loop, &a.task);
        loop_later(loop, &a.task); /* once */
        loop_later(loop, &b.task);
        loop_later(loop, &c.task);
        CHECK(loop_turn(loop, -1) == 0);
        CHECK_STR(order, "ac");
        CHECK(loop_turn(loop, -1) == 0); /* does not wait: c is queued */
        CHECK_STR(order, "acc");
        loop_cancel(loop, &c.task);
        loop_cancel(loop, &b.task);
        CHECK(loop_turn(loop, 0) == 0);
        CHECK_STR(order, "acc");
        loop_destroy(loop);
}

static void stop(struct loop_timer *t) {
        (void)t;
        loop_stop(loop);
}

static void stops(void) {
        struct loop_timer t = {.fire = stop};

        begin();
        loop_timer_set(loop, &t, loop_now(loop) + 5);
        CHECK(loop_run(loop) == 0);
        loop_stop(loop); /* from outside: the next run ends at once */
        CHECK(loop_run(loop) == 0);
        loop_destroy(loop);
}

TEST_MAIN(TEST(watches), TEST(stale_taken_back), TEST(stale_number_used_again), TEST(many_timers), TEST(timers_wait),
          TEST(tasks), TEST(stops))
