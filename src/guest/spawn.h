/* Starting a run's process: in a session of its own, in its cgroup leaf, with nothing of ours but its three streams. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "wire/guest.h"

struct spawned {
        pid_t pid;
        int in;       /* to write to, or -EBADF; never waits, as the others */
        int out, err; /* to read from; -EBADF with a terminal */
        int terminal; /* the master's side, or -EBADF */
        int outcome;  /* for spawn_outcome; readable when that is known */
};

/* exec is a checked GUEST_EXEC. leaves are files that the process writes "0" to, itself, before anything of the run is
 * executed: if it cannot, there is no run; likewise for the family (family.h) that it joins if family is set. 0: there
 * is a process that will execute it, or say why it cannot; its parent reaps it. Or -errno, and then nothing is left. */
int spawn(const struct guest_message *exec, const int *leaves, size_t leaf_count, bool family, struct spawned *ret,
          struct err *err);

enum { SPAWN_EXECUTES, SPAWN_WAITS };

/* How far it is; -errno: it could not, and ends by itself. A process that was killed before counts as one that
 * executes: it ends like one. Does not wait; the process may be kept from going on for as long as somebody inside
 * likes. */
int spawn_outcome(int fd, struct err *err);
