/* OP_NETWORK for real, in namespaces of the test's own: what a program inside reaches, and what arrives at the sockets
 * that were handed out. Each case runs twice: in namespaces that root owns, and in those of a user namespace. */
#include "cell/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/test.h"
#include "cell/tree.h"

#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST; their headers do not go together with libc's */
#define PLACE        "/run/stockade/net"
#define NFT          "/usr/sbin/nft"
#define WAIT_MS      2000

/* For what the rest of a test makes no sense without. */
#define NEED(condition)                                                                                                \
        do {                                                                                                           \
                bool _holds = (condition);                                                                             \
                CHECK(_holds &&#condition);                                                                            \
                if (!_holds)                                                                                           \
                        return;                                                                                        \
        } while (0)

/* One sandbox's network, seen from both sides. */
struct net {
        struct cell_context cell;
        int fds[CELL_REPORT_FDS];
};

static int count_fds(void) {
        int count = 0;
        DIR *d = opendir("/proc/self/fd");

        while (d && readdir(d))
                count++;
        (void)closedir(d);
        return count;
}

static int enter(bool user) {
        char map[32];
        unsigned uid = geteuid(), gid = getegid();

        if (unshare(CLONE_NEWNET | CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)) < 0)
                return -errno;
        if (user) {
                (void)fd_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
                (void)snprintf(map, sizeof map, "0 %u 1", uid);
                int r = fd_write_at(AT_FDCWD, "/proc/self/uid_map", map);
                (void)snprintf(map, sizeof map, "0 %u 1", gid);
                if (r < 0 || fd_write_at(AT_FDCWD, "/proc/self/gid_map", map) < 0)
                        return -EPERM;
        }
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

/* A root of memory to build in, before the step. */
static int begin(struct net *n) {
        struct plan_step root = {.op = OP_ROOT_TMPFS, .number = {1 << 20, 64}};

        *n = (struct net){.cell = {.host = -EBADF, .root = -EBADF, .authority = {-EBADF, -EBADF, -EBADF}}};
        return tree_step(&n->cell, &root);
}

static int start(struct net *n, unsigned flags) {
        struct plan_step step = {.op = OP_NETWORK, .flags = (uint16_t)flags, .text = {PLACE}};
        struct report report;
        size_t count = 0;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        n->cell.report = pair[1];
        int before = count_fds(), r = tree_step(&n->cell, &step);
        CHECK(count_fds() == before); /* nothing of it stays with the cell's process */
        if (r == 0 && (cell_receive(pair[0], &report, NULL, n->fds, &count) != 1 || report.kind != REPORT_NETWORK ||
                       count != NET_FDS))
                r = -EPROTO;
        (void)close(pair[0]);
        (void)close(pair[1]);
        return r;
}

/* Runs a case in namespaces of its own, of both kinds. */
static void in_both(void (*run)(struct net *n)) {
        for (int user = geteuid() == 0 ? 0 : 1; user < 2; user++) {
                (void)fflush(stdout);
                pid_t pid = fork();
                if (pid == 0) {
                        struct net n;
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        (void)alarm(30);
                        test_failures = 0;
                        int r = enter(user);
                        if (r == 0)
                                r = begin(&n);
                        if (r < 0)
                                (void)printf("# no namespaces: %s\n", strerror(-r));
                        CHECK(r == 0);
                        if (r == 0)
                                run(&n);
                        if (test_failures)
                                (void)printf("# in namespaces of %s\n", user ? "a user namespace" : "root");
                        (void)fflush(stdout);
                        _exit(test_failures > 0);
                }
                int status = -1;
                CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        }
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

/* Connects; returns the socket or -errno. */
static int dial(const char *to, uint16_t port, int type) {
        socklen_t size;
        struct sockaddr_storage s = address(to, port, &size);
        int fd = socket(s.ss_family, type | SOCK_CLOEXEC, 0);

        CHECK(fd >= 0);
        struct timeval limit = {.tv_sec = WAIT_MS / 1000};
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, (struct sockaddr *)&s, size) == 0)
                return fd;
        int r = -errno;
        (void)close(fd);
        return r;
}

