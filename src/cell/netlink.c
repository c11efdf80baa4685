/* Writing netlink messages and hearing what the kernel says about them. No allocation, no lock, no log. */
#include "cell/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

/* Room for size bytes, padded with zeros to a multiple of four, as part of the message that is being written. */
static void *grow(struct netlink *n, size_t size) {
        size_t whole = NLMSG_ALIGN(size);

        if (n->full || size > NETLINK_BATCH_SIZE || whole > NETLINK_BATCH_SIZE - n->size) {
                n->full = true;
                return NULL;
        }
        void *p = n->bytes + n->size;
        memset(p, 0, whole);
        n->size += whole;
        return p;
}

static void message_grown(struct netlink *n) {
        struct nlmsghdr *h = (struct nlmsghdr *)(void *)(n->bytes + n->message);

        h->nlmsg_len = (uint32_t)(n->size - n->message);
}

void netlink_begin(struct netlink *n, unsigned type, unsigned flags, const void *header, size_t size) {
        size_t at = n->size;
        struct nlmsghdr *h = grow(n, sizeof *h);
        void *own = grow(n, size);

        if (!h || !own)
                return;
        n->message = at;
        *h = (struct nlmsghdr){.nlmsg_type = (uint16_t)type,
                               .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                               .nlmsg_seq = ++n->sequence};
        memcpy(own, header, size);
        message_grown(n);
}

void netlink_want_answer(struct netlink *n) {
        struct nlmsghdr *h = (struct nlmsghdr *)(void *)(n->bytes + n->message);

        h->nlmsg_flags |= NLM_F_ACK;
}

void netlink_put(struct netlink *n, unsigned type, const void *data, size_t size) {
        uint8_t *p = grow(n, sizeof(struct nlattr) + size);

        if (!p)
                return;
        struct nlattr a = {.nla_len = (uint16_t)(sizeof a + size), .nla_type = (uint16_t)type};
        memcpy(p, &a, sizeof a);
        if (size > 0)
                memcpy(p + sizeof a, data, size);
        message_grown(n);
}

void netlink_put_text(struct netlink *n, unsigned type, const char *text) {
        netlink_put(n, type, text, strlen(text) + 1);
}

void netlink_put_u32(struct netlink *n, unsigned type, uint32_t value) {
        netlink_put(n, type, &value, sizeof value);
}

void netlink_put_be32(struct netlink *n, unsigned type, uint32_t value) {
        netlink_put_u32(n, type, htonl(value));
}

size_t netlink_open(struct netlink *n, unsigned type) {
        size_t at = n->size;

        netlink_put(n, type | NLA_F_NESTED, NULL, 0);
        return at;
}

void netlink_close(struct netlink *n, size_t opened) {
        struct nlattr a;

        if (n->full)
                return;
        memcpy(&a, n->bytes + opened, sizeof a);
        a.nla_len = (uint16_t)(n->size - opened);
        memcpy(n->bytes + opened, &a, sizeof a);
}

/* Reads what the kernel has said: one answer to a packet. All of it is there already. */
static int hear(int fd, uint32_t *ret_failed) {
        int first = 0;
        bool answered = false;

        for (;;) {
                struct {
                        struct nlmsghdr header;
                        struct nlmsgerr error; /* a copy of what it is about follows, which nobody needs */
                } answer;
                ssize_t got = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0 && errno == EAGAIN)
                        return first < 0 || answered ? first : -EPROTO;
                if (got < 0)
                        return -errno;
                if ((size_t)got < offsetof(__typeof__(answer), error.msg) || answer.header.nlmsg_type != NLMSG_ERROR)
                        return -EPROTO;
                answered = true;
                if (first == 0 && answer.error.error != 0) {
                        first = answer.error.error < 0 ? answer.error.error : -EPROTO;
                        *ret_failed = answer.header.nlmsg_seq;
                }
        }
}

int netlink_ask(const struct netlink *n, int socket, uint32_t *ret_failed) {
        struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

        *ret_failed = 0;
        if (n->full)
                return -ENOBUFS;
        ssize_t sent = sendto(socket, n->bytes, n->size, 0, (struct sockaddr *)&kernel, sizeof kernel);
        if (sent < 0)
                return -errno;
        return (size_t)sent == n->size ? hear(socket, ret_failed) : -EPROTO;
}

int netlink_talk(const struct netlink *n, int protocol, uint32_t *ret_failed) {
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

        *ret_failed = 0;
        return fd < 0 ? -errno : netlink_ask(n, fd, ret_failed);
}
