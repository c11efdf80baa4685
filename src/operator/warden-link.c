/* The link to the warden. A request in flight has a place in a table; its serial number is that place and how often it
 * was used, so that an answer finds its request in one step, and a late one finds nobody.
 *
 * Always holds: one answer, one callback; descriptors that nobody takes are closed. When the warden is gone the loop
 * ends, and nothing is called any more. */
#include "operator/warden-link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/gate-link.h"
#include "wire/packet.h"

#define CALLS_MAX (1U << 16)
#define USES_MASK 0xffffU
#define PACKETS   64 /* of one turn */
#define QUEUE_MAX 65536
#define RETRY_MS  10

struct call {
        warden_done *done; /* NULL: forgotten */
        void *data;
        uint16_t uses;
        bool busy;
        uint32_t next_free; /* place + 1; 0: none */
};

/* A request that found no room in the socket. */
struct waiting {
        struct waiting *next;
        struct warden_message m;
        size_t fd_count;
        int fds[WARDEN_FDS_MAX];
        char text[WARDEN_TEXT_SIZE];
};

struct warden_link {
        int fd;
        struct loop_watch watch;
        struct loop_timer retry;
        struct core *o;
        struct call *calls;
        uint32_t call_count, free; /* place + 1 */
        unsigned under_way;
        struct waiting *first, *last;
        size_t queued;
        void (*gone)(struct core *o, const struct warden_message *m);
        void (*gate_gone)(struct core *o, uint32_t slot);
        void (*pressure)(struct core *o, bool low);
        void (*end)(struct core *o);
        uint8_t packet[WARDEN_PACKET_MAX];
};

static void ready(struct loop_watch *w, uint32_t events);
static void retry(struct loop_timer *t);

int warden_link_open(struct core *o, int fd, struct err *err) {
        struct warden_link *l = calloc(1, sizeof *l);

        if (!l)
                return err_set(err, -ENOMEM, "could not begin");
        *l = (struct warden_link){.fd = fd, .o = o, .gate_gone = gate_link_gone, .end = operator_end};
        l->watch.ready = ready;
        l->retry.fire = retry;
        int flags = fcntl(fd, F_GETFL);
        int r = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
        if (r == 0)
                r = loop_watch(o->loop, &l->watch, fd, EPOLLIN);
        if (r < 0) {
                free(l);
                return err_set(err, r, "descriptor %d is not a socket of the warden's", fd);
        }
        o->warden = l;
        return 0;
}

static void waiting_free(struct waiting *w) {
        packet_close(w->fds, w->fd_count);
        free(w);
}

void warden_link_close(struct core *o) {
        struct warden_link *l = TAKE_PTR(o->warden);

        if (!l)
                return;
        loop_unwatch(o->loop, &l->watch);
        loop_timer_clear(o->loop, &l->retry);
        for (struct waiting *w; (w = l->first);) {
                l->first = w->next;
                waiting_free(w);
        }
        free(l->calls);
        fd_close(&l->fd);
        free(l);
}

void warden_link_handlers(struct core *o, void (*gone)(struct core *o, const struct warden_message *m),
                          void (*gate_gone)(struct core *o, uint32_t slot), void (*pressure)(struct core *o, bool low),
                          void (*end)(struct core *o)) {
        struct warden_link *l = o->warden;

        l->gone = gone;
        l->gate_gone = gate_gone ? gate_gone : gate_link_gone;
        l->pressure = pressure;
        l->end = end ? end : operator_end;
}

/* The warden cannot be talked to any more: the process ends as if it had been killed. */
static void lost(struct warden_link *l, int error) {
        loop_unwatch(l->o->loop, &l->watch);
        loop_timer_clear(l->o->loop, &l->retry);
        if (error && !l->o->ended)
                log_line(LOG_LEVEL_ERROR, NULL, "the warden's socket failed: %s", err_name(error));
        l->o->failed = error && !l->o->ended;
        loop_stop(l->o->loop);
}

/* --- the table of calls --- */

static int call_take(struct warden_link *l, uint32_t *ret) {
        if (!l->free) {
                uint32_t room = l->call_count ? l->call_count * 2 : 64;

                if (room > CALLS_MAX)
                        return -ENOMEM;
                struct call *c = reallocarray(l->calls, room, sizeof *c);
                if (!c)
                        return -ENOMEM;
                l->calls = c;
                for (uint32_t i = room; i-- > l->call_count;) {
                        c[i] = (struct call){.next_free = l->free};
                        l->free = i + 1;
                }
                l->call_count = room;
        }
        uint32_t place = l->free - 1;
        struct call *c = &l->calls[place];
        l->free = c->next_free;
        l->under_way++;
        c->busy = true;
        c->uses = (uint16_t)((c->uses + 1U) & USES_MASK);
        if (c->uses == 0) /* so that no serial is 0 */
                c->uses = 1;
        *ret = place;
        return 0;
}

static void call_drop(struct warden_link *l, uint32_t place) {
        struct call *c = &l->calls[place];

        c->busy = false;
        c->done = NULL;
        c->data = NULL;
        c->next_free = l->free;
        l->free = place + 1;
        l->under_way--;
}

unsigned warden_under_way(const struct core *o) {
        return o->warden ? o->warden->under_way : 0;
}

static struct call *call_find(struct warden_link *l, uint32_t serial) {
        uint32_t place = serial & (CALLS_MAX - 1);

