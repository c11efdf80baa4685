/* Probes: what a sandbox needs that reaches the network through its gate. Each part is made for real, in a network
 * namespace that goes with the child that made it. */
#include <sched.h>

#include "cell/host-probe.h"
#include "cell/net.h"

static int try_routes(void *argument) {
        (void)argument;
        int r = host_unshare(CLONE_NEWNET);
        return r < 0 ? r : net_routes();
}

static int try_rules(void *argument) {
        (void)argument;
        int r = host_unshare(CLONE_NEWNET);
        return r < 0 ? r : net_rules();
}

static int try_sockets(void *argument) {
        int fds[NET_SOCKETS];

        (void)argument;
        int r = host_unshare(CLONE_NEWNET);
        if (r == 0)
                r = net_routes();
        return r < 0 ? r : net_sockets(fds);
}

static const char cost[] = "network.allow, --allow and the tier high do not work: sandboxes have no network";

static void probe_routes(struct host_fact *f) {
        host_judge(f, host_try(try_routes, NULL), "every address can be led back inside", cost,
                   "a kernel with CONFIG_INET and CONFIG_IP_ADVANCED_ROUTER; in a container: allow NETLINK_ROUTE");
}

static void probe_rules(struct host_fact *f) {
        host_judge(f, host_try(try_rules, NULL), "connections can be redirected to the gate", cost,
                   "as root: modprobe -a nf_tables nft_chain_nat nft_redir nft_log nfnetlink_log");
}

static void probe_sockets(struct host_fact *f) {
        host_judge(f, host_try(try_sockets, NULL), "can be made inside and handed out", cost,
                   "as root: modprobe nfnetlink_log; in a container: allow NETLINK_NETFILTER in its seccomp profile");
}

const struct host_probe host_network_probes[] = {
        {"local default route", probe_routes, false},
        {"nftables redirect", probe_rules, false},
        {"gate sockets", probe_sockets, false},
        {NULL, NULL, false},
};
