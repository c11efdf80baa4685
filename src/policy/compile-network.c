/* What the network part of a policy becomes: rules for the gate, the step that leads every way out to it, and what
 * programs inside have to know: the name server, the proxies, the authority that they are to trust. */
#include <arpa/inet.h>

#include "policy/compile-internal.h"
#include "wire/gate.h"

#define NET "/run/stockade/net"

bool compile_networked(const struct policy *p, const struct compile_options *o) {
        return p->network.allow_count > 0 || o->gate;
}

static bool inspected(const struct policy_reach *r) {
        return r->inspect || r->methods.count > 0 || r->paths.count > 0 || r->secret;
}

static bool any_inspected(const struct policy *p) {
        for (size_t i = 0; i < p->network.allow_count; i++)
                if (inspected(&p->network.allow[i]))
                        return true;
        return false;
}

/* A block that passed value_check_cidr, in the one form that the gate compares. */
static void read_block(const char *text, struct rule *r) {
        char host[64] = "";
        size_t n = MIN(strcspn(text, "/"), sizeof host - 1);
        unsigned bits = (unsigned)strtoul(text + n + 1, NULL, 10);

        memcpy(host, text, n);
        if (strchr(host, ':')) {
                (void)inet_pton(AF_INET6, host, r->address);
                r->prefix = bits;
                return;
        }
        memset(r->address + 10, 0xff, 2);
        (void)inet_pton(AF_INET, host, r->address + 12);
        r->prefix = 96 + bits;
}

static int add_rule(const struct policy_reach *p, unsigned index, struct buf *b, struct err *err) {
        static const uint16_t usual[] = {80, 443};
        struct rule r = {.index = index, .host = p->host ? p->host : "", .secret = p->secret ? p->secret : ""};

        r.flags = (p->private ? RULE_PRIVATE : 0U) | (inspected(p) ? RULE_INSPECT : 0U);
        if (p->cidr)
                read_block(p->cidr, &r);
        if (p->port_count == 1 && p->ports[0] == 0)
                r.flags |= RULE_ANY_PORT;
        else {
                r.port_count = p->port_count ? p->port_count : ELEMENTSOF(usual);
                memcpy(r.ports, p->port_count ? p->ports : usual, r.port_count * sizeof r.ports[0]);
        }
        if (p->methods.count > RULES_METHODS_MAX || p->paths.count > RULES_PATHS_MAX)
                return err_set(err, ERR_LIMIT, "network.allow: an entry has more than %d methods or %d paths",
                               RULES_METHODS_MAX, RULES_PATHS_MAX);
        for (; r.method_count < p->methods.count; r.method_count++)
                r.methods[r.method_count] = p->methods.items[r.method_count];
        for (; r.path_count < p->paths.count; r.path_count++)
                r.paths[r.path_count] = p->paths.items[r.path_count];
        rules_add(b, &r);
        return 0;
}

int compile_reach(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err) {
        _cleanup_buf_ struct buf rules = {.max = RULES_MAX_SIZE};

        if (!compile_networked(p, o))
                return 0;
        rules_begin(&rules);
        for (size_t i = 0; i < p->network.allow_count; i++) {
                int r = add_rule(&p->network.allow[i], (unsigned)i, &rules, err);
                if (r < 0)
                        return r;
        }
        if (!buf_ok(&rules))
                return err_set(err, ERR_LIMIT, "network.allow is larger than %d bytes", RULES_MAX_SIZE);
        if (rules_check(rules.data, rules.size, err) < 0)
                return err_prefix(err, ERR_CORRUPT, "network.allow");
        plan_add(b, OP_REACH, 0, (const void *)rules.data, rules.size);
        for (size_t i = 0; i < p->secrets.count; i++)
                plan_add(b, OP_SECRET, 0, p->secrets.items[i]);
        return 0;
}

void compile_network_environment(const struct policy *p, const struct compile_options *o, struct buf *b) {
        /* programs spell these in both ways; ALL_PROXY is http because some libraries refuse to start without a SOCKS
         * package when it says socks */
        static const char *const proxied[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
                                              "http_proxy", "https_proxy", "all_proxy"};
        static const char *const direct[] = {"NO_PROXY", "no_proxy"};
        /* curl, OpenSSL and Go, Python, Node, git, pip, npm, AWS, gRPC, Deno, Cargo */
        static const char *const bundled[] = {
                "SSL_CERT_FILE",       "CURL_CA_BUNDLE",    "REQUESTS_CA_BUNDLE",
                "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",    "PIP_CERT",
                "npm_config_cafile",   "AWS_CA_BUNDLE",     "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
                "DENO_CERT",           "CARGO_HTTP_CAINFO",
        };
        char pair[256];

        if (!compile_networked(p, o))
                return;
        for (size_t i = 0; i < ELEMENTSOF(proxied); i++) {
                (void)snprintf(pair, sizeof pair, "%s=http://%s:%d", proxied[i], WARD_OWN_V4, WARD_PROXY_PORT);
                plan_add(b, OP_ENV, 0, pair);
        }
        for (size_t i = 0; i < ELEMENTSOF(direct); i++) {
                (void)snprintf(pair, sizeof pair, "%s=localhost,127.0.0.1,::1", direct[i]);
                plan_add(b, OP_ENV, 0, pair);
        }
        if (!any_inspected(p))
                return;
        for (size_t i = 0; i < ELEMENTSOF(bundled); i++) {
                (void)snprintf(pair, sizeof pair, "%s=" NET "/ca-bundle.pem", bundled[i]);
                plan_add(b, OP_ENV, 0, pair);
        }
        plan_add(b, OP_ENV, 0,
                 "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" NET "/ca.jks "
                 "-Djavax.net.ssl.trustStorePassword=changeit");
}

void compile_network_files(const struct policy *p, const struct compile_options *o, struct buf *b) {
        /* over a tree that is not ours: without root its owner may not be one whose files we can replace */
        unsigned flags = compile_others_tree(p, o) ? STEP_REPLACE | STEP_OPTIONAL : 0U;

        if (!compile_networked(p, o))
                plan_add(b, OP_FILE, flags, "/etc/resolv.conf", (const void *)"", (size_t)0);
        else
                plan_add(b, OP_FILE, flags, "/etc/resolv.conf", (const void *)"nameserver " WARD_OWN_V4 "\n",
                         sizeof "nameserver " WARD_OWN_V4 "\n" - 1);
}

void compile_network(const struct policy *p, const struct compile_options *o, struct buf *b) {
        if (!compile_networked(p, o)) {
                plan_add(b, OP_LOOPBACK, 0);
                return;
        }
        plan_add(b, OP_LINK, 0, "/run/stockade/denials", "net/denials");
        plan_add(b, OP_NETWORK, any_inspected(p) ? STEP_TRUST : 0U, NET);
}
