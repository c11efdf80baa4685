/* Saying no, in the client's own protocol where there is one: HTTP gets a 403 that explains, TLS an alert, everything
 * else a reset. Then the end, in a way that the words arrive: a socket that is closed with unread bytes in it resets
 * the connection and takes back what was said. */
#include <sys/socket.h>
#include <unistd.h>

#include "gate/flow.h"
#include "gate/hello.h"
#include "gate/relay.h"
#include "gate/side.h"

#define ALERT_ACCESS_DENIED     49
#define ALERT_UNRECOGNIZED_NAME 112
#define DRAIN_MAX               (1 << 20)

void refuse_event(const struct flow *f, enum gate_reason reason, const char *detail, struct gate_event *ret) {
        *ret = (struct gate_event){.reason = reason, .port = f->port, .rule = f->rule, .count = 1};
        if (f->port)
                flow_host(f, ret->host);
        (void)snprintf(ret->detail, sizeof ret->detail, "%s", detail);
}

static void record(struct flow *f, const struct gate_event *e) {
        f->ward->sums->totals.refused++;
        event_refused(f->ward, e);
}

/* Writes what can be written of these bytes and keeps the rest, after what waits already. False: it cannot be said. */
static bool write_client(struct flow *f, const void *words, size_t size) {
        struct pool_hold *out = &f->client.out;

        if (pool_held(out) == 0)
                return side_put(&f->client, words, size) >= 0;
        if (size > POOL_SIZE - out->end)
                return false;
        memcpy(out->data + out->end, words, size);
        out->end += (uint32_t)size;
        return true;
}

void refuse_say(struct flow *f, const void *words, size_t size) {
        flow_drop_server(f);
        meet_give_exchange(f);
        if (size > 0 && !write_client(f, words, size)) {
                flow_reset(f);
                return;
        }
        flow_move(f, FLOW_LINGER);
}

void refuse_broken(struct flow *f, const struct flow_side *s, int error) {
        struct gate_event e;

        if (error == -ENOBUFS) {
                refuse_event(f, GATE_CONNECTIONS, "no buffers are free", &e);
                record(f, &e);
        } else if (error == -EPROTO && s->tls) {
                refuse_event(f, GATE_BAD_PROTOCOL, tls_problem(s->tls), &e);
                record(f, &e);
        }
        flow_reset(f);
}

static void say_alert(struct flow *f, enum gate_reason reason) {
        uint8_t alert[HELLO_ALERT_SIZE];

        hello_alert(reason == GATE_WRONG_SERVER || reason == GATE_NO_RULE ? ALERT_UNRECOGNIZED_NAME
                                                                          : ALERT_ACCESS_DENIED,
                    alert);
        refuse_say(f, alert, sizeof alert);
}

void refuse(struct flow *f, enum gate_reason reason, const char *detail) {
        struct gate_event e;

        f->reason = reason;
        if (reason == GATE_PRIVATE && !detail[0]) { /* a literal address */
                const char *kind = address_special(&f->address);

                detail = kind ? kind : "";
        }
        (void)snprintf(f->detail, sizeof f->detail, "%s", detail);
        flow_drop_server(f);
        refuse_event(f, reason, f->detail, &e);
        if ((f->origin != ORIGIN_TRANSPARENT && !f->told) || f->origin == ORIGIN_FORWARD) {
                proxy_describe(f, &e);
                record(f, &e);
                proxy_refused(f, &e);
                return;
        }
        if (f->client.tls) { /* half-way through a handshake */
                record(f, &e);
                flow_reset(f);
                return;
        }
        bool words = f->speech == SPEECH_HTTP || f->speech == SPEECH_TLS ||
                     (f->speech == SPEECH_UNKNOWN && (f->port == 80 || f->port == 443));
        if (!words || reason == GATE_TIMEOUT) {
                record(f, &e);
                if (f->speech == SPEECH_TLS)
                        say_alert(f, reason);
                else
                        flow_reset(f);
                return;
        }
        f->client.can_read = true;
        flow_move(f, FLOW_REFUSE);
}

void refuse_describe(struct gate_event *e, const struct http_head *head) {
        (void)snprintf(e->method, sizeof e->method, "%.*s", (int)MIN(head->method.size, sizeof e->method - 1),
                       head->method.data);
        (void)snprintf(e->path, sizeof e->path, "%.*s", (int)MIN(head->path.size, sizeof e->path - 1),
                       head->path.data ? head->path.data : "");
}

static void refuse_http(struct flow *f, struct gate_event *e, const struct http_head *head) {
        char words[EXCHANGE_REFUSAL];

        if (head)
                refuse_describe(e, head);
        record(f, e);
        refuse_say(f, words, exchange_refusal(e, words, sizeof words));
}

/* Looks at what the client has said so far; at the deadline, with what there is. */
void refuse_step(struct flow *f) {
        bool last = f->deadline <= loop_now();
        struct gate_event e;

        refuse_event(f, f->reason, f->detail, &e);
        if (!f->client.can_read && !last)
                return;
        ssize_t n = recv(f->client.fd, relay_scratch, HELLO_MAX, MSG_PEEK | MSG_DONTWAIT);
        f->client.can_read = false;
        if (n < 0 && errno == EAGAIN && !last)
                return;
        last |= f->client.closing;
        if (n <= 0) {
                record(f, &e);
                flow_reset(f);
                return;
        }
        struct hello hello;
        enum hello_result tls = hello_parse(relay_scratch, (size_t)n, &hello);
        if (tls == HELLO_MORE && !last)
                return;
        if (tls != HELLO_NOT_TLS) {
                if (tls == HELLO_DONE && hello.name[0] && !e.detail[0] && !flow_named(f))
                        (void)snprintf(e.detail, sizeof e.detail, "the TLS hello names %.100s", hello.name);
                record(f, &e);
                say_alert(f, f->reason);
                return;
        }
        int http = http_sniff(relay_scratch, (size_t)n);
        if (http == -EAGAIN && !last)
                return;
        if (http <= 0) {
                record(f, &e);
                flow_reset(f);
                return;
        }
        static struct http_head head;
        switch (http_request((const char *)relay_scratch, (size_t)n, &head)) {
        case HTTP_MORE:
                if (last)
                        refuse_http(f, &e, NULL);
                return;
        case HTTP_DONE:
                refuse_http(f, &e, &head);
                return;
        case HTTP_BAD:
        case HTTP_TOO_LARGE:
        default:
                refuse_http(f, &e, NULL);
                return;
        }
}

void linger_step(struct flow *f) {
        struct flow_side *c = &f->client;
        int r = side_flush(c);

        if (r < 0)
                flow_reset(f);
        if (r <= 0)
                return;
        flow_shut(c);
        for (;;) {
                ssize_t n = recv(c->fd, NULL, RELAY_CHUNK, MSG_TRUNC | MSG_DONTWAIT);

                if (n < 0 && errno == EAGAIN)
                        return;
                f->drained += n > 0 ? (uint32_t)n : 0;
                if (n <= 0 || f->drained > DRAIN_MAX) {
                        flow_end(f);
                        return;
                }
        }
}
