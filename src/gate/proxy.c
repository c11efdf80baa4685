/* The explicit proxy: for programs that would rather ask than be led. HTTP (CONNECT, and requests in absolute form) and
 * SOCKS5, told apart by the first byte. Where it leads is judged exactly as a connection to that name would be, and
 * what runs through a tunnel is looked at in the same way. */
#include <sys/socket.h>

#include "gate/flow.h"
#include "gate/relay.h"
#include "gate/side.h"
#include "gate/socks.h"

#define SOCKS_VERSION     5
#define SOCKS_SUCCEEDED   0
#define SOCKS_NOT_ALLOWED 2
#define SOCKS_UNREACHABLE 4
#define SOCKS_BAD_COMMAND 7

/* An address that stands for a name means the name. */
static void set_target(struct flow *f, const char *name, const struct address *a, uint16_t port) {
        (void)snprintf(f->name, sizeof f->name, "%s", name);
        f->address = *a;
        f->port = port;
        if (!name[0] && f->ward->synth) {
                const char *meant = synth_name(f->ward->synth, a);

                if (meant)
                        (void)snprintf(f->name, sizeof f->name, "%s", meant);
        }
}

static void go(struct flow *f, const char *name, const struct address *a, uint16_t port) {
        set_target(f, name, a, port);
        enum gate_reason reason = flow_decide(f);
        if (reason == GATE_USED && !flow_named(f) && synth_covers(a))
                reason = GATE_NO_RULE;
        if (reason != GATE_USED)
                refuse(f, reason, "");
        else if (f->origin == ORIGIN_FORWARD && port == 443)
                refuse(f, GATE_BAD_PROTOCOL, "plain HTTP on the port of TLS");
        else
                dial_begin(f);
}

/* The request that leads elsewhere is offered again once the server is there, and must then be for that server: twice
 * for the same request would be for ever. */
void proxy_retarget(struct flow *f, const struct http_target *t) {
        uint16_t port = t->port ? t->port : 80;

        flow_drop_server(f);
        f->server.shut = false;
        f->waiting = false;
        if (!t->name[0] && synth_covers(&t->address)) {
                set_target(f, t->name, &t->address, port);
                refuse(f, GATE_WRONG_HOST, "this address stands for a name: ask the proxy for the name");
        } else if (f->retargeted) {
                set_target(f, t->name, &t->address, port);
                refuse(f, GATE_WRONG_HOST, "the request is for another host than it leads to");
        } else {
                f->retargeted = true;
                go(f, t->name, &t->address, port);
        }
}

bool proxy_connected(struct flow *f) {
        static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
        uint8_t reply[SOCKS_REPLY_SIZE];
        int r;

        if (f->origin == ORIGIN_SOCKS) {
                socks_reply(SOCKS_SUCCEEDED, reply);
                r = side_put(&f->client, reply, sizeof reply);
        } else
                r = side_put(&f->client, yes, sizeof yes - 1);
        if (r < 0 || pool_held(&f->client.out) > 0) { /* a client that takes not even this */
                refuse_broken(f, &f->client, r);
                return false;
        }
        f->told = true;
        return true;
}

