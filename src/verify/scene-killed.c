/* What is left when a sandbox ends in a bad way: its launcher is killed while it starts or runs, told to go, or leaves
 * a daemon behind. The host's view decides: processes that carry the mark, cgroups, and the digest. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "verify/scene.h"

static const struct digest *before_of(const struct judge *j, struct digest *room) {
        const char *const watched[] = {j->world.share, NULL};
        const int ours[] = {0};

        return digest_take(room, watched, ours, NULL) < 0 ? NULL : room;
}

/* The first lines of what is left, for a person. */
static void tell_left(struct finding *f, const struct buf *left) {
        finding_open(f, "left on the host: %.300s", left->data ? left->data : "something");
}

/* Two forks, a session of its own, deaf to signals: gone after the command. */
void scene_daemon(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        char mark[SCENE_MARK];
        struct said said = {0};
        struct running r = {0};
        struct err err = {0};

        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .argv = WORDS("{probe}", c->name, mark, "control=yes"),
                                 .facts = true,
                                 .timeout_ms = 10000};
        if (!scene_start(j, f, &l, &r) || launch_wait(j, &r, &o, &err) < 0)
                return;
        bool spoke = scene_said(&o.out, c->name, &said, f);
        finding_control(f, spoke && str_eq(said.result, "done"), "the daemon was started: %s", said.result);
        if (!spoke || !str_eq(said.result, "done"))
                finding_untried(f, "%s: %.200s", spoke ? said.result : "it said nothing", said.evidence);
        else if (!scene_gone(mark, 2000))
                finding_open(f, "two seconds after the command it is still there");
        else
                finding_promised(f, "gone with the command");
        scene_end(mark);
}

/* Milliseconds for it to come up, or to be gone. A machine that is just starting is removed when it has started. */
static unsigned patience(const struct judge *j) {
        return launch_in_box(j) ? 30000 : 5000;
}

void scene_killed_starting(struct judge *j, const struct check *c, struct finding *f) {
        enum { ROUNDS = 10, ROUNDS_MAX = 60 };
        _cleanup_(digest_free) struct digest room = {0};
        _cleanup_buf_ struct buf left = {0};
        const struct digest *before = before_of(j, &room);

        (void)c;
        if (!before) {
                finding_untried(f, "no digest of the host");
                return;
        }
        unsigned begun = 0, i, step = launch_in_box(j) ? 40 : 2;         /* milliseconds: a box takes longer to start */
        for (i = 0; i < ROUNDS || (begun == 0 && i < ROUNDS_MAX); i++) { /* on, until one had a process inside */
                struct running r = {0};
                char mark[SCENE_MARK];
                pid_t pids[SCENE_PIDS];

                scene_mark(j, mark);
                const struct launch l = {
                        .where = LAUNCH_INSIDE, .argv = WORDS("{probe}", "stay", mark, "control=yes"), .facts = true};
                if (!scene_start(j, f, &l, &r))
                        return;
                scene_wait(i * step); /* from before its first mount to well after its last */
                begun += scene_find(mark, pids, ELEMENTSOF(pids)) > 1;
                launch_kill(&r);
                if (!scene_gone(mark, f->verdict == VERDICT_OPEN ? 100 : patience(j)))
                        finding_open(f, "killed after %u ms, its processes stay", i * step);
                scene_end(mark);
        }
        if (!scene_nothing_left(j, before, 4000, &left))
                tell_left(f, &left);
        else if (begun == 0)
                finding_untried(f, "it was never killed in the middle of its start");
        else
                finding_promised(f, "killed %u times between 0 and %u ms: no process, mount, cgroup or file is left", i,
                                 step * i);
}

/* Are all of these folders gone? */
static bool folders_gone(const struct buf *folders) {
        char path[1024];

        for (const char *at = folders->data; at && *at;) {
                size_t size = strcspn(at, "\n");

                (void)snprintf(path, sizeof path, "%.*s", (int)size, at);
                if (access(path, F_OK) == 0)
                        return false;
                at += size + (at[size] == '\n');
        }
        return true;
}

