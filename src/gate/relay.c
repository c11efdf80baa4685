/* Plain relays. Bytes are read from one socket and written to the other at once; the few that it does not accept wait
 * in a buffer of the pool, and nothing more is read until they are gone. When buffers are scarce, bytes are only peeked
 * at and taken out of the first socket as far as the second accepted them: slower, but a relay then owns no buffer,
 * however many there are. */
#include "gate/relay.h"

#include <sys/socket.h>

#include "gate/side.h"

uint8_t relay_scratch[RELAY_CHUNK];
static_assert(RELAY_CHUNK <= POOL_SIZE, "what cannot be written can be kept");

enum moved { MOVED_ALL, MOVED_MORE, MOVED_FAILED, MOVED_GONE };

/* Takes bytes from one side: how many, -errno. They are gone from it unless *ret_peeked. */
static ssize_t take(struct flow_side *from, size_t most, bool *ret_peeked) {
        *ret_peeked = !pool_plenty();
        ssize_t n = recv(from->fd, relay_scratch, most, MSG_DONTWAIT | (*ret_peeked ? MSG_PEEK : 0));

        return n < 0 ? -errno : n;
}

/* Gives the n bytes that were taken to the other side. 0 or -errno. */
static int give(struct flow_side *from, struct flow_side *to, size_t n, bool peeked, size_t *ret_given) {
        ssize_t written = side_write(to, relay_scratch, n);

        if (written < 0)
                return (int)written;
        *ret_given = peeked ? (size_t)written : n;
        if (!peeked)
                return pool_keep(&to->out, relay_scratch + written, n - (size_t)written);
        if (written > 0 && recv(from->fd, NULL, (size_t)written, MSG_TRUNC | MSG_DONTWAIT) != written)
                return -EIO;
        return 0;
}

/* One way, at most one chunk. MORE: there is more to do right now. */
static enum moved move_bytes(struct flow *f, struct flow_side *from, struct flow_side *to, enum ward_way way) {
        size_t given = 0;
        bool peeked;
        int r = side_flush(to);

        if (r < 0)
                return MOVED_FAILED;
        if (r == 0 || to->shut)
                return MOVED_ALL;
        if (from->ended) {
                flow_shut(to);
                return MOVED_ALL;
        }
        if (!from->can_read || !to->can_write)
                return MOVED_ALL;
        size_t most = turn_take(f, way, RELAY_CHUNK);
        if (most == 0 && !ward_spent(f->ward, way))
                return MOVED_ALL; /* it is run again when its turn has come */
        ssize_t n = take(from, MAX(most, 1U), &peeked);
        if (n == -EAGAIN || n == -EINTR) {
                from->can_read = false;
                return MOVED_ALL;
        }
        if (n < 0)
                return MOVED_FAILED;
        if (n == 0) {
                from->ended = true;
                flow_shut(to);
                return MOVED_ALL;
        }
        if (most == 0) {
                ward_exhaust(f->ward);
                return MOVED_GONE;
        }
        r = give(from, to, (size_t)n, peeked, &given);
        if (r < 0) {
                refuse_broken(f, to, r);
                return MOVED_GONE;
        }
        if ((size_t)n < most && !from->closing && (!peeked || given == (size_t)n))
                from->can_read = false; /* it is empty: epoll tells when it is not */
        flow_count(f, way, given);
        return from->can_read && to->can_write ? MOVED_MORE : MOVED_ALL;
}

static bool moved(struct flow *f, enum moved m) {
        switch (m) {
        case MOVED_ALL:
                return true;
        case MOVED_MORE:
                loop_later(&f->task);
                return true;
        case MOVED_FAILED:
                flow_reset(f);
                return false;
        case MOVED_GONE:
        default:
                return false;
        }
}

void relay_early(struct flow *f) {
        uint64_t before = f->ward->sums->totals.received;
        enum moved m = move_bytes(f, &f->server, &f->client, WARD_RECEIVED);

        if (m != MOVED_GONE && f->ward->sums->totals.received != before)
                f->served = true;
        (void)moved(f, m);
}

void relay_step(struct flow *f) {
        if (f->exchange) {
                converse_step(f);
                return;
        }
        if (!moved(f, move_bytes(f, &f->client, &f->server, WARD_SENT)))
                return;
        if (!moved(f, move_bytes(f, &f->server, &f->client, WARD_RECEIVED)))
                return;
        if (f->client.shut && f->server.shut)
                flow_end(f);
}
