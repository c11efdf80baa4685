/* Profiles and policies, for everyone outside this folder.
 *
 * profile_load finds a profile, resolves what it extends and gives the policy; policy_set lays options of the command
 * line over it; policy_check looks at the whole; policy_enforceable says whether this build can keep the promise. All
 * four have to succeed before a policy is compiled. */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "policy/policy.h"

#define PROFILE_FILE_MAX    (256 * 1024) /* bytes of one profile */
#define PROFILE_EXTENDS_MAX 16           /* profiles in one chain */
#define PROFILE_SOURCES_MAX 64
#define PROFILE_SYSTEM_DIR  "/etc/stockade/profiles"

/* Everything that the result depends on, in the order in which it was looked at: files that were read, with the hash
 * of their bytes ("builtin:low" for those in the binary), and paths that were looked for and did not exist. A cached
 * plan is valid only while all of it is unchanged. The result also depends on the environment variables
 * STOCKADE_PROFILES, XDG_CONFIG_HOME and HOME, and, for relative paths, on the working directory. */
struct profile_source {
        char *path;
        bool absent;
        uint8_t hash[HASH_SIZE]; /* zeros when absent */
};

struct profile_sources {
        struct profile_source items[PROFILE_SOURCES_MAX];
        size_t count;
};

void profile_sources_free(struct profile_sources *s);
#define _cleanup_sources_ _cleanup_(profile_sources_free)

/* Where names are looked for. */
struct profile_search {
        const char *list;       /* folders with ':' between them, or NULL */
        const char *user_dir;   /* or NULL */
        const char *system_dir; /* the only place that can replace a built-in tier */
};

/* By name ("medium", "builtin:low") or by path (with '/' or ending in ".yaml"), as this process's environment says.
 * ret_sources may be NULL. Both results are the caller's to free. */
int profile_load(const char *name, struct policy *ret, struct profile_sources *ret_sources, struct err *err);
int profile_load_from(const struct profile_search *search, const char *name, struct policy *ret,
                      struct profile_sources *ret_sources, struct err *err);

/* The same for bytes in memory that may extend built-in profiles only. Opens no file. */
int profile_parse(const char *label, const char *data, size_t size, struct policy *ret, struct err *err);

struct profile_entry {
        char *name;
        char *source;  /* a path, or "builtin:NAME" */
        char *summary; /* the first comment of the file, or "" */
};

struct profile_list {
        struct profile_entry *items;
        size_t count;
};

/* Every profile that can be named, once each, where profile_load would find it; sorted, built-in names first. */
int profile_list(struct profile_list *ret, struct err *err);
int profile_list_from(const struct profile_search *search, struct profile_list *ret, struct err *err);
void profile_list_free(struct profile_list *l);

/* The built-in profiles, from profiles/ at build time. */
struct profile_builtin {
        const char *name;
        const char *data; /* a NUL follows */
        size_t size;
};
extern const struct profile_builtin profile_builtins[];
extern const size_t profile_builtin_count;

/* Lays one value over the policy: "limits.memory", "1GiB". Lists are separated by commas and replace or add as in a
 * profile; network.allow takes hosts and address blocks; "env.NAME" sets one variable. A sealed policy can only be
 * narrowed. *p is unchanged on failure. */
int policy_set(struct policy *p, const char *key, const char *value, struct err *err);

/* One more entry of network.allow, as --allow says it: "example.com", "*.example.com:8443", "203.0.113.0/24:5432". */
int policy_allow(struct policy *p, const char *text, struct err *err);

/* Rules that concern more than one key. */
int policy_check(const struct policy *p, struct err *err);

/* ERR_UNENFORCED, with the key, if the policy asks for what `stockade run` does not enforce. Keys in `accepted` pass
 * and are listed in *ret_missing (the caller frees it) if they were asked for. */
int policy_enforceable(const struct policy *p, const char *const *accepted, size_t accepted_count,
                       struct policy_strings *ret_missing, struct err *err);

/* The same for sandboxes that the daemon keeps, which have more: disks and images, idle time, snapshots. */
int policy_enforceable_by_daemon(const struct policy *p, const char *const *accepted, size_t accepted_count,
                                 struct policy_strings *ret_missing, struct err *err);

/* Every key that nobody enforces, and every key that the daemon alone does. The caller frees *ret. 0 or -ENOMEM. */
int policy_missing(const struct policy *p, struct policy_strings *ret);
int policy_only_daemon(const struct policy *p, struct policy_strings *ret);

/* How strong a driver's isolation is. */
enum policy_isolation policy_driver_level(const char *driver);

/* The same for equal policies, whatever the order of keys and the comments in their profiles. */
void policy_hash(const struct policy *p, uint8_t ret[HASH_SIZE]);

/* The whole policy as a profile that gives the same policy again; as YAML, and as a JSON object in the same notation
 * (key is NULL unless it stands in another object). 0 or -ENOMEM. */
int policy_print(const struct policy *p, struct buf *out);
int policy_print_json(const struct policy *p, struct json *j, const char *key);

/* Plain sentences for a reader who is no expert. */
int policy_explain(const struct policy *p, struct buf *out);
