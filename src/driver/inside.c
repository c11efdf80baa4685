/* What runs first in a container: our own program, as the sandbox's user on the host, without any capability.
 *
 * It waits for the plan and the user namespace that it owns, joins that, and confines itself with the cell's own code:
 * ids, capabilities, Landlock, limits and filter are the same as without an engine. The engine's filter stays below. If
 * nobody comes, it ends, and the engine removes the container. */
#include "driver/inside.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "cell/base-filter.h"
#include "cell/cell.h"
#include "driver/join.h"
#include "wire/box.h"

#define ENV_MAX 512

static int wait_for_visitor(void) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        const socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof JOIN_SOCKET;
        struct ucred who = {0};
        socklen_t who_size = sizeof who;
        _cleanup_fd_ int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        memcpy(at.sun_path + 1, JOIN_SOCKET, sizeof JOIN_SOCKET - 1);
        if (door < 0 || bind(door, (struct sockaddr *)&at, size) < 0 || listen(door, 1) < 0)
                return -errno;
        struct pollfd knock = {.fd = door, .events = POLLIN};
        if (poll(&knock, 1, JOIN_MS) <= 0)
                return -ETIMEDOUT;
        _cleanup_fd_ int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_size) < 0 || who.uid != 0)
                return -EPERM;
        return TAKE_FD(fd);
}

static int receive(int fd, int fds[CELL_REPORT_FDS], size_t *ret_count) {
        struct pollfd said = {.fd = fd, .events = POLLIN};
        struct report r;

        if (poll(&said, 1, JOIN_MS) <= 0)
                return -ETIMEDOUT;
        if (cell_receive(fd, &r, NULL, fds, ret_count) != 1 || r.kind != REPORT_TREE || *ret_count <= JOIN_FDS)
                return -EPROTO;
        return 0;
}

/* Whoever opened these files may move us; we ourselves may not. */
static int enter_cgroups(const int *fds, size_t count) {
        for (size_t i = 0; i < count; i++)
                if (write(fds[i], "0", 1) != 1)
                        return -errno;
        return 0;
}

/* By this one our end is noticed. */
static int send_own(int visitor) {
        const struct report r = {.kind = REPORT_TREE};
        _cleanup_fd_ int own = (int)kernel_result(syscall(SYS_pidfd_open, getpid(), 0));

        return own < 0 ? own : cell_send(visitor, &r, &own, 1);
}

static int map_plan(int fd, struct plan *ret) {
        struct stat st;

        if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > PLAN_MAX_SIZE)
                return -EPROTO;
        const void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
                return -errno;
        return plan_check(bytes, (size_t)st.st_size, ret, NULL) < 0 ? -EBADMSG : 0;
}

/* The engine's streams lead out of the sandbox. The guest reads its secret from the first. */
static int replace_streams(int secret) {
        _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0)
                return -errno;
        return dup2(secret, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ? -errno : 0;
}

static int enter(struct cell_context *c, const struct plan_step *s) {
        switch ((int)s->op) {
        case OP_IDS: {
                int r = enter_step(c, s);
                /* begins at the sandbox's own cgroup, and not at the engine's */
                return r == 0 && unshare(CLONE_NEWCGROUP) < 0 ? -errno : r;
        }
        case OP_CAPS:
                return enter_step(c, s);
        case OP_PIVOT: /* done from outside */
        case OP_READONLY:
        case OP_NO_NESTING:
        case OP_SESSION: /* the runtime's work: a session and a keyring of the container's own */
                return 0;
        default:
                return -EINVAL;
        }
}

static int become_guest(const struct plan *p) {
        static char *env[ENV_MAX + 1];
        char *argv[] = {(char *)(uintptr_t) "stockade-guest", (char *)(uintptr_t) "dial-leaves",
                        (char *)(uintptr_t)BOX_PLACE "/door", (char *)(uintptr_t) "/", NULL};
        struct plan_walk walk = {0};
        struct plan_step s;
        size_t n = 0;

        while (plan_next(p, &walk, &s)) {
                if (s.op == OP_ENV && n < ENV_MAX)
                        env[n++] = (char *)(uintptr_t)s.text[0];
                if (s.op == OP_CWD)
                        argv[3] = (char *)(uintptr_t)s.text[0];
        }
        (void)execve(CELL_GUEST_PATH, argv, env);
        return -errno;
}

static void prepare_base(const struct plan *p, struct cell_base *base) {
        struct plan_walk walk = {0};
        struct plan_step s;

        *base = (struct cell_base){.filter = base_filter, .filter_size = base_filter_size, .landlock = true};
        while (plan_next(p, &walk, &s)) {
                if (s.op == OP_ACCEPT && str_eq(s.text[0], "landlock"))
                        base->landlock = false;
                if (s.op == OP_SECCOMP && s.blob_size == base_filter_size &&
                    memcmp(s.blob, base_filter, base_filter_size) == 0)
                        base->filter = NULL; /* the plan's own is the same */
        }
}

static int step(struct cell_context *c, const struct plan_step *s) {
        switch (plan_op_phase(s->op)) {
        case PHASE_OUTSIDE:
        case PHASE_MOUNT:
                return 0;
        case PHASE_ENTER:
                return enter(c, s);
        case PHASE_CONFINE:
                return confine_step(c, s);
        case PHASE_EXEC:
                return become_guest(c->plan);
        default:
                return -EINVAL;
        }
}

static void walk_plan(struct cell_context *c) {
        struct plan_walk walk = {0};
        struct plan_step s = {0};
        int r = 0;

        while (r == 0 && plan_next(c->plan, &walk, &s))
                r = step(c, &s);
        struct report failed = {.kind = REPORT_STEP_FAILED, .step = s.index, .error = r < 0 ? r : -EINVAL};
        (void)cell_send(c->report, &failed, NULL, 0);
}

int inside_main(void) {
        int fds[CELL_REPORT_FDS];
        size_t count = 0;
        struct plan plan;
        struct cell_base base;
        int visitor = wait_for_visitor();

        if (visitor < 0)
                return 125;
        int r = receive(visitor, fds, &count);
        if (r == 0)
                r = map_plan(fds[0], &plan);
        if (r == 0)
                r = enter_cgroups(fds + JOIN_FDS, count - JOIN_FDS);
        if (r == 0)
                r = send_own(visitor);
        if (r == 0)
                r = replace_streams(fds[2]);
        if (r < 0) {
                struct report failed = {.kind = REPORT_STEP_FAILED, .error = r};
                (void)cell_send(visitor, &failed, NULL, 0);
                return 125;
        }
        prepare_base(&plan, &base);
        struct cell_context c = {
                .plan = &plan, .report = visitor, .user_ns = fds[1], .base = &base, .proc = -EBADF, .ruleset = -EBADF};
        walk_plan(&c);
        return 125;
}
