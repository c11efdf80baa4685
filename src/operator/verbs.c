/* Dispatch: a request becomes a call. Unknown verbs and fields, wrong kinds, missing fields and other people's things
 * are refused here, each with the field and what would be right. */
#include "operator/verbs.h"

#include <signal.h>
#include <stdio.h>

#include "base/text.h"
#include "operator/events.h"
#include "operator/files.h"
#include "operator/snapshot.h"
#include "operator/ssh-door.h"

#define SANDBOX                                                                                                        \
        { "sandbox", FIELD_SANDBOX, true }
#define KEY                                                                                                            \
        { "key", FIELD_KEY }
#define PATH                                                                                                           \
        { "path", FIELD_PATH, true }
#define RUN                                                                                                            \
        { "run", FIELD_NUMBER, true, 1, UINT32_MAX }
#define BOOL(name)                                                                                                     \
        { name, FIELD_BOOL }
#define TEXT(name, size)                                                                                               \
        { name, FIELD_TEXT, false, 0, size }
#define NUMBER(name, most)                                                                                             \
        { name, FIELD_NUMBER, false, 0, most }
#define EXTENT(name, needed)                                                                                           \
        { name, FIELD_NUMBER, needed, 1, LOCAL_EXTENT_MAX }

#define FILE_VERB(verb, guest)                                                                                         \
        static void verb_##verb(struct call *c) {                                                                      \
                files_begin(c, guest);                                                                                 \
        }
FILE_VERB(put, GUEST_WRITE)
FILE_VERB(get, GUEST_READ)
FILE_VERB(tar_in, GUEST_TAR_IN)
FILE_VERB(tar_out, GUEST_TAR_OUT)
FILE_VERB(ls, GUEST_LIST)
FILE_VERB(stat, GUEST_STAT)
FILE_VERB(mkdir, GUEST_MKDIR)
FILE_VERB(mv, GUEST_MOVE)
FILE_VERB(rm, GUEST_REMOVE)
FILE_VERB(watch, GUEST_WATCH)
FILE_VERB(connect, GUEST_CONNECT)
FILE_VERB(processes, GUEST_PROCESSES)

