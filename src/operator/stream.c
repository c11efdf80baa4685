/* Frames on a stream socket. Reading goes into one buffer that all streams share; a stream has one of its own only
 * while a frame is incomplete, or while more was read than may be dealt with now. So an idle one costs its struct
 * alone. */
#include "operator/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

#define READ_BYTES (132U * 1024) /* of one turn: two frames of the largest that guests send */
#define FRAMES     64            /* of one turn */
#define LITTLE     4096          /* read for a head that is not whole yet; the least room of a chunk */
#define FRAME_MAX  (1U << 20)    /* no owner has larger ones */
#define FDS_MAX    8

struct stream_chunk {
        struct stream_chunk *next;
        size_t size, sent, room;
        size_t fd_count;
        int fds[FDS_MAX];
        uint8_t data[];
};

static uint8_t scratch[READ_BYTES];

static void watch(struct stream *s);
static void work(struct loop_task *t);
static void ready(struct loop_watch *w, uint32_t events);

int stream_open(struct stream *s, struct loop *l, int fd, const struct stream_events *events, size_t mark,
                size_t most) {
        *s = (struct stream){.loop = l, .events = events, .fd = fd, .mark = mark, .most = most};
        s->watch.ready = ready;
        s->task.run = work;
        int r = loop_watch(l, &s->watch, fd, EPOLLIN);
        if (r < 0)
                stream_close(s);
        return r;
}

static void chunk_free(struct stream_chunk *c) {
        for (size_t i = 0; i < c->fd_count; i++)
                fd_close(&c->fds[i]);
        free(c);
}

void stream_close(struct stream *s) {
        if (s->gone)
                *s->gone = true;
        if (s->loop) {
                loop_unwatch(s->loop, &s->watch);
                loop_cancel(s->loop, &s->task);
        }
        while (s->first) {
                struct stream_chunk *c = s->first;
                s->first = c->next;
                chunk_free(c);
        }
        free(s->in);
        fd_close(&s->fd);
        *s = (struct stream){.fd = -EBADF, .over = true, .told = true};
}

void stream_break(struct stream *s, int error) {
        if (s->over)
                return;
        s->over = true;
        s->error = error;
        loop_later(s->loop, &s->task);
}

/* --- reading --- */

/* A whole frame lies in front of us, or something that can be none. */
static bool has_frame(struct stream *s) {
        if (s->in_size == 0)
                return false;
        ssize_t n = s->events->measure(s, s->in, s->in_size);
        return n < 0 || (n > 0 && (size_t)n <= s->in_size);
}

/* Deals with the frames in these bytes, as many as this turn has. Returns the bytes that were used; *ret_gone says that
 * the stream is not there any more. */
static size_t deliver(struct stream *s, const uint8_t *bytes, size_t size, bool *ret_gone) {
        size_t at = 0;

        for (unsigned left = FRAMES; at < size && left > 0 && !s->held && !s->over; left--) {
                ssize_t n = s->events->measure(s, bytes + at, size - at);

                if (n < 0 || (size_t)n > FRAME_MAX) {
                        stream_break(s, n < 0 ? (int)n : -EMSGSIZE);
                        break;
                }
                if (n == 0 || (size_t)n > size - at)
                        break;
                s->gone = ret_gone;
                s->events->frame(s, bytes + at, (size_t)n);
                if (*ret_gone)
                        return 0;
                s->gone = NULL;
                at += (size_t)n;
        }
        return at;
}

/* Room for this many bytes in the stream's own buffer. */
static bool reserve(struct stream *s, size_t size) {
        if (size <= s->in_room)
                return true;
        uint8_t *in = realloc(s->in, size);
        if (!in) {
                stream_break(s, -ENOMEM);
                return false;
        }
        s->in = in;
        s->in_room = size;
        return true;
}

