/* Client and server meet: the connection to the server stands, and the conversation is set up as the rules want it:
 * relayed as it is, as HTTP under rules, or as HTTP under rules within TLS that is opened on both sides.
 *
 * Opened TLS is what costs most: tens of KiB a connection, in a process that no limit of the sandbox counts. So there
 * are bounds, shared among wards: of connections whose TLS is open, and of handshakes at a time. Who finds no place
 * among the latter waits, with its hello still in the kernel; wards take turns. */
#include "gate/flow.h"

#define SHAKING_MAX 256
#define OPENED_MAX  1024
#define QUEUE_MS    10000

static uint32_t exchanges, shaking, opened, waiting; /* of all wards */

static void setup(const struct flow *f, struct exchange_setup *ret) {
        *ret = (struct exchange_setup){
                .rules = &f->ward->rules,
                .secrets = f->ward->secrets,
                .name = flow_named(f) ? f->name : NULL,
                .address = f->address,
                .port = f->port,
                .tls = f->client.tls != NULL,
                .near = f->server.fd >= 0 && f->needs != NEEDS_NOTHING,
                .proxy = f->origin == ORIGIN_FORWARD,
                .inspect = f->inspect,
        };
}

bool meet_exchange(struct flow *f) {
        struct exchange_setup s;

        setup(f, &s);
        if (f->exchange) {
                exchange_retarget(f->exchange, &s);
                return true;
        }
        if (ward_shares(f->ward->exchanges, EXCHANGE_MAX - exchanges))
                f->exchange = exchange_take(&s);
        if (!f->exchange) {
                refuse(f, GATE_CONNECTIONS, "too many HTTP connections at a time");
                return false;
        }
        exchanges++;
        f->ward->exchanges++;
        return true;
}

void meet_give_exchange(struct flow *f) {
        if (!f->exchange)
                return;
        exchange_give(TAKE_PTR(f->exchange));
        exchanges--;
        f->ward->exchanges--;
}

/* --- taking turns --- */

static void shake(struct flow *f) {
        f->shaking = true;
        f->ward->shaking++;
        shaking++;
}

static void queue_add(struct flow *f) {
        struct ward *w = f->ward;

        f->queued = true;
        f->queue_next = NULL;
        f->queue_previous = w->queue_last;
        *(w->queue_last ? &w->queue_last->queue_next : &w->queue) = f;
        w->queue_last = f;
        waiting++;
}

static void queue_remove(struct flow *f) {
        struct ward *w = f->ward;

        f->queued = false;
        *(f->queue_previous ? &f->queue_previous->queue_next : &w->queue) = f->queue_next;
        *(f->queue_next ? &f->queue_next->queue_previous : &w->queue_last) = f->queue_previous;
        waiting--;
}

/* A place became free: the next ward that has somebody waiting and may have it, after the one that had the last. */
static void wake_next(void) {
        static uint32_t turn;

        for (uint32_t i = 0; waiting > 0 && i < GATE_WARDS_MAX; i++) {
                uint32_t place = (turn + i) % GATE_WARDS_MAX;
                struct ward *w = ward_by_place(place);

                if (!w || !w->queue || !ward_shares(w->shaking, SHAKING_MAX - shaking))
                        continue;
                struct flow *f = w->queue;
                queue_remove(f);
                shake(f);
                f->client.can_read = true; /* its hello is looked at once more */
                loop_later(&f->task);
                turn = place + 1;
                return;
        }
}

void meet_left(struct flow *f) {
        if (f->queued)
                queue_remove(f);
        if (!f->shaking)
                return;
        f->shaking = false;
        f->ward->shaking--;
        shaking--;
        wake_next();
}

void meet_ended(struct flow *f) {
        if (!f->opened)
                return;
        f->opened = false;
        f->ward->opened--;
        opened--;
}

/* --- meeting --- */

void meet_server(struct flow *f) {
        if (f->origin == ORIGIN_FORWARD) {
                if (!meet_exchange(f))
                        return;
                f->again = true;
                flow_move(f, FLOW_RELAY);
                return;
        }
        if (f->origin != ORIGIN_TRANSPARENT && !f->told && !proxy_connected(f))
                return;
        if (f->sniffed)
                meet_begin(f);
        else
                flow_move(f, FLOW_SNIFF);
}

static void open_tls(struct flow *f) {
        struct ward *w = f->ward;

        if (f->client.closing) { /* a hello is not enough */
                flow_end(f);
                return;
        }
        if (!f->shaking && (w->queue || !ward_shares(w->shaking, SHAKING_MAX - shaking))) {
                if (f->state != FLOW_SNIFF)
                        flow_move(f, FLOW_SNIFF);
                flow_deadline(f, QUEUE_MS);
                queue_add(f);
                return;
        }
        if (!f->shaking)
                shake(f);
        if (!ward_shares(w->opened, OPENED_MAX - opened)) {
                refuse(f, GATE_CONNECTIONS, "too many TLS connections are open at a time");
                return;
        }
        f->opened = true;
        w->opened++;
        opened++;
        if (!meet_exchange(f)) /* what it will need is there before anything is spent */
                return;
        if (w->authority)
                f->server.tls = tls_connect(f->server.fd, flow_named(f) ? f->name : NULL, &f->address);
        if (!f->server.tls)
                refuse(f, GATE_BAD_PROTOCOL, "TLS could not be opened");
        else
                flow_move(f, FLOW_HANDSHAKE);
}

void meet_begin(struct flow *f) {
        if (f->speech == SPEECH_TLS && f->inspect) {
                open_tls(f);
                return;
        }
        if (f->speech == SPEECH_HTTP && !meet_exchange(f))
                return;
        if (f->inspect && !f->exchange) { /* nothing unseen under rules that look inside */
                refuse(f, GATE_BAD_PROTOCOL, "neither TLS nor HTTP");
                return;
        }
        flow_move(f, FLOW_RELAY);
}

/* The server first: if it is not who it should be, the client's hello is still unanswered and can be refused. */
void meet_step(struct flow *f) {
        char host[HOSTNAME_SIZE], detail[sizeof f->detail];

        if (!f->client.tls) {
                int r = tls_handshake(f->server.tls);

                f->server.more = r == -EINTR;
                if (r == -EAGAIN || r == -EINTR)
                        return;
                if (r < 0) {
                        (void)snprintf(detail, sizeof detail, "%s", tls_problem(f->server.tls));
                        refuse(f, r == -EKEYREJECTED ? GATE_CERTIFICATE : GATE_UNREACHABLE, detail);
                        return;
                }
                flow_host(f, host);
                f->client.tls = tls_accept(f->ward->authority, f->client.fd, host);
                if (!f->client.tls) {
                        refuse(f, GATE_BAD_PROTOCOL, "TLS could not be opened");
                        return;
                }
        }
        int r = tls_handshake(f->client.tls);
        f->client.more = r == -EINTR;
        if (r == -EAGAIN || r == -EINTR)
                return;
        if (r < 0) {
                (void)snprintf(detail, sizeof detail, "the client broke off the TLS handshake: %s",
                               tls_problem(f->client.tls));
                refuse(f, GATE_BAD_PROTOCOL, detail);
                return;
        }
        f->client.can_read = f->client.can_write = f->server.can_read = f->server.can_write = true;
        if (meet_exchange(f))
                flow_move(f, FLOW_RELAY);
}
