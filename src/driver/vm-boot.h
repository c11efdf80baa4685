/* A microVM from its kernel's first process on: drivers, file systems, limits. Everything here happens once, as root of
 * the machine, before anything of the sandbox's runs. */
#pragma once

#include "cell/cell.h"
#include "driver/vm-carry.h"
#include "driver/vm-stream.h"

#define VM_DISK          "/dev/vda"
#define VM_MODULES       "/modules"
#define VM_MODULES_VSOCK "/modules-vsock"

/* Loads what the initial archive has in a folder, in the order of names. */
int vm_boot_modules(const char *folder, struct err *err);

/* /dev, /proc and cgroups of the machine's own. */
int vm_boot_mounts(struct err *err);

/* The clock, to less than the second that a machine is told when it boots (files have the host's times), and random
 * numbers that do not depend on what the machine's processor says of itself. */
int vm_boot_fresh(const struct carry_fresh *f, struct err *err);

/* The tree from outside becomes "/", with the machine's own /dev and /proc in it. live: also below VM_LIVE, as it is at
 * every moment. Returns a mount of the tree itself that is not attached. */
int vm_boot_root(enum vm_streams streams, bool live, struct err *err);

/* The disk as a mount that is not attached, for OP_DISK. */
int vm_boot_disk(struct err *err);

/* A cgroup for the sandbox with the plan's limits on memory and processes, so that one that exceeds them is stopped by
 * its own kernel, and the machine lives on. */
int vm_boot_cgroup(const struct plan *p, struct cgroup *ret, struct err *err);

/* The link, if the machine has one: moved into the sandbox's network namespace and set up there. */
int vm_boot_link(pid_t sandbox, struct err *err);
