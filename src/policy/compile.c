/* From policy to plan: which steps, in which order. The steps of the tree are here; compile-confine.c has ids,
 * Landlock and seccomp.
 *
 * Always holds: a path of the host is bound read-only unless the caller shared it as writable; every writable place
 * that is not shared is memory with a size and a number of inodes; where programs are listed, everything else is
 * noexec. */
#include "policy/compile.h"

#include "base/text.h"
#include "policy/compile-internal.h"
#include "wire/masks.h"

#define ROOT_SIZE    (4ULL << 20)
#define ROOT_INODES  2048ULL
#define PLACE_SIZE   (64ULL << 20)
#define PLACE_INODES 16384ULL
#define SHM_SIZE     (16ULL << 20)
#define SHM_INODES   1024ULL

bool compile_below(const char *path, const char *parent) {
        size_t n = strlen(parent);

        if (str_eq(parent, "/"))
                return true;
        return strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool compile_executable(const struct policy *p, const char *path) {
        if (!p->tools.exec_set)
                return true;
        for (size_t i = 0; i < p->tools.exec.count; i++)
                if (compile_below(path, p->tools.exec.items[i]))
                        return true;
        return false;
}

const struct policy_place *compile_whole_tree(const struct policy *p) {
        for (size_t i = 0; i < p->files.write_count; i++)
                if (str_eq(p->files.write[i].path, "/"))
                        return &p->files.write[i];
        return NULL;
}

bool compile_others_tree(const struct policy *p, const struct compile_options *o) {
        return o->root || o->image || compile_whole_tree(p);
}

/* What programs need of the host's /etc: no secrets, nothing about people. Folders are bound, small files copied. */
static const char *const etc_binds[] = {
        "/etc/alternatives",    "/etc/chromium.d",      "/etc/fonts",     "/etc/java-11-openjdk",
        "/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/ssl/certs", "/etc/pki/ca-trust/extracted",
};
static const char *const etc_copies[] = {
        "/etc/bash.bashrc", "/etc/ld.so.cache", "/etc/mime.types",
        "/etc/protocols",   "/etc/services",    "/etc/ssl/openssl.cnf",
};

/* The same as on the host, which has links into /usr there. */
static const char *const etc_links[] = {"/etc/localtime", "/etc/os-release"};

static const char *const host_links[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

/* random is a link: since Linux 5.6 it is the same device in all but name */
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/tty"};

static const char *const masks[] = {PLAN_MASKS};

static const char *const library_dirs[] = {"/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib"};

static void add_etc(const struct policy *p, const struct compile_options *o, struct buf *b) {
        _cleanup_buf_ struct buf passwd = {0}, group = {0};
        const char *name = p->user.name ? p->user.name : "agent", *home = compile_home(p);
        static const char hosts[] = "127.0.0.1 localhost stockade\n::1 localhost stockade\n";
        static const char nsswitch[] = "passwd: files\ngroup: files\nhosts: files dns\n";
        static const char machine[] = "00000000000000000000000000000001\n";

        buf_printf(&passwd, "root:x:0:0:root:/:/usr/sbin/nologin\n%s:x:%d:%d::%s:/bin/bash\n", name, COMPILE_UID,
                   COMPILE_GID, home);
        buf_str(&passwd, "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
        buf_printf(&group, "root:x:0:\ntty:x:5:\n%s:x:%d:\nnogroup:x:65534:\n", name, COMPILE_GID);
        if (!buf_ok(&passwd) || !buf_ok(&group)) {
                b->failed = true;
                return;
        }
        const struct {
                const char *path, *data;
                size_t size;
        } made[] = {
                {"/etc/passwd", passwd.data, passwd.size},        {"/etc/group", group.data, group.size},
                {"/etc/hosts", hosts, sizeof hosts - 1},          {"/etc/nsswitch.conf", nsswitch, sizeof nsswitch - 1},
                {"/etc/machine-id", machine, sizeof machine - 1}, {"/etc/hostname", "stockade\n", 9},
        };
        for (size_t i = 0; i < ELEMENTSOF(made); i++)
                plan_add(b, OP_FILE, 0, made[i].path, (const void *)made[i].data, made[i].size);
        compile_network_files(p, o, b);
        plan_add(b, OP_LINK, 0, "/etc/mtab", "/proc/self/mounts");
        for (size_t i = 0; i < ELEMENTSOF(etc_binds); i++)
                plan_add(b, OP_BIND, STEP_OPTIONAL | STEP_NOEXEC, etc_binds[i], etc_binds[i]);
        for (size_t i = 0; i < ELEMENTSOF(etc_copies); i++)
                plan_add(b, OP_COPY, 0, etc_copies[i]);
        for (size_t i = 0; i < ELEMENTSOF(etc_links); i++)
                plan_add(b, OP_LIKE_HOST, STEP_NOEXEC, etc_links[i]);
}

const char *compile_home(const struct policy *p) {
        return p->files.workspace.path ? p->files.workspace.path : "/";
}

static void add_read_paths(const struct policy *p, struct buf *b) {
        for (size_t i = 0; i < p->files.read.count; i++) {
                const char *path = p->files.read.items[i];
                bool executable = compile_executable(p, path);

                if (str_eq(path, "/"))
                        continue; /* the root overlay shows it */
                plan_add(b, OP_BIND, executable ? 0U : (unsigned)STEP_NOEXEC, path, path);
                if (executable)
                        continue;
                for (size_t k = 0; k < ELEMENTSOF(library_dirs); k++)
                        if (compile_below(library_dirs[k], path))
                                plan_add(b, OP_PROGRAM, 0, library_dirs[k]);
                for (size_t k = 0; k < p->tools.exec.count; k++)
                        if (compile_below(p->tools.exec.items[k], path))
                                plan_add(b, OP_PROGRAM, 0, p->tools.exec.items[k]);
        }
}

static uint64_t place_size(const struct policy_place *place) {
        return place->path && place->size != POLICY_UNSET ? place->size : PLACE_SIZE;
}

static uint64_t place_inodes(const struct policy_place *place) {
        return place->path && place->inodes != POLICY_UNSET ? place->inodes : PLACE_INODES;
}

bool compile_disk(const struct policy *p, const struct compile_options *o, uint64_t *ret_size, uint64_t *ret_inodes) {
        const struct policy_place *whole = compile_whole_tree(p), *w = &p->files.workspace;
        const struct policy_place *place = o->image && whole ? whole : w;

        if (!o->image && (!o->disk || !w->path))
                return false;
        *ret_size = place_size(place);
        *ret_inodes = place_inodes(place);
        return true;
}

/* Everything that is mounted for its own sake, by the path inside: places of the policy, shares, the workspace. */
struct mount {
        const char *path;
        const struct policy_place *place;
        const struct compile_share *share; /* neither: the copy-on-write workspace */
};

static void add_mount(const struct policy *p, const struct compile_options *o, const struct mount *m, struct buf *b) {
        unsigned noexec = compile_executable(p, m->path) ? 0 : STEP_NOEXEC;
        bool open_to_all = str_eq(m->path, "/tmp") || str_eq(m->path, "/var/tmp");
        const struct policy_place *size = m->place ? m->place : &p->files.workspace;
        uint64_t bytes = place_size(size), inodes = place_inodes(size);
        bool workspace = m->place == &p->files.workspace;

        if (workspace && o->image) /* a folder of the root, which is the disk */
                plan_add(b, OP_DIR, STEP_OWNED, m->path, (uint64_t)0755);
        else if (workspace && o->disk)
                plan_add(b, OP_DISK, STEP_WATCH | noexec, m->path, bytes, inodes);
        else if (m->place)
                plan_add(b, OP_TMPFS, STEP_WATCH | noexec, m->path, bytes, inodes,
                         (uint64_t)(open_to_all ? 01777 : 0755));
        else if (m->share)
                plan_add(b, OP_BIND, STEP_EXACT | (m->share->writable ? STEP_WRITE | STEP_OWNED : 0U) | noexec,
                         m->share->source, m->path);
        else
                plan_add(b, OP_OVERLAY, STEP_EXACT | STEP_OWNED | STEP_WATCH | noexec, o->workspace, m->path, bytes,
                         inodes);
}

static int by_length(const void *a, const void *b) {
        size_t x = strlen(((const struct mount *)a)->path), y = strlen(((const struct mount *)b)->path);

        return x != y ? (x < y ? -1 : 1) : strcmp(((const struct mount *)a)->path, ((const struct mount *)b)->path);
}

/* Shorter paths first, whatever the order of options: what is mounted inside something else is mounted on top of it. */
static int add_mounts(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err) {
        struct mount mounts[2 * POLICY_LIST_MAX + 2];
        size_t n = 0;

        if (p->files.workspace.path)
                mounts[n++] = (struct mount){p->files.workspace.path, &p->files.workspace, NULL};
        for (size_t i = 0; i < p->files.write_count && i < POLICY_LIST_MAX; i++) {
                const struct policy_place *w = &p->files.write[i];
                if (!str_eq(w->path, "/") && !(p->files.workspace.path && str_eq(w->path, p->files.workspace.path)))
                        mounts[n++] = (struct mount){w->path, w, NULL};
        }
        for (size_t i = 0; i < o->share_count && i < POLICY_LIST_MAX; i++)
                mounts[n++] = (struct mount){o->shares[i].path, NULL, &o->shares[i]};
        if (o->workspace)
                mounts[n++] = (struct mount){o->workspace, NULL, NULL};
        qsort(mounts, n, sizeof mounts[0], by_length);
        for (size_t i = 0; i < n; i++) {
                /* a share at the very place of the policy's takes it; two shares cannot both */
                if (i + 1 < n && str_eq(mounts[i].path, mounts[i + 1].path)) {
                        if (!mounts[i].place && !mounts[i + 1].place)
                                return err_set(err, ERR_INPUT, "two things are to be shared at '%s'", mounts[i].path);
                        if (mounts[i].place)
                                continue;
                        mounts[i + 1] = mounts[i];
                        continue;
                }
                add_mount(p, o, &mounts[i], b);
        }
        return 0;
}

static void add_dev(const struct policy *p, struct buf *b) {
        static const char *const links[][2] = {{"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
                                               {"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
                                               {"/dev/ptmx", "pts/ptmx"},          {"/dev/random", "urandom"}};

        for (size_t i = 0; i < ELEMENTSOF(devices); i++)
                plan_add(b, OP_BIND, STEP_DEVICE | STEP_NOEXEC, devices[i], devices[i]);
        for (size_t i = 0; i < p->devices.count; i++)
                plan_add(b, OP_BIND, STEP_DEVICE | STEP_NOEXEC, p->devices.items[i], p->devices.items[i]);
        for (size_t i = 0; i < ELEMENTSOF(links); i++)
                plan_add(b, OP_LINK, 0, links[i][0], links[i][1]);
        plan_add(b, OP_DEVPTS, 0, "/dev/pts");
        plan_add(b, OP_TMPFS, STEP_NOEXEC | STEP_WATCH, "/dev/shm", p->shm != POLICY_UNSET ? p->shm : SHM_SIZE,
                 SHM_INODES, (uint64_t)01777);
}

/* A hidden path below something that the caller shared as writable is masked if it is there; to make it there only to
 * hide it would leave litter on the host. */
static void add_hidden(const struct policy *p, const struct compile_options *o, struct buf *b) {
        for (size_t i = 0; i < p->files.hide.count; i++) {
                enum plan_op op = OP_HIDE;

                for (size_t k = 0; k < o->share_count; k++)
                        if (o->shares[k].writable && compile_below(p->files.hide.items[i], o->shares[k].path))
                                op = OP_MASK;
                if (o->workspace && compile_below(p->files.hide.items[i], o->workspace))
                        op = OP_MASK;
                plan_add(b, op, 0, p->files.hide.items[i]);
        }
}

static int add_tree(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err) {
        const struct policy_place *whole = compile_whole_tree(p);

        plan_add(b, OP_HOSTNAME, 0, "stockade");
        if (o->image) {
                uint64_t size = 0, inodes = 0;

                (void)compile_disk(p, o, &size, &inodes);
                plan_add(b, OP_ROOT_DISK, STEP_WATCH, size, inodes);
        } else if (o->root)
                plan_add(b, OP_ROOT_OVERLAY, STEP_EXACT, o->root, ROOT_SIZE, ROOT_INODES);
        else if (whole)
                plan_add(b, OP_ROOT_OVERLAY, STEP_WATCH, "/", place_size(whole), place_inodes(whole));
        else {
                plan_add(b, OP_ROOT_TMPFS, 0, ROOT_SIZE, ROOT_INODES);
                add_etc(p, o, b);
                add_read_paths(p, b);
                for (size_t i = 0; i < ELEMENTSOF(host_links); i++)
                        plan_add(b, OP_LIKE_HOST,
                                 p->tools.exec_set && !compile_executable(p, host_links[i]) ? STEP_NOEXEC : 0U,
                                 host_links[i]);
        }
        if (compile_others_tree(p, o)) { /* it gets its own /dev and /run on top */
                plan_add(b, OP_TMPFS, STEP_NOEXEC, "/dev", ROOT_SIZE, (uint64_t)64 + p->devices.count, (uint64_t)0755);
                plan_add(b, OP_TMPFS, 0, "/run", ROOT_SIZE, (uint64_t)64, (uint64_t)0755);
                if (compile_networked(p, o))
                        compile_network_files(p, o, b);
        }
        add_dev(p, b);
        int r = add_mounts(p, o, b, err);
        if (r < 0)
                return r;
        plan_add(b, OP_PROC, 0, "/proc");
        for (size_t i = 0; i < ELEMENTSOF(masks); i++)
                plan_add(b, OP_MASK, 0, masks[i]);
        add_hidden(p, o, b);
        /* last, so that nothing can cover it */
        plan_add(b, OP_BIND, 0, o->guest, "/run/stockade/guest");
        compile_network(p, o, b);
        return 0;
}

static void add_limit(struct buf *b, const char *key, uint64_t value) {
        if (value != POLICY_UNSET)
                plan_add(b, OP_LIMIT, 0, key, value);
}

static void add_env(struct buf *b, const char *name, const char *value) {
        _cleanup_buf_ struct buf pair = {0};

        buf_printf(&pair, "%s=%s", name, value);
        if (!buf_ok(&pair)) {
                b->failed = true;
                return;
        }
        plan_add(b, OP_ENV, 0, pair.data);
}

/* Defaults first: a later setting of the same name wins. */
static void add_environment(const struct policy *p, const struct compile_options *o, struct buf *b) {
        const char *user = p->user.name ? p->user.name : "agent";

        add_env(b, "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
        add_env(b, "HOME", compile_home(p));
        add_env(b, "USER", user);
        add_env(b, "LOGNAME", user);
        add_env(b, "SHELL", "/bin/bash");
        add_env(b, "LANG", "C.UTF-8");
        add_env(b, "STOCKADE", p->name ? p->name : "1");
        compile_network_environment(p, o, b);
        for (size_t i = 0; i < p->env_count; i++)
                add_env(b, p->env[i].name, p->env[i].value);
}

static bool visible(const struct policy *p, const struct compile_options *o, const char *path) {
        if (compile_others_tree(p, o))
                return true;
        for (size_t i = 0; i < p->files.read.count; i++)
                if (compile_below(path, p->files.read.items[i]))
                        return true;
        for (size_t i = 0; i < o->share_count; i++)
                if (compile_below(path, o->shares[i].path))
                        return true;
        return o->workspace && compile_below(path, o->workspace);
}

static int add_outside(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err) {
        uint64_t wall = o->lives || p->time.run < p->time.lifetime ? p->time.run : p->time.lifetime;

        plan_add(b, OP_PROFILE, 0, p->name ? p->name : "unnamed");
        add_limit(b, "limits.cpus", p->limits.cpus);
        add_limit(b, "limits.memory", p->limits.memory);
        add_limit(b, "limits.processes", p->limits.processes);
        add_limit(b, "limits.disk_read", p->limits.disk_read);
        add_limit(b, "limits.disk_write", p->limits.disk_write);
        add_limit(b, "limits.output", p->limits.output);
        add_limit(b, "time.run", wall);
        if (o->lives) {
                add_limit(b, "time.idle", p->time.idle);
                add_limit(b, "time.lifetime", p->time.lifetime);
        }
        add_limit(b, "budget.cpu", p->budget.cpu);
        if (compile_networked(p, o)) {
                add_limit(b, "limits.connections", p->limits.connections);
                add_limit(b, "limits.lookups", p->limits.lookups);
                add_limit(b, "limits.bandwidth", p->limits.bandwidth);
                add_limit(b, "budget.egress", p->budget.egress);
        }
        for (size_t i = 0; i < o->accepted_count; i++)
                plan_add(b, OP_ACCEPT, 0, o->accepted[i]);
        add_environment(p, o, b);
        plan_add(b, OP_CWD, 0, o->cwd && visible(p, o, o->cwd) ? o->cwd : compile_home(p));
        plan_add(b, OP_USER, 0, (uint64_t)COMPILE_UID, (uint64_t)COMPILE_GID);
        return compile_reach(p, o, b, err);
}

static int check_options(const struct compile_options *o, struct err *err) {
        if (o->rootless && (o->disk || o->image)) {
                (void)err_set(err, ERR_UNENFORCED, "%s cannot be had without root",
                              o->image ? "image: a tree from an image" : "a disk with a quota of its own");
                return err_hint(err, "run the daemon as root, or keep the sandbox's files in memory");
        }
        if (o->image && o->root)
                return err_set(err, ERR_INPUT, "the root cannot be both an image and a directory of the host");
        return 0;
}

int compile_plan(const struct policy *p, const uint8_t policy_hash[HASH_SIZE], const struct compile_options *o,
                 struct buf *ret, struct err *err) {
        int r = check_options(o, err);
        if (r < 0)
                return r;
        ret->max = PLAN_MAX_SIZE;
        plan_begin(ret, policy_hash);
        r = add_outside(p, o, ret, err);
        if (r == 0)
                r = add_tree(p, o, ret, err);
        if (r == 0)
                r = compile_confine(p, o, ret, err);
        return r < 0 ? r : plan_end(ret, err);
}
