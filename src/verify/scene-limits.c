/* Every limit, set small: what goes past it must end in a controlled and correctly named failure (reason, status and
 * limits_hit of the record), and the same command just below it must work. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "verify/scene.h"

/* The command itself, and no child of it, takes 150 MB: a line without an end. Where nothing holds it back, it ends. */
#define HUNGRY "mkfifo \"$0\"/p && { head -c 150000000 /dev/zero >\"$0\"/p & exec tail -n 1 \"$0\"/p >/dev/null; }"

static const struct limit {
        const char *name;
        const char *options;
        const char *above, *below; /* shell commands; the workspace is $0 */
        const char *reason;
        int status; /* 0: any but 0 */
        const char *key;
        size_t output; /* no more than this may come out; 0: not looked at */
} limits[] = {
        {"limit-time", "--timeout 400ms", "sleep 3", "exit 0", "timeout", 124, "time.run", 0},
        {"limit-memory", "--memory 32MiB --set shm=4MiB", HUNGRY, "head -c 6M /dev/zero | tail -c 4M >/dev/null", "oom",
         137, "limits.memory", 0},
        {"limit-disk", "--size 8MiB", "head -c 16M /dev/zero >\"$0\"/x", "head -c 6M /dev/zero >\"$0\"/x", "disk_full",
         0, "files.write", 0},
        {"limit-inodes", "--inodes 200", "cd \"$0\" || exit 0; i=0; while [ $i -lt 300 ]; do : >f$i; i=$((i+1)); done",
         "cd \"$0\" || exit 9; i=0; while [ $i -lt 100 ]; do : >f$i; i=$((i+1)); done", "disk_full", 0, "files.write",
         0},
        {"limit-processes", "--processes 16", "i=0; while [ $i -lt 40 ]; do sleep 3 & i=$((i+1)); done; wait",
         "i=0; while [ $i -lt 8 ]; do sleep 0 & i=$((i+1)); done; wait", "exited", 0, "limits.processes", 0},
        {"limit-output", "--output 64KiB", "yes | head -c 4000000", "head -c 60000 /dev/zero", "output_limit", 137,
         "limits.output", 65536},
        {"output-flood", "--output 1MiB", "yes | head -c 4000000 >&2 & yes | head -c 4000000; wait",
         "head -c 500000 /dev/zero; head -c 500000 /dev/zero >&2", "output_limit", 137, "limits.output", 1 << 20},
        {"limit-cpu-time", "--cpu-time 200ms", "i=0; while [ $i -lt 5000000 ]; do i=$((i+1)); done", "exit 0", "budget",
         137, "budget.cpu", 0},
};

static bool run(struct judge *j, struct finding *f, const struct limit *l, const char *script, struct outcome *ret) {
        struct scene_words room;

        return scene_inside(j, f, scene_words(l->options, &room), WORDS("/bin/sh", "-c", script, scene_workspace(j)),
                            ret);
}

/* A daemon knows how full a disk is, but not a workspace that is memory, nor what a kernel of the box's own refuses its
 * processes, or kills: it cannot name what it does not count. */
static bool is_uncounted(const struct judge *j, const struct limit *l, const struct outcome *o) {
        char workspace[16];

        if ((str_eq(l->key, "limits.processes") || str_eq(l->key, "limits.memory")) && !judge_sees_inside(j))
                return true;
        return str_eq(l->key, "files.write") && o->record &&
               json_find_str(o->record, "workspace", workspace, sizeof workspace) && str_eq(workspace, "memory");
}

void scene_limit(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome above = {0}, below = {0};
        const struct limit *l = NULL;
        char ended[200];

        for (size_t i = 0; i < ELEMENTSOF(limits); i++)
                if (str_eq(limits[i].name, c->name))
                        l = &limits[i];
        if (!l || !scene_options(j, f) || !run(j, f, l, l->above, &above))
                return;
        size_t came = above.out.size + above.dropped + (l->output ? above.err.size : 0);
        (void)scene_ended(&above, ended, sizeof ended);
        if (above.status == 0)
                finding_open(f, "it went past its limit: %s", ended);
        else if (l->output && came > l->output + 4096) /* the launcher's own sentences come with it */
                finding_open(f, "%zu bytes came out", came);
        else if (scene_reason(&above, l->reason) && (!l->status || above.status == l->status) &&
                 scene_hit(&above, l->key))
                finding_promised(f, "%s", ended);
        else if (is_uncounted(j, l, &above))
                finding_otherwise(f, "it held, but the daemon does not count it, and so cannot name it: %s", ended);
        else
                finding_open(f, "it is not named as what it was (reason %s, %s): %s", l->reason, l->key, ended);
        if (!run(j, f, l, l->below, &below))
                return;
        finding_control(f, below.status == 0 && scene_reason(&below, "exited") && !scene_hit(&below, l->key),
                        "below the limit: %s", scene_ended(&below, ended, sizeof ended));
}

