/* Rules of nftables in a sandbox's network namespace, written as one batch: a table `stockade` that does not exist yet,
 * its chains, and rules that are a list of conditions with something to do at the end. Private to the cell. */
#pragma once

#include <linux/netfilter/nf_tables.h>

#include "cell/netlink.h"

/* linux/netfilter.h and linux/netfilter_ipv4.h, which do not go together with libc's headers */
enum {
        NFT_HOOK_PREROUTING = 0,
        NFT_HOOK_INPUT = 1,
        NFT_HOOK_FORWARD = 2,
        NFT_HOOK_OUTPUT = 3,
        NFT_PRIORITY_DSTNAT = -100,
        NFT_PRIORITY_FILTER = 0,
        NFT_DROP = 0,
        NFT_ACCEPT = 1,
};

void nft_open(struct netlink *n);
void nft_chain(struct netlink *n, const char *name, const char *type, uint32_t hook, int32_t priority, uint32_t policy);

/* A rule: what nft_rule returns goes to nft_rule_end. */
size_t nft_rule(struct netlink *n, const char *chain);
void nft_rule_end(struct netlink *n, size_t rule);

/* Conditions. */
void nft_if_meta(struct netlink *n, enum nft_meta_keys key, const void *value, size_t size);
void nft_if_protocol(struct netlink *n, uint8_t protocol);                        /* of the transport layer */
void nft_if_to_port(struct netlink *n, uint16_t port);                            /* behind nft_if_protocol */
void nft_if_icmp_type(struct netlink *n, uint8_t type);                           /* likewise */
void nft_if_to(struct netlink *n, int family, const char *address, size_t bytes); /* that it begins with */
void nft_if_from(struct netlink *n, int family, const char *address);
void nft_if_redirected(struct netlink *n);

/* What is done. */
void nft_verdict(struct netlink *n, uint32_t verdict);
void nft_redirect(struct netlink *n, uint16_t port);
void nft_log(struct netlink *n, uint16_t group, uint32_t bytes);

/* The batch ends with a rule. All of it is in force then, or nothing. -EPROTONOSUPPORT: the kernel lacks a part. */
int nft_send(struct netlink *n);
