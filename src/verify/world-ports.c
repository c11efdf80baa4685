/* The sockets of the listener: which ports answer in which namespace, and how.
 *
 * Near, they are what a careless host would have open to itself; far, they are the internet, at every address. All are
 * bound to the wildcard: the address that was meant is read from what arrives. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/world-own.h"

enum { BACKLOG = 128 };

/* Port 0: the kernel chooses, and it is told in *chosen of the shared memory. */
static const struct {
        bool far, udp;
        uint16_t port;
        enum world_service service;
        size_t chosen;
} table[] = {
        {false, false, 0, SERVICE_RAW, offsetof(struct world_heard, tcp)},
        {false, true, 0, SERVICE_RAW, offsetof(struct world_heard, udp)},
        {false, false, 80, SERVICE_HTTP, 0},
        {false, false, 53, SERVICE_NAMES, 0},
        {false, true, 53, SERVICE_NAMES, 0},
        {true, false, 0, SERVICE_RAW, offsetof(struct world_heard, far_tcp)},
        {true, true, 0, SERVICE_RAW, offsetof(struct world_heard, far_udp)},
        {true, false, 25, SERVICE_RAW, 0},
        {true, false, 53, SERVICE_NAMES, 0},
        {true, false, 80, SERVICE_HTTP, 0},
        {true, false, 443, SERVICE_TLS, 0},
        {true, false, 853, SERVICE_RAW, 0},
        {true, false, 8080, SERVICE_RAW, 0},
        {true, true, 53, SERVICE_NAMES, 0},
        {true, true, 123, SERVICE_RAW, 0},
        {true, true, 443, SERVICE_RAW, 0},
        {true, true, 853, SERVICE_RAW, 0},
};
static_assert(2 * ELEMENTSOF(table) + 2 <= WORLD_PORTS_MAX, "there is room for all");

/* An answer has to come from the address that was asked, which is no interface's own. */
static int set_options(int fd, int family, bool udp) {
        int on = 1;

        if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0)
                return -errno;
        if (!udp)
                return 0;
        if (family == AF_INET ? setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) < 0 ||
                                        setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on) < 0
                              : setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on) < 0 ||
                                        setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on) < 0)
                return -errno;
        return 0;
}

/* Where announcements on the local network go. A host without such an interface just does not hear them. */
static void join_groups(int fd, int family) {
        static const char *const names[] = {"near", "lo"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                struct ip_mreqn four = {.imr_ifindex = (int)if_nametoindex(names[i])};
                struct ipv6_mreq six = {.ipv6mr_interface = if_nametoindex(names[i])};

                if (family == AF_INET && inet_pton(AF_INET, "224.0.0.251", &four.imr_multiaddr) == 1)
                        (void)setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof four);
                if (family == AF_INET6 && inet_pton(AF_INET6, "ff02::fb", &six.ipv6mr_multiaddr) == 1)
                        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &six, sizeof six);
        }
}

/* *port: 0 gets what the kernel chose. Returns the socket. */
static int open_port(int family, bool udp, uint16_t *port) {
        struct sockaddr_storage own = {.ss_family = (sa_family_t)family};
        socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        /* the port stands at the same place in both */
        struct sockaddr_in *in = (struct sockaddr_in *)&own;
        _cleanup_fd_ int fd = socket(family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        int r = set_options(fd, family, udp);
        in->sin_port = htons(*port);
        if (r == 0 && bind(fd, (struct sockaddr *)&own, size) < 0)
                r = -errno;
        if (r == 0 && !udp && listen(fd, BACKLOG) < 0)
                r = -errno;
        if (r == 0 && getsockname(fd, (struct sockaddr *)&own, &size) < 0)
                r = -errno;
        if (r < 0)
                return r;
        *port = ntohs(in->sin_port);
        return TAKE_FD(fd);
}
static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port), "same place");

static int open_side(const struct world *w, bool far, struct world_port *ret, size_t *count) {
        static const int families[] = {AF_INET, AF_INET6};

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                uint16_t port = table[i].port;

                if (table[i].far != far)
                        continue;
                for (size_t k = 0; k < ELEMENTSOF(families); k++) {
                        int fd = open_port(families[k], table[i].udp, &port);

                        if (fd < 0 && families[k] == AF_INET6)
                                continue; /* this host may have none */
                        if (fd < 0)
                                return fd;
                        if (!far && table[i].udp && table[i].port == 0)
                                join_groups(fd, families[k]);
                        ret[(*count)++] = (struct world_port){
                                .fd = fd, .service = table[i].service, .udp = table[i].udp};
                }
                if (table[i].port == 0)
                        memcpy((char *)w->heard + table[i].chosen, &port, sizeof port);
        }
        return 0;
}

/* name begins with '@': an abstract one. */
static int open_local(const char *name, struct world_port *ret) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        size_t n = strlen(name);
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        if (n >= sizeof a.sun_path)
                return -ENAMETOOLONG;
        memcpy(a.sun_path, name, n);
        if (name[0] == '@')
                a.sun_path[0] = '\0';
        if (bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0 ||
            listen(fd, BACKLOG) < 0 || (name[0] != '@' && chmod(name, 0777) < 0))
                return -errno;
        *ret = (struct world_port){.fd = TAKE_FD(fd), .service = SERVICE_RAW, .local = true};
        const char *slash = strrchr(name, '/');
        (void)snprintf(ret->name, sizeof ret->name, "%.45s", slash ? slash + 1 : name);
        return 0;
}

int world_ports_open(const struct world *w, int far, struct world_port ret[WORLD_PORTS_MAX], size_t *ret_count) {
        char name[sizeof w->folder + 32];
        size_t count = 0;

        int r = open_side(w, false, ret, &count);
        (void)snprintf(name, sizeof name, "%s/listener.sock", w->folder);
        if (r == 0)
                r = open_local(name, &ret[count]);
        if (r == 0)
                count++;
        (void)snprintf(name, sizeof name, "@%s", w->nonce);
        if (r == 0)
                r = open_local(name, &ret[count]);
        if (r == 0)
                count++;
        if (r == 0 && setns(far, CLONE_NEWNET) < 0)
                r = -errno;
        if (r == 0)
                r = open_side(w, true, ret, &count);
        if (r == 0)
                *ret_count = count;
        return r;
}
