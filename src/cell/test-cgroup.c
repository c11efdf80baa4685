/* Cgroups: the parsers on texts of four kinds of host, everything else for real on the host that runs the test (as
 * root; v1, hybrid or v2), judged from what processes inside could still do. */
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "cell/cgroup-make.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

static unsigned serial;

/* For what the rest of a test makes no sense without. */
#define NEED(condition)                                                                                                \
        do {                                                                                                           \
                bool _holds = (condition);                                                                             \
                CHECK(_holds &&#condition);                                                                            \
                if (!_holds)                                                                                           \
                        return;                                                                                        \
        } while (0)

/* Says why on failure, so that a refusal on some host explains itself. */
static int create(struct cgroup *c, const struct cgroup_limits *limits) {
        struct err err = {0};
        char id[64];

        (void)snprintf(id, sizeof id, "%08x%08x", (unsigned)getpid(), serial++);
        int r = cgroup_create(c, id, limits, NULL, 0, &err);
        if (r < 0)
                (void)printf("# %s (%s)\n", err.text, err.hint);
        return r;
}

/* A process inside: born there if v2 is part of it. */
static pid_t fork_into(const struct cgroup *c) {
        struct clone_args args = {.exit_signal = SIGCHLD};

        (void)fflush(stdout);
        if (c->into >= 0) {
                args.flags = CLONE_INTO_CGROUP;
                args.cgroup = (unsigned)c->into;
        }
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (cgroup_enter_self(c, true) < 0)
                        _exit(99);
        }
        return pid;
}

static int wait_for(pid_t pid) {
        int status = -1;

        return waitpid(pid, &status, 0) == pid ? status : -1;
}

static void pause_ms(long ms) {
        (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* How many leaves of ours exist anywhere below /sys/fs/cgroup. */
static int count_leaves(const char *name) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        char path[PATH_MAX], leaf[PATH_MAX + 128];
        int count = 0;

        CHECK(cgroup_place_find(&p, NULL) == 0);
        for (int h = 0; h < (int)p.count; h++)
                if (cgroup_place_path(&p, h, p.hierarchies[h].own, path) == 0) {
                        (void)snprintf(leaf, sizeof leaf, "%s/%s", path, name);
                        count += access(leaf, F_OK) == 0;
                }
        if (p.v2 >= 0 && cgroup_place_top(&p, path) >= 0) {
                (void)snprintf(leaf, sizeof leaf, "%s" CGROUP_PARENT "/%s", path, name);
                count += access(leaf, F_OK) == 0;
        }
        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                if (geteuid() != 0 && cgroup_place_v1(&p, p.v1[k], 0, path) == 0) {
                        (void)snprintf(leaf, sizeof leaf, "%s/%s", path, name);
                        count += access(leaf, F_OK) == 0;
                }
        return count;
}

static void parse(struct cgroup_place *p, const char *self, const char *mountinfo) {
        free(p->mountinfo);
        *p = (struct cgroup_place){0};
        (void)snprintf(p->text, sizeof p->text, "%s", self);
        cgroup_place_parse(p);
        if (mountinfo) {
                p->mountinfo = strdup(mountinfo);
                cgroup_place_parse_mounts(p, p->mountinfo);
        }
}

static void place_v2(void) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        char path[PATH_MAX];

        parse(&p, "0::/user.slice/user-1000.slice/session-3.scope\n", NULL);
        CHECK(p.count == 1 && p.v2 == 0 && p.v1[CGROUP_MEMORY] == -1);
        CHECK(cgroup_place_path(&p, p.v2, p.hierarchies[0].own, path) == 0);
        CHECK_STR(path, "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope");

        /* a container without a cgroup namespace sees a part of the tree, at a place of its own */
        parse(&p, "0::/system.slice/docker-ab.scope/inner\n",
              "30 24 0:26 /system.slice/docker-ab.scope /mnt/a\\040b rw,nosuid - cgroup2 cgroup rw,nsdelegate\n");
        CHECK(cgroup_place_path(&p, p.v2, p.hierarchies[0].own, path) == 0);
        CHECK_STR(path, "/mnt/a b/inner");

        parse(&p, "0::/elsewhere\n", "30 24 0:26 /system.slice/docker-ab.scope /mnt rw - cgroup2 cgroup rw\n");
        CHECK(cgroup_place_path(&p, p.v2, "", path) == -ENOENT);

        parse(&p, "0::/../../gone\n", NULL);
        CHECK_STR(p.hierarchies[0].own, "");
        parse(&p, "0::/a/b (deleted)\n", NULL);
        CHECK_STR(p.hierarchies[0].own, "");
}

