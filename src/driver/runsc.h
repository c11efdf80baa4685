/* Starting runsc (gVisor). Nothing of it is ever root on the host: it runs in a user namespace that maps the sandbox's
 * own ids, as do the processes that it starts (its kernel, the sentry, and the gofer that opens files for it). Its
 * network namespace is a new one, empty but for a link that the caller may make. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/err.h"

#define RUNSC_NETWORK "/proc/self/ns/net" /* for the bundle: the namespace that runsc is started in */
#define RUNSC_DEVICE  "eth0"              /* the far end of the link, in it */

struct runsc_start {
        const char *program;
        uint32_t id_base;
        uint32_t ids;
        bool networked;
        bool writable_root; /* others than the sentry have to see at once what is written there */
        unsigned mounts;    /* bind mounts of the bundle */
        bool parts;         /* without its `run` (runsc_by_parts) */
        bool attached;      /* it ends when the box does; otherwise once the box runs */
        int input;          /* standard input of the box's first process */
        int output;         /* standard output and error of runsc and of that process */
        /* Makes the link, in the namespace of the process that waits for it. NULL: there is none. */
        int (*link)(pid_t pid, struct err *err);
};

/* The program's path. */
int runsc_find(char ret[PATH_MAX], struct err *err);

/* "0.0~20221219.0". For the probe: the one thing that it is asked as whoever we are. */
int runsc_version(const char *program, char *ret, size_t size);

/* Can a bundle with so many bind mounts be started without `runsc run`? */
bool runsc_by_parts(const char *program, unsigned mounts);

/* Starts the bundle at STAGE_BUNDLE. *ret_pid is a child of ours: runsc itself. */
int runsc_start(const struct runsc_start *s, pid_t *ret_pid, struct err *err);

/* Waits until it has ended, at most so long, and kills it then: its wait status, or -ETIMEDOUT. */
int runsc_wait(pid_t pid, unsigned ms);

/* The last line that was said at the other end of a pipe, printable. */
void runsc_last_words(int fd, char *ret, size_t size);
