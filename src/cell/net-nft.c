/* The rules of a sandbox's network, as one nftables batch. Natively:
 *
 *      table inet stockade {
 *              chain output {
 *                      type nat hook output priority dstnat; policy accept;
 *                      ip daddr 127.0.0.0/8 accept
 *                      ip6 daddr ::1 accept
 *                      udp dport 53 redirect to :15053
 *                      tcp dport 53 redirect to :15053
 *                      ip daddr 198.18.0.1 accept
 *                      ip6 daddr fd53:746f:636b::1 accept
 *                      meta l4proto tcp redirect to :15001
 *                      log group 1 snaplen 64
 *              }
 *      }
 *
 * What is left is logged for the tap, delivered inside, and finds nobody: there is nothing to filter, since nothing
 * leaves. That is also the better answer: a datagram is refused at once (ECONNREFUSED). A chain of type nat is asked
 * only about the first packet of a flow, so a connection's bytes cost nothing here.
 *
 * With a box, whose stack is its own, packets come in over one link (driver/link.h):
 *
 *      table inet stockade {
 *              chain prerouting {
 *                      type nat hook prerouting priority dstnat; policy accept;
 *                      iif "lo" accept
 *                      udp dport 53 redirect to :15053
 *                      tcp dport 53 redirect to :15053
 *                      ip daddr 198.18.0.1 tcp dport 3128 accept
 *                      meta l4proto tcp redirect to :15001
 *                      log group 1 snaplen 64
 *              }
 *              chain input {
 *                      type filter hook input priority filter; policy drop;
 *                      iif "lo" accept
 *                      ct status dnat accept
 *                      ip daddr 198.18.0.1 tcp dport 3128 accept
 *                      udp dport 15053 drop
 *                      meta l4proto udp accept
 *                      ip6 saddr fd53:746f:636b::2 icmpv6 type nd-neighbor-solicit accept
 *                      ip6 saddr fd53:746f:636b::2 icmpv6 type nd-neighbor-advert accept
 *                      ip6 saddr fe80::2 icmpv6 type nd-neighbor-solicit accept
 *                      ip6 saddr fe80::2 icmpv6 type nd-neighbor-advert accept
 *              }
 *              chain forward {
 *                      type filter hook forward priority filter; policy drop;
 *              }
 *      }
 *
 * Whoever is in the box may be anybody, with raw sockets and a kernel of its own: only what was led to the gate's
 * sockets arrives at them. Datagrams to elsewhere find nobody here and are refused at once, as natively, at the
 * kernel's own measured pace; nothing else is answered. Neighbours are two addresses and no more, because the host's
 * table of neighbours is one for all namespaces, and could be filled up. */
#include <netinet/in.h>

#include "cell/net.h"
#include "cell/nft.h"

#define LOOPBACK          1 /* index of `lo`, in every network namespace */
#define NEIGHBOUR_ASKS    135
#define NEIGHBOUR_ANSWERS 136

/* Packets to addresses that begin with these bytes stay as they are. */
static void leave(struct netlink *n, int family, const char *address, size_t bytes) {
        size_t rule = nft_rule(n, "output");

        nft_if_to(n, family, address, bytes);
        nft_verdict(n, NFT_ACCEPT);
        nft_rule_end(n, rule);
}

/* Packets of this protocol, to this port or (0) to any, go to a port of ours. */
static void lead(struct netlink *n, const char *chain, uint8_t protocol, uint16_t port, uint16_t to) {
        size_t rule = nft_rule(n, chain);

        nft_if_protocol(n, protocol);
        if (port)
                nft_if_to_port(n, port);
        nft_redirect(n, to);
        nft_rule_end(n, rule);
}

/* The last rule: what gets here is told to the tap. */
static void log_rest(struct netlink *n, const char *chain) {
        size_t rule = nft_rule(n, chain);

        nft_log(n, NET_TAP_GROUP, NET_TAP_BYTES);
        nft_rule_end(n, rule);
}

