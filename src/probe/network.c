/* Attempts to reach something over a socket. The judge listens at every address given here and counts what arrives;
 * a connection sends token=… so that it can be told from a stranger's. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
};

static const char *token(void) {
        static char text[200];

        (void)snprintf(text, sizeof text, "%s %s\n", probe_fact("token") ? probe_fact("token") : "probe", probe_name());
        return text;
}

static socklen_t parse(const char *text, unsigned long port, union address *a) {
        memset(a, 0, sizeof *a);
        if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
                a->v4.sin_family = AF_INET;
                a->v4.sin_port = htons((uint16_t)port);
                return sizeof a->v4;
        }
        if (inet_pton(AF_INET6, text, &a->v6.sin6_addr) == 1) {
                a->v6.sin6_family = AF_INET6;
                a->v6.sin6_port = htons((uint16_t)port);
                return sizeof a->v6;
        }
        return 0;
}

/* Connects within a second and says the token. */
static void deliver(struct result *r, const char *text, unsigned long port, bool fast) {
        union address a;

        if (port == 0) {
                probe_note(r, "no port given");
                return;
        }
        socklen_t n = parse(text, port, &a);
        _cleanup_fd_ int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (n == 0 || fd < 0) {
                probe_refused(r, errno, "socket: %s", strerror(errno));
                return;
        }
        if (fast) {
                ssize_t sent = sendto(fd, token(), strlen(token()), MSG_FASTOPEN, &a.any, n);
                if (sent < 0 && errno != EINPROGRESS) {
                        probe_refused(r, errno, "sendto: %s", strerror(errno));
                        return;
                }
        } else if (connect(fd, &a.any, n) < 0 && errno != EINPROGRESS) {
                probe_refused(r, errno, "connect: %s", strerror(errno));
                return;
        }
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int error = ETIMEDOUT;
        socklen_t size = sizeof error;
        if (poll(&p, 1, 1000) > 0)
                (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
                probe_refused(r, error, "connect: %s", strerror(error));
                return;
        }
        (void)send(fd, token(), strlen(token()), MSG_NOSIGNAL);
        probe_done(r, "connected to %s port %lu", text, port);
}

/* Sends the token and waits a moment for the judge's answer: that a datagram went off says nothing. */
static void datagram(struct result *r, const char *text, unsigned long port) {
        union address a;
        char answer[16];

        if (port == 0) {
                probe_note(r, "no port given");
                return;
        }
        socklen_t n = parse(text, port, &a);
        _cleanup_fd_ int fd = socket(a.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (n == 0 || fd < 0 || connect(fd, &a.any, n) < 0 || send(fd, token(), strlen(token()), 0) < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 150) <= 0)
                probe_refused(r, ETIMEDOUT, "no answer");
        else if (recv(fd, answer, sizeof answer, 0) < 0)
                probe_refused(r, errno, "%s", strerror(errno));
        else
                probe_done(r, "%s answered", text);
}

static void to_fact(struct result *r, const char *address_key, const char *port_key) {
        const char *address = probe_fact(address_key);

        if (!address || !probe_fact(port_key))
                probe_note(r, "no %s=ADDRESS or %s=PORT given", address_key, port_key);
        else
                deliver(r, address, probe_number(port_key, 0), false);
}

static void tcp_v4(struct result *r) {
        deliver(r, "127.0.0.1", probe_number("tcp-port", 0), false);
}

static void tcp_v6(struct result *r) {
        deliver(r, "::1", probe_number("tcp-port", 0), false);
}

static void tcp_mapped(struct result *r) {
        deliver(r, "::ffff:127.0.0.1", probe_number("tcp-port", 0), false);
}

static void tcp_any(struct result *r) {
        deliver(r, "0.0.0.0", probe_number("tcp-port", 0), false);
}

static void tcp_host(struct result *r) {
        to_fact(r, "host-address", "tcp-port");
}

static void tcp_other(struct result *r) {
        to_fact(r, "other-address", "other-port");
}

