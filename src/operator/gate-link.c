/* Gates, one per owner (and one more for what has TLS opened, because only a gate that was started for it can): asked
 * of the warden, listened to, replaced when they die or cannot be believed, ended when nobody needs them.
 *
 * Must never: give a ward's number to another sandbox while something may still be said about it; lose an event because
 * the ledger has no room (the gate waits then, and adds up). */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "operator/gate-private.h"
#include "operator/gate-record.h"
#include "wire/packet.h"

#define IDLE_MS     30000 /* a gate without wards */
#define RETRY_MS    100   /* between tries of what did not fit */
#define BACKOFF_MIN 50
#define BACKOFF_MAX 10000
#define STEADY_MS   60000 /* a gate that lived this long died for a new reason */
#define MESSAGES    64    /* of one turn */

static uint8_t packet[GATE_PACKET_MAX] __attribute__((aligned(16)));

static void replace(struct gate *g, const char *why);
static void ask(struct gate *g);

/* --- telling --- */

static void tell(struct gate *g) {
        bool full = false, scarce = false;

        for (struct gate_ward *w = g->wards; w && !full && !scarce; w = w->next) {
                int r = gate_ward_tell(w);

                full = r == -EAGAIN;
                scarce = r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM; /* the socket would not tell us */
                if (r == -EINVAL) {
                        log_line(LOG_LEVEL_ERROR, w->sandbox,
                                 "its network rules are not well-formed: it has no network");
                        w->refused = true;
                        gate_ward_fail(w, ERR_UNENFORCED);
                } else if (r < 0 && !full && !scarce) {
                        replace(g, err_name(r));
                        return;
                }
        }
        if (scarce)
                loop_timer_set(g->o->loop, &g->retry, loop_now(g->o->loop) + RETRY_MS);
        uint32_t events = (g->held ? 0U : EPOLLIN) | (full ? EPOLLOUT : 0U);
        int r = loop_watch(g->o->loop, &g->watch, g->control, events);
        if (r < 0)
                replace(g, err_name(r));
}

void gate_link_tell(struct gate *g) {
        if (g->control >= 0)
                tell(g);
        else if (!g->again.place && g->count > 0)
                ask(g);
}

/* --- hearing --- */

static struct gate_ward *ward_of(struct gate *g, uint32_t number) {
        return number < GATE_WARDS_MAX ? g->by_number[number] : NULL;
}

/* True: recorded. False: the ledger has no room now; the gate is not listened to until it has. */
static bool record(struct gate *g, uint32_t number, const struct gate_event *e) {
        struct gate_ward *w = ward_of(g, number);

        if (!w) {
                log_line(LOG_LEVEL_WARNING, NULL, "a gate of %s spoke of a ward that there is not", g->owner);
                return true;
        }
        int64_t r = gate_record(g->o->ledger, w->sandbox, e, &w->spent);
        if (r == -EINVAL || r == -E2BIG)
                log_line(LOG_LEVEL_ERROR, w->sandbox, "an event of its gate could not be recorded: %s",
                         err_name((int)r));
        else if (r < 0) {
                g->event = *e;
                g->held_ward = number;
                g->held = true;
                loop_timer_set(g->o->loop, &g->retry, loop_now(g->o->loop) + RETRY_MS);
                return false;
        }
        w->sent += e->sent;
        w->received += e->received;
        return true;
}

static void retry(struct loop_timer *t) {
        struct gate *g = LOOP_OWNER(t, struct gate, retry);

        if (g->held) {
                g->held = false;
                if (!record(g, g->held_ward, &g->event))
                        return;
        }
        gate_link_tell(g);
}

static void take_failed(struct gate *g, const struct gate_message *m) {
        struct gate_ward *w = ward_of(g, m->ward);

        if (!w && !g->ready) /* its last words */
                (void)snprintf(g->failure, sizeof g->failure, "%s", m->text);
        if (!w)
                return;
        if (w->closing) {
                if (w->told_echo)
                        gate_ward_drop(w);
                return;
        }
        log_line(LOG_LEVEL_ERROR, w->sandbox, "its gate says: %s", m->text);
        gate_ward_fail(w, ERR_UNENFORCED);
}

