/* Why the gate refused something, in words: for records, for people, and what to do about it.
 *
 * A hint is meant to be pasted into a profile or a command line, and what it is about was chosen by code inside a
 * sandbox. So nothing goes into one that is not a canonical name, an address, a method or a plain path. */
#include <arpa/inet.h>

#include "wire/gate.h"

struct reason {
        const char *name;
        const char *text;
        const char *remedy;
};

#define ALLOW_HOST  "add {host: HOST} to network.allow, or run with --allow HOST"
#define ALLOW_PORT  "add {host: HOST, ports: [PORT]} to network.allow, or run with --allow HOST:PORT"
#define ALLOW_BLOCK "add {cidr: HOST, ports: [PORT]} to network.allow"
#define ALLOW_INNER "if that is meant, add {cidr: HOST, ports: [PORT], private: true} to network.allow"

static const struct reason reasons[] = {
        [GATE_USED] = {"used", "passed", ""},
        [GATE_NO_RULE] = {"no-rule", "no rule in network.allow names this host", ALLOW_HOST},
        [GATE_NO_PORT] = {"no-port", "a rule in network.allow names this host, but not this port", ALLOW_PORT},
        [GATE_BAD_NAME] = {"bad-name", "this is not a host name",
                           "use the name's plain form: letters, digits, '-' and '.', xn-- for international names"},
        [GATE_QUERY_TYPE] = {"query-type", "only questions for addresses are answered",
                             "ask for A or AAAA records; other records do not pass the gate"},
        [GATE_PRIVATE] = {"private", "this leads to an address that is not public",
                          "if that is meant, add {host: HOST, ports: [PORT], private: true} to network.allow; a "
                          "metadata service is reached by its address alone (cidr)"},
        [GATE_UNRESOLVED] = {"unresolved", "the name does not resolve",
                             "check the spelling of HOST, and that the host itself can resolve it"},
        [GATE_UNREACHABLE] = {"unreachable", "the server could not be reached",
                              "check that HOST listens on port PORT, and that the host itself can reach it"},
        [GATE_WRONG_SERVER] = {"wrong-server", "the TLS hello names another server than was connected to",
                               "connect to the server by its own name; each name needs a rule in network.allow"},
        [GATE_WRONG_HOST] = {"wrong-host", "the HTTP request names another host than was connected to",
                             "connect to the host by its own name; each name needs a rule in network.allow"},
        [GATE_BAD_PROTOCOL] = {"bad-protocol", "this is not what is spoken on this port, or it is malformed",
                               "speak TLS or HTTP/1.1 as their standards say"},
        [GATE_NO_METHOD] = {"no-method", "no rule in network.allow allows this method on this host",
                            "add METHOD to 'methods' of the rule for HOST in network.allow"},
        [GATE_NO_PATH] = {"no-path", "no rule in network.allow allows this path on this host",
                          "add PATH to 'paths' of the rule for HOST in network.allow"},
        [GATE_CERTIFICATE] = {"certificate", "the server's certificate is not valid for this name",
                              "check the server's certificate, and that its issuer is in the host's store"},
        [GATE_NO_UDP] = {"no-udp", "only TCP and DNS pass", "use TCP; nothing else leaves a sandbox"},
        [GATE_CONNECTIONS] = {"connections", "as many connections are open as limits.connections allows",
                              "raise limits.connections, or open fewer at one time"},
        [GATE_LOOKUPS] = {"lookups", "more names are asked for a second than limits.lookups allows",
                          "raise limits.lookups, or ask less often"},
        [GATE_EGRESS] = {"egress", "budget.egress is used up", "raise budget.egress"},
        [GATE_TIMEOUT] = {"timeout", "the peer took longer than it may", "try again later"},
        [GATE_REVOKED] = {"revoked", "new rules no longer allow this connection", ALLOW_HOST},
};
static_assert(ELEMENTSOF(reasons) == GATE_REASON_COUNT, "every reason has a row");

static const struct reason *row(enum gate_reason r) {
        static const struct reason unknown = {"unknown", "refused", ""};

        return (unsigned)r < GATE_REASON_COUNT ? &reasons[r] : &unknown;
}

const char *gate_reason_name(enum gate_reason r) {
        return row(r)->name;
}

const char *gate_reason_text(enum gate_reason r) {
        return row(r)->text;
}

const char *gate_reason_remedy(enum gate_reason r) {
        return row(r)->remedy;
}

static bool is_name(const char *host) {
        char name[HOSTNAME_SIZE];

        return hostname_canonical(host, strlen(host), name) > 0 && str_eq(name, host);
}

/* The block that holds this address and nothing else; "" if it is not an address. */
static void block_of(const char *host, char *ret, size_t size) {
        uint8_t address[16];

        if (inet_pton(AF_INET, host, address) == 1)
                (void)snprintf(ret, size, "%.45s/32", host);
        else if (inet_pton(AF_INET6, host, address) == 1)
                (void)snprintf(ret, size, "%.45s/128", host);
        else
                ret[0] = '\0';
}

static bool made_of(const char *text, const char *others) {
        for (const char *p = text; *p; p++)
                if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') &&
                    !strchr(others, *p))
                        return false;
        return text[0] != '\0';
}

struct word {
        const char *word;
        const char *value; /* "" or NULL: there is none, and so no hint */
};

/* Replaces each word by its value. False when one has none, or all of it does not fit. */
static bool fill(const char *remedy, const struct word *words, size_t count, char *ret, size_t size) {
        size_t used = 0;

        for (const char *p = remedy; *p;) {
                const struct word *found = NULL;
                for (size_t i = 0; i < count && !found; i++)
                        if (str_starts(p, words[i].word))
                                found = &words[i];
                const char *from = found ? found->value : p;
                size_t n = found ? strlen(from) : 1;
                if (n == 0 || n >= size - used)
                        return false;
                memcpy(ret + used, from, n);
                used += n;
                p += found ? strlen(found->word) : 1;
        }
        ret[used] = '\0';
        return true;
}

void gate_hint(const struct gate_event *e, char *ret, size_t size) {
        char block[INET6_ADDRSTRLEN + 4], port[8];
        const char *remedy = gate_reason_remedy(e->reason), *host = e->host;
        bool usual = e->port == 0 || e->port == 80 || e->port == 443;

        if (size == 0)
                return;
        block_of(e->host, block, sizeof block);
        if (e->reason == GATE_NO_RULE || e->reason == GATE_NO_PORT || e->reason == GATE_REVOKED) {
                if (block[0]) {
                        remedy = ALLOW_BLOCK;
                        host = block;
                } else if (!usual) {
                        remedy = ALLOW_PORT;
                }
        } else if (e->reason == GATE_PRIVATE && block[0]) {
                remedy = ALLOW_INNER;
                host = block;
        } else if (e->reason == GATE_NO_PATH && e->path[0] != '/') {
                remedy = "a request without a path, such as OPTIONS *, passes only under a rule for HOST without paths";
        }
        (void)snprintf(port, sizeof port, "%u", e->port);
        const struct word words[] = {
                {"HOST", is_name(e->host) || block[0] ? host : ""},
                {"PORT", e->port ? port : ""},
                {"METHOD", made_of(e->method, "-_") ? e->method : ""},
                {"PATH", e->path[0] == '/' && made_of(e->path, "/-._~%+=@:,") ? e->path : ""},
        };
        if (!fill(remedy, words, ELEMENTSOF(words), ret, size))
                ret[0] = '\0';
}
