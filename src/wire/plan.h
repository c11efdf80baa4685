/* A plan: a policy compiled into a flat list of kernel steps. Data, not code.
 *
 * The policy compiler writes it, plan_check reads it whole before anything is created, and the cell executes it step
 * by step between clone and exec with plan_next, which neither allocates nor fails on a checked plan. One table in
 * plan.c says, for every operation, its fields, the phase it belongs to, and whether it must be there: printing,
 * checking and reading all follow that table.
 *
 * Layout: magic, size, policy hash, then steps: op (u16), flags (u16), fields in table order. */
#pragma once

#include "base/hash.h"
#include "wire/wire.h"

#define PLAN_MAX_SIZE  (256 * 1024)
#define PLAN_MAX_STEPS 2048

/* Phases run in this order; a plan whose steps go back to an earlier phase is refused. */
enum plan_phase {
        PHASE_OUTSIDE, /* read by whoever starts the sandbox: limits, time, environment */
        PHASE_MOUNT,   /* as owner of the mount namespace: build the tree */
        PHASE_ENTER,   /* give up the host: pivot, ids, capabilities */
        PHASE_CONFINE, /* no-new-privileges, Landlock, seccomp */
        PHASE_EXEC,
};

enum plan_op {
        OP_PROFILE, /* name */
        OP_LIMIT,   /* key, value: limits.memory, time.run, budget.cpu, … */
        OP_ACCEPT,  /* key that the caller accepted as not enforced */
        OP_ENV,     /* NAME=value */
        OP_CWD,     /* path */
        OP_USER,    /* uid and gid inside */
        OP_REACH,   /* rules of the gate (wire/rules.h): what can be reached over the network */
        OP_SECRET,  /* name of a secret that the gate puts in */

        OP_HOSTNAME,
        OP_ROOT_TMPFS,   /* size, inodes */
        OP_ROOT_BIND,    /* host directory, read-only */
        OP_ROOT_OVERLAY, /* host directory, copy-on-write: size, inodes */
        OP_ROOT_DISK,    /* the sandbox's disk over its image: size, inodes */
        OP_DIR,          /* path, mode */
        OP_LINK,         /* path, target */
        OP_FILE,         /* path, content */
        OP_COPY,         /* path: a copy of the host's small file, if it has one */
        OP_LIKE_HOST,    /* path: the same symbolic link as on the host, or a read-only bind of the directory */
        OP_BIND,         /* host path, path inside */
        OP_TMPFS,        /* path, size, inodes, mode */
        OP_DISK,         /* path, size, inodes: the sandbox's disk appears here */
        OP_OVERLAY,      /* host directory, path inside, size, inodes: a copy-on-write view */
        OP_PROC,         /* path */
        OP_LOOPBACK,     /* 127.0.0.1 and ::1 answer inside, and nothing else does */
        OP_NETWORK,      /* path: every way out leads to sockets that are handed out; what the gate says appears below
                            the path */
        OP_DEVPTS,       /* path */
        OP_PROGRAM,      /* path of a program or directory that keeps its right to be executed, links followed */
        OP_MASK,         /* path: nothing to see there, if it exists */
        OP_HIDE,         /* path: nothing to see there, and nothing can be made there */

        OP_PIVOT,      /* the new tree becomes the root, the host's is detached */
        OP_READONLY,   /* path: its mount becomes read-only */
        OP_SESSION,    /* own session, keyring */
        OP_NO_NESTING, /* user.max_user_namespaces = 0 inside */
        OP_IDS,        /* join the user namespace, become the user */
        OP_CAPS,       /* drop every capability and the bounding set */

        OP_NO_NEW_PRIVS,
        OP_LANDLOCK,      /* begin a ruleset: handled rights, needed ABI */
        OP_LANDLOCK_RULE, /* path, rights */
        OP_LANDLOCK_END,
        OP_RLIMIT,  /* resource, value; after everything that opens descriptors */
        OP_SECCOMP, /* program */

        OP_EXEC, /* the guest */
        OP_COUNT,
};

/* Flags of steps. */
enum {
        STEP_OPTIONAL = 1 << 0, /* the host may lack the path */
        STEP_WRITE = 1 << 1,    /* bind: writable; otherwise read-only */
        STEP_NOEXEC = 1 << 2,
        STEP_DEVICE = 1 << 3, /* bind: a device node */
        STEP_OWNED = 1 << 4,  /* bind, overlay: the owner of the host path appears as the user; dir: made for the user,
                                 if it is not there */
        STEP_WATCH = 1 << 5,  /* tmpfs, overlay, disk: report when it is full */
        STEP_EXACT = 1 << 7,  /* bind, overlay: no symbolic link on the way to the host path */
        STEP_UNLINKED = 1 << 6, /* rule: only if the path is not a symbolic link */
        STEP_REPLACE = 1 << 9,  /* file: in the place of one that a tree of others' has there */
        STEP_TRUST = 1 << 8,    /* network: the gate opens TLS, so its authority is trusted inside */
};

struct plan_step {
        enum plan_op op;
        uint16_t flags;
        const char *text[2];
        uint64_t number[3];
        const void *blob;
        size_t blob_size;
        unsigned index; /* position in the plan, for reports */
};

struct plan {
        const uint8_t *bytes;
        size_t size;
        const uint8_t *policy_hash; /* HASH_SIZE bytes */
};

/* Writing. plan_begin, steps in order, plan_end. plan_add takes fields in table order: const char * for text, uint64_t
 * for numbers, (const void *, size_t) for a blob. */
void plan_begin(struct buf *b, const uint8_t policy_hash[HASH_SIZE]);
void plan_add(struct buf *b, enum plan_op op, unsigned flags, ...);
void plan_add_step(struct buf *b, const struct plan_step *s); /* one that was read from a checked plan, or like it */
int plan_end(struct buf *b, struct err *err);

/* Reads the whole plan: sizes, known operations, order of phases, mandatory steps, flags, paths in canonical form.
 * Nothing may use a plan that did not pass. */
int plan_check(const void *bytes, size_t size, struct plan *ret, struct err *err);

/* Walks a checked plan. Start with a zeroed struct plan_walk. Returns false after the last step. */
struct plan_walk {
        struct wire wire;
        unsigned index;
};
bool plan_next(const struct plan *p, struct plan_walk *walk, struct plan_step *ret);

const char *plan_op_name(enum plan_op op);
enum plan_phase plan_op_phase(enum plan_op op);

/* One line for a person: "bind           /usr → /usr (read-only)". */
void plan_print_step(const struct plan_step *s, struct buf *out);
