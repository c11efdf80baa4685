/* Where a daemon keeps the cgroups of sandboxes that outlive it, and the leaves of their runs.
 *
 * In every tree that we may write there is one directory stockaded-<token>, the nest; in it stockade-<id> for each
 * sandbox, with its limits; in that a leaf for each run. No lock says which sandboxes live, because the daemon may be
 * dead and they are not: a nest is swept only by whoever owns the state folder that the token stands for, and
 * cgroup_sweep never looks into one. A daemon that lives has a shared lock on its nest; an empty one that nobody has
 * locked may be removed by anybody, since whoever comes back makes it again.
 *
 * v2 with controllers: processes live in leaves only, so PID 1 gets one too (`guest`). v1 and hybrid: PID 1 is in the
 * sandbox's own cgroup of every hierarchy, and a run has leaves in the v1 hierarchies that count or stop it (memory,
 * pids, cpuacct), which a process enters through `tasks` without a lock over all of the system. Entering a v2 cgroup
 * takes milliseconds, so on hybrid hosts the v2 tree serves whole sandboxes only: birth, freeze, kill. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/buf.h"
#include "cell/cgroup-place.h"

enum {
        CGROUP_TREES = CGROUP_CONTROLLERS + 1, /* one for each controller, and v2 */
        CGROUP_V2 = CGROUP_CONTROLLERS,
};

struct cgroup_nest {
        struct cgroup_place place;
        char *paths[CGROUP_TREES]; /* NULL: none. Controllers of one hierarchy have the same */
        int dirs[CGROUP_TREES];
        unsigned on_v2;              /* controllers that the v2 tree gives */
        int why[CGROUP_CONTROLLERS]; /* why a controller is not to be had */
        int why_v2;
        char top[PATH_MAX]; /* as in struct cgroup_make */
        size_t users;       /* the owner's to count */
};

/* Finds and makes the nest for a token of sixteen hexadecimal digits. A tree that is not ours to write is left out: a
 * sandbox that needs it is refused by cgroup_nest_make. */
int cgroup_nest_open(struct cgroup_nest *n, const char *token, struct err *err);

/* The same nest again, from what cgroup_nest_text wrote, wherever this process is now. */
void cgroup_nest_text(const struct cgroup_nest *n, struct buf *out);
int cgroup_nest_again(struct cgroup_nest *n, const char *text);

void cgroup_nest_close(struct cgroup_nest *n);

/* A sandbox's cgroups, as cgroup_create makes them for a run; there are always some that its runs can have leaves in.
 * -EEXIST: there are some of this name already. */
int cgroup_nest_make(struct cgroup_nest *n, struct cgroup *c, const char *id, const struct cgroup_limits *limits,
                     const char *const *accepted, size_t accepted_count, struct err *err);

/* Opens what is there of them. -ENOENT: nothing. */
int cgroup_nest_find(const struct cgroup_nest *n, const char *id, struct cgroup *c);
int cgroup_nest_find_runs(const struct cgroup_nest *n, const char *id, struct cgroup *c); /* for leaves of its runs */

/* v2 with controllers: the leaf that PID 1 is in. -ENOENT: it is in the sandbox's own. */
int cgroup_nest_guest(const struct cgroup *c, struct cgroup *ret);

/* Removes them with every leaf. Waits for nobody: -EBUSY while something lives or is still on its way out. What could
 * not be removed stays open. */
int cgroup_nest_remove(const struct cgroup_nest *n, const struct cgroup *c);

/* Kills and removes the cgroups of every sandbox that known() does not know. Returns how many; waits, some seconds at
 * most. An empty nest goes too when `all`. */
int cgroup_nest_sweep(struct cgroup_nest *n, bool (*known)(void *data, const char *id), void *data, bool all);

/* Removes the nests beside this one that are empty, old and nobody's. Returns how many. */
int cgroup_nest_sweep_others(const struct cgroup_nest *n);

/* --- cgroup-run.c --- */

#define CGROUP_RUN_FILES CGROUP_CONTROLLERS

/* v1: the hierarchies that count or stop a run. */
static inline bool cgroup_is_for_runs(int controller) {
        return controller == CGROUP_MEMORY || controller == CGROUP_PIDS || controller == CGROUP_CPUACCT;
}

/* A run's leaf below a sandbox's cgroups; made if it is not there when `make`. */
int cgroup_run_open(const struct cgroup *sandbox, uint32_t run, bool make, struct cgroup *ret);

/* Whose processes a sandbox has. */
struct cgroup_owner {
        uid_t first, count; /* ids of the host that they may have */
        uid_t user;         /* the one that enters leaves */
};

/* Descriptors of the files that a process writes "0" to, to enter the leaf. Returns how many. Whoever has one can move
 * processes of this owner into the leaf, and nobody else's, whatever it may do elsewhere. NULL: as far as we can. */
int cgroup_run_files(const struct cgroup *sandbox, const struct cgroup *leaf, const struct cgroup_owner *owner,
                     int ret[CGROUP_RUN_FILES]);

/* Moves whatever is not of this owner out of a leaf, before something in it is killed. Returns how many there were, or
 * -errno: somebody is in there that cannot be moved. */
int cgroup_run_evict(const struct cgroup *leaf, const struct cgroup_owner *owner);

/* Removes it if nothing lives in it: 0, or -EBUSY. */
int cgroup_run_remove(const struct cgroup *sandbox, const struct cgroup *leaf);

/* Calls fn for each run that has a leaf. */
int cgroup_run_each(const struct cgroup *sandbox, void (*fn)(void *data, uint32_t run), void *data);

/* One pass of killing: what is in the cgroup now is killed, and it cannot fork any more. Returns how many processes
 * there were, 0 when it is empty, or -errno. Never waits: call again until it is 0. */
int cgroup_kill_pass(const struct cgroup *c);

/* Stops everything in a sandbox, or lets it go on, and waits (a fifth of a second at most) until it is so. -EOPNOTSUPP
 * where there is no v2 tree: what v1's freezer has stopped cannot be killed. -EBUSY: something could not be stopped in
 * time; it goes on. */
int cgroup_freeze(const struct cgroup *c, bool on);
bool cgroup_is_frozen(const struct cgroup *c);

/* Is this process in the sandbox's cgroups? True also when there are none to ask. */
bool cgroup_has(const struct cgroup *c, const char *id, pid_t pid);
