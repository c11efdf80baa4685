/* Network rules as bytes: writer, checker, walk.
 *
 * Layout: magic, then rules to the end: index (u16), flags (u16), host; for an empty host the block's 16 bytes and its
 * prefix (u16); ports, methods and paths, each a count (u16) and as many values; secret. What rules_check accepts has
 * one form only. Reading never allocates, and rules_next stays within the bytes even if nobody checked them. */
#include "wire/rules.h"

#include "base/hostname.h"

#define METHOD_MAX 32
#define PATH_BYTES 1024
#define SECRET_MAX 128
#define FLAGS      (RULE_PRIVATE | RULE_INSPECT | RULE_ANY_PORT)

static const uint8_t magic[8] = {'S', 'T', 'O', 'C', 'K', 'R', '0', '1'};

void rules_begin(struct buf *b) {
        buf_add(b, magic, sizeof magic);
}

static void put_list(struct buf *b, const char *const *items, size_t count) {
        wire_put_u16(b, (uint16_t)count);
        for (size_t i = 0; i < count; i++)
                wire_put_str(b, items[i]);
}

void rules_add(struct buf *b, const struct rule *r) {
        const char *host = r->host ? r->host : "", *secret = r->secret ? r->secret : "";
        unsigned flags = r->flags;

        if (r->port_count > RULES_PORTS_MAX || r->method_count > RULES_METHODS_MAX || r->path_count > RULES_PATHS_MAX ||
            r->index > UINT16_MAX || r->prefix > 128 || (flags & ~(unsigned)FLAGS)) {
                b->failed = true;
                return;
        }
        if (r->method_count > 0 || r->path_count > 0 || secret[0])
                flags |= RULE_INSPECT;
        wire_put_u16(b, (uint16_t)r->index);
        wire_put_u16(b, (uint16_t)flags);
        wire_put_str(b, host);
        if (!host[0]) {
                buf_add(b, r->address, sizeof r->address);
                wire_put_u16(b, (uint16_t)r->prefix);
        }
        wire_put_u16(b, (uint16_t)r->port_count);
        for (size_t i = 0; i < r->port_count; i++)
                wire_put_u16(b, r->ports[i]);
        put_list(b, r->methods, r->method_count);
        put_list(b, r->paths, r->path_count);
        wire_put_str(b, secret);
}

/* A count that is larger than its array marks the reader failed and is 0. */
static size_t read_count(struct wire *w, size_t max) {
        size_t n = wire_u16(w);

        if (n > max)
                w->failed = true;
        return w->failed ? 0 : n;
}

static size_t read_list(struct wire *w, const char **items, size_t max) {
        size_t n = read_count(w, max);

        for (size_t i = 0; i < n; i++)
                items[i] = wire_str(w);
        return n;
}

/* Reads one rule. The same code serves the check and the walk. */
static bool read_rule(struct wire *w, struct rule *r) {
        *r = (struct rule){.index = wire_u16(w), .flags = wire_u16(w), .host = wire_str(w)};
        if (!r->host[0]) {
                const void *block = wire_bytes(w, sizeof r->address);

                if (block)
                        memcpy(r->address, block, sizeof r->address);
                r->prefix = wire_u16(w);
        }
        r->port_count = read_count(w, RULES_PORTS_MAX);
        for (size_t i = 0; i < r->port_count; i++)
                r->ports[i] = wire_u16(w);
        r->method_count = read_list(w, r->methods, RULES_METHODS_MAX);
        r->path_count = read_list(w, r->paths, RULES_PATHS_MAX);
        r->secret = wire_str(w);
        return wire_ok(w);
}

static bool host_ok(const char *host) {
        char canonical[HOSTNAME_SIZE];
        const char *name = str_starts(host, "*.") ? host + 2 : host;

        if (str_eq(host, "*"))
                return true;
        return hostname_canonical(name, strlen(name), canonical) >= 0 && str_eq(name, canonical);
}

