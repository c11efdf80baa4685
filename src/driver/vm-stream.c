/* See vm-stream.h. */
#include "driver/vm-stream.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "base/fd.h"

#define WAIT_MS 10000 /* until the other end of a port is there */

int vm_streams_read(const char *words, enum vm_streams *ret, struct err *err) {
        const char *said = strstr(words, VM_STREAMS_WORD);

        *ret = VM_STREAMS_LINE;
        if (!said)
                return 0;
        said += strlen(VM_STREAMS_WORD);
        size_t size = strcspn(said, " \n");
        if (size == 5 && strncmp(said, "ports", size) == 0)
                *ret = VM_STREAMS_PORTS;
        else if (size == 5 && strncmp(said, "vsock", size) == 0)
                *ret = VM_STREAMS_VSOCK;
        else
                return err_set(err, ERR_INPUT, "there are no such streams: '%.20s'", said);
        return 0;
}

static void pause_ms(long ms) {
        struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

        (void)nanosleep(&t, NULL);
}

/* A port's end is there when it does not hang up; until then reading it looks like its end. */
static int open_port(unsigned number) {
        char path[32];

        (void)snprintf(path, sizeof path, "/dev/vport0p%u", number);
        _cleanup_fd_ int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (unsigned waited = 0; waited < WAIT_MS; waited += 5) {
                struct pollfd p = {.fd = fd};
                if (poll(&p, 1, 0) == 0 || !(p.revents & POLLHUP))
                        return TAKE_FD(fd);
                pause_ms(5);
        }
        return -ETIMEDOUT;
}

static int connect_port(unsigned number) {
        const struct sockaddr_vm at = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = number};
        _cleanup_fd_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof at) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int vm_stream_open(enum vm_streams kind, enum vm_stream number, struct err *err) {
        int fd = kind == VM_STREAMS_VSOCK ? connect_port(number) : open_port(number);

        return fd < 0 ? err_set(err, fd, "the machine has no stream %u to its keeper", (unsigned)number) : fd;
}
