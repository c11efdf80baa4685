/* PID 1 of a sandbox that lives: sets the table, then turns the loop.
 *
 * It runs under the same filter and rules as what it starts, is not dumpable, and holds nothing worth having. All
 * signals are blocked: children's ends are read from a descriptor, the rest is nobody's to send. */
#include "guest/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "guest/family.h"
#include "guest/memory.h"
#include "guest/request.h"
#include "guest/run.h"
#include "wire/report.h"

#define TIDY_MS   250 /* of rest, before buffers are given back */
#define ACCEPT_MS 100 /* after a failed accept */

#define DIAL_FIRST_MS 2 /* after a lost connection; doubled until somebody speaks to us */
#define DIAL_MOST_MS  1000

void serve_wake(struct guest *g) {
        loop_later(g->loop, &g->pump);
}

static void dial_if_alone(struct guest *g) {
        if (!g->peer)
                return;
        if (g->link.greeted)
                g->dial_ms = DIAL_FIRST_MS;
        if (g->link.fd < 0 && g->dial.place == 0)
                loop_timer_set(g->loop, &g->dial, loop_now(g->loop) + g->dial_ms);
}

static void pump(struct loop_task *t) {
        struct guest *g = LOOP_OWNER(t, struct guest, pump);

        link_flush(g);
        bool more = run_pump(g);
        run_settle(g);
        more |= request_pump(g);
        more |= !link_has_room(&g->link); /* then some said nothing: nobody else wakes them if all of it goes now */
        link_flush(g);
        if (more && link_has_room(&g->link))
                serve_wake(g);
        dial_if_alone(g);
        loop_timer_set(g->loop, &g->tidy, loop_now(g->loop) + TIDY_MS);
}

static void tidy(struct loop_timer *t) {
        struct guest *g = LOOP_OWNER(t, struct guest, tidy);

        link_tidy(&g->link);
        run_rest(g);
        memory_rest(g->scratch, GUEST_DATA_MAX);
}

static void settle(struct loop_timer *t) {
        serve_wake(LOOP_OWNER(t, struct guest, settle));
}

static void nudge(struct loop_timer *t) {
        run_nudge(LOOP_OWNER(t, struct guest, nudge));
}

static void reap(struct loop_task *t) {
        struct guest *g = LOOP_OWNER(t, struct guest, reap);

        if (run_reap(g))
                loop_later(g->loop, t);
}

static void children(struct loop_watch *w, uint32_t events) {
        struct guest *g = LOOP_OWNER(w, struct guest, children);
        struct signalfd_siginfo info;

        (void)events;
        (void)!read(w->fd, &info, sizeof info); /* one stands for all: whoever ended is asked for */
        reap(&g->reap);
}

static void watch_listener(struct guest *g) {
        if (loop_watch(g->loop, &g->listener, GUEST_LISTEN_FD, EPOLLIN) < 0)
                loop_timer_set(g->loop, &g->accept, loop_now(g->loop) + ACCEPT_MS);
}

static int accept_one(void) {
        return accept4(GUEST_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* A successor can always connect: for a guest that runs at its limit of descriptors there is the spare one. */
static void listener(struct loop_watch *w, uint32_t events) {
        struct guest *g = LOOP_OWNER(w, struct guest, listener);
        int fd = accept_one();

        (void)events;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
                fd_close(&g->spare);
                fd = accept_one();
        }
        if (fd >= 0) {
                link_take(g, fd);
        } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
                loop_unwatch(g->loop, w); /* not at once again */
                loop_timer_set(g->loop, &g->accept, loop_now(g->loop) + ACCEPT_MS);
        }
        if (g->spare < 0)
                g->spare = fcntl(GUEST_LISTEN_FD, F_DUPFD_CLOEXEC, 0);
}

/* Connecting to a Unix socket does not wait: it is done, or refused. */
static int connect_to(const char *path) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        memcpy(at.sun_path, path, strlen(path));
        return connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ? -errno : TAKE_FD(fd);
}

