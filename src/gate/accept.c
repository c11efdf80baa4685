/* Accepting. A turn takes a bounded number of connections, so that a flood of them leaves time for those that are
 * there; when descriptors run out the socket is left alone for a moment instead of being asked again and again. */
#include "gate/accept.h"

#include <sys/socket.h>

#include "gate/flow.h"

#define ACCEPT_MAX 64

#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: their headers do not go with libc's */

int accept_destination(int fd, struct address *ret, uint16_t *ret_port) {
        struct sockaddr_storage s = {0};
        socklen_t size = sizeof s;

        if (getpeername(fd, (struct sockaddr *)&s, &size) < 0)
                return -errno;
        if (!address_from_socket(&s, ret, ret_port))
                return -EAFNOSUPPORT;
        bool v4 = address_is_v4(ret);
        size = sizeof s;
        if (getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, ORIGINAL_DST, &s, &size) < 0)
                return -errno;
        return address_from_socket(&s, ret, ret_port) ? 0 : -EAFNOSUPPORT;
}

unsigned accept_waiting(struct ward *w, enum gate_fd which) {
        uint32_t place = w->place, generation = w->generation;
        unsigned i;

        for (i = 0; i < ACCEPT_MAX && w->fds[which] >= 0 && !w->paused[which]; i++) {
                int fd = accept4(w->fds[which], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd < 0) {
                        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                                ward_pause(w, which);
                        else if (errno == ECONNABORTED || errno == EINTR)
                                continue;
                        break;
                }
                flow_begin(w, fd, which == GATE_PROXY ? ORIGIN_PROXY : ORIGIN_TRANSPARENT);
                if (!ward_at(place, generation))
                        break;
        }
        return i;
}

static void tcp_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                (void)accept_waiting(w, GATE_TCP);
}

static void proxy_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                (void)accept_waiting(w, GATE_PROXY);
}

void accept_init(void) {
        loop_handle(LOOP_TCP, tcp_event);
        loop_handle(LOOP_PROXY, proxy_event);
}
