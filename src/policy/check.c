/* The last looks at a whole policy: does it make sense, and can this build enforce it.
 *
 * Nothing is repaired here. What would be surprising inside the sandbox (a program that cannot be seen, a folder that
 * is hidden and writable) is an error now. */
#include "policy/field.h"
#include "policy/profile.h"

/* The sandbox's own trees; nothing of the host's is shown there. */
static const char *const own_trees[] = {"/proc", "/sys", "/dev"};

static int check_own_trees(const char *key, const char *path, struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(own_trees); i++)
                if (value_path_covers(own_trees[i], path)) {
                        int r = err_set(err, ERR_INPUT, "%s: '%.200s': a sandbox has its own %s", key, path,
                                        own_trees[i]);
                        if (str_eq(own_trees[i], "/dev"))
                                (void)err_hint(err, "list devices of the host under 'devices'");
                        return r;
                }
        return 0;
}

static int check_workspace(const struct policy *p, struct err *err) {
        const struct policy_place *w = &p->files.workspace;

        if (!w->path && (w->size != POLICY_UNSET || w->inodes != POLICY_UNSET))
                return err_set(err, ERR_INPUT, "files.workspace: it has a size and no path");
        if (w->path && str_eq(w->path, "/"))
                return err_set(err, ERR_INPUT, "files.workspace.path: '/' cannot be a workspace");
        for (size_t i = 0; w->path && i < p->files.write_count; i++) {
                const struct policy_place *place = &p->files.write[i];

                if (!str_eq(place->path, w->path))
                        continue;
                if ((place->size != POLICY_UNSET && w->size != POLICY_UNSET && place->size != w->size) ||
                    (place->inodes != POLICY_UNSET && w->inodes != POLICY_UNSET && place->inodes != w->inodes))
                        return err_set(err, ERR_INPUT,
                                       "files.write: '%.200s' is the workspace and has another size there", w->path);
        }
        return 0;
}

/* A hidden path must not cover what another key grants. */
static int check_hidden(const struct policy *p, const char *key, const char *path, struct err *err) {
        for (size_t i = 0; i < p->files.hide.count; i++)
                if (value_path_covers(p->files.hide.items[i], path)) {
                        int r = err_set(err, ERR_INPUT, "%s: '%.160s' is inside '%.160s', which files.hide hides", key,
                                        path, p->files.hide.items[i]);
                        (void)err_hint(err, "a child profile can add to files.hide and cannot take from it; list other "
                                            "paths, or extend another profile");
                        return r;
                }
        return 0;
}

static bool has_whole_tree(const struct policy *p) {
        for (size_t i = 0; i < p->files.write_count; i++)
                if (str_eq(p->files.write[i].path, "/"))
                        return true;
        return false;
}

/* '/' is readable and writable together, as a copy-on-write view, or not at all; any other place starts empty, and so
 * cannot show what files.read lists at the same path. */
static int check_views(const struct policy *p, const struct policy_place *places, size_t count, struct err *err) {
        if (has_whole_tree(p) != policy_strings_has(&p->files.read, "/")) {
                int r = err_set(err, ERR_INPUT, "%s: '/' has to be in both files.read and files.write, or in neither",
                                has_whole_tree(p) ? "files.write" : "files.read");
                (void)err_hint(err, "together they are a copy-on-write view of the host's tree");
                return r;
        }
        for (size_t i = 0; i < count; i++)
                if (!str_eq(places[i].path, "/") && policy_strings_has(&p->files.read, places[i].path))
                        return err_set(err, ERR_INPUT,
                                       "files.write: '%.200s' starts empty, so it cannot be in files.read too",
                                       places[i].path);
        return 0;
}

static int check_paths(const struct policy *p, const struct policy_place *places, size_t count, struct err *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < p->files.hide.count; i++)
                r = check_own_trees("files.hide", p->files.hide.items[i], err);
        for (size_t i = 0; r == 0 && i < p->files.read.count; i++) {
                r = check_own_trees("files.read", p->files.read.items[i], err);
                if (r == 0)
                        r = check_hidden(p, "files.read", p->files.read.items[i], err);
        }
        for (size_t i = 0; r == 0 && i < count; i++) {
                r = check_own_trees("files.write", places[i].path, err);
                if (r == 0)
                        r = check_hidden(p, "files.write", places[i].path, err);
        }
        return r;
}