static int listen_at(const char *at, uint16_t port, int type) {
        socklen_t size;
        struct sockaddr_storage s = address(at, port, &size);
        int fd = socket(s.ss_family, type | SOCK_CLOEXEC, 0), on = 1;

        /* what a program would try that wants to take over a port */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&s, size) < 0 || (type == SOCK_STREAM && listen(fd, 8) < 0)) {
                int r = -errno;
                (void)close(fd);
                return r;
        }
        return fd;
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

/* The local address of a socket, as text. */
static const char *local(int fd) {
        static char text[INET6_ADDRSTRLEN];
        struct sockaddr_storage s = {0};
        socklen_t size = sizeof s;

        CHECK(getsockname(fd, (struct sockaddr *)&s, &size) == 0);
        return s.ss_family == AF_INET ? inet_ntop(AF_INET, &((struct sockaddr_in *)&s)->sin_addr, text, sizeof text)
                                      : inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&s)->sin6_addr, text, sizeof text);
}

/* Connects to an address and expects to arrive at one of the gate's sockets, with this as what was wanted. */
static void arrives(const struct net *n, enum gate_fd at, const char *to, uint16_t port, const char *seen) {
        int fd = dial(to, port, SOCK_STREAM);

        if (fd < 0)
                (void)printf("# %s %u: %s\n", to, port, strerror(-fd));
        NEED(fd >= 0);
        bool came = readable(n->fds[at], WAIT_MS);
        if (!came)
                (void)printf("# %s %u did not arrive\n", to, port);
        NEED(came);
        int peer = accept4(n->fds[at], NULL, NULL, SOCK_CLOEXEC);
        CHECK_STR(wanted(peer), seen);
        char byte = 0;
        CHECK(write(fd, "a", 1) == 1 && read(peer, &byte, 1) == 1 && byte == 'a');
        CHECK(write(peer, "b", 1) == 1 && read(fd, &byte, 1) == 1 && byte == 'b');
        (void)close(peer);
        (void)close(fd);
}

static void redirects(struct net *n) {
        NEED(start(n, 0) == 0);
        arrives(n, GATE_TCP, "93.184.216.34", 443, "93.184.216.34 443");
        arrives(n, GATE_TCP, "198.18.0.7", 80, "198.18.0.7 80");
        arrives(n, GATE_TCP, "169.254.169.254", 80, "169.254.169.254 80");
        arrives(n, GATE_TCP, "10.0.0.1", 15001, "10.0.0.1 15001");
        arrives(n, GATE_TCP, "2606:2800::1", 443, "2606:2800::1 443");
        arrives(n, GATE_TCP, "fd53:746f:636b::7", 5432, "fd53:746f:636b::7 5432");
        arrives(n, GATE_TCP, "::ffff:93.184.216.34", 8443, "93.184.216.34 8443");
        arrives(n, GATE_PROXY, WARD_OWN_V4, WARD_PROXY_PORT, WARD_OWN_V4 " 3128");
        /* what goes out comes from the sandbox's own address */
        CHECK_STR(local(dial("93.184.216.34", 443, SOCK_DGRAM)), WARD_OWN_V4);
        CHECK_STR(local(dial("2606:2800::1", 443, SOCK_DGRAM)), WARD_OWN_V6);
        CHECK_STR(local(dial("127.0.0.1", 443, SOCK_DGRAM)), "127.0.0.1");
        /* straight to the gate's port: seen as what it is */
        arrives(n, GATE_TCP, "127.0.0.1", WARD_TCP_PORT, "127.0.0.1 15001");
        arrives(n, GATE_TCP, "::1", WARD_TCP_PORT, "::1 15001");
        arrives(n, GATE_TCP, WARD_OWN_V4, WARD_TCP_PORT, WARD_OWN_V4 " 15001");
}

static void test_redirects(void) {
        in_both(redirects);
}

