/* Outputs and inputs of runs. Everything here is without waiting: what cannot be read or written now is watched. */
#include "guest/stream.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/run.h"

#define SAY_ONCE (16U * 1024)       /* of one stream in one round */
#define THANKS   (GUEST_WINDOW / 4) /* so much input is used before it is confirmed */

/* How much may be read into the ring now. */
static size_t space(const struct stream *s) {
        if (s->run->lost)
                return s->ring.size;
        if (s->kind != GUEST_TTY)
                return ring_room(&s->ring);
        /* only confirmed bytes are given up while somebody is there */
        return s->attached ? s->ring.size - (size_t)(s->ring.newest - MAX(s->credit, s->ring.oldest)) : s->ring.size;
}

static void end_of_output(struct stream *s) {
        loop_unwatch(s->guest->loop, &s->watch);
        fd_close(&s->fd);
        s->drained = true;
        input_settle(&s->run->input);
        serve_wake(s->guest);
}

static void set_watch(struct stream *s) {
        if (s->fd < 0)
                return;
        if (space(s) == 0)
                loop_unwatch(s->guest->loop, &s->watch);
        else if (loop_watch(s->guest->loop, &s->watch, s->fd, EPOLLIN) < 0)
                end_of_output(s);
}

/* Once. False when there is nothing more, or no room. */
static bool read_once(struct stream *s) {
        size_t room = s->fd < 0 ? 0 : space(s);

        if (room == 0)
                return false;
        ssize_t n = ring_fill(&s->ring, s->fd, room);
        if (s->run->lost)
                ring_drop(&s->ring, s->ring.newest);
        if (n == -EAGAIN)
                s->drained = s->run->ended;
        else if (n <= 0) /* of a terminal, -EIO: nobody has it open any more */
                end_of_output(s);
        serve_wake(s->guest);
        return n > 0;
}

void stream_read(struct stream *s) {
        /* of a run that has ended, up to where its own bytes end: no event would tell that there are no more */
        while (read_once(s) && s->run->ended && !s->run->lost && !s->drained)
                ;
        set_watch(s);
}

/* There is room again, perhaps. */
static void go_on(struct stream *s) {
        if (s->run->ended && !s->drained)
                stream_read(s);
        else
                set_watch(s);
}

static void readable(struct loop_watch *w, uint32_t events) {
        (void)events;
        stream_read(LOOP_OWNER(w, struct stream, watch));
}

void stream_open(struct stream *s, struct guest *g, struct run *r, int fd, enum guest_stream kind) {
        *s = (struct stream){.guest = g, .run = r, .fd = fd, .kind = kind, .attached = true};
        s->watch.ready = readable;
        ring_init(&s->ring, kind == GUEST_TTY ? GUEST_SCROLLBACK : GUEST_RING);
        set_watch(s);
}

void stream_close(struct stream *s) {
        loop_unwatch(s->guest->loop, &s->watch);
        fd_close(&s->fd);
        ring_free(&s->ring);
}

void stream_attach(struct stream *s, uint64_t offset) {
        s->attached = true;
        s->sent = s->credit = MIN(MAX(offset, s->ring.oldest), s->ring.newest);
        if (s->kind != GUEST_TTY)
                ring_drop(&s->ring, s->credit);
        go_on(s);
        serve_wake(s->guest);
}

void stream_detach(struct stream *s) {
        s->attached = false;
        set_watch(s);
}

int stream_credit(struct stream *s, uint64_t offset) {
        if (!s->attached)
                return 0;
        if (offset > s->sent)
                return -EBADMSG;
        if (offset > s->credit) {
                s->credit = offset;
                if (s->kind != GUEST_TTY)
                        ring_drop(&s->ring, offset);
                go_on(s);
                serve_wake(s->guest);
        }
        return 0;
}

bool stream_is_told(const struct stream *s) {
        return s->sent == s->ring.newest;
}

