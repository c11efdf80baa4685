/* Attempts to use up what everybody shares, each against a small limit and, as its control, below that limit.
 *
 * What the kernel counted (the record, which the launcher makes from it) decides where there is such a count; the
 * probe's word counts only where it says that it got more than it may have. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "verify/scene.h"

enum {
        NOT_HERE = 2,     /* exit status of a probe that tries nothing, because it is in no sandbox */
        UNSEEN_MS = 5000, /* until a command whose process the host does not see has begun and is over */
};

#define MB "000000" /* after a number: so many million bytes */

static const struct bomb {
        const char *name;
        const char *limit;   /* options that set the limit */
        const char *above;   /* ceiling above it */
        const char *below;   /* ceiling below it: the control */
        const char *room;    /* options of the control; NULL: those of the limit */
        const char *without; /* ceiling where there are no options; NULL: not tried there */
        const char *key;     /* that the record must name; NULL: the host does not count it */
        const char *peak;    /* a count of the record that may not be above most */
        uint64_t most;
        bool workspace; /* in the folder that the options are about */
        uint64_t got;   /* what it may get at most, as the probe counts; 0: not compared */
        bool names;     /* on a disk these are names in folders: its size is their limit, not its files */
} bombs[] = {
        {"fork-bomb", "--processes 40", "400", "100", "--processes 200", "2000", "limits.processes",
         "usage.processes_peak", 40, false, 40},
        {"thread-bomb", "--processes 40", "400", "100", "--processes 200", "2000", "limits.processes",
         "usage.processes_peak", 40, false, 40},
        {"memory-bomb", "--memory 64MiB", "256" MB, "32" MB, "--memory 256MiB", "1024" MB, "limits.memory",
         "usage.memory_peak", 66 << 20, false, 0},
        {"sysv-bomb", "--memory 64MiB", "256" MB, "32" MB, "--memory 256MiB", "1024" MB, "limits.memory",
         "usage.memory_peak", 66 << 20, false, 0},
        {"memfd-bomb", "--memory 64MiB", "256" MB, "32" MB, "--memory 256MiB", "1024" MB, "limits.memory",
         "usage.memory_peak", 66 << 20, false, 0},
        {"page-table-bomb", "--memory 48MiB --set shm=4MiB", "16384", "2000", "--memory 256MiB", "32768",
         "limits.memory", "usage.memory_peak", 50 << 20, false, 0},
        {"epoll-bomb", "--memory 16MiB --set shm=4MiB", "200000", "5000", "--memory 256MiB", NULL, "limits.memory",
         "usage.memory_peak", 18 << 20, false, 0},
        {"socket-buffer-bomb", "--memory 32MiB --set shm=4MiB", "64" MB, "8" MB, "--memory 256MiB", NULL,
         "limits.memory", "usage.memory_peak", 34 << 20, false, 0},
        {"pipe-buffer-bomb", "--memory 24MiB --set shm=4MiB", "48" MB, "4" MB, "--memory 256MiB", NULL, "limits.memory",
         "usage.memory_peak", 26 << 20, false, 0},
        {"fill-folder", "--size 16MiB", "64" MB, "8" MB, NULL, "1024" MB, NULL, NULL, 0, true, 16},
        {"fill-allocate", "--size 16MiB", "64" MB, "8" MB, NULL, "1024" MB, NULL, NULL, 0, true, 0},
        {"fill-shm", "--set shm=8MiB", "32" MB, "4" MB, NULL, "512" MB, NULL, NULL, 0, false, 8},
        {"inode-bomb", "--inodes 1000", "4000", "500", NULL, "50000", NULL, NULL, 0, true, 1000},
        {"deep-folders", "--inodes 1000", "4000", "500", NULL, NULL, NULL, NULL, 0, true, 1000},
        {"long-names", "--inodes 1000", "4000", "500", NULL, "50000", NULL, NULL, 0, true, 1000},
        {"hard-links", "--inodes 1000", "4000", "500", NULL, "50000", NULL, NULL, 0, true, 1000, true},
        {"descriptor-bomb", "--files 256", "4096", "100", NULL, "8192", NULL, NULL, 0, false, 128},
        {"eventfd-bomb", "--files 256", "4096", "100", NULL, "16384", NULL, NULL, 0, false, 256},
        {"terminal-bomb", NULL, "512", "16", NULL, "512", NULL, NULL, 0, false, 64},
        {"inotify-bomb", NULL, "65", "8", NULL, "65", NULL, NULL, 0, false, 64},
        {"timer-bomb", NULL, "10000", "100", NULL, "10000", NULL, NULL, 0, false, 1024},
        {"signal-bomb", NULL, "10000", "20", NULL, "10000", NULL, NULL, 0, false, 1024},
        {"lock-memory-bomb", NULL, "67108864", "4194304", NULL, "67108864", NULL, NULL, 0, false, 8},
};

