/* Links: netlink by hand, as in cell/net.c.
 *
 * In the near namespace every address is a local one, so the way to the far end's addresses has to be in the table of
 * local routes, where it is longer than the rest. Any other IPv4 source is then one of our own addresses to the kernel,
 * and whatever claims to come from there, ARP too, is dropped; of IPv6 the rules say the same (cell/net-nft.c). */
#include "driver/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/netlink.h"
#include "wire/gate.h"

#define TUN          "/dev/net/tun"
#define LOOPBACK     1 /* index of `lo`, in every network namespace */
#define ARP_ANNOUNCE 2 /* asks as the device's own address */

static size_t parse(int family, const char *text, uint8_t ret[16]) {
        (void)inet_pton(family, text, ret);
        return family == AF_INET ? 4 : 16;
}

/* --- messages --- */

static void put_up(struct netlink *n, unsigned index) {
        struct ifinfomsg m = {.ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};

        netlink_begin(n, RTM_NEWLINK, 0, &m, sizeof m);
}

static void put_arp(struct netlink *n) {
        size_t v4 = netlink_open(n, AF_INET), settings = netlink_open(n, IFLA_INET_CONF);

        netlink_put_u32(n, IPV4_DEVCONF_ARP_ANNOUNCE, ARP_ANNOUNCE);
        netlink_close(n, settings);
        netlink_close(n, v4);
}

/* Up, with no addresses of its own making. */
static void put_device(struct netlink *n, unsigned index, bool near, bool v6) {
        static const uint8_t no_addresses = IN6_ADDR_GEN_MODE_NONE;

        put_up(n, index);
        size_t families = netlink_open(n, IFLA_AF_SPEC);
        if (near)
                put_arp(n);
        if (v6) {
                size_t family = netlink_open(n, AF_INET6);
                netlink_put(n, IFLA_INET6_ADDR_GEN_MODE, &no_addresses, sizeof no_addresses);
                netlink_close(n, family);
        }
        netlink_close(n, families);
        netlink_want_answer(n);
}

static void put_address(struct netlink *n, unsigned index, int family, const char *text, unsigned bits) {
        uint8_t address[16];
        size_t size = parse(family, text, address);
        struct ifaddrmsg a = {.ifa_family = (uint8_t)family,
                              .ifa_prefixlen = (uint8_t)bits,
                              .ifa_scope = RT_SCOPE_UNIVERSE,
                              .ifa_index = index};

        netlink_begin(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &a, sizeof a);
        netlink_put(n, IFA_LOCAL, address, size);
        netlink_put(n, IFA_ADDRESS, address, size);
        if (family == AF_INET6)
                netlink_put_u32(n, IFA_FLAGS, IFA_F_NODAD);
}

/* To one address, over this device. */
static void put_neighbour(struct netlink *n, unsigned index, int family, const char *to) {
        uint8_t address[16];
        size_t size = parse(family, to, address);
        struct rtmsg r = {.rtm_family = (uint8_t)family,
                          .rtm_dst_len = (uint8_t)(size * 8),
                          .rtm_table = RT_TABLE_LOCAL,
                          .rtm_protocol = RTPROT_STATIC,
                          .rtm_scope = RT_SCOPE_LINK,
                          .rtm_type = RTN_UNICAST};

        netlink_begin(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &r, sizeof r);
        netlink_put(n, RTA_DST, address, size);
        netlink_put_u32(n, RTA_OIF, index);
}

static void put_default(struct netlink *n, unsigned index, int family, const char *by) {
        uint8_t address[16];
        size_t size = parse(family, by, address);
        struct rtmsg r = {.rtm_family = (uint8_t)family,
                          .rtm_table = RT_TABLE_MAIN,
                          .rtm_protocol = RTPROT_STATIC,
                          .rtm_scope = RT_SCOPE_UNIVERSE,
                          .rtm_type = RTN_UNICAST};

        netlink_begin(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &r, sizeof r);
        netlink_put(n, RTA_GATEWAY, address, size);
        netlink_put_u32(n, RTA_OIF, index);
}

/* --- both ends --- */

/* A batch whose messages after last_v4 are about IPv6, which this kernel or this namespace may not have. */
static int ask(struct netlink *n, int socket, uint32_t last_v4) {
        uint32_t failed;

        netlink_want_answer(n);
        int r = netlink_ask(n, socket, &failed);
        return failed > last_v4 && (r == -EACCES || r == -EAFNOSUPPORT || r == -EOPNOTSUPP) ? 0 : r;
}

