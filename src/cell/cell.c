/* Starting a cell: the clone, the walk over the plan, and the reports that come back. */
#include "cell/cell.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "wire/guest.h"

int cell_send(int socket, const struct report *r, const int *fds, size_t fd_count) {
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int) * CELL_REPORT_FDS)];
        } control;
        struct iovec data = {.iov_base = (void *)(uintptr_t)r, .iov_len = sizeof *r};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

        if (fd_count > 0) {
                memset(&control, 0, sizeof control);
                message.msg_control = control.room;
                message.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * fd_count);
                struct cmsghdr *h = CMSG_FIRSTHDR(&message);
                h->cmsg_level = SOL_SOCKET;
                h->cmsg_type = SCM_RIGHTS;
                h->cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * fd_count);
                memcpy(CMSG_DATA(h), fds, sizeof(int) * fd_count);
        }
        return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Is it a whole packet of the kind that it says it is? */
static bool is_whole(const struct report *r, const struct report_words *words, size_t size) {
        if (r->kind == REPORT_BOX_FAILED)
                return size == sizeof *r + sizeof *words && report_words_check(words) == 0;
        return size == sizeof *r;
}

int cell_receive(int socket, struct report *ret, struct report_words *ret_words, int fds[CELL_REPORT_FDS],
                 size_t *ret_fd_count) {
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int) * CELL_REPORT_FDS)];
        } control;
        struct report r = {0};
        struct report_words words = {0};
        struct iovec data[] = {{.iov_base = &r, .iov_len = sizeof r}, {.iov_base = &words, .iov_len = sizeof words}};
        /* not all of the room: its padding would hold one descriptor more than fds does */
        struct msghdr message = {.msg_iov = data,
                                 .msg_iovlen = ret_words ? 2 : 1,
                                 .msg_control = control.room,
                                 .msg_controllen = CMSG_LEN(sizeof(int) * CELL_REPORT_FDS)};
        ssize_t n;

        do
                n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;

        size_t count = 0;
        struct cmsghdr *h = CMSG_FIRSTHDR(&message); /* one kind is possible, so there is at most one header */
        if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
                count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                memcpy(fds, CMSG_DATA(h), count * sizeof(int));
        }
        if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && is_whole(&r, &words, (size_t)n)) {
                *ret = r;
                if (ret_words)
                        *ret_words = words;
                *ret_fd_count = count;
                return 1;
        }
        while (count > 0)
                (void)close(fds[--count]);
        *ret_fd_count = 0;
        return n == 0 ? 0 : -EBADMSG;
}

_noreturn_ static void fail(struct cell_context *c, unsigned step, int error) {
        struct report r = {.kind = REPORT_STEP_FAILED, .step = step, .error = error};

        (void)cell_send(c->report, &r, NULL, 0);
        _exit(125);
}

/* First thing in the child: leave the caller's mounts, cgroup and signals behind. */
static int begin(struct cell_context *c) {
        sigset_t none;
        struct mount_attr private = {.propagation = MS_PRIVATE};

        (void)close(c->report_outside);
        (void)umask(022); /* the caller's is for the caller's files */
        if (c->cgroup) {
                int r = cgroup_enter_self(c->cgroup, c->cgroup->into >= 0);
                if (r < 0)
                        return r;
        }
        /* after the move into the cgroup, so that it is the root of the namespace */
        if (!knockout_off(KNOCKOUT_CGROUP) && unshare(CLONE_NEWCGROUP) < 0)
                return -errno;
        /* what the caller ignores is the caller's matter; raw, because libc keeps some numbers for itself */
        static const uint64_t default_action[4];
        for (int n = 1; n < 65; n++)
                (void)syscall(SYS_rt_sigaction, n, default_action, NULL, 8);
        (void)sigemptyset(&none);
        if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
                return -errno;
        int r = kernel_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private);
        if (r < 0)
                return r;
        c->host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->host < 0)
                return -errno;
        return c->box ? box_open_folder(c) : 0;
}