static void tcp_fastopen(struct result *r) {
        deliver(r, "127.0.0.1", probe_number("tcp-port", 0), true);
}

static void udp_v4(struct result *r) {
        datagram(r, "127.0.0.1", probe_number("udp-port", 0));
}

static void udp_v6(struct result *r) {
        datagram(r, "::1", probe_number("udp-port", 0));
}

static void udp_other(struct result *r) {
        const char *address = probe_fact("other-address");

        if (!address)
                probe_note(r, "no other-address=ADDRESS given");
        else
                datagram(r, address, probe_number("other-udp-port", 0));
}

static void udp_multicast(struct result *r) {
        datagram(r, "224.0.0.251", probe_number("udp-port", 0));
}

static void unix_connect(struct result *r, const struct sockaddr_un *a, socklen_t n) {
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)a, n) < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        (void)send(fd, token(), strlen(token()), MSG_NOSIGNAL);
        probe_done(r, "connected");
}

static void unix_path(struct result *r) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        const char *path = probe_fact("unix-path");

        (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path ? path : "/nonexistent");
        unix_connect(r, &a, sizeof a);
}

static void unix_abstract(struct result *r) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        const char *name = probe_fact("unix-abstract");
        int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", name ? name : "nobody");

        unix_connect(r, &a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
}

static void known_sockets(struct result *r) {
        static const char *const paths[] = {"/run/docker.sock",
                                            "/var/run/docker.sock",
                                            "/run/containerd/containerd.sock",
                                            "/run/dbus/system_bus_socket",
                                            "/run/systemd/private",
                                            "/run/udev/control",
                                            "/run/systemd/journal/stdout",
                                            "/run/stockade/api",
                                            "/tmp/.X11-unix/X0"};
        int error = ENOENT, there = 0;

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                struct sockaddr_un a = {.sun_family = AF_UNIX};
                (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", paths[i]);
                struct stat st;
                there += stat(paths[i], &st) == 0;
                _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
                        probe_done(r, "connected to %s", paths[i]);
                        return;
                }
                if (errno != ENOENT)
                        error = errno;
        }
        probe_refused(r, error, "%d of them exist here", there);
}

struct family {
        int family, type, protocol;
        const char *name;
};

/* Sockets that nobody inside needs. Making one is enough to be open. */
static void make_sockets(struct result *r, const struct family *list, size_t count) {
        int error = EAFNOSUPPORT;
        unsigned made = 0;

        for (size_t i = 0; i < count; i++) {
                int fd = socket(list[i].family, list[i].type | SOCK_CLOEXEC, list[i].protocol);
                if (fd >= 0) {
                        (void)close(fd);
                        made++;
                        probe_note(r, "%s", list[i].name);
                } else
                        error = errno;
        }
        if (made)
                probe_done(r, "%u of %zu could be made", made, count);
        else
                probe_refused(r, error, "none of %zu: %s", count, strerror(error));
}

/* Outside a sandbox a family that is not there yet would be loaded, and stay. */
static bool is_loaded(struct result *r, const char *protocol) {
        char text[8192] = "";

        if (!probe_guard())
                return true;
        (void)fd_read_at(AT_FDCWD, "/proc/net/protocols", text, sizeof text);
        for (const char *at = text; (at = strstr(at, protocol)); at++)
                if ((at == text || at[-1] == '\n') && at[strlen(protocol)] == ' ')
                        return true;
        probe_note(r, "would load a module of the host's");
        return false;
}

static void vsock(struct result *r) {
        static const struct family list[] = {{AF_VSOCK, SOCK_STREAM, 0, "vsock stream"},
                                             {AF_VSOCK, SOCK_DGRAM, 0, "vsock datagram"}};

        if (is_loaded(r, "AF_VSOCK"))
                make_sockets(r, list, ELEMENTSOF(list));
}

