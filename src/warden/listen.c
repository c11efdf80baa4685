/* The API's listening sockets: opened here because the operator, which uses them, may not bind.
 *
 * They are opened once and outlive every operator: who connects while there is none waits. A port that is taken, or a
 * session secret that is missing, costs the API and not the sandboxes: it is said in the log, and the daemon goes on.
 */
#include <netinet/tcp.h>

#include "base/endpoint.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/warden.h"

#define BACKLOG 1024
#define QUEUE   (128 * 1024)

int listen_door(const char *text, const char *what, const char *key, bool *outside, struct err *err) {
        union endpoint at;
        int one = 1, idle = 60, between = 15, times = 4, queue = QUEUE;

        int r = endpoint_parse(text, &at, err);
        if (r < 0)
                return r;
        *outside |= !endpoint_is_loopback(&at);
        _cleanup_fd_ int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_set(err, -errno, "could not make a socket");
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
            (at.any.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) < 0))
                return err_set(err, -errno, "could not prepare a socket");
        /* accepted ones have it too: who is cut off from the net without a word is noticed in the end */
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
        /* likewise: what the kernel has taken is sent even to somebody who was cut off */
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &queue, sizeof queue);
        if (bind(fd, &at.any, endpoint_size(&at)) < 0 || listen(fd, BACKLOG) < 0) {
                r = err_set(err, -errno, "%s cannot listen at %s", what, text);
                return err_hint(err,
                                r == -EADDRINUSE
                                        ? "another program has that port: name another one with '%s' in stockade.conf"
                                        : "see '%s' in stockade.conf(5)",
                                key);
        }
        return TAKE_FD(fd);
}

static void close_doors(struct warden *w) {
        while (w->door_count > 0)
                fd_close(&w->doors[--w->door_count]);
}

void listen_open(struct warden *w) {
        struct err door = {0}, secret = {0};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < w->conf.listen.count && i < WARDEN_DOORS; i++)
                if ((r = listen_door(w->conf.listen.items[i], "the API", "listen", &w->outside, &door)) >= 0)
                        w->doors[w->door_count++] = high_fd(r);
        int s = secret_open(w, r >= 0 && w->door_count > 0 && w->outside, &secret);
        if (r < 0)
                log_err(LOG_LEVEL_ERROR, NULL, &door);
        if (s < 0)
                log_err(LOG_LEVEL_ERROR, NULL, &secret);
        if (r < 0 || s < 0)
                close_doors(w);
}