static int report_tree(struct cell_context *c, int master) {
        struct report r = {.kind = REPORT_TREE};
        int fds[CELL_REPORT_FDS];
        size_t n = 0;

        if (master >= 0) {
                r.fds |= 1;
                fds[n++] = master;
        }
        if (c->upper >= 0) {
                r.fds |= 2;
                fds[n++] = c->upper;
        }
        /* whoever holds this decides when the mounts are taken apart */
        _cleanup_fd_ int mounts = openat(c->proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
        if (mounts >= 0) {
                r.fds |= 4;
                fds[n++] = mounts;
        }
        for (size_t i = 0; i < c->watch_count; i++)
                fds[n++] = c->watch[i];
        return cell_send(c->report, &r, fds, n);
}

/* The terminal: from the sandbox's own devpts, opened as the user, so that it is the owner. */
static int open_terminal(const struct cell_context *c, int *ret_master) {
        int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0;
        if (master < 0)
                return -errno;
        if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        (void)ioctl(master, TIOCSWINSZ, &c->size);
        int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        if (ioctl(slave, TIOCSCTTY, 0) < 0)
                return -errno;
        for (int i = 0; i < (c->stdio[2] >= 0 ? 2 : 3); i++)
                if (dup2(slave, i) < 0)
                        return -errno;
        *ret_master = master;
        return 0;
}

/* Standard streams and the report socket take their places; everything else closes at exec. */
static int place_descriptors(struct cell_context *c) {
        int streams[3], report;

        /* above the range that is about to be overwritten */
        report = fcntl(c->report, F_DUPFD_CLOEXEC, 16);
        if (report < 0)
                return -errno;
        for (int i = 0; i < 3; i++)
                if (c->stdio[i] >= 0 && (streams[i] = fcntl(c->stdio[i], F_DUPFD_CLOEXEC, 16)) < 0)
                        return -errno;
        for (int i = 0; i < 3; i++)
                if (c->stdio[i] >= 0 && dup2(streams[i], i) < 0)
                        return -errno;
        int listener = c->lives ? fcntl(c->listener, F_DUPFD_CLOEXEC, 16) : -EBADF;
        if (c->lives && (listener < 0 || dup2(listener, GUEST_LISTEN_FD) < 0))
                return -errno;
        if (dup2(report, REPORT_FD) < 0)
                return -errno;
        c->report = REPORT_FD;
        return 0;
}

/* Dies with its parent. Set after the ids, which clear it; the parent may have died before: then the socket says so. */
static int tie_to_parent(struct cell_context *c) {
        if (c->lives || knockout_off(KNOCKOUT_LAUNCHER))
                return 0;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return -errno;
        struct pollfd gone = {.fd = c->report};
        if (poll(&gone, 1, 0) < 0)
                return -errno;
        return gone.revents & (POLLHUP | POLLERR) ? -ESRCH : 0;
}

static int close_others(const struct cell_context *c) {
        unsigned first = (c->lives ? GUEST_LISTEN_FD : REPORT_FD) + 1;

        return knockout_off(KNOCKOUT_FDS) ? 0 : kernel_close_range(first, ~0U, 0);
}

static int become_guest(const struct cell_context *c) {
        int r = close_others(c);

        if (r < 0)
                return r;
        (void)execve(CELL_GUEST_PATH, c->argv, c->envp);
        return -errno;
}

/* The child. It may share its parent's memory: it works on a copy of the context and changes nothing else. */
_noreturn_ static void walk_plan(struct cell_context *c) {
        struct plan_walk walk = {0};
        struct plan_step s = {0};
        enum plan_phase phase = PHASE_OUTSIDE;

        int r = begin(c);
        if (r < 0)
                fail(c, 0, r);
        while (plan_next(c->plan, &walk, &s)) {
                enum plan_phase next = plan_op_phase(s.op);

                if (next == PHASE_OUTSIDE)
                        continue;
                if (next == PHASE_CONFINE && phase != PHASE_CONFINE && !c->box) {
                        /* the tree stands, the ids are set: terminal, descriptors and parent before the last doors
                         * close */
                        int master = -EBADF;
                        if (c->tty)
                                r = open_terminal(c, &master);
                        if (r == 0 && !c->lives) /* who outlives us must not be held by its mounts */
                                r = report_tree(c, master);
                        if (r == 0)
                                r = place_descriptors(c);
                        if (r == 0)
                                r = tie_to_parent(c);
                        if (r < 0)
                                fail(c, s.index, r);
                }
                phase = next;
                switch (next) {
                case PHASE_MOUNT:
                        r = tree_step(c, &s);
                        break;
                case PHASE_ENTER:
                        r = c->box ? box_step(c, &s) : enter_step(c, &s);
                        break;
                case PHASE_CONFINE:
                        r = c->box ? 0 : confine_step(c, &s); /* the driver's to do, around the guest */
                        break;
                case PHASE_EXEC:
                        r = c->box ? box_exec(c) : become_guest(c);
                        break;
                case PHASE_OUTSIDE:
                default:
                        r = -EINVAL;
                }
                if (r < 0)
                        fail(c, s.index, r);
        }
        fail(c, s.index, -EINVAL);
}

/* Rootless: the maps are written by the child itself, which may map its own id alone. */
static int map_own_ids(const struct cell_context *c, uint64_t uid, uint64_t gid) {
        char text[64];

        (void)snprintf(text, sizeof text, "%llu %u 1", (unsigned long long)uid, c->host_uid);
        int r = fd_write_at(AT_FDCWD, "/proc/self/uid_map", text);
        if (r == 0)
                r = fd_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
        if (r == 0) {
                (void)snprintf(text, sizeof text, "%llu %u 1", (unsigned long long)gid, c->host_gid);
                r = fd_write_at(AT_FDCWD, "/proc/self/gid_map", text);
        }
        return r;
}

static void find_user(const struct plan *p, uint64_t *uid, uint64_t *gid) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (s.op == OP_USER) {
                        *uid = s.number[0];
                        *gid = s.number[1];
                        return;
                }
}

