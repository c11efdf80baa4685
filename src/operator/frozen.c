/* Policies and plans by content. A request that was compiled before is answered from memory as long as every file that
 * it depended on is as it was: resolving a profile takes as long as starting a sandbox.
 *
 * Must never: read a path that a client named; give a plan that was not checked. */
#include "operator/frozen.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "operator/sandbox.h"
#include "policy/compile.h"
#include "policy/profile.h"
#include "wire/driver.h"

#define RECIPES_MAX 64

/* A request and what came of it. */
struct recipe {
        uint8_t asked[HASH_SIZE];
        struct profile_sources sources;
        struct frozen *result;
        uint64_t used;
};

struct frozens {
        struct table by_key;
        struct recipe recipes[RECIPES_MAX];
        size_t recipe_count;
        uint64_t clock;
};

int frozens_open(struct core *o, struct err *err) {
        o->registry->frozens = calloc(1, sizeof *o->registry->frozens);
        return o->registry->frozens ? 0 : err_set(err, -ENOMEM, "could not begin");
}

static void recipe_clear(struct recipe *r) {
        profile_sources_free(&r->sources);
        frozen_unref(r->result);
        *r = (struct recipe){0};
}

void frozens_close(struct core *o) {
        struct frozens *s = o->registry->frozens;

        if (!s)
                return;
        for (size_t i = 0; i < s->recipe_count; i++)
                recipe_clear(&s->recipes[i]);
        table_free(&s->by_key);
        free(s);
        o->registry->frozens = NULL;
}

struct frozen *frozen_ref(struct frozen *f) {
        f->refs++;
        return f;
}

void frozen_unref(struct frozen *f) {
        if (!f || --f->refs > 0)
                return;
        if (f->node.key)
                table_remove(&f->o->registry->frozens->by_key, &f->node);
        fd_close(&f->memfd);
        free(f->policy);
        free(f->bytes);
        free(f->env);
        free(f->prefer);
        free(f->secrets);
        free(f);
}

/* --- from policy and plan to what the operator needs to know of them ------------------------------------------------
 */

static int read_plan(struct frozen *f, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;
        size_t env = 0, secrets = 0;

        int r = plan_check(f->bytes, f->size, &f->plan, err);
        if (r < 0)
                return r;
        while (plan_next(&f->plan, &walk, &s)) {
                env += s.op == OP_ENV;
                secrets += s.op == OP_SECRET;
        }
        f->env = calloc(env + 1, sizeof *f->env);
        f->secrets = calloc(secrets + 1, sizeof *f->secrets);
        if (!f->env || !f->secrets)
                return err_set(err, -ENOMEM, "could not read the plan");
        env = 0;
        walk = (struct plan_walk){0};
        while (plan_next(&f->plan, &walk, &s)) {
                if (s.op == OP_ENV)
                        f->env[env++] = s.text[0];
                else if (s.op == OP_SECRET)
                        f->secrets[f->secret_count++] = s.text[0];
                else if (s.op == OP_CWD)
                        f->cwd = s.text[0];
                else if (s.op == OP_REACH) {
                        f->rules = s.blob;
                        f->rules_size = s.blob_size;
                } else if (s.op == OP_NETWORK)
                        f->trust = s.flags & STEP_TRUST;
                else if (s.op == OP_DISK || s.op == OP_ROOT_DISK) {
                        f->disk = true;
                        f->image_root = s.op == OP_ROOT_DISK;
                        f->disk_path = f->image_root ? "/" : s.text[0];
                        f->disk_size = s.number[0];
                        f->disk_inodes = s.number[1];
                }
        }
        return 0;
}

/* What a driver has to be able to enforce for this policy. */
static uint32_t needs(const struct policy *p) {
        uint32_t all = 1U << GUARANTEE_PROCESS | 1U << GUARANTEE_FILES | 1U << GUARANTEE_QUOTA |
                       1U << GUARANTEE_NETWORK | 1U << GUARANTEE_SECRETS;

        if (p->limits.cpus != POLICY_UNSET || p->budget.cpu != POLICY_UNSET)
                all |= 1U << GUARANTEE_CPU;
        if (p->limits.memory != POLICY_UNSET)
                all |= 1U << GUARANTEE_MEMORY;
        if (p->limits.processes != POLICY_UNSET)
                all |= 1U << GUARANTEE_PROCESSES;
        if (p->limits.disk_read != POLICY_UNSET || p->limits.disk_write != POLICY_UNSET)
                all |= 1U << GUARANTEE_IO;
        if (p->tools.exec_set && !policy_strings_has(&p->tools.exec, "/"))
                all |= 1U << GUARANTEE_EXEC;
        return all;
}

