/* Client and server meet: the connection to the server stands, and the conversation is set up as the rules want it:
 * relayed as it is, as HTTP under rules, or as HTTP under rules within TLS that is opened on both sides. */
#include "gate/flow.h"

static void setup(const struct flow *f, struct exchange_setup *ret) {
        *ret = (struct exchange_setup){
                .rules = &f->ward->rules,
                .secrets = f->ward->secrets,
                .name = flow_named(f) ? f->name : NULL,
                .address = f->address,
                .port = f->port,
                .tls = f->client.tls != NULL,
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
        f->exchange = exchange_take(&s);
        if (f->exchange)
                return true;
        refuse(f, GATE_CONNECTIONS, "too many HTTP connections at a time");
        return false;
}

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

void meet_begin(struct flow *f) {
        if (f->speech == SPEECH_TLS && f->inspect) {
                if (f->ward->authority)
                        f->server.tls = tls_connect(f->server.fd, flow_named(f) ? f->name : NULL, &f->address);
                if (!f->server.tls)
                        refuse(f, GATE_BAD_PROTOCOL, "TLS could not be opened");
                else
                        flow_move(f, FLOW_HANDSHAKE);
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

                if (r == -EAGAIN)
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
        if (r == -EAGAIN)
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
