/* Holding a plan against the ceiling: one function for each operation that a plan may have, and a rank for those whose
 * order matters. An operation without a row is refused. ceiling-path.c says which host paths are within it. */
#include "warden/ceiling.h"

#include <linux/filter.h>
#include <linux/landlock.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "cell/cell.h"
#include "warden/ceiling-path.h"
#include "wire/masks.h"

#define WRITABLE_MAX    16
#define COPIES_MAX      16 /* of the host's small files: a prepared root keeps them on a disk */
#define HOSTNAME_MOST   64
#define MODE_MOST       01777
#define MEMLOCK_MOST    (8U << 20)
#define SIGPENDING_MOST 1024
#define LANDLOCK_LEAST  ((LANDLOCK_ACCESS_FS_REFER << 1) - 1) /* what ABI 2 knows */
#define SMALLEST_PLACE  4096

static const char *const masks[] = {PLAN_MASKS};

/* One plan as it is walked. */
struct judge {
        const struct ceiling *c;
        struct ceiling_plan *found;
        const char *writable[WRITABLE_MAX]; /* paths inside where the host's own files can be written */
        size_t writable_count, copies;
        unsigned rank;
        unsigned masked;  /* bits of masks[] */
        unsigned rlimits; /* bits of those that must be there */
        bool proc, guest, readonly, loopback, landlock, nesting, whole_tree;
        struct err *err;
};

enum { MUST_CORE = 1, MUST_MEMLOCK = 2, MUST_SIGPENDING = 4, MUST_ALL = 7 };

#define REFUSE(j, s, ...) refuse(j, s, __VA_ARGS__)

_printf_(3, 4) static int refuse(struct judge *j, const struct plan_step *s, const char *format, ...) {
        char why[256];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(why, sizeof why, format, args);
        va_end(args);
        if (s->text[0])
                return err_set(j->err, ERR_REFUSED, "plan step %u (%s '%.150s'): %s", s->index, plan_op_name(s->op),
                               s->text[0], why);
        return err_set(j->err, ERR_REFUSED, "plan step %u (%s): %s", s->index, plan_op_name(s->op), why);
}

static int refuse_key(struct judge *j, const struct plan_step *s, const char *why, const char *key) {
        (void)refuse(j, s, "%s", why);
        return err_hint(j->err, "stockade.conf: %s would have to allow it", key);
}

/* --- phase outside --- */

static int fine(struct judge *j, const struct plan_step *s) {
        (void)j;
        (void)s;
        return 0;
}

static int judge_limit(struct judge *j, const struct plan_step *s) {
        const struct conf *conf = j->c->conf;
        struct ceiling_plan *f = j->found;
        const struct {
                const char *key;
                uint64_t *value;
                uint64_t most;
                const char *conf;
        } rows[] = {
                {"limits.memory", &f->memory, conf->ceiling_memory, "ceiling_memory"},
                {"limits.cpus", &f->cpus, conf->ceiling_cpus, "ceiling_cpus"},
                {"limits.processes", &f->processes, conf->ceiling_processes, "ceiling_processes"},
                {"limits.disk_read", &f->disk_read, UINT64_MAX, ""},
                {"limits.disk_write", &f->disk_write, UINT64_MAX, ""},
                {"budget.cpu", &f->cpu_time, UINT64_MAX, ""},
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (!str_eq(rows[i].key, s->text[0]))
                        continue;
                if (s->number[0] > rows[i].most || s->number[0] == 0)
                        return refuse_key(j, s, "more than a sandbox may have", rows[i].conf);
                *rows[i].value = s->number[0];
        }
        return 0;
}

/* With a ceiling that root set, what it says cannot be waived. */
static int judge_accept(struct judge *j, const struct plan_step *s) {
        static const char *const needed[] = {"limits.memory", "limits.cpus", "limits.processes", "landlock"};

        for (size_t i = 0; i < ELEMENTSOF(needed) && !j->c->rootless; i++)
                if (str_eq(needed[i], s->text[0]))
                        return REFUSE(j, s, "this cannot be done without");
        if (j->found->accepted_count >= CEILING_ACCEPT_MAX)
                return REFUSE(j, s, "more than %d keys are not to be enforced", CEILING_ACCEPT_MAX);
        j->found->accepted[j->found->accepted_count++] = s->text[0];
        return 0;
}

static int judge_env(struct judge *j, const struct plan_step *s) {
        if (!strchr(s->text[0], '='))
                return REFUSE(j, s, "is no setting of a variable");
        j->found->env_count++;
        return 0;
}

static int judge_cwd(struct judge *j, const struct plan_step *s) {
        j->found->cwd = s->text[0];
        return 0;
}

