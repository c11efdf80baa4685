/* `stockade run`: the parts of one run and how they hand on to each other.
 *
 *   options → plan (cached or compiled) → keeper, cgroup, cell → loop until the end → outcome → record, denials
 *
 * Data goes forward only: each part fills what the next one reads. */
#pragma once

#include <signal.h>
#include <termios.h>
#include <time.h>

#include "cell/cell.h"
#include "cli/learn.h"
#include "cli/network.h"

#define RUN_LIST_MAX 64

enum run_tty {
        TTY_AUTO, /* a terminal inside when standard input and output are terminals */
        TTY_YES,
        TTY_NO,
};

enum run_changes {
        CHANGES_ASK,
        CHANGES_APPLY,
        CHANGES_DISCARD,
        CHANGES_KEEP,
};

struct run_share {
        char *source;
        char *path;
        bool writable;
};

struct run_options {
        const char *profile;
        const char *driver;            /* NULL: native */
        const char *set[RUN_LIST_MAX]; /* "key=value" */
        size_t set_count;
        struct run_share shares[RUN_LIST_MAX];
        size_t share_count;
        const char *env[RUN_LIST_MAX];
        size_t env_count;
        const char *allow[RUN_LIST_MAX]; /* "host:port" */
        size_t allow_count;
        const char *secret[RUN_LIST_MAX]; /* "NAME" or "NAME=@FILE" */
        size_t secret_count;
        bool learn; /* --learn: note what is refused, write a profile that allows it */
        const char *learn_file;
        bool live; /* network.allow follows the profile while the command runs */
        const char *accept[RUN_LIST_MAX];
        size_t accept_count;
        char *workspace, *root, *cwd;
        enum run_changes changes;
        bool changes_risky; /* --apply-risky: also what the host's tools would execute */
        const char *keep;
        enum run_tty tty;
        const char *record;
        bool json, plan, quiet;
        char **argv; /* the command */
};

/* What the plan says to whoever starts it. */
struct run_limits {
        const char *profile;
        uint64_t cpus, memory, processes, disk_read, disk_write, output, wall, cpu_time;
        const char *cwd;
        uint64_t uid, gid;
        const char *overlay; /* host path of the copy-on-write directory, or NULL */
        const char *watched[CELL_WATCH_MAX];
        size_t watched_count;
};

enum run_reason {
        REASON_EXITED,
        REASON_SIGNAL,
        REASON_TIMEOUT,
        REASON_OOM,
        REASON_DISK_FULL,
        REASON_OUTPUT,
        REASON_BUDGET,
        REASON_DENIED,
        REASON_FAILED, /* the sandbox could not be set up */
};

#define RUN_DENIALS_MAX 64

/* Something that was refused or a limit that was reached, from a source outside the sandbox. */
struct run_denial {
        char what[384];   /* "exec /usr/bin/git", "limits.memory" */
        char rule[64];    /* the profile key */
        char reason[24];  /* the gate's word for it; "" for others */
        char source[32];  /* who saw it: cgroup, landlock audit, guest, … */
        char text[768];   /* a sentence */
        char remedy[768]; /* how to allow it */
        uint64_t count;
};

struct run_outcome {
        enum run_reason reason;
        int status; /* our exit status */
        bool have_wait_status;
        int wait_status;
        int exec_error;
        uint64_t start_ms, end_ms; /* wall clock */
        uint64_t wall_us;
        struct cgroup_usage usage;
        uint64_t output_bytes;
        bool output_cut;
        bool output_lost; /* the reader did not take in time what was still in our hands */
        bool place_full[CELL_WATCH_MAX];
        struct run_denial denials[RUN_DENIALS_MAX];
        size_t denial_count;
        uint64_t denials_left_out; /* refusals that found no place: of kinds that had many */
        bool audit;                /* Landlock's denials had a source */
        const char *error;         /* why it was refused or failed; REASON_FAILED */
};

