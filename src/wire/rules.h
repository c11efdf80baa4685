/* What a sandbox may reach over the network, as one flat block of bytes: the policy compiler writes it into the plan,
 * the launcher passes it on unread, the gate reads it.
 *
 * Rules are alternatives: what one of them permits is permitted. Order matters only for which one is named. Strings
 * are returned in place and live as long as the bytes. */
#pragma once

#include "wire/wire.h"

#define RULES_MAX_SIZE    (64 * 1024)
#define RULES_MAX         256
#define RULES_PORTS_MAX   16
#define RULES_METHODS_MAX 16
#define RULES_PATHS_MAX   64

enum {
        RULE_PRIVATE = 1 << 0,  /* the name may resolve to an address that is not public */
        RULE_INSPECT = 1 << 1,  /* TLS is opened: asked for, or implied by methods, paths or secret */
        RULE_ANY_PORT = 1 << 2, /* ports is empty: every port */
};

struct rule {
        unsigned index; /* in the profile's network.allow, from 0 */
        unsigned flags;
        const char *host;    /* canonical (base/hostname.h): "example.com", "*.example.com" for every name below it, "*"
                              * for any name; "" for a block of addresses */
        uint8_t address[16]; /* the block, IPv4 as ::ffff:a.b.c.d */
        unsigned prefix;     /* of 128 bits: 0.0.0.0/0 has 96 */
        uint16_t ports[RULES_PORTS_MAX];
        size_t port_count;
        const char *methods[RULES_METHODS_MAX]; /* none: any */
        size_t method_count;
        const char *paths[RULES_PATHS_MAX]; /* none: any; a '*' at the end stands for anything */
        size_t path_count;
        const char *secret; /* name of the secret that requests under this rule may carry, or "" */
};

/* Writing: begin, then add for each. A failure shows in buf_ok; what was written may still have to pass rules_check.
 * rules_add sets RULE_INSPECT where methods, paths or a secret imply it; rules_check insists on it, and on either ports
 * or RULE_ANY_PORT. host and secret may be NULL for "". */
void rules_begin(struct buf *b);
void rules_add(struct buf *b, const struct rule *r);

/* Reading. rules_check reads the whole: version, counts, flags, canonical hosts, prefix lengths, ports that are not 0,
 * methods of token characters, paths that begin with '/', names of secrets. Returns the number of rules (0 is fine:
 * nothing can be reached) or a negative code. rules_next walks bytes that passed; start with a zeroed walk. */
int rules_check(const void *bytes, size_t size, struct err *err);
struct rules_walk {
        struct wire wire;
};
bool rules_next(const void *bytes, size_t size, struct rules_walk *walk, struct rule *ret);
