/* `--allow`: one more entry of network.allow, in the short form of the command line. Same table, same checks, same seal
 * as an entry in a profile.
 *
 *   example.com   *.example.com   example.com:8443   example.com:22,80   example.com:*
 *   203.0.113.7   203.0.113.0/24:5432   [2001:db8::1]:443   2001:db8::/32 */
#include <arpa/inet.h>

#include "policy/field.h"
#include "policy/narrow.h"
#include "policy/parse.h"
#include "policy/profile.h"

/* The parts of the short form, in place: the host or block, and what follows the colon ("" if nothing does). */
struct parts {
        char *host, *ports;
        bool block; /* an address or a block of them */
        char text[320];
};

static int not_understood(const char *text, struct err *err) {
        (void)err_set(err, ERR_INPUT, "--allow '%.80s' is not HOST, HOST:PORT or ADDRESS", text);
        return err_hint(err, "for example --allow example.com, --allow '*.example.com', --allow db.example.com:5432");
}

static bool is_address(const char *text, int family) {
        uint8_t bytes[16];
        char copy[64];
        size_t n = strcspn(text, "/");

        if (n >= sizeof copy)
                return false;
        memcpy(copy, text, n);
        copy[n] = '\0';
        return inet_pton(family, copy, bytes) == 1;
}

static int split(const char *text, struct parts *ret, struct err *err) {
        struct parts p = {0};

        if (strlen(text) >= sizeof p.text - 8)
                return not_understood(text, err);
        memcpy(ret->text, text, strlen(text) + 1);
        ret->host = ret->text;
        ret->ports = ret->text + strlen(text);
        if (ret->text[0] == '[') {
                char *end = strchr(ret->text, ']');

                if (!end || (end[1] != '\0' && end[1] != ':'))
                        return not_understood(text, err);
                ret->ports = end[1] ? end + 2 : end + 1;
                *end = '\0';
                ret->host = ret->text + 1;
                if (!is_address(ret->host, AF_INET6))
                        return not_understood(text, err);
        } else if (!is_address(ret->text, AF_INET6)) {
                char *colon = strchr(ret->text, ':');

                if (colon) {
                        *colon = '\0';
                        ret->ports = colon + 1;
                        if (!*ret->ports)
                                return not_understood(text, err);
                }
        }
        ret->block = is_address(ret->host, AF_INET) || is_address(ret->host, AF_INET6) || strchr(ret->host, '/');
        return ret->host[0] ? 0 : not_understood(text, err);
}

static struct node *port_list(const char *ports) {
        if (str_eq(ports, "*"))
                return node_new(NODE_TEXT, "any", 3);
        _cleanup_node_ struct node *list = node_new(NODE_LIST, NULL, 0);
        if (!list)
                return NULL;
        for (const char *word = ports;; word++) {
                size_t length = strcspn(word, ",");

                if (node_append(list, node_new(NODE_TEXT, word, length)) < 0)
                        return NULL;
                word += length;
                if (!*word)
                        break;
        }
        return TAKE_PTR(list);
}

static int fill(struct policy_reach *r, const struct parts *p, struct err *err) {
        char block[320];
        const char *word = p->host;

        if (p->block) {
                (void)snprintf(block, sizeof block, "%s%s", p->host,
                               strchr(p->host, '/')   ? ""
                               : strchr(p->host, ':') ? "/128"
                                                      : "/32");
                word = block;
        }
        _cleanup_node_ struct node *host = node_new(NODE_TEXT, word, strlen(word));
        if (!host)
                return err_set(err, -ENOMEM, "--allow");
        int result = parse_value(NULL, schema_find(p->block ? "network.allow[].cidr" : "network.allow[].host"), host, r,
                                 err);
        if (result < 0 || !p->ports[0])
                return result;
        _cleanup_node_ struct node *ports = port_list(p->ports);
        if (!ports)
                return err_set(err, -ENOMEM, "--allow");
        return parse_value(NULL, schema_find("network.allow[].ports"), ports, r, err);
}

int policy_allow(struct policy *p, const char *text, struct err *err) {
        const struct schema_row *row = schema_find("network.allow");
        _cleanup_policy_ struct policy changed = {0};
        struct parts parts;
        struct err why = {0};

        if (value_check_text(text, &why) < 0)
                return err_set(err, ERR_INPUT, "--allow: %s", why.text);
        int r = split(text, &parts, err);
        if (r < 0)
                return r;
        if (p->network.allow_count >= POLICY_LIST_MAX)
                return err_set(err, ERR_LIMIT, "--allow: network.allow has %d entries already", POLICY_LIST_MAX);
        if (policy_copy(p, &changed) < 0)
                return err_set(err, -ENOMEM, "--allow");
        struct policy_reach *grown = reallocarray(changed.network.allow, changed.network.allow_count + 1,
                                                  sizeof *grown);
        if (!grown)
                return err_set(err, -ENOMEM, "--allow");
        changed.network.allow = grown;
        struct policy_reach *entry = &grown[changed.network.allow_count++];
        memset(entry, 0, sizeof *entry);
        field_init(SCOPE_REACH, entry);
        r = fill(entry, &parts, err);
        if (r < 0)
                return err_prefix(err, r, "--allow '%.80s'", text);
        return narrow_adopt(row, p, &changed, err);
}
