/* HTTP under rules: bytes of one side go through the exchange to the other. What may pass is the exchange's business;
 * here is only who is read, who is written, and when it is over. */
#include "gate/relay.h"
#include "gate/side.h"

#define ROUNDS  4           /* per turn */
#define INPUT   (64 * 1024) /* bytes offered at a time; more than a head */
#define HEAD_MS 20000       /* for a head to become whole, however many bytes of it keep coming */
static_assert(INPUT + EXCHANGE_ROOM <= RELAY_CHUNK, "both fit into the scratch buffer");
static_assert(EXCHANGE_ROOM <= POOL_SIZE, "what cannot be written can be kept");
static_assert(HTTP_HEAD_MAX < INPUT, "a head can be seen whole");

static uint8_t *const input = relay_scratch, *const output = relay_scratch + INPUT;

enum outcome { IDLE, PROGRESS, OVER /* the flow was moved on or is gone */ };

static void deny(struct flow *f) {
        const struct exchange_view *v = exchange_view(f->exchange);
        struct gate_event e = v->denial;
        static char words[16 * 1024];
        size_t size = MIN(v->reply_size, sizeof words);

        if (!e.host[0])
                flow_host(f, e.host);
        if (!e.port)
                e.port = f->port;
        f->ward->sums->totals.refused++;
        event_refused(f->ward, &e);
        if (size > 0)
                memcpy(words, v->reply, size);
        refuse_say(f, words, size);
}

/* The client gets what waits for it, then the end. */
static enum outcome finish(struct flow *f) {
        refuse_say(f, NULL, 0);
        return OVER;
}

/* Bytes for the server, within the ward's budget. */
static bool send_server(struct flow *f, size_t made) {
        if (made == 0)
                return true;
        if (ward_left(f->ward) < made) {
                ward_exhaust(f->ward);
                return false;
        }
        flow_count(f, WARD_SENT, made);
        int r = side_put(&f->server, output, made);
        if (r == -ENOBUFS) {
                refuse_broken(f, &f->server, r);
                return false;
        }
        return true; /* a server that is gone shows when its answer is read */
}

static bool send_client(struct flow *f, size_t made) {
        int r = made == 0 ? 0 : side_put(&f->client, output, made);

        if (r < 0)
                refuse_broken(f, &f->client, r);
        return r >= 0;
}

/* What was looked at is dealt with, as far as it was of use. */
static bool used_up(struct flow *f, struct flow_side *s, size_t count, size_t used) {
        int r = side_used(s, input, count, used);

        if (r < 0)
                refuse_broken(f, s, r);
        return r >= 0;
}

/* A head of this kind has begun and is not whole, or is it. */
static void head_begun(struct flow *f, enum flow_partial kind) {
        if (f->partial != PARTIAL_NONE)
                return;
        f->partial = kind;
        flow_deadline(f, HEAD_MS);
}

static void head_whole(struct flow *f, enum flow_partial kind) {
        if (f->partial != kind)
                return;
        f->partial = PARTIAL_NONE;
        flow_deadline(f, 0);
}

void converse_timeout(struct flow *f) {
        bool request = f->partial != PARTIAL_ANSWER;
        char words[EXCHANGE_REFUSAL];
        struct gate_event e;

        refuse_event(f, GATE_TIMEOUT,
                     request ? "the request's head did not arrive in time" : "the answer's head did not arrive in time",
                     &e);
        f->ward->sums->totals.refused++;
        event_refused(f->ward, &e);
        refuse_say(f, words, exchange_refusal(&e, words, sizeof words));
}

/* Is the way to `to` free, within bandwidth? */
static bool may_pass(struct flow *f, const struct flow_side *to, enum ward_way way) {
        if (pool_held(&to->out) > 0)
                return false;
        if (turn_take(f, way, 1) > 0 || ward_spent(f->ward, way))
                return true;
        if (f->partial != PARTIAL_NONE)
                flow_deadline(f, HEAD_MS); /* the peer is not to blame */
        return false;
}

static enum outcome raw_way(struct flow *f, struct flow_side *from, struct flow_side *to, enum ward_way way) {
        size_t made = 0;
        bool new;

        if (to->shut || !may_pass(f, to, way))
                return IDLE;
        ssize_t n = side_look(from, input, INPUT, &new);
        if (n < 0) {
                refuse_broken(f, from, (int)n);
                return OVER;
        }
        if (n == 0) {
                if (!from->ended)
                        return IDLE;
                if (way == WARD_RECEIVED && !f->ending) { /* what was held back while it was searched */
                        f->ending = true;
                        (void)exchange_response_eof(f->exchange, output, EXCHANGE_ROOM, &made);
                        return send_client(f, made) ? PROGRESS : OVER;
                }
                flow_shut(to);
                return PROGRESS;
        }
        bool good = exchange_raw(f->exchange, way == WARD_RECEIVED, input, (size_t)n, output, &made);
        if (!used_up(f, from, (size_t)n, (size_t)n))
                return OVER;
        if (way == WARD_SENT)
                return send_server(f, made) ? PROGRESS : OVER;
        flow_count(f, WARD_RECEIVED, (size_t)n);
        if (!send_client(f, made))
                return OVER;
        if (!good)
                deny(f);
        return good ? PROGRESS : OVER;
}

