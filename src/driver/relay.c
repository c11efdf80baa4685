/* The relay. Every call here returns at once; whatever cannot go on waits for the next poll. */
#include "driver/relay.h"

#include <sys/socket.h>

#include "base/fd.h"
#include "wire/packet.h"

#define LAST_TURNS 16 /* of a connection whose successor is there */

enum { OUTER_DOOR, INNER_DOOR, OUTER, INNER, CALLERS };

void relay_init(struct relay *r, int outer_door, int inner_door, const uint8_t *secret) {
        r->outer_door = outer_door;
        r->inner_door = inner_door;
        r->outer = r->inner = -EBADF;
        r->secret = secret;
        for (size_t i = 0; i < RELAY_WAITING; i++)
                r->callers[i].fd = -EBADF;
}

/* --- one way --- */

static void lane_drop_fds(struct relay_lane *l) {
        packet_close(l->fds, l->fd_count);
        l->fd_count = 0;
}

static void lane_reset(struct relay_lane *l) {
        lane_drop_fds(l);
        l->start = l->end = 0;
        l->ended = l->deaf = false;
}

static bool lane_is_empty(const struct relay_lane *l) {
        return l->start == l->end;
}

static bool lane_wants(const struct relay_lane *l) {
        return !l->ended && l->end < RELAY_ROOM && l->fd_count == 0;
}

static bool would_wait(void) {
        return errno == EAGAIN || errno == EINTR;
}

static bool lane_filled(struct relay_lane *l, ssize_t n, bool waits) {
        if (n == 0 || (n < 0 && !waits))
                l->ended = true;
        if (n <= 0)
                return false;
        l->end += (size_t)n;
        return true;
}

static bool lane_fill(struct relay_lane *l, int from) {
        if (!lane_wants(l))
                return false;
        ssize_t n = recv(from, l->bytes + l->end, RELAY_ROOM - l->end, MSG_DONTWAIT);
        return lane_filled(l, n, would_wait());
}

static bool lane_fill_all(struct relay_lane *l, int from) {
        if (!lane_wants(l))
                return false;
        ssize_t n = packet_receive(from, l->bytes + l->end, RELAY_ROOM - l->end, l->fds, ELEMENTSOF(l->fds),
                                   &l->fd_count);
        return lane_filled(l, n, n == -EAGAIN);
}

/* Descriptors that went are the other side's, and ours no more. */
static ssize_t lane_send(struct relay_lane *l, int to) {
        ssize_t n = packet_send_some(to, l->bytes + l->start, l->end - l->start, l->fds, l->fd_count);

        if (n > 0)
                lane_drop_fds(l);
        return n;
}

static bool lane_drain(struct relay_lane *l, int to) {
        ssize_t n = 0;

        if (!l->deaf && !lane_is_empty(l)) {
                n = lane_send(l, to);
                if (n < 0 && !would_wait())
                        l->deaf = true; /* what the other one says is still heard */
        }
        if (n > 0)
                l->start += (size_t)n;
        if (l->deaf)
                lane_drop_fds(l);
        if (l->deaf || lane_is_empty(l))
                l->start = l->end = 0;
        return n > 0;
}

/* --- pairs --- */

static void drop_pair(struct relay *r) {
        fd_close(&r->outer);
        fd_close(&r->inner);
        r->paired = false;
        lane_reset(&r->in);
        lane_reset(&r->out);
}

static void make_pair(struct relay *r) {
        r->paired = r->outer >= 0 && r->inner >= 0;
}

static void move(struct relay *r) {
        (void)lane_fill_all(&r->in, r->outer);
        (void)lane_drain(&r->in, r->inner);
        (void)lane_fill(&r->out, r->inner);
        (void)lane_drain(&r->out, r->outer);
        if ((r->in.ended && lane_is_empty(&r->in)) || (r->out.ended && lane_is_empty(&r->out)))
                drop_pair(r);
}

static int accept_at(int door) {
        int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        return fd < 0 ? -errno : fd;
}

static void take_outer(struct relay *r) {
        int fd = accept_at(r->outer_door);

        if (fd < 0)
                return;
        if (r->paired) {
                for (unsigned n = 0; n < LAST_TURNS; n++) {
                        bool moved = lane_fill_all(&r->in, r->outer);

                        if (!lane_drain(&r->in, r->inner) && !moved)
                                break;
                }
                drop_pair(r);
        }
        fd_close(&r->outer);
        r->outer = fd;
        make_pair(r);
}

static void meet(struct relay *r, int fd) {
        r->inner = fd;
        r->met = true;
        for (size_t i = 0; i < RELAY_WAITING; i++)
                fd_close(&r->callers[i].fd);
        make_pair(r);
}

/* The one that has waited longest makes room: the guest says the secret at once, and dials again if it was too late. */
static void take_inner(struct relay *r) {
        int fd = accept_at(r->inner_door);

        if (fd < 0)
                return;
        if (!r->secret) {
                meet(r, fd);
                return;
        }
        fd_close(&r->callers[RELAY_WAITING - 1].fd);
        memmove(r->callers + 1, r->callers, sizeof r->callers - sizeof r->callers[0]);
        r->callers[0] = (struct relay_caller){.fd = fd};
}

/* No byte more than the secret is taken: what follows is for the other side. */
static void hear(struct relay *r, struct relay_caller *c) {
        uint8_t differ = 0;
        ssize_t n = recv(c->fd, c->words + c->said, BOX_SECRET_SIZE - c->said, MSG_DONTWAIT);

        if (n < 0 && would_wait())
                return;
        if (n > 0)
                c->said += (size_t)n;
        if (n > 0 && c->said < BOX_SECRET_SIZE)
                return;
        for (size_t i = 0; i < BOX_SECRET_SIZE; i++)
                differ |= c->words[i] ^ r->secret[i];
        if (n <= 0 || differ)
                fd_close(&c->fd);
        else
                meet(r, TAKE_FD(c->fd));
}

/* --- turns --- */

/* What nothing is wanted of is not asked about: its end would be told over and over again. */
static struct pollfd poll_of(int fd, bool in, bool out) {
        short events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));

        return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

void relay_ask(const struct relay *r, struct pollfd polls[RELAY_POLLS]) {
        polls[OUTER_DOOR] = poll_of(r->outer_door, true, false);
        polls[INNER_DOOR] = poll_of(r->inner < 0 ? r->inner_door : -1, true, false);
        for (size_t i = 0; i < RELAY_WAITING; i++)
                polls[CALLERS + i] = poll_of(r->callers[i].fd, true, false);
        if (r->paired) {
                polls[OUTER] = poll_of(r->outer, lane_wants(&r->in), !lane_is_empty(&r->out));
                polls[INNER] = poll_of(r->inner, lane_wants(&r->out), !lane_is_empty(&r->in));
                return;
        }
        polls[OUTER] = poll_of(-1, false, false);
        polls[INNER] = (struct pollfd){.fd = r->inner}; /* does it go away while nobody is there? */
}

void relay_answer(struct relay *r, const struct pollfd polls[RELAY_POLLS]) {
        if (r->paired && (polls[OUTER].revents || polls[INNER].revents))
                move(r);
        else if (!r->paired && polls[INNER].revents)
                fd_close(&r->inner);
        for (size_t i = 0; i < RELAY_WAITING; i++)
                if (r->callers[i].fd >= 0 && polls[CALLERS + i].revents)
                        hear(r, &r->callers[i]);
        if (polls[OUTER_DOOR].revents)
                take_outer(r);
        if (r->inner < 0 && polls[INNER_DOOR].revents)
                take_inner(r);
}