static void raw_sockets(struct result *r) {
        static const struct family list[] = {{AF_INET, SOCK_RAW, IPPROTO_ICMP, "raw icmp"},
                                             {AF_INET6, SOCK_RAW, 58, "raw icmp6"},
                                             {AF_INET, SOCK_RAW, IPPROTO_RAW, "raw"}};

        make_sockets(r, list, ELEMENTSOF(list));
}

static void ping_socket(struct result *r) {
        static const struct family list[] = {{AF_INET, SOCK_DGRAM, IPPROTO_ICMP, "ping"},
                                             {AF_INET6, SOCK_DGRAM, 58, "ping6"}};

        make_sockets(r, list, ELEMENTSOF(list));
}

static void packet_socket(struct result *r) {
        static const struct family list[] = {{AF_PACKET, SOCK_RAW, 0, "packet raw"},
                                             {AF_PACKET, SOCK_DGRAM, 0, "packet datagram"}};

        if (is_loaded(r, "PACKET"))
                make_sockets(r, list, ELEMENTSOF(list));
}

static void odd_families(struct result *r) {
        static const struct family list[] = {
                {3, SOCK_DGRAM, 0, "ax25"},
                {4, SOCK_DGRAM, 0, "ipx"},
                {5, SOCK_DGRAM, 0, "appletalk"},
                {9, SOCK_SEQPACKET, 0, "x25"},
                {15, SOCK_RAW, 2, "key"},
                {21, SOCK_SEQPACKET, 0, "rds"},
                {24, SOCK_STREAM, 0, "pppox"},
                {26, SOCK_STREAM, 0, "llc"},
                {29, SOCK_RAW, 1, "can"},
                {30, SOCK_STREAM, 0, "tipc"},
                {31, SOCK_RAW, 1, "bluetooth"},
                {33, SOCK_DGRAM, 2, "rxrpc"},
                {35, SOCK_DGRAM, 0, "phonet"},
                {36, SOCK_DGRAM, 0, "802.15.4"},
                {37, SOCK_STREAM, 0, "caif"},
                {38, SOCK_SEQPACKET, 0, "alg"},
                {39, SOCK_RAW, 1, "nfc"},
                {41, SOCK_DGRAM, 0, "kcm"},
                {42, SOCK_DGRAM, 0, "qipcrtr"},
                {43, SOCK_STREAM, 0, "smc"},
                {44, SOCK_RAW, 0, "xdp"},
                {45, SOCK_DGRAM, 0, "mctp"},
                {AF_INET, SOCK_STREAM, 132, "sctp"},
                {AF_INET, SOCK_STREAM, 262, "mptcp"},
                {AF_INET, SOCK_DGRAM, 136, "udplite"},
                {AF_INET, SOCK_DCCP, 33, "dccp"},
        };

        make_sockets(r, list, ELEMENTSOF(list));
}

static void odd_netlink(struct result *r) {
        static const struct family list[] = {
                {AF_NETLINK, SOCK_RAW, 2, "usersock"},   {AF_NETLINK, SOCK_RAW, 4, "sock_diag"},
                {AF_NETLINK, SOCK_RAW, 5, "nflog"},      {AF_NETLINK, SOCK_RAW, 6, "xfrm"},
                {AF_NETLINK, SOCK_RAW, 7, "selinux"},    {AF_NETLINK, SOCK_RAW, 9, "audit"},
                {AF_NETLINK, SOCK_RAW, 11, "connector"}, {AF_NETLINK, SOCK_RAW, 12, "netfilter"},
                {AF_NETLINK, SOCK_RAW, 15, "uevent"},    {AF_NETLINK, SOCK_RAW, 16, "generic"},
                {AF_NETLINK, SOCK_RAW, 21, "crypto"},
        };

        make_sockets(r, list, ELEMENTSOF(list));
}