#define SPIN "cpu-spin"

/* Is it the attempt itself? A launcher carries its words, too, behind others of its own. */
static bool is_spinning(pid_t pid) {
        char path[64], text[1024] = "";

        (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
        ssize_t n = fd_read_at(AT_FDCWD, path, text, sizeof text);
        size_t first = strnlen(text, sizeof text) + 1;
        return n > 0 && first + strlen(SPIN) < (size_t)n && str_eq(text + first, SPIN);
}

/* Processor time of the attempt's processes, in milliseconds, as the kernel counts it for each. */
static uint64_t spent(const char *mark) {
        pid_t pids[SCENE_PIDS];
        size_t count = scene_find(mark, pids, ELEMENTSOF(pids));
        uint64_t ticks = 0, rate = (uint64_t)sysconf(_SC_CLK_TCK);

        for (size_t i = 0; i < count; i++) {
                char path[64], text[1024];
                unsigned long user = 0, kernel = 0;

                if (!is_spinning(pids[i]))
                        continue;
                (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pids[i]);
                const char *at = fd_read_at(AT_FDCWD, path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
                if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) == 2)
                        ticks += user + kernel;
        }
        return ticks * 1000 / rate;
}

/* How much of a processor four processes get, in percent; 0 if it cannot be told. */
static uint64_t share_of(struct judge *j, struct finding *f, const char *cpus) {
        struct running r = {0};
        char mark[SCENE_MARK];
        uint64_t first = 0;

        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = WORDS("--cpus", cpus),
                                 .argv = WORDS("{probe}", SPIN, "ms=20000", mark),
                                 .facts = true};
        if (!scene_start(j, f, &l, &r))
                return 0;
        for (unsigned i = 0; i < 500 && (first = spent(mark)) < 50; i++)
                scene_wait(20);
        uint64_t start = scene_clock();
        scene_wait(500);
        uint64_t then = spent(mark), elapsed = scene_clock() - start;
        launch_kill(&r);
        scene_end(mark);
        return elapsed > 0 && then > first ? (then - first) * 100 / elapsed : 0;
}

/* The same where the host sees no process of it: of the whole box, as its cgroup counts. */
static uint64_t share_of_box(struct judge *j, struct finding *f, const char *cpus) {
        _cleanup_outcome_ struct outcome o = {0};

        const struct launch l = {
                .where = LAUNCH_INSIDE,
                .options = WORDS("--cpus", cpus),
                .argv = WORDS("{probe}", SPIN, "ms=2000"),
                .facts = true,
                .record = true,
                .timeout_ms = 120000}; /* a machine with a tenth of a processor takes half a minute to start */
        if (!scene_run(j, f, &l, &o))
                return 0;
        return scene_number(&o, "box.cpu_us", 0) * 100 / MAX(scene_number(&o, "box.wall_us", 1), 1u);
}

static uint64_t share_seen(struct judge *j, struct finding *f, const char *cpus) {
        return judge_sees_inside(j) ? share_of(j, f, cpus) : share_of_box(j, f, cpus);
}

/* Four processes that compute get a tenth of a processor together. */
void scene_limit_cpu(struct judge *j, const struct check *c, struct finding *f) {
        (void)c;
        if (!scene_options(j, f))
                return;
        uint64_t share = share_seen(j, f, "0.1");
        if (share == 0)
                finding_untried(f, "the host sees no processor time of it");
        else if (share > 20)
                finding_open(f, "it got %llu %% of a processor", (unsigned long long)share);
        else
                finding_promised(f, "the host sees it use %llu %% of a processor", (unsigned long long)share);
        share = share_seen(j, f, "4");
        finding_control(f, share > 20, "with four processors allowed it got %llu %% of one", (unsigned long long)share);
}

/* The most descriptors that any process with this mark has, as the host counts. */
static size_t descriptors_of(const char *mark) {
        pid_t pids[SCENE_PIDS];
        size_t count = scene_find(mark, pids, ELEMENTSOF(pids)), most = 0;

        for (size_t i = 0; i < count; i++) {
                char path[64];
                size_t n = 0;

                (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pids[i]);
                DIR *dir = opendir(path);
                for (struct dirent *e; dir && (e = readdir(dir));)
                        n += e->d_name[0] != '.';
                if (dir)
                        (void)closedir(dir);
                most = MAX(most, n);
        }
        return most;
}

