/* The rules of a sandbox's network, as one nftables batch:
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
 * only about the first packet of a flow, so a connection's bytes cost nothing here. */
#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>

#include "cell/net.h"
#include "cell/netlink.h"

#define TABLE "stockade"
#define CHAIN "output"

/* linux/netfilter.h and linux/netfilter_ipv4.h, which do not go together with libc's headers */
enum {
        FAMILY_INET = 1,        /* NFPROTO_INET: IPv4 and IPv6 in one table */
        HOOK_LOCAL_OUT = 3,     /* NF_INET_LOCAL_OUT */
        PRIORITY_DSTNAT = -100, /* NF_IP_PRI_NAT_DST */
        VERDICT_ACCEPT = 1,     /* NF_ACCEPT */
        HEADER_DADDR_V4 = 16,   /* offsets of destination addresses and ports */
        HEADER_DADDR_V6 = 24,
        HEADER_DPORT = 2,
};

static void begin(struct netlink *n, unsigned type, unsigned flags) {
        struct nfgenmsg header = {.nfgen_family = FAMILY_INET, .version = NFNETLINK_V0};

        netlink_begin(n, NFNL_SUBSYS_NFTABLES << 8 | type, flags, &header, sizeof header);
}

static void edge(struct netlink *n, unsigned type) {
        struct nfgenmsg header = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

        netlink_begin(n, type, 0, &header, sizeof header);
}

/* An expression is a name and its data, as an element of the rule's list. */
struct expression {
        size_t element, data;
};

static struct expression expression(struct netlink *n, const char *name) {
        struct expression e = {.element = netlink_open(n, NFTA_LIST_ELEM)};

        netlink_put_text(n, NFTA_EXPR_NAME, name);
        e.data = netlink_open(n, NFTA_EXPR_DATA);
        return e;
}

static void expression_end(struct netlink *n, struct expression e) {
        netlink_close(n, e.data);
        netlink_close(n, e.element);
}

static void put_value(struct netlink *n, unsigned type, const void *value, size_t size) {
        size_t data = netlink_open(n, type);

        netlink_put(n, NFTA_DATA_VALUE, value, size);
        netlink_close(n, data);
}

/* What was loaded last equals this, or the rule does not apply. */
static void if_equal(struct netlink *n, const void *value, size_t size) {
        struct expression e = expression(n, "cmp");

        netlink_put_be32(n, NFTA_CMP_SREG, NFT_REG_1);
        netlink_put_be32(n, NFTA_CMP_OP, NFT_CMP_EQ);
        put_value(n, NFTA_CMP_DATA, value, size);
        expression_end(n, e);
}

static void if_meta(struct netlink *n, enum nft_meta_keys key, uint8_t value) {
        struct expression e = expression(n, "meta");

        netlink_put_be32(n, NFTA_META_KEY, key);
        netlink_put_be32(n, NFTA_META_DREG, NFT_REG_1);
        expression_end(n, e);
        if_equal(n, &value, sizeof value);
}

static void if_header(struct netlink *n, enum nft_payload_bases base, uint32_t offset, const void *value, size_t size) {
        struct expression e = expression(n, "payload");

        netlink_put_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
        netlink_put_be32(n, NFTA_PAYLOAD_BASE, base);
        netlink_put_be32(n, NFTA_PAYLOAD_OFFSET, offset);
        netlink_put_be32(n, NFTA_PAYLOAD_LEN, (uint32_t)size);
        expression_end(n, e);
        if_equal(n, value, size);
}