static const struct verb verbs[] = {
        {"ping", verb_ping},
        {"health", verb_health},
        {"down", verb_down, VERB_ADMIN, {BOOL("stop")}},
        {"create", verb_create,
         .fields = {TEXT("profile", 64),
                    TEXT("profile_text", 64 * 1024),
                    {"name", FIELD_NAME},
                    {"set", FIELD_PAIRS, .most = 64},
                    {"allow", FIELD_TEXTS, .most = 64},
                    TEXT("image", 64),
                    {"snapshot", FIELD_SNAPSHOT},
                    BOOL("memory_only"),
                    TEXT("driver", 32),
                    {"secrets", FIELD_PAIRS, .most = 32},
                    {"owner", FIELD_OWNER},
                    KEY}},
        {"profiles", verb_profiles},
        {"profile-schema", verb_profile_schema},
        {"profile-check", verb_profile_check,
         .fields = {TEXT("profile", 64),
                    TEXT("profile_text", 64 * 1024),
                    {"set", FIELD_PAIRS, .most = 64},
                    {"allow", FIELD_TEXTS, .most = 64},
                    TEXT("image", 64),
                    BOOL("memory_only")}},
        {"policy-show", verb_policy_show, .fields = {SANDBOX}},
        {"list", verb_list,
         .fields = {BOOL("all"), TEXT("state", 16), {"owner", FIELD_OWNER}, NUMBER("max", 100000), TEXT("after", 40)}},
        {"show", verb_show, .fields = {SANDBOX}},
        {"exec", verb_exec, VERB_FRONT,
         .fields = {SANDBOX,
                    {"argv", FIELD_TEXTS, true, 1, 1000},
                    {"env", FIELD_PAIRS, .most = 256},
                    {"cwd", FIELD_PATH},
                    BOOL("tty"),
                    EXTENT("rows", false),
                    EXTENT("cols", false),
                    BOOL("stdin"),
                    BOOL("detach"),
                    NUMBER("timeout_ms", UINT64_MAX - 1),
                    KEY}},
        {"attach", verb_attach, VERB_FRONT,
         .fields = {SANDBOX, RUN, NUMBER("out", UINT64_MAX), NUMBER("err", UINT64_MAX)}},
        {"logs", verb_logs, .fields = {SANDBOX, RUN, BOOL("follow")}},
        {"signal", verb_signal, VERB_FRONT, .fields = {SANDBOX, RUN, {"signal", FIELD_NUMBER, true, 1, 64}}},
        {"cancel", verb_cancel, .fields = {SANDBOX, RUN}},
        {"input", verb_input, .fields = {SANDBOX, RUN, {"data", FIELD_TEXT, true, 1, 100 * 1024}}},
        {"resize", verb_resize, .fields = {SANDBOX, RUN, EXTENT("rows", true), EXTENT("cols", true)}},
        {"runs", verb_runs, .fields = {SANDBOX, NUMBER("before", UINT64_MAX), NUMBER("max", 1000)}},
        {"pause", verb_pause, .fields = {SANDBOX, KEY}},
        {"unpause", verb_unpause, .fields = {SANDBOX, KEY}},
        {"stop", verb_stop, .fields = {SANDBOX, KEY}},
        {"resume", verb_resume, .fields = {SANDBOX, TEXT("driver", 32), KEY}},
        {"delete", verb_delete, VERB_GRAVE, {SANDBOX, BOOL("force"), KEY}},
        {"quarantine", verb_quarantine, .fields = {SANDBOX, TEXT("reason", 512)}},
        {"policy", verb_policy,
         .fields = {SANDBOX, {"allow", FIELD_TEXTS, .most = 64}, {"add", FIELD_TEXTS, .most = 64}, BOOL("check")}},
        {"secret", verb_secret, .fields = {SANDBOX, {"secrets", FIELD_PAIRS, true, 0, 32}}},
        {"secrets", verb_secrets, .fields = {SANDBOX}},
        {"secret-wipe", verb_secret_wipe, .fields = {SANDBOX}},
        {"sign-in", verb_sign_in, .fields = {{"owner", FIELD_OWNER}, BOOL("operator")}},
        {"snapshot", verb_snapshot, .fields = {SANDBOX, {"name", FIELD_NAME}, KEY}},
        {"fork", verb_fork, .fields = {SANDBOX, {"name", FIELD_NAME}, TEXT("driver", 32), KEY}},
        {"snapshots", verb_snapshots, .fields = {{"sandbox", FIELD_SANDBOX}, BOOL("all")}},
        {"snapshot-delete", verb_snapshot_delete, VERB_GRAVE, .fields = {{"snapshot", FIELD_SNAPSHOT, true}}},
        {"snapshot-stat", verb_snapshot_stat, .fields = {{"snapshot", FIELD_SNAPSHOT, true}, PATH}},
        {"snapshot-ls", verb_snapshot_ls, .fields = {{"snapshot", FIELD_SNAPSHOT, true}, PATH}},
        {"snapshot-get", verb_snapshot_get,
         .fields =
                 {{"snapshot", FIELD_SNAPSHOT, true}, PATH, NUMBER("offset", INT64_MAX), NUMBER("length", UINT64_MAX)}},
        {"rollback", verb_rollback, .fields = {SANDBOX, {"snapshot", FIELD_SNAPSHOT, true}, KEY}},
        {"diff", verb_diff, .fields = {{"from", FIELD_TEXT, true, 1, 64}, {"to", FIELD_TEXT, true, 1, 64}}},
        {"export", verb_export, .fields = {{"snapshot", FIELD_SNAPSHOT, true}}},
        {"import", verb_import,
         .fields = {{"name", FIELD_NAME},
                    TEXT("profile", 64),
                    TEXT("profile_text", 64 * 1024),
                    NUMBER("size", UINT64_MAX)}},
        {"put", verb_put, VERB_FRONT,
         .fields = {SANDBOX, PATH, NUMBER("mode", 07777), {"if_match", FIELD_TEXT, false, 1, 64}}},
        {"get", verb_get, VERB_FRONT,
         .fields = {SANDBOX, PATH, NUMBER("offset", INT64_MAX), NUMBER("length", UINT64_MAX)}},
        {"tar-in", verb_tar_in, .fields = {SANDBOX, PATH}},
        {"tar-out", verb_tar_out, .fields = {SANDBOX, PATH}},
        {"ls", verb_ls, VERB_FRONT, .fields = {SANDBOX, PATH}},
        {"stat", verb_stat, VERB_FRONT, .fields = {SANDBOX, PATH}},
        {"mkdir", verb_mkdir, VERB_FRONT, .fields = {SANDBOX, PATH, NUMBER("mode", 07777), BOOL("recursive")}},
        {"mv", verb_mv, VERB_FRONT, .fields = {SANDBOX, PATH, {"to", FIELD_PATH, true}}},
        {"rm", verb_rm, VERB_FRONT, .fields = {SANDBOX, PATH, BOOL("recursive")}},
        {"watch", verb_watch, .fields = {SANDBOX, PATH, BOOL("recursive")}},
        {"connect", verb_connect, VERB_FRONT, .fields = {SANDBOX, {"port", FIELD_NUMBER, true, 1, 65535}}},
        {"sockets", files_sockets, .fields = {SANDBOX, BOOL("six")}},
        {"processes", verb_processes, .fields = {SANDBOX}},
        {"usage", verb_usage, .fields = {{"sandbox", FIELD_SANDBOX}, BOOL("all")}},
        {"usage-history", verb_usage_history, .fields = {SANDBOX, NUMBER("since_ms", INT64_MAX)}},
        {"usage-recent", verb_usage_recent, .fields = {{"sandboxes", FIELD_TEXTS, true, 1, 64}}},
        {"events", events_follow, .fields = {{"sandbox", FIELD_SANDBOX}, NUMBER("from", INT64_MAX), BOOL("follow")}},
        {"events-search", verb_events_search,
         .fields = {TEXT("sandbox", STORE_NAME - 1),
                    TEXT("kinds", 255),
                    TEXT("text", 64),
                    NUMBER("since_ms", UINT32_MAX * 1000ULL),
                    NUMBER("until_ms", UINT32_MAX * 1000ULL),
                    {"before", FIELD_NUMBER, false, 1, INT64_MAX},
                    {"limit", FIELD_NUMBER, false, 1, 500},
                    BOOL("all")}},
        {"gate-names", verb_gate_names, VERB_ADMIN,
         .fields = {NUMBER("since_ms", UINT32_MAX * 1000ULL), {"limit", FIELD_NUMBER, false, 1, 500}}},
        {"evidence", verb_evidence,
         .fields = {{"sandbox", FIELD_TEXT, true, 1, STORE_NAME - 1}, {"run", FIELD_NUMBER, false, 1, UINT32_MAX}}},
        {"checkpoint", verb_checkpoint},
        {"owners", verb_owners, VERB_ADMIN},
        {"pool", verb_pool, VERB_ADMIN},
        {"load", verb_load, VERB_ADMIN},
        {"doctor", verb_doctor, VERB_ADMIN},
        {"verify", verb_verify, VERB_ADMIN},
        {"verify-page", verb_verify_page, VERB_ADMIN},
        {"images", verb_images},
        {"image-import", verb_image_import, .fields = {{"name", FIELD_NAME, true}, TEXT("kind", 128)}},
        {"image-remove", verb_image_remove, .fields = {{"name", FIELD_TEXT, true, 1, 64}}},
        {"ssh-key-add", verb_ssh_key_add,
         .fields = {SANDBOX, {"public_key", FIELD_TEXT, true, 1, SSH_KEY_TEXT_MAX}, TEXT("username", 32)}},
        {"ssh-key-remove", verb_ssh_key_remove,
         .fields = {SANDBOX, TEXT("public_key", SSH_KEY_TEXT_MAX), TEXT("fingerprint", 64)}},
        {"ssh-keys", verb_ssh_keys, .fields = {SANDBOX}},
        {"ssh-check", verb_ssh_check, VERB_FRONT_ONLY,
         .fields = {{"user", FIELD_TEXT, true, 1, 64},
                    {"public_key", FIELD_TEXT, true, 1, SSH_KEY_TEXT_MAX},
                    TEXT("from", 63),
                    BOOL("open")}},
};

