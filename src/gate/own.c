/* The kernel is asked how it would route an address, over a routing socket that is opened at the start. What it answers
 * now is what holds for a connection that is made now: addresses come and go, and whole blocks can be routed to the
 * host itself. Without privileges such a socket can ask and change nothing. */
#include "gate/own.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#define ANSWERS_MAX 8 /* messages that are read before giving up */

static int routes = -EBADF;
static uint32_t number; /* of the last question */

struct question {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr to;
        uint8_t address[16];
};

int own_init(struct err *err) {
        routes = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
        return routes < 0 ? err_set(err, -errno, "cannot open a socket to ask for routes") : 0;
}

static int ask(const struct address *a) {
        bool v4 = address_is_v4(a);
        size_t size = v4 ? 4 : 16;
        struct question q = {
                .head = {.nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = ++number},
                .route = {.rtm_family = v4 ? AF_INET : AF_INET6, .rtm_dst_len = (uint8_t)(8 * size)},
                .to = {.rta_len = (unsigned short)RTA_LENGTH(size), .rta_type = RTA_DST},
        };
        struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

        memcpy(q.address, a->bytes + 16 - size, size);
        q.head.nlmsg_len = (uint32_t)(offsetof(struct question, address) + size);
        ssize_t n = sendto(routes, &q, q.head.nlmsg_len, MSG_DONTWAIT, (struct sockaddr *)&kernel, sizeof kernel);
        return n == (ssize_t)q.head.nlmsg_len ? 0 : -EIO;
}

/* An address that the kernel has no way to is not ours: connecting fails in the same way. */
static bool error_means_own(int error) {
        static const int nowhere[] = {-ENETUNREACH, -EHOSTUNREACH, -EACCES, -EOPNOTSUPP, -EAFNOSUPPORT};

        for (size_t i = 0; i < ELEMENTSOF(nowhere); i++)
                if (error == nowhere[i])
                        return false;
        return true;
}

bool own_address(const struct address *a) {
        union {
                struct nlmsghdr head;
                uint8_t bytes[4096];
        } answer;

        if (ask(a) < 0)
                return true;
        for (unsigned i = 0; i < ANSWERS_MAX; i++) {
                ssize_t n = recv(routes, &answer, sizeof answer, MSG_DONTWAIT);

                if (n < (ssize_t)sizeof answer.head)
                        return true;
                if (answer.head.nlmsg_seq != number)
                        continue;
                if (answer.head.nlmsg_type == NLMSG_ERROR && (size_t)n >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
                        return error_means_own(((const struct nlmsgerr *)NLMSG_DATA(&answer.head))->error);
                if (answer.head.nlmsg_type != RTM_NEWROUTE || (size_t)n < NLMSG_LENGTH(sizeof(struct rtmsg)))
                        return true;
                uint8_t type = ((const struct rtmsg *)NLMSG_DATA(&answer.head))->rtm_type;
                return type == RTN_LOCAL || type == RTN_ANYCAST;
        }
        return true;
}