static void place_v1(void) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        char path[PATH_MAX];
        static const char self[] = "12:pids:/user.slice\n5:cpu,cpuacct:/user.slice\n4:memory:/\n2:blkio:/a:b\n"
                                   "1:name=systemd:/user.slice/session-3.scope\n";

        parse(&p, self, NULL);
        CHECK(p.v2 == -1 && p.count == 5);
        CHECK(p.v1[CGROUP_CPU] == p.v1[CGROUP_CPUACCT] && p.v1[CGROUP_CPU] == 1);
        CHECK(cgroup_place_path(&p, p.v1[CGROUP_CPU], p.hierarchies[p.v1[CGROUP_CPU]].own, path) == 0);
        CHECK_STR(path, "/sys/fs/cgroup/cpu,cpuacct/user.slice");
        CHECK_STR(p.hierarchies[p.v1[CGROUP_IO]].own, "/a:b");
        CHECK(cgroup_place_v1(&p, p.v1[CGROUP_MEMORY], 0, path) == 0);
        if (geteuid() == 0)
                CHECK_STR(path, "/sys/fs/cgroup/memory");

        parse(&p, self,
              "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
              "33 31 0:30 /user.slice /cg/cpu ro,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
              "34 31 0:30 /user.slice /cg/cpu2 rw,relatime shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
              "35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n");
        CHECK(cgroup_place_path(&p, p.v1[CGROUP_CPU], p.hierarchies[p.v1[CGROUP_CPU]].own, path) == 0);
        CHECK_STR(path, "/cg/cpu2");
        CHECK(cgroup_place_path(&p, p.v1[CGROUP_PIDS], "", path) == -ENOENT);
}

static void place_hybrid(void) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        char path[PATH_MAX];

        parse(&p, "8:pids:/\n4:memory:/job/1\n1:cpu:/\n0::/x\n", NULL);
        CHECK(p.v2 == 3 && p.v1[CGROUP_MEMORY] == 1 && p.v1[CGROUP_IO] == -1);
        CHECK(cgroup_place_path(&p, p.v2, p.hierarchies[p.v2].own, path) == 0);
        CHECK_STR(path, "/sys/fs/cgroup/unified/x");

        parse(&p, "nonsense\n:\n::\n3:memory\n", "garbage\n1 2 3 - cgroup\n - \n");
        CHECK(p.count == 0 && p.v2 == -1);
}

static void leaves_nothing(void) {
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        char name[CGROUP_NAME_SIZE];

        limits.memory = 64 << 20;
        limits.processes = 10;
        limits.cpus = 500;
        limits.need_cpu_usage = true;
        NEED(create(&c, &limits) == 0);
        memcpy(name, c.name, sizeof name);
        CHECK(c.missing_count == 0 && count_leaves(name) >= 1);
        CHECK(c.home[CGROUP_MEMORY] >= 0 && c.home[CGROUP_PIDS] >= 0 && c.home[CGROUP_CPU] >= 0);

        pid_t pid = fork_into(&c);
        if (pid == 0)
                for (;;)
                        (void)pause();
        pause_ms(50);                              /* until it is in */
        CHECK(pid > 0 && cgroup_destroy(&c) == 0); /* kills it */
        CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
        CHECK(count_leaves(name) == 0);
        CHECK(cgroup_destroy(&c) == 0);

        struct err err;
        CHECK(cgroup_create(&c, "../x", &limits, NULL, 0, &err) == ERR_INPUT);
        CHECK(cgroup_create(&c, "", &limits, NULL, 0, &err) == ERR_INPUT);
}