bool stream_pump(struct stream *s) {
        size_t together;

        if (!s->attached || s->run->lost)
                return false;
        uint64_t limit = MIN(s->ring.newest, s->credit + GUEST_WINDOW);
        if (s->sent >= limit)
                return false;
        const uint8_t *data = ring_at(&s->ring, s->sent, &together);
        size_t size = MIN(MIN(together, (size_t)(limit - s->sent)), (size_t)SAY_ONCE);
        link_say(s->guest, &(struct guest_message){.kind = GUEST_OUTPUT,
                                                   .channel = s->run->number,
                                                   .stream = s->kind,
                                                   .offset = s->sent,
                                                   .data = data,
                                                   .data_size = size});
        s->sent += size;
        return s->sent < limit;
}

/* --- input --- */

static void took(struct input *i, size_t size) {
        i->taken += size;
        if (i->taken - i->thanks < THANKS)
                return;
        i->thanks = i->taken;
        link_say(i->guest,
                 &(struct guest_message){
                         .kind = GUEST_CREDIT, .channel = i->run->number, .stream = GUEST_IN, .offset = i->taken});
}

/* Nothing is taken any more: what waits is dropped. */
static void deaf(struct input *i) {
        loop_unwatch(i->guest->loop, &i->watch);
        fd_close(&i->fd);
        took(i, ring_used(&i->ring));
        ring_free(&i->ring);
}

/* Bytes that went, 0 when there is no room, or -errno. */
static ssize_t write_some(const struct input *i, const void *data, size_t size) {
        ssize_t n;

        do
                n = write(i->fd, data, size);
        while (n < 0 && errno == EINTR);
        return n >= 0 ? n : errno == EAGAIN ? 0 : -errno;
}

/* The end of a pipe is its closing; of a terminal's input, the character that says so. */
static void finish(struct input *i) {
        struct termios t;

        if (i->terminal && tcgetattr(i->fd, &t) == 0) {
                (void)write_some(i, &t.c_cc[VEOF], 1);
                i->end_wanted = false;
                return;
        }
        deaf(i);
}

static void drain(struct input *i) {
        while (ring_used(&i->ring) > 0) {
                size_t size;
                const uint8_t *data = ring_at(&i->ring, i->ring.oldest, &size);
                ssize_t n = write_some(i, data, size);

                if (n < 0)
                        return deaf(i);
                if (n == 0) {
                        if (loop_watch(i->guest->loop, &i->watch, i->fd, EPOLLOUT) < 0)
                                deaf(i);
                        return;
                }
                ring_drop(&i->ring, i->ring.oldest + (size_t)n);
                took(i, (size_t)n);
        }
        loop_unwatch(i->guest->loop, &i->watch);
        if (i->end_wanted)
                finish(i);
}

static void writable(struct loop_watch *w, uint32_t events) {
        struct input *i = LOOP_OWNER(w, struct input, watch);

        if (events & EPOLLERR) /* nobody reads it any more */
                return deaf(i);
        drain(i);
}

void input_open(struct input *i, struct guest *g, struct run *r, int fd, bool terminal) {
        *i = (struct input){.guest = g, .run = r, .fd = fd, .terminal = terminal};
        i->watch.ready = writable;
        ring_init(&i->ring, GUEST_WINDOW);
}

void input_close(struct input *i) {
        if (i->guest)
                loop_unwatch(i->guest->loop, &i->watch);
        fd_close(&i->fd);
        ring_free(&i->ring);
}

int input_add(struct input *i, const uint8_t *data, size_t size) {
        ssize_t n = 0;

        if (i->received + size > i->thanks + GUEST_WINDOW)
                return -EBADMSG;
        i->received += size;
        if (i->fd < 0 || i->end_wanted) {
                took(i, size); /* into the void, as a closed pipe does */
                return 0;
        }
        if (ring_used(&i->ring) == 0)
                n = write_some(i, data, size);
        if (n < 0) {
                took(i, size);
                deaf(i);
                return 0;
        }
        took(i, (size_t)n);
        if ((size_t)n == size)
                return 0;
        if (ring_add(&i->ring, data + n, size - (size_t)n) < 0)
                return -EBADMSG;
        drain(i);
        return 0;
}

void input_settle(struct input *i) {
        struct pollfd p = {.fd = i->fd, .events = POLLOUT};

        if (i->fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP))
                deaf(i);
}

void input_end(struct input *i) {
        if (i->fd < 0 || i->end_wanted)
                return;
        i->end_wanted = true;
        if (ring_used(&i->ring) == 0)
                finish(i);
}
