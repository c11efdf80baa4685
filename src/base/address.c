/* Addresses: one form, strict text, and which of them are not for a sandbox to reach unasked.
 *
 * The tables follow IANA's registries of special-purpose addresses for IPv4 and IPv6, with the addresses at which
 * clouds tell a machine its secrets named first. Nothing that a table does not know becomes public by that: IPv6 is
 * public only inside 2000::/3, and an address that carries an IPv4 address is never judged better than that one. */
#include "base/address.h"

#include <arpa/inet.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

bool address_is_v4(const struct address *a) {
        return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

static void set_v4(struct address *a, const void *four) {
        memcpy(a->bytes, mapped, sizeof mapped);
        memcpy(a->bytes + sizeof mapped, four, 4);
}

bool address_from_socket(const struct sockaddr_storage *s, struct address *ret, uint16_t *ret_port) {
        if (s->ss_family == AF_INET) {
                const struct sockaddr_in *in = (const struct sockaddr_in *)s;

                set_v4(ret, &in->sin_addr);
                *ret_port = ntohs(in->sin_port);
                return true;
        }
        if (s->ss_family == AF_INET6) {
                const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)s;

                memcpy(ret->bytes, &in6->sin6_addr, sizeof ret->bytes);
                *ret_port = ntohs(in6->sin6_port);
                return true;
        }
        return false;
}

socklen_t address_to_socket(const struct address *a, uint16_t port, struct sockaddr_storage *ret) {
        *ret = (struct sockaddr_storage){0};
        if (address_is_v4(a)) {
                struct sockaddr_in *in = (struct sockaddr_in *)ret;

                in->sin_family = AF_INET;
                in->sin_port = htons(port);
                memcpy(&in->sin_addr, a->bytes + sizeof mapped, sizeof in->sin_addr);
                return sizeof *in;
        }
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, a->bytes, sizeof in6->sin6_addr);
        return sizeof *in6;
}

bool address_parse(const char *text, size_t size, bool brackets, struct address *ret) {
        char copy[ADDRESS_TEXT_MAX];
        struct in6_addr six;
        struct in_addr four;

        bool bracketed = size >= 2 && text[0] == '[' && text[size - 1] == ']';
        if (bracketed) {
                text++;
                size -= 2;
        }
        if (size == 0 || size >= sizeof copy)
                return false;
        for (size_t i = 0; i < size; i++)
                if (!memchr("0123456789abcdefABCDEF:.", text[i], 24))
                        return false;
        memcpy(copy, text, size);
        copy[size] = '\0';

        if (strchr(copy, ':')) {
                if (bracketed != brackets || inet_pton(AF_INET6, copy, &six) != 1)
                        return false;
                memcpy(ret->bytes, &six, sizeof ret->bytes);
                return true;
        }
        if (bracketed || inet_pton(AF_INET, copy, &four) != 1)
                return false;
        set_v4(ret, &four);
        return true;
}

void address_print(const struct address *a, char ret[ADDRESS_TEXT_MAX]) {
        bool v4 = address_is_v4(a);

        if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a->bytes + sizeof mapped : a->bytes, ret, ADDRESS_TEXT_MAX))
                ret[0] = '\0';
}

bool address_within(const struct address *a, const uint8_t block[16], unsigned prefix) {
        unsigned whole = prefix / 8, rest = prefix % 8;

        if (prefix > 128 || memcmp(a->bytes, block, whole) != 0)
                return false;
        return rest == 0 || (a->bytes[whole] ^ block[whole]) >> (8 - rest) == 0;
}

struct block4 {
        uint8_t address[4];
        unsigned prefix;
        enum address_kind kind;
};