/* Data with the first packet, without a call to connect; twice, since the second time there may be a cookie. */
static void fast_open(struct net *n) {
        NEED(start(n, 0) == 0);
        for (int i = 0; i < 2; i++) {
                socklen_t size;
                struct sockaddr_storage to = address("93.184.216.34", 443, &size);
                int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                CHECK(sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, size) == 1);
                NEED(readable(n->fds[GATE_TCP], WAIT_MS));
                int peer = accept4(n->fds[GATE_TCP], NULL, NULL, SOCK_CLOEXEC);
                CHECK_STR(wanted(peer), "93.184.216.34 443");
                (void)close(peer);
                (void)close(fd);
        }
}

static void test_fast_open(void) {
        in_both(fast_open);
}

/* What is inside stays inside: servers on the sandbox's own addresses, and nothing of the gate's on others. */
static void inner(struct net *n) {
        NEED(start(n, 0) == 0);
        int server = listen_at("::", 8080, SOCK_STREAM);
        NEED(server >= 0);
        static const char *const own[] = {"127.0.0.1", "127.9.9.9", "::1", WARD_OWN_V4, WARD_OWN_V6};
        for (size_t i = 0; i < ELEMENTSOF(own); i++) {
                int fd = dial(own[i], 8080, SOCK_STREAM);
                NEED(fd >= 0 && readable(server, WAIT_MS));
                int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
                CHECK(peer >= 0);
                (void)close(peer);
                (void)close(fd);
        }
        CHECK(!readable(n->fds[GATE_TCP], 0));
        CHECK(dial("127.0.0.1", 8081, SOCK_STREAM) == -ECONNREFUSED);
        CHECK(dial(WARD_OWN_V6, 8081, SOCK_STREAM) == -ECONNREFUSED);
        CHECK(dial("127.0.0.1", WARD_PROXY_PORT, SOCK_STREAM) == -ECONNREFUSED);

        /* the gate's ports cannot be taken over, nor taken from under it on a single address */
        static const char *const places[] = {"0.0.0.0", "::", "127.0.0.1", "::1", WARD_OWN_V4, "8.8.8.8"};
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                CHECK(listen_at(places[i], WARD_TCP_PORT, SOCK_STREAM) == -EADDRINUSE);
                CHECK(listen_at(places[i], WARD_DNS_PORT, SOCK_STREAM) == -EADDRINUSE);
                CHECK(listen_at(places[i], WARD_DNS_PORT, SOCK_DGRAM) == -EADDRINUSE);
        }
        CHECK(listen_at(WARD_OWN_V4, WARD_PROXY_PORT, SOCK_STREAM) == -EADDRINUSE);

        /* a foreign address can be bound to, and leads nobody there */
        int thief = listen_at("8.8.8.8", 443, SOCK_STREAM);
        CHECK(thief >= 0);
        arrives(n, GATE_TCP, "8.8.8.8", 443, "8.8.8.8 443");
        CHECK(!readable(thief, 0));
        thief = listen_at("8.8.8.8", 53, SOCK_DGRAM);
        int fd = dial("8.8.8.8", 53, SOCK_DGRAM);
        CHECK(write(fd, "?", 1) == 1 && readable(n->fds[GATE_DNS], WAIT_MS) && !readable(thief, 0));

        /* programs that look for an address to use find one of each family */
        struct ifaddrs *list = NULL;
        unsigned seen = 0;
        CHECK(getifaddrs(&list) == 0);
        for (struct ifaddrs *a = list; a; a = a->ifa_next) {
                char text[INET6_ADDRSTRLEN] = "";
                if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET)
                        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, text,
                                        sizeof text);
                else if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6)
                        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr, text,
                                        sizeof text);
                seen |= str_eq(text, WARD_OWN_V4) ? 1U : str_eq(text, WARD_OWN_V6) ? 2U : 0;
        }
        freeifaddrs(list);
        CHECK(seen == 3);
}

static void test_inner(void) {
        in_both(inner);
}

