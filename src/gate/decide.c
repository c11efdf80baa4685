/* Decisions: every rule is asked how far a connection or a request gets under it, and the one that lets it get
 * farthest decides. Pure; what no rule permits to the end is refused.
 *
 * Names are compared with hosts and addresses with blocks, never one with the other: which address a name has today
 * says nothing about who may be meant by it. IPv4 and IPv6 are apart: "::/0" does not cover an IPv4 address. */
#include "gate/decide.h"

#include "base/knockout.h"

/* How far it gets under one rule, in the order in which it is looked at. */
enum stage {
        STAGE_OTHER_HOST,
        STAGE_OTHER_PORT,
        STAGE_NOT_PUBLIC, /* a literal address that is not public, and the rule does not say private */
        STAGE_OTHER_PATH,
        STAGE_OTHER_METHOD,
        STAGE_PERMITTED,
        STAGE_COUNT,
};

static const enum gate_reason reasons[] = {
        [STAGE_OTHER_HOST] = GATE_NO_RULE, [STAGE_OTHER_PORT] = GATE_NO_PORT,     [STAGE_NOT_PUBLIC] = GATE_PRIVATE,
        [STAGE_OTHER_PATH] = GATE_NO_PATH, [STAGE_OTHER_METHOD] = GATE_NO_METHOD, [STAGE_PERMITTED] = GATE_USED,
};
static_assert(ELEMENTSOF(reasons) == STAGE_COUNT, "every stage has a reason");

/* What is asked for. */
struct wish {
        const char *name;              /* NULL: a literal address */
        const struct address *address; /* only then */
        uint16_t port;
        bool special; /* the literal address is not public */
        bool request; /* a request, not just the connection */
        const char *method;
        const char *path;
        size_t path_size;
        bool plain; /* the path means what it says */
};

int rules_load(struct rules *r, const void *bytes, size_t size) {
        struct rules_walk walk = {0};

        int count = rules_check(bytes, size, NULL);
        if (count < 0)
                return count;
        void *copy = malloc(size);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, bytes, size);
        free(r->bytes);
        r->bytes = copy;
        r->size = size;
        r->count = 0;
        while (r->count < RULES_MAX && rules_next(r->bytes, r->size, &walk, &r->items[r->count]))
                r->count++;
        assert(r->count == (size_t)count);
        return 0;
}

void rules_unload(struct rules *r) {
        free(r->bytes);
        r->bytes = NULL;
        r->size = 0;
        r->count = 0;
}

static int hex(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                return (c | 0x20) - 'a' + 10;
        return -1;
}

/* What follows a '/' is another one, or a segment that some server takes for a step: "." and ".." also before ';'
 * and before an encoded byte, and whatever else begins with "..". */
static bool is_step(const char *rest, size_t size) {
        if (size > 0 && rest[0] == '/')
                return true;
        if (size == 0 || rest[0] != '.')
                return false;
        return size == 1 || strchr("./;%", rest[1]) != NULL;
}

/* Whether every server reads the same segments in this path: nothing that some would decode, fold or cut off into
 * another path than the one that was compared. Encoded bytes are fine as long as they are not of the kind that
 * structure is made of: dots, slashes, backslashes, '%' itself, control bytes, overlong UTF-8. */
static bool path_is_plain(const char *path, size_t size) {
        uint8_t before = 0;

        if (size == 0 || path[0] != '/')
                return false;
        for (size_t i = 0; i < size; i++) {
                uint8_t c = (uint8_t)path[i];

                if (c <= ' ' || memchr("?#\\", c, 3) || (c == '/' && is_step(path + i + 1, size - i - 1)))
                        return false;
                if (c == '%') {
                        int high = i + 2 < size ? hex(path[i + 1]) : -1, low = i + 2 < size ? hex(path[i + 2]) : -1;

                        if (high < 0 || low < 0)
                                return false;
                        c = (uint8_t)(high << 4 | low);
                        i += 2;
                        if (memchr("./\\%", c, 4))
                                return false;
                }
                if (c < ' ' || c == 0x7f || c == 0xc0 || c == 0xc1 || (before == 0xe0 && c < 0xa0) ||
                    (before == 0xf0 && c < 0x90))
                        return false;
                before = c;
        }
        return true;
}

static bool speaks_about(const struct rule *rule, const struct wish *w) {
        if (w->name)
                return rule->host[0] && hostname_matches(rule->host, w->name);
        if (!w->address || rule->host[0])
                return false;
        if (address_is_v4(w->address) && rule->prefix < 96)
                return false;
        return address_within(w->address, rule->address, rule->prefix);
}

