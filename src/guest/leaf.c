/* See the header. Answers come in the order of questions; what comes out of turn, or too late, ends the conversation:
 * no run begins without its leaf. */
#include "guest/leaf.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/family.h"
#include "guest/request.h"
#include "wire/leaf.h"
#include "wire/packet.h"

#define PATIENCE_MS 5000
#define LOOKS       400 /* at a leaf whose processes are dying, at most 3 s in all */
#define HOLD_AFTER  8   /* looks: who still lives outruns us */
#define UNSURE      10  /* looks that saw nobody, while others came and went */

static int say(struct leaves *l, enum leaf_ask ask, uint32_t run) {
        const struct leaf_request q = {.ask = ask, .run = run};

        return send(l->fd, &q, sizeof q, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof q ? 0 : -EPIPE;
}

static int hear(struct leaves *l, uint32_t run, struct leaf_answer *ret, int fds[GUEST_FDS_MAX], size_t *ret_count) {
        struct pollfd p = {.fd = l->fd, .events = POLLIN};

        *ret_count = 0;
        if (l->fd < 0 || poll(&p, 1, PATIENCE_MS) <= 0)
                return -EPIPE;
        ssize_t n = packet_receive(l->fd, ret, sizeof *ret, fds, GUEST_FDS_MAX, ret_count);
        if (n == (ssize_t)sizeof *ret && ret->run == run)
                return ret->error;
        if (n >= 0)
                packet_close(fds, *ret_count);
        *ret_count = 0;
        return -EPIPE;
}

static void drop_spare(struct leaves *l) {
        packet_close(l->fds, l->count);
        l->count = 0;
        l->spare = 0;
        l->is_there = false;
}

/* Ends the conversation if it is not what it should be. */
static int judge(struct leaves *l, int r) {
        if (r == -EPIPE) {
                drop_spare(l);
                fd_close(&l->fd);
        }
        return r;
}

/* The answer about the spare one stands before every other. */
static void take_spare(struct leaves *l) {
        struct leaf_answer a;

        if (l->spare == 0 || l->is_there)
                return;
        l->is_there = judge(l, hear(l, l->spare, &a, l->fds, &l->count)) == 0;
        if (!l->is_there)
                drop_spare(l);
}

static int ask(struct leaves *l, enum leaf_ask what, uint32_t run, struct leaf_answer *ret, int fds[GUEST_FDS_MAX],
               size_t *ret_count) {
        take_spare(l);
        int r = l->fd < 0 ? -EPIPE : say(l, what, run);
        if (r == 0)
                r = hear(l, run, ret, fds, ret_count);
        return judge(l, r);
}

static int end_leaf(struct leaves *l, uint32_t run, bool kill, struct leaf_answer *ret) {
        int fds[GUEST_FDS_MAX];
        size_t count = 0;

        int r = ask(l, kill ? LEAF_KILL : LEAF_END, run, ret, fds, &count);
        packet_close(fds, count);
        return r;
}

int leaf_open(struct leaves *l, uint32_t run, int fds[GUEST_FDS_MAX], size_t *ret_count) {
        struct leaf_answer a;

        *ret_count = 0;
        if (l->fd == -EBADF && l->last == 0)
                return 0;
        take_spare(l);
        l->last = run;
        if (l->is_there && l->spare == run) {
                memcpy(fds, l->fds, l->count * sizeof *fds);
                *ret_count = l->count;
                l->count = 0;
                drop_spare(l);
                return 0;
        }
        if (l->is_there) {
                uint32_t other = l->spare;

                drop_spare(l);
                (void)end_leaf(l, other, false, &a);
        }
        return ask(l, LEAF_OPEN, run, &a, fds, ret_count);
}

/* --- the request --- */

struct leaf_end {
        struct request request;
        struct guest *guest;
        struct loop_timer again;
        uint32_t run;
        unsigned looks;
};

static int end_family(const struct leaf_end *e, bool kill) {
        enum family_end how = !kill ? FAMILY_LOOK : e->looks < HOLD_AFTER ? FAMILY_KILL : FAMILY_HOLD_AND_KILL;
        enum family_state state = family_end(e->run, how);

        if (state == FAMILY_PERHAPS && !kill && e->looks >= UNSURE)
                return 0;
        return state == FAMILY_GONE ? 0 : state == FAMILY_PERHAPS ? -EAGAIN : -EBUSY;
}

static void look(struct leaf_end *e) {
        struct guest *g = e->guest;
        struct leaf_answer a;
        bool kill = e->request.flags & GUEST_KILL;

        memset(&a.count, 0xff, sizeof a.count);
        int r = g->leaves.families ? end_family(e, kill) : end_leaf(&g->leaves, e->run, kill, &a);
        if ((r == -EAGAIN || (r == -EBUSY && kill)) && ++e->looks < LOOKS) {
                loop_timer_set(g->loop, &e->again, loop_now(g->loop) + MIN(1 + e->looks / 4, 10U));
                return;
        }
        struct guest_message end = {.kind = GUEST_END,
                                    .error = r,
                                    .numbers = {[GUEST_LEAF_CPU] = a.count.cpu_us,
                                                [GUEST_LEAF_MEMORY] = a.count.memory_peak,
                                                [GUEST_LEAF_OOMS] = a.count.oom_kills,
                                                [GUEST_LEAF_REFUSALS] = a.count.fork_refusals}};
        request_end_with(g, &e->request, &end);
        if (g->leaves.fd >= 0 && g->leaves.spare == 0 && say(&g->leaves, LEAF_OPEN, g->leaves.last + 1) == 0)
                g->leaves.spare = g->leaves.last + 1;
}

static void look_again(struct loop_timer *t) {
        look(LOOP_OWNER(t, struct leaf_end, again));
}

static int end_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct leaf_end *e = (struct leaf_end *)r;

        if (g->leaves.fd < 0 && !g->leaves.families)
                return -EOPNOTSUPP;
        e->guest = g;
        e->run = m->run;
        e->again.fire = look_again;
        look(e);
        return 0;
}

static void end_free(struct guest *g, struct request *r) {
        loop_timer_clear(g->loop, &((struct leaf_end *)r)->again);
}

const struct request_kind leaf_end_kind = {.size = sizeof(struct leaf_end), .begin = end_begin, .free = end_free};