/* Answers one question at GATE_DNS as the gate does: from the address that it came to. */
static void answer(int fd) {
        char data[64];
        union {
                struct cmsghdr header;
                char room[256];
        } in, out = {0};
        struct sockaddr_storage peer;
        struct iovec v = {.iov_base = data, .iov_len = sizeof data};
        struct msghdr m = {.msg_name = &peer,
                           .msg_namelen = sizeof peer,
                           .msg_iov = &v,
                           .msg_iovlen = 1,
                           .msg_control = in.room,
                           .msg_controllen = sizeof in.room};

        NEED(readable(fd, WAIT_MS));
        ssize_t got = recvmsg(fd, &m, 0);
        NEED(got > 0);
        for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
                if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_PKTINFO) {
                        struct in6_pktinfo info;
                        memcpy(&info, CMSG_DATA(h), sizeof info);
                        info.ipi6_ifindex = 0;
                        out.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof info),
                                                      .cmsg_level = IPPROTO_IPV6,
                                                      .cmsg_type = IPV6_PKTINFO};
                        memcpy(CMSG_DATA(&out.header), &info, sizeof info);
                }
        CHECK(out.header.cmsg_len > 0);
        v.iov_len = (size_t)got;
        m.msg_control = out.room;
        m.msg_controllen = CMSG_SPACE(sizeof(struct in6_pktinfo));
        CHECK(sendmsg(fd, &m, 0) == got);
}

static void names(struct net *n) {
        static const char *const servers[] = {"8.8.8.8",   WARD_OWN_V4,      "2001:4860::8888",
                                              WARD_OWN_V6, "::ffff:8.8.4.4", "198.18.3.4"};

        NEED(start(n, 0) == 0);
        for (size_t i = 0; i < ELEMENTSOF(servers); i++) {
                char seen[80], data[64] = "";
                int fd = dial(servers[i], 53, SOCK_DGRAM);
                CHECK(fd >= 0 && write(fd, "question", 8) == 8);
                answer(n->fds[GATE_DNS]);
                /* the socket is connected: an answer from elsewhere would not be given to it */
                CHECK(readable(fd, WAIT_MS) && read(fd, data, sizeof data - 1) == 8 && str_eq(data, "question"));
                (void)close(fd);
                (void)snprintf(seen, sizeof seen, "%s 53", servers[i] + (str_starts(servers[i], "::ffff:") ? 7 : 0));
                arrives(n, GATE_DNS_TCP, servers[i], 53, seen);
        }
        /* a program's own server on loopback is its own matter */
        int fd = dial("127.0.0.1", 53, SOCK_DGRAM);
        CHECK(write(fd, "?", 1) == 1 && read(fd, &(char){0}, 1) < 0 && errno == ECONNREFUSED);
        CHECK(dial("127.0.0.53", 53, SOCK_STREAM) == -ECONNREFUSED && dial("::1", 53, SOCK_STREAM) == -ECONNREFUSED);
}

static void test_names(void) {
        in_both(names);
}

/* Sends a datagram and says whether it was refused at once. */
static bool refused(const char *to, uint16_t port) {
        int fd = dial(to, port, SOCK_DGRAM);
        char byte;

        CHECK(fd >= 0 && write(fd, "0123456789", 10) == 10);
        bool r = read(fd, &byte, 1) < 0 && errno == ECONNREFUSED;
        (void)close(fd);
        return r;
}