/* Asks to change nothing about lo: an acknowledgement would mean that we may. */
static void netlink_change(struct result *r) {
        struct {
                struct nlmsghdr header;
                struct ifinfomsg link;
        } ask = {.header = {.nlmsg_len = sizeof ask,
                            .nlmsg_type = RTM_NEWLINK,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
                 .link = {.ifi_index = 1}};
        union {
                struct nlmsghdr header;
                char room[1024];
        } answer;
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

        if (fd < 0 || send(fd, &ask, sizeof ask, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        const struct nlmsgerr *e = NLMSG_DATA(&answer.header);
        errno = -e->error;
        probe_call(r, e->error);
}

/* Interfaces besides lo. */
static void interfaces(struct result *r) {
        struct if_nameindex *list = if_nameindex();
        unsigned other = 0;

        if (!list) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        for (struct if_nameindex *i = list; i->if_index; i++)
                if (!str_eq(i->if_name, "lo")) {
                        other++;
                        probe_note(r, "%s", i->if_name);
                }
        if_freenameindex(list);
        if (other)
                probe_done(r, "%u interfaces besides lo", other);
        else
                probe_refused(r, ENODEV, "only lo");
}

/* A socket among the streams would say who is at its other end, and hand out a handle to that process. */
static void peer_pidfd(struct result *r) {
        int error = ENOTSOCK;

        for (int fd = 0; fd < 3; fd++) {
                int pidfd = -1;
                socklen_t n = sizeof pidfd;
                if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0) {
                        long sent = syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0);
                        probe_done(r, "descriptor %d gives a pidfd of its peer, signal: %ld", fd, sent);
                        return;
                }
                if (errno != ENOTSOCK)
                        error = errno;
        }
        probe_refused(r, error, "%s", strerror(error));
}

static void tcp_upper_layer(struct result *r) {
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        /* ENOTCONN: the kernel's TLS was asked; ENOPROTOOPT: nobody was */
        if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) == 0 || errno == ENOTCONN || errno == ENOENT)
                probe_done(r, "reached the kernel: %s", strerror(errno));
        else
                probe_refused(r, errno, "%s", strerror(errno));
}

/* Listens for a while, so that the judge can try to connect from outside. */
static void inbound(struct result *r) {
        _cleanup_fd_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)probe_number("listen-port", 0))};

        if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 4) < 0) {
                probe_refused(r, errno, "%s", strerror(errno));
                return;
        }
        (void)fd_write_full(STDOUT_FILENO, "listening\n", 10);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)probe_number("wait-ms", 1500)) > 0)
                probe_done(r, "somebody connected");
        else
                probe_refused(r, ETIMEDOUT, "nobody came");
}

const struct attempt network_attempts[] = {
        {"tcp-v4", tcp_v4, QUICK},
        {"tcp-v6", tcp_v6, QUICK},
        {"tcp-mapped", tcp_mapped, QUICK},
        {"tcp-any", tcp_any, QUICK},
        {"tcp-host", tcp_host, QUICK},
        {"tcp-other", tcp_other, QUICK},
        {"tcp-fastopen", tcp_fastopen, QUICK},
        {"udp-v4", udp_v4, QUICK},
        {"udp-v6", udp_v6, QUICK},
        {"udp-other", udp_other, QUICK},
        {"udp-multicast", udp_multicast, QUICK},
        {"unix-path", unix_path, QUICK},
        {"unix-abstract", unix_abstract, QUICK},
        {"known-sockets", known_sockets, QUICK},
        {"vsock", vsock, QUICK},
        {"raw-socket", raw_sockets, QUICK},
        {"ping-socket", ping_socket, QUICK},
        {"packet-socket", packet_socket, QUICK},
        {"odd-families", odd_families, QUICK | GUARDED},
        {"odd-netlink", odd_netlink, QUICK | GUARDED},
        {"netlink-change", netlink_change, QUICK},
        {"interfaces", interfaces, QUICK},
        {"peer-pidfd", peer_pidfd, QUICK},
        {"tcp-upper-layer", tcp_upper_layer, QUICK | GUARDED},
        {"inbound", inbound, 0},
        {0},
};
