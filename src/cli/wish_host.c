/* Wishes for the network: what the gate refused, as entries of network.allow, one per host. */
#include <arpa/inet.h>

#include "cli/learn_wish.h"

static bool parse(const char *host, int *ret_family, uint8_t ret[16]) {
        *ret_family = strchr(host, ':') ? AF_INET6 : AF_INET;
        return inet_pton(*ret_family, host, ret) == 1;
}

/* Addresses that are not public: those of the host itself, of its neighbours, of the cloud's metadata service. */
static bool special(int family, const uint8_t a[16]) {
        static const struct {
                uint8_t bytes[2];
                unsigned bits;
        } v4[] = {{{0, 0}, 8},     {{10, 0}, 8},     {{100, 64}, 10}, {{127, 0}, 8}, {{169, 254}, 16},
                  {{172, 16}, 12}, {{192, 168}, 16}, {{198, 18}, 15}, {{224, 0}, 3}};

        if (family == AF_INET6) /* only 2000::/3 is public, and of it not what carries an IPv4 address */
                return (a[0] & 0xe0) != 0x20 || (a[0] == 0x20 && a[1] == 0x02);
        unsigned value = (unsigned)a[0] << 8 | a[1];
        for (size_t i = 0; i < ELEMENTSOF(v4); i++) {
                unsigned mask = 0xffffU << (16 - v4[i].bits) & 0xffff;
                if ((value & mask) == ((unsigned)v4[i].bytes[0] << 8 | v4[i].bytes[1]))
                        return true;
        }
        return false;
}

static void add_port(struct wish *w, uint16_t port) {
        for (size_t i = 0; i < w->port_count; i++)
                if (w->ports[i] == port)
                        return;
        if (port == 0 || w->port_count >= ELEMENTSOF(w->ports))
                return;
        size_t at = w->port_count++;
        for (; at > 0 && w->ports[at - 1] > port; at--)
                w->ports[at] = w->ports[at - 1];
        w->ports[at] = port;
}

/* "{host: example.org, ports: [5432]}"; 80 and 443 are what an entry without ports allows. */
static void say_entry(struct wish *w, bool literal, int family) {
        bool usual = true;
        size_t n;

        for (size_t i = 0; i < w->port_count; i++)
                usual = usual && (w->ports[i] == 80 || w->ports[i] == 443);
        if (literal)
                n = (size_t)snprintf(w->text, sizeof w->text, "{cidr: \"%.64s/%s\"", w->path,
                                     family == AF_INET ? "32" : "128");
        else
                n = (size_t)snprintf(w->text, sizeof w->text, "{host: %.253s", w->path); /* value_check_host follows */
        for (size_t i = 0; !usual && i < w->port_count; i++)
                n += (size_t)snprintf(w->text + n, sizeof w->text - n, "%s%u", i == 0 ? ", ports: [" : ", ",
                                      w->ports[i]);
        (void)snprintf(w->text + n, sizeof w->text - n, "%s%s}", usual ? "" : "]", w->warn ? ", private: true" : "");
}

static const char *reason_against(enum gate_reason reason) {
        if (reason == GATE_PRIVATE)
                return "an address that is not public: the host itself, its neighbours or the metadata service";
        if (reason == GATE_NO_METHOD)
                return "its rule allows other HTTP methods";
        if (reason == GATE_NO_PATH)
                return "its rule allows other HTTP paths";
        if (reason == GATE_NO_UDP)
                return "only TCP, and questions for names, can be allowed";
        return NULL;
}

/* The wish for the same host of the same kind, so that its ports are gathered. */
static struct wish *find(struct wishes *w, const char *host, const char *why) {
        for (size_t i = 0; i < w->count; i++)
                if (w->items[i].key == WISH_ALLOW && str_eq(w->items[i].path, host) &&
                    (w->items[i].why == why || (why && w->items[i].why && str_eq(w->items[i].why, why))))
                        return &w->items[i];
        return NULL;
}

int wish_hosts(struct wishes *w, const struct learn_host *hosts, size_t count) {
        for (size_t i = 0; i < count; i++) {
                const struct learn_host *h = &hosts[i];
                uint8_t address[16];
                int family;
                bool literal = parse(h->host, &family, address);
                bool inner = h->reason == GATE_PRIVATE || (literal && special(family, address));
                /* no program asks for a pattern: a gate that says so is not to be believed */
                const char *why = strchr(h->host, '*') ? "not the name of a host"
                                                       : reason_against(inner ? GATE_PRIVATE : h->reason);
                struct wish *wish = find(w, h->host, why);

                if (!wish) {
                        wish = wish_add(w, WISH_ALLOW);
                        if (!wish)
                                return -ENOMEM;
                        wish->path = h->host;
                        wish->why = why;
                        wish->warn = inner;
                }
                *(h->port == 0 ? &wish->asked : &wish->count) += h->count;
                add_port(wish, h->port);
                if (h->reason == GATE_NO_METHOD || h->reason == GATE_NO_PATH)
                        (void)snprintf(wish->text, sizeof wish->text, "%.100s: %.31s %.160s", h->host, h->method,
                                       h->path);
                else if (h->reason == GATE_NO_UDP)
                        (void)snprintf(wish->text, sizeof wish->text, "%.100s, port %u", h->host, h->port);
                else
                        say_entry(wish, literal, family);
        }
        return 0;
}