/* Names are driver_name's own: the policy goes. */
static int read_drivers(struct frozen *f, const struct policy *p) {
        f->at_least = (unsigned)p->at_least;
        f->needs = needs(p);
        f->prefer = calloc(p->prefer.count + 1, sizeof *f->prefer);
        if (!f->prefer)
                return -ENOMEM;
        for (size_t i = 0; i < p->prefer.count; i++) {
                int d = driver_find(p->prefer.items[i]);

                if (d >= 0)
                        f->prefer[f->prefer_count++] = driver_name((enum driver)d);
        }
        return 0;
}

static void read_policy(struct frozen *f, const struct policy *p) {
        copy_text(f->profile, sizeof f->profile, p->name ? p->name : "unnamed");
        copy_text(f->image, sizeof f->image, p->image ? p->image : "");
        f->cpus = p->limits.cpus;
        f->memory = p->limits.memory;
        f->output = p->limits.output;
        f->time_run = p->time.run;
        f->time_idle = p->time.idle;
        f->time_lifetime = p->time.lifetime;
        f->budget_cpu = p->budget.cpu;
        f->snapshot_on_stop = policy_strings_has(&p->record.snapshot, "stop");
        f->gate = (struct gate_limits){.connections = p->limits.connections,
                                       .lookups = p->limits.lookups,
                                       .bandwidth = p->limits.bandwidth,
                                       .egress = p->budget.egress};
}
static_assert(POLICY_UNSET == FROZEN_UNSET && POLICY_UNSET == UINT64_MAX, "no limit is the same everywhere");

static void make_key(const void *policy, size_t policy_size, const void *plan, size_t plan_size,
                     char ret[HASH_TEXT_SIZE]) {
        struct hash h;
        uint8_t bytes[HASH_SIZE];
        uint64_t size = policy_size;

        hash_init(&h);
        hash_add(&h, &size, sizeof size);
        hash_add(&h, policy, policy_size);
        hash_add(&h, plan, plan_size);
        hash_done(&h, bytes);
        hash_text(bytes, ret);
}

/* The one with these contents; p is given when it is at hand already. */
static int intern(struct core *o, const void *policy, size_t policy_size, const void *plan, size_t plan_size,
                  const struct policy *p, struct frozen **ret, struct err *err) {
        struct frozens *all = o->registry->frozens;
        _cleanup_policy_ struct policy parsed = {0};
        char key[HASH_TEXT_SIZE];

        make_key(policy, policy_size, plan, plan_size, key);
        struct table_node *known = table_find(&all->by_key, key);
        if (known) {
                *ret = frozen_ref(TABLE_OWNER(known, struct frozen, node));
                return 0;
        }
        if (!p) {
                int r = profile_parse("frozen policy", policy, policy_size, &parsed, err);
                if (r < 0)
                        return r;
                p = &parsed;
        }
        struct frozen *f = calloc(1, sizeof *f);
        if (!f)
                return err_set(err, -ENOMEM, "could not keep a policy");
        *f = (struct frozen){.o = o, .refs = 1, .memfd = -EBADF, .policy_size = policy_size, .size = plan_size};
        memcpy(f->key, key, sizeof key);
        f->policy = strndup(policy, policy_size);
        f->bytes = malloc(plan_size ? plan_size : 1);
        int r = f->policy && f->bytes ? 0 : err_set(err, -ENOMEM, "could not keep a policy");
        if (r == 0) {
                memcpy(f->bytes, plan, plan_size);
                read_policy(f, p);
                r = read_drivers(f, p) < 0 ? err_set(err, -ENOMEM, "could not keep a policy") : read_plan(f, err);
        }
        if (r == 0 && table_add(&all->by_key, &f->node, f->key) < 0)
                r = err_set(err, -ENOMEM, "could not keep a policy");
        if (r < 0) {
                frozen_unref(f);
                return r;
        }
        *ret = f;
        return 0;
}

