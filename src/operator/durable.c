/* Who waits for the disk. Waiters stand in one ring, in the order in which they came; at the end of every turn in which
 * a writer thread said something, or somebody began to wait, those whose numbers are durable are called.
 *
 * Must never: wait itself; call anybody before durable_wait returned to it; call a waiter twice, or after its
 * durable_cancel. */
#include <unistd.h>

#include "operator/operator.h"

struct durables {
        struct core *o;
        struct durable waiting, ready; /* heads of rings */
        struct loop_watch ledger, store;
        struct loop_task task;
        struct loop_timer timer; /* somebody's patience ends */
};

static void ring_init(struct durable *head) {
        head->next = head->previous = head;
}

static void ring_add(struct durable *head, struct durable *d) {
        d->next = head;
        d->previous = head->previous;
        head->previous->next = d;
        head->previous = d;
}

static void ring_remove(struct durable *d) {
        d->next->previous = d->previous;
        d->previous->next = d->next;
        d->next = d->previous = NULL;
}

/* A writer thread said something. */
static void news(struct durables *s, struct loop_watch *w) {
        uint64_t count;

        (void)!read(w->fd, &count, sizeof count); /* an eventfd: reading takes it back */
        loop_later(s->o->loop, &s->task);
}

static void ledger_news(struct loop_watch *w, uint32_t events) {
        (void)events;
        news(LOOP_OWNER(w, struct durables, ledger), w);
}

static void store_news(struct loop_watch *w, uint32_t events) {
        (void)events;
        news(LOOP_OWNER(w, struct durables, store), w);
}

static void impatient(struct loop_timer *t) {
        struct durables *s = LOOP_OWNER(t, struct durables, timer);

        loop_later(s->o->loop, &s->task);
}

/* How far the disks are at this moment. */
struct reach {
        uint64_t seq, ticket;
        int ledger_error, store_error;
};

/* 1: both are durable, or -errno: one of them is not and cannot be now; 0: not yet. */
static int settled(const struct durable *d, const struct reach *at) {
        bool ledger = d->seq > at->seq, store = d->ticket > at->ticket;

        if (d->ticket == STORE_REFUSED)
                return -ENOSPC;
        if (ledger && at->ledger_error)
                return at->ledger_error;
        if (store && at->store_error)
                return at->store_error;
        return !ledger && !store;
}

static void look(struct loop_task *t) {
        struct durables *s = LOOP_OWNER(t, struct durables, task);
        struct core *o = s->o;
        struct reach at = {ledger_durable(o->ledger), store_committed(o->store), ledger_health(o->ledger),
                           store_health(o->store)};
        bool hurry_ledger = false, hurry_store = false;
        uint64_t now = loop_now(o->loop), first = UINT64_MAX;

        for (struct durable *d = s->waiting.next, *next; d != &s->waiting; d = next) {
                next = d->next;
                hurry_ledger |= d->seq > at.seq && !d->lazy;
                hurry_store |= d->ticket > at.ticket && !d->lazy;
                int r = settled(d, &at);
                if (r < 0 && now < d->patience && d->ticket != STORE_REFUSED) {
                        first = MIN(first, d->patience);
                        r = 0;
                }
                if (r == 0)
                        continue;
                ring_remove(d);
                ring_add(&s->ready, d);
        }
        if (first != UINT64_MAX)
                loop_timer_set(o->loop, &s->timer, first);
        if (hurry_ledger)
                ledger_hurry(o->ledger);
        if (hurry_store)
                store_hurry(o->store);
        while (s->ready.next != &s->ready) {
                struct durable *d = s->ready.next;

                ring_remove(d);
                d->done(d, MIN(settled(d, &at), 0));
        }
}

int durable_open(struct core *o, struct err *err) {
        struct durables *s = calloc(1, sizeof *s);

        if (!s)
                return err_set(err, -ENOMEM, "could not begin");
        s->o = o;
        ring_init(&s->waiting);
        ring_init(&s->ready);
        s->ledger.ready = ledger_news;
        s->store.ready = store_news;
        s->task.run = look;
        s->timer.fire = impatient;
        o->durables = s;
        int r = loop_watch(o->loop, &s->ledger, ledger_fd(o->ledger), EPOLLIN);
        if (r == 0)
                r = loop_watch(o->loop, &s->store, store_fd(o->store), EPOLLIN);
        if (r < 0) {
                durable_close(o);
                return err_set(err, r, "could not listen to the ledger and the store");
        }
        return 0;
}

void durable_close(struct core *o) {
        struct durables *s = TAKE_PTR(o->durables);

        if (!s)
                return;
        loop_unwatch(o->loop, &s->ledger);
        loop_unwatch(o->loop, &s->store);
        loop_cancel(o->loop, &s->task);
        loop_timer_clear(o->loop, &s->timer);
        free(s);
}

void durable_wait(struct core *o, struct durable *d) {
        ring_add(&o->durables->waiting, d);
        loop_later(o->loop, &o->durables->task);
}

void durable_cancel(struct core *o, struct durable *d) {
        (void)o;
        if (d->next)
                ring_remove(d);
}
