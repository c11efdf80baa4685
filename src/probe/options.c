/* Attempts on the network without sending anything: what can be learned about the host's, options of sockets that only
 * a privileged program may set, and other ways to change an interface or a firewall.
 *
 * Nothing is changed: options are set on sockets of our own, an interface gets the flags that it has. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#ifndef IP_TRANSPARENT
#define IP_TRANSPARENT 19
#endif
#ifndef NETLINK_LISTEN_ALL_NSID
#define NETLINK_LISTEN_ALL_NSID 8
#endif

/* An address that the judge named, with this port; false and a note if it did not. */
static bool address_of(struct result *r, const char *key, unsigned long port, struct sockaddr_in *ret) {
        const char *text = probe_fact(key);

        *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (text && inet_pton(AF_INET, text, &ret->sin_addr) == 1)
                return true;
        probe_note(r, "no %s=ADDRESS given", key);
        return false;
}

/* The host's sockets and routes in the tables of /proc/net: the judge's port is in one of them. */
static void tables(struct result *r) {
        static const char *const names[] = {"tcp", "tcp6", "udp", "udp6"};
        unsigned long tcp = probe_number("tcp-port", 0), udp = probe_number("udp-port", 0);
        char line[512], path[64], want[2][24];
        int error = ENOENT;

        if (tcp == 0 || udp == 0) {
                probe_note(r, "no tcp-port=N or udp-port=N given");
                return;
        }
        (void)snprintf(want[0], sizeof want[0], ":%04lX ", tcp);
        (void)snprintf(want[1], sizeof want[1], ":%04lX ", udp);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(path, sizeof path, "/proc/net/%s", names[i]);
                FILE *f = fopen(path, "re");
                if (!f)
                        error = errno;
                while (f && fgets(line, sizeof line, f))
                        if (strstr(line, want[i / 2]) && r->outcome != DONE)
                                probe_done(r, "%s shows port %lu of the host", path, i < 2 ? tcp : udp);
                if (f)
                        (void)fclose(f);
        }
        if (r->outcome != DONE)
                probe_refused(r, error, "no socket of the host is listed");
}

/* To be who the host is. */
static void bind_host(struct result *r) {
        struct sockaddr_in a;
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (address_of(r, "host-address", 0, &a))
                probe_call(r, fd < 0 ? -1 : bind(fd, (struct sockaddr *)&a, sizeof a));
}

/* To hear what the neighbours announce. */
static void multicast_join(struct result *r) {
        struct sockaddr_in a;
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (!address_of(r, "host-address", 0, &a))
                return;
        struct ip_mreq ask = {.imr_interface = a.sin_addr, .imr_multiaddr.s_addr = htonl(0xe00000fb)};
        probe_call(r, fd < 0 ? -1 : setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &ask, sizeof ask));
}

