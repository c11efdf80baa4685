/* The nest: the directories of one daemon's sandboxes in every cgroup tree. See the header. */
#include "cell/cgroup-nest.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"

#define NEST_PREFIX "stockaded-"
#define GUEST_LEAF  "guest"
#define SWEEP_MS    3000
#define LOCK_TRIES  100
#define UNUSED_S    3600 /* a nest that is younger may belong to somebody who has not locked it yet */

static void init(struct cgroup_nest *n) {
        *n = (struct cgroup_nest){0};
        for (size_t i = 0; i < CGROUP_TREES; i++)
                n->dirs[i] = -EBADF;
}

void cgroup_nest_close(struct cgroup_nest *n) {
        for (size_t i = 0; i < CGROUP_TREES; i++) {
                bool shared = false;

                for (size_t k = 0; k < i; k++)
                        shared |= n->paths[k] && n->paths[k] == n->paths[i];
                if (!shared) {
                        fd_close(&n->dirs[i]);
                        free(n->paths[i]);
                }
        }
        cgroup_place_free(&n->place);
        init(n);
}

/* Opens a directory that has to be in a cgroup tree of this kind. */
static int open_tree_dir(const char *path, bool v2, int *ret) {
        struct statfs fs;
        _cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

        if (dir < 0)
                return -errno;
        if (fstatfs(dir, &fs) < 0 || (long)fs.f_type != (v2 ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
                return -EMEDIUMTYPE;
        *ret = TAKE_FD(dir);
        return 0;
}

/* Makes it if it is not there, and opens it with the lock that says that a daemon lives in it. Whoever removes empty
 * nests may do so in between: then once more. */
static int make_locked(const char *path, bool v2, int *ret) {
        for (unsigned i = 0; i < LOCK_TRIES; i++) {
                struct stat here, there;
                int fd = -EBADF;

                if (mkdir(path, 0755) < 0 && errno != EEXIST)
                        return -errno;
                int r = open_tree_dir(path, v2, &fd);
                if (r < 0 && r != -ENOENT)
                        return r;
                if (r == 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &here) == 0 && stat(path, &there) == 0 &&
                    here.st_ino == there.st_ino && here.st_dev == there.st_dev) {
                        *ret = fd;
                        return 0;
                }
                fd_close(&fd);
                (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        return -EBUSY;
}

/* parent/stockaded-<token>, made if it is not there. */
static int settle(struct cgroup_nest *n, size_t tree, const char *parent, const char *token) {
        char path[PATH_MAX];
        int above = -EBADF;

        int r = open_tree_dir(parent, tree == CGROUP_V2, &above);
        if (r < 0)
                return r;
        (void)close(above);
        int size = snprintf(path, sizeof path, "%s/" NEST_PREFIX "%s", parent, token);
        if (size < 0 || (size_t)size >= sizeof path)
                return -ENAMETOOLONG;
        r = make_locked(path, tree == CGROUP_V2, &n->dirs[tree]);
        if (r < 0)
                return r;
        n->paths[tree] = strdup(path);
        return n->paths[tree] ? 0 : -ENOMEM;
}

static int settle_v1(struct cgroup_nest *n, int k, const char *token) {
        int h = n->place.v1[k], r = -ENOENT;
        char parent[PATH_MAX];

        for (int other = 0; other < k; other++)
                if (n->place.v1[other] == h && n->paths[other]) {
                        n->paths[k] = n->paths[other];
                        n->dirs[k] = n->dirs[other];
                        return 0;
                }
        for (unsigned i = 0; cgroup_place_v1(&n->place, h, i, parent) == 0; i++) {
                r = settle(n, (size_t)k, parent, token);
                if (r == 0)
                        return 0;
        }
        return r;
}

/* With controllers below the topmost cgroup that is ours, otherwise below our own. */
static int settle_v2(struct cgroup_nest *n, const char *token) {
        char parent[PATH_MAX];
        int r;

        if (!n->on_v2) {
                r = cgroup_place_path(&n->place, n->place.v2, n->place.hierarchies[n->place.v2].own, parent);
                return r < 0 ? r : settle(n, CGROUP_V2, parent, token);
        }
        r = cgroup_place_top(&n->place, n->top);
        if (r < 0)
                return r;
        bool own = r == 1;
        r = settle(n, CGROUP_V2, n->top, token);
        if (r == 0)
                cgroup_leaf_pass(n->top, own, n->dirs[CGROUP_V2], n->on_v2, n->why);
        return r;
}

static void settle_all(struct cgroup_nest *n, const char *token) {
        n->on_v2 = 0;
        for (int k = 0; k < CGROUP_CONTROLLERS; k++) {
                n->why[k] = -ENOENT;
                if (n->place.v1[k] < 0 && n->place.v2 >= 0 && k != CGROUP_CPUACCT)
                        n->on_v2 |= 1u << k;
                else if (n->place.v1[k] >= 0 && !n->paths[k])
                        n->why[k] = settle_v1(n, k, token);
        }
        if (!n->paths[CGROUP_V2])
                n->why_v2 = n->place.v2 < 0 ? -ENOENT : settle_v2(n, token);
        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                if (n->on_v2 & 1u << k && n->why_v2 < 0)
                        n->why[k] = n->why_v2;
}

/* Some tree is not where trees usually are. */
static bool is_elsewhere(const struct cgroup_nest *n) {
        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                if (n->place.v1[k] >= 0 && (n->why[k] == -ENOENT || n->why[k] == -EMEDIUMTYPE))
                        return true;
        return n->place.v2 >= 0 && (n->why_v2 == -ENOENT || n->why_v2 == -EMEDIUMTYPE);
}

int cgroup_nest_open(struct cgroup_nest *n, const char *token, struct err *err) {
        init(n);
        if (!cgroup_is_id(token))
                return err_set(err, ERR_INPUT, "'%s' is not a token: sixteen of 0-9 and a-f", token);
        int r = cgroup_place_find(&n->place, err);
        if (r < 0)
                return r;
        settle_all(n, token);
        if (is_elsewhere(n) && cgroup_place_find_mounts(&n->place) == 0)
                settle_all(n, token);
        return 0;
}

static const char *tree_name(size_t tree) {
        return tree == CGROUP_V2 ? "v2" : cgroup_place_controller((enum cgroup_controller)tree, false);
}

void cgroup_nest_text(const struct cgroup_nest *n, struct buf *out) {
        for (size_t i = 0; i < CGROUP_TREES; i++)
                if (n->paths[i])
                        buf_printf(out, "%s %s\n", tree_name(i), n->paths[i]);
}

static int take_line(struct cgroup_nest *n, const char *line, size_t size) {
        for (size_t i = 0; i < CGROUP_TREES; i++) {
                size_t name = strlen(tree_name(i));

                if (size <= name + 1 || strncmp(line, tree_name(i), name) != 0 || line[name] != ' ')
                        continue;
                if (n->paths[i])
                        return -EBADMSG;
                char *path = strndup(line + name + 1, size - name - 1);
                if (!path)
                        return -ENOMEM;
                for (size_t k = 0; k < i; k++)
                        if (n->paths[k] && str_eq(n->paths[k], path)) {
                                free(path);
                                n->paths[i] = n->paths[k];
                                n->dirs[i] = n->dirs[k];
                                return 0;
                        }
                n->paths[i] = path;
                int r = open_tree_dir(path, i == CGROUP_V2, &n->dirs[i]);
                if (r == 0)
                        (void)flock(n->dirs[i], LOCK_SH | LOCK_NB);
                return r;
        }
        return -EBADMSG;
}

int cgroup_nest_again(struct cgroup_nest *n, const char *text) {
        init(n);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
                int r = take_line(n, line, strcspn(line, "\n"));

                if (r < 0 && r != -ENOENT) { /* a tree that is gone took what was in it along */
                        cgroup_nest_close(n);
                        return r;
                }
                if (!strchr(line, '\n'))
                        break;
        }
        return 0;
}

/* --- one sandbox --- */

static int make_dir(int parent, const char *name, int *ret) {
        if (mkdirat(parent, name, 0700) < 0)
                return -errno;
        int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dir < 0)
                return -errno;
        *ret = dir;
        return 0;
}

/* The directory of controller k's hierarchy, unless another controller of the same has it already. */
static int make_v1(const struct cgroup_nest *n, struct cgroup *c, int k) {
        for (int other = 0; other < CGROUP_CONTROLLERS; other++)
                if (other != k && n->dirs[other] == n->dirs[k] && c->home[other] >= 0) {
                        c->home[k] = c->home[other];
                        return 0;
                }
        size_t i = c->task_count;
        int r = make_dir(n->dirs[k], c->name, &c->leaves[i]);
        if (r < 0)
                return r;
        c->task_count++;
        c->home[k] = c->leaves[i];
        c->tasks[i] = openat(c->leaves[i], "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        return c->tasks[i] < 0 ? -errno : 0;
}

/* What runs have leaves in is always there; the rest where a limit asks for it. */
static int make_all(const struct cgroup_nest *n, struct cgroup *c, unsigned needed) {
        int r = n->dirs[CGROUP_V2] < 0 ? 0 : make_dir(n->dirs[CGROUP_V2], c->name, &c->into);

        needed |= 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS | 1u << CGROUP_CPUACCT;
        for (int k = 0; r == 0 && k < CGROUP_CONTROLLERS; k++) {
                if (n->on_v2 & 1u << k)
                        c->home[k] = c->into;
                else if (needed & 1u << k && n->dirs[k] >= 0)
                        r = make_v1(n, c, k);
        }
        return r;
}

/* v2 with controllers: leaves count and limit for themselves, and nobody lives above them. */
static int make_guest(const struct cgroup_nest *n, struct cgroup *c) {
        if (!n->on_v2 || c->into < 0)
                return 0;
        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                if (n->on_v2 & 1u << k && (k == CGROUP_MEMORY || k == CGROUP_PIDS)) {
                        char text[32];
                        (void)snprintf(text, sizeof text, "+%s",
                                       cgroup_place_controller((enum cgroup_controller)k, true));
                        (void)fd_write_at(c->into, "cgroup.subtree_control", text); /* usage then says so */
                }
        return make_dir(c->into, GUEST_LEAF, &c->guest);
}

int cgroup_nest_make(struct cgroup_nest *n, struct cgroup *c, const char *id, const struct cgroup_limits *limits,
                     const char *const *accepted, size_t accepted_count, struct err *err) {
        struct cgroup new = CGROUP_INIT;
        struct cgroup_make m = {.c = &new, .limits = limits, .place = &n->place, .why_v2 = n->why_v2, .enabled = true};

        if (!cgroup_is_id(id))
                return err_set(err, ERR_INPUT, "'%s' is not a sandbox id: sixteen of 0-9 and a-f", id);
        (void)snprintf(new.name, sizeof new.name, CGROUP_PREFIX "%s", id);
        memcpy(m.why, n->why, sizeof m.why);
        memcpy(m.top, n->top, sizeof m.top);
        cgroup_find_needs(&m);
        int r = make_all(n, &new, m.needed);
        if (r == -EEXIST) {
                cgroup_close(&new);
                return err_set(err, r, "cgroup '%s' is there already", new.name);
        }
        if (r == 0)
                r = make_guest(n, &new);
        if (r < 0)
                (void)err_set(err, r, "cannot create cgroup '%s'", new.name);
        else
                r = cgroup_apply_limits(&m, accepted, accepted_count, err);
        if (r < 0) {
                (void)cgroup_nest_remove(n, &new);
                cgroup_close(&new);
                return r;
        }
        *c = new;
        return 0;
}

static bool v2_gives(int into, int k) {
        static const char *const files[CGROUP_CONTROLLERS] = {[CGROUP_CPU] = "cpu.max",
                                                              [CGROUP_MEMORY] = "memory.max",
                                                              [CGROUP_PIDS] = "pids.max",
                                                              [CGROUP_IO] = "io.max"};

        return into >= 0 && files[k] && faccessat(into, files[k], F_OK, 0) == 0;
}

/* for_runs: no more than what leaves of runs are in. */
static int find(const struct cgroup_nest *n, const char *id, bool for_runs, struct cgroup *c) {
        struct cgroup new = CGROUP_INIT;
        bool found = false;

        for_runs = for_runs && (n->dirs[CGROUP_MEMORY] >= 0 || n->dirs[CGROUP_PIDS] >= 0);
        (void)snprintf(new.name, sizeof new.name, CGROUP_PREFIX "%.16s", id);
        if (n->dirs[CGROUP_V2] >= 0 && !for_runs) {
                new.into = openat(n->dirs[CGROUP_V2], new.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                found |= new.into >= 0;
        }
        for (int k = 0; k < CGROUP_CONTROLLERS; k++) {
                if (for_runs && !cgroup_is_for_runs(k))
                        continue;
                for (int other = 0; other < k; other++)
                        if (n->dirs[k] >= 0 && n->dirs[other] == n->dirs[k])
                                new.home[k] = new.home[other];
                if (new.home[k] >= 0)
                        continue;
                if (n->dirs[k] < 0) {
                        new.home[k] = v2_gives(new.into, k) ? new.into : -EBADF;
                        continue;
                }
                int dir = openat(n->dirs[k], new.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
                if (dir < 0)
                        continue;
                new.leaves[new.task_count++] = new.home[k] = dir;
                found = true;
        }
        if (!found)
                return -ENOENT;
        *c = new;
        return 0;
}

int cgroup_nest_find(const struct cgroup_nest *n, const char *id, struct cgroup *c) {
        return find(n, id, false, c);
}

int cgroup_nest_find_runs(const struct cgroup_nest *n, const char *id, struct cgroup *c) {
        return find(n, id, true, c);
}

int cgroup_nest_guest(const struct cgroup *c, struct cgroup *ret) {
        struct cgroup leaf = CGROUP_INIT;

        if (c->into < 0 || c->home[CGROUP_PIDS] != c->into)
                return -ENOENT;
        leaf.into = openat(c->into, GUEST_LEAF, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (leaf.into < 0)
                return -errno;
        leaf.home[CGROUP_MEMORY] = leaf.home[CGROUP_PIDS] = leaf.into;
        *ret = leaf;
        return 0;
}

/* Every leaf below, then the directory itself, by its name in the nest. */
static int remove_dir(int dir, int parent, const char *name) {
        int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *e;

        if (!d)
                fd_close(&copy);
        while (d && (e = readdir(d)))
                if (e->d_type == DT_DIR && e->d_name[0] != '.' && unlinkat(dir, e->d_name, AT_REMOVEDIR) < 0 &&
                    errno != ENOENT)
                        result = -errno;
        if (d)
                (void)closedir(d);
        if (result < 0)
                return result;
        return unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int cgroup_nest_remove(const struct cgroup_nest *n, const struct cgroup *c) {
        int result = 0;

        /* v2 goes last: it is what can kill */
        for (int k = 0; k < CGROUP_CONTROLLERS; k++) {
                bool done = c->home[k] < 0 || c->home[k] == c->into;

                for (int other = 0; other < k; other++)
                        done |= c->home[other] == c->home[k];
                int r = done ? 0 : remove_dir(c->home[k], n->dirs[k], c->name);
                if (r < 0)
                        result = r;
        }
        int r = result < 0 || c->into < 0 ? 0 : remove_dir(c->into, n->dirs[CGROUP_V2], c->name);
        return r < 0 ? r : result;
}

/* --- orphans --- */

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int end_orphan(const struct cgroup_nest *n, const char *id) {
        struct cgroup c;

        if (cgroup_nest_find(n, id, &c) < 0)
                return 0;
        int r;
        uint64_t end = now_ms() + SWEEP_MS;
        (void)cgroup_freeze(&c, false); /* a frozen one could not be counted out */
        do {
                (void)cgroup_kill_pass(&c);
                r = cgroup_nest_remove(n, &c);
                if (r == -EBUSY)
                        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        } while (r == -EBUSY && now_ms() < end);
        cgroup_close(&c);
        return r == 0;
}

int cgroup_nest_sweep(struct cgroup_nest *n, bool (*known)(void *data, const char *id), void *data, bool all) {
        int removed = 0;

        for (size_t i = 0; i < CGROUP_TREES; i++) {
                int copy = n->dirs[i] < 0 ? -EBADF : openat(n->dirs[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                DIR *d = copy < 0 ? NULL : fdopendir(copy);
                struct dirent *e;

                if (!d) {
                        fd_close(&copy);
                        continue;
                }
                while ((e = readdir(d))) {
                        const char *id = e->d_name + sizeof CGROUP_PREFIX - 1;

                        if (e->d_type == DT_DIR && str_starts(e->d_name, CGROUP_PREFIX) && cgroup_is_id(id) &&
                            !known(data, id))
                                removed += end_orphan(n, id);
                }
                (void)closedir(d);
                if (all)
                        (void)rmdir(n->paths[i]);
        }
        return removed;
}

/* Nobody lives in it, and no daemon has it: the rest of one whose folder is gone. What has sandboxes cannot be removed.
 */
static bool remove_unused(int parent, const char *name, time_t now) {
        _cleanup_fd_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;

        return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_mtime + UNUSED_S <= now &&
               unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

int cgroup_nest_sweep_others(const struct cgroup_nest *n) {
        int removed = 0;

        for (size_t i = 0; i < CGROUP_TREES; i++) {
                char parent[PATH_MAX];
                bool seen = !n->paths[i];

                for (size_t k = 0; k < i; k++)
                        seen |= n->paths[i] && n->paths[k] == n->paths[i];
                if (seen || snprintf(parent, sizeof parent, "%s", n->paths[i]) >= (int)sizeof parent)
                        continue;
                *strrchr(parent, '/') = '\0';
                int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                DIR *d = fd < 0 ? NULL : fdopendir(fd);
                struct dirent *e;

                if (!d)
                        fd_close(&fd);
                while (d && (e = readdir(d)))
                        if (e->d_type == DT_DIR && str_starts(e->d_name, NEST_PREFIX) &&
                            cgroup_is_id(e->d_name + sizeof NEST_PREFIX - 1))
                                removed += remove_unused(dirfd(d), e->d_name, time(NULL));
                if (d)
                        (void)closedir(d);
        }
        return removed;
}