/* Root inside is nobody's; and ids beyond a sandbox's range are others'. */
static int judge_user(struct judge *j, const struct plan_step *s) {
        if (s->number[0] == 0 || s->number[1] == 0 || s->number[0] >= CELL_ID_RANGE || s->number[1] >= CELL_ID_RANGE)
                return REFUSE(j, s, "user %llu:%llu is not one that a sandbox may have",
                              (unsigned long long)s->number[0], (unsigned long long)s->number[1]);
        j->found->uid = s->number[0];
        j->found->gid = s->number[1];
        return 0;
}

/* --- phase mount --- */

static bool below(const char *path, const char *parent) {
        return ceiling_path_below(path, parent);
}

/* What is made at a path inside must not land in a directory of the host. */
static int check_inside(struct judge *j, const struct plan_step *s, const char *path) {
        for (size_t i = 0; i < j->writable_count; i++)
                if (below(path, j->writable[i]))
                        return REFUSE(j, s, "would make something in the writable share at '%.100s'", j->writable[i]);
        return 0;
}

static int check_size(struct judge *j, const struct plan_step *s, uint64_t bytes, uint64_t inodes) {
        const struct conf *conf = j->c->conf;

        if (bytes < SMALLEST_PLACE || bytes > conf->ceiling_disk)
                return refuse_key(j, s, "its size is not one that a sandbox may have", "ceiling_disk");
        if (inodes == 0 || inodes > conf->ceiling_inodes)
                return refuse_key(j, s, "its number of files is not one that a sandbox may have", "ceiling_inodes");
        return 0;
}

static int judge_hostname(struct judge *j, const struct plan_step *s) {
        size_t n = strlen(s->text[0]);

        return n == 0 || n > HOSTNAME_MOST ? REFUSE(j, s, "is no host name") : 0;
}

static int judge_root_tmpfs(struct judge *j, const struct plan_step *s) {
        return check_size(j, s, s->number[0], s->number[1]);
}

static int judge_root_overlay(struct judge *j, const struct plan_step *s) {
        if (!str_eq(s->text[0], "/"))
                return REFUSE(j, s, "no other tree can be the root of a sandbox that lives");
        if (!j->c->conf->ceiling_whole_tree)
                return refuse_key(j, s, "the host's whole tree is not for sandboxes", "ceiling_whole_tree");
        j->whole_tree = true;
        return check_size(j, s, s->number[0], s->number[1]);
}

static int judge_disk(struct judge *j, const struct plan_step *s) {
        bool root = s->op == OP_ROOT_DISK;

        if (j->c->rootless)
                return REFUSE(j, s, "disks need root");
        j->found->disk = true;
        j->found->root_disk = root;
        j->found->disk_size = s->number[0];
        j->found->disk_inodes = s->number[1];
        int r = check_size(j, s, s->number[0], s->number[1]);
        return r < 0 || root ? r : check_inside(j, s, s->text[0]);
}

static int judge_dir(struct judge *j, const struct plan_step *s) {
        if (s->number[0] > MODE_MOST)
                return REFUSE(j, s, "mode %llo is not for a directory here", (unsigned long long)s->number[0]);
        return check_inside(j, s, s->text[0]);
}

static int judge_made(struct judge *j, const struct plan_step *s) {
        return check_inside(j, s, s->text[0]);
}

/* A copy of, or the same as, something that may be read. */
static int judge_like_host(struct judge *j, const struct plan_step *s) {
        if (!ceiling_path_readable(j->c, s->text[0]))
                return refuse_key(j, s, "no sandbox may see this", "ceiling_read");
        if (s->op == OP_COPY && ++j->copies > COPIES_MAX)
                return REFUSE(j, s, "more than %d files are to be copied", COPIES_MAX);
        return check_inside(j, s, s->text[0]);
}

static int judge_program(struct judge *j, const struct plan_step *s) {
        return ceiling_path_readable(j->c, s->text[0]) ? 0
                                                       : refuse_key(j, s, "no sandbox may see this", "ceiling_read");
}

static int judge_share(struct judge *j, const struct plan_step *s) {
        if (!ceiling_path_writable(j->c, s->text[0]))
                return refuse_key(j, s, "no sandbox may write here", "ceiling_write");
        if (!(s->flags & STEP_EXACT) || !(s->flags & STEP_OWNED))
                return REFUSE(j, s, "a writable share has to be exact, and its owner has to be the user inside");
        if (j->writable_count >= WRITABLE_MAX)
                return REFUSE(j, s, "more than %d writable shares", WRITABLE_MAX);
        j->writable[j->writable_count++] = s->text[1];
        j->found->shares = true;
        return 0;
}