static int set_device(int socket, unsigned index, bool near) {
        struct netlink both = {0}, plain = {0};
        uint32_t failed;

        put_device(&both, index, near, true);
        int r = netlink_ask(&both, socket, &failed);
        if (r != -EAFNOSUPPORT && r != -EOPNOTSUPP && r != -EINVAL)
                return r;
        put_device(&plain, index, near, false); /* a kernel or a namespace without IPv6 */
        return netlink_ask(&plain, socket, &failed);
}

static int set_near(const char *name) {
        struct netlink n = {0};
        unsigned index = if_nametoindex(name);
        _cleanup_fd_ int socket_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

        if (index == 0 || socket_ < 0)
                return -errno;
        int r = set_device(socket_, index, true);
        if (r < 0)
                return r;
        put_address(&n, index, AF_INET, WARD_NEAR_V4, WARD_LINK_V4);
        put_neighbour(&n, index, AF_INET, WARD_FAR_V4);
        uint32_t last_v4 = n.sequence;
        put_address(&n, index, AF_INET6, WARD_NEAR_V6, WARD_LINK_V6);
        put_address(&n, index, AF_INET6, WARD_NEAR_LINK, 64);
        put_neighbour(&n, index, AF_INET6, WARD_FAR_V6);
        put_neighbour(&n, index, AF_INET6, WARD_FAR_LINK);
        return ask(&n, socket_, last_v4);
}

/* A routing socket of another namespace, and the device's index there. */
static int open_there(int namespace, const char *name, unsigned *ret_index) {
        _cleanup_fd_ int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

        if (here < 0 || setns(namespace, CLONE_NEWNET) < 0)
                return -errno;
        int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), error = errno;
        *ret_index = if_nametoindex(name);
        if (setns(here, CLONE_NEWNET) < 0)
                _exit(125); /* what comes next must not be done there */
        if (fd >= 0 && *ret_index == 0)
                fd_close(&fd);
        return fd >= 0 ? fd : *ret_index == 0 ? -ENODEV : -error;
}

static int set_far(const char *name, int namespace) {
        struct netlink n = {0};
        unsigned index = 0;
        _cleanup_fd_ int there = open_there(namespace, name, &index);

        if (there < 0)
                return there;
        int r = set_device(there, index, false);
        if (r < 0)
                return r;
        put_up(&n, LOOPBACK);
        put_address(&n, index, AF_INET, WARD_FAR_V4, WARD_LINK_V4);
        put_default(&n, index, AF_INET, WARD_NEAR_V4);
        uint32_t last_v4 = n.sequence;
        put_address(&n, index, AF_INET6, WARD_FAR_V6, WARD_LINK_V6);
        put_address(&n, index, AF_INET6, WARD_FAR_LINK, 64);
        put_default(&n, index, AF_INET6, WARD_NEAR_V6);
        return ask(&n, there, last_v4);
}

int link_far(const char *far, int namespace, struct err *err) {
        int r = set_far(far, namespace);

        return r < 0 ? err_set(err, r, "could not set up the box's end of its link") : 0;
}

/* --- kinds --- */

static int make_namespace(void) {
        _cleanup_fd_ int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

        if (here < 0 || unshare(CLONE_NEWNET) < 0)
                return -errno;
        int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), error = errno;
        if (setns(here, CLONE_NEWNET) < 0)
                _exit(125); /* what comes next must not be done there */
        return fd < 0 ? -error : fd;
}

int link_namespace(struct err *err) {
        int fd = make_namespace();

        return fd < 0 ? err_set(err, fd, "could not make the network namespace of the box") : fd;
}

static int make_pair(const char *near, const char *far, int namespace) {
        struct ifinfomsg head = {0};
        struct netlink n = {0};
        uint32_t failed;

        netlink_begin(&n, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof head);
        netlink_put_text(&n, IFLA_IFNAME, near);
        size_t info = netlink_open(&n, IFLA_LINKINFO);
        netlink_put_text(&n, IFLA_INFO_KIND, "veth");
        size_t data = netlink_open(&n, IFLA_INFO_DATA), peer = n.size;
        netlink_put(&n, VETH_INFO_PEER, &head, sizeof head); /* attributes follow it */
        netlink_put_text(&n, IFLA_IFNAME, far);
        netlink_put_u32(&n, IFLA_NET_NS_FD, (uint32_t) namespace);
        netlink_close(&n, peer);
        netlink_close(&n, data);
        netlink_close(&n, info);
        return netlink_talk(&n, NETLINK_ROUTE, &failed);
}