/* Deals with what is in the stream's own buffer. False: it is gone. */
static bool drain(struct stream *s) {
        bool gone = false;
        size_t used = deliver(s, s->in, s->in_size, &gone);

        if (gone)
                return false;
        s->in_size -= used;
        if (s->in_size > 0)
                memmove(s->in, s->in + used, s->in_size);
        else {
                free(TAKE_PTR(s->in));
                s->in_room = 0;
        }
        return true;
}

/* One read. False: the stream is gone. */
static bool read_some(struct stream *s) {
        bool gone = false, own = s->in_size > 0;
        size_t want = sizeof scratch;

        if (own) { /* the rest of its frame, if that is known: what is behind it is for the shared buffer */
                ssize_t whole = s->events->measure(s, s->in, s->in_size);
                want = whole > 0 && (size_t)whole > s->in_size
                               ? (size_t)whole - s->in_size
                               : MIN(MAX(s->in_size, (size_t)LITTLE), (size_t)READ_BYTES);
                if (!reserve(s, s->in_size + want))
                        return true;
        }
        ssize_t n = recv(s->fd, own ? s->in + s->in_size : scratch, want, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return true;
        if (n == 0 && s->half)
                s->finished = true;
        else if (n <= 0)
                stream_break(s, n < 0 ? -errno : 0);
        if (n <= 0)
                return true;
        if (own) {
                s->in_size += (size_t)n;
                return drain(s);
        }
        size_t used = deliver(s, scratch, (size_t)n, &gone), left = (size_t)n - used;
        if (gone)
                return false;
        if (left > 0 && !s->over && reserve(s, left)) {
                memcpy(s->in, scratch + used, left);
                s->in_size = left;
        }
        return true;
}

int stream_unread(struct stream *s, const void *data, size_t size) {
        if (size == 0)
                return 0;
        if (s->in_size > 0 || size > FRAME_MAX)
                return -EINVAL;
        if (!reserve(s, size))
                return -ENOMEM;
        memcpy(s->in, data, size);
        s->in_size = size;
        loop_later(s->loop, &s->task);
        watch(s);
        return 0;
}

void stream_hold(struct stream *s, bool hold) {
        if (s->held == hold || s->over)
                return;
        s->held = hold;
        if (!hold && s->in_size > 0)
                loop_later(s->loop, &s->task);
        watch(s);
}

/* --- writing --- */

static ssize_t send_some(struct stream *s, const void *data, size_t size, const int *fds, size_t fd_count) {
        union {
                struct cmsghdr head;
                char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        } control = {0};
        struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

        if (fd_count > 0) {
                m.msg_control = control.bytes;
                m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
                struct cmsghdr *c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
                memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
        }
        ssize_t n;
        do
                n = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        return errno == EAGAIN ? 0 : -errno;
}

static struct stream_chunk *chunk_make(const int *fds, size_t fd_count, size_t size) {
        size_t room = MAX(size, (size_t)LITTLE);
        struct stream_chunk *c = malloc(sizeof *c + room);

        if (!c)
                return NULL;
        *c = (struct stream_chunk){.room = room};
        for (; c->fd_count < fd_count; c->fd_count++) {
                c->fds[c->fd_count] = fcntl(fds[c->fd_count], F_DUPFD_CLOEXEC, 0);
                if (c->fds[c->fd_count] < 0) {
                        chunk_free(c);
                        return NULL;
                }
        }
        return c;
}

static int enqueue(struct stream *s, const uint8_t *data, size_t size, const int *fds, size_t fd_count) {
        struct stream_chunk *c = s->last;

        if (!c || fd_count > 0 || c->room - c->size < size) {
                c = chunk_make(fds, fd_count, size);
                if (!c)
                        return -ENOMEM;
                if (s->last)
                        s->last->next = c;
                else
                        s->first = c;
                s->last = c;
        }
        memcpy(c->data + c->size, data, size);
        c->size += size;
        s->queued += size;
        if (s->queued > s->mark)
                s->crowded = true;
        return 0;
}

int stream_send(struct stream *s, const void *data, size_t size, const int *fds, size_t fd_count) {
        const uint8_t *bytes = data;
        size_t sent = 0;

        if (s->over || s->last_word)
                return -EPIPE;
        if (fd_count > FDS_MAX || size == 0)
                return -EINVAL;
        if (s->queued > 0 && s->queued + size > s->most)
                return -EAGAIN;
        if (!s->first) {
                ssize_t n = send_some(s, data, size, fds, fd_count);
                if (n < 0) {
                        stream_break(s, (int)n);
                        return -EPIPE;
                }
                sent = (size_t)n;
                if (sent == size)
                        return 0;
        }
        int r = enqueue(s, bytes + sent, size - sent, fds, sent > 0 ? 0 : fd_count);
        if (r < 0 && sent > 0) /* half a frame is out: nothing that follows could be understood */
                stream_break(s, r);
        watch(s);
        return r;
}

static void flush(struct stream *s) {
        while (s->first && !s->over) {
                struct stream_chunk *c = s->first;
                ssize_t n = send_some(s, c->data + c->sent, c->size - c->sent, c->fds, c->sent > 0 ? 0 : c->fd_count);

                if (n < 0)
                        stream_break(s, (int)n);
                if (n <= 0)
                        return;
                c->sent += (size_t)n;
                s->queued -= (size_t)n;
                if (c->sent < c->size)
                        return;
                s->first = c->next;
                if (!s->first)
                        s->last = NULL;
                chunk_free(c);
        }
        if (s->last_word && !s->first)
                stream_break(s, 0);
}

bool stream_has_room(const struct stream *s) {
        return !s->over && !s->last_word && s->queued <= s->mark;
}

void stream_finish(struct stream *s) {
        if (s->over)
                return;
        s->last_word = true;
        stream_hold(s, true);
        if (!s->first)
                stream_break(s, 0);
}

/* --- the loop --- */

static void watch(struct stream *s) {
        uint32_t events = 0;

        if (s->over)
                return;
        if (!s->held && !s->finished && !has_frame(s))
                events |= EPOLLIN;
        if (s->first)
                events |= EPOLLOUT;
        int r = loop_watch(s->loop, &s->watch, s->fd, events);
        if (r < 0)
                stream_break(s, r);
}

/* What is to be done after every event: rest of this turn's frames later, an end told, the right events watched. */
static void settle(struct stream *s) {
        if (s->over) {
                loop_unwatch(s->loop, &s->watch);
                loop_later(s->loop, &s->task);
                return;
        }
        if (!s->held && has_frame(s))
                loop_later(s->loop, &s->task);
        watch(s);
}

static void work(struct loop_task *t) {
        struct stream *s = LOOP_OWNER(t, struct stream, task);

        if (!s->over && s->in_size > 0 && !drain(s))
                return;
        if (s->over && !s->told) {
                s->told = true;
                loop_unwatch(s->loop, &s->watch);
                s->events->broken(s, s->error);
                return;
        }
        if (!s->over)
                settle(s);
}

static void ready(struct loop_watch *w, uint32_t events) {
        struct stream *s = LOOP_OWNER(w, struct stream, watch);
        bool ended = events & (EPOLLHUP | EPOLLERR);

        if (events & EPOLLOUT) {
                flush(s);
                if (s->crowded && s->queued <= s->mark / 2 && !s->over) {
                        bool gone = false;

                        s->crowded = false;
                        s->gone = &gone;
                        s->events->room(s);
                        if (gone)
                                return;
                        s->gone = NULL;
                }
        }
        /* what a dead peer has left is read first; one that is held, or half closed, has nothing more to say */
        if (!s->over && !s->held && !s->finished && !has_frame(s) && (events & EPOLLIN || ended)) {
                if (!read_some(s))
                        return;
        } else if (!s->over && ended && (s->held || s->finished))
                stream_break(s, 0);
        settle(s);
}
