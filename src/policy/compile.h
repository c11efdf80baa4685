/* Compiles a policy and the options of one run into a plan. Pure: reads nothing from the host, so that a compiled plan
 * can be kept and used again as long as its inputs are the same. What depends on the host (which paths exist, the
 * Landlock ABI, links) is decided by the cell, step by step. */
#pragma once

#include "policy/policy.h"
#include "wire/plan.h"

/* A host path that the caller shares with the sandbox beyond the policy. */
struct compile_share {
        const char *source; /* canonical host path */
        const char *path;   /* canonical path inside */
        bool writable;
};

struct compile_options {
        bool rootless;
        const char *guest;     /* host path of the guest program */
        const char *root;      /* host directory to use as root instead of the host's /usr; NULL: none */
        const char *workspace; /* host directory to be worked on copy-on-write at its own path; NULL: none */
        const char *cwd;       /* working directory inside, if it is visible there; NULL: the policy's workspace */
        const struct compile_share *shares;
        size_t share_count;
        const char *const *accepted; /* keys that may stay unenforced */
        size_t accepted_count;
        bool gate;  /* lead the network through the gate even if nothing can be reached: for learning */
        bool lives; /* a sandbox that the daemon keeps: time.run is of each run, and time.idle and time.lifetime count
                     */
        bool disk;  /* the workspace is on the sandbox's disk instead of in memory */
        bool image; /* the root is the sandbox's disk over its image, and the workspace is a folder of it */
};

/* The user inside. */
#define COMPILE_UID 1000
#define COMPILE_GID 1000

/* The disk that the plan of these options asks for. False: it asks for none (nothing of this policy outlives a stop).
 */
bool compile_disk(const struct policy *p, const struct compile_options *o, uint64_t *ret_size, uint64_t *ret_inodes);

int compile_plan(const struct policy *p, const uint8_t policy_hash[HASH_SIZE], const struct compile_options *o,
                 struct buf *ret, struct err *err);
