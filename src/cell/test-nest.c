/* Nests: cgroups of sandboxes that outlive who made them, for real on the host that runs the test (as root; v1, hybrid
 * or v2), judged from what processes inside could still do. And slots of host ids. */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "cell/cell.h"
#include "cell/cgroup-nest.h"
#include "cell/ids.h"

#define NEED(condition)                                                                                                \
        do {                                                                                                           \
                bool _holds = (condition);                                                                             \
                CHECK(_holds &&#condition);                                                                            \
                if (!_holds)                                                                                           \
                        return;                                                                                        \
        } while (0)

static struct cgroup_nest nest;
static char token[17];
static unsigned serial;

static void next_id(char ret[17]) {
        (void)snprintf(ret, 17, "%08x%08x", (unsigned)getpid(), serial++);
}

static bool open_nest(void) {
        struct err err = {0};

        if (!token[0])
                next_id(token);
        int r = cgroup_nest_open(&nest, token, &err);
        if (r < 0)
                (void)printf("# %s\n", err.text);
        return r == 0;
}

static int make(struct cgroup *c, char id[17], uint64_t processes) {
        struct cgroup_limits l = CGROUP_LIMITS_NONE;
        struct err err = {0};

        next_id(id);
        l.memory = 64 << 20;
        l.processes = processes;
        int r = cgroup_nest_make(&nest, c, id, &l, NULL, 0, &err);
        if (r < 0)
                (void)printf("# %s (%s)\n", err.text, err.hint);
        return r;
}

static void pause_ms(long ms) {
        (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* PID 1 of a sandbox, as far as cgroups are concerned: it is born there (NULL: here), becomes a user, and waits. */
static pid_t fork_as(const struct cgroup *c, uid_t user, const int *files, int count) {
        struct clone_args args = {.exit_signal = SIGCHLD};

        (void)fflush(stdout);
        if (c && c->into >= 0) {
                args.flags = CLONE_INTO_CGROUP;
                args.cgroup = (unsigned)(c->guest >= 0 ? c->guest : c->into);
        }
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        if (pid != 0)
                return pid;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (c && cgroup_enter_self(c, true) < 0)
                _exit(99);
        if (user != 0 && (setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0))
                _exit(97);
        for (int i = 0; i < count; i++)
                if (write(files[i], "0", 1) != 1)
                        _exit(98);
        for (;;)
                (void)pause();
}

static pid_t fork_into(const struct cgroup *c, const int *files, int count) {
        return fork_as(c, 0, files, count);
}

/* They enter by themselves, a little later. */
static void until_processes(const struct cgroup *c, uint64_t wanted, struct cgroup_usage *u) {
        for (int i = 0; i < 1000 && (cgroup_usage(c, u) < 0 || u->processes_now != wanted); i++)
                pause_ms(2);
        CHECK(u->processes_now == wanted);
}

/* A pass kills; who is dead still has to be waited for. */
static void end(pid_t pid) {
        int status;

        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int remove_soon(const struct cgroup *c) {
        int r = -EBUSY;

        for (int i = 0; i < 1000 && r == -EBUSY; i++) {
                r = cgroup_nest_remove(&nest, c);
                if (r == -EBUSY)
                        pause_ms(2);
        }
        return r;
}

static void a_sandbox_is_found_again(void) {
        _cleanup_buf_ struct buf text = {0};
        struct cgroup c = CGROUP_INIT, again = CGROUP_INIT;
        struct cgroup_nest other;
        struct cgroup_usage u;
        char id[17];

        NEED(open_nest());
        NEED(make(&c, id, 50) == 0);
        pid_t pid = fork_into(&c, NULL, 0);
        struct cgroup twice = CGROUP_INIT;
        struct cgroup_limits none = CGROUP_LIMITS_NONE;
        CHECK(cgroup_nest_make(&nest, &twice, id, &none, NULL, 0, NULL) == -EEXIST);
        cgroup_close(&c);

        /* somebody else, who knows only what was written down */
        cgroup_nest_text(&nest, &text);
        CHECK(cgroup_nest_again(&other, text.data) == 0);
        CHECK(cgroup_nest_find(&other, id, &again) == 0);
        CHECK(cgroup_has(&again, id, pid) && !cgroup_has(&again, id, getpid()));
        until_processes(&again, 1, &u);
        CHECK(u.memory_peak != CGROUP_UNSET);
        CHECK(cgroup_nest_remove(&other, &again) == -EBUSY);
        CHECK(cgroup_sweep(NULL, NULL) >= 0); /* a run's keeper: it does not look here */
        CHECK(kill(pid, 0) == 0 && cgroup_has(&again, id, pid));
        CHECK(cgroup_kill_pass(&again) >= 0);
        end(pid);
        CHECK(remove_soon(&again) == 0);
        cgroup_close(&again);
        CHECK(cgroup_nest_find(&other, id, &again) == -ENOENT);
        cgroup_nest_close(&other);
        CHECK(cgroup_nest_again(&other, "nonsense /x\n") == -EBADMSG);
        CHECK(cgroup_nest_again(&other, "memory /proc\n") == -EMEDIUMTYPE);
        cgroup_nest_close(&nest);
}

static void count(void *data, uint32_t run) {
        CHECK(run == 3 || run == 4);
        ++*(unsigned *)data;
}

static void runs_have_leaves(void) {
        struct cgroup c = CGROUP_INIT, leaf = CGROUP_INIT, other = CGROUP_INIT;
        int files[CGROUP_RUN_FILES];
        unsigned leaves = 0;
        struct cgroup_usage u;
        char id[17];

        NEED(open_nest());
        NEED(make(&c, id, 50) == 0);
        pid_t guest = fork_into(&c, NULL, 0);
        CHECK(cgroup_run_open(&c, 3, false, &leaf) == -ENOENT);
        NEED(cgroup_run_open(&c, 3, true, &leaf) == 0);
        NEED(cgroup_run_open(&c, 4, true, &other) == 0);
        int n = cgroup_run_files(&c, &leaf, NULL, files);
        CHECK(n > 0);
        pid_t run = fork_into(&c, files, n);
        for (int i = 0; i < n; i++)
                (void)close(files[i]);
        until_processes(&leaf, 1, &u);
        until_processes(&c, 2, &u);
        CHECK(cgroup_usage(&other, &u) == 0 && u.processes_now == 0);
        CHECK(cgroup_run_each(&c, count, &leaves) == 0 && leaves == 2);

        CHECK(cgroup_run_remove(&c, &leaf) == -EBUSY);
        CHECK(cgroup_kill_pass(&leaf) >= 1);
        end(run);
        int r = -EBUSY;
        for (int i = 0; i < 500 && r == -EBUSY; i++) {
                r = cgroup_run_remove(&c, &leaf);
                pause_ms(1);
        }
        CHECK(r == 0 && kill(guest, 0) == 0);
        CHECK(cgroup_run_remove(&c, &other) == 0);
        cgroup_close(&leaf);
        cgroup_close(&other);
        NEED(cgroup_run_open(&c, 5, true, &leaf) == 0); /* half of it is gone: the rest is found, and removed */
        if (leaf.task_count > 1) {
                CHECK(unlinkat(c.home[CGROUP_PIDS], leaf.name, AT_REMOVEDIR) == 0);
                cgroup_close(&leaf);
                NEED(cgroup_run_open(&c, 5, false, &leaf) == 0);
        }
        CHECK(cgroup_run_remove(&c, &leaf) == 0);
        cgroup_close(&leaf);
        CHECK(cgroup_run_open(&c, 5, false, &leaf) == -ENOENT);

        CHECK(cgroup_kill_pass(&c) >= 0);
        end(guest);
        CHECK(remove_soon(&c) == 0);
        cgroup_close(&c);
        cgroup_nest_close(&nest);
}

/* The number of a process, written by ourselves, with all that root may do. */
static int move(const int *files, int count, pid_t pid) {
        char text[16];
        int r = 0;

        (void)snprintf(text, sizeof text, "%d", (int)pid);
        for (int i = 0; i < count; i++)
                if (write(files[i], text, strlen(text)) < 0)
                        r = -errno;
        return r;
}

static void leaves_are_for_their_owner(void) {
        const struct cgroup_owner owner = {.first = 0x50000000, .count = 65536, .user = 0x50000000 + 1000};
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct before[2], after[2];
        struct cgroup c = CGROUP_INIT, leaf = CGROUP_INIT;
        struct cgroup_usage u;
        int files[CGROUP_RUN_FILES], again[CGROUP_RUN_FILES];
        char id[17];

        if (geteuid() != 0)
                return;
        NEED(open_nest());
        NEED(make(&c, id, 50) == 0 && cgroup_run_open(&c, 3, true, &leaf) == 0);
        NEED(syscall(SYS_capget, &header, before) == 0);
        int dumpable = prctl(PR_GET_DUMPABLE), n = cgroup_run_files(&c, &leaf, &owner, files);
        NEED(n > 0);
        CHECK(geteuid() == 0 && getegid() == 0 && prctl(PR_GET_DUMPABLE) == dumpable);
        CHECK(syscall(SYS_capget, &header, after) == 0 && memcmp(before, after, sizeof after) == 0);
        CHECK(cgroup_run_files(&c, &leaf, &(struct cgroup_owner){.user = 0}, again) == -EINVAL);

        /* of the owner, and of somebody else; the second is nobody's to move */
        pid_t inside = fork_as(&c, owner.user, files, n), outside = fork_as(NULL, owner.user + 65536, NULL, 0);
        until_processes(&leaf, 1, &u);
        CHECK(move(files, n, outside) == -EACCES && move(files, n, getpid()) == -EACCES);
        CHECK(cgroup_usage(&leaf, &u) == 0 && u.processes_now == 1);

        /* however it comes there: it goes, and the owner's stay */
        CHECK(cgroup_run_evict(&leaf, &owner) == 0);
        CHECK(cgroup_run_files(&c, &leaf, NULL, again) == n && move(again, n, outside) == 0);
        until_processes(&leaf, 2, &u);
        CHECK(cgroup_run_evict(&leaf, &owner) == 1);
        until_processes(&leaf, 1, &u);
        CHECK(cgroup_kill_pass(&leaf) >= 1);
        end(inside);
        CHECK(kill(outside, 0) == 0 && kill(outside, SIGKILL) == 0);
        end(outside);
        for (int i = 0; i < n; i++) {
                (void)close(files[i]);
                (void)close(again[i]);
        }
        cgroup_close(&leaf);
        CHECK(remove_soon(&c) == 0);
        cgroup_close(&c);
        cgroup_nest_close(&nest);
}

static void freezing(void) {
        struct cgroup c = CGROUP_INIT;
        char id[17];

        NEED(open_nest());
        NEED(make(&c, id, 50) == 0);
        pid_t pid = fork_into(&c, NULL, 0);
        if (c.into < 0)
                CHECK(cgroup_freeze(&c, true) == -EOPNOTSUPP && !cgroup_is_frozen(&c));
        else {
                CHECK(cgroup_freeze(&c, true) == 0 && cgroup_is_frozen(&c));
                CHECK(cgroup_freeze(&c, true) == 0);
                CHECK(cgroup_freeze(&c, false) == 0 && !cgroup_is_frozen(&c));
                CHECK(cgroup_freeze(&c, true) == 0); /* what is frozen can be killed */
        }
        CHECK(cgroup_kill_pass(&c) >= 0);
        end(pid);
        CHECK(remove_soon(&c) == 0);
        cgroup_close(&c);
        cgroup_nest_close(&nest);
}

static char kept[17];

static bool is_kept(void *data, const char *id) {
        (void)data;
        return strcmp(id, kept) == 0;
}

static void orphans_are_swept(void) {
        struct cgroup one = CGROUP_INIT, two = CGROUP_INIT, leaf = CGROUP_INIT;
        char orphan[17], path[PATH_MAX] = "";

        NEED(open_nest());
        NEED(make(&one, kept, 50) == 0 && make(&two, orphan, 50) == 0);
        pid_t good = fork_into(&one, NULL, 0), bad = fork_into(&two, NULL, 0);
        NEED(cgroup_run_open(&two, 1, true, &leaf) == 0);
        cgroup_close(&leaf);
        cgroup_close(&two);
        CHECK(cgroup_nest_sweep(&nest, is_kept, NULL, false) == 1);
        end(bad);
        CHECK(kill(good, 0) == 0 && cgroup_nest_find(&nest, orphan, &two) == -ENOENT);
        kept[0] = 'x';
        cgroup_close(&one);
        for (size_t i = 0; i < CGROUP_TREES; i++)
                if (nest.paths[i])
                        (void)snprintf(path, sizeof path, "%s", nest.paths[i]);
        CHECK(cgroup_nest_sweep(&nest, is_kept, NULL, true) == 1);
        end(good);
        CHECK(path[0] && access(path, F_OK) < 0); /* and the nest with the last of them */
        cgroup_nest_close(&nest);
        token[0] = '\0';
}

static void slots_have_owners(void) {
        struct err err = {0};
        uint32_t slot = 0, other;
        uint64_t start = 0;

        _cleanup_fd_ int mine = ids_open(&err), theirs = ids_open(&err);
        NEED(mine >= 0 && theirs >= 0);
        CHECK(ids_take(mine, true, &slot, &err) == 0 && slot < CELL_ID_SLOTS);
        CHECK(ids_start_time(getpid(), &start) == 0 && start > 0);
        CHECK(ids_note(mine, slot, getpid(), start) == 0);
        CHECK(ids_again(theirs, slot) < 0); /* we have it */
        fd_close(&mine);                    /* whoever had it is gone, and the sandbox is not */
        for (int i = 0; i < 200; i++) {
                CHECK(ids_take(theirs, false, &other, &err) == 0 && other != slot);
                ids_release(theirs, other);
        }
        CHECK(ids_again(theirs, slot) == 0);
        int self = ids_open_process(getpid(), start);
        CHECK(self >= 0 && ids_open_process(getpid(), start + 1) == -ESRCH);
        fd_close(&self);
        /* one whose sandbox would not go: pending, and for longer than anybody waits */
        struct {
                uint32_t pid, unused;
                uint64_t start;
        } note = {0};
        ids_keep(theirs, slot);
        CHECK(pread(theirs, &note, sizeof note, (off_t)(slot * sizeof note)) == (ssize_t)sizeof note);
        CHECK(note.pid == UINT32_MAX && note.start > 50ULL * 365 * 86400);
        ids_release(theirs, slot);

        /* a note of somebody who has ended is no note */
        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        CHECK(ids_start_time(pid, &start) == 0 && waitpid(pid, NULL, 0) == pid);
        CHECK(ids_open_process(pid, start) == -ESRCH);
}

/* Of nests beside ours, all with the age that they need: the empty one goes, the one of a daemon that lives and the one
 * with a sandbox stay. A daemon that comes back has its nest again. */
static void empty_nests_go(void) {
        static struct cgroup_nest others[3];
        const struct timespec old[2] = {{.tv_sec = time(NULL) - 7300}, {.tv_sec = time(NULL) - 7300}};
        char tokens[3][17], id[17];
        struct cgroup_limits l = CGROUP_LIMITS_NONE;
        struct cgroup c = CGROUP_INIT;
        struct err err = {0};

        NEED(open_nest());
        for (size_t i = 0; i < 3; i++) {
                next_id(tokens[i]);
                NEED(cgroup_nest_open(&others[i], tokens[i], &err) == 0);
        }
        next_id(id);
        NEED(cgroup_nest_make(&others[2], &c, id, &l, NULL, 0, &err) == 0);
        for (size_t i = 0; i < 3; i++)
                for (size_t k = 0; k < CGROUP_TREES; k++)
                        if (others[i].paths[k])
                                CHECK(utimensat(AT_FDCWD, others[i].paths[k], old, 0) == 0);
        struct stat st;
        char path[2][PATH_MAX];
        for (size_t i = 0; i < 2; i++)
                (void)snprintf(path[i], sizeof path[i], "%s",
                               others[i].paths[CGROUP_MEMORY] ? others[i].paths[CGROUP_MEMORY]
                                                              : others[i].paths[CGROUP_V2]);
        cgroup_nest_close(&others[0]); /* its daemon is dead */
        CHECK(cgroup_nest_sweep_others(&nest) > 0);
        CHECK(stat(path[0], &st) < 0 && stat(path[1], &st) == 0);
        CHECK(cgroup_nest_find(&others[2], id, &c) == 0);
        CHECK(cgroup_nest_open(&others[0], tokens[0], &err) == 0 && stat(path[0], &st) == 0);
        (void)cgroup_nest_sweep_others(&nest);
        CHECK(stat(path[0], &st) == 0); /* somebody has it */
        CHECK(cgroup_nest_remove(&others[2], &c) == 0);
        cgroup_close(&c);
        for (size_t i = 0; i < 3; i++) {
                (void)cgroup_nest_sweep(&others[i], is_kept, NULL, true);
                cgroup_nest_close(&others[i]);
        }
        (void)cgroup_nest_sweep(&nest, is_kept, NULL, true);
        cgroup_nest_close(&nest);
        token[0] = '\0';
}

TEST_MAIN(TEST(a_sandbox_is_found_again), TEST(runs_have_leaves), TEST(leaves_are_for_their_owner), TEST(freezing),
          TEST(orphans_are_swept), TEST(empty_nests_go), TEST(slots_have_owners))
