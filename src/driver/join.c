/* From the cell's namespaces into a container's.
 *
 * The cell has built the tree in its own mount namespace, which the engine does not see; so the tree does not go in by
 * the engine's mounts but as a detached copy of ours, with every flag that the plan gave, quota and id map included. A
 * child enters the container's mount and network namespaces, waits until our program answers there (before that, its
 * runtime may still have to find it in the engine's tree), attaches the copy with the container's own /proc on it, and
 * makes it the root of everybody inside. Then it gives the container's first process what that needs to go on:
 * the plan, a user namespace with the sandbox's ids that the process owns and so may join, and the files by which it
 * moves itself into the sandbox's cgroups, where it is killed, frozen, limited and counted from then on (inside.c).
 *
 * Our pid namespace and the container's are strangers to one another: nobody here can name a process in there, enter
 * its pid namespace, or signal it. What is needed of it comes from there by descriptor.
 *
 * Always holds: until all of that is done, nothing runs in the container but our own program. */
#include "driver/join.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "cell/cgroup-place.h"
#include "cell/tree.h"
#include "driver/container.h"
#include "wire/box.h"

/* Where the child stood when something failed. */
enum stage {
        STAGE_ENTER,
        STAGE_FIND,
        STAGE_ATTACH,
        STAGE_PROC,
        STAGE_PIVOT,
        STAGE_HAND,
        STAGE_COUNT,
};

static const char *const stage_text[] = {
        [STAGE_ENTER] = "could not enter the container's namespaces",
        [STAGE_FIND] = "the container's first process did not answer",
        [STAGE_ATTACH] = "could not attach the sandbox's tree in the container",
        [STAGE_PROC] = "could not show the container's own /proc in the sandbox's tree",
        [STAGE_PIVOT] = "could not make the sandbox's tree the container's root",
        [STAGE_HAND] = "could not hand the plan to the container's first process",
};
static_assert(ELEMENTSOF(stage_text) == STAGE_COUNT, "every stage has a sentence");

struct visit {
        const struct keeper_task *task;
        int process; /* the container's first, in the host's /proc */
        int first;   /* connected to it */
        int mount_ns, network, outer_cgroup_ns, user_ns, secret;
        int tree, door;          /* not attached; the tree is a copy, the door is whoever asked's */
        int tasks[JOIN_CGROUPS]; /* files that a process writes "0" to, to enter the sandbox's cgroups */
        size_t task_count;
        int answer; /* our end of the pair that reports come back on */
        enum stage stage;
};

/* --- the user namespace --- */

/* In a child: whoever owns the namespace may join it, so it is made as the sandbox's user. /proc is the host's, so
 * that we are known there by another number than here. */
static void own_namespace(const struct keeper_task *t, int talk) {
        uid_t user = t->id_base + t->uid;
        struct cell_context c = {.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)};
        const struct plan_step limits = {.op = OP_NO_NESTING};
        char number[16], go;

        if (c.proc < 0 || syscall(SYS_setresuid, user, user, user) < 0 || unshare(CLONE_NEWUSER) < 0)
                _exit(1);
        ssize_t n = readlink("/proc/self", number, sizeof number);
        if (n <= 0 || send(talk, number, (size_t)n, MSG_NOSIGNAL) != n || recv(talk, &go, 1, 0) != 1)
                _exit(1);
        _exit(enter_step(&c, &limits) == 0 ? 0 : 1);
}