/* The first that fits names the kind. */
static const struct block4 special4[] = {
        {{169, 254, 169, 0}, 24, ADDRESS_METADATA},   /* .254 nearly everywhere; names and time beside it */
        {{169, 254, 170, 0}, 24, ADDRESS_METADATA},   /* Amazon's tasks and pods */
        {{169, 254, 0, 23}, 32, ADDRESS_METADATA},    /* Tencent */
        {{169, 254, 42, 42}, 32, ADDRESS_METADATA},   /* Scaleway */
        {{100, 100, 100, 200}, 32, ADDRESS_METADATA}, /* Alibaba */
        {{168, 63, 129, 16}, 32, ADDRESS_METADATA},   /* Azure: a public block, but only the machine's own host */
        {{192, 0, 0, 192}, 32, ADDRESS_METADATA},     /* Oracle, older machines */
        {{0, 0, 0, 0}, 8, ADDRESS_UNSPECIFIED},       /* Linux connects to itself */
        {{10, 0, 0, 0}, 8, ADDRESS_PRIVATE},          {{100, 64, 0, 0}, 10, ADDRESS_CARRIER},
        {{127, 0, 0, 0}, 8, ADDRESS_LOOPBACK},        {{169, 254, 0, 0}, 16, ADDRESS_LINK_LOCAL},
        {{172, 16, 0, 0}, 12, ADDRESS_PRIVATE},       {{192, 0, 0, 0}, 24, ADDRESS_RESERVED}, /* protocol assignments */
        {{192, 88, 99, 0}, 24, ADDRESS_RESERVED},                                             /* 6to4 relays */
        {{192, 168, 0, 0}, 16, ADDRESS_PRIVATE},      {{198, 18, 0, 0}, 15, ADDRESS_BENCHMARK},
        {{224, 0, 0, 0}, 4, ADDRESS_MULTICAST},       {{255, 255, 255, 255}, 32, ADDRESS_BROADCAST},
        {{240, 0, 0, 0}, 4, ADDRESS_RESERVED},
};

struct block6 {
        uint8_t address[16];
        unsigned prefix;
        enum address_kind kind;
};

/* Single addresses: before anything is read into the bits of an address. */
static const struct block6 named6[] = {
        {{0}, 128, ADDRESS_UNSPECIFIED},
        {{[15] = 1}, 128, ADDRESS_LOOPBACK},
        {{0xfd, 0x00, 0x0e, 0xc2}, 32, ADDRESS_METADATA},                                 /* Amazon */
        {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128, ADDRESS_METADATA},             /* Google */
        {{0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe}, 128, ADDRESS_METADATA}, /* Oracle */
        {{0xfd, 0x00, 0x00, 0x42, [15] = 0x42}, 128, ADDRESS_METADATA},                   /* Scaleway */
        {{0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe}, 128, ADDRESS_METADATA},             /* OpenStack */
};

static const struct block6 special6[] = {
        {{0}, 96, ADDRESS_TRANSLATED},                                  /* IPv4-compatible */
        {{[8] = 0xff, 0xff}, 96, ADDRESS_TRANSLATED},                   /* IPv4-translated, RFC 2765 */
        {{0x00, 0x64, 0xff, 0x9b}, 96, ADDRESS_TRANSLATED},             /* NAT64 */
        {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, ADDRESS_TRANSLATED}, /* NAT64, local use */
        {{0x20, 0x01, 0x00, 0x00}, 32, ADDRESS_TRANSLATED},             /* Teredo */
        {{0x20, 0x02}, 16, ADDRESS_TRANSLATED},                         /* 6to4 */
        {{0x20, 0x01, 0x00, 0x02, 0x00, 0x00}, 48, ADDRESS_BENCHMARK},
        {{0x20, 0x01}, 23, ADDRESS_RESERVED}, /* protocol assignments: ORCHID, DRIP, anycast services */
        {{0xfc}, 7, ADDRESS_PRIVATE},
        {{0xfe, 0x80}, 10, ADDRESS_LINK_LOCAL},
        {{0xfe, 0xc0}, 10, ADDRESS_PRIVATE}, /* site-local, of old */
        {{0xff}, 8, ADDRESS_MULTICAST},
};

static const uint8_t global6[16] = {0x20}; /* 2000::/3 */

/* Where an IPv4 address stands in an IPv6 one: the place of each of its four bytes. Every one of these blocks is in
 * special6 too: the address that is carried only gives it a better name. */
struct carrier {
        uint8_t address[16];
        unsigned prefix;
        uint8_t at[4];
        uint8_t invert;
};