static size_t rule(struct netlink *n, unsigned flags) {
        begin(n, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
        netlink_put_text(n, NFTA_RULE_TABLE, TABLE);
        netlink_put_text(n, NFTA_RULE_CHAIN, CHAIN);
        return netlink_open(n, NFTA_RULE_EXPRESSIONS);
}

/* Packets to addresses that begin with these bytes stay as they are. */
static void leave(struct netlink *n, int family, const char *address, size_t bytes) {
        uint8_t value[16];
        size_t list = rule(n, 0);

        (void)inet_pton(family, address, value);
        if_meta(n, NFT_META_NFPROTO, (uint8_t)family);
        if_header(n, NFT_PAYLOAD_NETWORK_HEADER, family == AF_INET ? HEADER_DADDR_V4 : HEADER_DADDR_V6, value, bytes);

        struct expression e = expression(n, "immediate");
        netlink_put_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        size_t data = netlink_open(n, NFTA_IMMEDIATE_DATA), verdict = netlink_open(n, NFTA_DATA_VERDICT);
        netlink_put_be32(n, NFTA_VERDICT_CODE, VERDICT_ACCEPT);
        netlink_close(n, verdict);
        netlink_close(n, data);
        expression_end(n, e);
        netlink_close(n, list);
}

/* Packets of this protocol, to this port or (0) to any, go to a port of ours. */
static void redirect(struct netlink *n, uint8_t protocol, uint16_t port, uint16_t to) {
        uint16_t wanted = htons(port), target = htons(to);
        size_t list = rule(n, 0);

        if_meta(n, NFT_META_L4PROTO, protocol);
        if (port)
                if_header(n, NFT_PAYLOAD_TRANSPORT_HEADER, HEADER_DPORT, &wanted, sizeof wanted);

        struct expression e = expression(n, "immediate");
        netlink_put_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        put_value(n, NFTA_IMMEDIATE_DATA, &target, sizeof target);
        expression_end(n, e);
        e = expression(n, "redir");
        netlink_put_be32(n, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
        expression_end(n, e);
        netlink_close(n, list);
}

/* The last rule: what gets here is told to the tap. */
static void log_rest(struct netlink *n) {
        uint16_t group = htons(NET_TAP_GROUP);
        size_t list = rule(n, NLM_F_ACK);
        struct expression e = expression(n, "log");

        netlink_put(n, NFTA_LOG_GROUP, &group, sizeof group);
        netlink_put_be32(n, NFTA_LOG_SNAPLEN, NET_TAP_BYTES);
        expression_end(n, e);
        netlink_close(n, list);
}

int net_rules(void) {
        struct netlink n = {0};
        uint32_t failed;

        edge(&n, NFNL_MSG_BATCH_BEGIN);
        begin(&n, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
        netlink_put_text(&n, NFTA_TABLE_NAME, TABLE);

        begin(&n, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
        netlink_put_text(&n, NFTA_CHAIN_TABLE, TABLE);
        netlink_put_text(&n, NFTA_CHAIN_NAME, CHAIN);
        size_t hook = netlink_open(&n, NFTA_CHAIN_HOOK);
        netlink_put_be32(&n, NFTA_HOOK_HOOKNUM, HOOK_LOCAL_OUT);
        netlink_put_be32(&n, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_DSTNAT);
        netlink_close(&n, hook);
        netlink_put_be32(&n, NFTA_CHAIN_POLICY, VERDICT_ACCEPT);
        netlink_put_text(&n, NFTA_CHAIN_TYPE, "nat");

        leave(&n, AF_INET, "127.0.0.0", 1);
        leave(&n, AF_INET6, "::1", 16);
        redirect(&n, IPPROTO_UDP, 53, WARD_DNS_PORT);
        redirect(&n, IPPROTO_TCP, 53, WARD_DNS_PORT);
        leave(&n, AF_INET, WARD_OWN_V4, 4);
        leave(&n, AF_INET6, WARD_OWN_V6, 16);
        redirect(&n, IPPROTO_TCP, 0, WARD_TCP_PORT);
        log_rest(&n);
        edge(&n, NFNL_MSG_BATCH_END);

        int r = netlink_talk(&n, NETLINK_NETFILTER, &failed);
        /* one word for every way in which a kernel says that it has no such table, chain or expression */
        return r == -ENOENT || r == -EOPNOTSUPP || r == -EAFNOSUPPORT ? -EPROTONOSUPPORT : r;
}