static void processes_are_limited(void) {
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct cgroup_usage usage;

        limits.processes = 8;
        NEED(create(&c, &limits) == 0);
        pid_t pid = fork_into(&c);
        if (pid == 0) {
                int made = 0;
                for (pid_t child; made < 50 && (child = fork()) >= 0; made++)
                        if (child == 0) {
                                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                                for (;;)
                                        (void)pause();
                        }
                _exit(made < 50 && errno == EAGAIN ? made : 98);
        }
        int status = wait_for(pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        CHECK(cgroup_usage(&c, &usage) == 0);
        CHECK(usage.fork_refusals == 1 && (usage.processes_peak == 8 || usage.processes_peak == CGROUP_UNSET));
        CHECK(cgroup_destroy(&c) == 0);
}

static void memory_is_limited(void) {
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct cgroup_usage usage;

        limits.memory = 16 << 20;
        NEED(create(&c, &limits) == 0);
        pid_t pid = fork_into(&c);
        if (pid == 0) {
                char *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (size_t i = 0; p != MAP_FAILED && i < 64 << 20; i += 4096)
                        p[i] = 1;
                _exit(0);
        }
        int status = wait_for(pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(cgroup_usage(&c, &usage) == 0);
        /* v2 counts everyone whom a group kill took */
        CHECK(usage.oom_kills >= 1 && usage.oom_kills < 10 && usage.memory_now <= 16 << 20);
        CHECK(usage.memory_peak == CGROUP_UNSET || (usage.memory_peak > 8 << 20 && usage.memory_peak <= 16 << 20));
        CHECK(cgroup_destroy(&c) == 0);
}

static void cpus_are_limited(void) {
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct cgroup_usage usage;

        limits.cpus = 100;
        limits.want_cpu_usage = true;
        NEED(create(&c, &limits) == 0);
        pid_t pid = fork_into(&c);
        if (pid == 0)
                for (volatile unsigned i = 0;; i++)
                        ;
        pause_ms(500);
        CHECK(cgroup_kill(&c) == 0);
        CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
        CHECK(cgroup_usage(&c, &usage) == 0);
        CHECK(usage.cpu_us > 10000 && usage.cpu_us < 150000);
        CHECK(usage.throttled_us > 0 && usage.throttled_us != CGROUP_UNSET);
        CHECK(cgroup_destroy(&c) == 0);

        limits.cpus = 5; /* a small share has a longer period */
        NEED(create(&c, &limits) == 0);
        CHECK(cgroup_destroy(&c) == 0);
}

/* A cgroup with a share of its own takes no larger one below it (on v1): the smaller one is what holds. */
static void cpus_below_a_smaller_share(void) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        struct cgroup outer = CGROUP_INIT, inner = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};
        char below[PATH_MAX];

        CHECK(cgroup_place_find(&p, NULL) == 0);
        int h = p.v1[CGROUP_CPU];
        if (h < 0)
                return;
        limits.cpus = 200;
        NEED(create(&outer, &limits) == 0);
        if (geteuid() == 0) {
                (void)snprintf(below, sizeof below, "%s/%s", p.hierarchies[h].own, outer.name);
                p.hierarchies[h].own = below;
                limits.cpus = 2000;
                CHECK(cgroup_create_at(&inner, "7e57000000000000", &limits, NULL, 0, &p, &err) == 0);
                CHECK(cgroup_destroy(&inner) == 0);
        }
        CHECK(cgroup_destroy(&outer) == 0);
}

