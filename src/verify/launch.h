/* Starts a sandbox as its users do, through the launcher's command line, and collects what came of it.
 *
 * The same functions start the sandbox that is judged, a command of another maker (--against), and, for positive
 * controls, the probe without any sandbox. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct judge;

/* Where the probe is inside one of our sandboxes, and its set-user-ID copy (world.folder/setid, if there is one): over
 * programs of the host, because a profile may execute only what is below /usr. */
#define LAUNCH_PROBE "/usr/bin/false"
#define LAUNCH_SETID "/usr/bin/nice"

enum launch_where {
        LAUNCH_INSIDE,  /* the sandbox that is judged */
        LAUNCH_OUTSIDE, /* no sandbox: the caller's own process */
        LAUNCH_ROOT,    /* no sandbox: root in a mount namespace of its own */
        LAUNCH_INIT,    /* no sandbox but a pid namespace, the command being its PID 1, with a descriptor 3. Its user
                         * namespace maps the caller to 0, and nobody instead of the host's root: harmless attempts only */
};

struct launch {
        enum launch_where where;
        const char *const *options; /* further words for `stockade run`, NULL at the end; NULL: none */
        const char *const
                *argv;          /* the command; NULL at the end. "{probe}" as first word is the probe, wherever it is */
        const char *const *env; /* further variables of the launcher's own environment; NULL: none */
        const char *profile;    /* NULL: the judge's */
        bool facts;             /* append what the world tells the probe (world_words), and setid= */
        bool terminal;          /* a terminal as all three streams; out gets what it shows */
        bool record;            /* ask for a record, and read it */
        int in, out;            /* descriptors as streams instead of /dev/null and a pipe; 0: the default */
        int leak;               /* a descriptor that the launcher inherits; 0: none */
        const char *input;   /* text for standard input (a pipe), or typed on the terminal; NULL: none. The pipe stays
                              * open until launch_wait, so that more can be written to it */
        unsigned timeout_ms; /* the judge kills it then; 0: 30 s */
        size_t output_max;   /* of out; 0: 4 MiB. More is read and dropped */
};

struct running {
        pid_t pid;
        int pidfd, out, err, in; /* our ends; -EBADF where there is none */
        char record[512];        /* path of the record that it will write; "" if none */
        uint64_t start_us;
        const struct launch *launch;
        struct judge *judge;
        struct buf seen, errors; /* what came out so far; launch_expect reads, too */
        size_t dropped;          /* what came out beyond the caps */
        size_t expected;         /* how much of seen launch_expect has passed */
        size_t typed;            /* how much of the input has been written */
        bool ended;
        uint64_t end_us;
};

struct outcome {
        int status; /* as a shell has it; -1: the judge had to kill it */
        bool late;  /* it was killed because its time was over */
        struct buf out, err;
        char *record; /* JSON, checked to be well-formed; NULL if there is none */
        unsigned wall_ms;
        size_t dropped; /* bytes beyond output_max (of err: 1 MiB); with both sizes, all that came out */
};

void outcome_free(struct outcome *o);
#define _cleanup_outcome_ _cleanup_(outcome_free)

/* To its end. An error only if it could not be started at all. */
int launch_run(struct judge *j, const struct launch *l, struct outcome *ret, struct err *err);

/* Starts and returns. The caller may read r->out; then either waits or kills. */
int launch_start(struct judge *j, const struct launch *l, struct running *ret, struct err *err);
/* Reads until a line that begins with these words, behind the one that was expected last, at most ms. False: it did not
 * come. A line whose end does not come, such as a prompt, counts too. */
bool launch_expect(struct running *r, const char *words, unsigned ms);
int launch_wait(struct judge *j, struct running *r, struct outcome *ret, struct err *err);
void launch_kill(struct running *r); /* SIGKILL to the launcher, and waits for it */

/* Reaps what was re-parented to the judge and has ended (a launcher's keeper): what is in another session than the
 * judge's and neither a running launch nor one of the world's processes. Each end of a launch does it, too. */
void launch_reap(const struct judge *j);

/* True if the options that this launch needs exist in what is judged (never with --against). */
bool launch_has_options(const struct judge *j);

/* Is it a box of a daemon, and not a native sandbox or another maker's? */
bool launch_in_box(const struct judge *j);

/* One line of the probe: attempt NAME in this output. False if it said nothing of it. */
struct said {
        char result[16]; /* done, refused, killed, guarded, "not tried" */
        char error[24];
        char evidence[768];
};
bool said_find(const struct buf *out, const char *name, struct said *ret);
