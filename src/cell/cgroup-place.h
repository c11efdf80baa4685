/* Where this process may put cgroups. Private to cgroup*.c, host.c and their tests.
 *
 * Reads /proc/self/cgroup once. Mount points are first taken to be where every distribution puts them; only when a
 * directory is not there is /proc/self/mountinfo read (once), because that costs more than the rest together. */
#pragma once

#include "cell/cgroup.h"

enum { CGROUP_HIERARCHIES = 20 };

struct cgroup_hierarchy {
        const char *list;  /* its controllers as the kernel writes them: "cpu,cpuacct", "name=systemd"; "" for v2 */
        const char *self;  /* where this process is, as the kernel says: "" for the root, "/a/b" */
        const char *own;   /* the same, below the mount */
        const char *mount; /* from mountinfo; NULL: the conventional place */
        bool visible;      /* mountinfo has it, or was not read */
};

struct cgroup_place {
        struct cgroup_hierarchy hierarchies[CGROUP_HIERARCHIES];
        size_t count;
        int v1[CGROUP_CONTROLLERS]; /* index of the v1 hierarchy of each controller, or -1 */
        int v2;                     /* index of the v2 tree, or -1 */
        bool mounts_known;
        char *mountinfo; /* what mount points into, once it was read */
        char text[8192]; /* /proc/self/cgroup, cut up */
};

void cgroup_place_free(struct cgroup_place *p);
#define _cleanup_cgroup_place_ _cleanup_(cgroup_place_free)

int cgroup_place_find(struct cgroup_place *p, struct err *err);
int cgroup_place_find_mounts(struct cgroup_place *p);

/* The pure parts. self is p->text already filled; mountinfo is cut up and must outlive p. */
void cgroup_place_parse(struct cgroup_place *p);
void cgroup_place_parse_mounts(struct cgroup_place *p, char *mountinfo);

/* "<mount of hierarchy h><below>", in a buffer of PATH_MAX bytes. -ENOENT when it is not mounted. */
int cgroup_place_path(const struct cgroup_place *p, int h, const char *below, char *path);

/* The v1 directories to try for a leaf, best first: n = 0, 1, ... until -ENOENT. As root our own cgroup; otherwise what
 * `stockade setup` delegated, then our own. */
int cgroup_place_v1(const struct cgroup_place *p, int h, unsigned n, char *path);

/* The topmost v2 ancestor (or self) whose cgroup.procs this user may write. Whatever is below it can be entered with
 * CLONE_INTO_CGROUP. 1 if it is our own cgroup, 0 if it is above, -EACCES (or -EROFS) if there is none. */
int cgroup_place_top(const struct cgroup_place *p, char *path);

/* Names, all in one place. Below a v2 top: stockade/ holds the leaves; stockade/launcher is where a launcher moves that
 * would otherwise stand in its own way. Below a v1 mount: stockade/<uid> is what setup gives to a user. */
#define CGROUP_PREFIX   "stockade-"
#define CGROUP_PARENT   "/stockade"
#define CGROUP_LAUNCHER "launcher"

/* The v1 name of a controller, or with v2 its v2 name ("blkio", "io"). */
const char *cgroup_place_controller(enum cgroup_controller k, bool v2);