static void disks_are_limited(void) {
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        _cleanup_fd_ int root = open("/usr", O_PATH | O_CLOEXEC), proc = open("/proc", O_PATH | O_CLOEXEC);
        CHECK(cgroup_limits_add(&limits, proc, true) == 0 && limits.device_count == 0);
        CHECK(cgroup_limits_add(&limits, root, false) == 0);
        CHECK(cgroup_limits_add(&limits, root, false) == 0);
        if (limits.device_count == 0) {
                (void)printf("# /usr is in memory: nothing to throttle\n");
                return;
        }
        CHECK(limits.device_count == 1 && !limits.devices[0].writable);
        limits.disk_read = 4 << 20;
        limits.disk_write = 1 << 20; /* holds by itself: nothing is writable */
        NEED(create(&c, &limits) == 0);
        char text[256] = "";
        bool v2 = c.home[CGROUP_IO] == c.into;
        CHECK(fd_read_at(c.home[CGROUP_IO], v2 ? "io.max" : "blkio.throttle.read_bps_device", text, sizeof text) > 0);
        CHECK(strstr(text, "4194304") != NULL);
        CHECK(cgroup_destroy(&c) == 0);

        CHECK(cgroup_limits_add(&limits, root, true) == 0 && limits.devices[0].writable);
        int r = cgroup_create(&c, "7e57000000000001", &limits, NULL, 0, &err);
        CHECK(r == (v2 ? 0 : ERR_UNENFORCED));
        CHECK(v2 || (strstr(err.text, "limits.disk_write") && strstr(err.text, "buffered")));
        if (r == 0)
                CHECK(cgroup_destroy(&c) == 0);
        CHECK(count_leaves("stockade-7e57000000000001") == 0);

        limits.devices[0].opaque = true;
        limits.disk_write = CGROUP_UNSET;
        CHECK(cgroup_create(&c, "7e57000000000002", &limits, NULL, 0, &err) == ERR_UNENFORCED);
        CHECK(strstr(err.text, "limits.disk_read") != NULL);
}

/* Forks as fast as it can; were the limit not to hold, it would stop by itself at a thousand. */
static _noreturn_ void bomb(unsigned *forks) {
        while (__atomic_fetch_add(forks, 1, __ATOMIC_RELAXED) < 1000)
                if (fork() < 0) {
                        (void)__atomic_fetch_sub(forks, 1, __ATOMIC_RELAXED);
                        (void)sched_yield();
                }
        (void)alarm(10);
        for (;;)
                (void)pause();
}

/* by_hand: nobody is in the v2 leaf, as on hosts without cgroup.kill. */
static void kill_bomb(bool by_hand) {
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct cgroup_usage usage;
        char text[1024];

        unsigned *forks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        NEED(forks != MAP_FAILED);
        limits.processes = 50;
        NEED(create(&c, &limits) == 0);
        int into = c.into;
        if (by_hand && c.task_count > 0)
                c.into = -EBADF;
        pid_t pid = fork_into(&c);
        if (pid == 0)
                bomb(forks);
        for (int i = 0; i < 500 && (cgroup_usage(&c, &usage) < 0 || usage.fork_refusals == 0); i++)
                pause_ms(10);
        CHECK(usage.fork_refusals > 0 && usage.fork_refusals != CGROUP_UNSET);
        CHECK(cgroup_kill(&c) == 0);
        CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
        for (int i = 0; i < 100 && fd_read_at(c.home[CGROUP_PIDS], "cgroup.procs", text, sizeof text) > 0; i++)
                pause_ms(10);
        CHECK(fd_read_at(c.home[CGROUP_PIDS], "cgroup.procs", text, sizeof text) == 0);
        if (by_hand && c.into < 0) { /* forks were stopped first: that is what makes the list finite */
                CHECK(fd_read_at(c.home[CGROUP_PIDS], "pids.max", text, sizeof text) > 0);
                CHECK_STR(text, "0");
        }
        c.into = into;
        CHECK(cgroup_destroy(&c) == 0);
        (void)munmap(forks, 4096);
}

static void bomb_is_killed(void) {
        kill_bomb(false);
}

static void bomb_is_killed_by_hand(void) {
        kill_bomb(true);
}

