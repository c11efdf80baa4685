/* stockade-vm-files: the file server of a machine that has no virtiofs.
 *
 *     stockade-vm-files TREE [live]
 *
 * Its descriptor 3 is a stream to the machine, or a listening socket: then the first who connects is served, and nobody
 * else can connect. It ends with the stream. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "driver/fuse-server.h"
#include "driver/vm-place.h"

#define STREAM PLACE_FD_FIRST

static int open_stream(int fd) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int listens = 0;
        socklen_t size = sizeof listens;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
                return fd;
        while (poll(&p, 1, -1) < 0 && errno == EINTR)
                ;
        int stream = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (stream < 0)
                return -errno;
        (void)close(fd);
        return stream;
}

/* Some are for what is open, and for what is looked at. */
static uint32_t most_nodes(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return 0;
        return (uint32_t)MIN(files.rlim_cur - MIN(files.rlim_cur / 4, (rlim_t)FUSE_HANDLES_MAX + 64),
                             (rlim_t)FUSE_NODES_MAX);
}

static int serve(const char *tree, bool live, struct err *err) {
        static struct fuse_server s;

        s.live = live;
        s.most = most_nodes();
        s.tree = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s.tree < 0)
                return err_set(err, -errno, "cannot open the tree '%s'", tree);
        s.proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s.proc < 0)
                return err_set(err, -errno, "cannot open /proc/self/fd");
        s.stream = open_stream(STREAM);
        if (s.stream < 0)
                return err_set(err, s.stream, "nobody connected");
        int r = fuse_server_confine();
        if (r < 0)
                return err_set(err, r, "the file server could not confine itself");
        r = fuse_server_run(&s);
        return r < 0 ? err_set(err, r, "the machine's files are not served any more") : 0;
}

int main(int argc, char **argv) {
        struct err err = {0};
        bool live = argc == 3 && str_eq(argv[2], "live");

        (void)signal(SIGPIPE, SIG_IGN);
        if (argc != 2 && !live)
                (void)err_set(&err, ERR_INPUT, "stockade-vm-files takes a tree");
        else if (serve(argv[1], live, &err) == 0)
                return 0;
        err_print(&err);
        return 1;
}
