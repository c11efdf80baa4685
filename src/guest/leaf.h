/* The cgroup leaves of runs, where nobody outside can make them: in a machine, whose first process does (wire/leaf.h).
 * It answers at once, so that it is waited for. One leaf is asked for in advance: an exec does not wait for it then.
 * Where there are no cgroups at all, families (family.h) take their place. */
#pragma once

#include "wire/guest.h"

struct leaves {
        int fd;         /* to whoever makes them; -EBADF: nobody does, and runs have what came with their EXEC */
        uint32_t last;  /* run that has one */
        uint32_t spare; /* run that the one in advance is for; 0: there is none */
        bool is_there;  /* it came: */
        int fds[GUEST_FDS_MAX];
        size_t count;
        bool families; /* instead: a run that comes without files is told by its family */
};

/* The files of the leaf of a run that begins, which are the caller's then; none where nobody makes leaves. 0 or -errno.
 */
int leaf_open(struct leaves *l, uint32_t run, int fds[GUEST_FDS_MAX], size_t *ret_count);
