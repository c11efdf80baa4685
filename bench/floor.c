/* The floor seen from outside: user namespace, cgroups, clone, wait, clean up.
 *
 * The order is the cheapest known: a user namespace made beside (a helper that shares our memory holds it while its
 * maps are written), cgroups, one clone of everything else into the v2 leaf, and the child joins the user namespace
 * last. Nobody waits for anybody between clone and exit. Leaves never outlive floor_run; they are not called
 * stockade-*, because stockade sweeps up leaves of that name that nobody holds. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "bench/floor.h"
#include "bench/measure.h"

static const char *const floor_v1_names[FLOOR_V1] = {"memory", "pids", "cpu"};

struct floor_limit {
        int where; /* FLOOR_MEMORY..FLOOR_CPU on v1 */
        const char *v1, *v2, *v1_value, *v2_value;
};

/* memsw comes after memory: it may never be the smaller one. */
static const struct floor_limit floor_limits[] = {
        {FLOOR_MEMORY, "memory.limit_in_bytes", "memory.max", "268435456", "268435456"},
        {FLOOR_MEMORY, "memory.memsw.limit_in_bytes", "memory.swap.max", "268435456", "0"},
        {FLOOR_PIDS, "pids.max", "pids.max", "64", "64"},
        {FLOOR_CPU, "cpu.cfs_quota_us", "cpu.max", "100000", "100000 100000"},
};

int floor_done(struct floor_trace *t, const char *name, int r) {
        if (r < 0) {
                t->failed = t->failed ? t->failed : name;
        } else if (t->count < FLOOR_STEPS) {
                t->name[t->count] = name;
                t->at[t->count++] = measure_now();
        }
        return r;
}