static const struct verb *find_verb(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (str_eq(verbs[i].name, name))
                        return &verbs[i];
        return NULL;
}

static const struct field *find_field(const struct verb *v, const char *name) {
        for (const struct field *f = v->fields; f < v->fields + VERB_FIELDS && f->name; f++)
                if (str_eq(f->name, name))
                        return f;
        return NULL;
}

/* --- fields ---------------------------------------------------------------------------------------------------------
 */

static int wrong(struct err *err, const char *field, const char *right) {
        (void)call_err(err, ERR_INPUT, "'%s' is wrong: it has to be %s", field, right);
        return err_hint(err, "send '%s' as %s", field, right);
}

static bool is_name(const char *s) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

        return s[0] && strlen(s) < STORE_NAME && s[strspn(s, letters)] == '\0' && s[0] != '.' && s[0] != '-' &&
               !warden_is_id(s);
}

static bool is_path(const char *s) {
        return s[0] == '/' && strlen(s) < GUEST_PATH_MAX;
}

static bool is_key(const char *s) {
        size_t n = strlen(s);

        for (size_t i = 0; i < n; i++)
                if (s[i] < 0x21 || s[i] > 0x7e)
                        return false;
        return n >= 1 && n <= 128;
}

/* The length of the text that is encoded here; -1: not a text, or with a NUL in it. */
static ssize_t text_length(const char *value) {
        size_t size = 0;

        if (*value != '"' || !json_at(value, "", &size))
                return -1;
        _cleanup_free_ char *text = malloc(size + 1);
        if (!text || !json_find_str(value, "", text, size + 1))
                return -1;
        return (ssize_t)strlen(text);
}

