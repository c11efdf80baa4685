/* The link of a box for real, in namespaces of the test's own: what somebody at the far end reaches, what arrives at
 * the gate's sockets, and what is not answered. Needs root: a sandbox with a box does, too. */
#include "driver/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "cell/net.h"
#include "cell/netlink.h"
#include "cell/tree.h"

#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST; their headers do not go together with libc's */
#define NFT          "/usr/sbin/nft"
#define WAIT_MS      2000
#define SHORT_MS     300

/* For what the rest of a test makes no sense without. */
#define NEED(condition)                                                                                                \
        do {                                                                                                           \
                bool _holds = (condition);                                                                             \
                CHECK(_holds &&#condition);                                                                            \
                if (!_holds)                                                                                           \
                        return;                                                                                        \
        } while (0)

static int gate[CELL_REPORT_FDS], near_end, far_end;

/* --- the scene --- */

static int make_gate(void) {
        static const struct cell_box box;
        struct plan_step root = {.op = OP_ROOT_TMPFS, .number = {1 << 20, 64}},
                         network = {.op = OP_NETWORK, .text = {"/run/stockade/net"}};
        struct cell_context c = {.host = -EBADF, .root = -EBADF, .authority = {-EBADF, -EBADF, -EBADF}};
        struct report report;
        size_t count = 0;
        int pair[2];

        if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        c.report = pair[1];
        int r = tree_step(&c, &root);
        c.box = &box;
        if (r == 0)
                r = tree_step(&c, &network);
        if (r == 0 && cell_receive(pair[0], &report, NULL, gate, &count) != 1)
                r = -EPROTO;
        near_end = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        return r;
}

static int make_scene(void) {
        struct err err = {0};
        int r = make_gate();

        if (r < 0)
                return r;
        far_end = link_namespace(&err);
        r = far_end < 0 ? far_end : link_veth("gate", "eth0", far_end, &err);
        if (r < 0)
                (void)printf("# %s\n", err.text);
        return r;
}

static void in_scene(void (*run)(void)) {
        if (geteuid() != 0 && !getenv("STOCKADE_MUST_WORK")) {
                (void)printf("# skipped: needs root\n");
                return;
        }
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)alarm(60);
                test_failures = 0;
                NEED(make_scene() == 0);
                run();
                (void)fflush(stdout);
                _exit(test_failures > 0);
        }
        int status = -1;
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void go(int namespace) {
        CHECK(setns(namespace, CLONE_NEWNET) == 0);
}

/* A socket of the far end's. */
static int far_socket(int family, int type, int protocol) {
        struct timeval limit = {.tv_sec = WAIT_MS / 1000};

        go(far_end);
        int fd = socket(family, type | SOCK_CLOEXEC, protocol);
        go(near_end);
        CHECK(fd >= 0);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        return fd;
}

static unsigned far_device(void) {
        go(far_end);
        unsigned index = if_nametoindex("eth0");
        go(near_end);
        return index;
}

static struct sockaddr_storage address(const char *text, uint16_t port, socklen_t *size) {
        struct sockaddr_storage s = {0};
        struct sockaddr_in *v4 = (struct sockaddr_in *)&s;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&s;

        if (strchr(text, ':')) {
                v6->sin6_family = AF_INET6;
                v6->sin6_port = htons(port);
                CHECK(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
                *size = sizeof *v6;
        } else {
                v4->sin_family = AF_INET;
                v4->sin_port = htons(port);
                CHECK(inet_pton(AF_INET, text, &v4->sin_addr) == 1);
                *size = sizeof *v4;
        }
        return s;
}

/* Connects from the far end; the socket or -errno. */
static int dial(const char *to, uint16_t port, int type, int ms) {
        socklen_t size;
        struct sockaddr_storage s = address(to, port, &size);
        struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
        int fd = far_socket(s.ss_family, type, 0);

        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, (struct sockaddr *)&s, size) == 0)
                return fd;
        int r = -errno;
        (void)close(fd);
        return r;
}

static bool readable(int fd, int ms) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

