/* A warden on the other end of a socket pair: each answer finds its request, descriptors are taken or closed, a full
 * socket delays but loses nothing, and the warden's end is ours. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "operator/gate-link.h"
#include "operator/warden-link.h"

static struct core core;
static int warden;
static unsigned gate_gones, ends, gones, pressures;

void gate_link_gone(struct core *o, uint32_t slot) {
        CHECK(o == &core && slot == 7);
        gate_gones++;
}

void operator_end(struct core *o) {
        o->ended = true;
        ends++;
}

static void begin(void) {
        struct err err = {0};
        int fds[2];

        core = (struct core){0};
        gate_gones = ends = gones = pressures = 0;
        CHECK(loop_create(&core.loop, &err) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
        warden = fds[1];
        CHECK(warden_link_open(&core, fds[0], &err) == 0);
}

static void end(void) {
        warden_link_close(&core);
        fd_close(&warden);
        loop_destroy(core.loop);
}

static void turns(void) {
        for (unsigned i = 0; i < 10; i++)
                CHECK(loop_turn(core.loop, 0) == 0);
}

struct asked {
        unsigned answers, items;
        int error, fd;
        uint32_t serial;
};

static void done(void *data, const struct warden_message *a, int *fds, size_t count) {
        struct asked *q = data;

        if (a->kind == WARDEN_ITEM) {
                q->items++;
                return;
        }
        q->answers++;
        q->error = a->error;
        q->serial = a->serial;
        if (count > 0)
                q->fd = TAKE_FD(fds[0]);
}

static uint8_t packet[WARDEN_PACKET_MAX];

static bool hear(struct warden_message *m, int *fds, size_t *count) {
        int flags = fcntl(warden, F_GETFL);

        (void)fcntl(warden, F_SETFL, flags | O_NONBLOCK);
        return warden_receive(warden, packet, m, fds, count) == 1;
}

static void answer(uint32_t serial, int error, const int *fds, size_t count) {
        struct warden_message a = {.kind = WARDEN_ANSWER, .serial = serial, .error = error};

        CHECK(warden_send(warden, &a, fds, count) == 0);
        turns();
}

static void answers_in_any_order(void) {
        struct asked q[100] = {0};
        uint32_t serials[100];
        struct warden_message m, r = {.kind = WARDEN_CONNECT, .id = "0123456789abcdef"};
        int fds[WARDEN_FDS_MAX];
        size_t count;

        begin();
        for (size_t i = 0; i < ELEMENTSOF(q); i++) {
                CHECK(warden_call(&core, &r, NULL, 0, done, &q[i]) == 0);
                CHECK(hear(&m, fds, &count) && m.kind == WARDEN_CONNECT && m.serial == r.serial && m.serial != 0);
                serials[i] = m.serial;
        }
        for (size_t i = ELEMENTSOF(q); i-- > 0;)
                answer(serials[i], -(int)i, NULL, 0);
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                CHECK(q[i].answers == 1 && q[i].error == -(int)i && q[i].serial == serials[i]);
        answer(serials[5], 0, NULL, 0); /* once more: nobody hears it */
        CHECK(q[5].answers == 1);
        CHECK(warden_call(&core, &r, NULL, 0, done, &q[0]) == 0);
        for (size_t i = 0; i < ELEMENTSOF(q); i++) /* places are used again, numbers are not */
                CHECK(r.serial != serials[i]);
        end();
}

