/* The beginning of a connection: where it was meant to go, whether that is allowed, and what the client speaks.
 *
 * The client's first bytes are peeked at and stay in the kernel. On 443 they must be TLS that names the server that was
 * connected to; on 80 they must be HTTP; elsewhere TLS and HTTP are recognised and judged in the same way, and anything
 * else passes as it is. Under rules that look inside, nothing passes that cannot be looked into. */
#include <sys/socket.h>

#include "base/knockout.h"
#include "gate/accept.h"
#include "gate/flow.h"
#include "gate/hello.h"
#include "gate/relay.h"

#define SNIFF_TOTAL_MS 20000 /* from the first byte on, where the server may speak first */
#define SNIFF_REST_MS  10000 /* from the first byte on, elsewhere */

/* Must this be TLS or HTTP, or be looked into? Then nothing passes either way before we know. */
static bool strict(const struct flow *f) {
        return f->port == 443 || f->port == 80 || f->inspect;
}

void sniff_begin(struct flow *f) {
        uint16_t port = 0;

        if (accept_destination(f->client.fd, &f->address, &port) < 0) {
                flow_reset(f); /* it was not redirected here, or is gone */
                return;
        }
        f->port = port;
        const char *name = f->ward->synth ? synth_name(f->ward->synth, &f->address) : NULL;
        if (name)
                (void)snprintf(f->name, sizeof f->name, "%s", name);
        else if (synth_covers(&f->address)) {
                refuse(f, GATE_NO_RULE, "this address stands for no name");
                return;
        }
        enum gate_reason reason = flow_decide(f);
        if (!name && address_kind(&f->address) == ADDRESS_LOOPBACK)
                refuse(f, GATE_NO_RULE, "loopback stays inside"); /* it was not led here, but came by itself */
        else if (reason != GATE_USED)
                refuse(f, reason, "");
        else if (strict(f))
                flow_move(f, FLOW_SNIFF);
        else
                dial_begin(f);
}

/* --- what was said --- */

static void sniffed(struct flow *f, enum flow_speech speech) {
        f->speech = speech;
        f->sniffed = true;
        if (f->server.fd >= 0)
                meet_begin(f);
        else
                dial_begin(f);
}

/* It is not what it has to be. (Where a test build's gate decides nothing, it passes as it is.) */
static void object(struct flow *f, enum gate_reason reason, const char *detail) {
        if (knockout_off(KNOCKOUT_GATE))
                sniffed(f, SPEECH_OTHER);
        else
                refuse(f, reason, detail);
}

static void judge_hello(struct flow *f, const struct hello *h) {
        char detail[sizeof f->detail];

        f->speech = SPEECH_TLS;
        if (f->port == 80) {
                object(f, GATE_BAD_PROTOCOL, "TLS on the port of HTTP");
                return;
        }
        if (flow_named(f) && !h->named) {
                object(f, GATE_WRONG_SERVER, "the TLS hello names no server");
                return;
        }
        if (flow_named(f) && !str_eq(h->name, f->name)) {
                (void)snprintf(detail, sizeof detail, "the TLS hello names %.60s",
                               h->name[0] ? h->name : "something that is not a name");
                object(f, GATE_WRONG_SERVER, detail);
                return;
        }
        if (f->inspect && !f->ward->authority) {
                object(f, GATE_BAD_PROTOCOL, "the rules look inside TLS, and the gate was started without it");
                return;
        }
        sniffed(f, SPEECH_TLS);
}

/* Neither TLS nor HTTP. */
static void judge_other(struct flow *f) {
        f->speech = SPEECH_OTHER;
        if (f->port == 443)
                object(f, GATE_BAD_PROTOCOL, "not TLS on the port of TLS");
        else if (f->port == 80)
                object(f, GATE_BAD_PROTOCOL, "not HTTP on the port of HTTP");
        else if (f->inspect)
                object(f, GATE_BAD_PROTOCOL, "the rules look inside, and this is neither TLS nor HTTP");
        else
                sniffed(f, SPEECH_OTHER);
}

static void judge_http(struct flow *f) {
        f->speech = SPEECH_HTTP;
        if (f->port == 443)
                object(f, GATE_BAD_PROTOCOL, "plain HTTP on the port of TLS");
        else if (f->served)
                object(f, GATE_BAD_PROTOCOL, "an HTTP request after the server had spoken");
        else
                sniffed(f, SPEECH_HTTP);
}

static void client_ended(struct flow *f) {
        if (f->server.fd >= 0 && !strict(f))
                sniffed(f, SPEECH_OTHER); /* says nothing, listens only */
        else
                flow_end(f);
}

void sniff_step(struct flow *f) {
        static uint8_t bytes[HELLO_MAX];
        struct hello hello;

        if (f->queued)
                return;
        if (f->server.fd >= 0 && !strict(f)) {
                relay_early(f);
                if (f->state != FLOW_SNIFF)
                        return;
                if (f->deadline != UINT64_MAX && !f->heard)
                        flow_deadline(f, 0); /* it may be the server's turn */
        }
        if (!f->client.can_read)
                return;
        ssize_t n = recv(f->client.fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
                f->client.can_read = false;
                return;
        }
        if (n <= 0) {
                if (n == 0)
                        client_ended(f);
                else
                        flow_reset(f);
                return;
        }
        f->client.can_read = false; /* what comes next is a new edge */
        switch (hello_parse(bytes, (size_t)n, &hello)) {
        case HELLO_DONE:
                f->client.can_read = true;
                judge_hello(f, &hello);
                return;
        case HELLO_BAD:
                f->speech = SPEECH_TLS;
                object(f, GATE_BAD_PROTOCOL, "the TLS hello is malformed");
                return;
        case HELLO_NOT_TLS: {
                int http = http_sniff(bytes, (size_t)n);

                if (http != -EAGAIN) {
                        f->client.can_read = true;
                        if (http > 0)
                                judge_http(f);
                        else
                                judge_other(f);
                        return;
                }
                break;
        }
        case HELLO_MORE:
        default:
                break;
        }
        if ((size_t)n == sizeof bytes) {
                object(f, GATE_BAD_PROTOCOL, "the first line is too long");
                return;
        }
        if (f->client.closing) {
                /* no more will come: a beginning of TLS that is cut short is refused, a few letters are just that */
                f->client.can_read = true;
                if (bytes[0] == 0x16)
                        object(f, GATE_BAD_PROTOCOL, "the connection ended within the TLS hello");
                else
                        judge_other(f);
                return;
        }
        if (!f->heard) {
                f->heard = true;
                flow_deadline(f, strict(f) ? SNIFF_REST_MS : SNIFF_TOTAL_MS);
        }
}