/* The cgroups of the one that was started last, but for those that it shares with us. */
static void own_cgroups(pid_t pid, struct buf *ret) {
        _cleanup_buf_ struct buf ours = {0}, its = {0};

        scene_cgroup_folders(getpid(), &ours);
        scene_cgroup_folders(pid, &its);
        for (const char *at = its.data; at && *at;) {
                size_t size = strcspn(at, "\n") + 1;
                char line[1024];

                (void)snprintf(line, sizeof line, "%.*s", (int)size, at);
                if (!ours.data || !strstr(ours.data, line))
                        buf_str(ret, line);
                at += size;
        }
}

void scene_killed_running(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_(digest_free) struct digest room = {0};
        _cleanup_buf_ struct buf left = {0}, folders = {0};
        const struct digest *before = before_of(j, &room);
        struct running r = {0};
        char mark[SCENE_MARK];
        pid_t pids[SCENE_PIDS];

        (void)c;
        scene_mark(j, mark);
        const struct launch l = {
                .where = LAUNCH_INSIDE, .argv = WORDS("{probe}", "stay", mark, "control=yes"), .facts = true};
        if (!before || !scene_start(j, f, &l, &r)) {
                finding_untried(f, "no digest of the host");
                return;
        }
        if (!launch_expect(&r, "here", patience(j))) {
                finding_untried(f, "it did not come up");
                launch_kill(&r);
                return;
        }
        size_t count = scene_find(mark, pids, ELEMENTSOF(pids));
        pid_t last = 0;
        for (size_t i = 0; i < count; i++)
                last = MAX(last, pids[i]);
        own_cgroups(last, &folders);
        finding_control(f, count >= (judge_sees_inside(j) ? 4 : 2), "%zu processes carried the mark while it ran",
                        count);
        launch_kill(&r);
        bool gone = scene_gone(mark, patience(j)), settled = scene_nothing_left(j, before, gone ? 4000 : 0, &left);
        if (!gone)
                finding_open(f, "its processes stay");
        if (!folders_gone(&folders))
                finding_open(f, "its cgroups stay: %.200s", folders.data);
        if (!settled)
                tell_left(f, &left);
        finding_promised(f, "%zu processes, and everything else, are gone", count);
        scene_end(mark);
}

/* A launcher that is asked to go takes everything with it, at its deadline even what ignores signals. */
void scene_told(struct judge *j, const struct check *c, struct finding *f) {
        const char *const soon[] = {"--timeout", "3s", NULL};
        _cleanup_outcome_ struct outcome o = {0};
        struct running r = {0};
        struct err err = {0};
        char mark[SCENE_MARK];
        pid_t pids[SCENE_PIDS];

        (void)c;
        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = launch_has_options(j) ? soon : NULL,
                                 .argv = WORDS("{probe}", "stubborn", mark, "control=yes", "say=here"),
                                 .facts = true,
                                 .timeout_ms = launch_in_box(j) ? 2 * patience(j) : 4000};
        size_t least = judge_sees_inside(j) ? 3 : 2;
        if (!scene_start(j, f, &l, &r))
                return;
        bool deaf = launch_expect(&r, "here", launch_in_box(j) ? patience(j) : 2000);
        size_t most = scene_find(mark, pids, ELEMENTSOF(pids));
        (void)kill(r.pid, SIGTERM);
        finding_control(f, deaf && most >= least, "%zu processes carried the mark when it was told", most);
        if (launch_wait(j, &r, &o, &err) < 0)
                finding_untried(f, "%.200s", err.text);
        else if (!deaf || most < least)
                finding_untried(f, "it did not come up");
        else if (!scene_gone(mark, 2000))
                finding_open(f, "processes are still there two seconds after the launcher");
        else if (o.late)
                finding_otherwise(f, "it had to be killed");
        else
                finding_promised(f, "gone after %u ms, with what ignored the signal", o.wall_ms);
        scene_end(mark);
}