static void lists_and_descriptors(void) {
        struct asked q = {.fd = -1};
        struct warden_message m, r = {.kind = WARDEN_LIST}, item = {.kind = WARDEN_ITEM, .item = WARDEN_ITEM_GATE};
        int fds[WARDEN_FDS_MAX], pipes[2];
        size_t count;
        char c;

        begin();
        CHECK(warden_call(&core, &r, NULL, 0, done, &q) == 0 && hear(&m, fds, &count));
        item.serial = m.serial;
        CHECK(warden_send(warden, &item, NULL, 0) == 0 && warden_send(warden, &item, NULL, 0) == 0);
        answer(m.serial, 0, NULL, 0);
        CHECK(q.items == 2 && q.answers == 1);

        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        CHECK(warden_call(&core, &r, NULL, 0, done, &q) == 0 && hear(&m, fds, &count));
        answer(m.serial, 0, pipes, 2); /* the first is taken, the other closed */
        CHECK(q.fd >= 0);
        fd_close(&q.fd);
        (void)close(pipes[1]);
        CHECK(read(pipes[0], &c, 1) == 0);

        CHECK(warden_call(&core, &r, NULL, 0, done, &q) == 0 && hear(&m, fds, &count));
        warden_forget(&core, &q);
        answer(m.serial, 0, NULL, 0);
        CHECK(q.answers == 2);
        (void)close(pipes[0]);
        end();
}

static void full_socket(void) {
        static struct asked q[3000];
        struct warden_message m;
        int fds[WARDEN_FDS_MAX], pipes[2];
        size_t count, heard = 0;
        uint32_t last = 0;

        begin();
        memset(q, 0, sizeof q);
        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        for (size_t i = 0; i < ELEMENTSOF(q); i++) {
                struct warden_message r = {.kind = WARDEN_KEEP_KEY, .id = "0123456789abcdef"};
                CHECK(warden_call(&core, &r, &pipes[1], 1, done, &q[i]) == 0);
        }
        (void)close(pipes[1]);
        for (unsigned i = 0; i < 100000 && heard < ELEMENTSOF(q); i++) {
                if (!hear(&m, fds, &count)) {
                        CHECK(loop_turn(core.loop, 20) == 0);
                        continue;
                }
                CHECK(m.kind == WARDEN_KEEP_KEY && count == 1);
                for (size_t k = 0; k < count; k++)
                        (void)close(fds[k]);
                last = m.serial;
                heard++;
                answer(last, 0, NULL, 0);
        }
        CHECK(heard == ELEMENTSOF(q));
        for (size_t i = 0; i < ELEMENTSOF(q); i++)
                CHECK(q[i].answers == 1);
        char c;
        CHECK(read(pipes[0], &c, 1) == 0); /* no copy is left */
        (void)close(pipes[0]);
        end();
}

static void on_gone(struct core *o, const struct warden_message *m) {
        CHECK(o == &core && str_eq(m->id, "0123456789abcdef"));
        gones++;
}

static void on_pressure(struct core *o, bool low) {
        (void)o;
        pressures += low;
}

static void unasked(void) {
        struct warden_message gone = {.kind = WARDEN_GONE, .id = "0123456789abcdef"},
                              gate = {.kind = WARDEN_GATE_GONE, .slot = 7},
                              low = {.kind = WARDEN_PRESSURE, .numbers = {1, 5}}, over = {.kind = WARDEN_END};

        begin();
        CHECK(warden_send(warden, &gone, NULL, 0) == 0); /* before anybody listens: dropped, WARDEN_LIST tells */
        turns();
        warden_link_handlers(&core, on_gone, NULL, on_pressure, NULL);
        CHECK(warden_send(warden, &gone, NULL, 0) == 0 && warden_send(warden, &gate, NULL, 0) == 0 &&
              warden_send(warden, &low, NULL, 0) == 0 && warden_send(warden, &over, NULL, 0) == 0);
        turns();
        CHECK(gones == 1 && gate_gones == 1 && pressures == 1 && ends == 1);
        end();
}

static void warden_ends(void) {
        struct asked q = {0};
        struct warden_message r = {.kind = WARDEN_LIST};

        begin();
        CHECK(warden_call(&core, &r, NULL, 0, done, &q) == 0);
        fd_close(&warden);
        CHECK(loop_run(core.loop) == 0); /* it returns */
        CHECK(q.answers == 0 && core.failed);
        end();
        begin(); /* the same with garbage */
        CHECK(write(warden, "rubbish", 7) == 7);
        CHECK(loop_run(core.loop) == 0 && core.failed);
        end();
}

TEST_MAIN(TEST(answers_in_any_order), TEST(lists_and_descriptors), TEST(full_socket), TEST(unasked), TEST(warden_ends))
