/* A sandbox's cgroups while they are being made: what cgroup_create hands from step to step. Private to cgroup*.c.
 *
 * cgroup-leaf.c makes directories, cgroup-limit.c writes limits into them, cgroup-why.c says why it cannot be done. */
#pragma once

#include <limits.h>

#include "cell/cgroup-place.h"

struct cgroup_make {
        struct cgroup *c;
        const struct cgroup_limits *limits;
        struct cgroup_place *place;
        unsigned needed;             /* controllers that some limit needs, as bits */
        unsigned on_v2;              /* those of them that no v1 hierarchy has */
        int why[CGROUP_CONTROLLERS]; /* why a controller has no home: -errno */
        int why_v2;                  /* the same for the v2 leaf */
        bool enabled;                /* v2 controllers were passed down to the leaf, or that was tried */
        bool top_is_own;             /* we stand in the v2 cgroup that the leaves go below */
        char top[PATH_MAX];          /* that cgroup; "" when the leaf is a plain child of our own */
        char cause[200];             /* set by a limit that knows better than errno why it failed */
        char remedy[200];
};

/* Sixteen hexadecimal digits: with the prefix, the whole name of a leaf. */
bool cgroup_is_id(const char *id);

/* cgroup_create at a place that was found before, or that a test made up. */
int cgroup_create_at(struct cgroup *c, const char *id, const struct cgroup_limits *limits, const char *const *accepted,
                     size_t accepted_count, struct cgroup_place *place, struct err *err);

/* Creates the v2 leaf (with controllers when m->on_v2 says so), then the v1 leaves. What is missing is noted in m->why,
 * not an error. -ENODEV: a sweep took the leaf for abandoned before it was locked; start again. */
int cgroup_leaf_make(struct cgroup_make *m);

/* Passes the controllers of m->on_v2 down to the v2 leaf. Once; later calls do nothing. */
void cgroup_leaf_enable(struct cgroup_make *m);

/* Passes these controllers down from the cgroup `top`, and from `parent` below it, to what is in there. Why one could
 * not be is in why[]. own: we stand in `top`, and may step aside. */
void cgroup_leaf_pass(const char *top, bool own, int parent, unsigned controllers, int why[CGROUP_CONTROLLERS]);

/* Which controllers the limits need: m->needed and m->on_v2. */
void cgroup_find_needs(struct cgroup_make *m);

/* Writes every limit, or says which does not hold. */
int cgroup_apply_limits(struct cgroup_make *m, const char *const *accepted, size_t accepted_count, struct err *err);

/* True when the leaf that dir is open on was removed. */
bool cgroup_leaf_gone(int dir);

/* One row per key that a profile may hold and that a cgroup enforces. */
struct cgroup_limit {
        const char *key;
        enum cgroup_controller controller;
        bool (*asked)(const struct cgroup_limits *limits);
        int (*apply)(struct cgroup_make *m); /* 0, or -errno: not enforced */
};
extern const struct cgroup_limit cgroup_limit_table[CGROUP_LIMITS];

/* The sentence and the hint for a limit whose apply failed with r. Returns ERR_UNENFORCED. */
int cgroup_why(const struct cgroup_make *m, const struct cgroup_limit *limit, int r, struct err *err);