int frozen_load(struct core *o, const void *policy, size_t policy_size, const void *plan, size_t plan_size,
                struct frozen **ret, struct err *err) {
        return intern(o, policy, policy_size, plan, plan_size, NULL, ret, err);
}

int frozen_memfd(struct frozen *f, struct err *err) {
        if (f->memfd >= 0)
                return f->memfd;
        _cleanup_fd_ int fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || fd_write_full(fd, f->bytes, f->size) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return err_set(err, -errno, "could not make a memory file for a plan");
        f->memfd = TAKE_FD(fd);
        return f->memfd;
}

/* --- compiling ------------------------------------------------------------------------------------------------------
 */

/* Scratch space is memory, whoever asks: nobody expects /tmp to outlive a stop. */
static bool wants_disk(const struct core *o, const struct policy *p, bool memory_only) {
        return !memory_only && !o->rootless && !p->image && p->files.workspace.path &&
               !str_eq(p->files.workspace.path, "/tmp") && !str_eq(p->files.workspace.path, "/var/tmp");
}

static int compile(struct core *o, const struct policy *p, bool memory_only, struct frozen **ret, struct err *err) {
        _cleanup_buf_ struct buf plan = {0}, text = {0};
        uint8_t hash[HASH_SIZE];
        struct compile_options options = {
                .rootless = o->rootless,
                .guest = o->guest,
                .lives = true,
                .disk = wants_disk(o, p, memory_only),
                .image = p->image != NULL,
        };

        int r = policy_check(p, err);
        if (r == 0)
                r = policy_enforceable_by_daemon(p, NULL, 0, NULL, err);
        if (r < 0)
                return r;
        if (options.image && memory_only) {
                (void)err_set(err, ERR_INPUT, "an image needs a disk, and memory_only asks for none");
                return err_hint(err, "leave out one of the two");
        }
        policy_hash(p, hash);
        r = compile_plan(p, hash, &options, &plan, err);
        if (r < 0)
                return r;
        if (policy_print(p, &text) < 0 || !buf_ok(&text))
                return err_set(err, -ENOMEM, "could not keep a policy");
        return intern(o, text.data, text.size, plan.data, plan.size, p, ret, err);
}