/* A request that is refused was peeked at, and is still there. */
void proxy_describe(struct flow *f, struct gate_event *e) {
        static struct http_head head;

        if (f->origin == ORIGIN_CONNECT)
                (void)snprintf(e->method, sizeof e->method, "CONNECT");
        if (f->origin != ORIGIN_FORWARD)
                return;
        ssize_t n = recv(f->client.fd, relay_scratch, HTTP_HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
        if (n > 0 && http_request((const char *)relay_scratch, (size_t)n, &head) == HTTP_DONE)
                refuse_describe(e, &head);
}

void proxy_refused(struct flow *f, const struct gate_event *e) {
        char words[EXCHANGE_REFUSAL];
        uint8_t reply[SOCKS_REPLY_SIZE];

        switch (f->origin) {
        case ORIGIN_SOCKS:
                socks_reply(e->reason == GATE_UNRESOLVED || e->reason == GATE_UNREACHABLE ? SOCKS_UNREACHABLE
                                                                                          : SOCKS_NOT_ALLOWED,
                            reply);
                refuse_say(f, reply, sizeof reply);
                break;
        case ORIGIN_CONNECT:
        case ORIGIN_FORWARD:
                refuse_say(f, words, exchange_refusal(e, words, sizeof words));
                break;
        case ORIGIN_PROXY:
        case ORIGIN_TRANSPARENT:
        default:
                flow_reset(f);
                break;
        }
}

static bool take(struct flow *f, size_t size) {
        if (recv(f->client.fd, NULL, size, MSG_TRUNC | MSG_DONTWAIT) == (ssize_t)size)
                return true;
        flow_reset(f);
        return false;
}

static void step_socks(struct flow *f, const uint8_t *bytes, size_t size) {
        struct socks_request request;
        uint8_t reply[SOCKS_REPLY_SIZE];
        size_t used = 0;

        f->origin = ORIGIN_SOCKS;
        if (!f->greeted) {
                bool plain = false;

                switch (socks_greeting(bytes, size, &used, &plain)) {
                case SOCKS_MORE:
                        return;
                case SOCKS_DONE:
                        break;
                case SOCKS_BAD:
                default:
                        refuse(f, GATE_BAD_PROTOCOL, "the SOCKS greeting is malformed");
                        return;
                }
                if (!take(f, used))
                        return;
                uint8_t choice[] = {SOCKS_VERSION, plain ? 0 : 0xff};
                int r = side_put(&f->client, choice, sizeof choice);
                if (r < 0 || pool_held(&f->client.out) > 0) {
                        refuse_broken(f, &f->client, r);
                        return;
                }
                if (!plain) {
                        refuse_say(f, NULL, 0);
                        return;
                }
                f->greeted = true;
                f->client.can_read = true;
                loop_later(&f->task);
                return;
        }
        switch (socks_request(bytes, size, &used, &request)) {
        case SOCKS_MORE:
                return;
        case SOCKS_DONE:
                break;
        case SOCKS_BAD:
        default:
                refuse(f, GATE_BAD_PROTOCOL, "the SOCKS request is malformed");
                return;
        }
        if (!take(f, used))
                return;
        f->client.can_read = true;
        if (request.command != 1) {
                struct gate_event e;

                refuse_event(f, GATE_BAD_PROTOCOL, "only CONNECT is offered over SOCKS", &e);
                f->ward->sums->totals.refused++;
                event_refused(f->ward, &e);
                socks_reply(SOCKS_BAD_COMMAND, reply);
                refuse_say(f, reply, sizeof reply);
        } else if (request.named && !request.name[0])
                refuse(f, GATE_BAD_NAME, "SOCKS names something that is not a host name");
        else
                go(f, request.named ? request.name : "", &request.address, request.port);
}

/* Host may leave the port out, or be missing. */
static bool same_authority(const struct http_target *line, const struct http_target *host) {
        if (!host->present)
                return true;
        if (host->port && host->port != line->port)
                return false;
        return str_eq(line->name, host->name) &&
               (line->name[0] || memcmp(&line->address, &host->address, sizeof line->address) == 0);
}

static void step_http(struct flow *f, const uint8_t *bytes, size_t size) {
        static struct http_head head;

        f->origin = ORIGIN_CONNECT; /* so that it is refused in HTTP */
        enum http_result r = http_request((const char *)bytes, size, &head);
        if (r == HTTP_MORE && !f->client.closing) {
                f->origin = ORIGIN_PROXY;
                return;
        }
        if (r != HTTP_DONE) {
                refuse(f, GATE_BAD_PROTOCOL, r == HTTP_BAD && head.problem ? head.problem : "not a request to a proxy");
                return;
        }
        if (!head.connect) {
                f->origin = ORIGIN_FORWARD;
                f->client.can_read = true;
                f->again = true;
                if (meet_exchange(f))
                        flow_move(f, FLOW_RELAY);
                return;
        }
        struct http_target target = head.line;
        bool same = same_authority(&head.line, &head.host);
        if (!take(f, head.size))
                return;
        f->client.can_read = true;
        if (same) {
                go(f, target.name, &target.address, target.port);
                return;
        }
        set_target(f, target.name, &target.address, target.port);
        refuse(f, GATE_WRONG_HOST, "CONNECT names one host in its line and another in Host");
}

void proxy_step(struct flow *f) {
        if (!f->client.can_read)
                return;
        ssize_t n = recv(f->client.fd, relay_scratch, HTTP_HEAD_MAX + 1, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
                f->client.can_read = false;
                return;
        }
        if (n <= 0) {
                flow_end(f); /* asked for nothing */
                return;
        }
        f->client.can_read = false; /* what comes next is a new edge */
        if (f->greeted || relay_scratch[0] == SOCKS_VERSION) {
                step_socks(f, relay_scratch, (size_t)n);
                if (f->state == FLOW_PROXY && f->client.closing && !f->client.can_read)
                        flow_end(f); /* the rest will never come */
        } else
                step_http(f, relay_scratch, (size_t)n);
}
