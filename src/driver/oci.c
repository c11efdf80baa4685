/* config.json from a plan: see the header. */
#include "driver/oci.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/text.h"

#define PLACES_MAX 512

/* A place of the tree with rights of its own. */
struct place {
        char *path;
        bool write, exec;
};

struct places {
        struct place *items;
        size_t count;
        bool root_ours;  /* made by the plan: there is no device in it, and nothing that is set-user-ID */
        bool root_write; /* as far as the box's kernel is to know */
};

static void places_free(struct places *l) {
        for (size_t i = 0; i < l->count; i++)
                free(l->items[i].path);
        free(l->items);
}

/* --- which places there are --- */

static bool is_below(const char *path, const char *folder) {
        size_t n = strlen(folder);

        return str_eq(folder, "/") || (strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

/* Something that can be mounted on: neither missing nor a link. */
static bool is_there(const struct oci_options *o, const char *path) {
        struct stat st;

        return fstatat(o->tree, path[1] ? path + 1 : ".", &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode);
}

static struct place *find_place(const struct places *l, const char *path) {
        for (size_t i = 0; i < l->count; i++)
                if (str_eq(l->items[i].path, path))
                        return &l->items[i];
        return NULL;
}

static int add_place(struct places *l, const struct oci_options *o, const char *path, bool write, bool exec,
                     struct err *err) {
        if (!is_there(o, path))
                return 0;
        if (!text_is_utf8(path))
                return err_set(err, ERR_UNENFORCED, "files: a gvisor box can only name places in UTF-8");
        struct place *p = find_place(l, path);
        if (!p && l->count == PLACES_MAX)
                return err_set(err, ERR_LIMIT, "a gvisor box has at most %d places with rights of their own",
                               PLACES_MAX);
        if (!p) {
                char *copy = strdup(path);
                if (!copy)
                        return err_set(err, -ENOMEM, "no memory for the places of a box");
                p = &l->items[l->count++];
                p->path = copy;
        }
        p->write = write;
        p->exec = exec;
        return 0;
}

/* The box's own /dev has these; nothing of the host's is opened for them. */
static int check_device(const char *path, struct err *err) {
        static const char *const own[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                          "/dev/random", "/dev/urandom", "/dev/tty"};

        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (str_eq(own[i], path))
                        return 0;
        (void)err_set(err, ERR_UNENFORCED, "devices: '%s' is not to be had in a gvisor box", path);
        return err_hint(err, "leave it out of the profile's devices, or use the native driver");
}

/* Where a program's links end: there the cell has bound it onto itself. */
static int add_program(struct places *l, const struct oci_options *o, const struct plan_step *s, struct err *err) {
        char path[PATH_MAX];

        if (!realpath(s->text[0], path))
                return errno == ENOENT ? 0 : err_set(err, -errno, "tools.exec: cannot follow '%s'", s->text[0]);
        return add_place(l, o, path, false, true, err);
}

/* What the box's kernel has of its own: the tree's is not looked at there. */
static bool is_own(const struct plan_step *s) {
        const char *path = s->op == OP_BIND ? s->text[1] : s->text[0];

        if (is_below(path, "/proc") || is_below(path, "/sys"))
                return true;
        return is_below(path, "/dev") && (s->op != OP_TMPFS || str_eq(path, "/dev"));
}

/* Such a folder shows its owner as the user, and knows no other id. A gofer makes files as its root and gives them away
 * after: it could make none there. */
static int refuse_share(const char *path, struct err *err) {
        (void)err_set(err, ERR_UNENFORCED, "files: a gvisor box cannot share the host's '%s' as writable", path);
        return err_hint(err, "share it read-only, copy it in, or use the native driver");
}

static int add_bind(struct places *l, const struct oci_options *o, const struct plan_step *s, struct err *err) {
        if (s->flags & STEP_DEVICE)
                return check_device(s->text[1], err);
        if ((s->flags & STEP_WRITE) && (s->flags & STEP_OWNED))
                return refuse_share(s->text[0], err);
        if (is_own(s))
                return err_set(err, ERR_UNENFORCED,
                               "files: a gvisor box has a %.5s of its own, so '%s' cannot be there", s->text[1],
                               s->text[1]);
        return add_place(l, o, s->text[1], s->flags & STEP_WRITE, !(s->flags & STEP_NOEXEC), err);
}

/* Steps that are no places: the warden's, the gate's, the cell's in the tree, those written below, and those that the
 * box's kernel stands for (docs/protocol/driver.md says which). */
static bool is_done_elsewhere(enum plan_op op) {
        switch ((int)op) {
        case OP_PROFILE:
        case OP_LIMIT:
        case OP_ACCEPT:
        case OP_ENV:
        case OP_CWD:
        case OP_USER:
        case OP_REACH:
        case OP_SECRET:
        case OP_HOSTNAME:
        case OP_ROOT_BIND:
        case OP_ROOT_OVERLAY:
        case OP_ROOT_DISK:
        case OP_DIR:
        case OP_LINK:
        case OP_FILE:
        case OP_COPY:
        case OP_PROC:
        case OP_LOOPBACK:
        case OP_NETWORK:
        case OP_DEVPTS:
        case OP_MASK: /* by a mount of the host's that is empty and read-only */
        case OP_HIDE:
        case OP_PIVOT:
        case OP_SESSION:
        case OP_NO_NESTING:
        case OP_IDS:
        case OP_CAPS:
        case OP_NO_NEW_PRIVS:
        case OP_LANDLOCK:
        case OP_LANDLOCK_RULE:
        case OP_LANDLOCK_END:
        case OP_RLIMIT:
        case OP_SECCOMP:
        case OP_EXEC:
                return true;
        default:
                return false;
        }
}

static int add_step(struct places *l, const struct oci_options *o, const struct plan_step *s, struct err *err) {
        bool exec = !(s->flags & STEP_NOEXEC);
        struct place *p;

        switch ((int)s->op) {
        case OP_BIND:
                return add_bind(l, o, s, err);
        case OP_TMPFS:
        case OP_DISK:
                return is_own(s) ? 0 : add_place(l, o, s->text[0], true, exec, err);
        case OP_OVERLAY:
                return refuse_share(s->text[0], err);
        case OP_LIKE_HOST:
                return is_own(s) ? 0 : add_place(l, o, s->text[0], false, exec, err);
        case OP_PROGRAM:
                return add_program(l, o, s, err);
        case OP_READONLY:
                p = find_place(l, s->text[0]);
                if (p)
                        p->write = false;
                if (str_eq(s->text[0], "/") && l->root_ours)
                        l->root_write = false;
                return 0;
        case OP_ROOT_TMPFS:
                l->root_ours = true;
                return 0;
        default:
                return is_done_elsewhere(s->op)
                               ? 0
                               : err_set(err, ERR_UNENFORCED, "a gvisor box does not know the step '%s' of its plan",
                                         plan_op_name(s->op));
        }
}

static int find_places(const struct plan *p, const struct oci_options *o, struct places *l, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        l->root_write = true;
        l->items = calloc(PLACES_MAX, sizeof *l->items);
        if (!l->items)
                return err_set(err, -ENOMEM, "no memory for the places of a box");
        while (plan_next(p, &walk, &s)) {
                int r = add_step(l, o, &s, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Does the next place around it give the same rights? Then no mount of its own is needed. */
static bool is_like_around(const struct places *l, const struct place *p) {
        char slash[] = "/";
        const struct place root = {.path = slash, .write = l->root_write, .exec = true}, *around = &root;

        for (size_t i = 0; i < l->count; i++) {
                const struct place *q = &l->items[i];
                if (q != p && is_below(p->path, q->path) && strlen(q->path) > strlen(around->path))
                        around = q;
        }
        return around->write == p->write && around->exec == p->exec;
}

/* --- fewer of them --- */

/* The first part of a path below the root: 4 for /etc/ssl/certs; 0 where that is all of it. */
static size_t first_part(const char *path) {
        const char *end = strchr(path + 1, '/');

        return end ? (size_t)(end - path) : 0;
}

/* How many places are in this folder of the root's; 0 if the folder is one itself, or one of them is more than data. */
static size_t count_data(const struct places *l, const char *folder) {
        size_t n = 0;

        for (size_t i = 0; i < l->count; i++) {
                const struct place *p = &l->items[i];
                if (!is_below(p->path, folder))
                        continue;
                if (p->write || p->exec || str_eq(p->path, folder))
                        return 0;
                n++;
        }
        return n;
}

static void remove_below(struct places *l, const char *folder) {
        size_t kept = 0;

        for (size_t i = 0; i < l->count; i++)
                if (is_below(l->items[i].path, folder))
                        free(l->items[i].path);
                else
                        l->items[kept++] = l->items[i];
        l->count = kept;
}

/* Joins those of one folder, and says 1; 0: there is no such folder. */
static int join_some(struct places *l, const struct oci_options *o, struct err *err) {
        for (size_t i = 0; i < l->count; i++) {
                size_t n = first_part(l->items[i].path);
                if (n == 0)
                        continue;
                _cleanup_free_ char *folder = strndup(l->items[i].path, n);
                if (!folder)
                        return err_set(err, -ENOMEM, "no memory for the places of a box");
                if (count_data(l, folder) < 2 || !is_there(o, folder))
                        continue;
                remove_below(l, folder);
                int r = add_place(l, o, folder, false, false, err);
                return r < 0 ? r : 1;
        }
        return 0;
}

/* Every mount costs a start a millisecond and more. Where all places of one of the root's folders are data, the folder
 * is mounted in their place: beside them it has only files that the plan wrote, none of which is a program. */
static int join_data(struct places *l, const struct oci_options *o, struct err *err) {
        int r = l->root_ours && !l->root_write;

        while (r > 0)
                r = join_some(l, o, err);
        return r;
}

/* --- writing --- */

static void put_options(struct json *j, bool write, bool exec, bool bind) {
        json_open(j, "options", '[');
        if (bind)
                json_str(j, NULL, "rbind");
        json_str(j, NULL, write ? "rw" : "ro");
        json_str(j, NULL, "nosuid");
        json_str(j, NULL, "nodev");
        if (!exec)
                json_str(j, NULL, "noexec");
        json_close(j, ']');
}

static void put_own(struct json *j, const char *path, const char *type) {
        json_open(j, NULL, '{');
        json_str(j, "destination", path);
        json_str(j, "type", type);
        json_str(j, "source", type);
        put_options(j, false, false, false);
        json_close(j, '}');
}

static void put_place(struct json *j, const struct oci_options *o, const struct place *p) {
        char source[2 * PATH_MAX];

        (void)snprintf(source, sizeof source, "%s%s", o->tree_path, p->path);
        json_open(j, NULL, '{');
        json_str(j, "destination", p->path);
        json_str(j, "type", "bind");
        json_str(j, "source", source);
        put_options(j, p->write, p->exec, true);
        json_close(j, '}');
}

/* runsc puts memory without a limit over a /tmp that is empty, or not there, unless a mount is named. Is it bound? */
static bool put_tmp(struct json *j, const struct oci_options *o, const struct places *l) {
        char path[] = "/tmp";
        struct place tmp = {.path = path, .write = l->root_write, .exec = true};

        bool bound = is_there(o, tmp.path);
        if (bound)
                put_place(j, o, &tmp);
        else
                put_own(j, tmp.path, "tmpfs");
        return bound;
}

/* Devices of the box's own kernel that no plan has: nothing, which nobody may open, is mounted there. */
static void put_hidden(struct json *j, const char *path) {
        static const char *const options[] = {"ro", "nosuid", "nodev", "noexec", "mode=000"};

        json_open(j, NULL, '{');
        json_str(j, "destination", path);
        json_str(j, "type", "tmpfs");
        json_str(j, "source", "tmpfs");
        json_open(j, "options", '[');
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                json_str(j, NULL, options[i]);
        json_close(j, ']');
        json_close(j, '}');
}

/* How many of them are bound. */
static unsigned put_mounts(struct json *j, const struct oci_options *o, const struct places *l) {
        static const char *const hidden[] = {"/dev/net", "/dev/fuse"};
        unsigned binds = 0;

        json_open(j, "mounts", '[');
        put_own(j, "/proc", "proc");
        put_own(j, "/sys", "sysfs");
        for (size_t i = 0; i < ELEMENTSOF(hidden); i++)
                put_hidden(j, hidden[i]);
        for (size_t i = 0; i < l->count; i++)
                if (!is_like_around(l, &l->items[i])) {
                        put_place(j, o, &l->items[i]);
                        binds++;
                }
        const struct place *tmp = find_place(l, "/tmp");
        if (!tmp || is_like_around(l, tmp))
                binds += put_tmp(j, o, l);
        json_close(j, ']');
        return binds;
}

static void put_limit(struct json *j, const char *name, uint64_t value) {
        json_open(j, NULL, '{');
        json_str(j, "type", name);
        json_u64(j, "hard", value);
        json_u64(j, "soft", value);
        json_close(j, '}');
}

static const char *limit_name(uint64_t resource) {
        static const char *const names[] = {
                [RLIMIT_CPU] = "RLIMIT_CPU",
                [RLIMIT_FSIZE] = "RLIMIT_FSIZE",
                [RLIMIT_DATA] = "RLIMIT_DATA",
                [RLIMIT_STACK] = "RLIMIT_STACK",
                [RLIMIT_CORE] = "RLIMIT_CORE",
                [RLIMIT_NOFILE] = "RLIMIT_NOFILE",
                [RLIMIT_AS] = "RLIMIT_AS",
                [RLIMIT_MEMLOCK] = "RLIMIT_MEMLOCK",
                [RLIMIT_NPROC] = "RLIMIT_NPROC",
                [RLIMIT_SIGPENDING] = "RLIMIT_SIGPENDING",
                [RLIMIT_MSGQUEUE] = "RLIMIT_MSGQUEUE",
        };

        return resource < ELEMENTSOF(names) ? names[resource] : NULL;
}

/* The cgroup around the box counts the processes that its kernel is made of, so the box's kernel counts its own. All
 * inside are one user's, who has no capability that would lift this. */
static int put_limits(struct json *j, const struct plan *p, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        json_open(j, "rlimits", '[');
        while (plan_next(p, &walk, &s)) {
                if (s.op == OP_LIMIT && str_eq(s.text[0], "limits.processes"))
                        put_limit(j, "RLIMIT_NPROC", s.number[0]);
                if (s.op != OP_RLIMIT)
                        continue;
                if (!limit_name(s.number[0]))
                        return err_set(err, ERR_UNENFORCED,
                                       "limits: a gvisor box does not know limit %llu of processes",
                                       (unsigned long long)s.number[0]);
                put_limit(j, limit_name(s.number[0]), s.number[1]);
        }
        json_close(j, ']');
        return 0;
}

static void put_user(struct json *j, uint64_t uid, uint64_t gid) {
        json_open(j, "user", '{');
        json_u64(j, "uid", uid);
        json_u64(j, "gid", gid);
        json_close(j, '}');
}

/* What the plan sets one value of, and the environment. */
static int put_settings(struct json *j, const struct plan *p, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;
        const char *cwd = "/";

        json_open(j, "env", '[');
        while (plan_next(p, &walk, &s)) {
                if (s.op == OP_ENV && !text_is_utf8(s.text[0]))
                        return err_set(err, ERR_UNENFORCED, "env: a gvisor box can only have variables in UTF-8");
                if (s.op == OP_ENV)
                        json_str(j, NULL, s.text[0]);
                if (s.op == OP_CWD)
                        cwd = s.text[0];
        }
        json_close(j, ']');
        json_str(j, "cwd", cwd);
        walk = (struct plan_walk){0};
        while (plan_next(p, &walk, &s))
                if (s.op == OP_IDS)
                        put_user(j, s.number[0], s.number[1]);
        return 0;
}

static void put_no_capabilities(struct json *j) {
        static const char *const sets[] = {"bounding", "effective", "inheritable", "permitted", "ambient"};

        json_open(j, "capabilities", '{');
        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                json_open(j, sets[i], '[');
                json_close(j, ']');
        }
        json_close(j, '}');
}

static int put_process(struct json *j, const struct plan *p, const struct oci_options *o, struct err *err) {
        json_open(j, "process", '{');
        json_bool(j, "terminal", false);
        json_open(j, "args", '[');
        for (char *const *a = o->args; *a; a++)
                json_str(j, NULL, *a);
        json_close(j, ']');
        int r = put_settings(j, p, err);
        if (r < 0)
                return r;
        put_no_capabilities(j);
        json_bool(j, "noNewPrivileges", true);
        r = put_limits(j, p, err);
        json_close(j, '}');
        return r;
}

static void put_map(struct json *j, const char *key, uint64_t ids) {
        json_open(j, key, '[');
        json_open(j, NULL, '{');
        json_u64(j, "containerID", 0);
        json_u64(j, "hostID", 0);
        json_u64(j, "size", ids);
        json_close(j, '}');
        json_close(j, ']');
}

static void put_linux(struct json *j, const struct oci_options *o) {
        static const char *const fresh[] = {"pid", "ipc", "uts", "mount", "user"};

        json_open(j, "linux", '{');
        put_map(j, "uidMappings", o->ids);
        put_map(j, "gidMappings", o->ids);
        json_open(j, "namespaces", '[');
        for (size_t i = 0; i < ELEMENTSOF(fresh); i++) {
                json_open(j, NULL, '{');
                json_str(j, "type", fresh[i]);
                json_close(j, '}');
        }
        if (o->network) {
                json_open(j, NULL, '{');
                json_str(j, "type", "network");
                json_str(j, "path", o->network);
                json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
}

static void put_hostname(struct json *j, const struct plan *p) {
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s))
                if (s.op == OP_HOSTNAME)
                        json_str(j, "hostname", s.text[0]);
}

int oci_config(const struct plan *p, const struct oci_options *o, struct buf *out, struct oci_bundle *ret,
               struct err *err) {
        _cleanup_(places_free) struct places places = {0};
        struct json j = {.out = out};

        int r = find_places(p, o, &places, err);
        if (r == 0)
                r = join_data(&places, o, err);
        if (r < 0)
                return r;
        json_open(&j, NULL, '{');
        json_str(&j, "ociVersion", "1.0.2");
        r = put_process(&j, p, o, err);
        if (r < 0)
                return r;
        json_open(&j, "root", '{');
        json_str(&j, "path", o->tree_path);
        json_bool(&j, "readonly", !places.root_write);
        json_close(&j, '}');
        put_hostname(&j, p);
        unsigned binds = put_mounts(&j, o, &places);
        put_linux(&j, o);
        json_close(&j, '}');
        if (!buf_ok(out))
                return err_set(err, ERR_LIMIT, "the bundle of the box is larger than %zu bytes", out->max);
        *ret = (struct oci_bundle){.writable_root = places.root_write, .binds = binds};
        return 0;
}
