/* Drivers: the ways to run a sandbox, and what each may promise. docs/protocol/driver.md is the contract. */
#pragma once

#include "base/macro.h"

enum driver {
        DRIVER_NATIVE, /* the cell */
        DRIVER_DOCKER,
        DRIVER_GVISOR,
        DRIVER_MICROVM,
        DRIVER_FIRECRACKER,
        DRIVER_COUNT,
};

/* What a driver's probe says about itself, one by one. */
enum guarantee {
        GUARANTEE_PROCESS,   /* processes inside see and reach nothing outside */
        GUARANTEE_FILES,     /* the tree is the plan's, read-only where the plan says so */
        GUARANTEE_QUOTA,     /* hard limits on bytes and inodes of every writable place */
        GUARANTEE_NETWORK,   /* the gate is the only way out */
        GUARANTEE_CPU,       /* limits.cpus, budget.cpu */
        GUARANTEE_MEMORY,    /* limits.memory */
        GUARANTEE_IO,        /* limits.disk */
        GUARANTEE_PROCESSES, /* limits.processes */
        GUARANTEE_EXEC,      /* tools.exec */
        GUARANTEE_SECRETS,   /* values stay outside */
        GUARANTEE_SNAPSHOTS, /* disks can be sealed, copied and moved */
        GUARANTEE_FREEZE,    /* pause and unpause */
        GUARANTEE_COUNT,
};

/* What a probe has, whoever asks it: one that boots a machine is done by then, emulated and on a busy host. */
#define DRIVER_PROBE_MS 75000
/* What a machine has from its start until its guest serves: it may be emulated, and one of several that start. */
#define DRIVER_MACHINE_MS 60000

const char *driver_name(enum driver d);
int driver_find(const char *name); /* -ENOENT */
const char *guarantee_name(enum guarantee g);
int guarantee_find(const char *name); /* -ENOENT */
