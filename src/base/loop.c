/* The loop. A descriptor's number leads to its watch through a table of our own, and each watching has a generation:
 * an event that was already fetched when its watch was taken back, or its number given to another, finds a generation
 * that is not its own and is dropped. So no pointer that may be stale is ever followed.
 *
 * Must never: call anything for an owner that took its watch, timer or task back; wait while work is queued; go on
 * without having kept a timer (no memory for one ends the process, and whoever started it starts another). */
#include "base/loop.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

#define EVENTS    64 /* of one turn: more wait for the next, so that timers are heard in between */
#define ROOM_STEP 64 /* of the tables, at first */
#define FDS_MAX   (1U << 24)

struct slot {
        struct loop_watch *watch; /* NULL: this number is not watched */
        uint32_t generation;      /* of the last watching */
};

struct loop {
        int epoll;
        bool stopped;
        bool firing; /* due timers are being called */
        uint64_t now;
        struct slot *slots; /* by descriptor */
        size_t slot_room;
        struct loop_timer **heap; /* heap[0] is not used: places count from 1 */
        uint32_t timers;
        size_t heap_room;
        struct loop_task later, running; /* heads of rings: for the next round; of this one */
};

static uint64_t clock_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void ring_init(struct loop_task *head) {
        head->next = head->previous = head;
}

int loop_create(struct loop **ret, struct err *err) {
        struct loop *l = calloc(1, sizeof *l);

        if (!l)
                return err_set(err, -ENOMEM, "could not make a loop");
        l->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (l->epoll < 0) {
                int e = -errno;
                free(l);
                return err_set(err, e, "could not make a loop");
        }
        ring_init(&l->later);
        ring_init(&l->running);
        l->now = clock_ms();
        *ret = l;
        return 0;
}

void loop_destroy(struct loop *l) {
        if (!l)
                return;
        fd_close(&l->epoll);
        free(l->slots);
        free(l->heap);
        free(l);
}

/* --- descriptors --- */

static int slots_grow(struct loop *l, size_t fd) {
        size_t room = MAX(l->slot_room, (size_t)ROOM_STEP);

        while (room <= fd)
                room *= 2;
        if (room == l->slot_room)
                return 0;
        struct slot *s = reallocarray(l->slots, room, sizeof *s);
        if (!s)
                return -ENOMEM;
        memset(s + l->slot_room, 0, (room - l->slot_room) * sizeof *s);
        l->slots = s;
        l->slot_room = room;
        return 0;
}

int loop_watch(struct loop *l, struct loop_watch *w, int fd, uint32_t events) {
        struct epoll_event e = {.events = events};

        if (fd < 0 || (uint32_t)fd >= FDS_MAX)
                return -EBADF;
        if (w->on && w->fd != fd)
                loop_unwatch(l, w);
        int r = slots_grow(l, (size_t)fd);
        if (r < 0)
                return r;
        struct slot *s = &l->slots[fd];
        if (w->on && w->events == events)
                return 0;
        if (!w->on && s->watch)
                return -EEXIST; /* two owners of one descriptor: a mistake of ours */
        uint32_t generation = w->on ? s->generation : s->generation + 1;
        e.data.u64 = (uint64_t)generation << 32 | (uint32_t)fd;
        if (epoll_ctl(l->epoll, w->on ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) < 0)
                return -errno;
        *s = (struct slot){w, generation};
        w->fd = fd;
        w->events = events;
        w->generation = generation;
        w->on = true;
        return 0;
}

void loop_unwatch(struct loop *l, struct loop_watch *w) {
        if (!w->on)
                return;
        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, w->fd, NULL);
        l->slots[w->fd].watch = NULL;
        w->on = false;
        w->fd = -EBADF;
}

static void deliver(struct loop *l, const struct epoll_event *e) {
        uint32_t fd = (uint32_t)e->data.u64, generation = (uint32_t)(e->data.u64 >> 32);

        if (fd >= l->slot_room || !l->slots[fd].watch || l->slots[fd].generation != generation)
                return;
        struct loop_watch *w = l->slots[fd].watch;
        /* of what is not asked for any more, an owner hears errors only */
        uint32_t events = e->events & (w->events | EPOLLERR | EPOLLHUP);
        if (events)
                w->ready(w, events);
}

