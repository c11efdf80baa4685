/* stockade-vm-init: the first process of a microVM.
 *
 * Makes the machine ready, gets the plan over its line, executes it in a cell as the warden would on the host, and then
 * carries connections between the line and the guest, which serves as ever; a child of it makes and ends the cgroups of
 * runs (vm-leaves.h). The sandbox has none of this in sight: it
 * is in namespaces of its own, as another user, below the plan's own filter and rules.
 *
 * If anything fails, the sentence goes over the line and the machine ends; with the sandbox's end it ends too. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "driver/vm-boot.h"
#include "driver/vm-carry.h"
#include "driver/vm-leaves.h"
#include "driver/vm-plan.h"

#define ENV_MAX    512
#define GUEST_SOCK "/guest.sock" /* in the machine's own root, which nobody inside sees */

struct machine {
        enum vm_streams streams;
        int line;
        struct plan plan;
        bool live; /* see vm-plan.h */
        int tree;  /* a mount of it, not attached */
        struct cell_context cell;
        struct cgroup cgroup;
        int report; /* our end */
        pid_t pid;
        int pidfd;
        char *env[ENV_MAX + 1];
        char *argv[4];
};

static int read_fresh(const struct machine *m, struct err *err) {
        enum carry_kind kind = CARRY_CLOSE;
        struct carry_fresh f;

        int n = carry_read(m->line, &kind, &f, sizeof f);
        if (n != sizeof f || kind != CARRY_FRESH)
                return err_set(err, n < 0 ? n : -EPROTO, "the machine's keeper does not speak as expected");
        int r = vm_boot_fresh(&f, err);
        explicit_bzero(&f, sizeof f);
        return r;
}

static int read_plan(struct machine *m, struct err *err) {
        static uint8_t bytes[PLAN_MAX_SIZE];
        static struct buf ours = {.max = PLAN_MAX_SIZE};
        enum carry_kind kind = CARRY_CLOSE;
        struct plan given;

        int n = carry_read(m->line, &kind, bytes, sizeof bytes);
        if (n < 0 || kind != CARRY_PLAN)
                return err_set(err, n < 0 ? n : -EPROTO, "no plan came");
        int r = plan_check(bytes, (size_t)n, &given, err);
        if (r < 0)
                return r;
        m->live = vm_plan_is_live(&given);
        r = vm_plan(&given, access(VM_DISK, F_OK) == 0, &ours, err);
        return r < 0 ? r : plan_check(ours.data, ours.size, &m->plan, err);
}

static bool plan_has(const struct plan *p, enum plan_op op) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (s.op == op)
                        return true;
        return false;
}

/* The user, the environment and the folder of what runs. */
static void read_facts(struct machine *m) {
        struct plan_walk walk = {0};
        struct plan_step s;
        size_t n = 0;

        m->argv[0] = (char *)(uintptr_t) "stockade-guest";
        m->argv[1] = (char *)(uintptr_t) "serve-leaves";
        while (plan_next(&m->plan, &walk, &s)) {
                if (s.op == OP_ENV && n < ENV_MAX)
                        m->env[n++] = (char *)(uintptr_t)s.text[0];
                if (s.op == OP_CWD)
                        m->argv[2] = (char *)(uintptr_t)s.text[0];
                if (s.op == OP_USER) {
                        m->cell.tree_uid = (uid_t)s.number[0];
                        m->cell.tree_gid = (gid_t)s.number[1];
                }
        }
}

static int make_listener(struct err *err) {
        struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = GUEST_SOCK};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4) < 0)
                return err_set(err, -errno, "cannot make the guest's socket");
        return TAKE_FD(fd);
}

/* Ids inside are the machine's own, so that owners on the disk and in the tree are right as they are. Its root is not
 * among them. */
#define IDS "0 65536 1\n1 1 65535"

static int fill_cell(struct machine *m, struct err *err) {
        struct cell_context *c = &m->cell;
        int pair[2];

        *c = (struct cell_context){.plan = &m->plan,
                                   .cgroup = &m->cgroup,
                                   .lives = true,
                                   .apart = true,
                                   .disk = -EBADF,
                                   .watcher = -EBADF,
                                   .authority = {-EBADF, -EBADF, -EBADF},
                                   .argv = m->argv,
                                   .envp = m->env};
        read_facts(m);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_set(err, -errno, "cannot prepare the sandbox");
        for (size_t i = 0; i < ELEMENTSOF(c->stdio); i++)
                c->stdio[i] = null;
        c->report_outside = m->report = pair[0];
        c->report = pair[1];
        c->listener = make_listener(err);
        if (c->listener < 0)
                return c->listener;
        c->user_ns = cell_user_namespace(IDS, IDS, err);
        if (c->user_ns < 0)
                return c->user_ns;
        if (plan_has(&m->plan, OP_ROOT_DISK))
                c->disk = TAKE_FD(m->tree);
        else if (plan_has(&m->plan, OP_DISK))
                return (c->disk = vm_boot_disk(err)) < 0 ? c->disk : 0;
        return 0;
}

