/* The table of flows, their states, and what is common to all of them. */
#include "gate/flow.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/knockout.h"
#include "gate/side.h"

#define RESERVED 128 /* descriptors for wards, the resolver, DNS clients and the moment between accept and refusal */

#define TO(s) (1U << (s))

/* What a flow does in a state, how long it may stay (0: as long as it likes), and where it can go from there. Every
 * state can end. */
static const struct {
        void (*step)(struct flow *f);
        uint32_t deadline;
        unsigned to;
} states[] = {
        [FLOW_FREE] = {NULL, 0, TO(FLOW_PROXY) | TO(FLOW_SNIFF) | TO(FLOW_RESOLVE) | TO(FLOW_DIAL) | TO(FLOW_REFUSE)},
        [FLOW_PROXY] = {proxy_step, 20000, TO(FLOW_RESOLVE) | TO(FLOW_DIAL) | TO(FLOW_RELAY) | TO(FLOW_LINGER)},
        [FLOW_SNIFF] = {sniff_step, 10000,
                        TO(FLOW_RESOLVE) | TO(FLOW_DIAL) | TO(FLOW_HANDSHAKE) | TO(FLOW_RELAY) | TO(FLOW_REFUSE) |
                                TO(FLOW_LINGER)},
        [FLOW_RESOLVE] = {NULL, 5000, TO(FLOW_DIAL) | TO(FLOW_REFUSE) | TO(FLOW_LINGER)},
        [FLOW_DIAL] = {dial_step, 10000,
                       TO(FLOW_SNIFF) | TO(FLOW_HANDSHAKE) | TO(FLOW_RELAY) | TO(FLOW_REFUSE) | TO(FLOW_LINGER)},
        [FLOW_HANDSHAKE] = {meet_step, 15000, TO(FLOW_RELAY) | TO(FLOW_REFUSE) | TO(FLOW_LINGER)},
        [FLOW_RELAY] = {relay_step, 0, TO(FLOW_RESOLVE) | TO(FLOW_DIAL) | TO(FLOW_LINGER)},
        [FLOW_REFUSE] = {refuse_step, 2000, TO(FLOW_LINGER)},
        [FLOW_LINGER] = {linger_step, 2000, 0},
};
static_assert(ELEMENTSOF(states) == FLOW_STATE_COUNT, "every state has a row");

static struct flow *table;
static uint32_t table_size, table_used;
static uint32_t *free_places;
static uint32_t free_count;

static void run(struct loop_task *t) {
        struct flow *f = LOOP_OWNER(t, struct flow, task);
        enum flow_state before;

        do {
                before = f->state;
                if (!states[before].step)
                        return;
                states[before].step(f);
        } while (f->state != before && f->state != FLOW_FREE);
        if (f->client.more || f->server.more) {
                f->client.more = f->server.more = false;
                loop_later(&f->task);
        }
}

static void timer_update(struct flow *f) {
        uint64_t when = f->wake ? MIN(f->wake, f->deadline) : f->deadline;

        if (when == UINT64_MAX)
                loop_timer_clear(&f->timer);
        else if (!loop_timer_is_set(&f->timer) || f->timer.when != when)
                loop_timer_set(&f->timer, when);
}

static void timed_out(struct flow *f) {
        static const char *const what[FLOW_STATE_COUNT] = {
                [FLOW_PROXY] = "the proxy request did not arrive in time",
                [FLOW_SNIFF] = "the client's first bytes did not arrive in time",
                [FLOW_HANDSHAKE] = "the TLS handshake took too long",
        };

        switch (f->state) {
        case FLOW_RESOLVE:
                refuse(f, GATE_UNRESOLVED, "nobody answered in time");
                break;
        case FLOW_DIAL:
                refuse(f, GATE_UNREACHABLE, "the server did not answer in time");
                break;
        case FLOW_REFUSE:
                refuse_step(f);
                break;
        case FLOW_PROXY:
        case FLOW_SNIFF:
        case FLOW_HANDSHAKE:
                if (f->queued)
                        refuse(f, GATE_CONNECTIONS, "too many TLS handshakes at a time");
                else
                        refuse(f, GATE_TIMEOUT, what[f->state]);
                break;
        case FLOW_RELAY:
                converse_timeout(f);
                break;
        case FLOW_FREE:
        case FLOW_LINGER:
        case FLOW_STATE_COUNT:
        default:
                flow_end(f);
                break;
        }
}

static void timer_fired(struct loop_timer *t) {
        struct flow *f = LOOP_OWNER(t, struct flow, timer);

        if (f->wake && f->wake <= loop_now())
                f->wake = 0;
        if (f->deadline <= loop_now()) {
                timed_out(f);
                return;
        }
        timer_update(f);
        loop_later(&f->task);
}

/* --- events of sockets --- */

static void note(struct flow *f, struct flow_side *s, uint32_t events) {
        if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                s->can_read = true;
        if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
                s->can_write = true;
        if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                s->closing = true;
        loop_later(&f->task);
}

