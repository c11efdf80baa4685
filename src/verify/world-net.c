/* Two network namespaces and a cable: near is the judge's host, far stands for everything else there is.
 *
 * Near sends whatever is not its own to far, and far takes every address as its own: whatever leaves a sandbox for
 * whatever place arrives at a listener. Neither has another interface than lo and its end of the cable, so nothing can
 * go further. Netlink messages are written by hand, one at a time, into a fixed buffer. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/world-own.h"

struct message {
        _Alignas(struct nlmsghdr) uint8_t bytes[512];
        size_t size;
};

/* Room for size bytes, zeroed. The longest message is a third of the buffer: anything else is a mistake of ours. */
static void *grow(struct message *m, size_t size) {
        void *p = m->bytes + m->size;

        assert(NLMSG_ALIGN(size) <= sizeof m->bytes - m->size);
        memset(p, 0, NLMSG_ALIGN(size));
        m->size += NLMSG_ALIGN(size);
        return p;
}

static void begin(struct message *m, unsigned type, unsigned flags, const void *header, size_t size) {
        m->size = 0;
        struct nlmsghdr *h = grow(m, sizeof *h);
        h->nlmsg_type = (uint16_t)type;
        h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
        memcpy(grow(m, size), header, size);
}

static void put(struct message *m, unsigned type, const void *data, size_t size) {
        uint8_t *p = grow(m, sizeof(struct rtattr) + size);
        struct rtattr a = {.rta_len = (uint16_t)(sizeof a + size), .rta_type = (uint16_t)type};

        memcpy(p, &a, sizeof a);
        if (size > 0)
                memcpy(p + sizeof a, data, size);
}

static size_t open_nest(struct message *m, unsigned type) {
        size_t at = m->size;

        put(m, type, NULL, 0);
        return at;
}

static void close_nest(struct message *m, size_t at) {
        struct rtattr a;

        memcpy(&a, m->bytes + at, sizeof a);
        a.rta_len = (uint16_t)(m->size - at);
        memcpy(m->bytes + at, &a, sizeof a);
}