/* --- timers: a binary heap, the earliest on top --- */

static void heap_put(struct loop *l, uint32_t place, struct loop_timer *t) {
        l->heap[place] = t;
        t->place = place;
}

static void heap_up(struct loop *l, struct loop_timer *t) {
        uint32_t at = t->place;

        for (; at > 1 && l->heap[at / 2]->when > t->when; at /= 2)
                heap_put(l, at, l->heap[at / 2]);
        heap_put(l, at, t);
}

static void heap_down(struct loop *l, struct loop_timer *t) {
        uint32_t at = t->place;

        for (uint32_t child; (child = 2 * at) <= l->timers; at = child) {
                if (child < l->timers && l->heap[child + 1]->when < l->heap[child]->when)
                        child++;
                if (l->heap[child]->when >= t->when)
                        break;
                heap_put(l, at, l->heap[child]);
        }
        heap_put(l, at, t);
}

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t when) {
        /* one that sets itself to this moment again waits for the next turn */
        t->when = l->firing ? MAX(when, l->now + 1) : when;
        if (t->place == 0) {
                if (l->timers + 1 >= l->heap_room) {
                        size_t room = l->heap_room ? l->heap_room * 2 : ROOM_STEP;
                        struct loop_timer **h = reallocarray(l->heap, room, sizeof(struct loop_timer *));

                        if (!h)
                                abort();
                        l->heap = h;
                        l->heap_room = room;
                }
                heap_put(l, ++l->timers, t);
        }
        heap_up(l, t);
        heap_down(l, t);
}

void loop_timer_clear(struct loop *l, struct loop_timer *t) {
        uint32_t place = t->place;

        if (place == 0)
                return;
        t->place = 0;
        struct loop_timer *last = l->heap[l->timers--];
        if (last == t)
                return;
        heap_put(l, place, last);
        heap_up(l, last);
        heap_down(l, last);
}

static void fire_due(struct loop *l) {
        l->firing = true;
        while (l->timers > 0 && l->heap[1]->when <= l->now) {
                struct loop_timer *t = l->heap[1];

                loop_timer_clear(l, t);
                t->fire(t);
        }
        l->firing = false;
}

/* --- work for later --- */

void loop_later(struct loop *l, struct loop_task *t) {
        if (t->next)
                return;
        t->next = &l->later;
        t->previous = l->later.previous;
        t->previous->next = t;
        l->later.previous = t;
}

void loop_cancel(struct loop *l, struct loop_task *t) {
        (void)l;
        if (!t->next)
                return;
        t->next->previous = t->previous;
        t->previous->next = t->next;
        t->next = t->previous = NULL;
}

/* What a task queues is for the next round. */
static void run_tasks(struct loop *l) {
        if (l->later.next == &l->later)
                return;
        l->running = l->later;
        l->running.next->previous = l->running.previous->next = &l->running;
        ring_init(&l->later);
        while (l->running.next != &l->running) {
                struct loop_task *t = l->running.next;

                loop_cancel(l, t);
                t->run(t);
        }
}

/* --- turns --- */

uint64_t loop_now(const struct loop *l) {
        return l->now;
}

static int patience(struct loop *l, int ms) {
        if (l->stopped || l->later.next != &l->later)
                return 0;
        if (l->timers == 0)
                return ms;
        uint64_t now = clock_ms(), when = l->heap[1]->when;
        int left = when <= now ? 0 : (int)MIN(when - now, (uint64_t)INT_MAX);
        return ms < 0 ? left : MIN(ms, left);
}

int loop_turn(struct loop *l, int ms) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(l->epoll, events, EVENTS, patience(l, ms));

        if (n < 0 && errno != EINTR)
                return -errno;
        l->now = clock_ms();
        for (int i = 0; i < n; i++)
                deliver(l, &events[i]);
        fire_due(l);
        run_tasks(l);
        return 0;
}

int loop_run(struct loop *l) {
        int r = 0;

        while (!l->stopped && r == 0)
                r = loop_turn(l, -1);
        l->stopped = false;
        return r;
}

void loop_stop(struct loop *l) {
        l->stopped = true;
}