static void take(struct gate *g, const struct gate_message *m, int *fds) {
        struct gate_ward *w = ward_of(g, m->ward);

        switch ((int)m->kind) {
        case GATE_READY:
                g->ready = true;
                break;
        case GATE_AUTHORITY:
                if (w)
                        gate_ward_authority(w, fds);
                break;
        case GATE_APPLIED:
                if (w)
                        w->applied = m->token;
                break;
        case GATE_EVENT:
                (void)record(g, m->ward, &m->event);
                break;
        case GATE_FAILED:
                take_failed(g, m);
                break;
        case GATE_FLUSHED:
                break;
        default:
                replace(g, "it said what only we say");
        }
}

static void ready(struct loop_watch *watch, uint32_t events) {
        struct gate *g = LOOP_OWNER(watch, struct gate, watch);

        for (unsigned i = 0; i < MESSAGES && g->control >= 0 && !g->held; i++) {
                struct gate_message m;
                int fds[GATE_FDS_MAX];
                size_t count = 0;

                int r = gate_receive(g->control, packet, &m, fds, &count);
                if (r == -EAGAIN || r == -EINTR)
                        break;
                if (r == -EMFILE) { /* that is our fault: whoever waits for the authority is told in time */
                        log_line(LOG_LEVEL_WARNING, NULL, "no descriptor is left for an authority of a gate");
                        continue;
                }
                if (r <= 0) {
                        replace(g, r == -EBADMSG   ? "it said what is no message"
                                   : r < 0         ? err_name(r)
                                   : g->failure[0] ? g->failure
                                                   : "it ended");
                        return;
                }
                take(g, &m, fds);
                packet_close(fds, count);
        }
        if (g->held && events & (EPOLLHUP | EPOLLERR)) /* it is gone; what it has said already is still there to read */
                loop_unwatch(g->o->loop, &g->watch);
        else
                gate_link_tell(g);
}

/* --- gates --- */

static void started(void *data, const struct warden_message *a, int *fds, size_t fd_count) {
        struct gate *g = data;

        g->asked = false;
        if (a->error < 0 || fd_count != 1) {
                (void)snprintf(g->failure, sizeof g->failure, "%s",
                               a->text && a->text[0] ? a->text : err_name(a->error < 0 ? a->error : -EBADMSG));
                replace(g, g->failure);
                return;
        }
        g->control = TAKE_FD(fds[0]);
        int flags = fcntl(g->control, F_GETFL);
        (void)fcntl(g->control, F_SETFL, flags | O_NONBLOCK);
        g->since = loop_now(g->o->loop);
        g->ready = false;
        g->failure[0] = '\0';
        gate_link_tell(g);
}

static void ask(struct gate *g) {
        struct warden_message m = {.kind = WARDEN_GATE, .slot = g->slot, .flags = g->tls ? WARDEN_AUTHORITY : 0U};

        if (g->asked || g->control >= 0)
                return;
        int r = warden_call(g->o, &m, NULL, 0, started, g);
        g->asked = r == 0;
        if (r < 0) {
                log_line(LOG_LEVEL_ERROR, NULL, "could not ask for a gate: %s", err_name(r));
                loop_timer_set(g->o->loop, &g->again, loop_now(g->o->loop) + BACKOFF_MAX);
        }
}

static void ask_again(struct loop_timer *t) {
        ask(LOOP_OWNER(t, struct gate, again));
}

/* This gate is gone, or not to be trusted any more. The next one is told everything anew. */
static void replace(struct gate *g, const char *why) {
        uint64_t now = loop_now(g->o->loop);
        bool began = g->ready;

        loop_unwatch(g->o->loop, &g->watch);
        loop_timer_clear(g->o->loop, &g->apply);
        fd_close(&g->control);
        if (g->count > 0) {
                log_line(LOG_LEVEL_WARNING, NULL, "the gate of %s is started again: %s", g->owner, why);
                gate_record_death(g->o->ledger, g->owner, why);
        }
        g->backoff = began && now - g->since >= STEADY_MS ? 0 : MIN(MAX(2 * g->backoff, BACKOFF_MIN), BACKOFF_MAX);
        g->ready = false;
        for (struct gate_ward *w = g->wards, *next; w; w = next) {
                next = w->next;
                if (w->closing)
                        gate_ward_drop(w);
                else
                        gate_ward_untold(w);
        }
        if (g->count > 0)
                loop_timer_set(g->o->loop, &g->again, now + g->backoff);
        for (struct gate_ward *w = began ? NULL : g->wards; w; w = w->next)
                gate_ward_fail(w, ERR_UNENFORCED); /* one that could not even begin will not make it */
}

