/* One sandbox's cgroups: made before the sandbox, entered at birth, killed and measured from outside, removed at the
 * end. The same calls work on cgroup v2, on v1, and on hybrid hosts (controllers on v1, a bare v2 tree beside them).
 *
 * What always holds: a limit that was asked for is in force on the leaf before cgroup_create returns 0, or its key is
 * in `missing` because the caller accepted that, or cgroup_create fails and leaves nothing behind.
 *
 * A leaf is called stockade-<id>. Its directory descriptors hold a flock for as long as the launcher or the keeper
 * (a fork of it) lives; cgroup_sweep removes a leaf only if it can take that lock, so it can never touch a live one. */
#pragma once

#include "base/err.h"

enum cgroup_controller {
        CGROUP_CPU,
        CGROUP_CPUACCT, /* v1 only: on v2 every cgroup counts its cpu time */
        CGROUP_MEMORY,
        CGROUP_PIDS,
        CGROUP_IO, /* "blkio" on v1 */
        CGROUP_CONTROLLERS,
};

enum {
        CGROUP_NAME_SIZE = 80,
        CGROUP_DEVICES = 16,
        CGROUP_LIMITS = 6,
};
#define CGROUP_UNSET UINT64_MAX

/* A file system that the sandbox can reach, as cgroup_limits_add found it. */
struct cgroup_device {
        unsigned major, minor;
        bool writable;
        bool opaque; /* not memory and not one local disk (btrfs, NFS, FUSE, overlay): nothing can throttle it */
};

struct cgroup_limits {
        uint64_t cpus;   /* thousandths of a processor */
        uint64_t memory; /* bytes; implies no swap */
        uint64_t processes;
        uint64_t disk_read, disk_write; /* bytes a second */
        struct cgroup_device devices[CGROUP_DEVICES];
        size_t device_count;
        bool want_cpu_usage; /* for the record: where it is not to be had, usage says so */
        bool need_cpu_usage; /* for budget.cpu: where it is not to be had, refuse */
};

/* Nothing asked for. */
#define CGROUP_LIMITS_NONE                                                                                             \
        ((struct cgroup_limits){.cpus = CGROUP_UNSET,                                                                  \
                                .memory = CGROUP_UNSET,                                                                \
                                .processes = CGROUP_UNSET,                                                             \
                                .disk_read = CGROUP_UNSET,                                                             \
                                .disk_write = CGROUP_UNSET})

/* Adds the file system of fd to what disk_read and disk_write are about. Memory file systems are not disks and are
 * passed over. -E2BIG when more than CGROUP_DEVICES different ones are added. */
int cgroup_limits_add(struct cgroup_limits *limits, int fd, bool writable);

struct cgroup {
        char name[CGROUP_NAME_SIZE];
        int into;                           /* v2 leaf, for clone3(CLONE_INTO_CGROUP); -EBADF when there is none */
        int guest;                          /* of a nest: the leaf below `into` that PID 1 is born in instead */
        int leaves[CGROUP_CONTROLLERS];     /* v1 leaves, one per hierarchy */
        int tasks[CGROUP_CONTROLLERS];      /* v1: `tasks` of each leaf, O_WRONLY, for cgroup_enter_self */
        size_t task_count;                  /* of leaves and tasks */
        int home[CGROUP_CONTROLLERS];       /* the leaf that speaks for a controller: into, one of leaves, or -EBADF */
        const char *missing[CGROUP_LIMITS]; /* keys that are not enforced and were accepted; static strings */
        size_t missing_count;
};

#define CGROUP_INIT                                                                                                    \
        ((struct cgroup){.into = -EBADF,                                                                               \
                         .guest = -EBADF,                                                                              \
                         .leaves = {-EBADF, -EBADF, -EBADF, -EBADF, -EBADF},                                           \
                         .tasks = {-EBADF, -EBADF, -EBADF, -EBADF, -EBADF},                                            \
                         .home = {-EBADF, -EBADF, -EBADF, -EBADF, -EBADF}})

/* Makes the leaves and writes the limits. id is 1 to 64 of [a-z0-9-] and unique on this host. A limit that cannot be
 * enforced here is ERR_UNENFORCED: the sentence names the key ("limits.memory") and the reason, the hint the remedy;
 * unless the key is among `accepted`: then it is added to c->missing. *c is untouched on failure. */
int cgroup_create(struct cgroup *c, const char *id, const struct cgroup_limits *limits, const char *const *accepted,
                  size_t accepted_count, struct err *err);

/* The child, after clone and before anything that should be counted (and before unshare(CLONE_NEWCGROUP)). born: it was
 * cloned with CLONE_INTO_CGROUP; otherwise it enters the v2 leaf by hand, which costs milliseconds. Async-signal-safe,
 * allocates nothing, returns 0 or -errno. */
int cgroup_enter_self(const struct cgroup *c, bool born);

/* Kills everything in the leaf; no fork can outrun it. Does not wait for the last exit. -EOPNOTSUPP when there is no
 * cgroup at all: kill the sandbox's PID 1 instead. */
int cgroup_kill(const struct cgroup *c);

/* CGROUP_UNSET where the host does not say. The counters go with the leaf: read them before cgroup_destroy. */
struct cgroup_usage {
        uint64_t cpu_us;
        uint64_t memory_now, memory_peak;
        uint64_t processes_now, processes_peak;
        uint64_t read_bytes, write_bytes;
        uint64_t oom_kills;
        uint64_t fork_refusals; /* by the limit on processes */
        uint64_t throttled_us;  /* by the limit on cpus */
};
int cgroup_usage(const struct cgroup *c, struct cgroup_usage *ret);
int cgroup_refusals(const struct cgroup *c,
                    struct cgroup_usage *ret); /* oom_kills and fork_refusals alone: two reads */
int cgroup_cpu_usage(const struct cgroup *c, uint64_t *ret_us);

/* Removes the leaves, killing first whatever is still in them, and waits (3 s at most) for tasks that are exiting.
 * Closes every descriptor even when it fails. */
int cgroup_destroy(struct cgroup *c);

/* Closes the descriptors and leaves the cgroups alone: for a process that handed them to another. */
void cgroup_close(struct cgroup *c);

/* Removes leaves whose launcher is gone, with what still runs in them: the one of own_id (or NULL) at once, others when
 * they have been there for a while, because a new one is not locked in the moment in which it is made. Returns how many
 * were removed; *ret_young (or NULL) says whether there was one that may be dead but is too young to tell. */
int cgroup_sweep(const char *own_id, bool *ret_young);