static int write_maps(const struct keeper_task *t, const char *number, int *ret) {
        char path[32], map[48];

        (void)snprintf(path, sizeof path, "/proc/%s", number);
        (void)snprintf(map, sizeof map, "0 %u %u", t->id_base, CELL_ID_RANGE);
        _cleanup_fd_ int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (process < 0)
                return -errno;
        int r = fd_write_at(process, "uid_map", map);
        if (r == 0)
                r = fd_write_at(process, "gid_map", map);
        if (r < 0)
                return r;
        int fd = openat(process, "ns/user", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret = fd;
        return 0;
}

static int wait_for(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int make_user_namespace(const struct keeper_task *t, int *ret, struct err *err) {
        _cleanup_fd_ int ours = -EBADF, theirs = -EBADF, fd = -EBADF;
        int pair[2], r = 0;
        char number[16] = "";

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_set(err, -errno, "could not make a pair of sockets");
        ours = pair[0];
        theirs = pair[1];
        pid_t pid = fork();
        if (pid == 0)
                own_namespace(t, theirs);
        fd_close(&theirs);
        if (pid < 0)
                return err_set(err, -errno, "could not make a process");
        if (recv(ours, number, sizeof number - 1, 0) <= 0)
                r = -EPERM;
        if (r == 0)
                r = write_maps(t, number, &fd);
        if (r == 0 && send(ours, "g", 1, MSG_NOSIGNAL) != 1)
                r = -errno;
        fd_close(&ours);
        int ended = wait_for(pid);
        if (r == 0)
                r = ended;
        if (r < 0)
                return err_set(err, r, "could not make the user namespace of the container");
        *ret = TAKE_FD(fd);
        return 0;
}

/* --- before the child enters --- */

/* The warden's cgroup namespace: ours begins at the sandbox's own cgroup, and the kernel lets nobody be moved into it
 * from outside by somebody who sees no more than that. */
static int open_outer_cgroups(struct visit *v, struct err *err) {
        char status[4096], path[48];
        const char *line = fd_read_at(AT_FDCWD, "/proc/self/status", status, sizeof status) > 0
                                   ? strstr(status, "\nPPid:")
                                   : NULL;

        long parent = line ? strtol(line + sizeof "\nPPid:" - 1, NULL, 10) : 0;
        (void)snprintf(path, sizeof path, "/proc/%ld/ns/cgroup", parent);
        v->outer_cgroup_ns = open(path, O_RDONLY | O_CLOEXEC);
        return v->outer_cgroup_ns < 0 ? err_set(err, -errno, "cannot open the cgroup namespace of the warden") : 0;
}

static int copy_tree(const struct join *j, struct visit *v, struct err *err) {
        v->tree = kernel_open_tree(j->task->tree, "",
                                   AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        return v->tree < 0 ? err_set(err, v->tree, "could not copy the mounts of the sandbox's tree") : 0;
}

/* A pipe that nobody but the guest reads from. */
static int write_secret(const struct keeper_task *t, int *ret, struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        int r = fd_write_full(ends[1], t->secret, BOX_SECRET_SIZE);
        (void)close(ends[1]);
        *ret = ends[0];
        return r < 0 ? err_set(err, r, "could not write the guest's secret") : 0;
}

/* --- the child, outside the container still --- */

/* On v1 a thread that moves itself through `tasks` needs no lock over all of the system. */
static int open_hierarchy(struct visit *v, const struct cgroup_place *p, int h) {
        char folder[PATH_MAX], path[PATH_MAX + 16];

        int r = cgroup_place_path(p, h, p->hierarchies[h].own, folder);
        if (r < 0)
                return r;
        (void)snprintf(path, sizeof path, "%s/%s", folder, h == p->v2 ? "cgroup.procs" : "tasks");
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        v->tasks[v->task_count++] = fd;
        return 0;
}

/* Where we are ourselves is where the container belongs. */
static int open_cgroups(struct visit *v) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};

        if (setns(v->outer_cgroup_ns, CLONE_NEWCGROUP) < 0)
                return -errno;
        int r = cgroup_place_find(&p, NULL);
        if (r == 0)
                r = cgroup_place_find_mounts(&p);
        for (int k = 0; r == 0 && k < CGROUP_CONTROLLERS; k++) {
                bool again = p.v1[k] < 0;

                for (int i = 0; i < k; i++)
                        again |= p.v1[i] == p.v1[k];
                if (!again)
                        r = open_hierarchy(v, &p, p.v1[k]);
        }
        return r == 0 && p.v2 >= 0 ? open_hierarchy(v, &p, p.v2) : r;
}

static int enter_container(struct visit *v) {
        int r = open_cgroups(v);

        if (r < 0)
                return r;
        return setns(v->network, CLONE_NEWNET) < 0 || setns(v->mount_ns, CLONE_NEWNS) < 0 ? -errno : 0;
}

/* --- the child, inside --- */

static void sleep_ms(long ms) {
        struct timespec pause = {.tv_nsec = ms * 1000000};

        (void)nanosleep(&pause, NULL);
}

static bool has_ended(const struct visit *v) {
        char link[32];

        return readlinkat(v->process, "ns/mnt", link, sizeof link) < 0;
}

/* It may not have come to listen yet. */
static int connect_inside(const struct visit *v) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        const socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof JOIN_SOCKET;
        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return -errno;
        memcpy(at.sun_path + 1, JOIN_SOCKET, sizeof JOIN_SOCKET - 1);
        while (connect(fd, (struct sockaddr *)&at, size) < 0) { /* whoever waits for us ends it (receive) */
                if (errno != ECONNREFUSED)
                        return -errno;
                if (has_ended(v))
                        return -ESRCH;
                sleep_ms(1);
        }
        return TAKE_FD(fd);
}

