/* Putting a sandbox into a container that was just started: from outside, by descriptors, before anything of others'
 * runs in it. See join.c for the order. */
#pragma once

#include "cell/cgroup.h"
#include "driver/keeper.h"

/* The container's first process waits at this abstract socket of its network namespace. It gets JOIN_FDS
 * descriptors (the plan, the user namespace that it is to join, a pipe with the guest's secret in it), and then files
 * of the sandbox's cgroups; it answers with a pidfd of its own, and then says nothing and executes the guest, or
 * reports the step that failed (wire/report.h). */
#define JOIN_SOCKET  "stockade-inside"
#define JOIN_FDS     3
#define JOIN_CGROUPS (CGROUP_CONTROLLERS + 1)
#define JOIN_MS      15000 /* one waits for the other no longer than this */

struct join {
        const struct keeper_task *task;
        int process; /* O_PATH of the container's first process in the host's /proc */
        int network; /* its network namespace */
        int door;    /* a mount that is not attached, with the socket that the guest dials: goes to BOX_PLACE */
};

/* ret_end: a pidfd of that process. */
int join_container(const struct join *j, int *ret_end, struct err *err);
