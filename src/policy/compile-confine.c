/* The second half of a plan: ids, limits on single processes, Landlock, seccomp, exec.
 *
 * Landlock repeats what the mounts already say, so that a mistake in one of the two is not a hole: what may be read,
 * written and executed is granted path by path, and everything else in the tree is refused. */
#include <linux/filter.h>
#include <linux/landlock.h>
#include <sys/resource.h>

#include "policy/compile-internal.h"
#include "policy/filter.h"

#define RIGHT_TRUNCATE  (1ULL << 14)
#define RIGHT_IOCTL_DEV (1ULL << 15)
#define RIGHT_ALL       ((RIGHT_IOCTL_DEV << 1) - 1)
#define RIGHT_READ      (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHT_EXEC      LANDLOCK_ACCESS_FS_EXECUTE
/* devices can never be made */
#define RIGHT_WRITE                                                                                                    \
        (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |              \
         LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                    \
         LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | RIGHT_TRUNCATE)

/* Debian 12's kernel has ABI 2; what newer ones add is used where it is there. */
#define LANDLOCK_NEEDED_ABI 2ULL

/* Programs start through these; the kernel asks for the right to execute them too. */
static const char *const interpreters[] = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                           "/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"};

static bool accepted(const struct compile_options *o, const char *key) {
        for (size_t i = 0; i < o->accepted_count; i++)
                if (str_eq(o->accepted[i], key))
                        return true;
        return false;
}

static void rule(struct buf *b, const char *path, uint64_t rights) {
        plan_add(b, OP_LANDLOCK_RULE, STEP_OPTIONAL, path, rights);
}

static uint64_t exec_right(const struct policy *p, const char *path) {
        return compile_executable(p, path) ? RIGHT_EXEC : 0;
}

/* A path that is read and may be executed as a whole has its rule already. */
static bool readable_above(const struct policy *p, const char *path) {
        for (size_t i = 0; i < p->files.read.count; i++)
                if (str_eq(p->files.read.items[i], path))
                        return true;
        return false;
}

static void add_places(const struct policy *p, const struct compile_options *o, struct buf *b) {
        const char *workspace = p->files.workspace.path;

        if (workspace)
                rule(b, workspace, RIGHT_READ | RIGHT_WRITE | exec_right(p, workspace));
        for (size_t i = 0; i < p->files.write_count; i++) {
                const char *path = p->files.write[i].path;
                if (workspace && str_eq(path, workspace))
                        continue;
                rule(b, path, RIGHT_READ | RIGHT_WRITE | exec_right(p, path));
        }
        for (size_t i = 0; i < o->share_count; i++) {
                const struct compile_share *s = &o->shares[i];
                rule(b, s->path, RIGHT_READ | exec_right(p, s->path) | (s->writable ? RIGHT_WRITE : 0));
        }
        if (o->workspace)
                rule(b, o->workspace, RIGHT_READ | RIGHT_WRITE | exec_right(p, o->workspace));
}

static void add_landlock(const struct policy *p, const struct compile_options *o, struct buf *b) {
        plan_add(b, OP_LANDLOCK, 0, (uint64_t)RIGHT_ALL, LANDLOCK_NEEDED_ABI);
        rule(b, "/", LANDLOCK_ACCESS_FS_READ_DIR);
        if (o->root)
                rule(b, "/", RIGHT_READ | exec_right(p, "/"));
        if (o->image)
                rule(b, "/", RIGHT_READ | RIGHT_WRITE | exec_right(p, "/"));
        for (size_t i = 0; i < p->files.read.count; i++)
                rule(b, p->files.read.items[i], RIGHT_READ | exec_right(p, p->files.read.items[i]));
        rule(b, "/etc", RIGHT_READ);
        rule(b, "/proc", RIGHT_READ);
        rule(b, "/run/stockade", RIGHT_READ | RIGHT_EXEC);
        rule(b, "/dev", RIGHT_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | RIGHT_TRUNCATE | RIGHT_IOCTL_DEV);
        rule(b, "/dev/shm", RIGHT_READ | RIGHT_WRITE);
        /* in trees without a merged /usr these are directories of their own */
        static const char *const host_dirs[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
        for (size_t i = 0; i < ELEMENTSOF(host_dirs); i++)
                if (compile_executable(p, "/usr"))
                        plan_add(b, OP_LANDLOCK_RULE, STEP_OPTIONAL | STEP_UNLINKED, host_dirs[i],
                                 RIGHT_READ | RIGHT_EXEC);
        for (size_t i = 0; i < p->tools.exec.count; i++)
                if (!readable_above(p, p->tools.exec.items[i]))
                        rule(b, p->tools.exec.items[i], RIGHT_READ | RIGHT_EXEC);
        for (size_t i = 0; i < ELEMENTSOF(interpreters) && !compile_executable(p, "/usr"); i++)
                rule(b, interpreters[i], RIGHT_READ | RIGHT_EXEC);
        add_places(p, o, b);
        plan_add(b, OP_LANDLOCK_END, 0);
}

int compile_confine(const struct policy *p, const struct compile_options *o, struct buf *b, struct err *err) {
        struct sock_filter program[BPF_MAXINSNS];
        struct filter_options filter = {.no_memfd = p->tools.exec_set, .no_ptrace = p->tools.exec_set};

        if (o->root && p->tools.exec_set && !compile_executable(p, "/usr") && !accepted(o, "tools.exec")) {
                (void)err_set(err, ERR_UNENFORCED,
                              "tools.exec: a list of single programs is not enforceable yet with --root");
                return err_hint(
                        err,
                        "its loader could start the others: allow /usr as a whole, or --accept-missing tools.exec");
        }
        /* what is written to a root that is executable as a whole could be started through its loader */
        if (o->image && !compile_executable(p, "/") && !accepted(o, "tools.exec")) {
                (void)err_set(err, ERR_UNENFORCED, "tools.exec: a list of programs is not enforceable yet in an image");
                return err_hint(err, "leave the list out, or the image");
        }
        int count = filter_compile(&filter, program, ELEMENTSOF(program), err);
        if (count < 0)
                return count;

        plan_add(b, OP_PIVOT, 0);
        if (o->root || (!o->image && !compile_whole_tree(p)))
                plan_add(b, OP_READONLY, 0, "/");
        if (compile_others_tree(p, o)) {
                plan_add(b, OP_READONLY, 0, "/dev");
                plan_add(b, OP_READONLY, 0, "/run");
        }
        plan_add(b, OP_SESSION, 0);
        plan_add(b, OP_IDS, 0, (uint64_t)COMPILE_UID, (uint64_t)COMPILE_GID);
        plan_add(b, OP_NO_NESTING, 0);
        plan_add(b, OP_CAPS, 0);
        plan_add(b, OP_NO_NEW_PRIVS, 0);
        if (!accepted(o, "landlock"))
                add_landlock(p, o, b);
        /* 1, not 0: too small for a core file, and the only value that also stops a core_pattern with a pipe in it,
         * which would start the host's handler, as root, on what crashed inside */
        plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_CORE, (uint64_t)1);
        plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_MEMLOCK, (uint64_t)(8 << 20));
        /* timers and queued signals are counted for the launcher's own id */
        plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_SIGPENDING, (uint64_t)1024);
        if (p->limits.files != POLICY_UNSET)
                plan_add(b, OP_RLIMIT, 0, (uint64_t)RLIMIT_NOFILE, p->limits.files);
        plan_add(b, OP_SECCOMP, 0, (const void *)program, (size_t)count * sizeof program[0]);
        plan_add(b, OP_EXEC, 0);
        return 0;
}
