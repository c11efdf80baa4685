/* Addresses: 16 bytes, IPv4 as ::ffff:a.b.c.d, so that there is one form to compare. */
#pragma once

#include <netinet/in.h>

#include "base/err.h"

#define ADDRESS_TEXT_MAX 46

struct address {
        uint8_t bytes[16];
};

/* From and to the kernel's forms. address_from_socket returns false for other families. address_to_socket makes an
 * AF_INET address of an IPv4 one, returns its length. */
bool address_from_socket(const struct sockaddr_storage *s, struct address *ret, uint16_t *ret_port);
socklen_t address_to_socket(const struct address *a, uint16_t port, struct sockaddr_storage *ret);
bool address_is_v4(const struct address *a);

/* Exactly the dotted form with four decimal parts without leading zeros, or RFC 4291's forms without zone; an IPv6 one
 * may be in brackets when brackets is true (and then must be). Octal, hex and short IPv4 forms are not addresses. */
bool address_parse(const char *text, size_t size, bool brackets, struct address *ret);
void address_print(const struct address *a, char ret[ADDRESS_TEXT_MAX]);

/* First prefix bits equal. */
bool address_within(const struct address *a, const uint8_t block[16], unsigned prefix);

/* What an address is for. IPv6 forms that carry an IPv4 address (compatible, 6to4, NAT64 64:ff9b::/96 and
 * 64:ff9b:1::/48, Teredo, ISATAP) are judged by it as well and never better than it: what carries an address that is
 * not public is TRANSLATED. Documentation blocks count as public: nothing is there. */
enum address_kind {
        ADDRESS_PUBLIC,
        ADDRESS_PRIVATE, /* RFC 1918 and ULA: somebody's own network */
        ADDRESS_CARRIER, /* RFC 6598, between a provider and its customers */
        ADDRESS_LINK_LOCAL,
        ADDRESS_LOOPBACK,
        ADDRESS_UNSPECIFIED,
        ADDRESS_METADATA, /* where a cloud tells a machine its secrets */
        ADDRESS_MULTICAST,
        ADDRESS_BROADCAST,
        ADDRESS_BENCHMARK,
        ADDRESS_TRANSLATED,
        ADDRESS_RESERVED,
        ADDRESS_KIND_COUNT,
};
enum address_kind address_kind(const struct address *a);
/* NULL if the address is public; otherwise the kind for a person ("loopback", "metadata service"): of the IPv4 address,
 * where it carries one that is not public. */
const char *address_special(const struct address *a);
