/* Leaves for the runs of a machine's sandbox: see wire/leaf.h. */
#pragma once

#include <sys/types.h>

#include "cell/cgroup.h"

/* Starts a process that answers the guest on this socket, for as long as the guest has its end of it. It is the
 * machine's root, outside of everything that the sandbox can name. user: who enters leaves, as the machine numbers it.
 * Returns its pid or -errno. */
int vm_leaves_serve(int socket, const struct cgroup *sandbox, uid_t user);
