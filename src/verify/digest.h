/* The state of the host, as lists of lines that can be compared: mounts, namespaces, cgroups of ours, processes below
 * the judge, kernel settings, keyrings, ipc ids, device nodes, interfaces, files in watched folders, descriptors of the
 * judge, loop devices. What changes by itself on a busy machine is left out, and tables in digest-host.c say so for
 * each. What the caller may not read is left out, each time in the same way. No program is started, nothing is written;
 * every list has a cap, and one that is reached is an error, never a shorter list. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum digest_part {
        DIGEST_MOUNTS,
        DIGEST_NAMESPACES, /* that some process or mount holds, below the judge */
        DIGEST_CGROUPS,
        DIGEST_PROCESSES, /* descendants of the judge but for those that it names as its own, and what is below these */
        DIGEST_SETTINGS,  /* /proc/sys */
        DIGEST_KEYS,
        DIGEST_IPC,
        DIGEST_DEVICES, /* nodes in /dev: kind, mode, owner */
        DIGEST_NETWORK, /* interfaces, routes, nft tables */
        DIGEST_FILES,   /* watched folders: names, modes, owners, hashes */
        DIGEST_DESCRIPTORS,
        DIGEST_LOOPS,
        DIGEST_IDENTITY, /* host name, clock offset, core_pattern */
        DIGEST_COUNT,
};

extern const char *const digest_names[DIGEST_COUNT];

struct digest {
        struct buf parts[DIGEST_COUNT]; /* sorted lines */
        char hash[DIGEST_COUNT][65];    /* of each, hex; all equal means that nothing changed */
};

/* watched: folders whose files count, NULL at the end. ours: processes of the judge itself, 0 at the end. Both may be
 * NULL. On an error d is empty and needs no freeing. */
int digest_take(struct digest *d, const char *const *watched, const int *ours, struct err *err);
/* The same for the whole host, or for as much of it as /proc shows: not only what is below the caller, but every
 * process of our programs, every namespace of any process, every cgroup of ours. */
int digest_take_host(struct digest *d, const char *const *watched, struct err *err);
void digest_free(struct digest *d);
bool digest_same(const struct digest *a, const struct digest *b);
/* The differences as lines "+ mounts: …", "- files: …", as many as fit below ret->max. Returns how many there are. */
size_t digest_difference(const struct digest *a, const struct digest *b, struct buf *ret);
/* Takes digests until nothing differs from before, at most ms; what is being taken apart needs a moment. Leaves the
 * last in now, which is freed first. True: the same. */
bool digest_settle(const struct digest *before, struct digest *now, const char *const *watched, const int *ours,
                   unsigned ms);
void digest_write(const struct digest *d, struct buf *ret); /* as JSON, for `stockade-verify digest` and the soak */

/* Is this file the disk of a sandbox that lives? A daemon's on this host, which comes and goes with what its users do.
 */
bool digest_is_disk(const char *file);

/* What the kernel counts. These breathe on a machine that lives: to be compared with a bound, not for equality. */
struct digest_counts {
        uint64_t files, inodes;                                                   /* that are open, or cached */
        uint64_t slab_kib, unreclaimable_kib, stacks_kib, percpu_kib, tables_kib; /* memory of the kernel */
        uint64_t cgroups, dying; /* that the kernel still has, of all hierarchies; dying: of v2, removed but not gone */
};
void digest_count(struct digest_counts *ret);

/* `digest [--host] [FOLDER…]`: argv[0] is the word "digest". Prints JSON. Returns the exit status. */
int digest_main(int argc, char **argv);