        if (place >= l->call_count || !l->calls[place].busy || l->calls[place].uses != serial >> 16)
                return NULL;
        return &l->calls[place];
}

void warden_forget(struct core *o, void *data) {
        struct warden_link *l = o->warden;

        for (uint32_t i = 0; l && i < l->call_count; i++)
                if (l->calls[i].busy && l->calls[i].data == data)
                        l->calls[i].done = NULL;
}

/* --- sending --- */

/* No room in the socket, or too many descriptors of ours under way: it will do later. */
static bool is_wait(int r) {
        return r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS || r == -ENOMEM;
}

static int queue(struct warden_link *l, const struct warden_message *m, const int *fds, size_t fd_count) {
        if (l->queued >= QUEUE_MAX || fd_count > WARDEN_FDS_MAX)
                return -ENOMEM;
        struct waiting *w = calloc(1, sizeof *w);
        if (!w)
                return -ENOMEM;
        w->m = *m;
        if (m->text) {
                (void)snprintf(w->text, sizeof w->text, "%s", m->text);
                w->m.text = w->text;
        }
        w->m.hint = NULL;
        for (; w->fd_count < fd_count; w->fd_count++) {
                w->fds[w->fd_count] = fcntl(fds[w->fd_count], F_DUPFD_CLOEXEC, 0);
                if (w->fds[w->fd_count] < 0) {
                        int r = -errno;
                        waiting_free(w);
                        return r;
                }
        }
        if (l->last)
                l->last->next = w;
        else
                l->first = w;
        l->last = w;
        l->queued++;
        return 0;
}

static void flush(struct warden_link *l) {
        while (l->first) {
                struct waiting *w = l->first;
                int r = warden_send(l->fd, &w->m, w->fds, w->fd_count);

                if (r == -EAGAIN)
                        break;
                if (is_wait(r)) { /* the socket itself has room, so it would not tell us */
                        loop_timer_set(l->o->loop, &l->retry, loop_now(l->o->loop) + RETRY_MS);
                        return;
                }
                if (r < 0) {
                        lost(l, r);
                        return;
                }
                l->first = w->next;
                if (!l->first)
                        l->last = NULL;
                l->queued--;
                waiting_free(w);
        }
        int r = loop_watch(l->o->loop, &l->watch, l->fd, l->first ? EPOLLIN | EPOLLOUT : EPOLLIN);
        if (r < 0)
                lost(l, r);
}

static void retry(struct loop_timer *t) {
        flush(LOOP_OWNER(t, struct warden_link, retry));
}

int warden_call(struct core *o, struct warden_message *request, const int *fds, size_t fd_count, warden_done *done,
                void *data) {
        struct warden_link *l = o->warden;
        uint32_t place;

        if (!l)
                return -EPIPE;
        int r = call_take(l, &place);
        if (r < 0)
                return r;
        struct call *c = &l->calls[place];
        c->done = done;
        c->data = data;
        request->serial = (uint32_t)c->uses << 16 | place;
        r = l->first ? -EAGAIN : warden_send(l->fd, request, fds, fd_count);
        if (is_wait(r)) {
                r = queue(l, request, fds, fd_count);
                if (r == 0 && l->first == l->last)
                        flush(l);
        }
        if (r < 0)
                call_drop(l, place);
        return r;
}

/* --- receiving --- */

static void answer(struct warden_link *l, const struct warden_message *m, int *fds, size_t fd_count) {
        struct call *c = call_find(l, m->serial);

        if (!c) {
                log_line(LOG_LEVEL_WARNING, NULL, "the warden answered what nobody asked (%u)", m->serial);
                return;
        }
        warden_done *done = c->done;
        void *data = c->data;
        if (m->kind == WARDEN_ANSWER)
                call_drop(l, (uint32_t)(c - l->calls));
        if (done)
                done(data, m, fds, fd_count);
}

static void take(struct warden_link *l, const struct warden_message *m, int *fds, size_t fd_count) {
        switch ((int)m->kind) {
        case WARDEN_ANSWER:
        case WARDEN_ITEM:
                answer(l, m, fds, fd_count);
                break;
        case WARDEN_GONE:
                if (l->gone)
                        l->gone(l->o, m);
                break;
        case WARDEN_GATE_GONE:
                l->gate_gone(l->o, m->slot);
                break;
        case WARDEN_PRESSURE:
                if (l->pressure)
                        l->pressure(l->o, m->numbers[0] != 0);
                break;
        case WARDEN_END:
                l->end(l->o);
                break;
        default:
                log_line(LOG_LEVEL_WARNING, NULL, "the warden sent a request instead of an answer");
        }
}

static void ready(struct loop_watch *w, uint32_t events) {
        struct warden_link *l = LOOP_OWNER(w, struct warden_link, watch);
        struct core *o = l->o;

        if (events & EPOLLOUT)
                flush(l);
        for (unsigned i = 0; i < PACKETS && o->warden == l && l->watch.on; i++) {
                struct warden_message m;
                int fds[WARDEN_FDS_MAX];
                size_t count = 0;

                int r = warden_receive(l->fd, l->packet, &m, fds, &count);
                if (r == -EAGAIN || r == -EINTR)
                        return;
                if (r <= 0) {
                        lost(l, r < 0 ? r : -EPIPE);
                        return;
                }
                take(l, &m, fds, count);
                packet_close(fds, count);
        }
}
