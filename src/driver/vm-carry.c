/* The two sides of the line are the same but for who begins a connection: see the header. */
#include "driver/vm-carry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define LAST_READS 16 /* of a connection whose successor is there */

static void put_number(uint8_t *at, uint32_t v) {
        for (unsigned i = 0; i < 4; i++)
                at[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t get_number(const uint8_t *at) {
        return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_head(uint8_t *at, enum carry_kind kind, uint32_t number, size_t size) {
        put_number(at, kind);
        put_number(at + 4, number);
        put_number(at + 8, (uint32_t)size);
}

/* --- what goes out on the line --- */

static size_t out_room(const struct carry *c) {
        return sizeof c->out - c->out_size;
}

/* Room for a piece of data, and for the small frames that must always fit beside it. */
static bool may_say_data(const struct carry *c) {
        return c->credit > 0 && out_room(c) >= 2 * (CARRY_HEAD + CARRY_PIECE);
}

static int say(struct carry *c, enum carry_kind kind, const void *bytes, size_t size) {
        if (out_room(c) < CARRY_HEAD + size)
                return -EPROTO; /* the other side makes us answer and does not listen */
        put_head(c->out + c->out_size, kind, c->number, size);
        if (size > 0)
                memcpy(c->out + c->out_size + CARRY_HEAD, bytes, size);
        c->out_size += CARRY_HEAD + size;
        return 0;
}

static int flush_line(struct carry *c) {
        while (c->out_first < c->out_size) {
                ssize_t n = write(c->line, c->out + c->out_first, c->out_size - c->out_first);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        return -errno;
                if (n < 0)
                        break;
                c->out_first += (size_t)n;
        }
        memmove(c->out, c->out + c->out_first, c->out_size - c->out_first);
        c->out_size -= c->out_first;
        c->out_first = 0;
        return 0;
}

/* --- the present connection --- */

static void drop_end(struct carry *c) {
        fd_close(&c->end);
        c->ending = false;
        c->took = 0;
        c->deliver.first = c->deliver.used = 0;
}

/* Our end is gone: the other side hears of it. */
static int lose_end(struct carry *c) {
        drop_end(c);
        return say(c, CARRY_CLOSE, NULL, 0);
}

static void take_end(struct carry *c, int fd) {
        c->end = fd;
        c->credit = CARRY_WINDOW;
}

static int deliver(struct carry *c) {
        struct carry_ring *r = &c->deliver;

        while (c->end >= 0 && r->used > 0) {
                size_t piece = MIN(r->used, CARRY_WINDOW - r->first);
                ssize_t n = send(c->end, r->bytes + r->first, piece, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return 0;
                if (n < 0)
                        return c->ending ? (drop_end(c), 0) : lose_end(c);
                r->first = (r->first + (size_t)n) % CARRY_WINDOW;
                r->used -= (size_t)n;
                c->took += (uint32_t)n;
        }
        if (c->ending)
                drop_end(c);
        return 0;
}

/* Tells what was taken, in portions that are worth a frame. */
static int tell_took(struct carry *c) {
        uint8_t count[4];

        if (c->end < 0 || (c->took < CARRY_WINDOW / 4 && (c->took == 0 || c->deliver.used > 0)))
                return 0;
        if (out_room(c) < CARRY_HEAD + sizeof count)
                return 0;
        put_number(count, c->took);
        c->took = 0;
        return say(c, CARRY_TOOK, count, sizeof count);
}

static int read_end(struct carry *c) {
        uint8_t piece[CARRY_PIECE];
        ssize_t n = recv(c->end, piece, MIN((size_t)c->credit, sizeof piece), MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return c->ending ? (drop_end(c), 0) : lose_end(c);
        c->credit -= (uint32_t)n;
        return say(c, CARRY_DATA, piece, (size_t)n);
}

/* --- what comes in on the line --- */

static int take_open(struct carry *c, uint32_t number) {
        if (c->listener >= 0 || number <= c->number)
                return -EPROTO;
        if (c->end >= 0)
                (void)deliver(c); /* what the one before had sent, as far as it is taken now */
        drop_end(c);
        c->number = number;
        int fd = c->dial();
        if (fd < 0)
                return say(c, CARRY_CLOSE, NULL, 0);
        take_end(c, fd);
        return 0;
}

static int take_data(struct carry *c, const uint8_t *bytes, size_t size) {
        struct carry_ring *r = &c->deliver;

        if (size > CARRY_WINDOW - r->used)
                return -EPROTO;
        for (size_t done = 0; done < size;) {
                size_t at = (r->first + r->used) % CARRY_WINDOW, piece = MIN(size - done, CARRY_WINDOW - at);

                memcpy(r->bytes + at, bytes + done, piece);
                r->used += piece;
                done += piece;
        }
        return deliver(c);
}

static int take_took(struct carry *c, const uint8_t *bytes, size_t size) {
        uint32_t count = size == 4 ? get_number(bytes) : 0;

        if (count == 0 || count > CARRY_WINDOW - c->credit)
                return -EPROTO;
        c->credit += count;
        return 0;
}

static int take_frame(struct carry *c, uint32_t kind, uint32_t number, const uint8_t *bytes, size_t size) {
        if (kind == CARRY_OPEN)
                return take_open(c, number);
        if (kind != CARRY_DATA && kind != CARRY_TOOK && kind != CARRY_CLOSE)
                return -EPROTO;
        if (number > c->number)
                return -EPROTO;
        if (number < c->number || c->end < 0 || c->ending)
                return 0; /* of a connection that is no more */
        if (kind == CARRY_DATA)
                return take_data(c, bytes, size);
        if (kind == CARRY_TOOK)
                return take_took(c, bytes, size);
        c->ending = true;
        return deliver(c);
}

static int take_frames(struct carry *c) {
        size_t at = 0;

        while (c->in_size - at >= CARRY_HEAD) {
                const uint8_t *frame = c->in + at;
                uint32_t size = get_number(frame + 8);

                if (size > CARRY_PIECE)
                        return -EPROTO;
                if (c->in_size - at < CARRY_HEAD + size)
                        break;
                int r = take_frame(c, get_number(frame), get_number(frame + 4), frame + CARRY_HEAD, size);
                if (r < 0)
                        return r;
                at += CARRY_HEAD + size;
        }
        memmove(c->in, c->in + at, c->in_size - at);
        c->in_size -= at;
        return 0;
}

/* 1 when the line has ended. */
static int read_line(struct carry *c) {
        ssize_t n = read(c->line, c->in + c->in_size, sizeof c->in - c->in_size);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
                return 1;
        c->in_size += (size_t)n;
        return take_frames(c);
}

/* --- turns --- */

/* A new connection takes the place of the one before. What that one had sent is still carried, if it is there. */
static int take_over(struct carry *c) {
        int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
                return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
        for (unsigned n = 0; n < LAST_READS && c->end >= 0 && !c->ending && may_say_data(c); n++) {
                size_t before = c->out_size;
                if (read_end(c) < 0 || c->out_size == before)
                        break;
        }
        drop_end(c);
        take_end(c, fd);
        c->number++;
        return say(c, CARRY_OPEN, NULL, 0);
}

/* What our end is asked for. One that has no credit is still watched for its end, which is all that poll tells without
 * being asked; one whose data has no room here is not, until the line has taken some. */
static short end_events(const struct carry *c, bool *ret_watched) {
        bool reads = !c->ending && may_say_data(c), writes = c->deliver.used > 0;

        *ret_watched = c->end >= 0 && (reads || writes || (!c->ending && c->credit == 0));
        return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

static int turn_end(struct carry *c, short events) {
        int r = c->deliver.used > 0 ? deliver(c) : 0;

        if (r < 0 || c->end < 0 || c->ending || !(events & (POLLIN | POLLHUP | POLLERR)))
                return r;
        if (c->credit == 0)
                return events & (POLLHUP | POLLERR) ? lose_end(c) : 0;
        return may_say_data(c) ? read_end(c) : 0;
}

enum { POLL_LINE, POLL_END, POLL_LISTENER };

int carry_begin(struct carry *c) {
        c->end = -EBADF;
        return fcntl(c->line, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

void carry_ask(const struct carry *c, struct pollfd polls[CARRY_POLLS]) {
        bool watched;
        short events = end_events(c, &watched);

        polls[POLL_LINE] = (struct pollfd){.fd = c->line, .events = (short)(POLLIN | (c->out_size > 0 ? POLLOUT : 0))};
        polls[POLL_END] = (struct pollfd){.fd = watched ? c->end : -1, .events = events};
        polls[POLL_LISTENER] = (struct pollfd){.fd = out_room(c) >= CARRY_HEAD + CARRY_PIECE ? c->listener : -1,
                                               .events = POLLIN};
}

int carry_answer(struct carry *c, const struct pollfd polls[CARRY_POLLS]) {
        uint32_t number = c->number;
        int r = polls[POLL_LINE].revents & (POLLIN | POLLHUP | POLLERR) ? read_line(c) : 0;

        if (r == 0 && polls[POLL_END].revents && number == c->number) /* and not of the one that was there before */
                r = turn_end(c, polls[POLL_END].revents);
        if (r == 0)
                r = tell_took(c);
        if (r == 0 && polls[POLL_LISTENER].revents)
                r = take_over(c);
        return r == 0 ? flush_line(c) : r;
}

int carry_run(struct carry *c, int gone) {
        struct pollfd polls[CARRY_POLLS + 1];
        int r = carry_begin(c);

        while (r == 0) {
                carry_ask(c, polls);
                polls[CARRY_POLLS] = (struct pollfd){.fd = gone, .events = POLLIN};
                if (poll(polls, ELEMENTSOF(polls), -1) < 0)
                        r = errno == EINTR ? 0 : -errno;
                else
                        r = polls[CARRY_POLLS].revents ? 1 : carry_answer(c, polls);
        }
        drop_end(c);
        return MIN(r, 0);
}

/* --- before there are connections --- */

int carry_write(int line, enum carry_kind kind, const void *bytes, size_t size) {
        uint8_t head[CARRY_HEAD];

        put_head(head, kind, 0, size);
        int r = fd_write_full(line, head, sizeof head);
        return r == 0 && size > 0 ? fd_write_full(line, bytes, size) : r;
}

int carry_read(int line, enum carry_kind *ret_kind, void *bytes, size_t size) {
        uint8_t head[CARRY_HEAD];
        ssize_t n = fd_read_full(line, head, sizeof head);

        if (n >= 0 && n < (ssize_t)sizeof head)
                return -EPIPE;
        if (n < 0)
                return (int)n;
        uint32_t announced = get_number(head + 8);
        if (announced > size)
                return -EMSGSIZE;
        n = fd_read_full(line, bytes, announced);
        if (n != (ssize_t)announced)
                return n < 0 ? (int)n : -EPIPE;
        *ret_kind = (enum carry_kind)get_number(head);
        return (int)announced;
}