/* No bit is set after the prefix. */
static bool block_ok(const uint8_t block[16], unsigned prefix) {
        if (prefix > 128)
                return false;
        for (unsigned i = prefix; i < 128; i++)
                if (block[i / 8] >> (7 - i % 8) & 1)
                        return false;
        return true;
}

static bool is_alnum(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool method_ok(const char *method) {
        size_t n = 0;

        for (; method[n]; n++)
                if (!is_alnum(method[n]) && !strchr("!#$%&'*+-.^_`|~", method[n]))
                        return false;
        return n >= 1 && n <= METHOD_MAX;
}

static bool path_ok(const char *path) {
        size_t n = strlen(path);

        if (path[0] != '/' || n > PATH_BYTES)
                return false;
        for (size_t i = 0; i < n; i++)
                if ((uint8_t)path[i] <= ' ' || path[i] == 0x7f || strchr("?#\\", path[i]) ||
                    (path[i] == '*' && i + 1 < n))
                        return false;
        return true;
}

static bool secret_ok(const char *name) {
        size_t n = 0;

        for (; name[n]; n++)
                if (!is_alnum(name[n]) && name[n] != '_')
                        return false;
        return n <= SECRET_MAX && !(name[0] >= '0' && name[0] <= '9');
}

/* What is wrong with a rule that could be read; NULL: nothing. */
static const char *problem(const struct rule *r) {
        if (r->flags & ~(unsigned)FLAGS)
                return "flags that this version does not know";
        if (r->host[0] ? !host_ok(r->host) : !block_ok(r->address, r->prefix))
                return r->host[0] ? "a host that is not in canonical form" : "a malformed block of addresses";
        if (!(r->flags & RULE_ANY_PORT) != (r->port_count > 0))
                return "neither ports nor any port, or both";
        for (size_t i = 0; i < r->port_count; i++)
                if (r->ports[i] == 0)
                        return "a port 0";
        for (size_t i = 0; i < r->method_count; i++)
                if (!method_ok(r->methods[i]))
                        return "a malformed method";
        for (size_t i = 0; i < r->path_count; i++)
                if (!path_ok(r->paths[i]))
                        return "a malformed path";
        if (!secret_ok(r->secret))
                return "a malformed name of a secret";
        if ((r->method_count > 0 || r->path_count > 0 || r->secret[0]) && !(r->flags & RULE_INSPECT))
                return "conditions on requests that nobody would look at";
        return NULL;
}

int rules_check(const void *bytes, size_t size, struct err *err) {
        struct wire w = {.start = bytes, .size = size};
        int count = 0;

        if (size > RULES_MAX_SIZE)
                return err_set(err, ERR_LIMIT, "the network rules are larger than %d bytes", RULES_MAX_SIZE);
        const void *start = wire_bytes(&w, sizeof magic);
        if (!start || memcmp(start, magic, sizeof magic) != 0)
                return err_set(err, ERR_CORRUPT, "these bytes are not network rules of this version");
        for (; !wire_end(&w); count++) {
                struct rule r;

                if (count >= RULES_MAX)
                        return err_set(err, ERR_LIMIT, "there are more than %d network rules", RULES_MAX);
                if (!read_rule(&w, &r))
                        return err_set(err, ERR_CORRUPT, "network rule %d is malformed", count);
                const char *what = problem(&r);
                if (what)
                        return err_set(err, ERR_CORRUPT, "network rule %d has %s", count, what);
        }
        return count;
}

bool rules_next(const void *bytes, size_t size, struct rules_walk *walk, struct rule *ret) {
        if (walk->wire.start == NULL) {
                walk->wire = (struct wire){.start = bytes, .size = size};
                (void)wire_bytes(&walk->wire, sizeof magic);
        }
        return !wire_end(&walk->wire) && read_rule(&walk->wire, ret);
}