/* A host without the memory and pids controllers, made by leaving their lines out. */
static void missing_is_refused(void) {
        static const char *const some[] = {"limits.memory"}, *const all[] = {"limits.processes", "limits.memory"};
        struct cgroup c = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        for (int round = 0; round < 3; round++) {
                _cleanup_cgroup_place_ struct cgroup_place p = {0};
                parse(&p, "0::/\n1:name=none:/\n", "");
                limits.memory = 1 << 20;
                limits.processes = 5;
                int r = cgroup_create_at(&c, "7e57000000000003", &limits, round == 2 ? all : some, (size_t)round, &p,
                                         &err);
                CHECK(r == (round == 2 ? 0 : ERR_UNENFORCED));
                if (round == 0)
                        CHECK(strstr(err.text, "limits.memory") && strstr(err.text, "nor limits.processes"));
                if (round == 1)
                        CHECK(!strstr(err.text, "limits.memory") && strstr(err.text, "limits.processes"));
                if (round < 2)
                        CHECK(strstr(err.hint, "--accept-missing") != NULL);
        }
        CHECK(c.missing_count == 2 && c.into == -EBADF && c.task_count == 0);
        CHECK(cgroup_kill(&c) == -EOPNOTSUPP);
        CHECK(cgroup_destroy(&c) == 0);
}

/* A launcher that is killed leaves a cgroup and a process; the sweep removes both, and nobody else's. */
static void sweep_takes_the_dead(void) {
        struct cgroup mine = CGROUP_INIT;
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        int pipes[2];
        struct {
                pid_t pid;
                char name[CGROUP_NAME_SIZE];
        } other = {0};

        limits.processes = 10;
        limits.memory = 32 << 20;
        NEED(create(&mine, &limits) == 0);
        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        (void)fflush(stdout);
        pid_t launcher = fork();
        if (launcher == 0) {
                struct cgroup c = CGROUP_INIT;
                if (create(&c, &limits) < 0)
                        _exit(1);
                other.pid = fork_into(&c);
                if (other.pid == 0) { /* like a sandbox after exec: no descriptor of ours */
                        (void)prctl(PR_SET_PDEATHSIG, 0);
                        (void)syscall(SYS_close_range, 3U, ~0U, 0U);
                        for (;;)
                                (void)pause();
                }
                memcpy(other.name, c.name, sizeof other.name);
                pause_ms(50);
                (void)!write(pipes[1], &other, sizeof other);
                for (;;)
                        (void)pause();
        }
        CHECK(read(pipes[0], &other, sizeof other) == (ssize_t)sizeof other);
        CHECK(cgroup_sweep(NULL, NULL) >= 0 && count_leaves(other.name) >= 1); /* its launcher lives */
        CHECK(kill(launcher, SIGKILL) == 0 && wait_for(launcher) >= 0);
        CHECK(kill(other.pid, 0) == 0);
        bool young = false;
        CHECK(cgroup_sweep(NULL, &young) >= 0 && young && count_leaves(other.name) >= 1); /* it may be being made */
        pause_ms(400);
        CHECK(cgroup_sweep(NULL, NULL) >= 1);
        CHECK(count_leaves(other.name) == 0 && count_leaves(mine.name) >= 1);
        for (int i = 0; i < 100 && kill(other.pid, 0) == 0; i++)
                pause_ms(10); /* until init has reaped it */
        CHECK(cgroup_destroy(&mine) == 0);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
}

/* The cgroups of this name beside our leaves, wherever a sweep looks. Returns how many were made, or removed. */
static int beside_ours(const char *name, bool make) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        char path[PATH_MAX], group[PATH_MAX + 128];
        int count = 0;

        CHECK(cgroup_place_find(&p, NULL) == 0);
        for (int k = 0; k <= CGROUP_CONTROLLERS; k++) {
                int r = k < CGROUP_CONTROLLERS ? cgroup_place_v1(&p, p.v1[k], 0, path)
                        : p.v2 >= 0            ? cgroup_place_path(&p, p.v2, p.hierarchies[p.v2].own, path)
                                               : -ENOENT;

                (void)snprintf(group, sizeof group, "%s/%s", path, name);
                if (r == 0)
                        count += (make ? mkdir(group, 0755) : rmdir(group)) == 0;
        }
        return count;
}