int floor_open(struct floor *f, const char *template, struct err *err) {
        *f = (struct floor){.v2 = -EBADF, .v1 = {-EBADF, -EBADF, -EBADF}};
        if (template && snprintf(f->template, sizeof(f->template), "%s", template) >= (int)sizeof(f->template))
                return err_set(err, ERR_LIMIT, "the template's path '%s' is too long", template);
        void *page = mmap(NULL, sizeof(struct floor_trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return err_set(err, -errno, "could not map a page for the floor's trace");
        f->trace = page;
        f->only_v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
        const char *v2 = f->only_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
        f->v2 = open(v2, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->v2 < 0)
                return err_set(err, -errno, "cannot open the cgroup v2 tree '%s'", v2);
        for (size_t i = 0; i < FLOOR_V1 && !f->only_v2; i++) {
                char path[64];
                (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", floor_v1_names[i]);
                f->v1[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (f->v1[i] < 0)
                        return err_set(err, -errno, "cannot open the cgroup tree '%s'", path);
        }
        floor_inside_make_filter();
        return 0;
}

void floor_close(struct floor *f) {
        if (f->trace)
                (void)munmap(f->trace, sizeof(*f->trace));
        f->trace = NULL;
        fd_close(&f->v2);
        for (size_t i = 0; i < FLOOR_V1; i++)
                fd_close(&f->v1[i]);
}

/* The helper owns a new user namespace and waits to be killed. It shares our memory, so it only makes system calls and
 * has a stack of its own. */
static char floor_helper_stack[8192] __attribute__((aligned(16)));

static int floor_helper(void *unused) {
        (void)unused;
        while (syscall(SYS_pause) < 0)
                continue;
        return 0;
}

static int floor_user_namespace(struct floor_trace *t, pid_t *ret_helper, int *ret_fd) {
        pid_t helper = clone(floor_helper, floor_helper_stack + sizeof(floor_helper_stack),
                             CLONE_VM | CLONE_FILES | CLONE_NEWUSER, NULL);
        if (helper < 0)
                return -errno;
        *ret_helper = helper;
        (void)floor_done(t, "clone user namespace helper", 0);
        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/%d", (int)helper);
        _cleanup_fd_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0)
                return -errno;
        int r = fd_write_at(proc, "uid_map", "0 1000000 65536");
        if (r == 0)
                r = fd_write_at(proc, "gid_map", "0 1000000 65536");
        if (r < 0)
                return r;
        int fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        (void)kill(helper, SIGKILL); /* the descriptor keeps the namespace */
        return 0;
}

static int floor_set_limits(const struct floor *f, int where, int leaf) {
        for (size_t i = 0; i < ELEMENTSOF(floor_limits); i++) {
                const struct floor_limit *l = &floor_limits[i];
                int r = 0;
                if (f->only_v2)
                        r = fd_write_at(leaf, l->v2, l->v2_value);
                else if (l->where == where)
                        r = fd_write_at(leaf, l->v1, l->v1_value);
                if (r == -ENOENT && str_eq(l->v2, "memory.swap.max"))
                        r = 0; /* a kernel without swap accounting has no such file */
                if (r < 0)
                        return r;
        }
        return 0;
}

static int floor_make_cgroups(const struct floor *f, const char *name, int *ret_v2, int ret_tasks[FLOOR_V1]) {
        if (mkdirat(f->v2, name, 0755) < 0)
                return -errno;
        *ret_v2 = openat(f->v2, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*ret_v2 < 0)
                return -errno;
        if (f->only_v2)
                return floor_set_limits(f, -1, *ret_v2);
        for (int i = 0; i < FLOOR_V1; i++) {
                if (mkdirat(f->v1[i], name, 0755) < 0)
                        return -errno;
                _cleanup_fd_ int leaf = openat(f->v1[i], name, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (leaf < 0)
                        return -errno;
                int r = floor_set_limits(f, i, leaf);
                if (r < 0)
                        return r;
                ret_tasks[i] = openat(leaf, "tasks", O_WRONLY | O_CLOEXEC);
                if (ret_tasks[i] < 0)
                        return -errno;
        }
        return 0;
}

static int floor_remove_cgroups(const struct floor *f, const char *name) {
        int r = 0;
        for (size_t i = 0; i < FLOOR_V1 && !f->only_v2; i++)
                if (unlinkat(f->v1[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        r = -errno;
        if (unlinkat(f->v2, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                r = -errno;
        return r;
}

static int floor_wait(pid_t pid, int flags, int *ret_status) {
        int status = 0;
        while (waitpid(pid, &status, flags) < 0)
                if (errno != EINTR)
                        return -errno;
        if (ret_status)
                *ret_status = status;
        return 0;
}

static int floor_clone(const struct floor_inside *in, int leaf, int *ret_status) {
        struct clone_args args = {
                .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_INTO_CGROUP,
                .exit_signal = SIGCHLD,
                .cgroup = (unsigned)leaf,
        };
        pid_t pid = kernel_clone3(&args);
        if (pid < 0)
                return pid;
        if (pid == 0)
                floor_inside(in);
        return floor_wait(pid, 0, ret_status);
}

int floor_run(struct floor *f, enum floor_root root, struct err *err) {
        struct floor_trace *t = f->trace;
        struct floor_inside in = {.f = f, .root = root, .user = -EBADF, .tasks = {-EBADF, -EBADF, -EBADF}};
        char name[48];
        int leaf = -EBADF, status = -1;
        pid_t helper = -1;

        *t = (struct floor_trace){0};
        (void)snprintf(name, sizeof(name), "bench-floor-%d-%u", (int)getpid(), f->serial++);
        (void)floor_done(t, "start", 0);
        int r = floor_done(t, "uid and gid maps", floor_user_namespace(t, &helper, &in.user));
        if (r == 0)
                r = floor_done(t, "make cgroups, set limits", floor_make_cgroups(f, name, &leaf, in.tasks));
        if (r == 0)
                r = floor_done(t, "exit of PID 1, reaped", floor_clone(&in, leaf, &status));
        const char *last = t->name[t->count > 1 ? t->count - 2 : 0];

        fd_close(&leaf);
        fd_close(&in.user);
        for (size_t i = 0; i < FLOOR_V1; i++)
                fd_close(&in.tasks[i]);
        if (helper > 0) {
                (void)kill(helper, SIGKILL);
                (void)floor_wait(helper, __WALL, NULL);
        }
        int removed = floor_done(t, "remove cgroups", floor_remove_cgroups(f, name));
        if (r == 0 && WIFSIGNALED(status))
                return err_set(err, -EINTR, "signal %d ended the floor's PID 1 after step '%s'", WTERMSIG(status),
                               last);
        if (r == 0)
                r = -WEXITSTATUS(status); /* PID 1 exits with the errno of what failed */
        if (r < 0)
                return err_set(err, r, "the floor failed at step '%s'", t->failed ? t->failed : "/usr/bin/true runs");
        return removed < 0 ? err_set(err, removed, "could not remove the floor's cgroups '%s'", name) : 0;
}