static bool explode(struct judge *j, struct finding *f, const struct bomb *b, const char *options, const char *most,
                    struct outcome *ret) {
        struct scene_words room;
        char ceiling[48], folder[192];

        (void)snprintf(ceiling, sizeof ceiling, "ceiling=%s", most);
        (void)snprintf(folder, sizeof folder, "folder=%s", scene_workspace(j));
        return scene_inside(j, f, scene_words(options, &room),
                            WORDS("{probe}", b->name, ceiling, b->workspace ? folder : "scene=1"), ret);
}

/* The kernel ended it, or the sandbox as a whole: only the record can say by which limit. */
static void judge_ended(const struct bomb *b, const struct outcome *o, struct finding *f) {
        char ended[200];

        (void)scene_ended(o, ended, sizeof ended);
        if (!b->key)
                finding_otherwise(f, "it was ended: %s", ended);
        else if (!o->record)
                finding_otherwise(f, "it was ended, and nothing says by which limit: %s", ended);
        else if (scene_hit(o, b->key))
                finding_promised(f, "ended by %s: %s", b->key, ended);
        else
                finding_otherwise(f, "it was ended, and the record does not name %s: %s", b->key, ended);
}

static void judge_bomb(const struct judge *j, const struct check *c, const struct bomb *b, const struct outcome *o,
                       struct finding *f) {
        struct said said = {0};
        bool spoke = scene_said(&o->out, b->name, &said, f);
        char workspace[16];
        uint64_t peak = b->peak ? scene_number(o, b->peak, 0) : 0;

        if (b->peak && peak > b->most)
                finding_open(f, "%s is %llu, more than %llu", b->peak, (unsigned long long)peak,
                             (unsigned long long)b->most);
        if (b->names && spoke && str_eq(said.result, "done") && o->record &&
            json_find_str(o->record, "workspace", workspace, sizeof workspace) && str_eq(workspace, "disk"))
                finding_otherwise(f, "its workspace is a disk, and links are bounded by the disk's size: %.100s",
                                  said.evidence);
        else if (spoke && (str_eq(said.result, "done") || (b->got && strtoull(said.evidence, NULL, 10) > b->got)))
                scene_worked(j, c, f, "it got more than its limit: %.200s", said.evidence);
        else if (!spoke && o->status == NOT_HERE)
                finding_untried(f, "nothing was tried: %.200s", o->err.data ? o->err.data : "no reason given");
        else if (!spoke || str_eq(said.result, "killed"))
                judge_ended(b, o, f);
        else if (!str_eq(said.result, "refused"))
                finding_untried(f, "%s: %.200s", said.result, said.evidence);
        else if (!check_expects(c, said.error))
                finding_otherwise(f, "refused with %s: %.200s", said.error, said.evidence);
        else if (b->key && str_eq(b->key, "limits.processes") && o->record && !scene_hit(o, b->key))
                finding_otherwise(f, "refused with %s, and the record does not name %s", said.error, b->key);
        else
                finding_promised(f, "refused with %s at %.200s", said.error, said.evidence);
}