static bool is_below(const char *path, const char *folder) {
        return folder && str_starts(path, folder) && path[strlen(folder)] == '/';
}

/* The engine's mount of it, read-only: it is of the container's pid namespace, and we could not make one. */
static int show_proc(const struct cell_context *c, const struct plan_step *s) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                              MOUNT_ATTR_NOEXEC};
        _cleanup_fd_ int mount = kernel_open_tree(c->host, "proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

        if (mount < 0)
                return mount;
        int r = kernel_mount_setattr(mount, "", AT_EMPTY_PATH, &attr);
        return r < 0 ? r : tree_attach(c, mount, s->text[0], true);
}

/* What the cell could not do, because it belongs to the container's own namespaces. */
static int add_own(const struct visit *v, struct cell_context *c) {
        struct plan_walk walk = {0};
        struct plan_step s;
        const char *proc = NULL;
        int r = 0;

        while (r == 0 && plan_next(&v->task->plan, &walk, &s)) {
                if (s.op == OP_PROC) {
                        proc = s.text[0];
                        r = show_proc(c, &s);
                } else if (s.op == OP_LOOPBACK || ((s.op == OP_MASK || s.op == OP_HIDE) && is_below(s.text[0], proc)))
                        r = tree_step(c, &s);
        }
        return r;
}

static int attach(const struct visit *v, struct cell_context *c) {
        c->host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->host < 0)
                return -errno;
        int r = kernel_move_mount(v->tree, "", AT_FDCWD, CONTAINER_TREE, MOVE_MOUNT_F_EMPTY_PATH);
        if (r < 0)
                return r;
        c->root = open(CONTAINER_TREE, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->root < 0)
                return -errno;
        return kernel_move_mount(v->door, "", c->root, &BOX_PLACE[1], MOVE_MOUNT_F_EMPTY_PATH);
}

/* The engine's root lands on top of ours and is detached; everybody who had it as root has ours now. */
static int pivot(const struct cell_context *c) {
        if (fchdir(c->root) < 0)
                return -errno;
        int r = kernel_pivot_root(".", ".");
        if (r < 0)
                return r;
        return umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ? -errno : 0;
}

/* One report with no more than one descriptor: 1, 0 when the other end is closed, or -errno. */
static int hear(int fd, struct report *ret, int *ret_fd) {
        struct pollfd said = {.fd = fd, .events = POLLIN};
        int came[CELL_REPORT_FDS];
        size_t count = 0;

        if (poll(&said, 1, JOIN_MS) <= 0)
                return -ETIMEDOUT;
        int r = cell_receive(fd, ret, NULL, came, &count);
        *ret_fd = r == 1 && count == 1 ? came[--count] : -EBADF;
        while (r == 1 && count > 0)
                (void)close(came[--count]);
        return r;
}

/* 0 when it has executed the guest, which closes its end; 1 with its report otherwise. */
static int hand_over(const struct visit *v, int *ret_end, struct report *ret_failed) {
        const struct report hello = {.kind = REPORT_TREE};
        int fds[JOIN_FDS + JOIN_CGROUPS] = {BOX_PLAN_FD, v->user_ns, v->secret}, end = -EBADF;
        _cleanup_fd_ int none = -EBADF;

        memcpy(fds + JOIN_FDS, v->tasks, v->task_count * sizeof *v->tasks);
        int r = cell_send(v->first, &hello, fds, JOIN_FDS + v->task_count);
        if (r < 0)
                return r;
        r = hear(v->first, ret_failed, &end);
        if (r == 1 && ret_failed->kind == REPORT_TREE && end >= 0) {
                *ret_end = end;
                r = hear(v->first, ret_failed, &none);
                return r == 1 && ret_failed->kind != REPORT_STEP_FAILED ? -EBADMSG : r;
        }
        fd_close(&end);
        return r == 1 && ret_failed->kind == REPORT_STEP_FAILED ? 1 : r < 0 ? r : -EPROTO;
}