static void look_applied(struct loop_timer *t) {
        struct gate *g = LOOP_OWNER(t, struct gate, apply);
        uint64_t first = UINT64_MAX;

        for (struct gate_ward *w = g->wards; w; w = w->next)
                if (!w->closing && w->told_generation && w->applied != w->told_generation)
                        first = MIN(first, w->told_at);
        if (first != UINT64_MAX && first + APPLY_MS <= loop_now(g->o->loop))
                replace(g, "it did not put new rules into force");
        else if (first != UINT64_MAX)
                loop_timer_set(g->o->loop, &g->apply, first + APPLY_MS);
}

static void gate_free(struct gate *g) {
        struct gates *all = g->o->gates;

        for (struct gate **at = &all->first; *at; at = &(*at)->next)
                if (*at == g) {
                        *at = g->next;
                        break;
                }
        while (g->wards)
                gate_ward_drop(g->wards);
        struct loop_timer *timers[] = {&g->again, &g->idle, &g->apply, &g->retry};
        for (size_t i = 0; i < ELEMENTSOF(timers); i++)
                loop_timer_clear(g->o->loop, timers[i]);
        loop_unwatch(g->o->loop, &g->watch);
        if (g->asked)
                warden_forget(g->o, g);
        fd_close(&g->control);
        all->slots[g->slot] = false;
        free(g);
}

/* Nobody needs it: closing its socket ends it. */
static void end_idle(struct loop_timer *t) {
        struct gate *g = LOOP_OWNER(t, struct gate, idle);

        if (g->count == 0)
                gate_free(g);
}

static struct gate *gate_make(struct core *o, const char *owner, bool tls, struct err *err) {
        uint32_t slot = 0;

        if (!o->gates)
                o->gates = calloc(1, sizeof *o->gates);
        while (o->gates && slot < WARDEN_GATES_MAX && o->gates->slots[slot])
                slot++;
        if (slot == WARDEN_GATES_MAX) {
                (void)err_set(err, ERR_LIMIT, "there are %d gates already", WARDEN_GATES_MAX);
                (void)err_hint(err, "stop sandboxes with a network of other owners");
                return NULL;
        }
        struct gate *g = o->gates ? calloc(1, sizeof *g) : NULL;
        if (!g) {
                (void)err_set(err, -ENOMEM, "could not make a gate");
                return NULL;
        }
        g->o = o;
        g->tls = tls;
        g->slot = slot;
        g->control = -EBADF;
        (void)snprintf(g->owner, sizeof g->owner, "%s", owner);
        g->watch.ready = ready;
        g->again.fire = ask_again;
        g->idle.fire = end_idle;
        g->apply.fire = look_applied;
        g->retry.fire = retry;
        o->gates->slots[slot] = true;
        g->next = o->gates->first;
        o->gates->first = g;
        return g;
}

struct gate *gate_link_for(struct core *o, const char *owner, bool tls, struct err *err) {
        for (struct gate *g = o->gates ? o->gates->first : NULL; g; g = g->next)
                if (g->tls == tls && str_eq(g->owner, owner) && g->count < GATE_WARDS_MAX - 1)
                        return g;
        return gate_make(o, owner, tls, err);
}

void gate_link_emptied(struct gate *g) {
        loop_timer_set(g->o->loop, &g->idle, loop_now(g->o->loop) + IDLE_MS);
}

/* The end of its socket says the same, and cannot be about an earlier gate with the same slot. */
void gate_link_gone(struct core *o, uint32_t slot) {
        for (struct gate *g = o->gates ? o->gates->first : NULL; g; g = g->next)
                if (g->slot == slot && g->control < 0 && !g->asked && g->count > 0 && !g->again.place)
                        ask(g);
}

bool gate_link_idle(struct core *o, const char *owner) {
        for (struct gate *g = o->gates ? o->gates->first : NULL; g; g = g->next)
                if (str_eq(g->owner, owner) && g->count > 0)
                        return false;
        return true;
}

void gate_link_close(struct core *o) {
        while (o->gates && o->gates->first)
                gate_free(o->gates->first);
        free(TAKE_PTR(o->gates));
}
