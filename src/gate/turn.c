/* Turns at a ward's bandwidth. */
#include "gate/turn.h"

#include "gate/flow.h"

static void leave(struct flow *f, enum ward_way way) {
        struct turns *t = &f->ward->turns[way];
        struct turn *own = &f->turn[way];

        if (!own->queued)
                return;
        if (own->previous)
                own->previous->turn[way].next = own->next;
        else
                t->first = own->next;
        if (own->next)
                own->next->turn[way].previous = own->previous;
        else
                t->last = own->previous;
        *own = (struct turn){0};
}

static void stand(struct flow *f, enum ward_way way) {
        struct turns *t = &f->ward->turns[way];

        if (f->turn[way].queued)
                return;
        f->turn[way] = (struct turn){.queued = true, .previous = t->last};
        if (t->last)
                t->last->turn[way].next = f;
        else
                t->first = f;
        t->last = f;
        if (!loop_timer_is_set(&t->timer))
                loop_timer_set(&t->timer, loop_now() + ward_wait(f->ward, way));
}

/* Lets the first one pass, if there is enough to be worth it, and looks again when it has: it may take little. */
static void next(struct turns *t, enum ward_way way) {
        struct flow *f = t->first;

        if (!f)
                return;
        if (!ward_plenty(f->ward, way)) {
                loop_timer_set(&t->timer, loop_now() + ward_wait(f->ward, way));
                return;
        }
        leave(f, way);
        f->turn[way].granted = true;
        loop_later(&f->task);
        loop_later(&t->next);
}

static void next_sent(struct loop_task *t) {
        next(LOOP_OWNER(t, struct turns, next), WARD_SENT);
}

static void next_received(struct loop_task *t) {
        next(LOOP_OWNER(t, struct turns, next), WARD_RECEIVED);
}

static void enough(struct loop_timer *t) {
        loop_later(&LOOP_OWNER(t, struct turns, timer)->next);
}

void turns_init(struct turns t[WARD_WAYS]) {
        t[WARD_SENT] = (struct turns){.timer.fire = enough, .next.run = next_sent};
        t[WARD_RECEIVED] = (struct turns){.timer.fire = enough, .next.run = next_received};
}

void turns_finish(struct turns t[WARD_WAYS]) {
        for (size_t i = 0; i < WARD_WAYS; i++) {
                loop_timer_clear(&t[i].timer);
                loop_cancel(&t[i].next);
        }
}

size_t turn_take(struct flow *f, enum ward_way way, size_t want) {
        struct ward *w = f->ward;
        size_t most = ward_allowance(w, way, want);
        bool first = f->turn[way].granted || !w->turns[way].first;

        if (most > 0 && first) {
                f->turn[way].granted = false;
                return most;
        }
        if (!ward_spent(w, way))
                stand(f, way);
        return 0;
}

void turn_leave(struct flow *f) {
        leave(f, WARD_SENT);
        leave(f, WARD_RECEIVED);
}
