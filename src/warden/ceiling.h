/* The ceiling: what no sandbox gets, whatever the operator asks for.
 *
 * Every plan is held against it before anything is made: which host paths it may show, how much it may use, and that
 * every step that protects the host is there, in its order. The operator may be captured and the plan a lie; so the
 * ceiling knows nothing but stockade.conf and the plan's own bytes, and what is not named here is refused. What host
 * paths lead to is asked a second time, by the cell, about the very descriptor that it is going to use. */
#pragma once

#include <limits.h>

#include "base/conf.h"
#include "wire/plan.h"

#define CEILING_OWN_MAX    24
#define CEILING_ACCEPT_MAX 16

struct ceiling {
        const struct conf *conf;
        bool rootless;
        char guest[PATH_MAX];       /* our guest program, as the kernel names it */
        char *own[CEILING_OWN_MAX]; /* folders of ours that no sandbox sees, with what is below and above */
        size_t own_count;
};

/* What a plan that fits asks for. Pointers are into the plan. */
struct ceiling_plan {
        uint64_t memory, cpus, processes, disk_read, disk_write, cpu_time;
        uint64_t uid, gid;
        const char *cwd;
        const char *overlay;                            /* host directory that is shown copy-on-write; NULL: none */
        bool disk, root_disk, networked, trust, shares; /* shares: something of the host's is writable */
        uint64_t disk_size, disk_inodes;
        const void *filter;
        size_t filter_size, env_count;
        const char *accepted[CEILING_ACCEPT_MAX]; /* keys that may stay unenforced */
        size_t accepted_count;
};

/* Fills guest and own. state and run: folders of this daemon. */
int ceiling_open(struct ceiling *c, const struct conf *conf, const char *state, const char *run, struct err *err);

/* p has passed plan_check. ERR_REFUSED names the step, what it wants, and the key of stockade.conf that would have to
 * allow it, if one can. */
int ceiling_check(const struct ceiling *c, const struct plan *p, struct ceiling_plan *ret, struct err *err);

/* cell_base.permits; data is the ceiling. */
bool ceiling_permits(const void *data, const struct plan_step *s, int source);
