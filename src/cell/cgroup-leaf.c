/* Makes the directories of a sandbox's cgroups, on whatever trees this host has.
 *
 * v1: one leaf per hierarchy that a limit needs, below our own cgroup (or below what setup delegated to this user).
 * v2 without controllers (hybrid hosts): a child of our own cgroup, for birth, kill and cpu time. v2 with controllers:
 * a cgroup with processes cannot pass controllers down, so the leaf goes below stockade/ in the topmost cgroup that is
 * ours to write. Every leaf is locked as soon as it is open, and closed to other users by its mode. */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"

bool cgroup_leaf_gone(int dir) {
        return faccessat(dir, "cgroup.procs", F_OK, 0) < 0 && errno == ENOENT;
}

/* Creates path/name, opens and locks it. -EMEDIUMTYPE when path is not a cgroup at all. */
static int make_leaf(const char *path, const char *name, long magic, int *ret) {
        char leaf[PATH_MAX];
        int n = snprintf(leaf, sizeof leaf, "%s/%s", path, name);
        if (n < 0 || (size_t)n >= sizeof leaf)
                return -ENAMETOOLONG;
        if (mkdir(leaf, 0700) < 0)
                return -errno;

        /* from here on a sweep may take the leaf away until it is locked */
        _cleanup_fd_ int dir = open(leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dir < 0)
                return errno == ENOENT ? -ENODEV : -errno;
        struct statfs fs;
        if (fstatfs(dir, &fs) < 0 || (long)fs.f_type != magic) {
                (void)rmdir(leaf);
                return -EMEDIUMTYPE;
        }
        while (flock(dir, LOCK_EX) < 0)
                if (errno != EINTR)
                        return -errno;
        *ret = TAKE_FD(dir);
        return 0;
}

/* Our own v2 cgroup, or with controllers <top>/stockade, which is made when it is not there. */
static int make_v2_leaf(struct cgroup_make *m) {
        struct cgroup_place *p = m->place;
        char parent[PATH_MAX];

        int r = cgroup_place_path(p, p->v2, p->hierarchies[p->v2].own, parent);
        if (r < 0 || !m->on_v2)
                return r < 0 ? r : make_leaf(parent, m->c->name, CGROUP2_SUPER_MAGIC, &m->c->into);

        r = cgroup_place_top(p, m->top);
        if (r < 0)
                return r;
        m->top_is_own = r == 1;
        int n = snprintf(parent, sizeof parent, "%s" CGROUP_PARENT, m->top);
        if (n < 0 || (size_t)n >= sizeof parent)
                return -ENAMETOOLONG;
        r = make_leaf(parent, m->c->name, CGROUP2_SUPER_MAGIC, &m->c->into);
        if (r == -ENOENT && (mkdir(parent, 0755) == 0 || errno == EEXIST))
                r = make_leaf(parent, m->c->name, CGROUP2_SUPER_MAGIC, &m->c->into);
        return r;
}

/* Writes +controller for each of them: one by one, so that each has its own answer. */
static void pass_down(int dir, unsigned controllers, int why[CGROUP_CONTROLLERS]) {
        for (int k = 0; k < CGROUP_CONTROLLERS; k++) {
                const char *name = cgroup_place_controller((enum cgroup_controller)k, true);
                char text[32];
                if (!name || !(controllers & 1u << k))
                        continue;
                (void)snprintf(text, sizeof text, "+%s", name);
                why[k] = fd_write_at(dir, "cgroup.subtree_control", text);
        }
}

/* Processes in a cgroup that is not the root of the tree: no controller that counts memory can be passed down past
 * them, and passing down only the others would turn the cgroup into a thread root, in which no leaf can live. */
static bool is_inhabited(int dir) {
        char line[32];

        return faccessat(dir, "cgroup.type", F_OK, 0) == 0 && fd_read_at(dir, "cgroup.procs", line, sizeof line) > 0;
}

/* We stand in the cgroup that should pass controllers down: move into a leaf of our own. */
static int step_aside(int top, int parent) {
        if (mkdirat(parent, CGROUP_LAUNCHER, 0755) < 0 && errno != EEXIST)
                return -errno;
        int r = fd_write_at(parent, CGROUP_LAUNCHER "/cgroup.procs", "0");
        if (r < 0 || !is_inhabited(top))
                return r;
        /* somebody else lives there too: moving did not help, so go back */
        (void)fd_write_at(top, "cgroup.procs", "0");
        (void)unlinkat(parent, CGROUP_LAUNCHER, AT_REMOVEDIR);
        return -EBUSY;
}