void scene_bomb(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome at = {0}, under = {0};
        const struct bomb *b = NULL;
        struct said said = {0};
        bool ours = launch_has_options(j);

        for (size_t i = 0; i < ELEMENTSOF(bombs); i++)
                if (str_eq(bombs[i].name, c->name))
                        b = &bombs[i];
        if (!b || (!ours && !b->without)) {
                finding_untried(f, "needs options of our own launcher");
                return;
        }
        if (!explode(j, f, b, ours ? b->limit : NULL, ours ? b->above : b->without, &at))
                return;
        judge_bomb(j, c, b, &at, f);
        if (str_eq(f->error, "ENOSYS")) /* where the call does not exist there is nothing below its limit */
                return;
        if (!explode(j, f, b, !ours ? NULL : b->room ? b->room : b->limit, b->below, &under))
                return;
        bool spoke = said_find(&under.out, b->name, &said);
        finding_control(f, spoke && str_eq(said.result, "done") && !(b->key && scene_hit(&under, b->key)),
                        "below the limit: %s %.150s", spoke ? said.result : "it said nothing", said.evidence);
}

/* Orphans have to be reaped by PID 1, or the limit on processes would be reached. */
void scene_zombies(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        const char *const few[] = {"--processes", "40", NULL};
        struct said said = {0};

        if (!scene_inside(j, f, launch_has_options(j) ? few : NULL, WORDS("{probe}", c->name, "ceiling=600"), &o))
                return;
        bool spoke = scene_said(&o.out, c->name, &said, f);
        if (spoke && str_eq(said.result, "done"))
                finding_open(f, "nobody reaps: %.200s", said.evidence);
        else if (spoke && str_eq(said.result, "refused"))
                finding_promised(f, "%.200s", said.evidence);
        else
                finding_untried(f, "%s: %.200s", spoke ? said.result : "it said nothing", said.evidence);
}

/* Thousands of refusals: neither the messages nor the record may grow with them. */
void scene_log_flood(struct judge *j, const struct check *c, struct finding *f) {
        /* opened and not written to: harmless where nothing refuses it */
        static const char script[] = "exec 2>/dev/null; i=0; while [ $i -lt 500 ]; do (: </etc/shadow); (: "
                                     ">>/usr/bin/env); (: >>/etc/passwd); i=$((i+1)); done; echo flooded";
        _cleanup_outcome_ struct outcome o = {0};

        (void)c;
        if (!scene_options(j, f))
                return;
        const struct launch l = {
                .where = LAUNCH_INSIDE, .argv = WORDS("/bin/sh", "-c", script), .record = true, .timeout_ms = 20000};
        if (!scene_run(j, f, &l, &o))
                return;
        size_t record = o.record ? strlen(o.record) : 0;
        if (record > 256 * 1024 || o.err.size > 16 * 1024)
                finding_open(f, "the record has %zu bytes, the messages %zu", record, o.err.size);
        else if (o.status != 0 || !o.out.data || !strstr(o.out.data, "flooded") || record == 0)
                finding_untried(f, "the flood did not end as it should: status %d", o.status);
        else
                finding_promised(f, "after 1,500 refusals the record has %zu bytes, the messages %zu", record,
                                 o.err.size);
}

static void deadline(struct judge *j, struct finding *f, bool terminal) {
        _cleanup_outcome_ struct outcome o = {0};
        char mark[SCENE_MARK], ended[200];

        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = WORDS("--timeout", "300ms"),
                                 .argv = WORDS("{probe}", "stubborn", mark),
                                 .facts = true,
                                 .terminal = terminal,
                                 .record = true,
                                 .timeout_ms = 8000};
        if (!scene_run(j, f, &l, &o)) {
                if (o.late)
                        finding_open(f, "it outlived its deadline%s", terminal ? ", on a terminal" : "");
                return;
        }
        (void)scene_ended(&o, ended, sizeof ended);
        if (!scene_gone(mark, 2000))
                finding_open(f, "a process is still there two seconds later");
        else if (o.status != 124 || !scene_reason(&o, "timeout"))
                finding_otherwise(f, "it ended otherwise: %s", ended);
        else
                finding_promised(f, "ended after %u ms%s: %s", o.wall_ms, terminal ? ", on a terminal" : "", ended);
        finding_control(f, o.wall_ms >= 290, "it did not end by itself: %u ms", o.wall_ms);
}

