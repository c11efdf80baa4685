/* One side of a flow. Plain input is peeked at, so what is not used yet needs no memory here; decrypted input that is
 * not used is kept in a buffer of the pool. */
#include "gate/side.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#define KEEPALIVE_IDLE     120 /* seconds without a byte before the peer is asked whether it is there */
#define KEEPALIVE_INTERVAL 30
#define KEEPALIVE_COUNT    4

#define READS_MAX 64 /* of TLS at a time: records may be small */

void side_tune(int fd) {
        static const struct {
                int level, name, value;
        } options[] = {
                {IPPROTO_TCP, TCP_NODELAY, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE},
                {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL},
                {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT},
                {SOL_SOCKET, SO_KEEPALIVE, 1},
        };

        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

ssize_t side_write(struct flow_side *s, const void *bytes, size_t size) {
        if (s->fd < 0)
                return -EPIPE;
        if (!s->tls && !s->can_write)
                return 0;
        ssize_t n = s->tls ? tls_write(s->tls, bytes, size) : send(s->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && !s->tls)
                n = -errno;
        if (n == -EAGAIN || n == -EINTR) {
                s->can_write = false;
                s->more |= s->tls && n == -EINTR;
                return 0;
        }
        if (n >= 0 && (size_t)n < size && !s->tls)
                s->can_write = false;
        return n;
}

int side_flush(struct flow_side *s) {
        while (pool_held(&s->out) > 0) {
                ssize_t n = side_write(s, s->out.data + s->out.at, pool_held(&s->out));

                if (n <= 0)
                        return (int)n;
                pool_used(&s->out, (size_t)n);
        }
        return 1;
}

int side_put(struct flow_side *s, const void *bytes, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = side_write(s, (const uint8_t *)bytes + done, size - done);

                if (n < 0)
                        return (int)n;
                if (n == 0)
                        return pool_keep(&s->out, (const uint8_t *)bytes + done, size - done);
                done += (size_t)n;
        }
        return 0;
}

static ssize_t look_plain(struct flow_side *s, uint8_t *room, size_t size, bool *ret_new) {
        if (!s->can_read || s->ended)
                return 0;
        ssize_t n = recv(s->fd, room, size, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0) {
                s->can_read = false;
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        }
        s->ended = n == 0;
        *ret_new = true;
        return n;
}

static ssize_t look_tls(struct flow_side *s, uint8_t *room, size_t size, bool *ret_new) {
        size_t count = pool_held(&s->in);

        assert(count <= size);
        if (count > 0)
                memcpy(room, s->in.data + s->in.at, count);
        for (unsigned i = 0; count < size && !s->ended && (s->can_read || tls_pending(s->tls)); i++) {
                ssize_t n = i < READS_MAX ? tls_read(s->tls, room + count, size - count) : -EINTR;

                if (n == -EINTR) { /* enough for one turn */
                        s->more = true;
                        break;
                }
                if (n == -EAGAIN) {
                        s->can_read = false;
                        break;
                }
                if (n == -EPROTO || (n < 0 && count == 0))
                        return n;
                s->ended = n <= 0; /* cut after these bytes: they count */
                *ret_new = true;
                count += n > 0 ? (size_t)n : 0;
        }
        return (ssize_t)count;
}

ssize_t side_look(struct flow_side *s, uint8_t *room, size_t size, bool *ret_new) {
        *ret_new = false;
        if (s->fd < 0)
                return 0;
        return s->tls ? look_tls(s, room, size, ret_new) : look_plain(s, room, size, ret_new);
}

int side_used(struct flow_side *s, const uint8_t *room, size_t count, size_t used) {
        assert(used <= count);
        if (s->tls) {
                pool_drop(&s->in);
                return pool_keep(&s->in, room + used, count - used);
        }
        if (used > 0 && recv(s->fd, NULL, used, MSG_TRUNC | MSG_DONTWAIT) != (ssize_t)used)
                return -EIO;
        return 0;
}