static int check_text(const struct field *f, const char *value, struct err *err) {
        char text[GUEST_PATH_MAX], right[96];
        ssize_t n = text_length(value);

        if (f->kind == FIELD_TEXT || f->kind == FIELD_SANDBOX || f->kind == FIELD_SNAPSHOT) {
                uint64_t most = f->kind == FIELD_TEXT ? f->most : STORE_NAME - 1;

                if (n >= 0 && (uint64_t)n >= f->least && (uint64_t)n <= most)
                        return 0;
                (void)snprintf(right, sizeof right, "a text of %llu to %llu bytes", (unsigned long long)f->least,
                               (unsigned long long)most);
                return wrong(err, f->name, right);
        }
        if (!json_find_str(value, "", text, sizeof text))
                text[0] = '\0';
        switch (f->kind) {
        case FIELD_NAME:
                return is_name(text) ? 0
                                     : wrong(err, f->name,
                                             "1 to 64 letters, digits, '.', '_' or '-', and not like an id of ours");
        case FIELD_PATH:
                return is_path(text) ? 0 : wrong(err, f->name, "an absolute path of at most 4095 bytes");
        case FIELD_KEY:
                return is_key(text) ? 0 : wrong(err, f->name, "1 to 128 printable characters without blanks");
        case FIELD_OWNER:
                return n >= 1 && n < STORE_OWNER && !strpbrk(text, " \x1f\"\\") ? 0
                                                                                : wrong(err, f->name, "like uid:1000");
        case FIELD_TEXT:
        case FIELD_NUMBER:
        case FIELD_BOOL:
        case FIELD_TEXTS:
        case FIELD_PAIRS:
        case FIELD_SANDBOX:
        case FIELD_SNAPSHOT:
        default:
                return wrong(err, f->name, "left out");
        }
}