/* Waits for what the cell says: its end without a word, a step that failed, or that its guest serves. */
static int wait_for_guest(struct machine *m, struct err *err) {
        struct report r;
        int fds[CELL_REPORT_FDS];
        size_t count = 0;

        for (;;) {
                struct pollfd p = {.fd = m->report, .events = POLLIN};
                if (poll(&p, 1, -1) < 0 && errno != EINTR)
                        return err_set(err, -errno, "cannot wait for the guest");
                int n = cell_receive(m->report, &r, NULL, fds, &count);
                if (n == -EAGAIN)
                        continue;
                if (n != 1)
                        return err_set(err, n == 0 ? -EPIPE : n, "the guest ended before it served");
                while (count > 0)
                        (void)close(fds[--count]);
                if (r.kind == REPORT_STEP_FAILED)
                        return cell_explain(&m->plan, &r, err);
                if (r.kind == REPORT_SERVING)
                        return 0;
        }
}

/* The root of the sandbox's ids is the machine's last. */
static int serve_leaves(struct machine *m, struct err *err) {
        int r = vm_leaves_serve(m->report, &m->cgroup, m->cell.tree_uid ? m->cell.tree_uid : CELL_ID_RANGE);

        fd_close(&m->report);
        return r < 0 ? err_set(err, r, "cannot make cgroups for runs") : 0;
}

static int start_sandbox(struct machine *m, struct err *err) {
        int r = vm_boot_cgroup(&m->plan, &m->cgroup, err);

        if (r < 0)
                return r;
        m->tree = vm_boot_root(m->streams, m->live, err);
        if (m->tree < 0)
                return m->tree;
        r = fill_cell(m, err);
        fd_close(&m->tree);
        if (r == 0)
                r = cell_start(&m->cell, &m->pid, &m->pidfd, err);
        if (r < 0)
                return r;
        fd_close(&m->cell.report);
        fd_close(&m->cell.listener);
        fd_close(&m->cell.disk);
        cell_user_namespace_reap();
        r = vm_boot_link(m->pid, err);
        if (r < 0)
                return r;
        (void)send(m->report, "", 1, MSG_NOSIGNAL); /* go */
        r = wait_for_guest(m, err);
        return r < 0 ? r : serve_leaves(m, err);
}

static int dial_guest(void) {
        struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = GUEST_SOCK};
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int serve(struct machine *m, struct err *err) {
        static struct carry c;

        m->line = vm_stream_open(m->streams, VM_STREAM_LINE, err);
        if (m->line < 0)
                return m->line;
        int r = carry_write(m->line, CARRY_UP, NULL, 0);
        if (r < 0)
                return err_set(err, r, "the machine's line does not work");
        r = read_fresh(m, err);
        if (r == 0)
                r = read_plan(m, err);
        if (r == 0)
                r = start_sandbox(m, err);
        if (r < 0)
                return r;
        r = carry_write(m->line, CARRY_READY, NULL, 0);
        c = (struct carry){.line = m->line, .listener = -EBADF, .dial = dial_guest};
        if (r == 0)
                r = carry_run(&c, m->pidfd);
        return r < 0 ? err_set(err, r, "the machine's line broke") : 0;
}

static int boot(struct machine *m, struct err *err) {
        char words[4096];
        int r = vm_boot_mounts(err);

        if (r == 0 && fd_read_at(AT_FDCWD, "/proc/cmdline", words, sizeof words) < 0)
                r = err_set(err, -EIO, "cannot read the kernel's command line");
        if (r == 0)
                r = vm_streams_read(words, &m->streams, err);
        if (r == 0)
                r = vm_boot_modules(VM_MODULES, err);
        if (r == 0 && m->streams == VM_STREAMS_VSOCK)
                r = vm_boot_modules(VM_MODULES_VSOCK, err);
        return r;
}

int main(void) {
        static struct machine m = {.line = -EBADF, .tree = -EBADF, .report = -EBADF, .pidfd = -EBADF};
        struct err err = {0};

        int r = boot(&m, &err);
        if (r == 0)
                r = serve(&m, &err);
        if (r < 0 && m.line >= 0)
                (void)carry_write(m.line, CARRY_FAILED, err.text, MIN(strlen(err.text), (size_t)CARRY_TEXT));
        sync();
        (void)reboot(RB_AUTOBOOT); /* the machine's keeper does not let it come back */
        return 1;
}
