/* Bringing the changes of a diff to the directory itself: all of the chosen ones, or none.
 *
 * apply_check decides for each change; nothing is touched. apply_run then stages, commits and makes the changes, with
 * a journal (journal.h), so that after a kill or a crash at any moment apply_recover makes the directory exactly old
 * or exactly new. Before either, unmount the overlay and recover what an earlier apply left.
 *
 * What goes through: contents (holes stay holes), link targets, permission bits without setuid and setgid, times of
 * files. Owner and group are those of the file that is replaced, or of the directory for a new one. Extended
 * attributes and hard links do not: each name gets a file of its own. */
#pragma once

#include "disk/diff.h"

enum apply_verdict {
        APPLY_YES,
        APPLY_UNWANTED,   /* risky, and the caller did not want it */
        APPLY_CONFLICT,   /* changed in the directory since the run began */
        APPLY_SPECIAL,    /* a device, socket or fifo */
        APPLY_SETID,      /* a setuid or setgid bit */
        APPLY_MOUNT,      /* a mount point is in the way */
        APPLY_TOO_LARGE,  /* apparent size over the cap */
        APPLY_UNWRITABLE, /* we may not change the directory that it is in */
        APPLY_NOT_ABOVE,  /* the directory that it is in, or replaces, is not applied */
        APPLY_NOT_BELOW,  /* something below it cannot be removed */
};

enum apply_risky { APPLY_RISKY_NONE, APPLY_RISKY_ASK, APPLY_RISKY_ALL };

struct apply_options {
        const char *root; /* absolute path of the directory: recovery opens it again */
        enum apply_risky risky;
        bool (*ask)(void *data, const struct diff_entry *e); /* for APPLY_RISKY_ASK: once per risky change */
        uint64_t max_size;                                   /* apparent size of one file; 0: 64 GiB */
        void (*step)(void *data);                            /* NULL, or called before each step, for tests */
        void *data;                                          /* for ask and step */
};

struct apply_decision {
        enum apply_verdict *verdict; /* one per entry of the diff */
        size_t count;
        size_t chosen;  /* with APPLY_YES */
        size_t refused; /* neither APPLY_YES nor APPLY_UNWANTED */
};

void apply_decision_free(struct apply_decision *v);
const char *apply_reason(enum apply_verdict v); /* "changed outside the sandbox since the run began" */

int apply_check(const struct diff *d, int lower, const struct apply_options *o, struct apply_decision *ret,
                struct err *err);

/* Applies every change with APPLY_YES. state_dir is a directory of ours outside the workspace. When it fails before
 * the commit, the directory is as it was; after it, the error says so and apply_recover will finish. */
int apply_run(const struct diff *d, const struct apply_decision *v, int upper, int lower, int state_dir,
              const struct apply_options *o, struct err *err);

struct apply_recovery {
        size_t finished, undone; /* applies that were completed, or taken back */
        size_t busy;             /* left alone: their process is alive */
};

/* Goes through all journals in state_dir. The first trouble is reported, the others are still recovered. */
int apply_recover(int state_dir, struct apply_recovery *ret, struct err *err);