/* The address that the peer of an accepted connection wanted, as text. */
static const char *wanted(int fd) {
        static char text[INET6_ADDRSTRLEN + 8];
        char host[INET6_ADDRSTRLEN];
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        socklen_t size = sizeof v4;

        if (getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, &v4, &size) == 0)
                (void)snprintf(text, sizeof text, "%s %u", inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host),
                               ntohs(v4.sin_port));
        else if (size = sizeof v6, getsockopt(fd, IPPROTO_IPV6, ORIGINAL_DST, &v6, &size) == 0)
                (void)snprintf(text, sizeof text, "%s %u", inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host),
                               ntohs(v6.sin6_port));
        else
                (void)snprintf(text, sizeof text, "errno %d", errno);
        return text;
}

static void arrives(enum gate_fd at, const char *to, uint16_t port) {
        char seen[80], back[8] = "";
        int fd = dial(to, port, SOCK_STREAM, WAIT_MS);

        if (fd < 0)
                (void)printf("# %s %u: %s\n", to, port, strerror(-fd));
        NEED(fd >= 0 && readable(gate[at], WAIT_MS));
        int got = accept4(gate[at], NULL, NULL, SOCK_CLOEXEC);
        (void)snprintf(seen, sizeof seen, "%s %u", to, port);
        CHECK_STR(wanted(got), seen);
        CHECK(write(fd, "hello", 5) == 5 && readable(got, WAIT_MS) && read(got, back, 5) == 5 && str_eq(back, "hello"));
        CHECK(write(got, "world", 5) == 5 && readable(fd, WAIT_MS) && read(fd, back, 5) == 5 && str_eq(back, "world"));
        (void)close(got);
        (void)close(fd);
}

static void connections(void) {
        static const char *const places[] = {"93.184.216.34", "10.0.0.1",     "169.254.169.254",
                                             "198.18.3.4",    "2606:2800::1", "fd53:746f:636b::1:5",
                                             "192.168.1.1"};

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                arrives(GATE_TCP, places[i], 443);
                arrives(GATE_TCP, places[i], 22);
                arrives(GATE_DNS_TCP, places[i], 53);
        }
        arrives(GATE_PROXY, WARD_OWN_V4, WARD_PROXY_PORT);
        arrives(GATE_TCP, WARD_OWN_V4, 80);
        arrives(GATE_TCP, WARD_OWN_V6, WARD_TCP_PORT);
}

static void test_connections(void) {
        in_scene(connections);
}

/* Answers a question as the gate does: to whoever asked, from the address that was asked. */
static void answer(void) {
        char data[64];
        union {
                struct cmsghdr header;
                char room[128];
        } control;
        struct sockaddr_storage from;
        struct iovec v = {data, sizeof data};
        struct msghdr m = {.msg_name = &from,
                           .msg_namelen = sizeof from,
                           .msg_iov = &v,
                           .msg_iovlen = 1,
                           .msg_control = control.room,
                           .msg_controllen = sizeof control.room};

        NEED(readable(gate[GATE_DNS], WAIT_MS));
        ssize_t got = recvmsg(gate[GATE_DNS], &m, 0);
        NEED(got > 0 && CMSG_FIRSTHDR(&m));
        for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
                if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_PKTINFO)
                        ((struct in6_pktinfo *)(void *)CMSG_DATA(h))->ipi6_ifindex = 0;
                else if (h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO) {
                        struct in_pktinfo *info = (struct in_pktinfo *)(void *)CMSG_DATA(h);
                        info->ipi_ifindex = 0;
                        info->ipi_spec_dst = info->ipi_addr;
                }
        v.iov_len = (size_t)got;
        CHECK(sendmsg(gate[GATE_DNS], &m, 0) == got);
}

