/* Reading a tap: destination, protocol and port of each packet, taken from its IP header with care: everything in it is
 * the sandbox's own writing. */
#include "gate/tap.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#define PACKETS_MAX 64
#define MESSAGE_MAX 1024

struct packet {
        struct address to;
        uint8_t protocol;
        uint16_t port; /* 0: none, or not in the first fragment */
};

static uint16_t be16(const uint8_t *p) {
        return (uint16_t)(p[0] << 8 | p[1]);
}

static bool has_ports(uint8_t protocol) {
        return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
               protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

static bool parse(const uint8_t *p, size_t size, struct packet *ret) {
        size_t at;
        bool first = true;

        if (size >= 20 && p[0] >> 4 == 4) {
                at = (size_t)(p[0] & 15) * 4;
                if (at < 20)
                        return false;
                first = (be16(p + 6) & 0x1fff) == 0;
                ret->protocol = p[9];
                memset(ret->to.bytes, 0, 10);
                ret->to.bytes[10] = ret->to.bytes[11] = 0xff;
                memcpy(ret->to.bytes + 12, p + 16, 4);
        } else if (size >= 40 && p[0] >> 4 == 6) {
                at = 40; /* extension headers are not followed: the port is then unknown */
                ret->protocol = p[6];
                memcpy(ret->to.bytes, p + 24, 16);
        } else
                return false;
        ret->port = first && has_ports(ret->protocol) && size >= at + 4 ? be16(p + at + 2) : 0;
        return true;
}

/* The packet in a message of nfnetlink_log: its beginning, from the IP header on. NULL: there is none. */
static const uint8_t *payload(const uint8_t *m, size_t size, size_t *ret_size) {
        struct nlmsghdr h;
        struct nlattr a;

        if (size < sizeof h)
                return NULL;
        memcpy(&h, m, sizeof h);
        if (h.nlmsg_len > size || h.nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
                return NULL;
        for (size_t at = NLMSG_LENGTH(sizeof(struct nfgenmsg)); at + sizeof a <= h.nlmsg_len;) {
                memcpy(&a, m + at, sizeof a);
                if (a.nla_len < sizeof a || a.nla_len > h.nlmsg_len - at)
                        return NULL;
                if ((a.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
                        *ret_size = a.nla_len - sizeof a;
                        return m + at + sizeof a;
                }
                at += NLMSG_ALIGN(a.nla_len);
        }
        return NULL;
}

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
                size_t size = 0;
                char text[ADDRESS_TEXT_MAX], number[48];
                struct packet p;
                ssize_t n = recvfrom(w->fds[GATE_TAP], bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from,
                                     &from_size);

                if (n < 0)
                        break;
                const uint8_t *data = from.nl_pid == 0 ? payload(bytes, (size_t)n, &size) : NULL;
                if (!data || !parse(data, size, &p))
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
