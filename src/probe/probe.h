/* What the files of the probe share: an attempt, its result, and what the judge told us.
 *
 * An attempt tries one thing and says what came of it. It never decides whether that is good or bad: the judge, who
 * stands outside, does, and only its table (src/verify) says in words what is tried. Attempts marked GUARDED could harm
 * a machine and run only inside a sandbox that the judge made (guard.c says how that is known); all others must be
 * harmless even for the host's real root on a machine that is at work: they open without writing, ask for what is
 * already so, pass arguments that the kernel refuses right after its permission check, touch only what the judge gave
 * them, and print nothing that is not the judge's own. */
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
        void (*run)(struct result *r);
        unsigned flags;
};

extern const struct attempt files_attempts[], trees_attempts[], setid_attempts[], network_attempts[],
        processes_attempts[], syscalls_attempts[], exhaustion_attempts[], exhaustion_more_attempts[],
        persistence_attempts[], places_attempts[], identity_attempts[], options_attempts[], rare_attempts[],
        gate_attempts[], gate_dns_attempts[], gate_http_attempts[], gate_hold_attempts[];

/* The attempt that is running. */
const char *probe_name(void);
/* Is PID 1 here another process than the host's PID 1? */
bool probe_own_init(void);
/* The other end of a terminal that was just opened, also where a kernel has no call for it. */
int probe_other_end(int master);
/* What the judge said as key=value; NULL if it did not. */
const char *probe_fact(const char *key);
unsigned long probe_number(const char *key, unsigned long otherwise);

/* Why nothing at all is tried here; NULL: something may be. */
const char *probe_refuses(void);
/* Do we hold any capability? */
bool probe_capable(void);
/* NULL inside a sandbox of the judge's, else why we do not believe it. */
const char *probe_guard(void);
/* For attempts that wait to be ended. Where only the judge would do that, it comes to an end by itself within a minute:
 * so they are harmless anywhere. */
_noreturn_ void probe_wait_for_end(void);

/* The attempt worked, with what it got; or it was refused with this errno. */
void probe_done(struct result *r, const char *format, ...) _printf_(2, 3);
void probe_refused(struct result *r, int error, const char *format, ...) _printf_(3, 4);
void probe_note(struct result *r, const char *format, ...) _printf_(2, 3);

/* From the result of a system call: not negative is done. Keeps what was noted. */
void probe_call(struct result *r, long value);
/* The same for a call that returns -errno. */
void probe_answer(struct result *r, long value);
/* The same for calls with deliberately wrong arguments: only these two say that nobody looked at them. */
void probe_gate(struct result *r, long value);

/* Opens, and closes at once: what counts is that it could have been used. Returns 0 or -errno. */
int probe_open(const char *path, int flags);
/* A process that the judge gave us to attack (host-pid=N); 0 if there is none, or if it may be somebody else's by now.
 */
pid_t probe_victim(void);
/* Before a mount as a control: a mount namespace of our own. False: it could not be had, and nothing must be mounted.
 */
bool probe_own_mounts(struct result *r);
/* Opens and reads the beginning; what was read is the evidence. */
void probe_read(struct result *r, const char *path);
/* Writes until it is refused, or most bytes are written. */
void probe_pour(struct result *r, int fd, unsigned long most);
/* A new file in the folder where this sandbox may write, opened for reading and writing. path gets its name. */
int probe_scratch(char *path, size_t size, const char *stem);
const char *probe_folder(void);
