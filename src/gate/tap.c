/* Reading a tap: what each packet was for (gate/packet.h) becomes a refusal in the record. */
#include "gate/tap.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include "gate/packet.h"

#define PACKETS_MAX 64
#define MESSAGE_MAX 1024

static const char *protocol_text(uint8_t protocol, char ret[48]) {
        static const struct {
                uint8_t number;
                const char *name;
        } names[] = {{IPPROTO_UDP, "UDP"}, {IPPROTO_ICMP, "ICMP"}, {IPPROTO_ICMPV6, "ICMPv6"}, {IPPROTO_TCP, "TCP"}};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (names[i].number == protocol)
                        return names[i].name;
        (void)snprintf(ret, 48, "IP protocol %u", protocol);
        return ret;
}

unsigned tap_waiting(struct ward *w) {
        unsigned i;

        for (i = 0; i < PACKETS_MAX && w->fds[GATE_TAP] >= 0; i++) {
                struct sockaddr_nl from = {0};
                socklen_t from_size = sizeof from;
                uint8_t bytes[MESSAGE_MAX];
                char text[ADDRESS_TEXT_MAX], number[48];
                struct packet p;
                ssize_t n = recvfrom(w->fds[GATE_TAP], bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from,
                                     &from_size);

                if (n < 0)
                        break;
                if (from.nl_pid != 0 || !packet_read(bytes, (size_t)n, &p))
                        continue;
                if (address_kind(&p.to) == ADDRESS_LOOPBACK)
                        continue; /* stays inside */
                struct gate_event e = {.reason = GATE_NO_UDP, .port = p.port, .rule = -1};
                address_print(&p.to, text);
                const char *name = w->synth ? synth_name(w->synth, &p.to) : NULL;
                if (!name && synth_covers(&p.to))
                        continue; /* the sandbox talking to itself */
                (void)snprintf(e.host, sizeof e.host, "%s", name ? name : text);
                (void)snprintf(e.detail, sizeof e.detail, "%s", protocol_text(p.protocol, number));
                w->sums->totals.refused++;
                event_refused(w, &e);
        }
        return i;
}

static void tap_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                (void)tap_waiting(w);
}

void tap_init(void) {
        loop_handle(LOOP_TAP, tap_event);
}
