/* A plan in the words of an OCI runtime: config.json for a tree that the cell has built already.
 *
 * The runtime's kernel has mounts of its own, and what they do not say it does not know: that the host refuses a write
 * or an execution below is the second wall, not the first. So every place of the plan whose rights differ from what is
 * around it becomes a mount of the bundle, bound from the tree onto itself. Every step of a plan is either translated
 * here, or done in the tree, or known to be replaced by the box, or refused with a sentence. */
#pragma once

#include "base/buf.h"
#include "wire/plan.h"

#define OCI_CONFIG_MAX (512 * 1024)

struct oci_options {
        int tree;              /* a descriptor of the tree's root: what the host lacked is not in it */
        const char *tree_path; /* where the runtime finds it */
        const char *network;   /* path of the network namespace that the box is in; NULL: one of its own */
        char *const *args;     /* what is PID 1 in the box */
        uint64_t ids;          /* so many ids, from 0 on, are the same in the box as around the runtime */
};

struct oci_bundle {
        /* The box's kernel takes its root for writable. A root that others filled is left to the host to refuse writes
         * to: to have the runtime make it read-only, it would have to lose other flags first (stage.h). */
        bool writable_root;
        unsigned binds; /* mounts from the tree */
};

int oci_config(const struct plan *p, const struct oci_options *o, struct buf *out, struct oci_bundle *ret,
               struct err *err);
