/* The connection. Both buffers are address space that is touched as far as it is used; they are given back when the
 * connection rests.
 *
 * Must never: read while too much waits to be sent (a peer that asks and does not listen is held up by its own socket),
 * keep a descriptor that no frame claimed, act on a frame before its peer said HELLO. */
#include "guest/link.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/memory.h"
#include "guest/request.h"
#include "guest/run.h"
#include "guest/serve.h"
#include "wire/packet.h"

#define IN_ROOM    (GUEST_HEAD + GUEST_PAYLOAD_MAX)
#define IN_ONCE    (64U * 1024) /* of one turn */
#define OUT_ROOM   (2U << 20)
#define OUT_MARK   (64U * 1024)  /* above this no source says more */
#define OUT_STOP   (128U * 1024) /* above this nothing is read */
#define PIECE      (768U * 1024) /* the most that one frame's answer, or one step, says */
#define LAST_READS 16            /* of a connection whose successor is there */
#define FIRST      4096          /* bytes of each buffer that are kept while resting */
static_assert(OUT_ROOM > OUT_STOP + OUT_MARK + 2 * PIECE, "what may be said has room");

static size_t pending(const struct link *l) {
        return l->out.size - l->out_start;
}

void link_init(struct link *l) {
        *l = (struct link){.fd = -EBADF};
}

bool link_has_room(const struct link *l) {
        return link_is_up(l) && l->greeted && pending(l) < OUT_MARK;
}

static int open_buffers(struct link *l) {
        if (!l->in)
                l->in = memory_map(IN_ROOM);
        if (!l->out.data)
                l->out = (struct buf){.data = memory_map(OUT_ROOM), .room = OUT_ROOM, .max = OUT_ROOM - 1};
        return l->in && l->out.data ? 0 : -ENOMEM;
}

void link_tidy(struct link *l) {
        if (l->in_size == 0 && l->in)
                memory_rest(l->in + FIRST, IN_ROOM - FIRST);
        if (pending(l) == 0 && l->out.data)
                memory_rest(l->out.data + FIRST, OUT_ROOM - FIRST);
}

void link_break(struct guest *g) {
        g->link.broken = true;
        serve_wake(g);
}

void link_close(struct guest *g) {
        struct link *l = &g->link;

        if (l->fd < 0)
                return;
        loop_unwatch(g->loop, &l->watch);
        fd_close(&l->fd);
        packet_close(l->fds, l->fd_count);
        l->fd_count = l->in_size = l->out.size = l->out_start = 0;
        l->out.failed = l->broken = l->greeted = l->deaf = false;
        l->version = 0;
        request_drop_all(g);
        run_detach_all(g);
}

int link_claim_fds(struct link *l, int *fds, size_t count) {
        if (count > l->fd_count)
                return -EBADMSG;
        memcpy(fds, l->fds, count * sizeof *fds);
        l->fd_count -= count;
        memmove(l->fds, l->fds + count, l->fd_count * sizeof *l->fds);
        return 0;
}

static void set_events(struct guest *g) {
        struct link *l = &g->link;
        uint32_t events = (pending(l) < OUT_STOP ? (uint32_t)EPOLLIN : 0) | (pending(l) > 0 ? (uint32_t)EPOLLOUT : 0);

        if (loop_watch(g->loop, &l->watch, l->fd, events) < 0)
                l->broken = true;
}

static void send_pending(struct link *l) {
        while (pending(l) > 0) {
                ssize_t n = send(l->fd, l->out.data + l->out_start, pending(l), MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN) {
                        /* nobody hears us any more; what was said to us before is still done: see receive */
                        l->deaf = true;
                        l->out_start = l->out.size;
                }
                if (n < 0)
                        break;
                l->out_start += (size_t)n;
        }
        if (pending(l) == 0)
                l->out.size = l->out_start = 0;
        /* what is left moves to the front once there is more sent than left: each byte is moved once at most */
        if (l->out_start > pending(l)) {
                memmove(l->out.data, l->out.data + l->out_start, pending(l));
                l->out.size = pending(l);
                l->out_start = 0;
        }
}

void link_say(struct guest *g, const struct guest_message *m) {
        struct link *l = &g->link;

        if (!link_is_up(l) || l->deaf)
                return;
        guest_put(&l->out, m, NULL, NULL);
        if (!buf_ok(&l->out))
                l->broken = true;
        serve_wake(g);
}

static int greet(struct guest *g, const struct guest_message *m) {
        if (g->link.greeted)
                return -EBADMSG;
        /* every version from 1 on says what we know the same way; what is new it does not say to us */
        g->link.version = m->version;
        g->link.greeted = true;
        return 0;
}