/* A parent with thousands of descriptors: only the first of them are copied for us, and closed again at exec. Its table
 * is shared until here, and it waits meanwhile. */
static bool shares_fds(const struct cell_context *c) {
        return CELL_WAITS && !c->apart && c->spare_fds > 0;
}

static void run_child(void *data) {
        struct cell_context mine = *(const struct cell_context *)data;
        uint64_t uid = 0, gid = 0;

        if (shares_fds(&mine) && kernel_close_range(mine.spare_fds, ~0U, CLOSE_RANGE_UNSHARE) < 0)
                _exit(125); /* not even a report could be sent without harm to our parent's */
        if (mine.apart && mine.spare_fds > 0)
                (void)kernel_close_range(mine.spare_fds, ~0U, 0);
        if (mine.rootless) {
                find_user(mine.plan, &uid, &gid);
                int r = map_own_ids(&mine, uid, gid);
                if (r < 0)
                        fail(&mine, 0, r);
        }
        walk_plan(&mine);
}

/* In a test build: the namespaces that are the host's. */
static uint64_t namespaces_off(void) {
        return (knockout_off(KNOCKOUT_PIDNS) ? CLONE_NEWPID : 0U) | (knockout_off(KNOCKOUT_NETNS) ? CLONE_NEWNET : 0U) |
               (knockout_off(KNOCKOUT_IPCNS) ? CLONE_NEWIPC : 0U);
}

static pid_t clone_apart(struct clone_args *args, struct cell_context *c) {
        args->stack = args->stack_size = 0;
        pid_t pid = kernel_clone3(args);
        if (pid == 0)
                run_child(c);
        return pid;
}

int cell_start(struct cell_context *c, pid_t *ret_pid, int *ret_pidfd, struct err *err) {
        static char stack[64 * 1024] __attribute__((aligned(16)));
        _cleanup_fd_ int pidfd = -EBADF;
        struct clone_args args = {
                .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
                .pidfd = (unsigned long long)(uintptr_t)&pidfd,
                .exit_signal = SIGCHLD,
                .stack = (unsigned long long)(uintptr_t)stack,
                .stack_size = sizeof stack,
        };

        c->host = c->folder = c->root = c->proc = c->ruleset = c->upper = c->anchor = c->empty = c->null = -EBADF;
        args.flags &= ~namespaces_off();
        args.flags |= shares_fds(c) ? CLONE_FILES : 0U;
        if (c->rootless)
                args.flags |= CLONE_NEWUSER;
        if (c->cgroup && c->cgroup->into >= 0) {
                args.flags |= CLONE_INTO_CGROUP;
                args.cgroup = (unsigned long long)(c->cgroup->guest >= 0 ? c->cgroup->guest : c->cgroup->into);
        }
        pid_t pid = c->apart ? clone_apart(&args, c) : kernel_clone3_vfork(&args, run_child, c);
        if (pid == -ENOSYS) {
                (void)err_set(err, ERR_UNENFORCED, "this kernel or the filter around us has no clone3");
                return err_hint(err,
                                "Linux 5.7 or newer is needed; in a container, its seccomp profile must allow clone3");
        }
        if (pid < 0) {
                (void)err_set(err, pid, "could not create the namespaces of a sandbox");
                return err_hint(err, "'stockade doctor' shows which of them this host permits");
        }
        *ret_pid = pid;
        *ret_pidfd = TAKE_FD(pidfd);
        return 0;
}

