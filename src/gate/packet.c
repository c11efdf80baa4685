/* Destination, protocol and port of a packet, taken from its IP header with care; see packet.h. No I/O. */
#include "gate/packet.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

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

bool packet_read(const uint8_t *message, size_t size, struct packet *ret) {
        size_t length = 0;
        const uint8_t *packet = payload(message, size, &length);

        return packet && parse(packet, length, ret);
}