static int judge_bind(struct judge *j, const struct plan_step *s) {
        int r = check_inside(j, s, s->text[1]);

        if (r < 0)
                return r;
        if (str_eq(s->text[1], CELL_GUEST_PATH)) {
                if (!str_eq(s->text[0], j->c->guest) || s->flags != 0)
                        return REFUSE(j, s, "is not the guest program of this warden");
                j->guest = true;
                return 0;
        }
        if (s->flags & STEP_DEVICE)
                return ceiling_path_device(j->c, s->text[0]) && !(s->flags & (STEP_WRITE | STEP_OWNED))
                               ? 0
                               : refuse_key(j, s, "no sandbox may have this device", "ceiling_devices");
        if (s->flags & STEP_WRITE)
                return judge_share(j, s);
        if (s->flags & STEP_OWNED)
                return REFUSE(j, s, "only a writable share is shown under another owner");
        return ceiling_path_readable(j->c, s->text[0]) ? 0
                                                       : refuse_key(j, s, "no sandbox may see this", "ceiling_read");
}

static int judge_tmpfs(struct judge *j, const struct plan_step *s) {
        if (s->number[2] > MODE_MOST)
                return REFUSE(j, s, "mode %llo is not for a directory here", (unsigned long long)s->number[2]);
        int r = check_size(j, s, s->number[0], s->number[1]);
        return r < 0 ? r : check_inside(j, s, s->text[0]);
}

static int judge_overlay(struct judge *j, const struct plan_step *s) {
        if (!ceiling_path_writable(j->c, s->text[0]) || !(s->flags & STEP_EXACT))
                return refuse_key(j, s, "no sandbox may work on this", "ceiling_write");
        j->found->overlay = s->text[0];
        int r = check_size(j, s, s->number[0], s->number[1]);
        return r < 0 ? r : check_inside(j, s, s->text[1]);
}

static int judge_proc(struct judge *j, const struct plan_step *s) {
        j->proc = true;
        return str_eq(s->text[0], "/proc") ? 0 : REFUSE(j, s, "belongs at /proc");
}

static int judge_mask(struct judge *j, const struct plan_step *s) {
        for (size_t i = 0; i < ELEMENTSOF(masks); i++)
                if (j->proc && str_eq(masks[i], s->text[0]))
                        j->masked |= 1U << i;
        return 0; /* of what is there already; it makes nothing */
}

static int judge_network(struct judge *j, const struct plan_step *s) {
        if (!j->c->conf->ceiling_network)
                return refuse_key(j, s, "no sandbox may have a network", "ceiling_network");
        j->found->networked = true;
        j->found->trust = s->flags & STEP_TRUST;
        return check_inside(j, s, s->text[0]);
}

static int judge_loopback(struct judge *j, const struct plan_step *s) {
        (void)s;
        j->loopback = true;
        return 0;
}

/* --- phases enter, confine, exec --- */

static int judge_readonly(struct judge *j, const struct plan_step *s) {
        j->readonly |= str_eq(s->text[0], "/");
        return 0;
}

static int judge_ids(struct judge *j, const struct plan_step *s) {
        return s->number[0] == j->found->uid && s->number[1] == j->found->gid
                       ? 0
                       : REFUSE(j, s, "is not the user that the plan names");
}

static int judge_nesting(struct judge *j, const struct plan_step *s) {
        (void)s;
        j->nesting = true;
        return 0;
}

static int judge_landlock(struct judge *j, const struct plan_step *s) {
        if ((s->number[0] & LANDLOCK_LEAST) != LANDLOCK_LEAST || s->number[1] < 2)
                return REFUSE(j, s, "does not handle every right");
        j->landlock = true;
        return 0;
}

static int judge_rlimit(struct judge *j, const struct plan_step *s) {
        const struct {
                uint64_t resource, most;
                unsigned bit;
        } rows[] = {{RLIMIT_CORE, 1, MUST_CORE},
                    {RLIMIT_MEMLOCK, MEMLOCK_MOST, MUST_MEMLOCK},
                    {RLIMIT_SIGPENDING, SIGPENDING_MOST, MUST_SIGPENDING}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (rows[i].resource != s->number[0])
                        continue;
                if (s->number[1] > rows[i].most)
                        return REFUSE(j, s, "limit %llu is larger than a sandbox may have",
                                      (unsigned long long)s->number[0]);
                j->rlimits |= rows[i].bit;
        }
        return 0;
}

static int judge_seccomp(struct judge *j, const struct plan_step *s) {
        size_t size = sizeof(struct sock_filter);

        if (s->blob_size == 0 || s->blob_size % size != 0 || s->blob_size / size > BPF_MAXINSNS)
                return REFUSE(j, s, "is no program");
        j->found->filter = s->blob;
        j->found->filter_size = s->blob_size;
        return 0;
}

