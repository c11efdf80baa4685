/* The parts of runsc without `runsc run`: its gofer and its sentry, each executed once, in roots that are made here.
 *
 * `runsc run` starts six programs of 24 MB, of which two stay: it executes both parts twice, first to make an empty
 * root and to give up rights, and a third one to unmount a /proc. What those do is done here, and no more is let stay:
 * the gofer is root of the sandbox's ids with six capabilities, the sentry nobody of a user namespace with that one id
 * and without capabilities, each in an empty root. How the parts are started and asked is their own affair and not
 * promised to anybody, so this is for the one build that it was written for and tried with; any other is started by its
 * `run`. */
#pragma once

#include <stdbool.h>

#include "base/macro.h"

/* Is this program that build? */
bool parts_known(const char *program);

#define PARTS_MOUNTS_MAX 128 /* two descriptors each */

struct parts_start {
        const char *program;
        const char *const *options; /* of runsc itself, before the command; ends with NULL */
        const char *link;           /* device of the box's link, in the network namespace that we are in; NULL: none */
        unsigned mounts;            /* bind mounts of the bundle: a connection to the gofer each, besides the root's */
};

/* In the child of runsc_start, as root of the namespaces that it is in: starts both, tells the sentry to run the
 * bundle's process, writes STAGE_PID and ends with 0; otherwise with a sentence on standard error. */
_noreturn_ void parts_run(const struct parts_start *s);