static const struct carrier carriers[] = {
        {{0}, 96, {12, 13, 14, 15}, 0},
        {{[8] = 0xff, 0xff}, 96, {12, 13, 14, 15}, 0},
        {{0x00, 0x64, 0xff, 0x9b}, 96, {12, 13, 14, 15}, 0},
        {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, {12, 13, 14, 15}, 0}, /* a /96 of it */
        {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, {6, 7, 9, 10}, 0},    /* the /48 itself, RFC 6052 */
        {{0x20, 0x01, 0x00, 0x00}, 32, {12, 13, 14, 15}, 0xff},          /* Teredo: the client */
        {{0x20, 0x01, 0x00, 0x00}, 32, {4, 5, 6, 7}, 0},                 /* and its server */
        {{0x20, 0x02}, 16, {2, 3, 4, 5}, 0},
};

static enum address_kind find4(const struct address *a) {
        for (size_t i = 0; i < ELEMENTSOF(special4); i++) {
                struct address block;

                set_v4(&block, special4[i].address);
                if (address_within(a, block.bytes, 96 + special4[i].prefix))
                        return special4[i].kind;
        }
        return ADDRESS_PUBLIC;
}

static enum address_kind find6(const struct block6 *table, size_t count, const struct address *a) {
        for (size_t i = 0; i < count; i++)
                if (address_within(a, table[i].address, table[i].prefix))
                        return table[i].kind;
        return ADDRESS_PUBLIC;
}

/* The kind of an IPv4 address that this one carries. */
static enum address_kind find_carried(const struct address *a) {
        enum address_kind kind = ADDRESS_PUBLIC;
        struct address inner;
        uint8_t four[4];

        for (size_t i = 0; i < ELEMENTSOF(carriers) && kind == ADDRESS_PUBLIC; i++) {
                const struct carrier *c = &carriers[i];

                if (!address_within(a, c->address, c->prefix))
                        continue;
                for (size_t j = 0; j < sizeof four; j++)
                        four[j] = a->bytes[c->at[j]] ^ c->invert;
                set_v4(&inner, four);
                if (memcmp(four, (const uint8_t[4]){0}, sizeof four) != 0) /* all zero: it stands elsewhere, or none */
                        kind = find4(&inner);
        }
        /* ISATAP has no block of its own, but a mark in the lower half */
        if (kind == ADDRESS_PUBLIC && (a->bytes[8] & ~3) == 0 && a->bytes[9] == 0 && a->bytes[10] == 0x5e &&
            a->bytes[11] == 0xfe) {
                set_v4(&inner, a->bytes + 12);
                kind = find4(&inner);
        }
        return kind;
}

/* *ret_carried: the kind is that of an IPv4 address inside. */
static enum address_kind find(const struct address *a, bool *ret_carried) {
        *ret_carried = false;
        if (address_is_v4(a))
                return find4(a);
        enum address_kind kind = find6(named6, ELEMENTSOF(named6), a);
        if (kind != ADDRESS_PUBLIC)
                return kind;
        kind = find_carried(a);
        *ret_carried = kind != ADDRESS_PUBLIC;
        if (kind == ADDRESS_PUBLIC)
                kind = find6(special6, ELEMENTSOF(special6), a);
        if (kind == ADDRESS_PUBLIC && !address_within(a, global6, 3))
                kind = ADDRESS_RESERVED;
        return kind;
}

enum address_kind address_kind(const struct address *a) {
        bool carried;
        enum address_kind kind = find(a, &carried);

        return carried ? ADDRESS_TRANSLATED : kind;
}

const char *address_special(const struct address *a) {
        static const char *const words[] = {
                [ADDRESS_PUBLIC] = NULL,
                [ADDRESS_PRIVATE] = "private",
                [ADDRESS_CARRIER] = "carrier-grade NAT",
                [ADDRESS_LINK_LOCAL] = "link-local",
                [ADDRESS_LOOPBACK] = "loopback",
                [ADDRESS_UNSPECIFIED] = "unspecified",
                [ADDRESS_METADATA] = "metadata service",
                [ADDRESS_MULTICAST] = "multicast",
                [ADDRESS_BROADCAST] = "broadcast",
                [ADDRESS_BENCHMARK] = "benchmark",
                [ADDRESS_TRANSLATED] = "translated",
                [ADDRESS_RESERVED] = "reserved",
        };
        static_assert(ELEMENTSOF(words) == ADDRESS_KIND_COUNT, "every kind has words");
        bool carried;

        return words[find(a, &carried)];
}
