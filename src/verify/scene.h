/* What the scenes share: runs of one attempt or one command with a record, looks at what came of it from outside, and
 * waiting for what must go away. A scene is a check that needs a run of its own (struct check, .scene).
 *
 * Nothing here believes a sandbox: what counts is the record that the launcher wrote from the kernel's counters, the
 * files of the host, /proc and the cgroups. */
#pragma once

#include "verify/check.h"
#include "verify/judge.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { SCENE_MARK = 64, SCENE_PIDS = 256 };

/* Options as one text, parted at blanks: "--memory 64MiB". NULL or "": none. */
struct scene_words {
        char text[128];
        const char *words[8];
};
const char *const *scene_words(const char *text, struct scene_words *room);

/* False, and "could not be tried", where options of our launcher are needed and what is judged has none. */
bool scene_options(const struct judge *j, struct finding *f);

/* The same, and where no folder can be shared as writable. */
bool scene_share(const struct judge *j, struct finding *f);

/* The attempt worked, which is OPEN unless all that it reached is the box's own (exempt.h). */
void scene_worked(const struct judge *j, const struct check *c, struct finding *f, const char *format, ...)
        _printf_(4, 5);

/* To its end. False, and "could not be tried", if it could not be started or did not end in time, and, where a record
 * was asked for, if the launcher refused to run it. */
bool scene_run(struct judge *j, struct finding *f, const struct launch *l, struct outcome *ret);
/* A command inside with a record, or an attempt with facts: words[0] is "{probe}" then. options: NULL for none. */
bool scene_inside(struct judge *j, struct finding *f, const char *const *options, const char *const *words,
                  struct outcome *ret);
bool scene_start(struct judge *j, struct finding *f, const struct launch *l, struct running *ret);

/* The folder inside whose size and inodes the options --size and --inodes set. */
const char *scene_workspace(const struct judge *j);

/* What the probe said of this attempt; noted in the finding. False: nothing. */
bool scene_said(const struct buf *out, const char *name, struct said *ret, struct finding *f);

/* --- the record */
bool scene_reason(const struct outcome *o, const char *reason); /* is it this? */
bool scene_hit(const struct outcome *o, const char *key);       /* is this key among the limits that were reached? */
uint64_t scene_number(const struct outcome *o, const char *path, uint64_t otherwise);
/* How it ended, for people: "reason oom, status 137, limits hit: limits.memory". */
const char *scene_ended(const struct outcome *o, char *buf, size_t size);

/* --- files of the judge */
bool scene_folder(struct judge *j, struct finding *f, const char *name, char *path, size_t size); /* new and empty */
bool scene_write(const char *path, const char *text, mode_t mode);
bool scene_holds(const char *path, const char *text); /* exactly this? */
void scene_remove(const char *path);                  /* with everything below; never follows a link */

/* --- processes. A mark is a word in the arguments of a command by which the host finds its processes. */
void scene_mark(const struct judge *j, char mark[SCENE_MARK]);
size_t scene_find(const char *mark, pid_t *pids, size_t max); /* all that carry it, the launcher too */
bool scene_gone(const char *mark, unsigned ms);               /* waits until none carries it */
/* Kills what still carries it, after the verdict: what another maker's sandbox left must not outlive the judge. */
void scene_end(const char *mark);
/* Removes files whose names end in it from /tmp and /dev/shm, which may be the host's in another maker's sandbox. */
void scene_litter(const char *mark);
void scene_wait(unsigned ms);
uint64_t scene_clock(void); /* milliseconds */

/* Waits until the host is as it was, at most ms and a second. What differs and stays is in ret, as lines. only_left:
 * only what is more than before counts. Other people's sandboxes, which come and go, do not. */
bool scene_same(struct judge *j, const struct digest *before, const char *const *watched, const int *ours,
                bool only_left, unsigned ms, struct buf *ret);
bool scene_nothing_left(struct judge *j, const struct digest *before, unsigned ms, struct buf *ret);

/* scene-cgroup.c: reads a limit of the nearest cgroup above this process that has one for this controller: name2 on
 * cgroup v2, name1 on v1. Where none has, it is what the process's own says. False if there is none. */
bool scene_cgroup(pid_t pid, const char *controller, const char *name2, const char *name1, char *buf, size_t size);
/* The directories of all its cgroups, one per line. */
void scene_cgroup_folders(pid_t pid, struct buf *ret);

/* --- the scenes */
typedef void scene_function(struct judge *j, const struct check *c, struct finding *f);

scene_function scene_bomb, scene_zombies, scene_log_flood, scene_stubborn, scene_unread; /* scene-exhaustion.c */
scene_function scene_neighbour, scene_queues;                                            /* scene-neighbour.c */
scene_function scene_limit, scene_limit_cpu, scene_limit_files, scene_limit_missing,
        scene_exit_truth; /* scene-limits.c */
scene_function scene_find_later, scene_find_sibling, scene_secret, scene_share_clean, scene_host_name, scene_cache,
        scene_unchanged;                                                                 /* scene-state.c */
scene_function scene_daemon, scene_killed_starting, scene_killed_running, scene_told;    /* scene-killed.c */
scene_function scene_hooks, scene_discard, scene_symlink, scene_special, scene_messages; /* scene-workspace.c */
scene_function scene_sweep, scene_own_folders;                                           /* scene-files.c */
scene_function scene_stream, scene_stream_folder, scene_stream_socket, scene_terminal_own,
        scene_terminal_settings;                               /* scene-streams.c */
scene_function scene_kill_init, scene_kill_all, scene_inbound; /* scene-processes.c */
scene_function scene_inspect;                                  /* scene-inspect.c */