int net_rules(void) {
        struct netlink n = {0};

        nft_open(&n);
        nft_chain(&n, "output", "nat", NFT_HOOK_OUTPUT, NFT_PRIORITY_DSTNAT, NFT_ACCEPT);
        leave(&n, AF_INET, "127.0.0.0", 1);
        leave(&n, AF_INET6, "::1", 16);
        lead(&n, "output", IPPROTO_UDP, 53, WARD_DNS_PORT);
        lead(&n, "output", IPPROTO_TCP, 53, WARD_DNS_PORT);
        leave(&n, AF_INET, WARD_OWN_V4, 4);
        leave(&n, AF_INET6, WARD_OWN_V6, 16);
        lead(&n, "output", IPPROTO_TCP, 0, WARD_TCP_PORT);
        log_rest(&n, "output");
        return nft_send(&n);
}

/* --- with a box --- */

static void accept_loopback(struct netlink *n, const char *chain) {
        static const uint32_t loopback = LOOPBACK;
        size_t rule = nft_rule(n, chain);

        nft_if_meta(n, NFT_META_IIF, &loopback, sizeof loopback);
        nft_verdict(n, NFT_ACCEPT);
        nft_rule_end(n, rule);
}

static void accept_proxy(struct netlink *n, const char *chain) {
        size_t rule = nft_rule(n, chain);

        nft_if_to(n, AF_INET, WARD_OWN_V4, 4);
        nft_if_protocol(n, IPPROTO_TCP);
        nft_if_to_port(n, WARD_PROXY_PORT);
        nft_verdict(n, NFT_ACCEPT);
        nft_rule_end(n, rule);
}

static void accept_redirected(struct netlink *n) {
        size_t rule = nft_rule(n, "input");

        nft_if_redirected(n);
        nft_verdict(n, NFT_ACCEPT);
        nft_rule_end(n, rule);
}

static void judge_datagrams(struct netlink *n, uint16_t port, uint32_t verdict) {
        size_t rule = nft_rule(n, "input");

        nft_if_protocol(n, IPPROTO_UDP);
        if (port)
                nft_if_to_port(n, port);
        nft_verdict(n, verdict);
        nft_rule_end(n, rule);
}

static void accept_neighbour(struct netlink *n, const char *address, uint8_t type) {
        size_t rule = nft_rule(n, "input");

        nft_if_from(n, AF_INET6, address);
        nft_if_protocol(n, IPPROTO_ICMPV6);
        nft_if_icmp_type(n, type);
        nft_verdict(n, NFT_ACCEPT);
        nft_rule_end(n, rule);
}

static void write_input(struct netlink *n) {
        static const char *const neighbours[] = {WARD_FAR_V6, WARD_FAR_LINK};

        nft_chain(n, "input", "filter", NFT_HOOK_INPUT, NFT_PRIORITY_FILTER, NFT_DROP);
        accept_loopback(n, "input");
        accept_redirected(n);
        accept_proxy(n, "input");
        judge_datagrams(n, WARD_DNS_PORT, NFT_DROP);
        judge_datagrams(n, 0, NFT_ACCEPT);
        for (size_t i = 0; i < ELEMENTSOF(neighbours); i++) {
                accept_neighbour(n, neighbours[i], NEIGHBOUR_ASKS);
                accept_neighbour(n, neighbours[i], NEIGHBOUR_ANSWERS);
        }
}

int net_gateway_rules(void) {
        struct netlink n = {0};

        nft_open(&n);
        nft_chain(&n, "prerouting", "nat", NFT_HOOK_PREROUTING, NFT_PRIORITY_DSTNAT, NFT_ACCEPT);
        accept_loopback(&n, "prerouting");
        lead(&n, "prerouting", IPPROTO_UDP, 53, WARD_DNS_PORT);
        lead(&n, "prerouting", IPPROTO_TCP, 53, WARD_DNS_PORT);
        accept_proxy(&n, "prerouting");
        lead(&n, "prerouting", IPPROTO_TCP, 0, WARD_TCP_PORT);
        log_rest(&n, "prerouting");
        nft_chain(&n, "forward", "filter", NFT_HOOK_FORWARD, NFT_PRIORITY_FILTER, NFT_DROP);
        write_input(&n);
        return nft_send(&n);
}
