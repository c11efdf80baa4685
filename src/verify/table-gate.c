/* Attempts in a sandbox that has a network, by rules that the judge gives it: to reach what they do not allow, to carry
 * data out in names, to say one thing and have another happen. All are judged by what servers outside heard.
 * The columns are those of struct check. */
#include "verify/scene-gate.h"
#include "verify/table.h"

/* One of those that share a run. */
#define ROW(name, does, layers)                                                                                        \
        {                                                                                                              \
                name, GROUP_NETWORK, does, layers, NULL, CONTROL_SCENE, .needs = NEEDS_RULES, .flags = CHECK_QUICK,    \
                                                                        .scene = scene_gate                            \
        }
/* One that has a run of its own. */
#define RUN(name, does, layers, function)                                                                              \
        { name, GROUP_NETWORK, does, layers, NULL, CONTROL_SCENE, .needs = NEEDS_RULES, .scene = function }

const struct check table_gate[] = {
        ROW("gate-other-name", "reach a name that no rule has, by every door of the gate", L(GATE)),
        ROW("gate-silent", "connect anywhere and say nothing, and ask for names that say nothing", L(GATE)),
        ROW("gate-other-port", "reach the allowed name on other ports", L(GATE)),
        ROW("gate-literal-v4", "connect to IPv4 addresses, past the proxy", L(GATE)),
        ROW("gate-literal-v6", "connect to IPv6 addresses, past the proxy", L(GATE)),
        ROW("gate-number-forms", "name a server by decimal, octal and hexadecimal numbers", L(GATE)),
        ROW("gate-metadata", "reach the metadata service of a cloud", L(GATE)),
        ROW("gate-private", "reach a private address", L(GATE)),
        ROW("gate-host-loopback", "reach the host's loopback through the proxy", L(GATE)),
        ROW("gate-host-address", "reach the host by its own addresses", L(GATE)),
        ROW("gate-private-answer", "reach private addresses that an allowed name resolves to", L(GATE)),
        ROW("gate-mixed-answer", "reach the private one among an allowed name's addresses", L(GATE)),
        ROW("gate-redirect", "follow an allowed server's redirect to the metadata service", L(GATE)),
        ROW("gate-relay", "have another process of the sandbox relay", L(GATE)),
        ROW("gate-odd-streams", "connect by fast open, source routes, foreign sources, multipath", L(GATE)),
        ROW("gate-own-sockets", "ask the gate's own sockets directly", L(GATE)),
        ROW("gate-datagrams", "send datagrams anywhere: QUIC, time, others", L(NETNS)),
        ROW("gate-wrong-protocol", "speak something else on the ports of TLS and HTTP", L(GATE)),
        ROW("gate-paths", "use methods and paths that the rule does not have", L(GATE)),
        ROW("dns-library", "carry data out in a name that the library looks up", L(GATE)),
        ROW("dns-datagram", "ask any name server for it over UDP", L(GATE)),
        ROW("dns-stream", "ask any name server for it over TCP", L(GATE)),
        ROW("dns-types", "ask for TXT, NULL, ANY, PTR and other types", L(NETNS)),
        ROW("dns-long-names", "ask for names full of data and odd bytes", L(GATE)),
        ROW("dns-below-allowed", "ask for data below the allowed name", L(GATE)),
        ROW("dns-junk", "send name servers what is no question", L(NETNS)),
        ROW("dns-over-tls", "speak to the port of DNS over TLS", L(GATE)),
        ROW("dns-proxy", "carry data out in a name that the proxy resolves", L(GATE)),
        ROW("host-spelled-connect", "CONNECT to spellings that two parsers read differently", L(GATE)),
        ROW("host-spelled-absolute", "the same spellings in absolute form", L(GATE)),
        ROW("host-spelled-socks", "the same spellings by SOCKS5, and zeros in names", L(GATE)),
        ROW("host-spelled-header", "the same spellings in Host, on an allowed connection", L(GATE)),
        ROW("host-other", "name another host, none or two on an allowed connection", L(GATE)),
        ROW("host-keep-alive", "send a second request for another host", L(GATE)),
        ROW("connect-pipelined", "send on before the proxy has answered CONNECT", L(GATE)),
        ROW("request-smuggled", "hide a request behind another's disputed end", L(GATE)),
        ROW("http-upgrade", "leave HTTP/1.1 for what is not compared", L(GATE)),
        ROW("sni-other", "name another server, none or two in a TLS hello", L(GATE)),
        ROW("sni-fragments", "the same hello in many records and packets", L(GATE)),
        ROW("sni-tunnel", "the same hello through the proxy", L(GATE)),
        RUN("gate-rebind", "reach the loopback by a name that changes its address", L(GATE), scene_gate_rebind),
        RUN("gate-empty", "reach anything where the list of rules is empty", L(NETNS), scene_gate_empty),
        RUN("gate-killed", "reach another name while the gate is killed", L(GATE), scene_gate_killed),
        RUN("gate-live", "reach another name while the rules become garbage", L(GATE), scene_gate_live),
        RUN("gate-connections", "have more connections than limits.connections", L(GATE), scene_gate_connections),
        RUN("gate-egress", "send more bytes than budget.egress", L(GATE), scene_gate_egress),
        RUN("gate-inbound", "have the host or a sibling come in by an open port", L(NETNS), scene_gate_inbound),
        RUN("gate-secret", "find a secret that the gate keeps, or have it sent elsewhere", L(GATE) | L(ENV),
            scene_gate_secret),
};
const size_t table_gate_count = ELEMENTSOF(table_gate);