static const struct {
        int (*act)(struct guest *g, const struct guest_message *m); /* 0, or -EBADMSG: not to be said here */
} handlers[] = {
        [GUEST_HELLO] = {greet},
        [GUEST_DATA] = {request_data},
        [GUEST_CREDIT] = {run_credit},
        [GUEST_EXEC] = {run_exec},
        [GUEST_INPUT] = {run_input},
        [GUEST_INPUT_END] = {run_input_end},
        [GUEST_SIGNAL] = {run_signal},
        [GUEST_RESIZE] = {run_resize},
        [GUEST_ATTACH] = {run_attach},
        [GUEST_FORGET] = {run_forget},
        [GUEST_LIST_RUNS] = {request_begin},
        [GUEST_STAT] = {request_begin},
        [GUEST_LIST] = {request_begin},
        [GUEST_READ] = {request_begin},
        [GUEST_WRITE] = {request_begin},
        [GUEST_MKDIR] = {request_begin},
        [GUEST_MOVE] = {request_begin},
        [GUEST_REMOVE] = {request_begin},
        [GUEST_TAR_OUT] = {request_begin},
        [GUEST_TAR_IN] = {request_begin},
        [GUEST_WATCH] = {request_begin},
        [GUEST_CONNECT] = {request_begin},
        [GUEST_PROCESSES] = {request_begin},
        [GUEST_USAGE] = {request_begin},
        [GUEST_FINISH] = {request_finish},
        [GUEST_CANCEL] = {request_cancel},
        [GUEST_WRITE_IF] = {request_begin},
        [GUEST_LEAF_END] = {request_begin},
};

/* One frame from the front of what was read: its size, 0 if it is not all there, or -EBADMSG. */
static ssize_t take_frame(struct guest *g, const uint8_t *bytes, size_t size) {
        struct guest_message m;
        uint32_t payload, channel;
        uint16_t kind;

        if (size < GUEST_HEAD)
                return 0;
        if (guest_head(bytes, &payload, &kind, &channel) < 0)
                return -EBADMSG;
        if (size < GUEST_HEAD + payload)
                return 0;
        if (guest_read(bytes, GUEST_HEAD + payload, &m) < 0)
                return -EBADMSG;
        if (kind >= ELEMENTSOF(handlers) || !handlers[kind].act || (!g->link.greeted && kind != GUEST_HELLO) ||
            handlers[kind].act(g, &m) < 0)
                return -EBADMSG;
        return (ssize_t)(GUEST_HEAD + payload);
}

static void take_frames(struct guest *g) {
        struct link *l = &g->link;
        size_t at = 0;

        while (link_is_up(l) && pending(l) < OUT_STOP) {
                ssize_t n = take_frame(g, l->in + at, l->in_size - at);

                if (n < 0)
                        link_break(g);
                if (n <= 0)
                        break;
                at += (size_t)n;
        }
        l->in_size -= at;
        memmove(l->in, l->in + at, l->in_size);
}

/* Reads once and deals with what is whole. False when there was nothing. */
static bool receive(struct guest *g) {
        struct link *l = &g->link;
        size_t count = 0;

        if (l->in_size == IN_ROOM)
                return false; /* a whole frame waits until there is room for its answer */
        ssize_t n = packet_receive(l->fd, l->in + l->in_size, MIN(IN_ROOM - l->in_size, (size_t)IN_ONCE),
                                   l->fds + l->fd_count, MIN(ELEMENTSOF(l->fds) - l->fd_count, (size_t)GUEST_FDS_MAX),
                                   &count);
        if (n == -EAGAIN)
                return false;
        l->fd_count += count;
        if (n <= 0) {
                link_break(g);
                return false;
        }
        l->in_size += (size_t)n;
        take_frames(g);
        return true;
}

static void ready(struct loop_watch *w, uint32_t events) {
        struct guest *g = LOOP_OWNER(w, struct guest, link.watch);

        if (events & EPOLLIN || (events & (EPOLLHUP | EPOLLERR) && pending(&g->link) < OUT_STOP))
                (void)receive(g);
        else if (events & (EPOLLHUP | EPOLLERR))
                link_break(g);
        serve_wake(g);
}

void link_flush(struct guest *g) {
        struct link *l = &g->link;

        if (l->fd < 0)
                return;
        if (!l->broken)
                send_pending(l);
        if (!l->broken && l->in_size >= GUEST_HEAD)
                take_frames(g); /* what was held up */
        if (!l->broken)
                set_events(g);
        if (l->broken)
                link_close(g);
}

void link_take(struct guest *g, int fd) {
        struct link *l = &g->link;

        /* what the one before had sent is still done, if it is there: its successor then finds it done */
        for (unsigned n = 0; n < LAST_READS && link_is_up(l) && receive(g); n++)
                ;
        link_close(g);
        if (open_buffers(l) < 0) {
                (void)close(fd);
                return;
        }
        l->fd = fd;
        l->watch.ready = ready;
        link_say(g, &(struct guest_message){.kind = GUEST_HELLO, .version = GUEST_VERSION});
        link_flush(g);
}
