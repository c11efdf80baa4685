/* A microVM's network: its one link goes to the sandbox, and nothing of it stays in the machine's own namespace. */
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>

#include "cell/netlink.h"
#include "driver/link.h"
#include "driver/vm-boot.h"

#define LINK "eth0"

static int move(unsigned index, int namespace) {
        struct ifinfomsg m = {.ifi_index = (int)index};
        struct netlink n = {0};
        uint32_t failed;

        netlink_begin(&n, RTM_NEWLINK, NLM_F_ACK, &m, sizeof m);
        netlink_put_u32(&n, IFLA_NET_NS_FD, (uint32_t) namespace);
        return netlink_talk(&n, NETLINK_ROUTE, &failed);
}

int vm_boot_link(pid_t sandbox, struct err *err) {
        char path[40];
        unsigned index = if_nametoindex(LINK);

        if (index == 0)
                return 0; /* none was given */
        (void)snprintf(path, sizeof path, "/proc/%d/ns/net", sandbox);
        _cleanup_fd_ int namespace = open(path, O_RDONLY | O_CLOEXEC);
        if (namespace < 0)
                return err_set(err, -errno, "cannot open the sandbox's network");
        int r = move(index, namespace);
        return r < 0 ? err_set(err, r, "cannot give the sandbox its link") : link_far(LINK, namespace, err);
}