int cell_explain(const struct plan *p, const struct report *r, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (s.index == r->step) {
                        const char *what = plan_op_phase(s.op) == PHASE_OUTSIDE ? "namespaces" : plan_op_name(s.op);
                        int error = r->error < 0 && r->error > -4096 ? r->error : -EIO;

                        if (error == -ENOSYS) {
                                (void)err_set(err, ERR_UNENFORCED,
                                              "this kernel, or a filter around us, lacks a system call that '%s' needs",
                                              what);
                                return err_hint(
                                        err, "Linux 5.19 or newer is needed; 'stockade doctor' shows what is missing");
                        }
                        if (error == -EOPNOTSUPP && geteuid() != 0 && (s.op == OP_ROOT_OVERLAY || s.op == OP_OVERLAY)) {
                                (void)err_set(
                                        err, ERR_UNENFORCED,
                                        "a copy-on-write view of '%s' without root needs a tmpfs with user attributes",
                                        s.text[0]);
                                return err_hint(err, "Linux 6.6 or newer has it; until then run as root, or use --rw");
                        }
                        if (error == CELL_NOT_PERMITTED)
                                return err_set(err, ERR_REFUSED, "'%s' leads to a place that no sandbox may have",
                                               s.text[0] ? s.text[0] : what);
                        if (error == -EPROTONOSUPPORT && s.op == OP_NETWORK) {
                                (void)err_set(
                                        err, ERR_UNENFORCED,
                                        "this kernel lacks a part of nftables that leads connections to the gate");
                                return err_hint(err, "as root: modprobe -a nf_tables nft_chain_nat nft_ct nft_redir "
                                                     "nft_log nfnetlink_log; "
                                                     "'stockade doctor' says if that was enough");
                        }
                        if (error == -EINVAL && (s.op == OP_BIND || (s.op == OP_OVERLAY && geteuid() == 0)) &&
                            (s.flags & STEP_OWNED)) {
                                (void)err_set(err, ERR_UNENFORCED,
                                              "the file system of '%s' cannot show files under other ids", s.text[0]);
                                return err_hint(err,
                                                "use a folder on ext4, xfs or btrfs, or --ro; or run without root as "
                                                "the owner of the files");
                        }
                        if (error == -EINVAL && (s.op == OP_ROOT_OVERLAY || s.op == OP_OVERLAY)) {
                                (void)err_set(err, error, "could not make a copy-on-write view of '%s'", s.text[0]);
                                return err_hint(err, "%s",
                                                geteuid() == 0 ? "its file system cannot be below an overlay: use a "
                                                                 "folder on ext4, xfs or btrfs"
                                                               : "without root this needs a folder with no other file "
                                                                 "system mounted below it, and Linux 6.6 or newer");
                        }

                        if (plan_op_phase(s.op) == PHASE_OUTSIDE)
                                return err_set(err, error, "could not enter the sandbox's namespaces");
                        if (s.text[0] && s.text[1] && !str_eq(s.text[0], s.text[1]))
                                return err_set(err, error, "could not set up the sandbox: %s '%s' at '%s'", what,
                                               s.text[0], s.text[1]);
                        if (s.text[0])
                                return err_set(err, error, "could not set up the sandbox: %s '%s'", what, s.text[0]);
                        return err_set(err, error, "could not set up the sandbox: %s", what);
                }
        return err_set(err, ERR_CORRUPT, "the sandbox reported a step %u that the plan does not have", r->step);
}
