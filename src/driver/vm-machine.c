/* Starting a machine. QEMU and virtiofsd know each other by one socket, which nobody else can connect to: it has no
 * name when both have their ends of it. */
#include "driver/vm-machine.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "cell/cell.h"
#include "driver/vm-carry.h"
#include "driver/vm-place.h"
#include "driver/vm-qemu.h"

#define MEMORY_USUAL (512ULL << 20) /* of a plan without a limit */
#define MEMORY_LEAST (32ULL << 20)

/* Libraries, and what is each one's own. */
#define LIBRARIES "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/etc/ld.so.cache"
static const char *const qemu_files[] = {LIBRARIES, VM_QEMU_PROGRAM, "/usr/share/qemu", "/usr/share/seabios"};
static const char *const fs_files[] = {LIBRARIES, VM_FS_PROGRAM};

/* A listening socket and a connection to it. */
static int make_meeting(int *ret_listener, int *ret_connected, struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        socklen_t size = sizeof at;
        _cleanup_fd_ int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                         connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (listener < 0 || connected < 0 || bind(listener, (struct sockaddr *)&at, sizeof(sa_family_t)) < 0 ||
            listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&at, &size) < 0 ||
            connect(connected, (struct sockaddr *)&at, size) < 0)
                return err_set(err, -errno, "could not connect the machine to its files");
        *ret_listener = TAKE_FD(listener);
        *ret_connected = TAKE_FD(connected);
        return 0;
}

static int sandbox_namespace(uint32_t id_base, struct err *err) {
        char map[48];

        (void)snprintf(map, sizeof map, "0 %u %u", id_base, CELL_ID_RANGE);
        int fd = cell_user_namespace(map, map, err);
        cell_user_namespace_reap();
        return fd;
}