static void names(void) {
        static const char *const servers[] = {"8.8.8.8",   WARD_OWN_V4,  "2001:4860::8888",
                                              WARD_OWN_V6, WARD_NEAR_V4, WARD_NEAR_V6};

        for (size_t i = 0; i < ELEMENTSOF(servers); i++) {
                char data[64] = "";
                int fd = dial(servers[i], 53, SOCK_DGRAM, WAIT_MS);

                CHECK(fd >= 0 && write(fd, "question", 8) == 8);
                answer();
                /* the socket is connected: an answer from elsewhere would not be given to it */
                CHECK(readable(fd, WAIT_MS) && read(fd, data, sizeof data - 1) == 8 && str_eq(data, "question"));
                (void)close(fd);
        }
}

static void test_names(void) {
        in_scene(names);
}

static bool refused(const char *to, uint16_t port) {
        int fd = dial(to, port, SOCK_DGRAM, WAIT_MS);
        char byte;

        CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10);
        bool r = read(fd, &byte, 1) < 0 && errno == ECONNREFUSED;
        (void)close(fd);
        return r;
}

static bool tapped(void) {
        char message[1024];

        return readable(gate[GATE_TAP], SHORT_MS) && recv(gate[GATE_TAP], message, sizeof message, 0) > 0;
}

static void elsewhere(void) {
        CHECK(refused("9.9.9.9", 443) && tapped());
        CHECK(refused("2001:db8::5", 123) && tapped());
        CHECK(!readable(gate[GATE_TAP], 50)); /* neither neighbours nor the refusals */
        arrives(GATE_TCP, "9.9.9.9", 443);
        CHECK(!readable(gate[GATE_TAP], 50));
}

static void test_elsewhere(void) {
        in_scene(elsewhere);
}

/* The near end's own ports: nobody gets to one but by way of a rule. */
static void near_ports(void) {
        static const char *const ends[] = {WARD_NEAR_V4, WARD_NEAR_V6, WARD_OWN_V4, "127.0.0.1"};
        struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(2222)};
        int stream = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

        NEED(bind(stream, (struct sockaddr *)&any, sizeof any) == 0 && listen(stream, 8) == 0);
        for (size_t i = 0; i < 3; i++) {
                arrives(GATE_TCP, ends[i], 2222);
                CHECK(!readable(stream, 50));
        }
        /* what no rule led there, although it is for that very port */
        CHECK(dial(WARD_NEAR_V4, WARD_TCP_PORT, SOCK_STREAM, SHORT_MS) < 0);
        CHECK(dial(WARD_NEAR_V6, WARD_TCP_PORT, SOCK_STREAM, SHORT_MS) < 0);
        CHECK(dial(WARD_NEAR_V4, WARD_DNS_PORT, SOCK_STREAM, SHORT_MS) >= 0); /* led to the gate, as any port is */
        CHECK(!readable(gate[GATE_DNS_TCP], 50));
        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                int fd = dial(ends[i], WARD_DNS_PORT, SOCK_DGRAM, SHORT_MS);
                (void)!write(fd, "?", 1);
                (void)close(fd);
        }
        CHECK(!readable(gate[GATE_DNS], SHORT_MS));
}

static void test_near_ports(void) {
        in_scene(near_ports);
}

/* Addresses that are not the box's, and questions that are not for the gate. */
static void strangers(void) {
        socklen_t size;
        int yes = 1, fd = far_socket(AF_INET, SOCK_DGRAM, 0);
        struct sockaddr_storage from = address("10.9.8.7", 0, &size), to = address("8.8.8.8", 53, &size);

        CHECK(setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &yes, sizeof yes) == 0 &&
              bind(fd, (struct sockaddr *)&from, size) == 0);
        CHECK(sendto(fd, "?", 1, 0, (struct sockaddr *)&to, size) == 1);
        CHECK(!readable(gate[GATE_DNS], SHORT_MS));
        (void)close(fd);

        static const uint8_t echo[8] = {8, 0, 0xf7, 0xff}, echo6[8] = {128};
        int ping = far_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), ping6 = far_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
        static const char *const whom[] = {"8.8.8.8", WARD_NEAR_V4, WARD_OWN_V4};
        for (size_t i = 0; i < ELEMENTSOF(whom); i++) {
                to = address(whom[i], 0, &size);
                CHECK(sendto(ping, echo, sizeof echo, 0, (struct sockaddr *)&to, size) == sizeof echo);
        }
        to = address(WARD_NEAR_V6, 0, &size);
        CHECK(sendto(ping6, echo6, sizeof echo6, 0, (struct sockaddr *)&to, size) == sizeof echo6);
        CHECK(!readable(ping, SHORT_MS));
        char got[256];
        while (readable(ping6, SHORT_MS))
                CHECK(recv(ping6, got, sizeof got, 0) > 0 && (uint8_t)got[0] != 129);
}

