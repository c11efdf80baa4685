/* The gate's own cell: what it can still do after this is talk on sockets and use memory.
 *
 * An empty read-only root, mount, ipc and uts namespaces of its own (rootless: in a user namespace), no capability, an
 * unprivileged id, no way to get more, Landlock without a single right, and a list of allowed system calls. Every step
 * is done or the gate does not start; a kernel without Landlock is the one exception, because the empty root already
 * says the same. */
#pragma once

#include "base/err.h"

struct confine {
        uint32_t uid, gid; /* 0: stay what we are, which must not be root */
};

int confine(const struct confine *c, struct err *err);

/* confine-calls.c: allows the system calls that the gate needs, and no others. The last step. */
int confine_calls(struct err *err);