static struct flow *find(const struct loop_ref *ref) {
        struct flow *f = ref->index < table_size ? &table[ref->index] : NULL;

        return f && f->state != FLOW_FREE && f->generation == ref->generation ? f : NULL;
}

static void client_event(const struct loop_ref *ref, uint32_t events) {
        struct flow *f = find(ref);

        if (!f)
                return;
        /* gone in both directions, or reset, while we were still on our way to the server; or no longer there to shake
         * hands, which takes more than a hello */
        if ((events & (EPOLLHUP | EPOLLERR) && (f->state == FLOW_RESOLVE || f->state == FLOW_DIAL)) ||
            (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) &&
             (f->queued || (f->state == FLOW_HANDSHAKE && !f->client.tls)))) {
                flow_end(f);
                return;
        }
        note(f, &f->client, events);
}

static void server_event(const struct loop_ref *ref, uint32_t events) {
        struct flow *f = find(ref);

        if (f && f->server.fd >= 0)
                note(f, &f->server, events);
        else if (f && f->state == FLOW_DIAL)
                loop_later(&f->task);
}

/* --- the table --- */

int flow_init(struct err *err) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return err_set(err, -errno, "cannot read the limit of open files");
        rlim_t most = MIN(limit.rlim_cur, (rlim_t)131072);
        if (most < 2 * RESERVED)
                return err_set(err, -EMFILE, "a limit of %lu open files is too low for a gate", (unsigned long)most);
        table_size = (uint32_t)(most - RESERVED) / 2;
        void *p = mmap(NULL, table_size * sizeof *table, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        void *q = mmap(NULL, table_size * sizeof *free_places, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED || q == MAP_FAILED)
                return err_set(err, -errno, "cannot make room for %u connections", table_size);
        table = p;
        free_places = q;
        loop_handle(LOOP_CLIENT, client_event);
        loop_handle(LOOP_SERVER, server_event);
        loop_handle(LOOP_ATTEMPT_0, server_event);
        loop_handle(LOOP_ATTEMPT_1, server_event);
        return 0;
}

/* A place, unless this ward has its share already. */
static struct flow *take(const struct ward *w) {
        if (!ward_shares(w->active, table_size - table_used + free_count))
                return NULL;
        uint32_t place = free_count > 0 ? free_places[--free_count] : table_used++;
        struct flow *f = &table[place];
        uint32_t generation = (f->generation + 1) & LOOP_GENERATION_MASK;

        *f = (struct flow){
                .place = place,
                .generation = generation,
                .client.fd = -EBADF,
                .server.fd = -EBADF,
                .attempts = {-EBADF, -EBADF},
                .deadline = UINT64_MAX,
                .task.run = run,
                .timer.fire = timer_fired,
        };
        return f;
}

bool flow_named(const struct flow *f) {
        return f->name[0] != '\0';
}

void flow_host(const struct flow *f, char ret[HOSTNAME_SIZE]) {
        if (flow_named(f)) {
                memcpy(ret, f->name, HOSTNAME_SIZE);
                return;
        }
        char text[ADDRESS_TEXT_MAX];
        address_print(&f->address, text);
        (void)snprintf(ret, HOSTNAME_SIZE, "%s", text);
}

void flow_begin(struct ward *w, int fd, enum flow_origin origin) {
        static const struct linger hard = {.l_onoff = 1};
        _cleanup_fd_ int own = fd;
        const char *why = NULL;
        struct flow *f = NULL;

        if (w->active >= w->limits.connections && !knockout_off(KNOCKOUT_GATE))
                why = "limits.connections is reached";
        else if (!(f = take(w)))
                why = "the gate has no room for more connections";
        else if (loop_watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, LOOP_CLIENT, f->place, f->generation) < 0) {
                free_places[free_count++] = f->place;
                why = "the gate cannot watch more connections";
        }
        if (why) {
                struct gate_event e = {.reason = GATE_CONNECTIONS, .rule = -1};

                (void)snprintf(e.detail, sizeof e.detail, "%s", why);
                w->sums->totals.refused++;
                event_refused(w, &e);
                (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
                return;
        }
        f->client.fd = TAKE_FD(own);
        f->client.can_read = f->client.can_write = true; /* the first tries will tell */
        f->ward = w;
        f->client.in.owner = f->client.out.owner = &w->buffers;
        f->server.in.owner = f->server.out.owner = &w->buffers;
        f->origin = origin;
        f->rule = -1;
        f->since = loop_now();
        f->next = w->flows;
        if (f->next)
                f->next->previous = f;
        w->flows = f;
        w->active++;
        side_tune(f->client.fd);
        if (origin == ORIGIN_PROXY)
                flow_move(f, FLOW_PROXY);
        else
                sniff_begin(f);
        if (f->state != FLOW_FREE)
                loop_later(&f->task);
}

