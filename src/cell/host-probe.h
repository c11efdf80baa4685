/* What the probes share. A probe gets a fact with its name set and state FACT_OK, and says what it found. Private to
 * host*.c. */
#pragma once

#include "cell/host.h"

struct host_probe {
        const char *name;
        void (*run)(struct host_fact *f);
        bool needed_for_low;
};

/* Tables, one per file; each ends with a NULL name. */
extern const struct host_probe host_kernel_probes[];
extern const struct host_probe host_mount_probes[];
extern const struct host_probe host_guard_probes[];
extern const struct host_probe host_network_probes[];
extern const struct host_probe host_cgroup_probes[];
extern const struct host_probe host_driver_probes[];

/* Runs attempt in a child that is killed after five seconds. 0, or -errno as the child returned it. */
int host_try(int (*attempt)(void *argument), void *argument);

/* In such a child: new namespaces of these kinds. An ordinary user gets a user namespace first and is root in it. With
 * CLONE_NEWNS nothing that is mounted gets out. */
int host_unshare(int flags);

/* Maps this user to root in the user namespace that the process just entered. */
int host_map_self(unsigned uid, unsigned gid);

void host_say(struct host_fact *f, enum host_state state, const char *format, ...) _printf_(3, 4);
void host_cost(struct host_fact *f, const char *format, ...) _printf_(2, 3);
void host_fix(struct host_fact *f, const char *format, ...) _printf_(2, 3);

/* The usual fact: OK with this detail, or missing with the error, a cost and a fix. */
void host_judge(struct host_fact *f, int r, const char *detail, const char *cost, const char *fix);

/* A number from a file of /proc/sys, or -1. */
long host_sysctl(const char *path);
