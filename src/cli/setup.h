/* `stockade setup`: its steps, and how they report. Private to cmd_setup.c and setup_*.c.
 *
 * A step says what it is about, finds out whether that is already so, and does it unless this is a dry run. Every step
 * can be repeated, and undone with remove. */
#pragma once

#include "base/err.h"

struct setup {
        char name[64];
        unsigned uid, gid;
        bool remove, dry, check;
        const char *root; /* "" for this host; a directory: change the files below it, and leave cgroups alone */
        long enter;       /* a process to move into the delegated v2 cgroup, or 0 */
        unsigned failures;
        char what[512]; /* the step at hand */
};

/* Names the step, in words that follow "done", "already" and "would". */
void setup_step(struct setup *s, const char *format, ...) _printf_(2, 3);

/* Prints how the step stands and returns true if it has to be done now. */
bool setup_wanted(struct setup *s, bool already);

/* Prints how it went. */
void setup_done(struct setup *s, int r);

/* A remark that is not a step. */
void setup_note(const char *format, ...) _printf_(1, 2);

/* Writes (or with remove deletes) a file below s->root as one step. Returns 1 if it changed. */
int setup_file(struct setup *s, const char *path, const char *text, const char *purpose);

/* Runs a program and waits. 0, -errno when it cannot run, -EIO when it fails. */
int setup_spawn(const char *const *argv);

bool setup_has_systemd(void);

/* True when no other user of this host was set up: what serves all of them may go. */
bool setup_is_last(const struct setup *s);
#define SETUP_NOTES "/var/lib/stockade/setup"

void setup_cgroups(struct setup *s);
void setup_ids(struct setup *s);
void setup_check_ids(struct setup *s); /* whether others were given ids that are ours: changes nothing */
void setup_apparmor(struct setup *s);