static void test_strangers(void) {
        in_scene(strangers);
}

/* How many neighbours the near namespace knows, multicast aside. */
static unsigned neighbours(int family) {
        _Alignas(struct nlmsghdr) uint8_t bytes[16384];
        struct {
                struct nlmsghdr head;
                struct ndmsg ask;
        } question = {.head = {.nlmsg_len = sizeof question,
                               .nlmsg_type = RTM_GETNEIGH,
                               .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                      .ask = {.ndm_family = (uint8_t)family}};
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        unsigned count = 0;

        CHECK(send(fd, &question, sizeof question, 0) == sizeof question);
        for (;;) {
                ssize_t got = recv(fd, bytes, sizeof bytes, 0);

                if (got <= 0)
                        return UINT32_MAX;
                for (size_t at = 0; at + NLMSG_HDRLEN <= (size_t)got;) {
                        struct nlmsghdr h;
                        struct ndmsg entry;

                        memcpy(&h, bytes + at, sizeof h);
                        if (h.nlmsg_type == NLMSG_DONE)
                                return count;
                        memcpy(&entry, bytes + at + NLMSG_HDRLEN, sizeof entry);
                        count += !(entry.ndm_state & NUD_NOARP);
                        at += NLMSG_ALIGN(MAX(h.nlmsg_len, sizeof h));
                }
        }
}

/* Asks for the near end as this address. */
static void solicit(int fd, const char *as) {
        uint8_t message[32] = {135, [24] = 1, [25] = 1, [26] = 2};
        socklen_t size;
        struct sockaddr_storage from = address(as, 0, &size), to = address(WARD_NEAR_V6, 0, &size);

        (void)inet_pton(AF_INET6, WARD_NEAR_V6, message + 8);
        if (str_starts(as, "fe80:"))
                ((struct sockaddr_in6 *)&from)->sin6_scope_id = far_device();
        CHECK(bind(fd, (struct sockaddr *)&from, size) == 0);
        CHECK(sendto(fd, message, sizeof message, 0, (struct sockaddr *)&to, size) == sizeof message);
}

static void many_v6(void) {
        int on = 1, hops = 255, fd = far_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
        char from[64];

        CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on) == 0 &&
              setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops) == 0);
        for (unsigned i = 0; i < 500; i++) {
                (void)snprintf(from, sizeof from, i % 2 ? "2001:db8::%x" : "fe80::5:%x", i + 1);
                solicit(fd, from);
        }
        CHECK(neighbours(AF_INET6) <= 2);
        arrives(GATE_TCP, "2001:db8::9", 443);
        CHECK(neighbours(AF_INET6) >= 1);
}

/* Somebody who claims to be many fills no table. */
static void many(void) {
        uint8_t frame[42] = {[12] = 8, [13] = 6, [15] = 1, [16] = 8, [18] = 6, [19] = 4, [21] = 1};

        int fd = far_socket(AF_PACKET, SOCK_RAW, 0);
        struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = (int)far_device(), .sll_halen = 6};
        memset(frame, 0xff, 6);
        memcpy(frame + 6, "\2\1\1\1\1\1", 6);
        memcpy(frame + 22, frame + 6, 6);
        (void)inet_pton(AF_INET, WARD_NEAR_V4, frame + 38);
        for (unsigned i = 0; i < 500; i++) {
                memcpy(frame + 28, (uint8_t[]){10, 0, (uint8_t)(i >> 8), (uint8_t)i}, 4);
                CHECK(sendto(fd, frame, sizeof frame, 0, (struct sockaddr *)&at, sizeof at) == sizeof frame);
        }
        CHECK(neighbours(AF_INET) <= 2);
        arrives(GATE_TCP, "9.9.9.9", 443); /* and who it is supposed to be still gets through */
        CHECK(neighbours(AF_INET) >= 1);
        many_v6();
}