void flow_move(struct flow *f, enum flow_state to) {
        assert(states[f->state].to & TO(to));
        if (f->state == FLOW_RESOLVE)
                resolve_cancel(&f->lookup);
        if (to != FLOW_SNIFF && to != FLOW_HANDSHAKE)
                meet_left(f);
        f->partial = PARTIAL_NONE;
        f->state = to;
        f->since = loop_now();
        f->wake = 0;
        flow_deadline(f, states[to].deadline);
        loop_later(&f->task);
}

void flow_deadline(struct flow *f, uint64_t ms) {
        f->deadline = ms == 0 ? UINT64_MAX : loop_now() + ms;
        timer_update(f);
}

void flow_wake(struct flow *f, uint64_t ms) {
        f->wake = loop_now() + ms;
        timer_update(f);
}

/* --- ends --- */

static void side_finish(struct flow_side *s) {
        if (s->tls)
                tls_free(TAKE_PTR(s->tls));
        pool_drop(&s->in);
        pool_drop(&s->out);
        fd_close(&s->fd);
        *s = (struct flow_side){.fd = -EBADF, .in = s->in, .out = s->out};
}

void flow_close_attempts(struct flow *f) {
        for (size_t i = 0; i < ELEMENTSOF(f->attempts); i++)
                fd_close(&f->attempts[i]);
}

void flow_drop_server(struct flow *f) {
        flow_close_attempts(f);
        side_finish(&f->server);
        if (f->host) {
                f->host->active--;
                f->host = NULL;
        }
}

void flow_end(struct flow *f) {
        struct ward *w = f->ward;

        if (f->state == FLOW_RESOLVE)
                resolve_cancel(&f->lookup);
        flow_drop_server(f);
        side_finish(&f->client);
        meet_give_exchange(f);
        meet_left(f);
        meet_ended(f);
        turn_leave(f);
        loop_cancel(&f->task);
        loop_timer_clear(&f->timer);
        if (f->previous)
                f->previous->next = f->next;
        else
                w->flows = f->next;
        if (f->next)
                f->next->previous = f->previous;
        w->active--;
        f->state = FLOW_FREE;
        free_places[free_count++] = f->place;
}

void flow_reset(struct flow *f) {
        static const struct linger hard = {.l_onoff = 1};

        if (f->client.fd >= 0)
                (void)setsockopt(f->client.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        if (f->server.fd >= 0)
                (void)setsockopt(f->server.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        flow_end(f);
}

void flow_catch_up(struct ward *w) {
        for (struct flow *f = w->flows, *next; f; f = next) {
                next = f->next;
                if (f->state != FLOW_PROXY && f->state != FLOW_SNIFF && f->state != FLOW_REFUSE)
                        continue;
                f->client.can_read = true; /* epoll has not said so yet */
                loop_cancel(&f->task);
                run(&f->task);
        }
}

void flow_end_all(struct ward *w) {
        while (w->flows)
                flow_reset(w->flows);
}

void flow_shut(struct flow_side *s) {
        if (s->shut || s->fd < 0)
                return;
        s->shut = true;
        if (s->tls)
                (void)tls_end(s->tls);
        (void)shutdown(s->fd, SHUT_WR);
}

/* --- decisions and sums --- */

enum gate_reason flow_decide(struct flow *f) {
        if (ward_spent(f->ward, WARD_SENT))
                return GATE_EGRESS;
        struct decision d = decide_connect(&f->ward->rules, flow_named(f) ? f->name : NULL, &f->address, f->port);

        f->rule = ward_rule_index(f->ward, d.rule);
        f->inspect = d.inspect;
        f->private = d.private;
        f->exact = d.exact;
        return d.reason;
}

/* Is it under way without having been looked into? Then it cannot be any more. */
static bool unseen(const struct flow *f) {
        return !f->exchange && (f->state == FLOW_RELAY || f->served);
}

/* Do the rules of now still allow it, as it is? What stays is judged by them from its next request on. */
static bool stays(struct flow *f) {
        if (flow_decide(f) != GATE_USED || (f->inspect && unseen(f)) || !dial_allowed(f))
                return false;
        if (!f->exchange || f->server.fd < 0)
                return true;
        return meet_exchange(f) && exchange_review(f->exchange);
}

uint32_t flow_review(struct ward *w) {
        uint32_t closed = 0;

        for (struct flow *f = w->flows, *next; f; f = next) {
                next = f->next;
                if (f->port == 0 || f->state == FLOW_REFUSE || f->state == FLOW_LINGER)
                        continue; /* not on its way anywhere */
                if (stays(f))
                        continue;
                struct gate_event e;
                refuse_event(f, GATE_REVOKED, "", &e);
                w->sums->totals.refused++;
                event_refused(w, &e);
                flow_reset(f);
                closed++;
        }
        return closed;
}

void flow_count(struct flow *f, enum ward_way way, size_t bytes) {
        struct ward *w = f->ward;

        if (f->host) {
                if (way == WARD_SENT)
                        f->host->sent += bytes;
                else
                        f->host->received += bytes;
        }
        ward_passed(w, way, bytes);
}
