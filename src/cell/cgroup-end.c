/* The end of a sandbox's cgroups: kill, remove, and sweep up what others could not remove.
 *
 * Killing: v2's cgroup.kill where there is one. Otherwise by hand: forks are stopped first (pids.max 0, and v2's
 * freezer, which lets frozen tasks die; v1's does not and is never used), then everyone in the list is killed until it
 * is empty. A pid from the list is only signalled through a pidfd that was open while the pid was still in the list:
 * never a stranger who was given the same number. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"
#include "cell/cgroup-nest.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum {
        BATCH = 64,
        WAIT_MS = 3000,
        SWEEP_LEAVES = 64, /* of one directory, at most: what a run costs does not grow with the others */
        SWEEP_AGE_MS =
                300, /* a leaf is locked within a tenth of a millisecond; this is for machines that are very busy */
};

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_us(long us) {
        (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* The first pids of a leaf. Returns how many, or -errno. A pid that we cannot see (0) and ourselves are left out. */
static int list_pids(int dir, int pids[static BATCH]) {
        char text[BATCH * 12];
        int count = 0;

        ssize_t n = fd_read_at(dir, "cgroup.procs", text, sizeof text);
        if (n < 0)
                return (int)n;
        bool cut = (size_t)n >= sizeof text - 2; /* then the last number may be half of one */
        for (char *s = text; *s && count < BATCH;) {
                char *end;
                long pid = strtol(s, &end, 10);
                if (end == s || (cut && *end == '\0'))
                        break;
                if (pid > 0 && pid != getpid())
                        pids[count++] = (int)pid;
                s = end + (*end == '\n');
        }
        return count;
}

/* Kills those of the first pids that are still there once a pidfd holds each of them. Returns how many were listed. */
static int kill_batch(int dir) {
        int pids[BATCH] = {0}, again[BATCH] = {0}, fds[BATCH];

        int count = list_pids(dir, pids);
        for (int i = 0; i < count; i++)
                fds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
        int still = count > 0 ? list_pids(dir, again) : 0;

        for (int i = 0; i < count; i++) {
                bool listed = false;
                for (int j = 0; j < still; j++)
                        listed |= again[j] == pids[i];
                if (listed && fds[i] >= 0)
                        (void)syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL, 0);
                if (fds[i] >= 0)
                        (void)close(fds[i]);
        }
        return count;
}

static void stop_forks(const struct cgroup *c, int dir) {
        if (c->home[CGROUP_PIDS] >= 0)
                (void)fd_write_at(c->home[CGROUP_PIDS], "pids.max", "0");
        if (dir == c->into)
                (void)fd_write_at(dir, "cgroup.freeze", "1");
}

static int kill_by_hand(const struct cgroup *c, int dir) {
        stop_forks(c, dir);
        for (uint64_t end = now_ms() + WAIT_MS; now_ms() < end; sleep_us(500)) {
                int count = kill_batch(dir);
                if (count <= 0)
                        return count;
        }
        return -ETIMEDOUT;
}

int cgroup_kill(const struct cgroup *c) {
        if (c->into >= 0) {
                int r = fd_write_at(c->into, "cgroup.kill", "1");
                return r == -ENOENT && !cgroup_leaf_gone(c->into) ? kill_by_hand(c, c->into) : r;
        }
        if (c->home[CGROUP_PIDS] >= 0)
                return kill_by_hand(c, c->home[CGROUP_PIDS]);
        return c->task_count > 0 ? kill_by_hand(c, c->leaves[0]) : -EOPNOTSUPP;
}

int cgroup_kill_pass(const struct cgroup *c) {
        int dir = c->into >= 0                ? c->into
                  : c->home[CGROUP_PIDS] >= 0 ? c->home[CGROUP_PIDS]
                  : c->task_count > 0         ? c->leaves[0]
                                              : -EBADF;

        if (dir < 0)
                return -EOPNOTSUPP;
        if (c->into >= 0) {
                char text[256];
                int r = fd_write_at(c->into, "cgroup.kill", "1");

                if (r == 0 || r != -ENOENT)
                        return r < 0 ? r
                                     : fd_read_at(c->into, "cgroup.events", text, sizeof text) > 0 &&
                                               strstr(text, "populated 1") != NULL;
                if (cgroup_leaf_gone(c->into))
                        return 0;
        }
        stop_forks(c, dir);
        return kill_batch(dir);
}

/* Removes one leaf by its own descriptor, so that nothing else has to be kept open. */
static int remove_leaf(const struct cgroup *c, int dir, uint64_t *deadline) {
        char path[CGROUP_NAME_SIZE + 4];

        (void)snprintf(path, sizeof path, "../%s", c->name);
        for (long us = 100;; us = MIN(2 * us, 5000L)) {
                if (unlinkat(dir, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
                        return 0;
                if (errno != EBUSY)
                        return -errno;
                if (*deadline == 0) { /* only now is there somebody to kill, or to wait for */
                        *deadline = now_ms() + WAIT_MS;
                        (void)cgroup_kill(c);
                        continue;
                }
                if (now_ms() >= *deadline)
                        return -EBUSY;
                sleep_us(us);
        }
}

int cgroup_destroy(struct cgroup *c) {
        uint64_t deadline = 0;
        int last = c->into >= 0 ? c->into : c->home[CGROUP_PIDS]; /* what can kill goes last */
        int result = 0;

        for (size_t i = 0; i < c->task_count; i++) {
                int r = c->leaves[i] == last ? 0 : remove_leaf(c, c->leaves[i], &deadline);
                if (r < 0 && result == 0)
                        result = r;
        }
        if (last >= 0) {
                int r = remove_leaf(c, last, &deadline);
                if (r < 0 && result == 0)
                        result = r;
        }
        cgroup_close(c);
        return result;
}

/* What a sweep is after, and what it finds. */
struct sweep {
        const char *own; /* the leaf that goes in any case, or NULL */
        int removed;
        bool young; /* there was one without a lock that may be about to get it */
};

static void remove_named(int dir, const char *name, bool v2, bool pids, struct sweep *s) {
        struct cgroup c = CGROUP_INIT;

        (void)snprintf(c.name, sizeof c.name, "%s", name);
        if (v2)
                c.into = dir;
        else {
                c.leaves[0] = dir;
                c.task_count = 1;
        }
        if (v2 || pids)
                c.home[CGROUP_PIDS] = dir;
        s->removed += cgroup_destroy(&c) == 0;
}

/* A leaf whose lock is free has no launcher, or one that has not come to lock it yet: a moment after it was made. */
static void sweep_leaf(int parent, const char *name, bool v2, bool pids, struct sweep *s) {
        struct stat st;
        struct timespec now;
        _cleanup_fd_ int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (dir < 0 || strlen(name) >= CGROUP_NAME_SIZE || flock(dir, LOCK_EX | LOCK_NB) < 0)
                return;
        if (fstat(dir, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
                return;
        int64_t age = (now.tv_sec - st.st_ctim.tv_sec) * 1000 + (now.tv_nsec - st.st_ctim.tv_nsec) / 1000000;
        if (age >= 0 && age < SWEEP_AGE_MS) {
                s->young = true;
                return;
        }
        remove_named(TAKE_FD(dir), name, v2, pids, s);
}

/* The next leaf of a run, or NULL. Others may have names that begin like ours. */
static const char *next_leaf(DIR *parent) {
        for (struct dirent *entry; (entry = readdir(parent));)
                if (entry->d_type == DT_DIR && str_starts(entry->d_name, CGROUP_PREFIX) &&
                    cgroup_is_id(entry->d_name + sizeof CGROUP_PREFIX - 1))
                        return entry->d_name;
        return NULL;
}

/* One directory that leaves may be in. A cgroup directory's link count tells how many children it has. Where there are
 * very many leaves, a sweep looks at some of them, and the next one at others. */
static void sweep_parent(const char *path, bool v2, bool pids, struct sweep *s) {
        struct timespec now = {0};
        struct stat st;
        size_t count = 0, first = 0;

        if (stat(path, &st) < 0 || st.st_nlink <= 2)
                return;
        DIR *parent = opendir(path);
        if (!parent)
                return;
        if (s->own) {
                int dir = openat(dirfd(parent), s->own, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                if (dir >= 0)
                        remove_named(dir, s->own, v2, pids, s);
        }
        while (next_leaf(parent))
                count++;
        if (count > SWEEP_LEAVES && clock_gettime(CLOCK_MONOTONIC, &now) == 0)
                first = (size_t)now.tv_nsec % (count - SWEEP_LEAVES + 1);
        rewinddir(parent);
        const char *name;
        for (size_t i = 0; i < first + SWEEP_LEAVES && (name = next_leaf(parent)); i++)
                if (i >= first)
                        sweep_leaf(dirfd(parent), name, v2, pids, s);
        (void)closedir(parent);
}

int cgroup_sweep(const char *own_id, bool *ret_young) {
        _cleanup_cgroup_place_ struct cgroup_place place = {0};
        char path[PATH_MAX], own[CGROUP_NAME_SIZE];
        struct sweep s = {0};

        int r = cgroup_place_find(&place, NULL);
        if (r < 0)
                return r;
        if (own_id) {
                (void)snprintf(own, sizeof own, CGROUP_PREFIX "%s", own_id);
                s.own = own;
        }
        /* what can kill goes last */
        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                for (unsigned n = 0; cgroup_place_v1(&place, place.v1[k], n, path) == 0; n++)
                        sweep_parent(path, false, k == CGROUP_PIDS, &s);
        if (place.v2 >= 0) {
                if (cgroup_place_path(&place, place.v2, place.hierarchies[place.v2].own, path) == 0)
                        sweep_parent(path, true, false, &s);
                if (cgroup_place_top(&place, path) >= 0 && strlen(path) + sizeof CGROUP_PARENT < sizeof path) {
                        memcpy(path + strlen(path), CGROUP_PARENT, sizeof CGROUP_PARENT);
                        sweep_parent(path, true, false, &s);
                }
        }
        if (ret_young)
                *ret_young = s.young;
        return s.removed;
}
