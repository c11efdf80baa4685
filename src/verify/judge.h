/* The judge: what the parts of `stockade verify` share. One judge, one host, one profile, one caller. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "verify/check.h"
#include "verify/daemon.h"
#include "verify/digest.h"
#include "verify/launch.h"
#include "verify/world.h"

enum { JUDGE_CHECKS_MAX = 512, JUDGE_LEFT_MAX = 16 };

struct judge_options {
        const char *driver;   /* "native", or whose boxes are judged */
        const char *profile;  /* name or path */
        const char *against;  /* NULL, or the command of another sandbox to put before the probe's */
        const char *probe_at; /* with against: the probe's path inside; NULL: the same as outside */
        const char *report;   /* NULL, or the HTML file */
        const char *only;     /* NULL, or names of checks separated by commas */
        bool quick, json, list, verbose;
        bool fast; /* the self-test: a sandbox that passes it is offered */
};

/* What the resolved profile says that changes what can be expected. */
struct judge_profile {
        char name[64], hash[80];
        bool exec_list;      /* tools.exec lists what may be executed */
        bool shows_host;     /* files.read has "/" */
        bool network;        /* network.allow has rules of its own */
        char workspace[160]; /* where it may write: files.workspace.path */
        char read[512];      /* files.read, separated by commas */
        char exec[512];      /* tools.exec, the same */
};

/* A run that is kept for later. */
struct judge_record {
        char path[512]; /* where it was written */
        char *text;     /* the record, JSON */
};

struct judge_text {
        char name[32], value[160];
};

struct judge {
        struct judge_options options;
        struct judge_profile profile;
        char launcher[512]; /* the `stockade` that is judged */
        char probe[512];    /* the attacker */
        uid_t uid;
        struct world world;
        struct daemon daemon; /* of other drivers than native */
        struct digest before, after;
        const char *watched[4]; /* folders of the host in which nothing may change; what the digests were given */
        int ours[4];            /* processes that the judge itself keeps running */
        size_t count;           /* of checks, as check_count() */
        bool chosen[JUDGE_CHECKS_MAX];
        struct finding findings[JUDGE_CHECKS_MAX];
        bool broken;                          /* the probe did not come to its end: what it did not say is not known */
        struct judge_record allowed, blocked; /* one run that worked, and one that was stopped */
        char folder[512];                     /* where this report's records are kept; "" if nowhere */
        char start[40];                       /* RFC 3339 */
        unsigned wall_ms;
        struct judge_text host[24]; /* facts of the host, until an empty name */
};

/* Counts for summaries; PERMITTED and INAPPLICABLE are none of the checks. */
struct judge_tally {
        unsigned checks, promised, otherwise, open, untried, permitted, inapplicable, witnessed;
};
void judge_tally(const struct judge *j, struct judge_tally *ret);
/* Nothing is open, the probe came to its end, the host is as it was, and something was tried in every group that was
 * asked for. */
bool judge_good(const struct judge *j);

/* Is the host as it was before? Waits some seconds for what is being taken apart; now gets the last look. */
bool judge_settled(struct judge *j, struct digest *now);

/* judge.c: everything, in order. */
int judge_all(struct judge *j, struct err *err);
/* Was the check chosen, and does it mean something under this driver? */
bool judge_tries(const struct judge *j, size_t i);
/* An error in the launcher's own words. */
int judge_does_not_start(const struct judge *j, const struct outcome *o, struct err *err);

/* options.c. Returns 1 if everything was said already (--help), else 0 or an error. */
int options_parse(struct judge_options *o, int argc, char **argv, struct err *err);

/* Are the processes inside the host's, too? Not where the sandbox has a kernel of its own. */
bool judge_sees_inside(const struct judge *j);

/* May a sandbox's processes be the children of somebody else's daemon, an engine's, and so not be below the judge? */
bool judge_starts_elsewhere(const struct judge *j);

/* ask.c: what a program of ours says, with a NUL behind it; its complaints go to standard error. */
int ask_program(const char *const argv[], struct buf *ret, struct err *err);

/* profile.c */
int profile_read(struct judge *j, struct err *err);

/* attempts.c: quick attempts, many in one sandbox. */
enum attempts_pass {
        ATTEMPTS_WITNESSED, /* streams are pipes, and a witness reads the kernel's answers */
        ATTEMPTS_ALONE,     /* the few that a witness would be in the way of */
        ATTEMPTS_TERMINAL,  /* all, on a terminal */
};
int attempts_make(struct judge *j, enum attempts_pass pass, struct err *err);
void attempts_tidy(const struct judge *j); /* removes what attempts left in the shared folder */
/* sibling.c: another sandbox of the same caller, alive beside the one that is judged. */
int sibling_start(struct judge *j, struct err *err);
void sibling_end(struct judge *j);

/* process.c: the process of a sandbox whose first argument this is, with the nonce among the others, as the host
 * numbers it; 0: there is none. */
pid_t process_find(const struct judge *j, const char *first, const char *nonce);
/* Was it started by the judge, at whatever remove? Whoever is orphaned below the judge becomes its child, so nobody
 * gets away; and nobody else's process is ours, whatever its arguments say. */
bool process_is_ours(pid_t pid);

/* records.c: one run that works, and one that is stopped, kept for later. */
void records_capture(struct judge *j);

/* controls.c: the same attempts where nothing stands in their way. */
void controls_make(struct judge *j);
/* What a control that did not work means for a check. */
void controls_conclude(struct judge *j, size_t i);

/* list.c: the table of checks, for people or as JSON. */
void list_checks(bool as_json, struct buf *out);

/* digest.c: `stockade-verify LAUNCHER digest`. */
int digest_main(int argc, char **argv);
