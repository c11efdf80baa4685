/* The prepared root of a run (cell/skeleton.h), in the folder of the cache that every run shares. */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/paths.h"
#include "cell/skeleton.h"
#include "cli/run.h"

/* By the keeper, which was there before anything was made. */
void run_skeleton_forget(const char *id) {
        struct err ignored;
        _cleanup_fd_ int cache = paths_state_dir("trees", true, &ignored);

        if (cache >= 0)
                skeleton_forget(cache, id);
}

void run_skeleton_get(struct run *r) {
        char name[SKELETON_NAME_SIZE], base[PATH_MAX];
        struct err ignored;

        _cleanup_fd_ int cache = paths_state_dir("trees", true, &ignored);
        if (cache < 0 || paths_state_name("trees", true, base, sizeof base) < 0)
                return;
        _cleanup_fd_ int fd = skeleton_get(cache, r->plan_key, r->id, &r->plan, NULL, NULL, NULL, name);
        if (fd < 0)
                return;
        int n = snprintf(r->skeleton, sizeof r->skeleton, "%s/%s", base, name);
        if (n < 0 || (size_t)n >= sizeof r->skeleton)
                return;
        r->skeleton_lock = TAKE_FD(fd);
        r->cell.skeleton = r->skeleton;
}