/* rank: among those that have one, it never falls. after_guest: may come after the guest is in its place. */
static const struct {
        int (*judge)(struct judge *j, const struct plan_step *s);
        unsigned rank;
        bool after_guest;
} rows[OP_COUNT] = {
        [OP_PROFILE] = {fine},
        [OP_LIMIT] = {judge_limit},
        [OP_ACCEPT] = {judge_accept},
        [OP_ENV] = {judge_env},
        [OP_CWD] = {judge_cwd},
        [OP_USER] = {judge_user},
        [OP_REACH] = {fine},
        [OP_SECRET] = {fine},

        [OP_HOSTNAME] = {judge_hostname},
        [OP_ROOT_TMPFS] = {judge_root_tmpfs},
        [OP_ROOT_OVERLAY] = {judge_root_overlay},
        [OP_ROOT_DISK] = {judge_disk},
        [OP_DIR] = {judge_dir},
        [OP_LINK] = {judge_made, 0, true},
        [OP_FILE] = {judge_made},
        [OP_COPY] = {judge_like_host},
        [OP_LIKE_HOST] = {judge_like_host},
        [OP_BIND] = {judge_bind},
        [OP_TMPFS] = {judge_tmpfs},
        [OP_DISK] = {judge_disk},
        [OP_OVERLAY] = {judge_overlay},
        [OP_PROC] = {judge_proc},
        [OP_LOOPBACK] = {judge_loopback, 0, true},
        [OP_NETWORK] = {judge_network, 0, true},
        [OP_DEVPTS] = {judge_made},
        [OP_PROGRAM] = {judge_program},
        [OP_MASK] = {judge_mask},
        [OP_HIDE] = {judge_made},

        [OP_PIVOT] = {fine, 1, true},
        [OP_READONLY] = {judge_readonly, 2, true},
        [OP_SESSION] = {fine, 3, true},
        [OP_IDS] = {judge_ids, 4, true},
        [OP_NO_NESTING] = {judge_nesting, 5, true},
        [OP_CAPS] = {fine, 6, true},
        [OP_NO_NEW_PRIVS] = {fine, 7, true},
        [OP_LANDLOCK] = {judge_landlock, 8, true},
        [OP_LANDLOCK_RULE] = {fine, 9, true},
        [OP_LANDLOCK_END] = {fine, 10, true},
        [OP_RLIMIT] = {judge_rlimit, 11, true},
        [OP_SECCOMP] = {judge_seccomp, 12, true},
        [OP_EXEC] = {fine, 13, true},
};

static int judge_step(struct judge *j, const struct plan_step *s) {
        if (!rows[s->op].judge)
                return REFUSE(j, s, "a sandbox that lives cannot have this");
        if (rows[s->op].rank > 0 && rows[s->op].rank < j->rank)
                return REFUSE(j, s, "comes too late");
        if (rows[s->op].rank > 0)
                j->rank = rows[s->op].rank;
        if (j->guest && !rows[s->op].after_guest)
                return REFUSE(j, s, "comes after the guest was put in its place");
        return rows[s->op].judge(j, s);
}

/* What has to be there in every plan, beyond what plan_check knows. */
static int judge_whole(const struct judge *j) {
        const struct ceiling_plan *f = j->found;
        const struct {
                bool there;
                const char *what;
        } needed[] = {
                {f->memory != UINT64_MAX || j->c->rootless, "no limit on memory"},
                {f->cpus != UINT64_MAX || j->c->rootless, "no limit on processors"},
                {f->processes != UINT64_MAX || j->c->rootless, "no limit on processes"},
                {j->guest, "no guest program"},
                {j->nesting, "nothing against nested user namespaces"},
                {j->landlock || j->c->rootless, "no Landlock ruleset"},
                {j->rlimits == MUST_ALL, "not all limits on single processes"},
                {j->masked == (1U << ELEMENTSOF(masks)) - 1, "not every cover over /proc"},
                {j->readonly || f->root_disk || j->whole_tree, "a root that could be written to"},
                {j->loopback || f->networked, "no network of its own"},
        };

        for (size_t i = 0; i < ELEMENTSOF(needed); i++)
                if (!needed[i].there)
                        return err_set(j->err, ERR_REFUSED, "the plan has %s", needed[i].what);
        return 0;
}

int ceiling_check(const struct ceiling *c, const struct plan *p, struct ceiling_plan *ret, struct err *err) {
        struct ceiling_plan found = {.memory = UINT64_MAX,
                                     .cpus = UINT64_MAX,
                                     .processes = UINT64_MAX,
                                     .disk_read = UINT64_MAX,
                                     .disk_write = UINT64_MAX,
                                     .cpu_time = UINT64_MAX};
        struct judge j = {.c = c, .found = &found, .err = err};
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(p, &walk, &s)) {
                int r = judge_step(&j, &s);
                if (r < 0)
                        return r;
        }
        int r = judge_whole(&j);
        if (r < 0)
                return r;
        *ret = found;
        return 0;
}