/* Every signal blocked, one process stopped: over at the deadline all the same. */
void scene_stubborn(struct judge *j, const struct check *c, struct finding *f) {
        (void)c;
        if (!scene_options(j, f))
                return;
        deadline(j, f, false);
        deadline(j, f, true);
}

/* Kibibytes of memory of a process. */
static unsigned long memory_of(pid_t pid) {
        char path[64], text[4096];

        (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        const char *at = fd_read_at(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "VmRSS:") : NULL;
        return at ? strtoul(at + 6, NULL, 10) : 0;
}

/* How many of the processes that carry the mark are the command itself? */
static size_t writers(const char *mark) {
        pid_t pids[SCENE_PIDS];
        size_t count = scene_find(mark, pids, ELEMENTSOF(pids)), found = 0;

        for (size_t i = 0; i < count; i++) {
                char path[64], is[32];

                (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pids[i]);
                found += fd_read_at(AT_FDCWD, path, is, sizeof is) > 0 && str_eq(is, "yes");
        }
        return found;
}

/* Reads what is there, so that its writer can go on. */
static void drain(int fd) {
        static char block[1 << 16];

        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        for (unsigned i = 0; i < 10; i++) {
                while (read(fd, block, sizeof block) > 0)
                        ;
                scene_wait(10);
        }
}

/* Nobody reads what it writes: it waits and ends at its deadline, and the launcher does not keep it all in memory. */
void scene_unread(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0};
        struct running r = {0};
        struct err err = {0};
        char ended[200], mark[SCENE_MARK];
        int ends[2];

        (void)c;
        if (!scene_options(j, f))
                return;
        if (pipe2(ends, O_CLOEXEC) < 0) {
                finding_untried(f, "no pipe: %s", strerror(errno));
                return;
        }
        _cleanup_fd_ int unread = ends[0], full = ends[1];
        scene_mark(j, mark);
        const struct launch l = {.where = LAUNCH_INSIDE,
                                 .options = WORDS("--timeout", "700ms", "--output", "1GiB"),
                                 .argv = WORDS("/usr/bin/yes", mark),
                                 .record = true,
                                 .out = full,
                                 .timeout_ms = 8000};
        if (!scene_start(j, f, &l, &r))
                return;
        size_t writing = 0, left = 0;
        for (unsigned i = 0; judge_sees_inside(j) && i < 300 && (writing = writers(mark)) == 0; i++)
                scene_wait(10);
        scene_wait(judge_sees_inside(j) ? 200 : UNSEEN_MS);
        unsigned long kib = memory_of(r.pid);
        for (unsigned i = 0; i < 50 && (left = writers(mark)) > 0; i++)
                scene_wait(100); /* launcher and keeper may wait for the reader, the command may not */
        drain(unread);
        fd_close(&unread);
        if (launch_wait(j, &r, &o, &err) < 0 || left > 0)
                finding_open(f, "it outlived its deadline: %zu processes", left);
        if (kib > 32 * 1024)
                finding_open(f, "the launcher holds %lu MiB of what nobody reads", kib / 1024);
        (void)scene_ended(&o, ended, sizeof ended);
        if (scene_reason(&o, "timeout"))
                finding_promised(f, "it waited, the launcher held %lu KiB; %s", kib, ended);
        else
                finding_otherwise(f, "it ended otherwise: %s", ended);
        if (judge_sees_inside(j))
                finding_control(f, writing > 0, "%zu process was writing while nobody read", writing);
        else
                finding_control(f, scene_number(&o, "usage.output_bytes", 0) > 1 << 16,
                                "it wrote %llu bytes, more than a pipe holds",
                                (unsigned long long)scene_number(&o, "usage.output_bytes", 0));
}
