/* Requests from whoever runs this gate. Each is carried out whole or answered with GATE_FAILED; after a failure
 * nothing is more open than before. */
#include "gate/control.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.h"
#include "gate/accept.h"
#include "gate/flow.h"
#include "gate/names.h"
#include "gate/tap.h"
#include "gate/ward.h"

#define REQUESTS_MAX 32  /* per turn */
#define FLUSH_ROUNDS 256 /* more than can wait on a socket */
#define SEND_WAIT_MS 1000

static uint8_t packet[GATE_PACKET_MAX] __attribute__((aligned(16)));

static bool flushing;

int control_send_with(const struct gate_message *m, const int *fds, size_t count) {
        int r = gate_send(GATE_FD, m, fds, count);

        /* an event that does not fit is told later; somebody waits for everything else, and for events in a flush */
        if (r == -EAGAIN && (m->kind != GATE_EVENT || flushing)) {
                struct pollfd p = {.fd = GATE_FD, .events = POLLOUT};

                (void)poll(&p, 1, SEND_WAIT_MS);
                r = gate_send(GATE_FD, m, fds, count);
        }
        if (r == -EPIPE || r == -ECONNRESET)
                _exit(0);
        return r;
}

int control_send(const struct gate_message *m) {
        return control_send_with(m, NULL, 0);
}

void control_fail(const struct err *err) {
        struct gate_message m = {.kind = GATE_FAILED, .text = err->text};

        if (gate_send(GATE_FD, &m, NULL, 0) < 0)
                err_print(err); /* nobody listens there */
        _exit(1);
}

/* What is waiting on the ward's sockets now is dealt with, as far as that is a bounded amount. */
static void deal(struct ward *w) {
        for (unsigned i = 0; i < FLUSH_ROUNDS; i++) {
                unsigned n = accept_waiting(w, GATE_TCP) + accept_waiting(w, GATE_PROXY);

                n += names_accept(w) + names_waiting(w) + tap_waiting(w);
                names_catch_up(w);
                if (n == 0)
                        break;
        }
        flow_catch_up(w);
}

static void report_all(struct ward *w) {
        flushing = true;
        event_flush(w);
        flushing = false;
}

static void flush(struct ward *w, uint32_t token) {
        struct gate_message m = {.kind = GATE_FLUSHED, .ward = w->id, .token = token};

        deal(w);
        report_all(w);
        m.totals = w->sums->totals;
        m.totals.active = w->active;
        (void)control_send(&m);
}

static int add(const struct gate_message *m, const int *fds, size_t count, struct err *err) {
        int by_kind[GATE_FD_COUNT];
        size_t next = 0;

        for (size_t i = 0; i < GATE_FD_COUNT; i++)
                by_kind[i] = m->fds & 1U << i && next < count ? fds[next++] : -EBADF;
        int r = next == count ? ward_add(m, by_kind, err) : err_set(err, -EINVAL, "descriptors are missing");
        for (size_t i = 0; i < GATE_FD_COUNT; i++)
                fd_close(&by_kind[i]);
        for (; next < count; next++)
                (void)close(fds[next]);
        return r;
}

static int carry_out(const struct gate_message *m, const int *fds, size_t count, struct err *err) {
        struct ward *w = ward_find(m->ward);
        struct gate_message reply = {.ward = m->ward, .token = m->token};

        if (m->kind == GATE_ADD)
                return add(m, fds, count, err);
        if (!w)
                return err_set(err, -ENOENT, "there is no ward %u", m->ward);
        switch (m->kind) {
        case GATE_RULES: {
                int r = ward_rules(w, m, &reply.closed, err);

                if (r < 0)
                        return r;
                reply.kind = GATE_APPLIED;
                (void)control_send(&reply);
                return 0;
        }
        case GATE_SECRET:
                return ward_secret(w, m, err);
        case GATE_REMOVE:
                report_all(w);
                ward_remove(w);
                return 0;
        case GATE_FLUSH:
                flush(w, m->token);
                return 0;
        case GATE_ADD:
        case GATE_READY:
        case GATE_AUTHORITY:
        case GATE_APPLIED:
        case GATE_EVENT:
        case GATE_FLUSHED:
        case GATE_FAILED:
        case GATE_KIND_COUNT:
        default:
                return err_set(err, -EBADMSG, "this is not a request");
        }
}

static void readable(const struct loop_ref *ref, uint32_t events) {
        (void)ref;
        (void)events;
        for (unsigned i = 0; i < REQUESTS_MAX; i++) {
                struct gate_message m;
                struct err err = {0};
                int fds[GATE_FDS_MAX];
                size_t count = 0;
                int r = gate_receive(GATE_FD, packet, &m, fds, &count);

                if (r == -EAGAIN || r == -EINTR)
                        return;
                if (r == -EBADMSG) {
                        struct gate_message failed = {.kind = GATE_FAILED, .text = "a message is malformed"};

                        (void)control_send(&failed);
                        continue;
                }
                if (r <= 0)
                        _exit(r < 0); /* whoever runs us is gone */
                r = carry_out(&m, fds, count, &err);
                uint32_t ward = m.ward;
                if (m.kind == GATE_SECRET)
                        explicit_bzero(packet, sizeof packet);
                if (r < 0) {
                        struct gate_message failed = {.kind = GATE_FAILED, .ward = ward, .text = err.text};

                        (void)control_send(&failed);
                }
        }
}

int control_init(struct err *err) {
        int flags = fcntl(GATE_FD, F_GETFL);

        if (flags < 0 || fcntl(GATE_FD, F_SETFL, flags | O_NONBLOCK) < 0)
                return err_set(err, -errno, "descriptor %d is not the control socket", GATE_FD);
        loop_handle(LOOP_CONTROL, readable);
        return 0;
}

int control_listen(struct err *err) {
        int r = loop_watch(GATE_FD, EPOLLIN, LOOP_CONTROL, 0, 0);

        return r < 0 ? err_set(err, r, "cannot watch the control socket") : 0;
}
