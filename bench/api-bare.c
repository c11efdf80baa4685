/* The yardstick of bench/api: libmicrohttpd as the operator has it (its epoll descriptor inside another loop's), with a
 * handler that does nothing but answer. And a plain sender of a file, by sendfile.
 *
 *   api-bare answer BYTES   every request gets so many bytes; prints its port
 *   api-bare send FILE      whoever connects gets the file behind a short head; prints its port
 * Ends when its standard input does. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define CONNECTIONS 12000U /* as many as bench/api lets the operator have */

static char *body;
static size_t body_size;

static int listen_somewhere(void) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0 ||
            getsockname(fd, (struct sockaddr *)&at, &size) < 0)
                return -errno;
        (void)printf("%u\n", ntohs(at.sin_port));
        (void)fflush(stdout);
        return fd;
}

static enum MHD_Result handle(void *data, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **context) {
        static int begun;

        (void)data, (void)url, (void)method, (void)version, (void)upload, (void)upload_size;
        if (!*context) {
                *context = &begun;
                return MHD_YES;
        }
        struct MHD_Response *r = MHD_create_response_from_buffer(body_size, body, MHD_RESPMEM_PERSISTENT);
        enum MHD_Result done = MHD_queue_response(c, 200, r);
        MHD_destroy_response(r);
        return done;
}

static int answer(size_t size) {
        int listener = listen_somewhere(), outer = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event in = {.events = EPOLLIN}, hangup = {.events = EPOLLIN, .data.u32 = 1};
        struct rlimit files = {CONNECTIONS + 64, CONNECTIONS + 64};

        body = malloc(size + 1);
        if (listener < 0 || outer < 0 || !body || setrlimit(RLIMIT_NOFILE, &files) < 0)
                return 1;
        memset(body, 'x', size);
        body_size = size;
        struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TURBO, 0, NULL, NULL, handle, NULL,
                                                MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
                                                CONNECTIONS, MHD_OPTION_END);
        if (!d)
                return 1;
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_EPOLL_FD);
        if (epoll_ctl(outer, EPOLL_CTL_ADD, info->epoll_fd, &in) < 0 ||
            epoll_ctl(outer, EPOLL_CTL_ADD, STDIN_FILENO, &hangup) < 0)
                return 1;
        for (;;) {
                MHD_UNSIGNED_LONG_LONG ms = 0;
                struct epoll_event e;
                int wait = MHD_get_timeout(d, &ms) == MHD_YES ? (int)MIN(ms, 1000U) : -1;

                if (epoll_wait(outer, &e, 1, wait) > 0 && e.data.u32 == 1)
                        return 0;
                (void)MHD_run(d);
        }
}

static void send_file(int to, int file, off_t size) {
        char head[128], request[4096];
        int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\nConnection: close\r\n\r\n",
                         (long long)size);
        off_t at = 0;

        if (recv(to, request, sizeof request, 0) <= 0 || send(to, head, (size_t)n, MSG_NOSIGNAL | MSG_MORE) < 0)
                return;
        while (at < size && sendfile(to, file, &at, (size_t)(size - at)) > 0)
                ;
}

static int serve(const char *path) {
        _cleanup_fd_ int file = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        int listener = listen_somewhere();
        struct pollfd wait[2] = {{.fd = listener, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};

        if (file < 0 || fstat(file, &st) < 0 || listener < 0)
                return 1;
        while (poll(wait, 2, -1) > 0 && !wait[1].revents) {
                _cleanup_fd_ int to = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

                if (to >= 0)
                        send_file(to, file, st.st_size);
        }
        return 0;
}

int main(int argc, char **argv) {
        if (argc == 3 && str_eq(argv[1], "answer"))
                return answer(strtoul(argv[2], NULL, 10));
        if (argc == 3 && str_eq(argv[1], "send"))
                return serve(argv[2]);
        (void)fputs("Usage: api-bare answer BYTES | send FILE\n", stderr);
        return 2;
}
