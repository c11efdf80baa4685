/* epoll, timers, and the queue of unfinished work. One turn: wait, look at every event, fire timers, run the queue. */
#include "gate/loop.h"

#include <limits.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define TIMERS_MAX (256 * 1024U)

static int epoll_fd = -EBADF;
static loop_handler *handlers[LOOP_KIND_COUNT];
static uint64_t now;
static struct loop_timer **heap; /* from 1; TIMERS_MAX of them, mapped, touched as needed */
static uint32_t heap_size;
static struct loop_task queue = {&queue, &queue, NULL};

static uint64_t pack(enum loop_kind kind, uint32_t index, uint32_t generation) {
        return (uint64_t)kind << 56 | (uint64_t)(generation & LOOP_GENERATION_MASK) << 32 | index;
}

static void read_clock(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        now = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t loop_now(void) {
        return now;
}

int loop_init(struct err *err) {
        void *p = mmap(NULL, (TIMERS_MAX + 1) * sizeof *heap, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
                return err_set(err, -errno, "cannot make room for timers");
        heap = p;
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_fd < 0)
                return err_set(err, -errno, "cannot make an epoll descriptor");
        read_clock();
        return 0;
}

void loop_handle(enum loop_kind kind, loop_handler *handler) {
        handlers[kind] = handler;
}

static int control(int operation, int fd, uint32_t events, uint64_t ref) {
        struct epoll_event e = {.events = events, .data.u64 = ref};

        return epoll_ctl(epoll_fd, operation, fd, &e) < 0 ? -errno : 0;
}

int loop_watch(int fd, uint32_t events, enum loop_kind kind, uint32_t index, uint32_t generation) {
        return control(EPOLL_CTL_ADD, fd, events, pack(kind, index, generation));
}

int loop_rewatch(int fd, uint32_t events, enum loop_kind kind, uint32_t index, uint32_t generation) {
        return control(EPOLL_CTL_MOD, fd, events, pack(kind, index, generation));
}

void loop_forget(int fd) {
        (void)control(EPOLL_CTL_DEL, fd, 0, 0);
}

/* --- timers --- */

static void place(uint32_t at, struct loop_timer *t) {
        heap[at] = t;
        t->place = at;
}

static void sift_up(uint32_t at, struct loop_timer *t) {
        while (at > 1 && heap[at / 2]->when > t->when) {
                place(at, heap[at / 2]);
                at /= 2;
        }
        place(at, t);
}

static void sift_down(uint32_t at, struct loop_timer *t) {
        for (;;) {
                uint32_t child = 2 * at;

                if (child > heap_size)
                        break;
                if (child < heap_size && heap[child + 1]->when < heap[child]->when)
                        child++;
                if (heap[child]->when >= t->when)
                        break;
                place(at, heap[child]);
                at = child;
        }
        place(at, t);
}

void loop_timer_set(struct loop_timer *t, uint64_t when) {
        if (!t->place) {
                assert(heap_size < TIMERS_MAX); /* every timer lies in a table whose size is known */
                t->when = when;
                sift_up(++heap_size, t);
                return;
        }
        bool later = when > t->when;
        t->when = when;
        if (later)
                sift_down(t->place, t);
        else
                sift_up(t->place, t);
}

void loop_timer_clear(struct loop_timer *t) {
        uint32_t at = t->place;

        if (!at)
                return;
        t->place = 0;
        struct loop_timer *last = heap[heap_size--];
        if (last == t)
                return;
        if (at > 1 && heap[at / 2]->when > last->when)
                sift_up(at, last);
        else
                sift_down(at, last);
}

static void fire_timers(void) {
        /* a timer that sets itself again fires in a later turn, so this ends */
        for (uint32_t n = heap_size; n > 0 && heap_size > 0 && heap[1]->when <= now; n--) {
                struct loop_timer *t = heap[1];

                loop_timer_clear(t);
                t->fire(t);
        }
}

static int wait_time(void) {
        if (queue.next != &queue)
                return 0;
        if (heap_size == 0)
                return -1;
        if (heap[1]->when <= now)
                return 0;
        return (int)MIN(heap[1]->when - now, (uint64_t)INT_MAX);
}

/* --- work --- */

void loop_later(struct loop_task *t) {
        if (t->next)
                return;
        t->previous = queue.previous;
        t->next = &queue;
        queue.previous->next = t;
        queue.previous = t;
}

void loop_cancel(struct loop_task *t) {
        if (!t->next)
                return;
        t->previous->next = t->next;
        t->next->previous = t->previous;
        t->next = t->previous = NULL;
}

static void run_tasks(void) {
        struct loop_task turn;

        if (queue.next == &queue)
                return;
        turn = (struct loop_task){.next = queue.next, .previous = queue.previous};
        turn.next->previous = turn.previous->next = &turn;
        queue.next = queue.previous = &queue;
        while (turn.next != &turn) {
                struct loop_task *t = turn.next;

                loop_cancel(t);
                t->run(t);
        }
}

void loop_run(void) {
        static struct epoll_event events[EVENTS_MAX];

        for (;;) {
                int n = epoll_wait(epoll_fd, events, EVENTS_MAX, wait_time());
                read_clock();
                for (int i = 0; i < n; i++) {
                        uint64_t u = events[i].data.u64;
                        struct loop_ref ref = {
                                .kind = (uint8_t)(u >> 56),
                                .index = (uint32_t)u,
                                .generation = (uint32_t)(u >> 32) & LOOP_GENERATION_MASK,
                        };
                        if (ref.kind < LOOP_KIND_COUNT && handlers[ref.kind])
                                handlers[ref.kind](&ref, events[i].events);
                }
                fire_timers();
                run_tasks();
        }
}
