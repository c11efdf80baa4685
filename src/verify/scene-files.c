/* Files outside that need a run of their own: the whole tree, and our own folders. */
#include <sys/stat.h>

#include "base/paths.h"
#include "verify/scene.h"

/* The whole tree: nothing can be written but what the profile names. */
void scene_sweep(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        struct said said = {0}, other = {0};
        bool box = launch_in_box(j);
        char share[600];
        struct launch l = {.where = LAUNCH_INSIDE,
                           .argv = WORDS("{probe}", c->name, box ? "seconds=90" : NULL),
                           .facts = true,
                           .timeout_ms = box ? 120000 : 60000};

        if (!scene_run(j, f, &l, &o))
                return;
        bool spoke = scene_said(&o.out, c->name, &said, f);
        const char *looked = strstr(said.evidence, " looked at");
        while (looked && looked > said.evidence && looked[-1] >= '0' && looked[-1] <= '9')
                looked--;
        if (spoke && str_eq(said.result, "done"))
                finding_open(f, "%.300s", said.evidence);
        else if (!spoke || !str_eq(said.result, "refused"))
                finding_untried(f, "%s: %.200s", spoke ? said.result : "it said nothing", said.evidence);
        else if (!looked || strtoul(looked, NULL, 10) < 1000)
                finding_untried(f, "it saw too little: %.200s", said.evidence);
        else
                finding_promised(f, "%.200s", said.evidence);
        if (!launch_has_options(j) || (!box && !scene_share(j, f)))
                return;
        /* a place that it was not told of is found */
        if (box)
                (void)snprintf(share, sizeof share, "files.write=%s,/mnt/other", scene_workspace(j));
        else
                (void)snprintf(share, sizeof share, "%s:/mnt/other", j->world.share);
        l.options = WORDS(box ? "--set" : "--rw", share);
        if (scene_run(j, f, &l, &control))
                finding_control(f,
                                said_find(&control.out, c->name, &other) && str_eq(other.result, "done") &&
                                        strstr(other.evidence, "/mnt/other"),
                                "a shared folder that it was not told of is found: %.120s", other.evidence);
}

static bool is_file(const char *path) {
        struct stat st;

        return stat(path, &st) < 0 || S_ISREG(st.st_mode);
}

/* Asks for this folder as a writable share. False: it could not be tried. */
static bool refuses(struct judge *j, struct finding *f, const char *folder, unsigned *count) {
        _cleanup_outcome_ struct outcome o = {0};
        char share[600];

        (void)snprintf(share, sizeof share, "%s:/mnt/own", folder);
        const struct launch l = {.where = LAUNCH_INSIDE, .options = WORDS("--rw", share), .argv = WORDS("/bin/true")};
        if (!scene_run(j, f, &l, &o))
                return false;
        if (o.status == 0)
                finding_open(f, "'%s' can be shared as writable", folder);
        else if (o.status != 125 || !o.err.data || !strstr(o.err.data, "own"))
                finding_untried(f, "'%s': status %d, for another reason: %.100s", folder, o.status,
                                o.err.data ? o.err.data : "");
        (*count)++;
        return true;
}

/* What the next launcher obeys or executes cannot be shared as writable. */
void scene_own_folders(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome control = {0};
        char folder[512], share[600];
        unsigned refused = 0;
        const char *slash = strrchr(j->launcher, '/');

        (void)c;
        if (!scene_options(j, f))
                return;
        for (size_t i = 0; paths_own(i, folder, sizeof folder); i++)
                if (folder[0] && !is_file(folder) && !refuses(j, f, folder, &refused))
                        return;
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash ? slash - j->launcher : 0), j->launcher);
        if (!refuses(j, f, folder, &refused))
                return;
        if (refused == 0)
                finding_untried(f, "none of our folders is there");
        finding_promised(f, "%u folders of ours: refused", refused);
        (void)snprintf(share, sizeof share, "%s:/mnt/own", j->world.share);
        if (scene_share(j, f) && scene_inside(j, f, WORDS("--rw", share), WORDS("/bin/true"), &control))
                finding_control(f, control.status == 0, "another folder can be shared: status %d", control.status);
}
