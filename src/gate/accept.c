/* Accepting. A turn takes a bounded number of connections, so that a flood of them leaves time for those that are
 * there; when descriptors run out the socket is left alone for a moment instead of being asked again and again. */
#include "gate/accept.h"

#include <sys/socket.h>

#include "gate/flow.h"

#define ACCEPT_MAX 64

void accept_waiting(struct ward *w, enum gate_fd which) {
        uint32_t place = w->place, generation = w->generation;

        for (unsigned i = 0; i < ACCEPT_MAX && w->fds[which] >= 0 && !w->paused[which]; i++) {
                int fd = accept4(w->fds[which], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd < 0) {
                        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                                ward_pause(w, which);
                        else if (errno == ECONNABORTED || errno == EINTR)
                                continue;
                        return;
                }
                flow_begin(w, fd, which == GATE_PROXY ? ORIGIN_PROXY : ORIGIN_TRANSPARENT);
                if (!ward_at(place, generation))
                        return;
        }
}

static void tcp_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                accept_waiting(w, GATE_TCP);
}

static void proxy_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                accept_waiting(w, GATE_PROXY);
}

void accept_init(void) {
        loop_handle(LOOP_TCP, tcp_event);
        loop_handle(LOOP_PROXY, proxy_event);
}
