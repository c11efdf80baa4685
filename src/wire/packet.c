/* Packets with descriptors. A packet that was cut, or whose descriptors were, is never handed on as if it were whole:
 * what came with it is closed here. */
#include "wire/packet.h"

#include <sys/socket.h>

#include "base/fd.h"

union control {
        struct cmsghdr align;
        char space[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
};

static void attach_fds(struct msghdr *message, union control *control, const int *fds, size_t fd_count) {
        message->msg_control = control->space;
        message->msg_controllen = (socklen_t)CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(message);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        c->cmsg_len = (socklen_t)CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
}

int packet_send(int socket, const struct iovec *parts, size_t part_count, const int *fds, size_t fd_count) {
        union control control = {0};
        struct iovec copy[4];
        struct msghdr message = {.msg_iov = copy};
        ssize_t n;

        if (fd_count > PACKET_FDS_MAX || part_count > ELEMENTSOF(copy))
                return -EINVAL;
        memcpy(copy, parts, part_count * sizeof *parts);
        message.msg_iovlen = (__typeof__(message.msg_iovlen))part_count; /* libcs differ */
        if (fd_count > 0)
                attach_fds(&message, &control, fds, fd_count);
        do
                n = sendmsg(socket, &message, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : 0;
}

ssize_t packet_send_some(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count) {
        union control control = {0};
        struct iovec part = {(void *)(uintptr_t)bytes, size};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        assert(fd_count <= PACKET_FDS_MAX);
        if (fd_count > 0)
                attach_fds(&message, &control, fds, fd_count);
        return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static size_t take_fds(struct msghdr *message, int *fds, size_t max) {
        struct cmsghdr *c = CMSG_FIRSTHDR(message); /* nothing else is asked for, so there is at most one */

        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
                return 0;
        size_t count = MIN((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), max); /* as there is room for */
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
        return count;
}

ssize_t packet_receive_anyway(int socket, void *packet, size_t room, int *fds, size_t fds_max, size_t *ret_fd_count,
                              bool *ret_lost) {
        union control control = {0};
        struct iovec part = {packet, room};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space};
        int arrived[PACKET_FDS_MAX];
        ssize_t n;

        assert(fds_max <= PACKET_FDS_MAX);
        message.msg_controllen = (socklen_t)CMSG_SPACE(fds_max * sizeof(int));
        do
                n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        /* the space's padding may hold one more than fits in fds: taken here, so that it can be closed */
        size_t count = take_fds(&message, arrived, ELEMENTSOF(arrived));
        /* there was room for all that may come, so that it is the kernel who found no place for them in our table */
        bool lost = message.msg_flags & MSG_CTRUNC && count < fds_max;
        if (message.msg_flags & MSG_TRUNC || (message.msg_flags & MSG_CTRUNC && !lost) || count > fds_max) {
                packet_close(arrived, count);
                return -EBADMSG;
        }
        if (lost)
                packet_close(arrived, count);
        else if (count > 0)
                memcpy(fds, arrived, count * sizeof *fds);
        *ret_fd_count = lost ? 0 : count;
        *ret_lost = lost;
        return n;
}

ssize_t packet_receive(int socket, void *packet, size_t room, int *fds, size_t fds_max, size_t *ret_fd_count) {
        bool lost = false;
        ssize_t n = packet_receive_anyway(socket, packet, room, fds, fds_max, ret_fd_count, &lost);

        return n >= 0 && lost ? -EMFILE : n;
}

void packet_close(int *fds, size_t fd_count) {
        for (size_t i = 0; i < fd_count; i++)
                fd_close(&fds[i]);
}

void packet_put_number(struct buf *b, const void *from, size_t size) {
        uint16_t v16;
        uint32_t v32;
        uint64_t v64;

        switch (size) {
        case sizeof v16:
                memcpy(&v16, from, sizeof v16);
                return wire_put_u16(b, v16);
        case sizeof v32:
                memcpy(&v32, from, sizeof v32);
                return wire_put_u32(b, v32);
        default:
                memcpy(&v64, from, sizeof v64);
                return wire_put_u64(b, v64);
        }
}

void packet_take_number(struct wire *w, void *to, size_t size) {
        uint16_t v16;
        uint32_t v32;
        uint64_t v64;

        switch (size) {
        case sizeof v16:
                v16 = wire_u16(w);
                memcpy(to, &v16, sizeof v16);
                break;
        case sizeof v32:
                v32 = wire_u32(w);
                memcpy(to, &v32, sizeof v32);
                break;
        default:
                v64 = wire_u64(w);
                memcpy(to, &v64, sizeof v64);
        }
}