static int visit(struct visit *v, int *ret_end, struct report *ret_failed) {
        struct cell_context c = {.host = -EBADF, .root = -EBADF, .proc = -EBADF, .empty = -EBADF, .null = -EBADF};

        int r = enter_container(v);
        if (r == 0) {
                v->stage = STAGE_FIND;
                v->first = connect_inside(v);
                r = v->first < 0 ? v->first : 0;
        }
        if (r == 0) {
                v->stage = STAGE_ATTACH;
                r = attach(v, &c);
        }
        if (r == 0) {
                v->stage = STAGE_PROC;
                r = add_own(v, &c);
        }
        if (r == 0) {
                v->stage = STAGE_PIVOT;
                r = pivot(&c);
        }
        if (r == 0) {
                v->stage = STAGE_HAND;
                r = hand_over(v, ret_end, ret_failed);
        }
        return r;
}

static void answer(const struct visit *v, int r, const struct report *failed, int end) {
        struct report said = {.kind = REPORT_EXEC_FAILED, .step = v->stage, .error = r};

        if (r == 1)
                said = *failed;
        if (r == 0)
                said.kind = REPORT_SERVING;
        (void)cell_send(v->answer, &said, &end, r == 0 ? 1 : 0);
}

_noreturn_ static void go(struct visit *v) {
        struct report failed = {0};
        int end = -EBADF, r = visit(v, &end, &failed);

        answer(v, r, &failed, end);
        _exit(0);
}

/* --- and back --- */

static int explain(const struct keeper_task *t, const struct report *r, struct err *err) {
        int error = r->error < 0 && r->error > -4096 ? r->error : -EIO;

        if (r->kind == REPORT_STEP_FAILED)
                return cell_explain(&t->plan, r, err);
        (void)err_set(err, error, "%s", r->step < STAGE_COUNT ? stage_text[r->step] : "could not join the container");
        (void)err_hint(err, "the engine's runtime has to run containers on this kernel, as runc does; for gVisor "
                            "there is the driver gvisor");
        return error;
}

static int receive(const struct keeper_task *t, int fd, int *ret_end, struct err *err) {
        struct report r = {0};
        _cleanup_fd_ int end = -EBADF;

        int heard = hear(fd, &r, &end);
        if (heard == -ETIMEDOUT)
                return err_set(err, heard, "the container could not be joined in time");
        if (heard != 1)
                return err_set(err, -EPROTO, "whoever joins the container ended without a word");
        if (r.kind != REPORT_SERVING || end < 0)
                return explain(t, &r, err);
        *ret_end = TAKE_FD(end);
        return 0;
}

static int send_visitor(struct visit *v, int *ret_end, struct err *err) {
        _cleanup_fd_ int ours = -EBADF;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_set(err, -errno, "could not make a pair of sockets");
        ours = pair[0];
        v->answer = pair[1];
        pid_t pid = fork();
        if (pid == 0)
                go(v);
        fd_close(&v->answer);
        if (pid < 0)
                return err_set(err, -errno, "could not make a process");
        int r = receive(v->task, ours, ret_end, err);
        if (r < 0)
                (void)kill(pid, SIGKILL);
        (void)wait_for(pid);
        return r;
}

static void close_visit(struct visit *v) {
        int *const all[] = {&v->mount_ns, &v->outer_cgroup_ns, &v->user_ns, &v->secret, &v->tree};

        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                fd_close(all[i]);
}

int join_container(const struct join *j, int *ret_end, struct err *err) {
        struct visit v = {.task = j->task,
                          .process = j->process,
                          .first = -EBADF,
                          .mount_ns = -EBADF,
                          .network = j->network,
                          .outer_cgroup_ns = -EBADF,
                          .user_ns = -EBADF,
                          .secret = -EBADF,
                          .tree = -EBADF,
                          .door = j->door};

        v.mount_ns = openat(j->process, "ns/mnt", O_RDONLY | O_CLOEXEC);
        if (v.mount_ns < 0)
                return err_set(err, -errno, "cannot open the container's mount namespace");
        int r = open_outer_cgroups(&v, err);
        if (r == 0)
                r = copy_tree(j, &v, err);
        if (r == 0)
                r = make_user_namespace(j->task, &v.user_ns, err);
        if (r == 0)
                r = write_secret(j->task, &v.secret, err);
        if (r == 0)
                r = send_visitor(&v, ret_end, err);
        close_visit(&v);
        return r;
}