static int check_list(const struct field *f, const char *value, struct err *err) {
        char right[96];
        struct json_walk w;
        uint64_t count = 0;
        bool good = json_walk_begin(&w, value, "") && w.object == (f->kind == FIELD_PAIRS);

        while (good && json_walk_next(&w)) {
                char key[256] = "";

                good = text_length(w.value) >= 0 && ++count <= f->most &&
                       (!w.object || (json_walk_key(&w, key, sizeof key) && key[0]));
        }
        if (good && count >= f->least)
                return 0;
        (void)snprintf(right, sizeof right, "%s of %llu to %llu texts",
                       f->kind == FIELD_PAIRS ? "an object" : "an array", (unsigned long long)f->least,
                       (unsigned long long)f->most);
        return wrong(err, f->name, right);
}

static int check_field(const struct field *f, const char *value, struct err *err) {
        char right[96];
        uint64_t number = 0;
        bool yes;

        switch (f->kind) {
        case FIELD_NUMBER:
                if (json_find_u64(value, "", &number) && number >= f->least && number <= f->most)
                        return 0;
                (void)snprintf(right, sizeof right, "a number from %llu to %llu", (unsigned long long)f->least,
                               (unsigned long long)f->most);
                return wrong(err, f->name, right);
        case FIELD_BOOL:
                return json_find_bool(value, "", &yes) ? 0 : wrong(err, f->name, "true or false");
        case FIELD_TEXTS:
        case FIELD_PAIRS:
                return check_list(f, value, err);
        case FIELD_TEXT:
        case FIELD_NAME:
        case FIELD_PATH:
        case FIELD_SANDBOX:
        case FIELD_SNAPSHOT:
        case FIELD_KEY:
        case FIELD_OWNER:
        default:
                return check_text(f, value, err);
        }
}

static int unknown_field(const struct verb *v, const char *name, struct err *err) {
        const char *best = NULL;
        unsigned least = 4;

        for (const struct field *f = v->fields; f < v->fields + VERB_FIELDS && f->name; f++) {
                unsigned d = text_distance(f->name, name);

                if (d < least) {
                        least = d;
                        best = f->name;
                }
        }
        (void)call_err(err, ERR_INPUT, "'%s' has no field '%.40s'", v->name, name);
        if (best)
                (void)err_hint(err, "did you mean '%s'?", best);
        return ERR_INPUT;
}

static int check_fields(const struct call *c, struct err *err) {
        struct json_walk w;
        char name[64];

        if (!json_walk_begin(&w, c->text, "") || !w.object)
                return call_err(err, ERR_INPUT, "a request is a JSON object");
        while (json_walk_next(&w)) {
                if (!json_walk_key(&w, name, sizeof name))
                        return call_err(err, ERR_INPUT, "'%s' has no field with such a name", c->verb->name);
                if (str_eq(name, "verb") || (str_eq(name, "door") && c->client->front))
                        continue;
                const struct field *f = find_field(c->verb, name);
                if (!f)
                        return unknown_field(c->verb, name, err);
                if (json_find_null(w.value, "") && !f->needed)
                        return call_err(err, ERR_INPUT, "'%s' is null: leave it out", name);
                int r = check_field(f, w.value, err);
                if (r < 0)
                        return r;
        }
        for (const struct field *f = c->verb->fields; f < c->verb->fields + VERB_FIELDS && f->name; f++)
                if (f->needed && !call_has(c, f->name)) {
                        (void)call_err(err, ERR_INPUT, "'%s' needs '%s'", c->verb->name, f->name);
                        return ERR_INPUT;
                }
        return 0;
}

/* --- whose ----------------------------------------------------------------------------------------------------------
 */