/* Asks which way a packet would go, and sends none. */
static void route_lookup(struct result *r) {
        struct sockaddr_in a;
        struct {
                struct nlmsghdr header;
                struct rtmsg route;
                struct rtattr attribute;
                struct in_addr to;
        } ask = {.header = {.nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST},
                 .route = {.rtm_family = AF_INET, .rtm_dst_len = 32},
                 .attribute = {.rta_len = RTA_LENGTH(sizeof(struct in_addr)), .rta_type = RTA_DST}};
        union {
                struct nlmsghdr header;
                char room[2048];
        } answer;
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

        if (!address_of(r, "other-address", 0, &a))
                return;
        ask.to = a.sin_addr;
        if (fd < 0 || send(fd, &ask, sizeof ask, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        if (answer.header.nlmsg_type == NLMSG_ERROR)
                probe_answer(r, ((const struct nlmsgerr *)NLMSG_DATA(&answer.header))->error);
        else
                probe_done(r, "there is a way");
}

/* Marks that choose another route or pass a firewall, foreign addresses, forged connections. */
static void privileged_options(struct result *r) {
        static const struct {
                int level, option, value;
                const char *name;
        } list[] = {{SOL_SOCKET, SO_MARK, 1, "SO_MARK"},
                    {SOL_SOCKET, SO_PRIORITY, 7, "SO_PRIORITY"},
                    {SOL_SOCKET, SO_RCVBUFFORCE, 65536, "SO_RCVBUFFORCE"},
                    {SOL_SOCKET, SO_DEBUG, 1, "SO_DEBUG"},
                    {IPPROTO_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT"},
                    {IPPROTO_TCP, TCP_REPAIR, 1, "TCP_REPAIR"}};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int error = EPERM;
        unsigned worked = 0;

        for (size_t i = 0; i < ELEMENTSOF(list); i++)
                if (setsockopt(fd, list[i].level, list[i].option, &list[i].value, sizeof list[i].value) == 0) {
                        worked++;
                        probe_note(r, "%s", list[i].name);
                } else
                        error = errno;
        if (worked)
                probe_done(r, "%u of %zu could be set", worked, ELEMENTSOF(list));
        else
                probe_refused(r, error, "%s", strerror(error));
}

/* An interface by ioctl: the flags that it has. */
static void interface_ioctl(struct result *r) {
        struct ifreq ask = {.ifr_name = "lo"};
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ask) < 0)
                probe_note(r, "no flags of lo: %s", strerror(errno));
        else
                probe_call(r, ioctl(fd, SIOCSIFFLAGS, &ask));
}

/* To hear what happens in network namespaces other than ours. */
static void all_namespaces(struct result *r) {
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        int on = 1;

        probe_call(r, fd < 0 ? -1 : setsockopt(fd, SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, &on, sizeof on));
}

/* The kernel takes 32 bits of each argument: what is above must not hide a family. */
static void high_bits(struct result *r) {
        long above = 1L << 32, generic = 16;

        probe_call(r, syscall(SYS_socket, above | AF_NETLINK, above | SOCK_RAW | SOCK_CLOEXEC, above | generic));
}

/* The firewall in the old way: a table without entries is refused after it was looked at who asks. A kernel that has no
 * such tables says ENOPROTOOPT to everybody. */
static void firewall(struct result *r) {
        enum { IPT_SO_SET_REPLACE = 64 };
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char nothing[128] = {0};

        if (fd < 0)
                return;
        long value = setsockopt(fd, IPPROTO_IP, IPT_SO_SET_REPLACE, nothing, sizeof nothing);
        if (value < 0 && errno == ENOPROTOOPT)
                probe_refused(r, ENOPROTOOPT, "%s", strerror(ENOPROTOOPT));
        else
                probe_gate(r, value);
}

/* The host's logs: whoever may connect may write lines in anybody's name. Nothing is said. A listener of the judge's
 * that is of another type stands for them where there are none. */
static void log_socket(struct result *r) {
        const char *const paths[] = {"/dev/log", "/run/systemd/journal/dev-log", "/run/systemd/journal/socket",
                                     "/run/systemd/notify",
                                     probe_fact("unix-path") ? probe_fact("unix-path") : "/nonexistent"};
        int error = ENOENT;

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                struct sockaddr_un a = {.sun_family = AF_UNIX};
                _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

                (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", paths[i]);
                if (fd >= 0 && (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || errno == EPROTOTYPE)) {
                        probe_done(r, "%s can be reached", paths[i]);
                        return;
                }
                if (errno != ENOENT)
                        error = errno;
        }
        probe_refused(r, error, "%s", strerror(error));
}

const struct attempt options_attempts[] = {
        {"net-tables", tables, QUICK},
        {"bind-host-address", bind_host, QUICK},
        {"multicast-join", multicast_join, QUICK},
        {"route-lookup", route_lookup, QUICK},
        {"socket-options", privileged_options, QUICK},
        {"interface-ioctl", interface_ioctl, QUICK},
        {"netlink-all", all_namespaces, QUICK},
        {"socket-high-bits", high_bits, QUICK},
        {"firewall-tables", firewall, QUICK},
        {"log-socket", log_socket, QUICK},
        {0},
};
