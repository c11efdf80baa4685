/* A policy: a profile with everything it extends resolved and checked. Plain data; the parser fills it, the compiler
 * reads it, nobody else changes it.
 *
 * Numbers are in the units of text_parse (bytes, milliseconds, thousandths of a processor, cents). UNSET means that no
 * profile in the chain said anything: no limit of that kind was asked for. Lists keep the order of the profile. */
#pragma once

#include "base/err.h"

#define POLICY_UNSET    UINT64_MAX
#define POLICY_LIST_MAX 256 /* entries in any one list */

enum policy_isolation {
        ISOLATION_CONTAINER,
        ISOLATION_GVISOR,
        ISOLATION_MICROVM,
        ISOLATION_TEE,
};

enum policy_root {
        ROOT_NONE,       /* nobody inside is root */
        ROOT_NAMESPACED, /* an inner root over its own tree */
};

struct policy_strings {
        char **items;
        size_t count;
};

/* A writable place with its own size: the workspace, or an entry of files.write. */
struct policy_place {
        char *path;
        uint64_t size;   /* bytes; UNSET: the compiler's default */
        uint64_t inodes; /* UNSET: the compiler's default */
};

/* One entry of network.allow. Either host or cidr is set. */
struct policy_reach {
        char *host;
        char *cidr;
        uint16_t ports[16];
        size_t port_count; /* 0: the default, 80 and 443; a single port 0: any */
        bool private;      /* may resolve to a private address */
        bool inspect;      /* terminate TLS even without methods, paths or secret */
        struct policy_strings methods;
        struct policy_strings paths;
        char *secret;
};

struct policy_variable {
        char *name;
        char *value;
};

struct policy {
        char *name;
        bool sealed; /* children may only narrow */

        enum policy_isolation at_least;
        struct policy_strings prefer;

        struct {
                struct policy_place workspace; /* path NULL: no workspace */
                struct policy_strings read;
                struct policy_place *write;
                size_t write_count;
                struct policy_strings hide;
        } files;

        struct {
                struct policy_reach *allow;
                size_t allow_count;
        } network;

        struct {
                bool exec_set; /* false: any program that is visible; true: only those listed, even if none is */
                struct policy_strings exec; /* programs, or directories whose programs are all allowed */
                struct policy_strings call;
                struct policy_strings ask;
        } tools;

        struct {
                uint64_t cpus, memory, processes, files, disk_read, disk_write, output;
                uint64_t connections, lookups, bandwidth;
        } limits;

        struct {
                uint64_t run, idle, lifetime;
        } time;

        struct {
                uint64_t tokens, cpu, egress, cost_usd;
        } budget;

        struct {
                bool exec;
                struct policy_strings snapshot;
        } record;

        char *image;
        struct {
                char *name;
                enum policy_root root;
        } user;
        struct policy_variable *env;
        size_t env_count;
        struct policy_strings secrets;
        struct policy_strings devices;
        uint64_t shm;
};

/* An empty policy: nothing granted, no limit set. policy_free also takes a zeroed one, and leaves an empty one. */
void policy_init(struct policy *p);
void policy_free(struct policy *p);
#define _cleanup_policy_ _cleanup_(policy_free)

int policy_copy(const struct policy *p, struct policy *ret); /* 0 or -ENOMEM */

/* Every writable place with the size that applies to it: the entries of files.write, where one at the workspace's path
 * takes the workspace's sizes if it has none, and the workspace if no entry has its path. The strings stay p's. */
#define POLICY_PLACES_MAX (POLICY_LIST_MAX + 1)
size_t policy_places(const struct policy *p, struct policy_place ret[POLICY_PLACES_MAX]);

/* Adds the workspace to files.write unless an entry covers it. 0, -ENOMEM, -E2BIG. */
int policy_settle(struct policy *p);

void policy_strings_free(struct policy_strings *s);
int policy_strings_add(struct policy_strings *s, const char *text); /* copies text; 0, -ENOMEM, -E2BIG */
bool policy_strings_has(const struct policy_strings *s, const char *text);