/* A name, never a path: the operator's eyes are not the client's. */
static int check_name(const char *name, struct err *err) {
        const char *bare = str_starts(name, "builtin:") ? name + 8 : name;
        size_t n = strlen(bare);

        if (n == 0 || strspn(bare, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") < n ||
            bare[0] == '.' || (n > 5 && str_eq(bare + n - 5, ".yaml"))) {
                (void)err_set(err, ERR_INPUT, "'%.80s' is not the name of a profile", name);
                return err_hint(err, "a file's contents can be sent along instead of its name");
        }
        return 0;
}

/* Without root the profiles are those of the user who runs us; with it, no user's. */
static const struct profile_search system_alone = {.system_dir = PROFILE_SYSTEM_DIR};

int frozen_profiles(struct core *o, struct profile_list *ret, struct err *err) {
        return o->rootless ? profile_list(ret, err) : profile_list_from(&system_alone, ret, err);
}

int frozen_resolve(struct core *o, const struct frozen_request *q, struct policy *p, struct profile_sources *sources,
                   struct err *err) {
        const char *name = q->profile ? q->profile : o->conf.profile;
        int r;

        if (q->text)
                r = profile_parse("profile", q->text, q->text_size, p, err);
        else {
                r = check_name(name, err);
                if (r == 0)
                        r = o->rootless ? profile_load(name, p, sources, err)
                                        : profile_load_from(&system_alone, name, p, sources, err);
        }
        for (size_t i = 0; r == 0 && i < q->set_count; i++)
                r = policy_set(p, q->set[i].key, q->set[i].value, err);
        for (size_t i = 0; r == 0 && i < q->allow_count; i++)
                r = policy_allow(p, q->allow[i], err);
        if (r == 0 && q->image)
                r = policy_set(p, "image", q->image, err);
        return r;
}

static void hash_request(const struct frozen_request *q, const char *profile, uint8_t ret[HASH_SIZE]) {
        struct hash h;

        hash_init(&h);
        hash_add_str(&h, q->text ? "text" : profile);
        hash_add(&h, q->text ? q->text : "", q->text ? q->text_size : 0);
        hash_add_str(&h, q->memory_only ? "memory" : "disk");
        hash_add_str(&h, q->image ? q->image : "");
        for (size_t i = 0; i < q->set_count; i++) {
                hash_add_str(&h, q->set[i].key);
                hash_add_str(&h, q->set[i].value);
        }
        hash_add_str(&h, "allow");
        for (size_t i = 0; i < q->allow_count; i++)
                hash_add_str(&h, q->allow[i]);
        hash_done(&h, ret);
}

/* Everything that was looked at is as it was then. */
static bool still_valid(const struct recipe *r) {
        for (size_t i = 0; i < r->sources.count; i++) {
                const struct profile_source *s = &r->sources.items[i];
                _cleanup_free_ char *data = NULL;
                uint8_t hash[HASH_SIZE];
                struct hash h;
                size_t size = 0;

                if (str_starts(s->path, "builtin:"))
                        continue;
                bool absent = faccessat(AT_FDCWD, s->path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
                if (absent != s->absent)
                        return false;
                if (absent)
                        continue;
                if (fd_read_file(AT_FDCWD, s->path, PROFILE_FILE_MAX, false, &data, &size, NULL) < 0)
                        return false;
                hash_init(&h);
                hash_add(&h, data, size);
                hash_done(&h, hash);
                if (memcmp(hash, s->hash, sizeof hash) != 0)
                        return false;
        }
        return true;
}

static struct recipe *find_recipe(struct frozens *all, const uint8_t asked[HASH_SIZE]) {
        for (size_t i = 0; i < all->recipe_count; i++)
                if (memcmp(all->recipes[i].asked, asked, HASH_SIZE) == 0)
                        return &all->recipes[i];
        return NULL;
}

/* A place for a new one: a free one, or that of the one that was not used for longest. */
static struct recipe *recipe_place(struct frozens *all) {
        struct recipe *oldest = &all->recipes[0];

        if (all->recipe_count < RECIPES_MAX)
                return &all->recipes[all->recipe_count++];
        for (size_t i = 1; i < RECIPES_MAX; i++)
                if (all->recipes[i].used < oldest->used)
                        oldest = &all->recipes[i];
        recipe_clear(oldest);
        return oldest;
}

int frozen_compile(struct core *o, const struct frozen_request *q, struct frozen **ret, struct err *err) {
        struct frozens *all = o->registry->frozens;
        _cleanup_policy_ struct policy p = {0};
        _cleanup_sources_ struct profile_sources sources = {0};
        uint8_t asked[HASH_SIZE];
        struct frozen *f;

        hash_request(q, q->profile ? q->profile : o->conf.profile, asked);
        struct recipe *known = find_recipe(all, asked);
        if (known && still_valid(known)) {
                known->used = ++all->clock;
                *ret = frozen_ref(known->result);
                return 0;
        }
        int r = frozen_resolve(o, q, &p, &sources, err);
        if (r == 0)
                r = compile(o, &p, q->memory_only, &f, err);
        if (r < 0)
                return r;
        if (known)
                recipe_clear(known);
        else
                known = recipe_place(all);
        *known = (struct recipe){.sources = sources, .result = frozen_ref(f), .used = ++all->clock};
        sources = (struct profile_sources){0};
        memcpy(known->asked, asked, sizeof asked);
        *ret = f;
        return 0;
}

int frozen_allow(struct core *o, const struct frozen *f, const char *const *allow, size_t count, bool replace,
                 struct frozen **ret, struct err *err) {
        _cleanup_policy_ struct policy p = {0};

        int r = profile_parse("frozen policy", f->policy, f->policy_size, &p, err);
        if (r == 0 && replace)
                r = policy_set(&p, "network.allow", "", err);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = policy_allow(&p, allow[i], err);
        return r < 0 ? r : compile(o, &p, !f->disk, ret, err);
}