static bool has_port(const struct rule *rule, uint16_t port) {
        if (rule->flags & RULE_ANY_PORT)
                return port != 0;
        for (size_t i = 0; i < rule->port_count; i++)
                if (rule->ports[i] == port)
                        return true;
        return false;
}

static bool has_path(const struct rule *rule, const struct wish *w) {
        if (rule->path_count == 0)
                return true;
        if (!w->plain)
                return false;
        for (size_t i = 0; i < rule->path_count; i++) {
                const char *pattern = rule->paths[i];
                size_t length = strlen(pattern);
                bool open = length > 0 && pattern[length - 1] == '*';

                length -= open;
                if ((open ? w->path_size >= length : w->path_size == length) && memcmp(w->path, pattern, length) == 0)
                        return true;
        }
        return false;
}

static bool has_method(const struct rule *rule, const char *method) {
        if (rule->method_count == 0)
                return true;
        for (size_t i = 0; i < rule->method_count; i++)
                if (str_eq(rule->methods[i], method))
                        return true;
        return false;
}

static enum stage walk_rule(const struct rule *rule, const struct wish *w) {
        if (!speaks_about(rule, w))
                return STAGE_OTHER_HOST;
        if (!has_port(rule, w->port))
                return STAGE_OTHER_PORT;
        if (w->special && !(rule->flags & RULE_PRIVATE))
                return STAGE_NOT_PUBLIC;
        if (w->request && !has_path(rule, w))
                return STAGE_OTHER_PATH;
        if (w->request && !has_method(rule, w->method))
                return STAGE_OTHER_METHOD;
        return STAGE_PERMITTED;
}

static struct decision judge(const struct rules *r, const struct wish *w) {
        struct decision d = {.reason = GATE_NO_RULE, .rule = -1};
        enum stage farthest = STAGE_OTHER_HOST;

        for (size_t i = 0; i < r->count; i++) {
                enum stage stage = walk_rule(&r->items[i], w);

                if (stage > STAGE_OTHER_PORT) {
                        d.inspect |= (r->items[i].flags & RULE_INSPECT) != 0;
                        d.private |= (r->items[i].flags & RULE_PRIVATE) != 0;
                        d.exact |= (r->items[i].flags & RULE_PRIVATE) != 0 && w->name && r->items[i].host[0] != '*';
                }
                if (stage > farthest) {
                        farthest = stage;
                        d.rule = (int)i;
                }
        }
        /* an address that is not public takes more than a rule that covers it: say so at once */
        d.reason = w->special && farthest < STAGE_NOT_PUBLIC ? GATE_PRIVATE : reasons[farthest];
        if (knockout_off(KNOCKOUT_GATE)) {
                d.reason = GATE_USED;
                d.private = d.exact = true;
        }
        return d;
}

bool decide_name(const struct rules *r, const char *name) {
        if (knockout_off(KNOCKOUT_GATE))
                return true;
        for (size_t i = 0; i < r->count; i++)
                if (speaks_about(&r->items[i], &(struct wish){.name = name}))
                        return true;
        return false;
}

static struct wish connection(const char *name, const struct address *a, uint16_t port) {
        return (struct wish){
                .name = name,
                .address = name ? NULL : a,
                .port = port,
                .special = !name && a && address_special(a),
        };
}

static struct wish request(const char *name, const struct address *a, uint16_t port, const char *method,
                           const char *path, size_t path_size) {
        struct wish w = connection(name, a, port);

        w.request = true;
        w.method = method;
        w.path = path;
        w.path_size = path_size;
        w.plain = path_is_plain(path, path_size);
        return w;
}

struct decision decide_connect(const struct rules *r, const char *name, const struct address *a, uint16_t port) {
        struct wish w = connection(name, a, port);

        return judge(r, &w);
}

struct decision decide_request(const struct rules *r, const char *name, const struct address *a, uint16_t port,
                               const char *method, const char *path, size_t path_size) {
        struct wish w = request(name, a, port, method, path, path_size);

        return judge(r, &w);
}

bool decide_secret(const struct rules *r, const char *name, uint16_t port, const char *method, const char *path,
                   size_t path_size, const char *secret) {
        struct wish w = request(name, NULL, port, method, path, path_size);

        if (knockout_off(KNOCKOUT_GATE))
                return true;
        if (!name || !secret[0])
                return false;
        for (size_t i = 0; i < r->count; i++)
                if (str_eq(r->items[i].secret, secret) && walk_rule(&r->items[i], &w) == STAGE_PERMITTED)
                        return true;
        return false;
}