/* Sends it in the namespace that we are in, and hears what became of it. */
static int talk(struct message *m) {
        struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
        struct {
                struct nlmsghdr header;
                struct nlmsgerr error;
        } answer;
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

        if (fd < 0)
                return -errno;
        ((struct nlmsghdr *)(void *)m->bytes)->nlmsg_len = (uint32_t)m->size;
        if (sendto(fd, m->bytes, m->size, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
                return -errno;
        ssize_t n = recv(fd, &answer, sizeof answer, 0);
        if (n < 0)
                return -errno;
        if ((size_t)n < offsetof(__typeof__(answer), error.msg) || answer.header.nlmsg_type != NLMSG_ERROR)
                return -EPROTO;
        return answer.error.error;
}

/* near here, far in the other namespace. */
static int add_cable(int far) {
        struct message m;
        struct ifinfomsg link = {.ifi_family = AF_UNSPEC};

        begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof link);
        put(&m, IFLA_IFNAME, "near", sizeof "near");
        size_t info = open_nest(&m, IFLA_LINKINFO);
        put(&m, IFLA_INFO_KIND, "veth", sizeof "veth" - 1);
        size_t data = open_nest(&m, IFLA_INFO_DATA), peer = open_nest(&m, VETH_INFO_PEER);
        memcpy(grow(&m, sizeof link), &link, sizeof link);
        put(&m, IFLA_IFNAME, "far", sizeof "far");
        put(&m, IFLA_NET_NS_FD, &far, sizeof far);
        close_nest(&m, peer);
        close_nest(&m, data);
        close_nest(&m, info);
        return talk(&m);
}

static int set_up(const char *name) {
        struct message m;
        struct ifinfomsg link = {.ifi_family = AF_UNSPEC,
                                 .ifi_index = (int)if_nametoindex(name),
                                 .ifi_flags = IFF_UP,
                                 .ifi_change = IFF_UP};

        begin(&m, RTM_NEWLINK, 0, &link, sizeof link);
        return talk(&m);
}

/* An address as the kernel has it. Returns its size. */
static size_t parse(int family, const char *text, uint8_t ret[16]) {
        return inet_pton(family, text, ret) != 1 ? 0 : family == AF_INET ? 4 : 16;
}

static int add_address(const char *name, int family, const char *text) {
        struct message m;
        uint8_t address[16];
        size_t n = parse(family, text, address);
        struct ifaddrmsg a = {.ifa_family = (uint8_t)family,
                              .ifa_prefixlen = (uint8_t)(8 * n),
                              .ifa_flags = IFA_F_NODAD, /* there is nobody else: usable at once */
                              .ifa_index = if_nametoindex(name)};

        begin(&m, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &a, sizeof a);
        put(&m, IFA_LOCAL, address, n);
        put(&m, IFA_ADDRESS, address, n);
        return talk(&m);
}

/* to NULL: everything. via NULL: it is at the other end. type RTN_LOCAL: it is here. */
static int add_route(const char *name, int family, unsigned type, const char *to, const char *via) {
        struct message m;
        uint8_t address[16];
        uint32_t index = if_nametoindex(name);
        size_t n = to ? parse(family, to, address) : 0;
        struct rtmsg r = {.rtm_family = (uint8_t)family,
                          .rtm_dst_len = (uint8_t)(8 * n),
                          .rtm_table = RT_TABLE_MAIN,
                          .rtm_protocol = RTPROT_STATIC,
                          .rtm_scope = type == RTN_LOCAL ? RT_SCOPE_HOST
                                       : via             ? RT_SCOPE_UNIVERSE
                                                         : RT_SCOPE_LINK,
                          .rtm_type = (uint8_t)type};

        begin(&m, RTM_NEWROUTE, NLM_F_CREATE, &r, sizeof r);
        if (n > 0)
                put(&m, RTA_DST, address, n);
        n = via ? parse(family, via, address) : 0;
        if (n > 0)
                put(&m, RTA_GATEWAY, address, n);
        put(&m, RTA_OIF, &index, sizeof index);
        return talk(&m);
}

static int arrange_near(int family) {
        const char *own = family == AF_INET ? WORLD_NEAR : WORLD_NEAR6;
        const char *other = family == AF_INET ? WORLD_FAR : WORLD_FAR6;

        int r = add_address("near", family, own);
        if (r == 0)
                r = add_route("near", family, RTN_UNICAST, other, NULL);
        return r == 0 ? add_route("near", family, RTN_UNICAST, NULL, other) : r;
}

/* Every address is far's own. The one exception, the way back, is more specific and therefore wins. */
static int arrange_far(int family) {
        const char *own = family == AF_INET ? WORLD_FAR : WORLD_FAR6;
        const char *other = family == AF_INET ? WORLD_NEAR : WORLD_NEAR6;

        int r = add_address("far", family, own);
        if (r == 0)
                r = add_route("far", family, RTN_UNICAST, other, NULL);
        return r == 0 ? add_route("lo", family, RTN_LOCAL, NULL, NULL) : r;
}

/* No addresses but ours, and nothing that comes up by and by: the host is to stay as it is from now on. */
static void quiet(const char *name) {
        char path[64];

        (void)snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/addr_gen_mode", name);
        (void)fd_write_at(AT_FDCWD, path, "1");
        (void)snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/accept_ra", name);
        (void)fd_write_at(AT_FDCWD, path, "0");
}

/* *v6 becomes false where this host has no IPv6. */
static int arrange_all(int near, int far, bool *v6) {
        int r = add_cable(far);

        if (r == 0 && setns(far, CLONE_NEWNET) < 0)
                return -errno;
        if (r == 0)
                r = set_up("lo");
        quiet("far");
        if (r == 0)
                r = set_up("far");
        if (r == 0)
                r = arrange_far(AF_INET);
        *v6 = *v6 && r == 0 && arrange_far(AF_INET6) == 0;
        if (setns(near, CLONE_NEWNET) < 0)
                return -errno;
        quiet("near");
        if (r == 0)
                r = set_up("near");
        if (r == 0)
                r = arrange_near(AF_INET);
        *v6 = *v6 && r == 0 && arrange_near(AF_INET6) == 0;
        return r;
}

/* A cable is noticed up to a second after both ends are up; since Linux 6.8 at once when somebody asks. */
void world_net_settle(void) {
        struct message m;
        struct ifinfomsg about = {.ifi_family = AF_UNSPEC, .ifi_index = (int)if_nametoindex("near")};
        struct ifreq link = {.ifr_name = "near"};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        begin(&m, RTM_GETLINK, 0, &about, sizeof about);
        (void)talk(&m); /* it answers at length, which nobody reads */
        for (int i = 0; i < 3000 && fd >= 0; i++) {
                if (ioctl(fd, SIOCGIFFLAGS, &link) < 0 || link.ifr_flags & IFF_RUNNING)
                        return;
                (void)usleep(1000);
        }
}

/* Anyone here may ping, as on most hosts. A namespace that is new allows it to nobody. */
static void allow_ping(void) {
        char text[48];
        bool root = geteuid() == 0;

        (void)snprintf(text, sizeof text, "%u %u", root ? 0 : getegid(), root ? 2147483647 : getegid());
        (void)fd_write_at(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", text);
}

int world_net_make(int *ret_far, bool *ret_v6, struct err *err) {
        _cleanup_fd_ int near = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        bool v6 = access("/proc/net/if_inet6", F_OK) == 0;

        int r = near < 0 ? -errno : set_up("lo");
        if (r < 0)
                return err_set(err, r, "could not bring up loopback in a network namespace");
        allow_ping();
        if (unshare(CLONE_NEWNET) < 0)
                return err_set(err, -errno, "could not make a second network namespace");
        _cleanup_fd_ int far = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        r = far < 0 ? -errno : 0;
        if (setns(near, CLONE_NEWNET) < 0 || r < 0)
                return err_set(err, r < 0 ? r : -errno, "could not come back from a network namespace");
        r = arrange_all(near, far, &v6);
        if (r < 0)
                return err_set(err, r, "could not connect two network namespaces");
        *ret_far = TAKE_FD(far);
        *ret_v6 = v6;
        return 0;
}
