/* `stockade create` and `stockade fork`: a sandbox that lives until it is deleted. What is printed is its id alone, so
 * that a script can keep it.
 *
 * A fork is of a snapshot, or of a sandbox as it is now. Which one a word means, the daemon knows: it is asked for a
 * snapshot of that name first, and where there is none, for a sandbox. */
#include "cli/client.h"
#include "cli/tell.h"

struct options {
        struct args_common common;
        const char *profile, *name, *image, *driver, *owner, *key;
        struct args_list set, allow, secrets;
        bool memory_only;
};
#define AT(field) offsetof(struct options, field)

#define NAME_ROW                                                                                                       \
        { "name", 'n', "NAME", "a name for it, unique among yours", ARGS_TEXT, AT(name) }
#define SECRET_ROW                                                                                                     \
        {                                                                                                              \
                "secret", 0, "NAME[=@FILE]", "a secret for the gate to put in: the variable, or a file", ARGS_LIST,    \
                        AT(secrets)                                                                                    \
        }
#define DRIVER_ROW                                                                                                     \
        { "driver", 0, "D", "how it is isolated: native, docker, gvisor, microvm, firecracker", ARGS_TEXT, AT(driver) }
#define OWNER_ROW                                                                                                      \
        { "owner", 0, "OWNER", "for somebody else, as uid:1000 (root)", ARGS_TEXT, AT(owner) }
#define KEY_ROW                                                                                                        \
        { "key", 0, "TEXT", "idempotency: the same key again gives the same sandbox", ARGS_TEXT, AT(key) }

static const struct args_option create_options[] = {
        {"profile", 'p', "P", "profile by name, or a file (default: the daemon's)", ARGS_TEXT, AT(profile), NULL,
         WHAT_PROFILE},
        NAME_ROW,
        {"image", 'i', "IMAGE", "what its tree is made of instead of the host's /usr", ARGS_TEXT, AT(image), NULL,
         WHAT_IMAGE},
        DRIVER_ROW,
        {"memory-only", 0, NULL, "no disk: its files are gone when it stops", ARGS_FLAG, AT(memory_only)},
        {"allow", 'a', "HOST[:PORT]", "let it reach HOST (ports 80 and 443 if none is named)", ARGS_LIST, AT(allow)},
        SECRET_ROW,
        {"memory", 'm', "SIZE", "memory limit, such as 512MiB", ARGS_SET, AT(set), "limits.memory"},
        {"cpus", 0, "N", "processors, such as 0.5", ARGS_SET, AT(set), "limits.cpus"},
        {"processes", 0, "N", "processes and threads", ARGS_SET, AT(set), "limits.processes"},
        {"size", 0, "SIZE", "size of its disk", ARGS_SET, AT(set), "files.workspace.size"},
        {"set", 0, "KEY=VALUE", "set any key of the profile", ARGS_LIST, AT(set)},
        OWNER_ROW,
        KEY_ROW,
};

const struct args_verb create_verb = {
        .name = "create",
        .words = "",
        .summary = "make a sandbox that lives until it is deleted",
        .about = "Makes a sandbox and starts it; prints its id. It goes on when the daemon ends or dies, and keeps its "
                 "disk when it is stopped. What it may do is its profile's affair: see stockade.profile(5).",
        .flags = ARGS_JSON,
        .options = create_options,
        .count = ELEMENTSOF(create_options),
};

static const struct args_option fork_options[] = {NAME_ROW, DRIVER_ROW, SECRET_ROW, OWNER_ROW, KEY_ROW};

const struct args_verb fork_verb = {
        .name = "fork",
        .words = "SNAPSHOT|SANDBOX",
        .summary = "make a sandbox that begins with the disk of a snapshot, or of another",
        .about =
                "Makes another sandbox whose disk begins as the snapshot was, or as the sandbox is now; prints its id. "
                "It has the same policy, an identity of its own, and no secrets but those that are given here. What "
                "the fork of a snapshot costs does not depend on how large the disk is; a sandbox that runs is paused "
                "while its disk is copied. A name that both have means the snapshot.",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_ORIGIN},
        .options = fork_options,
        .count = ELEMENTSOF(fork_options),
};

/* ret_missing: becomes true, and nothing is said, where there is no such snapshot. */
static int make(struct options *o, const char *snapshot, bool *ret_missing) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct err err = {0};
        const char *result;

        talk_begin(&q, "create");
        int r = client_profile(&q, o->profile, &err);
        talk_str(&q, "name", o->name);
        talk_str(&q, "image", o->image);
        talk_str(&q, "snapshot", snapshot);
        talk_str(&q, "driver", o->driver);
        talk_str(&q, "owner", o->owner);
        talk_str(&q, "key", o->key);
        if (o->memory_only)
                json_bool(&q.json, "memory_only", true);
        talk_list(&q, "allow", o->allow.items, o->allow.count);
        if (r == 0)
                r = client_pairs(&q, "set", "set", &o->set, false, &err);
        if (r == 0)
                r = client_secrets(&q, "secrets", "--secret", &o->secrets, &err);
        if (r == 0)
                r = talk_ask(&t, &o->common, &q, &result, &err);
        if (r < 0 && ret_missing && str_eq(t.code, "not_found")) {
                *ret_missing = true;
                return 0;
        }
        return r < 0 ? talk_failed(&t, &o->common, &err) : client_id(&o->common, result);
}

int cmd_create(int argc, char **argv) {
        struct options o = {0};
        int status;

        return client_begin(&create_verb, &argc, argv, &o, &status) ? make(&o, NULL, NULL) : status;
}

/* Of a sandbox as it is now. */
static int fork_sandbox(const struct options *o, const char *sandbox) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct err err = {0};
        const char *result;
        int r = 0;

        talk_begin(&q, "fork");
        talk_str(&q, "sandbox", sandbox);
        talk_str(&q, "name", o->name);
        talk_str(&q, "driver", o->driver);
        talk_str(&q, "key", o->key);
        if (o->secrets.count > 0 || o->owner) {
                r = err_set(&err, ERR_INPUT, "there is no snapshot '%.64s', and --secret and --owner are for these",
                            sandbox);
                (void)err_hint(&err, "make one of the sandbox first: stockade snapshot %.64s", sandbox);
        }
        if (r == 0)
                r = talk_ask(&t, &o->common, &q, &result, &err);
        if (r < 0 && str_eq(t.code, "not_found")) {
                (void)err_set(&err, ERR_REFUSED, "there is no snapshot and no sandbox '%.64s'", sandbox);
                (void)err_hint(&err, "'stockade snapshots' and 'stockade list' show those that there are");
        }
        return r < 0 ? talk_failed(&t, &o->common, &err) : client_id(&o->common, result);
}

int cmd_fork(int argc, char **argv) {
        struct options o = {0};
        bool missing = false;
        int status;

        if (!client_begin(&fork_verb, &argc, argv, &o, &status))
                return status;
        status = make(&o, argv[1], &missing);
        return missing ? fork_sandbox(&o, argv[1]) : status;
}