void cgroup_leaf_pass(const char *path, bool own, int parent, unsigned controllers, int why[CGROUP_CONTROLLERS]) {
        _cleanup_fd_ int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (top < 0)
                return;
        if (is_inhabited(top)) {
                int r = own ? step_aside(top, parent) : -EBUSY;
                for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                        why[k] = r;
                if (r < 0)
                        return;
        }

        int above[CGROUP_CONTROLLERS];
        pass_down(top, controllers, why);
        memcpy(above, why, sizeof above);
        pass_down(parent, controllers, why);
        for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                if (above[k] < 0)
                        why[k] = above[k]; /* the first obstacle is the one to name */
}

void cgroup_leaf_enable(struct cgroup_make *m) {
        if (m->enabled || m->top[0] == '\0' || m->c->into < 0)
                return;
        m->enabled = true;

        _cleanup_fd_ int parent = openat(m->c->into, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (parent >= 0)
                cgroup_leaf_pass(m->top, m->top_is_own, parent, m->on_v2, m->why);
}

/* A leaf in hierarchy h, in the first directory that lets us. */
static int make_v1_leaf(struct cgroup_make *m, int h, int *ret) {
        int r = -ENOENT;

        for (unsigned n = 0;; n++) {
                char parent[PATH_MAX];
                int found = cgroup_place_v1(m->place, h, n, parent);
                if (found < 0)
                        return r;
                r = make_leaf(parent, m->c->name, CGROUP_SUPER_MAGIC, ret);
                if (r == 0 || r == -ENODEV || r == -EEXIST)
                        return r;
        }
}

/* Opens the leaf of controller k's v1 hierarchy, unless another controller of the same hierarchy did so already. */
static int enter_v1(struct cgroup_make *m, int k) {
        struct cgroup *c = m->c;
        int h = m->place->v1[k];

        for (int other = 0; other < CGROUP_CONTROLLERS; other++)
                if (other != k && m->place->v1[other] == h && c->home[other] >= 0) {
                        c->home[k] = c->home[other];
                        return 0;
                }

        size_t i = c->task_count;
        int r = make_v1_leaf(m, h, &c->leaves[i]);
        if (r < 0)
                return r;
        c->task_count++;
        c->tasks[i] = openat(c->leaves[i], "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (c->tasks[i] < 0)
                return errno == ENOENT ? -ENODEV : -errno;
        c->home[k] = c->leaves[i];
        return 0;
}

/* Not there although the kernel says that we are in it: mounted elsewhere than usual? Look, and try again once. */
static bool look_again(struct cgroup_make *m, int r) {
        return (r == -ENOENT || r == -EMEDIUMTYPE) && !m->place->mounts_known &&
               cgroup_place_find_mounts(m->place) == 0;
}

int cgroup_leaf_make(struct cgroup_make *m) {
        struct cgroup *c = m->c;
        unsigned v1 = m->needed & ~m->on_v2;

        m->why_v2 = m->place->v2 < 0 ? -ENOENT : make_v2_leaf(m);
        if (m->place->v2 >= 0 && look_again(m, m->why_v2))
                m->why_v2 = make_v2_leaf(m);
        if (m->why_v2 == -ENODEV || m->why_v2 == -EEXIST)
                return m->why_v2;

        if (c->into < 0) { /* then somebody else has to stop forks at the end, and to count */
                v1 |= 1u << CGROUP_PIDS;
                if (m->limits->want_cpu_usage || m->limits->need_cpu_usage)
                        v1 |= 1u << CGROUP_CPUACCT;
        }

        for (int k = 0; k < CGROUP_CONTROLLERS; k++) {
                m->why[k] = -ENOENT;
                if (m->on_v2 & 1u << k) {
                        c->home[k] = c->into;
                        m->why[k] = m->why_v2;
                } else if (v1 & 1u << k && m->place->v1[k] >= 0) {
                        int r = enter_v1(m, k);
                        if (look_again(m, r))
                                r = enter_v1(m, k);
                        if (r == -ENODEV || r == -EEXIST)
                                return r;
                        m->why[k] = r;
                }
        }
        return 0;
}