/* The client has said its last: what is under way is answered, then it is over. */
static enum outcome client_ended(struct flow *f) {
        size_t used = 0, made = 0;

        if (f->server.fd >= 0 &&
            exchange_request(f->exchange, input, 0, &used, output, EXCHANGE_ROOM, &made) == EXCHANGE_WAIT)
                return IDLE;
        return finish(f);
}

static enum outcome requests(struct flow *f) {
        struct flow_side *c = &f->client;
        size_t used = 0, made = 0;
        bool new, again = f->again;

        if (f->waiting || !may_pass(f, &f->server, WARD_SENT))
                return IDLE;
        ssize_t n = side_look(c, input, INPUT, &new);
        if (n < 0) {
                refuse_broken(f, c, (int)n);
                return OVER;
        }
        if (n == 0 && c->ended)
                return client_ended(f);
        if (n == 0 || (!new && !again))
                return IDLE;
        f->again = false;
        enum exchange_result r = exchange_request(f->exchange, input, (size_t)n, &used, output, EXCHANGE_ROOM, &made);
        if (!used_up(f, c, (size_t)n, used))
                return OVER;
        if (used > 0) {
                f->retargeted = false;
                head_whole(f, PARTIAL_REQUEST);
        }
        if (!send_server(f, made))
                return OVER;
        switch (r) {
        case EXCHANGE_MORE:
                if (used == 0 && made == 0) {
                        if (c->ended || (c->closing && !c->tls))
                                return finish(f);      /* within a head that will never be whole */
                        c->can_read &= c->tls != NULL; /* plain bytes are only peeked at: epoll tells of new ones */
                        head_begun(f, PARTIAL_REQUEST);
                        return IDLE;
                }
                return PROGRESS;
        case EXCHANGE_WAIT:
                f->waiting = true;
                return used > 0 || made > 0 ? PROGRESS : IDLE;
        case EXCHANGE_RETARGET:
                proxy_retarget(f, &exchange_view(f->exchange)->target);
                return OVER;
        case EXCHANGE_RAW:
                f->raw = true;
                return PROGRESS;
        case EXCHANGE_END:
                return finish(f);
        case EXCHANGE_DENIED:
        default:
                deny(f);
                return OVER;
        }
}

static enum outcome answered(struct flow *f, enum exchange_result r, bool progress) {
        switch (r) {
        case EXCHANGE_MORE:
        case EXCHANGE_WAIT:
                return progress ? PROGRESS : IDLE;
        case EXCHANGE_RAW:
                f->raw = true;
                return PROGRESS;
        case EXCHANGE_END:
                return finish(f);
        case EXCHANGE_RETARGET:
        case EXCHANGE_DENIED:
        default:
                deny(f);
                return OVER;
        }
}

/* No more comes from the server: either the answer ends here, or it was cut. */
static enum outcome server_ended(struct flow *f) {
        size_t made = 0;
        enum exchange_result r = exchange_response_eof(f->exchange, output, EXCHANGE_ROOM, &made);

        if (!send_client(f, made))
                return OVER;
        return answered(f, r == EXCHANGE_MORE || r == EXCHANGE_WAIT ? EXCHANGE_END : r, true);
}

static enum outcome answers(struct flow *f) {
        struct flow_side *s = &f->server;
        size_t used = 0, made = 0;
        bool new;

        if (s->fd < 0 || !may_pass(f, &f->client, WARD_RECEIVED))
                return IDLE;
        ssize_t n = side_look(s, input, INPUT, &new);
        if (n < 0 || (n == 0 && s->ended))
                return server_ended(f);
        if (n == 0 || (!new && !s->ended))
                return IDLE;
        enum exchange_result r = exchange_response(f->exchange, input, (size_t)n, &used, output, EXCHANGE_ROOM, &made);
        if (!used_up(f, s, (size_t)n, used))
                return OVER;
        if (used > 0)
                head_whole(f, PARTIAL_ANSWER);
        flow_count(f, WARD_RECEIVED, used);
        if (!send_client(f, made))
                return OVER;
        f->waiting = false;
        f->again = true;
        bool progress = used > 0 || made > 0;
        if (!progress && r == EXCHANGE_MORE) {
                if (s->ended || (s->closing && !s->tls))
                        return server_ended(f); /* within a head that will never be whole */
                s->can_read &= s->tls != NULL;
                head_begun(f, PARTIAL_ANSWER);
        }
        return answered(f, r, progress);
}

void converse_step(struct flow *f) {
        for (unsigned i = 0; i < ROUNDS; i++) {
                enum outcome a, b;

                if (side_flush(&f->client) < 0) {
                        flow_reset(f);
                        return;
                }
                if (f->server.fd >= 0 && side_flush(&f->server) < 0)
                        pool_drop(&f->server.out); /* it is gone: its answer, or the lack of one, says so */
                a = f->raw ? raw_way(f, &f->client, &f->server, WARD_SENT) : requests(f);
                if (a == OVER)
                        return;
                b = f->raw ? raw_way(f, &f->server, &f->client, WARD_RECEIVED) : answers(f);
                if (b == OVER)
                        return;
                if (f->raw && f->client.shut && f->server.shut) {
                        flow_end(f);
                        return;
                }
                if (a == IDLE && b == IDLE)
                        return;
        }
        loop_later(&f->task);
}