int link_veth(const char *near, const char *far, int namespace, struct err *err) {
        int r = make_pair(near, far, namespace);

        if (r == -EOPNOTSUPP) {
                (void)err_set(err, ERR_UNENFORCED, "this kernel has no veth devices, which lead a box to its gate");
                return err_hint(err, "as root: modprobe veth");
        }
        if (r == 0)
                r = set_near(near);
        return r < 0 ? err_set(err, r, "could not make the link of the box") : link_far(far, namespace, err);
}

static int open_tap(const char *name, unsigned flags, uid_t owner) {
        struct ifreq request = {.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (flags & LINK_HEADERS ? IFF_VNET_HDR : 0))};
        _cleanup_fd_ int fd = open(TUN, O_RDWR | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return -errno;
        (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
        if (ioctl(fd, TUNSETIFF, &request) < 0 || (owner != (uid_t)-1 && ioctl(fd, TUNSETOWNER, owner) < 0) ||
            (flags & LINK_KEEP && ioctl(fd, TUNSETPERSIST, 1) < 0))
                return -errno;
        return TAKE_FD(fd);
}

static int no_taps(struct err *err) {
        (void)err_set(err, ERR_UNENFORCED, "this kernel has no tap devices (" TUN "), which lead a box to its gate");
        return err_hint(err, "as root: modprobe tun");
}

/* Why the kernel makes no tap, and what may help. */
static int tap_failed(int r, struct err *err) {
        if (r == -ENOENT || r == -ENODEV || r == -ENXIO)
                return no_taps(err);
        if (r == -EACCES || r == -EPERM) {
                (void)err_set(err, ERR_UNENFORCED, "the daemon may not use " TUN ", which leads a box to its gate");
                return err_hint(err, "let its service have the device, and /dev without 'nodev'");
        }
        (void)err_set(err, r, "could not make the tap of the box");
        return err_hint(err, "end sandboxes that are not needed: the host has no room for another device");
}

int link_tap(const char *name, unsigned flags, uid_t owner, struct err *err) {
        _cleanup_fd_ int fd = open_tap(name, flags, owner);

        if (fd < 0)
                return tap_failed(fd, err);
        int r = set_near(name);
        return r < 0 ? err_set(err, r, "could not make the link of the box") : TAKE_FD(fd);
}

static int lend_tap(const char *name, uid_t owner, int namespace) {
        _cleanup_fd_ int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

        if (here < 0 || setns(namespace, CLONE_NEWNET) < 0)
                return -errno;
        int fd = open_tap(name, LINK_HEADERS | LINK_KEEP, owner), r = MIN(fd, 0);
        fd_close(&fd);
        if (setns(here, CLONE_NEWNET) < 0)
                _exit(125); /* what comes next must not be done there */
        return r;
}

int link_tap_lend(const char *name, uid_t owner, int namespace, struct err *err) {
        int r = lend_tap(name, owner, namespace);

        return r < 0 ? tap_failed(r, err) : 0;
}

static int take_tap(const char *name, int namespace) {
        struct ifinfomsg m = {0};
        struct netlink n = {0};
        unsigned index = 0;
        uint32_t failed;
        _cleanup_fd_ int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC),
                         there = open_there(namespace, name, &index);

        if (here < 0 || there < 0)
                return here < 0 ? -errno : there;
        m.ifi_index = (int)index;
        netlink_begin(&n, RTM_NEWLINK, NLM_F_ACK, &m, sizeof m);
        netlink_put_u32(&n, IFLA_NET_NS_FD, (uint32_t)here);
        int r = netlink_ask(&n, there, &failed);
        return r < 0 ? r : set_near(name);
}

int link_tap_take(const char *name, int namespace, struct err *err) {
        int r = take_tap(name, namespace);

        return r < 0 ? err_set(err, r, "could not make the link of the box") : 0;
}
