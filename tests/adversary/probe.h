/* What the files of the probe share: an attempt, its result, and what the judge told us.
 *
 * An attempt tries one thing and says what came of it. It never decides whether that is good or bad: the judge, who
 * stands outside, does. Attempts marked GUARDED could harm a machine and run only inside a sandbox that the judge made
 * (probe_guard says how that is known); all others must be harmless even for the host's real root: they open without
 * writing, ask for what is already so, or pass arguments that the kernel refuses right after its permission check. */
#pragma once

#include <errno.h>
#include <sys/types.h>

#include "base/macro.h"

enum { QUICK = 1, GUARDED = 2 };

enum { EVIDENCE_MAX = 700 };

enum probe_outcome { NOT_TRIED, REFUSED, DONE };

struct result {
        enum probe_outcome outcome;
        int error; /* errno of the refusal */
        char evidence[EVIDENCE_MAX];
};

struct attempt {
        const char *name;
        const char *tries; /* one line for people */
        void (*run)(struct result *r);
        unsigned flags;
};

extern const struct attempt files_attempts[], trees_attempts[], setid_attempts[], network_attempts[],
        processes_attempts[], syscalls_attempts[], exhaustion_attempts[], persistence_attempts[];

/* The attempt that is running. */
const char *probe_name(void);
/* Is PID 1 here another process than the host's PID 1? */
bool probe_own_init(void);
/* What the judge said as key=value; NULL if it did not. */
const char *probe_fact(const char *key);
unsigned long probe_number(const char *key, unsigned long otherwise);

/* NULL inside a sandbox of the judge's, else why we do not believe it. */
const char *probe_guard(void);

/* The attempt worked, with what it got; or it was refused with this errno. */
void probe_done(struct result *r, const char *format, ...) _printf_(2, 3);
void probe_refused(struct result *r, int error, const char *format, ...) _printf_(3, 4);
void probe_note(struct result *r, const char *format, ...) _printf_(2, 3);

/* From the result of a system call: not negative is done. Keeps what was noted. */
void probe_call(struct result *r, long value);
/* The same for calls with deliberately wrong arguments: only these two say that nobody looked at them. */
void probe_gate(struct result *r, long value);

/* Opens, and closes at once: what counts is that it could have been used. Returns 0 or -errno. */
int probe_open(const char *path, int flags);
/* Opens and reads the beginning; what was read is the evidence. */
void probe_read(struct result *r, const char *path);
/* A new file in the folder where this sandbox may write, opened for reading and writing. path gets its name. */
int probe_scratch(char *path, size_t size, const char *stem);
const char *probe_folder(void);