struct sandbox *verbs_sandbox(struct call *c, const char *text) {
        struct sandbox *s = warden_is_id(text) ? sandbox_find(c->o, text) : sandbox_named(c->o, c->owner, text);

        return s && (c->admin || str_eq(s->owner->name, c->owner)) ? s : NULL;
}

struct snapshot *verbs_snapshot(struct call *c, const char *text) {
        struct snapshot *p = warden_is_id(text) ? snapshot_find(c->o, text) : snapshot_named(c->o, c->owner, text);

        return p && (c->admin || str_eq(p->owner->name, c->owner)) ? p : NULL;
}

/* True: go on. False: the call was refused, or answered. */
static bool resolve(struct call *c) {
        char text[STORE_NAME], owner[STORE_OWNER];
        struct buf nothing = {0};

        for (const struct field *f = c->verb->fields; f < c->verb->fields + VERB_FIELDS && f->name; f++)
                if (f->kind == FIELD_OWNER && call_has(c, f->name)) {
                        if (!c->admin && !str_eq(call_text(c, f->name, owner, sizeof owner), c->owner)) {
                                call_refuse_text(c, "refused", "leave 'owner' out",
                                                 "only root and the operator's own user act for others");
                                return false;
                        }
                        (void)call_text(c, f->name, c->owner, sizeof c->owner);
                }
        for (const struct field *f = c->verb->fields; f < c->verb->fields + VERB_FIELDS && f->name; f++) {
                if ((f->kind != FIELD_SANDBOX && f->kind != FIELD_SNAPSHOT) || !call_has(c, f->name))
                        continue;
                (void)call_text(c, f->name, text, sizeof text);
                if (f->kind == FIELD_SANDBOX)
                        c->sandbox = verbs_sandbox(c, text);
                else
                        c->snapshot = verbs_snapshot(c, text);
                if (f->kind == FIELD_SANDBOX ? c->sandbox != NULL : c->snapshot != NULL)
                        continue;
                if ((c->verb->flags & VERB_GRAVE) && grave_has(c->o, text, c->admin ? NULL : c->owner))
                        call_answer(c, &nothing);
                else
                        call_refuse_text(c, "not_found",
                                         f->kind == FIELD_SANDBOX ? "'stockade list' shows what there is"
                                                                  : "'stockade snapshots' shows what there is",
                                         "there is no %s '%s'", f->kind == FIELD_SANDBOX ? "sandbox" : "snapshot",
                                         text);
                return false;
        }
        return true;
}

void verbs_dispatch(struct client *client) {
        struct call *c = call_new(client);
        struct err err = {0};
        char name[32], key[130];

        if (!c) {
                client_refuse_text(client, "failed", "try again", "out of memory");
                return;
        }
        c->verb = find_verb(call_text(c, "verb", name, sizeof name));
        if (!c->verb || (!client->front && (c->verb->flags & VERB_FRONT_ONLY))) {
                call_refuse_text(c, "bad_request",
                                 "the manual page stockade(1) and docs/protocol/local.md list the verbs",
                                 "there is no verb '%s'", name);
                return;
        }
        if ((c->verb->flags & VERB_ADMIN) && !c->admin) {
                call_refuse_text(c, "refused", "ask root, or the user who runs the daemon", "'%s' is not for everybody",
                                 name);
                return;
        }
        if (client->front && !ssh_session_admit(c))
                return;
        if (check_fields(c, &err) < 0) {
                call_refuse(c, &err);
                return;
        }
        if (!resolve(c))
                return;
        if (client->front && !(c->verb->flags & VERB_FRONT_ONLY) && !ssh_session_has(c, c->sandbox)) {
                call_refuse_text(c, "not_found", "", "this session has another sandbox");
                return;
        }
        if (call_has(c, "key") && keyed_begin(c, call_text(c, "key", key, sizeof key)) != KEYED_NEW)
                return;
        c->verb->run(c);
}