/* A process of somebody else's in all of these cgroups. */
static pid_t live_beside_ours(const char *name) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        char path[PATH_MAX], group[PATH_MAX + 128];

        CHECK(cgroup_place_find(&p, NULL) == 0);
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid != 0)
                return pid;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int h = 0; h < (int)p.count; h++)
                if (cgroup_place_path(&p, h, p.hierarchies[h].own, path) == 0) {
                        (void)snprintf(group, sizeof group, "%s/%s", path, name);
                        _cleanup_fd_ int dir = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
                        if (dir >= 0 && fd_write_at(dir, "cgroup.procs", "0") < 0)
                                _exit(1);
                }
        for (;;)
                (void)pause();
}

/* Names that begin like ours are not ours: neither their cgroups nor who lives there is touched. */
static void sweep_leaves_others_alone(void) {
        static const char *const endings[] = {
                "somebody-elses",   "",
                "7e5700000000000",  "7e570000000000000",
                "7E57000000000000", "7e57000000000000.scope",
                "7e5700000000000g", "-7e57000000000000",
        };
        char name[64];
        int made[ELEMENTSOF(endings)];
        pid_t pid = -1;

        for (size_t i = 0; i < ELEMENTSOF(endings); i++) {
                (void)snprintf(name, sizeof name, CGROUP_PREFIX "%s", endings[i]);
                (void)beside_ours(name, false); /* of a run that was interrupted */
                made[i] = beside_ours(name, true);
                CHECK(made[i] > 0 || geteuid() != 0);
        }
        (void)snprintf(name, sizeof name, CGROUP_PREFIX "%s", endings[0]);
        if (made[0] > 0)
                pid = live_beside_ours(name);
        pause_ms(400); /* none of them is young any more */
        CHECK(cgroup_sweep(NULL, NULL) >= 0);
        if (pid > 0) {
                CHECK(waitpid(pid, NULL, WNOHANG) == 0); /* it lives */
                (void)kill(pid, SIGKILL);
                (void)wait_for(pid);
        }
        for (size_t i = 0; i < ELEMENTSOF(endings); i++) {
                (void)snprintf(name, sizeof name, CGROUP_PREFIX "%s", endings[i]);
                int left = beside_ours(name, false);
                if (left != made[i])
                        (void)printf("# of %d cgroups '%s' %d are left\n", made[i], name, left);
                CHECK(left == made[i]);
        }
}

static int compare(const void *a, const void *b) {
        const double *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

static double now_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Not a judgement, a number for people: what the limits cost a start. */
static void cost(void) {
        enum { ROUNDS = 100 };
        static double made[ROUNDS], gone[ROUNDS], swept[ROUNDS];
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;

        limits.memory = 64 << 20;
        limits.processes = 10;
        limits.cpus = 500;
        limits.want_cpu_usage = true;
        for (size_t i = 0; i < ROUNDS; i++) {
                struct cgroup c = CGROUP_INIT;
                double start = now_us();
                NEED(create(&c, &limits) == 0);
                made[i] = now_us() - start;
                start = now_us();
                CHECK(cgroup_destroy(&c) == 0);
                gone[i] = now_us() - start;
                start = now_us();
                (void)cgroup_sweep(NULL, NULL);
                swept[i] = now_us() - start;
        }
        qsort(made, ROUNDS, sizeof made[0], compare);
        qsort(gone, ROUNDS, sizeof gone[0], compare);
        qsort(swept, ROUNDS, sizeof swept[0], compare);
        (void)printf("# create %.0f us, destroy %.0f us, sweep %.0f us (p50); create p95 %.0f us\n", made[ROUNDS / 2],
                     gone[ROUNDS / 2], swept[ROUNDS / 2], made[ROUNDS * 95 / 100]);
}

TEST_MAIN(TEST(place_v2), TEST(place_v1), TEST(place_hybrid), TEST(leaves_nothing), TEST(processes_are_limited),
          TEST(memory_is_limited), TEST(cpus_are_limited), TEST(cpus_below_a_smaller_share), TEST(disks_are_limited),
          TEST(bomb_is_killed), TEST(bomb_is_killed_by_hand), TEST(missing_is_refused), TEST(sweep_takes_the_dead),
          TEST(sweep_leaves_others_alone), TEST(cost))