void scene_limit_files(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome below = {0};
        struct running r = {0};
        struct said said = {0};
        char mark[SCENE_MARK];

        (void)c;
        if (!scene_options(j, f))
                return;
        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = WORDS("--files", "100"),
                                 .argv = WORDS("{probe}", "eventfd-bomb", "ceiling=2000", "hold=9000", mark),
                                 .facts = true};
        if (!scene_start(j, f, &l, &r))
                return;
        bool full = launch_expect(&r, "full", 5000);
        size_t most = full ? descriptors_of(mark) : 0;
        launch_kill(&r);
        scene_end(mark);
        if (!full) {
                finding_untried(f, "it did not say that it has what it could get");
                return;
        }
        if (most > 100)
                finding_open(f, "a process has %zu descriptors", most);
        else if (most < 50)
                finding_untried(f, "the host sees only %zu descriptors", most);
        else
                finding_promised(f, "the host counts %zu descriptors", most);
        if (scene_inside(j, f, WORDS("--files", "100"), WORDS("{probe}", "eventfd-bomb", "ceiling=50"), &below))
                finding_control(f, said_find(&below.out, "eventfd-bomb", &said) && str_eq(said.result, "done"),
                                "below the limit: %s %.100s", said.result, said.evidence);
}

/* What looks like a limit and is none is told apart, and the other way round. */
void scene_exit_truth(struct judge *j, const struct check *c, struct finding *f) {
        static const char room[] = "--memory 32MiB --set shm=4MiB";
        static const struct {
                const char *script, *options, *reason, *key;
                int status;
        } cases[] = {
                {"exit 137", room, "exited", NULL, 137},
                {"kill -9 $$", room, "signal", NULL, 137},
                {HUNGRY, room, "oom", "limits.memory", 137},
                {"exit 124", room, "exited", NULL, 124},
                {"sleep 3", "--timeout 300ms", "timeout", "time.run", 124},
                {"kill -15 $$", room, "signal", NULL, 143},
                {"exit 0", room, "exited", NULL, 0},
        };
        char ended[200];

        (void)c;
        if (!scene_options(j, f))
                return;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_outcome_ struct outcome o = {0};
                struct scene_words words;
                size_t hits = 0;

                if (!scene_inside(j, f, scene_words(cases[i].options, &words),
                                  WORDS("/bin/sh", "-c", cases[i].script, scene_workspace(j)), &o))
                        return;
                if (o.record)
                        (void)json_find_count(o.record, "limits_hit", &hits);
                if (cases[i].key && str_eq(cases[i].key, "limits.memory") && !judge_sees_inside(j) &&
                    scene_reason(&o, "signal") && o.status == 137) {
                        finding_otherwise(f, "what the box's own kernel kills for want of memory is told as a signal");
                        continue;
                }
                if (!scene_reason(&o, cases[i].reason) || o.status != cases[i].status ||
                    (cases[i].key ? !scene_hit(&o, cases[i].key) : hits > 0))
                        finding_open(f, "'%.40s' is told as: %s", cases[i].script,
                                     scene_ended(&o, ended, sizeof ended));
        }
        finding_promised(f, "seven ends, among them three with status 137 and two with 124, are told apart");
        finding_control(f, f->verdict != VERDICT_OPEN, "an exit of 0 is told as such");
}

/* A limit that cannot be enforced is refused by name; only --accept-missing gets past, and the record says so. The
 * first of these is there on hosts with cgroup v2, the second on none yet. */
void scene_limit_missing(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome accepted = {0};
        char share[600], is[64];
        const char *const first[] = {"--rw", share, "--disk-write", "10MiB/s"};
        const char *const second[] = {"--rw", share, "--set", "budget.tokens=1000"};
        const struct {
                const char *key, *const *options;
        } wishes[] = {{"limits.disk_write", first}, {"budget.tokens", second}};

        (void)c;
        if (!scene_share(j, f))
                return;
        (void)snprintf(share, sizeof share, "%s:/mnt/disk", j->world.share);
        for (size_t i = 0; i < ELEMENTSOF(wishes); i++) {
                _cleanup_outcome_ struct outcome refused = {0};
                const char *key = wishes[i].key, *const *o = wishes[i].options;
                const struct launch l = {.where = LAUNCH_INSIDE,
                                         .options = WORDS(o[0], o[1], o[2], o[3]),
                                         .argv = WORDS("/bin/true"),
                                         .record = true};

                struct err err;
                if (launch_run(j, &l, &refused, &err) < 0)
                        return;
                if (refused.status == 0 && refused.record &&
                    json_find_str(refused.record, "not_enforced.0", is, sizeof is)) {
                        finding_open(f, "it started, and %.60s is not enforced", is);
                        return;
                }
                if (refused.status == 0)
                        continue; /* this host has it */
                if (refused.status == 125 && refused.err.data && strstr(refused.err.data, key))
                        finding_promised(f, "%.200s", refused.err.data);
                else
                        finding_open(f, "status %d, and '%s' is not named", refused.status, key);
                if (!scene_inside(j, f, WORDS(o[0], o[1], o[2], o[3], "--accept-missing", key), WORDS("/bin/true"),
                                  &accepted))
                        return;
                bool listed = accepted.record && json_find_str(accepted.record, "not_enforced.0", is, sizeof is) &&
                              str_eq(is, key);
                finding_control(f, accepted.status == 0 && listed,
                                "accepted as missing it runs, and the record lists it");
                return;
        }
        finding_untried(f, "this host enforces every limit that there is");
}
