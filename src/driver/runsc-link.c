/* A link for a sentry: see the header. The words are those of the runsc that runsc-parts.c knows. */
#include "driver/runsc-link.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/fd.h"
#include "wire/gate.h"

#define ROOM     (4 << 20)  /* of the socket's queues */
#define GSO_MAX  65536      /* larger packets than the device takes, which the host's kernel then cuts */
#define MASK_31  "/////g==" /* as the addresses of the link */
#define MASK_64  "//////////8AAAAAAAAAAA=="
#define MASK_127 "/////////////////////g=="
#define MASK_NO4 "AAAAAA=="
#define MASK_NO6 "AAAAAAAAAAAAAAAAAAAAAA=="

static_assert(WARD_LINK_V4 == 31 && WARD_LINK_V6 == 127, "the masks are theirs");

static unsigned prefix_length(const struct sockaddr_in6 *mask) {
        unsigned n = 0;

        for (size_t i = 0; i < sizeof mask->sin6_addr; i++)
                n += (unsigned)__builtin_popcount(mask->sin6_addr.s6_addr[i]);
        return n;
}

static int remove_v6(const struct ifaddrs *a, unsigned index) {
        _cleanup_fd_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct in6_ifreq request = {.ifr6_ifindex = (int)index};

        request.ifr6_addr = ((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr;
        request.ifr6_prefixlen = prefix_length((const struct sockaddr_in6 *)(const void *)a->ifa_netmask);
        return fd < 0 || ioctl(fd, SIOCDIFADDR, &request) < 0 ? -errno : 0;
}

/* The host's kernel would answer for them too. */
static int remove_addresses(const char *link, unsigned index, int socket_, bool *ret_v6) {
        struct ifaddrs *all;
        struct ifreq none = {.ifr_addr = {.sa_family = AF_INET}};
        int r = 0;

        (void)snprintf(none.ifr_name, sizeof none.ifr_name, "%s", link);
        if (ioctl(socket_, SIOCSIFADDR, &none) < 0 || getifaddrs(&all) < 0)
                return -errno;
        for (const struct ifaddrs *a = all; a && r == 0; a = a->ifa_next)
                if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6 && str_eq(a->ifa_name, link)) {
                        *ret_v6 = true;
                        r = remove_v6(a, index);
                }
        freeifaddrs(all);
        return r;
}

/* Whatever comes to the device and goes out of it. *ret_gso: the largest that it takes, or 0. */
static int open_packets(unsigned index, unsigned *ret_gso) {
        const struct sockaddr_ll at = {
                .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)index};
        const int yes = 1, room = ROOM;
        _cleanup_fd_ int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));

        if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0)
                return -errno;
        *ret_gso = setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) < 0 ? 0 : GSO_MAX;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room); /* smaller ones are slower, no more */
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
        return TAKE_FD(fd);
}

/* --- words --- */

struct facts {
        const char *name;
        int mtu;
        char hardware[BASE64_TEXT(ETH_ALEN)];
        unsigned gso;
        bool v6;
};

static int ask_device(int socket_, struct facts *f) {
        struct ifreq request = {0};

        (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", f->name);
        if (ioctl(socket_, SIOCGIFMTU, &request) < 0)
                return -errno;
        f->mtu = request.ifr_mtu;
        if (ioctl(socket_, SIOCGIFHWADDR, &request) < 0)
                return -errno;
        (void)base64_write(request.ifr_hwaddr.sa_data, ETH_ALEN, f->hardware);
        return 0;
}

static void put_address(struct buf *b, const char *address, int length, bool more) {
        buf_printf(b, "{\"Address\":\"%s\",\"PrefixLen\":%d}%s", address, length, more ? "," : "");
}

static void put_route(struct buf *b, const char *to, const char *mask, const char *by, bool more) {
        buf_printf(b, "{\"Destination\":{\"IP\":\"%s\",\"Mask\":\"%s\"},\"Gateway\":\"%s\"}%s", to, mask, by,
                   more ? "," : "");
}

static void put_loopback(struct buf *b) {
        buf_str(b, "\"LoopbackLinks\":[{\"Name\":\"lo\",\"Addresses\":[");
        put_address(b, "127.0.0.1", 8, true);
        put_address(b, "::1", 128, false);
        buf_str(b, "],\"Routes\":[");
        put_route(b, "127.0.0.0", "/wAAAA==", "", true);
        put_route(b, "::1", "/////////////////////w==", "", false);
        buf_str(b, "]}]");
}

static void put_device(struct buf *b, const struct facts *f) {
        buf_printf(b, ",\"FDBasedLinks\":[{\"Name\":\"%s\",\"MTU\":%d,\"Addresses\":[", f->name, f->mtu);
        put_address(b, WARD_FAR_V4, WARD_LINK_V4, f->v6);
        if (f->v6) {
                put_address(b, WARD_FAR_V6, WARD_LINK_V6, true);
                put_address(b, WARD_FAR_LINK, 64, false);
        }
        buf_str(b, "],\"Routes\":[");
        put_route(b, WARD_FAR_V4, MASK_31, "", f->v6);
        if (f->v6) {
                put_route(b, WARD_FAR_V6, MASK_127, "", true);
                put_route(b, "fe80::", MASK_64, "", false);
        }
        buf_printf(b, "],\"GSOMaxSize\":%u,\"RXChecksumOffload\":true,\"LinkAddress\":\"%s\",\"QDisc\":1,", f->gso,
                   f->hardware);
        buf_str(b, "\"NumChannels\":1}]");
}

static void put_default(struct buf *b, const char *key, const char *name, const char *mask, const char *any,
                        const char *by) {
        buf_printf(b, ",\"%s\":{\"Name\":\"%s\",\"Route\":", key, name);
        put_route(b, any, mask, by, false);
        buf_str(b, "}");
}

static int take_over(const char *link, struct facts *f) {
        _cleanup_fd_ int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), packets = -EBADF;
        unsigned index = if_nametoindex(link);

        if (socket_ < 0 || index == 0)
                return -errno;
        f->name = link;
        int r = ask_device(socket_, f);
        if (r == 0)
                r = remove_addresses(link, index, socket_, &f->v6);
        if (r < 0)
                return r;
        packets = open_packets(index, &f->gso);
        return TAKE_FD(packets);
}

int runsc_link_question(const char *link, struct buf *question, int *ret_fd) {
        struct facts f = {0};
        _cleanup_fd_ int packets = link ? take_over(link, &f) : -EBADF;

        if (link && packets < 0)
                return packets;
        buf_str(question, "{\"method\":\"Network.CreateLinksAndRoutes\",\"arg\":{");
        put_loopback(question);
        if (link) {
                put_device(question, &f);
                put_default(question, "Defaultv4Gateway", link, MASK_NO4, "0.0.0.0", WARD_NEAR_V4);
        }
        if (link && f.v6)
                put_default(question, "Defaultv6Gateway", link, MASK_NO6, "::", WARD_NEAR_V6);
        buf_str(question, "}}");
        if (!buf_ok(question))
                return -ENOMEM;
        *ret_fd = TAKE_FD(packets);
        return 0;
}