int machine_serve(const struct machine_facts *f, const struct machine_server *s, pid_t *ret_pid, int *ret_pidfd,
                  struct err *err) {
        _cleanup_fd_ int user_ns = sandbox_namespace(f->id_base, err),
                         tree = kernel_open_tree(f->tree, "",
                                                 AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

        if (user_ns < 0)
                return user_ns;
        if (tree < 0)
                return err_set(err, tree, "cannot show the tree to the machine");
        struct place p = {.shows = s->shows,
                          .show_count = s->show_count,
                          .tree = tree,
                          .tree_at = VM_TREE_INSIDE,
                          .proc = true,
                          .user_ns = user_ns,
                          .fds = {s->listener},
                          .fd_count = 1,
                          .errors = f->errors};
        return place_start(&p, s->argv, ret_pid, ret_pidfd, err);
}

/* virtiofsd, and QEMU's end of the connection to it. */
static int start_fs(const struct machine_facts *f, bool live, pid_t *ret_pid, int *ret_pidfd, int *ret_end,
                    struct err *err) {
        _cleanup_words_ struct words words = {0};
        _cleanup_fd_ int listener = -EBADF, end = -EBADF;

        int r = make_meeting(&listener, &end, err);
        if (r < 0)
                return r;
        r = vm_fs_words(PLACE_FD_FIRST, live, &words);
        if (r < 0)
                return err_set(err, r, "could not start the machine's files");
        const struct machine_server s = {
                .shows = fs_files, .show_count = ELEMENTSOF(fs_files), .argv = words.argv, .listener = listener};
        r = machine_serve(f, &s, ret_pid, ret_pidfd, err);
        if (r == 0)
                *ret_end = TAKE_FD(end);
        return r;
}

static int give(struct place *p, int fd) {
        if (fd < 0)
                return -EBADF;
        p->fds[p->fd_count] = fd;
        return PLACE_FD_FIRST + (int)p->fd_count++;
}

static int start_qemu(const struct machine_facts *f, int line, int tree, int live, struct machine *m, struct err *err) {
        _cleanup_words_ struct words words = {0};
        struct place p = {.shows = qemu_files,
                          .show_count = ELEMENTSOF(qemu_files),
                          .folder = f->image,
                          .folder_at = VM_IMAGE_INSIDE,
                          .tree = -EBADF,
                          .kvm = f->kvm,
                          .id = f->id_base + 1,
                          .user_ns = -EBADF,
                          .errors = f->errors};
        struct vm_facts facts = {.kvm = f->kvm,
                                 .memory = f->memory,
                                 .cpus = f->cpus,
                                 .tsc_khz = f->kvm ? 0 : vm_tsc_khz(),
                                 .files = tree < 0 ? 0 : place_files_max(),
                                 .line = give(&p, line),
                                 .tree = give(&p, tree),
                                 .live = give(&p, live),
                                 .disk = give(&p, f->disk),
                                 .tap = give(&p, f->tap)};

        int r = vm_qemu_words(&facts, &words);
        return r < 0 ? err_set(err, r, "could not start the machine")
                     : place_start(&p, words.argv, &m->qemu, &m->qemu_pidfd, err);
}

static int start_all(const struct machine_facts *f, int line, struct machine *m, struct err *err) {
        _cleanup_fd_ int tree = -EBADF, live = -EBADF;
        int r = f->tree >= 0 ? start_fs(f, false, &m->fs, &m->fs_pidfd, &tree, err) : 0;

        if (r == 0 && f->tree >= 0 && f->live)
                r = start_fs(f, true, &m->live, &m->live_pidfd, &live, err);
        return r < 0 ? r : start_qemu(f, line, tree, live, m, err);
}

int machine_start(const struct machine_facts *f, struct machine *ret, struct err *err) {
        struct machine m = MACHINE_NONE;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_set(err, -errno, "could not make the machine's line");
        m.line = pair[0];
        _cleanup_fd_ int line = pair[1];
        int r = start_all(f, line, &m, err);
        if (r < 0)
                machine_end(&m);
        else
                *ret = m;
        return r;
}

static void end_one(pid_t *pid, int *pidfd) {
        if (*pid > 0) {
                (void)kernel_pidfd_send_signal(*pidfd, SIGKILL, NULL);
                (void)waitpid(*pid, NULL, 0);
        }
        *pid = 0;
        fd_close(pidfd);
}

void machine_end(struct machine *m) {
        end_one(&m->qemu, &m->qemu_pidfd);
        end_one(&m->fs, &m->fs_pidfd);
        end_one(&m->live, &m->live_pidfd);
        fd_close(&m->line);
}

/* The next frame of the machine's, which may be hostile: at most a sentence. */
static int next_frame(const struct machine *m, int timeout_ms, enum carry_kind *ret, char text[CARRY_TEXT + 1],
                      struct err *err) {
        struct pollfd p[] = {{.fd = m->line, .events = POLLIN}, {.fd = m->qemu_pidfd, .events = POLLIN}};
        int n = poll(p, ELEMENTSOF(p), timeout_ms);

        if (n < 0)
                return err_set(err, -errno, "could not wait for the machine");
        if (n == 0)
                return err_set(err, -ETIMEDOUT, "the machine does not answer");
        n = p[0].revents & POLLIN ? carry_read(m->line, ret, text, CARRY_TEXT) : -EPIPE;
        if (n < 0)
                return err_set(err, n, "the machine ended before its guest served");
        text[n] = '\0';
        return 0;
}

static int expect(const struct machine *m, enum carry_kind wanted, int timeout_ms, struct err *err) {
        char text[CARRY_TEXT + 1] = "";
        enum carry_kind kind = CARRY_CLOSE;
        int r = next_frame(m, timeout_ms, &kind, text, err);

        if (r < 0)
                return r;
        if (kind == CARRY_FAILED) {
                (void)err_set(err, ERR_UNENFORCED, "in the machine: %s", text);
                return err_hint(err, "if Stockade is newer than the machine's image: as root, stockade image microvm");
        }
        return kind == wanted ? 0 : err_set(err, -EPROTO, "the machine does not answer as ours do");
}

int machine_wait_up(const struct machine *m, int timeout_ms, struct err *err) {
        return expect(m, CARRY_UP, timeout_ms, err);
}

static int64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int refresh(const struct machine *m, struct err *err) {
        struct carry_fresh f;
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        f.seconds = (uint64_t)now.tv_sec;
        f.nanoseconds = (uint64_t)now.tv_nsec;
        if (getrandom(f.seed, sizeof f.seed, 0) != sizeof f.seed)
                return err_set(err, -EIO, "there are no random numbers for the machine");
        int r = carry_write(m->line, CARRY_FRESH, &f, sizeof f);
        explicit_bzero(&f, sizeof f);
        return r < 0 ? err_set(err, -EPIPE, "the machine took no random numbers") : 0;
}

int machine_begin(const struct machine *m, const struct plan *p, int timeout_ms, struct err *err) {
        const int64_t until = now_ms() + timeout_ms;
        int r = machine_wait_up(m, timeout_ms, err);

        if (r == 0)
                r = refresh(m, err);
        if (r == 0 && carry_write(m->line, CARRY_PLAN, p->bytes, p->size) < 0)
                r = err_set(err, -EPIPE, "the machine took no plan");
        if (r < 0)
                return r;
        r = expect(m, CARRY_READY, (int)MAX(until - now_ms(), (int64_t)0), err);
        return r == -ETIMEDOUT ? err_set(err, r, "the machine booted, and its guest does not serve") : r;
}

static uint64_t host_memory(void) {
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

        return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : MEMORY_USUAL;
}

void machine_limits(const struct plan *p, struct machine_facts *f) {
        struct plan_walk walk = {0};
        struct plan_step s;

        f->memory = MEMORY_USUAL;
        f->cpus = 1;
        while (plan_next(p, &walk, &s)) {
                if (s.op != OP_LIMIT)
                        continue;
                if (str_eq(s.text[0], "limits.memory"))
                        f->memory = MAX(MIN(s.number[0], host_memory()), MEMORY_LEAST);
                if (str_eq(s.text[0], "limits.cpus")) /* thousandths; the cgroup outside says how much of them */
                        f->cpus = (unsigned)MIN((s.number[0] + 999) / 1000, (uint64_t)VM_CPUS_MAX);
        }
}
