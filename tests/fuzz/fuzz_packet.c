/* Fuzz target: packets that a sandbox sent into nowhere, in the messages of the kernel's log. The input is a whole
 * message; and again, as a packet in a message that is well-formed. What is read does not depend on what follows, and a
 * port is only said of protocols that have one. */
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

#include "gate/packet.h"
#include "tests/fuzz/fuzz.h"

static void check(const uint8_t *message, size_t size) {
        uint8_t longer[2048] = {0};
        struct packet p, again;
        char text[ADDRESS_TEXT_MAX];

        if (!packet_read(message, size, &p))
                return;
        address_print(&p.to, text);
        assert(strlen(text) >= 2);
        assert(p.port == 0 || p.protocol == IPPROTO_TCP || p.protocol == IPPROTO_UDP || p.protocol == IPPROTO_UDPLITE ||
               p.protocol == IPPROTO_SCTP || p.protocol == IPPROTO_DCCP);
        memset(longer, 0xee, sizeof longer);
        memcpy(longer, message, size);
        assert(packet_read(longer, sizeof longer, &again)); /* its own length counts, not the room */
        assert(memcmp(&p.to, &again.to, sizeof p.to) == 0 && p.port == again.port && p.protocol == again.protocol);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *message = malloc(64 + size), *exact = malloc(size + 1);
        struct nlattr a = {.nla_len = (uint16_t)(sizeof a + size), .nla_type = NFULA_PAYLOAD};
        size_t at = NLMSG_LENGTH(sizeof(struct nfgenmsg));

        assert(message && exact);
        if (size <= 1024) {
                struct nlmsghdr h = {.nlmsg_len = (uint32_t)(at + sizeof a + size),
                                     .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET};

                memcpy(exact, data, size); /* of its own, so that a byte too far is seen */
                check(exact, size);
                memset(message, 0, at);
                memcpy(message, &h, sizeof h);
                memcpy(message + at, &a, sizeof a);
                memcpy(message + at + sizeof a, data, size);
                check(message, h.nlmsg_len);
        }
        free(message);
        free(exact);
        return 0;
}
