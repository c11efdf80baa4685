/* A machine in Firecracker, with what serves it. It is a struct machine as QEMU's is (vm-machine.h): what is told and
 * heard over its line, and how it ends, is the same. */
#pragma once

#include "driver/vm-machine.h"

struct fc_facts {
        const char *jailer, *program; /* jail_find */
        const char *files;            /* path of stockade-vm-files; for machines that have a tree */
        const char *id;               /* of the sandbox */
        const char *base;             /* a folder that is covered by Firecracker's root: not where the tree is */
        bool linked;                  /* it has a link to this network namespace */
};

/* Starts what serves the tree, and Firecracker through its jailer, and waits until the machine has connected its line.
 * The caller is real root in a mount namespace of its own, with a /proc of its pid namespace, and all of them die with
 * the thread that called, or with its pid namespace. On failure nothing is left. ret_release: of Firecracker; may be
 * NULL. */
int fc_machine_start(const struct machine_facts *f, const struct fc_facts *fc, struct machine *ret,
                     char ret_release[32], int timeout_ms, struct err *err);
