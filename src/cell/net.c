/* OP_NETWORK: routes, sockets, and handing them out. net-nft.c has the rules, net-files.c what appears in the tree. */
#include "cell/net.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "cell/netlink.h"

#define LOOPBACK    1 /* index of `lo`, in every network namespace */
#define IS_UP       1 /* IFF_UP; the headers that name it do not go together */
#define BACKLOG     4096
#define TAP_BUFFER  (64 * 1024)
#define TAP_MESSAGE 512

/* Addresses of the sandbox itself, from the text that everybody shares. */
static size_t own_address(int family, uint8_t ret[16]) {
        (void)inet_pton(family, family == AF_INET ? WARD_OWN_V4 : WARD_OWN_V6, ret);
        return family == AF_INET ? 4 : 16;
}

static void put_address(struct netlink *n, int family, unsigned flags) {
        uint8_t own[16];
        size_t size = own_address(family, own);
        struct ifaddrmsg a = {.ifa_family = (uint8_t)family,
                              .ifa_prefixlen = (uint8_t)(size * 8),
                              .ifa_scope = RT_SCOPE_UNIVERSE, /* an address that counts: AI_ADDRCONFIG looks for one */
                              .ifa_index = LOOPBACK};

        netlink_begin(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | flags, &a, sizeof a);
        netlink_put(n, IFA_LOCAL, own, size);
        netlink_put(n, IFA_ADDRESS, own, size);
        if (family == AF_INET6)
                netlink_put_u32(n, IFA_FLAGS, IFA_F_NODAD);
}

/* Every address is here. What is sent to one comes from the sandbox's own, not from the address itself. */
static void put_route(struct netlink *n, int family, unsigned flags) {
        uint8_t own[16];
        size_t size = own_address(family, own);
        struct rtmsg r = {.rtm_family = (uint8_t)family,
                          .rtm_table = RT_TABLE_LOCAL,
                          .rtm_protocol = RTPROT_STATIC,
                          .rtm_scope = RT_SCOPE_HOST,
                          .rtm_type = RTN_LOCAL};

        netlink_begin(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | flags, &r, sizeof r);
        netlink_put_u32(n, RTA_OIF, LOOPBACK);
        netlink_put(n, RTA_PREFSRC, own, size);
}

int net_routes(void) {
        struct netlink n = {0};
        struct ifinfomsg up = {.ifi_index = LOOPBACK, .ifi_flags = IS_UP, .ifi_change = IS_UP};
        uint32_t failed, last_v4;

        netlink_begin(&n, RTM_NEWLINK, 0, &up, sizeof up);
        put_address(&n, AF_INET, 0);
        put_route(&n, AF_INET, 0);
        last_v4 = n.sequence;
        put_address(&n, AF_INET6, 0);
        put_route(&n, AF_INET6, NLM_F_ACK);

        int r = netlink_talk(&n, NETLINK_ROUTE, &failed);
        /* IPv6 is not in this kernel or switched off: then there is no way to send any, and nothing to lead */
        if (failed > last_v4 && (r == -EACCES || r == -EAFNOSUPPORT || r == -EOPNOTSUPP))
                return 0;
        return r;
}

static int set(int fd, int level, int name, int value) {
        return setsockopt(fd, level, name, &value, sizeof value) < 0 ? -errno : 0;
}

/* A socket for both families on every address, or for IPv4 alone where there is no other. Nobody can share its port:
 * nothing inside can take over what is meant for the gate. */
static int open_any(int type, uint16_t port) {
        struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
        struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        bool both = true;
        _cleanup_fd_ int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 && errno == EAFNOSUPPORT) {
                both = false;
                fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        }
        if (fd < 0)
                return -errno;
        int r = both ? set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) : 0;
        /* answers have to come from the address that was asked */
        if (r == 0 && type == SOCK_DGRAM)
                r = set(fd, IPPROTO_IP, IP_PKTINFO, 1);
        if (r == 0 && type == SOCK_DGRAM && both)
                r = set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
        /* connections of an earlier gate may still be ending. Never for datagrams: others could take the port too */
        if (r == 0 && type == SOCK_STREAM)
                r = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if (r < 0)
                return r;
        if ((both ? bind(fd, (struct sockaddr *)&any6, sizeof any6) : bind(fd, (struct sockaddr *)&any4, sizeof any4)) <
            0)
                return -errno;
        if (type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int open_proxy(void) {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(WARD_PROXY_PORT)};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || inet_pton(AF_INET, WARD_OWN_V4, &own.sin_addr) != 1 || set(fd, SOL_SOCKET, SO_REUSEADDR, 1) < 0 ||
            bind(fd, (struct sockaddr *)&own, sizeof own) < 0 || listen(fd, BACKLOG) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Hears of what no rule leads anywhere: the beginning of the first packet of each such flow, as the last rule logs it.
 * (A packet socket would look at every packet of the sandbox, and whoever closes the last descriptor of one waits for
 * every processor of the host.) */
static int open_tap(void) {
        struct netlink n = {0};
        struct nfgenmsg group = {.version = NFNETLINK_V0, .res_id = htons(NET_TAP_GROUP)};
        struct nfulnl_msg_config_cmd bind_group = {.command = NFULNL_CFG_CMD_BIND};
        uint32_t failed;
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);

        if (fd < 0)
                return -errno;
        netlink_begin(&n, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, &group, sizeof group);
        netlink_put(&n, NFULA_CFG_CMD, &bind_group, sizeof bind_group);
        netlink_put_be32(&n, NFULA_CFG_NLBUFSIZ, TAP_MESSAGE);
        netlink_put_be32(&n, NFULA_CFG_QTHRESH, 1); /* at once */
        int r = set(fd, SOL_SOCKET, SO_RCVBUF, TAP_BUFFER);
        if (r == 0)
                r = set(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, 1); /* what does not fit is not there */
        if (r == 0)
                r = netlink_ask(&n, fd, &failed);
        return r < 0 ? r : TAKE_FD(fd);
}

static void close_all(int *fds, size_t count) {
        for (size_t i = 0; i < count; i++)
                fd_close(&fds[i]);
}

int net_sockets(int ret[NET_SOCKETS]) {
        int fds[NET_SOCKETS];

        fds[GATE_TCP] = open_any(SOCK_STREAM, WARD_TCP_PORT);
        fds[GATE_DNS] = open_any(SOCK_DGRAM, WARD_DNS_PORT);
        fds[GATE_DNS_TCP] = open_any(SOCK_STREAM, WARD_DNS_PORT);
        fds[GATE_PROXY] = open_proxy();
        fds[GATE_TAP] = open_tap();
        for (size_t i = 0; i < NET_SOCKETS; i++)
                if (fds[i] < 0) {
                        int r = fds[i];
                        close_all(fds, NET_SOCKETS);
                        return r;
                }
        memcpy(ret, fds, sizeof fds);
        return 0;
}

int net_step(struct cell_context *c, const struct plan_step *s) {
        struct report report = {.kind = REPORT_NETWORK};
        int fds[NET_FDS];

        int r = net_routes();
        if (r == 0)
                r = c->box ? net_gateway_rules() : net_rules();
        if (r == 0)
                r = net_sockets(fds);
        if (r < 0)
                return r;
        fds[GATE_DENIALS] = net_files(c, s->text[0], s->flags & STEP_TRUST);
        r = fds[GATE_DENIALS] < 0 ? fds[GATE_DENIALS] : cell_send(c->report, &report, fds, NET_FDS);
        close_all(fds, NET_FDS);
        return r;
}
