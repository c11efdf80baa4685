/* Fuzz target: what a cell or a guest, captured perhaps, sends to the launcher: packets of any size with any number of
 * descriptors. The first byte of each packet says how many come along, the second how long it is. A report comes out if
 * and only if a packet has just its size and no more descriptors than there is room for; and no descriptor stays open
 * that was not handed over. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/cell.h"
#include "tests/fuzz/fuzz.h"

enum { SENT_MAX = 64 };

static unsigned open_descriptors(void) {
        unsigned count = 0;

        for (int fd = 0; fd < 48; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

static bool send_packet(int socket, const uint8_t *bytes, size_t size, size_t fd_count) {
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int) * SENT_MAX)];
        } control = {0};
        struct iovec data = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

        if (fd_count > 0) {
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
                for (size_t i = 0; i < fd_count; i++)
                        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &socket, sizeof socket);
                message.msg_control = control.room;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        }
        return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static bool is_report(const uint8_t *bytes, size_t size) {
        struct report r;
        struct report_words words;

        if (size < sizeof r)
                return false;
        memcpy(&r, bytes, sizeof r);
        if (r.kind != REPORT_BOX_FAILED)
                return size == sizeof r;
        if (size != sizeof r + sizeof words)
                return false;
        memcpy(&words, bytes + sizeof r, sizeof words);
        return report_words_check(&words) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        int ends[2], fds[CELL_REPORT_FDS];
        size_t count;
        struct report r;
        struct report_words words;

        assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        unsigned before = open_descriptors();
        while (size >= 2) {
                size_t fd_count = data[0] % (SENT_MAX + 1),
                       length = MIN(data[1] == 255 ? sizeof r + sizeof words : data[1] % 64U, size - 2);

                if (!send_packet(ends[0], data + 2, length, fd_count))
                        break;
                memset(&r, 0xaa, sizeof r);
                count = 99;
                int result = cell_receive(ends[1], &r, &words, fds, &count);
                if (is_report(data + 2, length) && fd_count <= CELL_REPORT_FDS) {
                        assert(result == 1 && count == fd_count && memcmp(&r, data + 2, sizeof r) == 0);
                        assert(report_words_check(&words) == 0);
                        for (size_t i = 0; i < count; i++) {
                                assert(fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
                                (void)close(fds[i]);
                        }
                } else
                        assert(result <= 0 && count == 0);
                assert(open_descriptors() == before);
                data += 2 + length;
                size -= 2 + length;
        }
        assert(cell_receive(ends[1], &r, NULL, fds, &count) == -EAGAIN);
        (void)close(ends[0]);
        (void)close(ends[1]);
        return 0;
}
