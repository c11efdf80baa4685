/* stockade-ssh: the door for people with keys. Started when stockade.conf says where it listens, with the sockets, the
 * host key and one end of a socket pair whose other end every operator gets; started again when it dies, killed when
 * we end.
 *
 * The listening sockets, the key and the pair are opened once and outlive every stockade-ssh and every operator. What
 * cannot be had costs SSH and not the sandboxes: it is said in the log, and the daemon goes on. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/fd.h"
#include "base/kernel.h"
#include "base/knockout.h"
#include "base/log.h"
#include "base/paths.h"
#include "cell/spawn.h"
#include "warden/warden.h"

#define SSH_ID      1744830465U /* 0x68000001: of a stockade-ssh that root starts; the operator's is the one before */
#define KEY_NAME    "ssh-host-key"
#define DELAY_LEAST 100
#define DELAY_MOST  10000
#define HEALTHY_MS  10000

static void start_later(struct warden *w, unsigned ms) {
        loop_timer_set(w->loop, &w->ssh.timer, loop_now(w->loop) + ms);
}

static void ssh_exited(struct loop_watch *watch, uint32_t events) {
        struct warden *w = LOOP_OWNER(watch, struct warden, ssh.exit);
        struct ssh *s = &w->ssh;
        bool healthy = loop_now(w->loop) - s->since >= HEALTHY_MS;
        int status = 0;

        (void)events;
        (void)waitpid(s->pid, &status, WNOHANG);
        loop_unwatch(w->loop, &s->exit);
        fd_close(&s->pidfd);
        s->pid = 0;
        if (w->ending)
                return;
        if (WIFSIGNALED(status))
                log_line(LOG_LEVEL_ERROR, NULL, "stockade-ssh was ended by signal %d; another is started",
                         WTERMSIG(status));
        else
                log_line(LOG_LEVEL_ERROR, NULL, "stockade-ssh ended with status %d; another is started",
                         WEXITSTATUS(status));
        s->delay = healthy || s->delay == 0 ? DELAY_LEAST : MIN(2 * s->delay, DELAY_MOST + 0U);
        start_later(w, s->delay);
}

/* The file is empty until the first stockade-ssh has made a key; from then on it is only read. */
static int open_key(const struct warden *w, struct err *err) {
        struct stat st;
        int fd = openat(w->state, KEY_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

        if (fd < 0 || fstat(fd, &st) < 0) {
                (void)err_set(err, -errno, "cannot open '%s/" KEY_NAME "'", w->state_path);
                fd_close(&fd);
                return err->code;
        }
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)) {
                fd_close(&fd);
                (void)err_set(err, ERR_REFUSED, "'%s/" KEY_NAME "' is refused: others could read or write it",
                              w->state_path);
                return err_hint(err, "it belongs to whoever runs the daemon, with mode 0600");
        }
        if (st.st_size == 0)
                return fd;
        fd_close(&fd);
        fd = openat(w->state, KEY_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return fd >= 0 ? fd : err_set(err, -errno, "cannot open '%s/" KEY_NAME "'", w->state_path);
}

static int spawn(struct warden *w, struct err *err) {
        struct ssh *s = &w->ssh;
        char program[PATH_MAX], *argv[] = {(char *)(uintptr_t) "stockade-ssh", NULL};
        char *env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", knockout_pair(), NULL};

        int r = paths_helper("stockade-ssh", program, sizeof program, err);
        if (r < 0)
                return r;
        _cleanup_fd_ int key = open_key(w, err);
        if (key < 0)
                return key;
        int fds[2 + WARDEN_DOORS] = {s->link, key};
        memcpy(fds + 2, s->doors, s->door_count * sizeof s->doors[0]);
        struct spawn_how how = {.program = program,
                                .argv = argv,
                                .env = env,
                                .fds = fds,
                                .fd_count = 2 + s->door_count,
                                .drop = !w->rootless,
                                .uid = SSH_ID,
                                .gid = SSH_ID,
                                .tied = true}; /* its sockets are ours: a successor of ours opens them again */
        r = spawn_start(&how, &s->pid, &s->pidfd, err);
        if (r < 0)
                return r;
        s->since = loop_now(w->loop);
        s->exit.ready = ssh_exited;
        r = loop_watch(w->loop, &s->exit, s->pidfd, EPOLLIN);
        return r < 0 ? err_set(err, r, "could not watch stockade-ssh") : 0;
}

static void start(struct loop_timer *t) {
        struct warden *w = LOOP_OWNER(t, struct warden, ssh.timer);
        struct err err = {0};

        if (w->ending || w->ssh.pid > 0 || spawn(w, &err) == 0)
                return;
        log_err(LOG_LEVEL_ERROR, NULL, &err);
        w->ssh.delay = MIN(MAX(2 * w->ssh.delay, DELAY_LEAST + 0U), DELAY_MOST + 0U);
        start_later(w, w->ssh.delay);
}

void ssh_open(struct warden *w) {
        struct ssh *s = &w->ssh;
        struct err err = {0};
        bool outside = false;
        int ends[2], r = 0;

        s->link = s->operators = s->pidfd = -EBADF;
        if (w->conf.ssh_listen.count == 0)
                return;
        for (size_t i = 0; r >= 0 && i < w->conf.ssh_listen.count && i < WARDEN_DOORS; i++)
                if ((r = listen_door(w->conf.ssh_listen.items[i], "SSH", "ssh_listen", &outside, &err)) >= 0)
                        s->doors[s->door_count++] = high_fd(r);
        if (r >= 0 && (r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends)) < 0)
                r = err_set(&err, -errno, "could not make a socket pair");
        if (r < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &err);
                while (s->door_count > 0)
                        fd_close(&s->doors[--s->door_count]);
                return;
        }
        s->link = high_fd(ends[0]);
        s->operators = high_fd(ends[1]);
}

uint64_t ssh_ports(const struct warden *w) {
        uint64_t ports = 0;

        static_assert(WARDEN_DOORS * 16 <= 64, "more ports than fit");
        for (size_t i = 0; i < w->ssh.door_count; i++) {
                union endpoint at = {0};
                socklen_t size = sizeof at;

                if (getsockname(w->ssh.doors[i], &at.any, &size) == 0)
                        ports |= (uint64_t)endpoint_port(&at) << 16 * i;
        }
        return ports;
}

void ssh_start(struct warden *w) {
        w->ssh.timer.fire = start;
        if (w->ssh.door_count > 0)
                start_later(w, 0);
}

void ssh_end(struct warden *w) {
        struct ssh *s = &w->ssh;

        loop_timer_clear(w->loop, &s->timer);
        if (s->pid > 0) {
                (void)kernel_pidfd_send_signal(s->pidfd, SIGKILL, NULL);
                (void)waitpid(s->pid, NULL, 0);
                s->pid = 0;
        }
}