static void test_many(void) {
        in_scene(many);
}

/* Another way out of the near namespace, with forwarding on and a route to it: nothing takes it. */
static void forwarding(void) {
        struct ifreq request = {.ifr_name = "out", .ifr_flags = IFF_TUN | IFF_NO_PI};
        int out = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        struct netlink n = {0};
        uint32_t failed;
        char frame[2048];

        NEED(out >= 0 && ioctl(out, TUNSETIFF, &request) == 0);
        CHECK(fd_write_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", "1") == 0);
        struct ifinfomsg up = {.ifi_index = (int)if_nametoindex("out"), .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
        netlink_begin(&n, RTM_NEWLINK, 0, &up, sizeof up);
        struct rtmsg r = {.rtm_family = AF_INET,
                          .rtm_dst_len = 24,
                          .rtm_table = RT_TABLE_LOCAL,
                          .rtm_protocol = RTPROT_STATIC,
                          .rtm_scope = RT_SCOPE_LINK,
                          .rtm_type = RTN_UNICAST};
        netlink_begin(&n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, &r, sizeof r);
        netlink_put(&n, RTA_DST, (uint8_t[]){203, 0, 113, 0}, 4);
        netlink_put_u32(&n, RTA_OIF, (uint32_t)up.ifi_index);
        NEED(netlink_talk(&n, NETLINK_ROUTE, &failed) == 0);
        int fd = dial("203.0.113.9", 9, SOCK_DGRAM, WAIT_MS);
        CHECK(write(fd, "out", 3) == 3);
        arrives(GATE_TCP, "203.0.113.9", 443);
        while (readable(out, SHORT_MS)) {
                ssize_t got = read(out, frame, sizeof frame);
                CHECK(got < 20 || frame[9] != IPPROTO_UDP);
        }
}

static void test_forwarding(void) {
        in_scene(forwarding);
}

/* A tap: frames by hand, as a machine would send them. */
static void tap(void) {
        struct err err = {0};
        uint8_t ask[60] = {[12] = 8, [13] = 6, [15] = 1, [16] = 8, [18] = 6, [19] = 4, [21] = 1}, got[2048];

        go(link_namespace(&err));
        (void)close(near_end);
        for (size_t i = 0; i < NET_FDS; i++)
                (void)close(gate[i]);
        NEED(make_gate() == 0);
        int fd = link_tap("gate", 0, (uid_t)-1, &err);
        if (fd < 0)
                (void)printf("# %s\n", err.text);
        NEED(fd >= 0);
        memset(ask, 0xff, 6);
        memcpy(ask + 6, "\2\1\1\1\1\1", 6);
        memcpy(ask + 22, ask + 6, 6);
        (void)inet_pton(AF_INET, WARD_FAR_V4, ask + 28);
        (void)inet_pton(AF_INET, WARD_NEAR_V4, ask + 38);
        CHECK(write(fd, ask, sizeof ask) == sizeof ask);
        bool answered = false;
        while (!answered && readable(fd, WAIT_MS))
                answered = read(fd, got, sizeof got) >= 42 && got[12] == 8 && got[13] == 6 && got[21] == 2 &&
                           memcmp(got + 28, ask + 38, 4) == 0;
        NEED(answered);

        /* UDP from 198.18.0.2:1000 to 8.8.8.8:53, with no checksum of its own */
        uint8_t packet[14 + 20 + 8 + 1] = {[12] = 8, [14] = 0x45, [17] = 29, [22] = 64, [23] = IPPROTO_UDP};
        memcpy(packet, got + 6, 6);
        memcpy(packet + 6, ask + 6, 6);
        memcpy(packet + 26, ask + 28, 4);
        memset(packet + 30, 8, 4);
        memcpy(packet + 34, (uint8_t[]){3, 232, 0, 53, 0, 9}, 6);
        packet[42] = '?';
        uint32_t sum = 0;
        for (size_t i = 14; i < 34; i += 2)
                sum += (uint32_t)packet[i] << 8 | packet[i + 1];
        sum = ~((sum & 0xffff) + (sum >> 16));
        packet[24] = (uint8_t)(sum >> 8);
        packet[25] = (uint8_t)sum;
        CHECK(write(fd, packet, sizeof packet) == sizeof packet);
        answer();
        answered = false;
        while (!answered && readable(fd, WAIT_MS))
                answered = read(fd, got, sizeof got) >= 43 && got[23] == IPPROTO_UDP &&
                           memcmp(got + 26, packet + 30, 4) == 0 && got[42] == '?';
        CHECK(answered);
}

static void test_tap(void) {
        in_scene(tap);
}

/* No tap is to be had: its name is taken, or there is no descriptor for it. What helps is said, and nothing is left. */
static void no_tap(void) {
        struct err err = {0};
        struct rlimit files;

        go(link_namespace(&err));
        int first = link_tap("box", 0, (uid_t)-1, &err);
        NEED(first >= 0);
        CHECK(link_tap("box", 0, (uid_t)-1, &err) == -EBUSY && strstr(err.text, "could not make the tap of the box") &&
              strstr(err.hint, "end sandboxes"));
        NEED(getrlimit(RLIMIT_NOFILE, &files) == 0);
        int next = dup(first);
        NEED(next >= 0);
        (void)close(next);
        files.rlim_cur = (rlim_t)next;
        NEED(setrlimit(RLIMIT_NOFILE, &files) == 0);
        CHECK(link_tap("other", 0, (uid_t)-1, &err) == -EMFILE && err.hint[0]);
        files.rlim_cur = files.rlim_max;
        NEED(setrlimit(RLIMIT_NOFILE, &files) == 0);
        CHECK(if_nametoindex("other") == 0 && if_nametoindex("box") > 0);
        (void)close(first);
        CHECK(if_nametoindex("box") == 0);
}

static void test_no_tap(void) {
        in_scene(no_tap);
}

/* Opens the tap by its name in a namespace, as a user without rights. */
static int open_lent(const char *name, uid_t user, int namespace) {
        struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
        int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), r = -1;

        (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
        if (setns(namespace, CLONE_NEWNET) < 0 || seteuid(user) < 0)
                return -errno;
        int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0)
                r = ioctl(fd, TUNSETIFF, &request);
        if (seteuid(0) < 0 || setns(here, CLONE_NEWNET) < 0)
                _exit(125);
        (void)close(here);
        return r < 0 ? -1 : fd;
}

/* A tap that is opened elsewhere and then comes here: what opened it still has it, and nothing else there. */
static void lent(void) {
        enum { HEADER = 10, USER = 4242 };
        struct err err = {0};
        uint8_t ask[HEADER + 60] = {0}, got[2048];
        int there = link_namespace(&err);

        go(link_namespace(&err));
        (void)close(near_end);
        for (size_t i = 0; i < NET_FDS; i++)
                (void)close(gate[i]);
        NEED(make_gate() == 0);
        NEED(link_tap_lend("box", USER, there, &err) == 0);
        CHECK(open_lent("box", USER + 1, there) < 0);
        int fd = open_lent("box", USER, there);
        NEED(fd >= 0);
        CHECK(link_tap_take("box", there, &err) == 0);
        CHECK(link_tap_take("box", there, &err) == -ENODEV);
        CHECK(open_lent("box", USER, there) < 0);
        memcpy(ask + HEADER + 12, (uint8_t[]){8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, 10);
        memset(ask + HEADER, 0xff, 6);
        memcpy(ask + HEADER + 6, "\2\1\1\1\1\1", 6);
        memcpy(ask + HEADER + 22, ask + HEADER + 6, 6);
        (void)inet_pton(AF_INET, WARD_FAR_V4, ask + HEADER + 28);
        (void)inet_pton(AF_INET, WARD_NEAR_V4, ask + HEADER + 38);
        CHECK(write(fd, ask, sizeof ask) == sizeof ask);
        bool answered = false;
        while (!answered && readable(fd, WAIT_MS))
                answered = read(fd, got, sizeof got) >= HEADER + 42 && got[HEADER + 21] == 2 &&
                           memcmp(got + HEADER + 28, ask + HEADER + 38, 4) == 0;
        CHECK(answered);
}

static void test_lent(void) {
        in_scene(lent);
}

static const char ruleset[] = "table inet stockade {\n"
                              "\tchain prerouting {\n"
                              "\t\ttype nat hook prerouting priority -100; policy accept;\n"
                              "\t\tiif \"lo\" accept\n"
                              "\t\tudp dport 53 redirect to :15053\n"
                              "\t\ttcp dport 53 redirect to :15053\n"
                              "\t\tip daddr 198.18.0.1 tcp dport 3128 accept\n"
                              "\t\tmeta l4proto 6 redirect to :15001\n"
                              "\t\tlog group 1 snaplen 64\n"
                              "\t}\n\n"
                              "\tchain forward {\n"
                              "\t\ttype filter hook forward priority 0; policy drop;\n"
                              "\t}\n\n"
                              "\tchain input {\n"
                              "\t\ttype filter hook input priority 0; policy drop;\n"
                              "\t\tiif \"lo\" accept\n"
                              "\t\tct status 0x20 accept\n"
                              "\t\tip daddr 198.18.0.1 tcp dport 3128 accept\n"
                              "\t\tudp dport 15053 drop\n"
                              "\t\tmeta l4proto 17 accept\n"
                              "\t\tip6 saddr fd53:746f:636b::2 icmpv6 type 135 accept\n"
                              "\t\tip6 saddr fd53:746f:636b::2 icmpv6 type 136 accept\n"
                              "\t\tip6 saddr fe80::2 icmpv6 type 135 accept\n"
                              "\t\tip6 saddr fe80::2 icmpv6 type 136 accept\n"
                              "\t}\n"
                              "}\n";

/* The rules as nft reads them back. */
static void rules(void) {
        char text[4096];
        int out[2], status = -1;

        NEED(pipe2(out, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                (void)dup2(out[1], STDOUT_FILENO);
                (void)execl(NFT, "nft", "-n", "list", "ruleset", NULL);
                _exit(127);
        }
        (void)close(out[1]);
        ssize_t got = fd_read_full(out[0], text, sizeof text - 1);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0 && got > 0);
        text[MAX(got, 0)] = '\0';
        CHECK_STR(text, ruleset);
        CHECK(net_gateway_rules() == -EEXIST);
}

static void test_rules(void) {
        if (access(NFT, X_OK) < 0 && !getenv("STOCKADE_MUST_WORK")) {
                (void)printf("# skipped: there is no nft here to read the rules with\n");
                return;
        }
        in_scene(rules);
}

/* With every descriptor closed there is no network, not an open one. */
static void nobody(void) {
        for (size_t i = 0; i < NET_FDS; i++)
                (void)close(gate[i]);
        CHECK(dial("93.184.216.34", 443, SOCK_STREAM, WAIT_MS) == -ECONNREFUSED);
        CHECK(dial("2606:2800::1", 443, SOCK_STREAM, WAIT_MS) == -ECONNREFUSED);
        CHECK(refused("8.8.8.8", 53) && refused("9.9.9.9", 443));
}

static void test_nobody(void) {
        in_scene(nobody);
}

TEST_MAIN(TEST(test_connections), TEST(test_names), TEST(test_elsewhere), TEST(test_near_ports), TEST(test_strangers),
          TEST(test_many), TEST(test_forwarding), TEST(test_tap), TEST(test_no_tap), TEST(test_lent), TEST(test_rules),
          TEST(test_nobody))
