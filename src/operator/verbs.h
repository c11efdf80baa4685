/* The table of verbs: what each may be asked with, who may ask, and who answers. Requests are checked against it before
 * anything else looks at them, and it is here, and only here, that it is decided whose things a request is about. */
#pragma once

#include "base/json.h"
#include "operator/call.h"

struct frozen;

enum field_kind {
        FIELD_TEXT,   /* at most `most` bytes */
        FIELD_NAME,   /* of a new thing: letters, digits, '.', '_', '-'; not sixteen hexadecimal digits */
        FIELD_PATH,   /* inside a sandbox: absolute */
        FIELD_NUMBER, /* from `least` to `most` */
        FIELD_BOOL,
        FIELD_TEXTS,    /* array of at most `most` texts */
        FIELD_PAIRS,    /* object of at most `most` texts */
        FIELD_SANDBOX,  /* id or name; found, and the asker's */
        FIELD_SNAPSHOT, /* likewise */
        FIELD_KEY,
        FIELD_OWNER, /* only for whoever acts for all */
};

struct field {
        const char *name;
        enum field_kind kind;
        bool needed;
        uint64_t least, most;
};

enum {
        VERB_ADMIN = 1 << 0,      /* only for whoever acts for all */
        VERB_GRAVE = 1 << 1,      /* a sandbox or snapshot that was deleted: {} */
        VERB_FRONT = 1 << 2,      /* for those who come by the SSH door, too: about the one sandbox that is theirs */
        VERB_FRONT_ONLY = 1 << 3, /* for nobody else */
};

/* What the asker may know of, by id or name; NULL: nothing, or not his. */
struct sandbox *verbs_sandbox(struct call *c, const char *text);
struct snapshot *verbs_snapshot(struct call *c, const char *text);

/* In instance mode there is one sandbox, and only whoever is root on this host, or we ourselves, makes others. True:
 * the call was refused. */
bool verbs_is_instance(struct call *c);

/* The array of a sandbox's runs with numbers below `before`, newest first. */
int verbs_list_runs(struct sandbox *s, struct json *j, const char *key, uint64_t before, unsigned max, struct err *err);

#define VERB_FIELDS 12

struct verb {
        const char *name;
        void (*run)(struct call *c);
        unsigned flags;
        struct field fields[VERB_FIELDS];
};

/* verbs-life.c */
void verb_ping(struct call *c);
void verb_health(struct call *c);
void verb_down(struct call *c);
void verb_create(struct call *c);
void verb_list(struct call *c);
void verb_pause(struct call *c);
void verb_unpause(struct call *c);
void verb_stop(struct call *c);
void verb_resume(struct call *c);
void verb_delete(struct call *c);
void verb_quarantine(struct call *c);
void verb_policy(struct call *c);
void verb_secret(struct call *c);
/* usage.c */
void verb_show(struct call *c);
void verb_usage(struct call *c);
/* verbs-run.c */
void verb_exec(struct call *c);
void verb_attach(struct call *c);
void verb_logs(struct call *c);
void verb_signal(struct call *c);
void verb_cancel(struct call *c);
void verb_runs(struct call *c);
/* verbs-live.c */
void verb_input(struct call *c);
void verb_resize(struct call *c);
void verb_secrets(struct call *c);
void verb_secret_wipe(struct call *c);
void verb_sign_in(struct call *c);
/* verbs-ssh.c */
void verb_ssh_check(struct call *c);
void verb_ssh_key_add(struct call *c);
void verb_ssh_key_remove(struct call *c);
void verb_ssh_keys(struct call *c);
/* fork.c */
void verb_fork(struct call *c);
/* verbs-ledger.c */
void verb_evidence(struct call *c);
void verb_checkpoint(struct call *c);
/* usage-history.c */
void verb_usage_history(struct call *c);
void verb_usage_recent(struct call *c);
/* verbs-web.c */
void verb_profiles(struct call *c);
void verb_profile_schema(struct call *c);
void verb_profile_check(struct call *c);
/* verbs-web-audit.c */
void verb_events_search(struct call *c);
void verb_gate_names(struct call *c);
/* verbs-web-policy.c */
void verb_policy_show(struct call *c);
void verbs_policy_answer(struct call *c, const struct frozen *f); /* what it would be for the sandbox with f */
/* verbs-host.c */
void verb_owners(struct call *c);
void verb_pool(struct call *c);
void verb_load(struct call *c);
/* snapshot-files.c */
void verb_snapshot_stat(struct call *c);
void verb_snapshot_ls(struct call *c);
void verb_snapshot_get(struct call *c);
/* paper.c */
void verb_doctor(struct call *c);
void verb_verify(struct call *c);
void verb_verify_page(struct call *c);
/* verbs-disk.c */
void verb_snapshot(struct call *c);
void verb_snapshots(struct call *c);
void verb_snapshot_delete(struct call *c);
void verb_rollback(struct call *c);
void verb_diff(struct call *c);
void verb_export(struct call *c);
void verb_import(struct call *c);
void verb_images(struct call *c);
void verb_image_import(struct call *c);
void verb_image_remove(struct call *c);
