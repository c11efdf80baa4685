/* Writing nftables: see the header. No allocation, no lock, no log. */
#include "cell/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>

#define TABLE "stockade"

enum {
        FAMILY_INET = 1,      /* NFPROTO_INET: IPv4 and IPv6 in one table */
        STATUS_DST_NAT = 32,  /* IPS_DST_NAT */
        HEADER_SADDR_V4 = 12, /* offsets of addresses and ports */
        HEADER_DADDR_V4 = 16,
        HEADER_SADDR_V6 = 8,
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

void nft_open(struct netlink *n) {
        edge(n, NFNL_MSG_BATCH_BEGIN);
        begin(n, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
        netlink_put_text(n, NFTA_TABLE_NAME, TABLE);
}

void nft_chain(struct netlink *n, const char *name, const char *type, uint32_t hook, int32_t priority,
               uint32_t policy) {
        begin(n, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
        netlink_put_text(n, NFTA_CHAIN_TABLE, TABLE);
        netlink_put_text(n, NFTA_CHAIN_NAME, name);
        size_t where = netlink_open(n, NFTA_CHAIN_HOOK);
        netlink_put_be32(n, NFTA_HOOK_HOOKNUM, hook);
        netlink_put_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)priority);
        netlink_close(n, where);
        netlink_put_be32(n, NFTA_CHAIN_POLICY, policy);
        netlink_put_text(n, NFTA_CHAIN_TYPE, type);
}

size_t nft_rule(struct netlink *n, const char *chain) {
        begin(n, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
        netlink_put_text(n, NFTA_RULE_TABLE, TABLE);
        netlink_put_text(n, NFTA_RULE_CHAIN, chain);
        return netlink_open(n, NFTA_RULE_EXPRESSIONS);
}

void nft_rule_end(struct netlink *n, size_t rule) {
        netlink_close(n, rule);
}

/* --- expressions: a name and its data, as an element of the rule's list --- */

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

/* What was loaded last compares so to this, or the rule does not apply. */
static void compare(struct netlink *n, uint32_t how, const void *value, size_t size) {
        struct expression e = expression(n, "cmp");

        netlink_put_be32(n, NFTA_CMP_SREG, NFT_REG_1);
        netlink_put_be32(n, NFTA_CMP_OP, how);
        put_value(n, NFTA_CMP_DATA, value, size);
        expression_end(n, e);
}

void nft_if_meta(struct netlink *n, enum nft_meta_keys key, const void *value, size_t size) {
        struct expression e = expression(n, "meta");

        netlink_put_be32(n, NFTA_META_KEY, key);
        netlink_put_be32(n, NFTA_META_DREG, NFT_REG_1);
        expression_end(n, e);
        compare(n, NFT_CMP_EQ, value, size);
}

void nft_if_protocol(struct netlink *n, uint8_t protocol) {
        nft_if_meta(n, NFT_META_L4PROTO, &protocol, sizeof protocol);
}

static void if_header(struct netlink *n, enum nft_payload_bases base, uint32_t offset, const void *value, size_t size) {
        struct expression e = expression(n, "payload");

        netlink_put_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
        netlink_put_be32(n, NFTA_PAYLOAD_BASE, base);
        netlink_put_be32(n, NFTA_PAYLOAD_OFFSET, offset);
        netlink_put_be32(n, NFTA_PAYLOAD_LEN, (uint32_t)size);
        expression_end(n, e);
        compare(n, NFT_CMP_EQ, value, size);
}

void nft_if_to_port(struct netlink *n, uint16_t port) {
        uint16_t wanted = htons(port);

        if_header(n, NFT_PAYLOAD_TRANSPORT_HEADER, HEADER_DPORT, &wanted, sizeof wanted);
}

void nft_if_icmp_type(struct netlink *n, uint8_t type) {
        if_header(n, NFT_PAYLOAD_TRANSPORT_HEADER, 0, &type, sizeof type);
}

static void if_address(struct netlink *n, int family, uint32_t offset, const char *address, size_t bytes) {
        uint8_t value[16], protocol = (uint8_t)family;

        (void)inet_pton(family, address, value);
        nft_if_meta(n, NFT_META_NFPROTO, &protocol, sizeof protocol);
        if_header(n, NFT_PAYLOAD_NETWORK_HEADER, offset, value, bytes);
}

void nft_if_to(struct netlink *n, int family, const char *address, size_t bytes) {
        if_address(n, family, family == AF_INET ? HEADER_DADDR_V4 : HEADER_DADDR_V6, address, bytes);
}

void nft_if_from(struct netlink *n, int family, const char *address) {
        if_address(n, family, family == AF_INET ? HEADER_SADDR_V4 : HEADER_SADDR_V6, address,
                   family == AF_INET ? 4 : 16);
}

void nft_if_redirected(struct netlink *n) {
        static const uint32_t bit = STATUS_DST_NAT, none = 0;
        struct expression e = expression(n, "ct");

        netlink_put_be32(n, NFTA_CT_KEY, NFT_CT_STATUS);
        netlink_put_be32(n, NFTA_CT_DREG, NFT_REG_1);
        expression_end(n, e);
        e = expression(n, "bitwise");
        netlink_put_be32(n, NFTA_BITWISE_SREG, NFT_REG_1);
        netlink_put_be32(n, NFTA_BITWISE_DREG, NFT_REG_1);
        netlink_put_be32(n, NFTA_BITWISE_LEN, sizeof bit);
        put_value(n, NFTA_BITWISE_MASK, &bit, sizeof bit);
        put_value(n, NFTA_BITWISE_XOR, &none, sizeof none);
        expression_end(n, e);
        compare(n, NFT_CMP_NEQ, &none, sizeof none);
}

void nft_verdict(struct netlink *n, uint32_t code) {
        struct expression e = expression(n, "immediate");

        netlink_put_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        size_t data = netlink_open(n, NFTA_IMMEDIATE_DATA), verdict = netlink_open(n, NFTA_DATA_VERDICT);
        netlink_put_be32(n, NFTA_VERDICT_CODE, code);
        netlink_close(n, verdict);
        netlink_close(n, data);
        expression_end(n, e);
}

void nft_redirect(struct netlink *n, uint16_t port) {
        uint16_t target = htons(port);
        struct expression e = expression(n, "immediate");

        netlink_put_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        put_value(n, NFTA_IMMEDIATE_DATA, &target, sizeof target);
        expression_end(n, e);
        e = expression(n, "redir");
        netlink_put_be32(n, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
        expression_end(n, e);
}

void nft_log(struct netlink *n, uint16_t group, uint32_t bytes) {
        uint16_t number = htons(group);
        struct expression e = expression(n, "log");

        netlink_put(n, NFTA_LOG_GROUP, &number, sizeof number);
        netlink_put_be32(n, NFTA_LOG_SNAPLEN, bytes);
        expression_end(n, e);
}

int nft_send(struct netlink *n) {
        uint32_t failed;

        netlink_want_answer(n);
        edge(n, NFNL_MSG_BATCH_END);
        int r = netlink_talk(n, NETLINK_NETFILTER, &failed);
        /* one word for every way in which a kernel says that it has no such table, chain or expression */
        return r == -ENOENT || r == -EOPNOTSUPP || r == -EAFNOSUPPORT ? -EPROTONOSUPPORT : r;
}