static void dial(struct loop_timer *t) {
        struct guest *g = LOOP_OWNER(t, struct guest, dial);

        g->dial_ms = MIN(2 * g->dial_ms, (unsigned)DIAL_MOST_MS);
        int fd = connect_to(g->peer);
        if (fd == -EMFILE || fd == -ENFILE) {
                fd_close(&g->spare);
                fd = connect_to(g->peer);
        }
        if (fd >= 0 && send(fd, g->secret, g->secret_size, MSG_NOSIGNAL) != (ssize_t)g->secret_size)
                fd_close(&fd);
        if (fd >= 0)
                link_take(g, fd);
        if (g->spare < 0)
                g->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
        serve_wake(g);
}

static void accept_again(struct loop_timer *t) {
        watch_listener(LOOP_OWNER(t, struct guest, accept));
}

/* Standard streams are somebody's, so that no other descriptor ever takes their numbers; nothing else is inherited. */
static int close_rest(bool listens) {
        for (int fd = 0; fd < 3; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
                        return -EBADF;
        (void)kernel_close_range(listens ? GUEST_LISTEN_FD + 1 : REPORT_FD, ~0U, 0);
        if (!listens)
                return 0;
        if (fcntl(GUEST_LISTEN_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(GUEST_LISTEN_FD, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        return 0;
}

static int block_signals(void) {
        sigset_t all, child;

        for (int n = 1; n < NSIG; n++)
                (void)signal(n, SIG_DFL);
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_SETMASK, &all, NULL);
        (void)sigemptyset(&child);
        (void)sigaddset(&child, SIGCHLD);
        int fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int begin(struct guest *g) {
        int r = close_rest(!g->peer);

        if (r < 0)
                return r;
        (void)umask(0); /* modes are said exactly; runs get one of their own */
        if (chdir("/") < 0)
                return -errno;
        int child = block_signals();
        if (child < 0)
                return child;
        link_init(&g->link);
        g->leaves.fd = -EBADF;
        g->scratch = memory_map(GUEST_DATA_MAX);
        r = g->scratch ? loop_create(&g->loop, NULL) : -ENOMEM;
        if (r < 0)
                return r;
        g->pump.run = pump;
        g->reap.run = reap;
        g->tidy.fire = tidy;
        g->settle.fire = settle;
        g->nudge.fire = nudge;
        g->accept.fire = accept_again;
        g->listener.ready = listener;
        g->children.ready = children;
        g->dial.fire = dial;
        if (g->peer) {
                g->dial_ms = DIAL_FIRST_MS;
                g->spare = -EBADF;
                loop_timer_set(g->loop, &g->dial, 0);
        } else {
                g->spare = fcntl(GUEST_LISTEN_FD, F_DUPFD_CLOEXEC, 0);
                watch_listener(g);
        }
        return loop_watch(g->loop, &g->children, child, EPOLLIN);
}

/* Whoever started us writes us down first, and then says so. If nothing comes but the end, nobody knows of us. */
static bool is_wanted(void) {
        char byte;
        ssize_t n;

        do
                n = recv(REPORT_FD, &byte, 1, 0);
        while (n < 0 && errno == EINTR);
        return n == 1;
}

int serve_main(bool leaves) {
        static struct guest g;
        struct report up = {.kind = REPORT_SERVING};
        int fd = REPORT_FD;

        if (!is_wanted())
                return 0;
        if (begin(&g) < 0)
                return 125;
        (void)send(fd, &up, sizeof up, MSG_NOSIGNAL);
        if (leaves)
                g.leaves.fd = fd;
        else
                fd_close(&fd);
        (void)loop_run(g.loop);
        return 125;
}

/* On the null device there is none. Whoever runs here later finds that device there. */
static int read_secret(struct guest *g) {
        ssize_t n = fd_read_full(STDIN_FILENO, g->secret, sizeof g->secret);

        if (n != 0 && n != (ssize_t)sizeof g->secret)
                return n < 0 ? (int)n : -EBADMSG;
        g->secret_size = (size_t)n;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
                return -errno;
        return close(null) < 0 ? -errno : 0;
}

int serve_dial(const char *path, bool leaves) {
        static struct guest g;

        if (path[0] != '/' || strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
                return 125;
        g.peer = path;
        if (read_secret(&g) < 0 || begin(&g) < 0)
                return 125;
        g.leaves.families = !leaves && family_is_told();
        (void)loop_run(g.loop);
        return 125;
}
