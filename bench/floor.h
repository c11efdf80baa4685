/* The floor: what the kernel alone costs for a sandbox of the tier `low`, started by root.
 *
 * One call goes from nothing to a program that ran inside every namespace, cgroup, Landlock domain and seccomp filter,
 * and back to nothing. There is no profile, no plan, no record, no keeper and no exec of a launcher: what `stockade
 * run` takes beyond floor plus one bare spawn is its own. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

enum floor_root {
        FLOOR_TMPFS,    /* a tmpfs, filled each time */
        FLOOR_TEMPLATE, /* a directory that was filled once, bound read-only */
};

#define FLOOR_STEPS 40

/* When each step ended. Shared with the child, which writes nothing else for its parent. */
struct floor_trace {
        unsigned count;
        const char *name[FLOOR_STEPS];
        uint64_t at[FLOOR_STEPS];
        const char *failed; /* the step that failed, or NULL */
};

/* Where a sandbox is counted. On a pure v2 host one leaf carries all limits; elsewhere each v1 controller has its own
 * and the v2 leaf is only for killing. */
enum { FLOOR_MEMORY, FLOOR_PIDS, FLOOR_CPU, FLOOR_V1 };

struct floor {
        struct floor_trace *trace;
        char template[256]; /* the filled directory; empty if FLOOR_TEMPLATE is not used */
        bool only_v2;
        int v2;           /* parent of the v2 leaves */
        int v1[FLOOR_V1]; /* parents of the v1 leaves */
        unsigned serial;
};

/* Opens the cgroup trees and makes the filter. template may be NULL. */
int floor_open(struct floor *f, const char *template, struct err *err);
void floor_close(struct floor *f);

/* Clone, build, exec /usr/bin/true, wait, take down. f->trace has the steps afterwards. */
int floor_run(struct floor *f, enum floor_root root, struct err *err);

/* ---- between floor.c, floor-inside.c and floor-root.c ---- */

struct floor_inside {
        const struct floor *f;
        enum floor_root root;
        int user;            /* user namespace to join last */
        int tasks[FLOOR_V1]; /* v1 leaves to enter, -EBADF on a v2 host */
};

/* A step ended with r: notes the time, or that it failed (the innermost name stays). Returns r. */
int floor_done(struct floor_trace *t, const char *name, int r);

/* PID 1 from its first instruction to its exit. */
_noreturn_ void floor_inside(const struct floor_inside *in);
void floor_inside_make_filter(void);

/* In a new mount namespace: builds the root, makes it "/", drops the host's tree. Returns 0 or -errno. */
int floor_root_build(const struct floor_inside *in);
