/* A frozen policy with its plan: what a sandbox, its snapshots and their forks carry with them. Made once per content
 * and shared by everything that has the same; given back with frozen_unref.
 *
 * Compiling happens here, in the operator's own cell, from built-in profiles, those of the system, or a profile's text
 * that a client sent. What this host and this build cannot enforce is refused (ERR_UNENFORCED), never left out. */
#pragma once

#include "base/hash.h"
#include "operator/operator.h"
#include "operator/table.h"
#include "policy/profile.h"
#include "wire/gate.h"
#include "wire/plan.h"

#define FROZEN_UNSET UINT64_MAX

struct frozen {
        struct core *o;
        struct table_node node;   /* by key */
        char key[HASH_TEXT_SIZE]; /* hash of policy and plan */
        unsigned refs;
        char *policy; /* YAML; a NUL follows */
        size_t policy_size;
        uint8_t *bytes; /* the plan */
        size_t size;
        struct plan plan; /* checked */
        int memfd;        /* the plan, sealed; made at the first start */

        unsigned at_least;   /* enum policy_isolation */
        const char **prefer; /* drivers */
        size_t prefer_count;
        uint32_t needs; /* bits of enum guarantee */
        char profile[STORE_NAME];
        char image[STORE_NAME]; /* what the policy names, or "" */
        uint64_t cpus, memory, output, time_run, time_idle, time_lifetime, budget_cpu; /* FROZEN_UNSET: no limit */
        bool snapshot_on_stop;
        struct gate_limits gate;
        const void *rules; /* of the plan; NULL: no network */
        size_t rules_size;
        bool trust; /* the gate opens TLS: its authority has to be inside */
        const char *cwd;
        const char **env; /* NAME=value, in the plan; ends with NULL */
        const char **secrets;
        size_t secret_count;
        bool disk, image_root; /* asks for a disk; over an image */
        const char *disk_path; /* where it is inside; NULL: there is none */
        uint64_t disk_size, disk_inodes;
};

struct frozens;
int frozens_open(struct core *o, struct err *err);
void frozens_close(struct core *o);

/* What a client asks for. */
enum { FROZEN_SET_MAX = 64, FROZEN_ALLOW_MAX = 64 };

struct frozen_request {
        const char *profile; /* a name; NULL: the configured one */
        const char *text;    /* or a profile's text */
        size_t text_size;
        struct {
                const char *key, *value;
        } set[FROZEN_SET_MAX];
        size_t set_count;
        const char *allow[FROZEN_ALLOW_MAX];
        size_t allow_count;
        const char *image; /* a name; NULL: the policy's */
        bool memory_only;
};
int frozen_compile(struct core *o, const struct frozen_request *q, struct frozen **ret, struct err *err);

/* The steps before it: which profiles there are, and the policy that is asked for, before it is checked as a whole. */
int frozen_profiles(struct core *o, struct profile_list *ret, struct err *err);
int frozen_resolve(struct core *o, const struct frozen_request *q, struct policy *ret, struct profile_sources *sources,
                   struct err *err);

/* From the store. */
int frozen_load(struct core *o, const void *policy, size_t policy_size, const void *plan, size_t plan_size,
                struct frozen **ret, struct err *err);

/* The same policy with more of the network allowed, or with what `allow` lists alone. The rest of the plan is as it
 * was. */
int frozen_allow(struct core *o, const struct frozen *f, const char *const *allow, size_t count, bool replace,
                 struct frozen **ret, struct err *err);

struct frozen *frozen_ref(struct frozen *f);
void frozen_unref(struct frozen *f);
int frozen_memfd(struct frozen *f, struct err *err); /* stays f's */