/* A program can only be allowed where it can be seen. */
static int check_exec(const struct policy *p, const struct policy_place *places, size_t count, struct err *err) {
        for (size_t i = 0; i < p->tools.exec.count; i++) {
                const char *path = p->tools.exec.items[i];
                bool visible = false;

                int r = check_hidden(p, "tools.exec", path, err);
                if (r < 0)
                        return r;
                for (size_t k = 0; k < p->files.read.count && !visible; k++)
                        visible = value_path_covers(p->files.read.items[k], path);
                /* a folder above visible ones is fine as well: it allows the programs below them */
                for (size_t k = 0; k < p->files.read.count && !visible; k++)
                        visible = value_path_covers(path, p->files.read.items[k]);
                for (size_t k = 0; k < count && !visible; k++)
                        visible = value_path_covers(path, places[k].path);
                if (visible)
                        continue;
                r = err_set(err, ERR_INPUT,
                            "tools.exec: '%.200s' is not below a path of files.read, nor a whole place of files.write",
                            path);
                (void)err_hint(err,
                               "list its folder under files.read; where /bin and /lib are links, write /usr/bin and "
                               "/usr/lib");
                return r;
        }
        return 0;
}

static int check_secrets(const struct policy *p, struct err *err) {
        for (size_t i = 0; i < p->network.allow_count; i++) {
                const char *secret = p->network.allow[i].secret;

                if (secret && !policy_strings_has(&p->secrets, secret))
                        return err_set(err, ERR_INPUT, "network.allow: the secret '%s' is not listed under 'secrets'",
                                       secret);
        }
        return 0;
}

static int check_numbers(const struct policy *p, struct err *err) {
        if (p->time.lifetime != POLICY_UNSET && p->time.run != POLICY_UNSET && p->time.run > p->time.lifetime)
                return err_set(err, ERR_INPUT, "time.run: a command cannot run longer than time.lifetime");
        if (p->time.lifetime != POLICY_UNSET && p->time.idle != POLICY_UNSET && p->time.idle > p->time.lifetime)
                return err_set(err, ERR_INPUT, "time.idle: it cannot be longer than time.lifetime");
        if (p->shm != POLICY_UNSET && p->limits.memory != POLICY_UNSET && p->shm > p->limits.memory)
                return err_set(err, ERR_INPUT, "shm: it cannot be larger than limits.memory, which it counts toward");
        return 0;
}

enum policy_isolation policy_driver_level(const char *driver) {
        if (str_eq(driver, "gvisor"))
                return ISOLATION_GVISOR;
        if (str_eq(driver, "microvm") || str_eq(driver, "firecracker"))
                return ISOLATION_MICROVM;
        return ISOLATION_CONTAINER;
}

static int check_drivers(const struct policy *p, struct err *err) {
        for (size_t i = 0; i < p->prefer.count; i++)
                if (policy_driver_level(p->prefer.items[i]) >= p->at_least)
                        return 0;
        if (p->prefer.count == 0)
                return 0;
        return err_set(err, ERR_INPUT, "isolation.prefer: none of these drivers gives isolation.at_least: %s",
                       schema_find("isolation.at_least")->choices[p->at_least]);
}

int policy_check(const struct policy *p, struct err *err) {
        struct policy_place places[POLICY_PLACES_MAX];
        size_t count = policy_places(p, places);

        int r = check_workspace(p, err);
        if (r == 0)
                r = check_paths(p, places, count, err);
        if (r == 0)
                r = check_views(p, places, count, err);
        if (r == 0)
                r = check_exec(p, places, count, err);
        if (r == 0)
                r = check_secrets(p, err);
        if (r == 0)
                r = check_numbers(p, err);
        if (r == 0)
                r = check_drivers(p, err);
        return r;
}

static bool secret_unused(const struct policy *p) {
        for (size_t i = 0; i < p->secrets.count; i++) {
                bool used = false;

                for (size_t k = 0; k < p->network.allow_count; k++)
                        used |= p->network.allow[k].secret && str_eq(p->network.allow[k].secret, p->secrets.items[i]);
                if (!used)
                        return true;
        }
        return false;
}

