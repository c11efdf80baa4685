/* Decisions: which of a ward's rules speak about a name or an address, a port, a request. Pure; no I/O, no state.
 *
 * The default of everything is no. */
#pragma once

#include "base/address.h"
#include "wire/gate.h"

struct rules {
        void *bytes; /* a copy that the entries point into */
        size_t size;
        struct rule items[RULES_MAX];
        size_t count;
};

/* *r is zero before the first load. On failure (bytes that do not pass rules_check too) it is as before. */
int rules_load(struct rules *r, const void *bytes, size_t size);
void rules_unload(struct rules *r);

struct decision {
        enum gate_reason reason; /* GATE_USED: allowed */
        int rule;                /* position in items, the first that speaks for it; -1: none */
        bool inspect;            /* one of the rules for this name and port wants TLS opened */
        bool private;            /* one of them allows private addresses */
        bool exact;              /* and names exactly this host, without a wildcard */
};

/* May anything at all be reached by this name (some port)? For DNS. */
bool decide_name(const struct rules *r, const char *name);
/* A connection to a canonical name, or to a literal address (name NULL). A literal address that is not public passes
 * only under a rule that says private (GATE_PRIVATE otherwise, also if no rule covers it); what a name resolves to is
 * the caller's to check. A
 * refusal names the first of the rules that let it get farthest; inspect and private are about host and port alone. */
struct decision decide_connect(const struct rules *r, const char *name, const struct address *a, uint16_t port);
/* A request on such a connection; path is the request target's path, percent-encoding not decoded, without query.
 * Paths with "/../", "/./", "//", encoded dots, slashes or backslashes ("%2e", "%2f", "%5c") or control bytes, and
 * other forms that servers disagree about ("/..;/", "%25", "%00", overlong UTF-8), match only rules that name no
 * paths. Methods are compared byte by byte: GET does not stand for HEAD. */
struct decision decide_request(const struct rules *r, const char *name, const struct address *a, uint16_t port,
                               const char *method, const char *path, size_t path_size);
/* May this secret go to this name, port, method and path: does a rule that permits the request name it? */
bool decide_secret(const struct rules *r, const char *name, uint16_t port, const char *method, const char *path,
                   size_t path_size, const char *secret);
