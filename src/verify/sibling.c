/* Another sandbox of the same caller and profile, alive beside the one that is judged, with a secret of its own. */
#include <stdio.h>

#include "verify/scene.h"

static struct running sibling;

int sibling_start(struct judge *j, struct err *err) {
        char token[WORLD_TOKEN + 32], pidns[48], nonce[64], path[64], file[80];

        (void)snprintf(token, sizeof token, "sibling-token=%s", j->world.tokens[CANARY_SIBLING]);
        (void)snprintf(pidns, sizeof pidns, "host-pidns=%lu", j->world.host_pidns);
        (void)snprintf(nonce, sizeof nonce, "nonce=%s", j->world.nonce);
        (void)snprintf(path, sizeof path, "/tmp/sibling-%s", j->world.nonce);
        (void)snprintf(file, sizeof file, "sibling-file=%s", path);
        const char *const argv[] = {"{probe}", "sibling", "control=yes", token, pidns, nonce, file, NULL};
        const struct launch l = {.where = LAUNCH_INSIDE, .argv = argv};

        int r = launch_start(j, &l, &sibling, err);
        if (r < 0)
                return r;
        if (!launch_expect(&sibling, "here", 20000)) { /* checks that need it say that they could not be tried */
                launch_kill(&sibling);
                sibling.pid = 0;
                return 0;
        }
        j->world.sibling = process_find(j, "sibling", j->world.nonce);
        world_fact(&j->world, "sibling-file", "%s", path);
        world_fact(&j->world, "sibling-pid", "%d", (int)j->world.sibling);
        return 0;
}

void sibling_end(struct judge *j) {
        if (sibling.pid > 0) {
                launch_kill(&sibling);
                scene_end(j->world.nonce); /* another maker's sandbox may outlive its launcher */
        }
        sibling.pid = 0;
        j->world.sibling = 0;
}