/* Whether the policy asks here for something that this build cannot give; in a sandbox of the daemon, or of a run. */
static bool is_missing(const struct schema_row *row, const struct policy *p, bool daemon) {
        switch (row->enforce) {
        case ENFORCE_NOW:
                return false;
        case ENFORCE_DAEMON:
                return !daemon && field_given(row, p);
        case ENFORCE_DRIVER:
                return !daemon && field_given(row, p) &&
                       (row->offset == offsetof(struct policy, prefer) ? !policy_strings_has(&p->prefer, "native")
                                                                       : p->at_least > ISOLATION_CONTAINER);
        case ENFORCE_EXEC:
                return p->tools.exec_set && !policy_strings_has(&p->tools.exec, "/") &&
                       (has_whole_tree(p) || (daemon && p->image));
        case ENFORCE_SECRET:
                return secret_unused(p);
        case ENFORCE_LATER:
        default:
                return field_given(row, p);
        }
}

/* Single words may be mechanisms of the host, which others know; a word with a dot is a key of ours. */
static int check_accepted(const char *const *accepted, size_t count, struct err *err) {
        for (size_t i = 0; i < count; i++) {
                const struct schema_row *row = schema_find(accepted[i]);

                if (strchr(accepted[i], '.') && (!row || row->scope != SCOPE_POLICY)) {
                        int r = err_set(err, ERR_INPUT, "cannot accept that '%.60s' is missing: there is no such key",
                                        accepted[i]);
                        (void)err_hint(err, "'stockade profile schema' lists the keys");
                        return r;
                }
        }
        return 0;
}

/* The keys that are missing in one kind of sandbox and, with `given`, not in the other. */
static int list_missing(const struct policy *p, bool daemon, bool given, struct policy_strings *ret) {
        _cleanup_(policy_strings_free) struct policy_strings missing = {0};

        for (size_t i = 0; i < schema_row_count; i++) {
                const struct schema_row *row = &schema_rows[i];

                if (row->scope != SCOPE_POLICY || !is_missing(row, p, daemon) || (given && is_missing(row, p, !daemon)))
                        continue;
                if (policy_strings_add(&missing, row->key) < 0)
                        return -ENOMEM;
        }
        *ret = missing;
        missing = (struct policy_strings){0};
        return 0;
}

int policy_missing(const struct policy *p, struct policy_strings *ret) {
        return list_missing(p, true, false, ret);
}

int policy_only_daemon(const struct policy *p, struct policy_strings *ret) {
        return list_missing(p, false, true, ret);
}

static int refuse(const char *key, bool daemon, struct err *err) {
        const struct schema_row *row = schema_find(key);

        if (row && (row->enforce == ENFORCE_DAEMON || row->enforce == ENFORCE_DRIVER)) {
                (void)err_set(err, ERR_UNENFORCED, "%s: enforced only in sandboxes of the daemon", key);
                return err_hint(err,
                                "start one with 'stockade create', leave it out of the profile, or run without it "
                                "knowingly: --accept-missing %s",
                                key);
        }
        bool exec = row && row->enforce == ENFORCE_EXEC;
        (void)err_set(err, ERR_UNENFORCED, "%s: not enforceable yet by this build%s", key,
                      exec ? daemon ? ", over an image" : ", over the host's whole tree" : "");
        if (daemon)
                return err_hint(err, "leave it out of the profile%s",
                                exec ? ", or name one without it: --profile medium" : "");
        return err_hint(err, "leave it out of the profile, or run without it knowingly: --accept-missing %s", key);
}

static int enforceable(const struct policy *p, bool daemon, const char *const *accepted, size_t accepted_count,
                       struct policy_strings *ret_missing, struct err *err) {
        _cleanup_(policy_strings_free) struct policy_strings missing = {0};

        int r = check_accepted(accepted, accepted_count, err);
        if (r < 0)
                return r;
        if (list_missing(p, daemon, false, &missing) < 0)
                return err_set(err, -ENOMEM, "cannot check the policy");
        for (size_t i = 0; i < missing.count; i++) {
                bool pass = false;

                for (size_t k = 0; k < accepted_count; k++)
                        pass |= str_eq(accepted[k], missing.items[i]);
                if (!pass) {
                        (void)refuse(missing.items[i], daemon, err);
                        return ERR_UNENFORCED;
                }
        }
        if (ret_missing) {
                *ret_missing = missing;
                missing = (struct policy_strings){0};
        }
        return 0;
}

int policy_enforceable(const struct policy *p, const char *const *accepted, size_t accepted_count,
                       struct policy_strings *ret_missing, struct err *err) {
        return enforceable(p, false, accepted, accepted_count, ret_missing, err);
}

int policy_enforceable_by_daemon(const struct policy *p, const char *const *accepted, size_t accepted_count,
                                 struct policy_strings *ret_missing, struct err *err) {
        return enforceable(p, true, accepted, accepted_count, ret_missing, err);
}