/* The packet in the next message of a tap; its size, or -errno. */
static ssize_t tapped_packet(int fd, uint8_t ret[256]) {
        _Alignas(struct nlmsghdr) uint8_t bytes[1024];
        struct nlmsghdr *h = (struct nlmsghdr *)(void *)bytes;
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

        if (got < 0)
                return -errno;
        if ((size_t)got < sizeof *h || h->nlmsg_len > (size_t)got ||
            h->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
                return -EPROTO;
        for (size_t at = NLMSG_LENGTH(sizeof(struct nfgenmsg)); at + sizeof(struct nlattr) <= h->nlmsg_len;) {
                struct nlattr a;
                memcpy(&a, bytes + at, sizeof a);
                if (a.nla_type == NFULA_PAYLOAD && a.nla_len <= 256) {
                        memcpy(ret, bytes + at + sizeof a, a.nla_len - sizeof a);
                        return (ssize_t)(a.nla_len - sizeof a);
                }
                at += NLMSG_ALIGN(MAX(a.nla_len, sizeof a));
        }
        return -ENOMSG;
}

static void tap(struct net *n) {
        uint8_t packet[256];
        socklen_t size;
        int tapped;

        NEED(start(n, 0) == 0);
        tapped = n->fds[GATE_TAP];
        /* TCP, DNS with its answers, what stays inside, and its refusals are not its matter */
        arrives(n, GATE_TCP, "93.184.216.34", 443, "93.184.216.34 443");
        arrives(n, GATE_TCP, "2606:2800::1", 443, "2606:2800::1 443");
        CHECK(refused("127.0.0.1", 9) && refused("::1", 9) && refused(WARD_OWN_V4, 9) && refused(WARD_OWN_V6, 9));
        int client = listen_at("6.6.6.6", 40000, SOCK_DGRAM);
        struct sockaddr_storage server = address("8.8.8.8", 53, &size);
        CHECK(sendto(client, "?", 1, 0, (struct sockaddr *)&server, size) == 1);
        answer(n->fds[GATE_DNS]);
        CHECK(readable(client, WAIT_MS));
        CHECK(!readable(tapped, 50));

        CHECK(refused("9.9.9.9", 443));
        NEED(readable(tapped, 500));
        ssize_t got = tapped_packet(tapped, packet);
        CHECK(got == 38 && packet[0] == 0x45 && packet[9] == IPPROTO_UDP &&
              memcmp(packet + 16, "\11\11\11\11", 4) == 0 && packet[22] == 1 && packet[23] == 0xbb);
        CHECK(!readable(tapped, 50)); /* once, and not the refusal that came back */

        CHECK(refused("2001:db8::5", 123));
        NEED(readable(tapped, 500));
        got = tapped_packet(tapped, packet);
        CHECK(got == 58 && packet[0] >> 4 == 6 && packet[6] == IPPROTO_UDP && packet[24] == 0x20 && packet[39] == 5 &&
              packet[43] == 123);
        CHECK(!readable(tapped, 50));

        /* larger ones are cut, and a flood costs no more than the buffer */
        static char large[60000];
        client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        for (uint16_t i = 0; i < 1000; i++) {
                server = address("9.9.9.9", (uint16_t)(1000 + i), &size);
                (void)sendto(client, large, i ? 1000 : sizeof large, 0, (struct sockaddr *)&server, size);
        }
        unsigned count = 0;
        while ((got = tapped_packet(tapped, packet)) > 0) {
                CHECK(got <= 64);
                count++;
        }
        CHECK(count > 0 && count < 500);
        CHECK(got == -EAGAIN); /* it stays of use */
        CHECK(refused("9.9.9.9", 999) && readable(tapped, WAIT_MS));
}

static void test_tap(void) {
        in_both(tap);
}

static ssize_t read_inside(const struct net *n, const char *path, char *ret, size_t size) {
        return fd_read_at(n->cell.root, path, ret, size);
}

static int content(const char *text) {
        int fd = memfd_create("content", MFD_CLOEXEC);

        CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text)); /* the offset is at the end */
        return fd;
}