struct run {
        struct run_options options;
        struct plan plan;
        char plan_key[HASH_TEXT_SIZE]; /* of everything that the plan was compiled from but the policy */
        void *plan_bytes;              /* a sealed mapping that holds the plan */
        size_t plan_size;
        void *live_bytes; /* --live: the plan of a profile that changed since, for its sources */
        size_t live_size;
        char skeleton[512];
        int skeleton_lock;
        struct run_limits limits;
        char id[33];
        struct cgroup cgroup;
        struct cell_context cell;
        struct network network;
        struct learn *learn;
        pid_t pid;
        int pidfd;
        int report;
        int id_lock;
        int keeper; /* our end; closing it without a word tells the keeper to clean up */
        pid_t keeper_pid;
        int audit;
        int record; /* the file for the record */
        int keep;   /* the file for the changes */
        /* streams: sandbox side is in cell.stdio; these are our ends, or -EBADF */
        int from[3];
        int flags[3]; /* of the caller's streams, as they were */
        int to_stdin; /* write end of the command's standard input when it is relayed */
        int master;
        int upper, lower;
        int watched[CELL_WATCH_MAX];
        size_t watched_count;
        bool raw; /* the caller's terminal is in raw mode */
        struct termios terminal;
        struct timespec start;
        struct run_outcome outcome;
};

/* options.c */
int options_parse(int argc, char **argv, struct run_options *ret, struct err *err); /* 1: --help was printed */
void options_free(struct run_options *o);

/* plan_cache.c: finds or compiles the plan; fills r->plan and r->limits. */
int plan_cache_get(struct run *r, struct err *err);
int plan_cache_guard(const struct run *r, struct err *err); /* --live: can the command write what decides about it? */
void plan_cache_free(struct run *r);                        /* its bytes */
bool plan_cache_changed(const struct run *r);               /* since the plan that r follows */
void plan_cache_follow(struct run *r, struct run *latest);  /* takes latest's plan for the next look */

/* skeleton.c: a prepared root directory for this plan, if there can be one; speeds up, changes nothing else. */
void run_skeleton_get(struct run *r);
void run_skeleton_forget(const char *id); /* what the run of this id was making when it was killed */

int start_name(struct run *r, struct err *err); /* gives the run its id */

/* start.c: ids, streams, keeper, cgroup, cell. */
int start_run(struct run *r, struct err *err);
void start_cleanup(struct run *r); /* frees everything that a run holds; safe at any point */

/* keeper.c */
int keeper_start(struct run *r, struct err *err);
void keeper_hold(struct run *r, int mounts); /* leaves taking the sandbox's mounts apart to the keeper */
bool keeper_done(struct run *r); /* the sandbox is dead; true if the keeper will remove its cgroups when we end */

/* loop.c: until the sandbox has ended; fills outcome. */
int loop_run(struct run *r, struct err *err);

/* relay.c: terminal and streams. */
int relay_prepare(struct run *r, struct err *err);
void relay_terminal_restore(struct run *r);
void relay_flags_restore(const struct run *r);

/* outcome.c: judges how it ended, makes the denials. */
void outcome_judge(struct run *r);
void outcome_deny(struct run_outcome *o, const struct run_denial *d);
bool outcome_same_kind(const struct run_denial *a, const struct run_denial *b);
const char *outcome_reason_name(enum run_reason reason);

/* record.c */
int record_open(struct run *r, struct err *err);
int record_write(struct run *r, struct err *err);
void record_tell(const struct run *r);                          /* the last lines on stderr */
void record_time(struct json *j, const char *key, uint64_t ms); /* since 1970, as RFC 3339 */

/* audit.c: Landlock's denials from the kernel's audit stream, as root where auditing is on. */
int audit_open(void); /* descriptor, or -errno: no source */
bool audit_is_on(void);
void audit_read(int fd, pid_t pid, struct run_outcome *o);

/* changes.c: what to do with the copy-on-write directory. */
int changes_prepare(struct run *r, struct err *err);
int changes_settle(struct run *r, struct err *err);