static void files(struct net *n) {
        static const char list[] = "/etc/ssl/certs/ca-certificates.crt";
        struct plan_step host_list = {.op = OP_FILE, .text = {list}, .blob = "host", .blob_size = 4};
        char text[PATH_MAX];

        n->cell.authority[GATE_CA_PEM] = content("one");
        n->cell.authority[GATE_CA_BUNDLE] = content("bundle");
        n->cell.authority[GATE_CA_JAVA] = content("java");
        (void)umask(077);
        NEED(tree_step(&n->cell, &host_list) == 0 && start(n, STEP_TRUST) == 0);

        CHECK(read_inside(n, "run/stockade/net/denials", text, sizeof text) > 0);
        CHECK_STR(text, "nothing was refused yet");
        CHECK(read_inside(n, "run/stockade/net/ca.pem", text, sizeof text) == 3 && str_eq(text, "one"));
        CHECK(read_inside(n, "run/stockade/net/ca-bundle.pem", text, sizeof text) == 6);
        CHECK(read_inside(n, "run/stockade/net/ca.jks", text, sizeof text) == 4 && str_eq(text, "java"));
        CHECK(read_inside(n, list + 1, text, sizeof text) == 6 && str_eq(text, "bundle"));
        struct stat st;
        CHECK(fstatat(n->cell.root, "run/stockade/net/denials", &st, 0) == 0 && (st.st_mode & 07777) == 0644 &&
              st.st_uid == 0);

        /* what is written outside appears inside, and nobody inside can write */
        int denials = n->fds[GATE_DENIALS];
        CHECK(ftruncate(denials, 0) == 0 && pwrite(denials, "no rule for evil.test\n", 22, 0) == 22);
        CHECK(read_inside(n, "run/stockade/net/denials", text, sizeof text) == 21);
        CHECK_STR(text, "no rule for evil.test");
        static const char *const closed[] = {"run/stockade/net/denials", "run/stockade/net/ca.pem",
                                             "etc/ssl/certs/ca-certificates.crt"};
        for (size_t i = 0; i < ELEMENTSOF(closed); i++) {
                CHECK(openat(n->cell.root, closed[i], O_RDWR | O_CLOEXEC) < 0 && errno == EROFS);
                CHECK(fchmodat(n->cell.root, closed[i], 0666, 0) < 0 && errno == EROFS);
                int fd = openat(n->cell.root, closed[i], O_RDONLY | O_CLOEXEC);
                (void)snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
                CHECK(fd >= 0 && open(text, O_RDWR | O_CLOEXEC) < 0 && errno == EROFS);
                (void)close(fd);
        }
        CHECK(openat(n->cell.root, "run/stockade/net/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
        CHECK(unlinkat(n->cell.root, "run/stockade/net/denials", 0) < 0 && errno == EROFS);

        /* of the two mounts at the place the last one is on top */
        _cleanup_free_ char *mounts = NULL;
        char last[512] = "";
        unsigned count = 0;
        NEED(fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, false, &mounts, NULL, NULL) == 0);
        for (char *line = mounts; line && *line; line = strchr(line, '\n')) {
                line += *line == '\n';
                (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
                if (strstr(text, list))
                        CHECK(strstr(text, " ro,nosuid,nodev,noexec"));
                if (strstr(text, PLACE " ")) {
                        (void)snprintf(last, sizeof last, "%.500s", text);
                        count++;
                }
        }
        CHECK(count == 2 && strstr(last, " ro,nosuid,nodev,noexec"));
}

static void test_files(void) {
        in_both(files);
}

/* Without an authority there are no files of it, and the host's list stays; promised and not given, nothing starts. */
static void no_authority(struct net *n) {
        char text[64];
        struct plan_step link = {.op = OP_LINK, .text = {"/etc/ssl/certs/ca-certificates.crt", "/etc/elsewhere"}};

        NEED(tree_step(&n->cell, &link) == 0);
        CHECK(start(n, STEP_TRUST) == -EBADF);
        NEED(unshare(CLONE_NEWNET) == 0 && start(n, 0) == 0);
        CHECK(read_inside(n, "run/stockade/net/ca.pem", text, sizeof text) == -ENOENT);
        NEED(unshare(CLONE_NEWNET) == 0);
        for (size_t i = 0; i < ELEMENTSOF(n->cell.authority); i++)
                n->cell.authority[i] = content("x");
        CHECK(start(n, STEP_TRUST) == 0);
        /* a link is neither followed nor covered */
        CHECK(faccessat(n->cell.root, "etc/elsewhere", F_OK, 0) < 0);
        CHECK(readlinkat(n->cell.root, &link.text[0][1], text, sizeof text) == 14);
        CHECK(openat(n->cell.root, &link.text[0][1], O_RDONLY | O_CLOEXEC | O_NOFOLLOW) < 0 && errno == ELOOP);
}

static void test_no_authority(void) {
        in_both(no_authority);
}

/* A host that has switched IPv6 off: IPv4 works, IPv6 leads nowhere. */
static void without_v6(struct net *n) {
        NEED(fd_write_at(AT_FDCWD, "/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1") == 0);
        NEED(start(n, 0) == 0);
        arrives(n, GATE_TCP, "93.184.216.34", 443, "93.184.216.34 443");
        int fd = dial("2606:2800::1", 443, SOCK_STREAM);
        CHECK(fd == -ENETUNREACH || fd == -EADDRNOTAVAIL);
        CHECK(!readable(n->fds[GATE_TCP], 0));
}

static void test_without_v6(void) {
        in_both(without_v6);
}

/* With every descriptor closed there is no network, not an open one. */
static void nobody(struct net *n) {
        NEED(start(n, 0) == 0);
        for (size_t i = 0; i < NET_FDS; i++)
                (void)close(n->fds[i]);
        CHECK(dial("93.184.216.34", 443, SOCK_STREAM) == -ECONNREFUSED);
        CHECK(dial("2606:2800::1", 443, SOCK_STREAM) == -ECONNREFUSED);
        CHECK(dial("8.8.8.8", 53, SOCK_STREAM) == -ECONNREFUSED);
        CHECK(refused("8.8.8.8", 53) && refused("9.9.9.9", 443));
}

static void test_nobody(void) {
        in_both(nobody);
}

static const char ruleset[] = "table inet stockade {\n"
                              "\tchain output {\n"
                              "\t\ttype nat hook output priority -100; policy accept;\n"
                              "\t\tip daddr 127.0.0.0/8 accept\n"
                              "\t\tip6 daddr ::1 accept\n"
                              "\t\tudp dport 53 redirect to :15053\n"
                              "\t\ttcp dport 53 redirect to :15053\n"
                              "\t\tip daddr 198.18.0.1 accept\n"
                              "\t\tip6 daddr fd53:746f:636b::1 accept\n"
                              "\t\tmeta l4proto 6 redirect to :15001\n"
                              "\t\tlog group 1 snaplen 64\n"
                              "\t}\n"
                              "}\n";

/* The rules as nft reads them back. */
static void rules(struct net *n) {
        char text[4096];
        int out[2], status = -1;

        NEED(start(n, 0) == 0 && pipe2(out, O_CLOEXEC) == 0);
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
        /* never half of them, never twice */
        CHECK(net_rules() == -EEXIST);
}

static void test_rules(void) {
        if (access(NFT, X_OK) < 0 && !getenv("STOCKADE_MUST_WORK")) {
                (void)printf("# skipped: there is no nft here to read the rules with\n");
                return;
        }
        in_both(rules);
}

/* A prepared root has the place to mount on. */
static void test_skeleton(void) {
        static const uint8_t hash[HASH_SIZE];
        char place[] = "/tmp/stockade-net-XXXXXX", path[64];
        _cleanup_buf_ struct buf b = {0};
        struct stat st;

        NEED(mkdtemp(place) != NULL);
        plan_begin(&b, hash);
        plan_add(&b, OP_NETWORK, 0, PLACE);
        struct plan plan = {.bytes = (const uint8_t *)b.data, .size = b.size};
        _cleanup_fd_ int directory = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
        CHECK(tree_skeleton(&plan, NULL, directory) == 0);
        CHECK(fstatat(directory, &PLACE[1], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
        static const char *const made[] = {"/run/stockade/net", "/run/stockade", "/run", ""};
        for (size_t i = 0; i < ELEMENTSOF(made); i++) {
                (void)snprintf(path, sizeof path, "%s%s", place, made[i]);
                CHECK(rmdir(path) == 0);
        }
}

TEST_MAIN(TEST(test_redirects), TEST(test_fast_open), TEST(test_inner), TEST(test_names), TEST(test_tap),
          TEST(test_files), TEST(test_no_authority), TEST(test_without_v6), TEST(test_nobody), TEST(test_rules),
          TEST(test_skeleton))
