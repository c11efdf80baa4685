/* Starting a run: everything between a checked plan and a running cell, in the order in which it has to be undone. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/kernel.h"
#include "cli/run.h"

/* A name that no other run has: time would repeat, counters are shared state. */
int start_name(struct run *r, struct err *err) {
        char *ret = r->id;
        uint8_t bytes[8];
        static const char digits[] = "0123456789abcdef";

        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
                return err_set(err, -errno, "could not get random bytes");
        for (size_t i = 0; i < sizeof bytes; i++) {
                ret[2 * i] = digits[bytes[i] >> 4];
                ret[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret[16] = '\0';
        return 0;
}

/* Root: a range of host ids that no other running sandbox has. A lock on one byte of a file stands for it; it goes with
 * the last process that holds the descriptor. */
static int take_ids(struct run *r, struct err *err) {
        uint32_t slot;

        _cleanup_fd_ int fd = open("/run/stockade/ids", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT) {
                if (mkdir("/run/stockade", 0711) < 0 && errno != EEXIST)
                        return err_set(err, -errno, "cannot make /run/stockade");
                fd = open("/run/stockade/ids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        }
        if (fd < 0)
                return err_set(err, -errno, "cannot open /run/stockade/ids");
        (void)getrandom(&slot, sizeof slot, 0);
        for (unsigned tries = 0; tries < CELL_ID_SLOTS; tries++) {
                slot = (slot + (tries > 0)) % CELL_ID_SLOTS;
                struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

                if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
                        r->cell.id_base = CELL_ID_FIRST + slot * CELL_ID_RANGE;
                        r->id_lock = TAKE_FD(fd);
                        return 0;
                }
                if (errno != EAGAIN && errno != EACCES)
                        return err_set(err, -errno, "cannot lock /run/stockade/ids");
        }
        return err_set(err, -EAGAIN, "all %u id ranges are in use", CELL_ID_SLOTS);
}

static int make_namespace(uint32_t inside, uint32_t outside, uint32_t count, uint32_t inside_gid, uint32_t outside_gid,
                          struct err *err) {
        char uids[48], gids[48];

        (void)snprintf(uids, sizeof uids, "%u %u %u", inside, outside, count);
        (void)snprintf(gids, sizeof gids, "%u %u %u", inside_gid, outside_gid, count);
        return cell_user_namespace(uids, gids, err);
}

/* What options named was resolved: a link on the way now was put there since. */
static int open_exact(const char *path, uint64_t flags) {
        return kernel_openat2(AT_FDCWD, path, flags | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Root: for every owner of a writable share, a namespace that shows that owner as the user inside. */
static int map_owners(struct run *r, struct err *err) {
        struct cell_context *c = &r->cell;
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(&r->plan, &walk, &s)) {
                struct stat st;
                size_t i;

                if (!(s.flags & STEP_OWNED))
                        continue;
                _cleanup_fd_ int path = open_exact(s.text[0], O_PATH);
                if (path < 0 || fstat(path, &st) < 0)
                        return err_set(err, path < 0 ? path : -errno, "cannot look at '%s'", s.text[0]);
                for (i = 0; i < c->owner_count; i++)
                        if (c->owners[i].uid == st.st_uid && c->owners[i].gid == st.st_gid)
                                break;
                if (i < c->owner_count)
                        continue;
                if (i >= CELL_OWNER_MAX)
                        return err_set(err, ERR_LIMIT, "writable paths have more than %d different owners",
                                       CELL_OWNER_MAX);
                int fd = make_namespace(st.st_uid, c->tree_uid, 1, st.st_gid, c->tree_gid, err);
                if (fd < 0)
                        return fd;
                c->owners[c->owner_count++] = (struct cell_owner){st.st_uid, st.st_gid, fd};
        }
        return 0;
}

static int prepare_ids(struct run *r, struct err *err) {
        struct cell_context *c = &r->cell;

        c->rootless = geteuid() != 0;
        if (c->rootless) {
                c->host_uid = geteuid();
                c->host_gid = getegid();
                c->tree_uid = (uid_t)r->limits.uid;
                c->tree_gid = (gid_t)r->limits.gid;
                return 0;
        }
        int result = take_ids(r, err);
        if (result < 0)
                return result;
        c->tree_uid = c->id_base + (uid_t)r->limits.uid;
        c->tree_gid = c->id_base + (gid_t)r->limits.gid;
        return 0;
}

/* After the keeper: helpers of namespaces must not be copied into it. */
static int prepare_namespaces(struct run *r, struct err *err) {
        struct cell_context *c = &r->cell;

        if (c->rootless)
                return 0;
        c->user_ns = make_namespace(0, c->id_base, CELL_ID_RANGE, 0, c->id_base, err);
        return c->user_ns < 0 ? c->user_ns : map_owners(r, err);
}

/* A share is bound with what is mounted below it. Kernel file systems there speak of the host, not of files. */
static int check_submounts(const struct run *r, struct err *err) {
        static const char kinds[] =
                " proc sysfs cgroup cgroup2 devtmpfs devpts debugfs tracefs securityfs bpf configfs efivarfs mqueue "
                "binfmt_misc pstore nsfs ";
        _cleanup_free_ char *text = NULL;
        struct plan_walk walk = {0};
        struct plan_step s;
        char point[4096], kind[64], pattern[80];

        while (plan_next(&r->plan, &walk, &s)) {
                if (!(s.flags & STEP_EXACT) || s.op != OP_BIND)
                        continue;
                if (!text && fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 4 << 20, false, &text, NULL, err) < 0)
                        return err->code;
                size_t n = strlen(s.text[0]);
                for (const char *line = text; *line; line = strchrnul(line, '\n') + (*strchrnul(line, '\n') == '\n')) {
                        const char *dash = strstr(line, " - ");

                        if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 ||
                            sscanf(dash, " - %63s", kind) != 1)
                                continue;
                        (void)snprintf(pattern, sizeof pattern, " %s ", kind);
                        if (strncmp(point, s.text[0], n) == 0 && point[n] == '/' && strstr(kinds, pattern)) {
                                (void)err_set(err, ERR_REFUSED, "'%s' has a %s file system mounted at '%s'", s.text[0],
                                              kind, point);
                                return err_hint(err, "it shows the host's kernel, not files: unmount it, or share the "
                                                     "folders beside it");
                        }
                }
        }
        return 0;
}

/* The file systems that disk limits are about: what is bound from the host. */
static int find_devices(struct run *r, struct cgroup_limits *l, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;

        if (l->disk_read == CGROUP_UNSET && l->disk_write == CGROUP_UNSET)
                return 0;
        while (plan_next(&r->plan, &walk, &s)) {
                if ((s.op != OP_BIND && s.op != OP_ROOT_OVERLAY && s.op != OP_OVERLAY) || (s.flags & STEP_DEVICE))
                        continue;
                _cleanup_fd_ int fd = open(s.text[0], O_PATH | O_CLOEXEC);
                if (fd < 0)
                        continue; /* the cell says what is missing */
                int result = cgroup_limits_add(l, fd, s.flags & STEP_WRITE);
                if (result < 0)
                        return err_set(err, result, "cannot tell which disk '%s' is on", s.text[0]);
        }
        return 0;
}

static int make_cgroup(struct run *r, struct err *err) {
        struct cgroup_limits l = CGROUP_LIMITS_NONE;

        l.cpus = r->limits.cpus;
        l.memory = r->limits.memory;
        l.processes = r->limits.processes;
        l.disk_read = r->limits.disk_read;
        l.disk_write = r->limits.disk_write;
        l.want_cpu_usage = true;
        l.need_cpu_usage = r->limits.cpu_time != UINT64_MAX;
        int result = find_devices(r, &l, err);
        if (result < 0)
                return result;
        return cgroup_create(&r->cgroup, r->id, &l, r->options.accept, r->options.accept_count, err);
}

/* The environment: the plan's, then the caller's --env, later ones winning, then TERM for a terminal. */
static int make_environment(struct run *r, char ***ret, struct err *err) {
        struct plan_walk walk = {0};
        struct plan_step s;
        size_t count = 0, room = 16 + RUN_LIST_MAX + GATE_SECRETS_MAX;
        _cleanup_free_ char **env = NULL;

        while (plan_next(&r->plan, &walk, &s))
                room += s.op == OP_ENV;
        env = calloc(room, sizeof *env);
        if (!env)
                return err_set(err, -ENOMEM, "could not make the environment");
        const char *term = getenv("TERM");
        char *term_pair = NULL;
        if (r->cell.tty && asprintf(&term_pair, "TERM=%.64s", term && term[0] ? term : "xterm") >= 0)
                env[count++] = term_pair;
        walk = (struct plan_walk){0};
        while (plan_next(&r->plan, &walk, &s))
                if (s.op == OP_ENV)
                        env[count++] = (char *)(uintptr_t)s.text[0];
        for (size_t i = 0; i < r->network.secret_count; i++) {
                char *pair;

                if (asprintf(&pair, "%s=%s", r->network.secrets[i].name, r->network.secrets[i].holder) < 0)
                        return err_set(err, -ENOMEM, "could not make the environment");
                env[count++] = pair;
        }
        for (size_t i = 0; i < r->options.env_count; i++)
                env[count++] = (char *)(uintptr_t)r->options.env[i];
        /* one setting per name: the last */
        for (size_t i = 0; i < count; i++)
                for (size_t k = i + 1; k < count; k++)
                        if (strncmp(env[i], env[k], strcspn(env[i], "=") + 1) == 0) {
                                memmove(env + i, env + i + 1, (count - i - 1) * sizeof *env);
                                count--;
                                i--;
                                break;
                        }
        env[count] = NULL;
        *ret = TAKE_PTR(env);
        return 0;
}

static int make_arguments(struct run *r, char ***ret, struct err *err) {
        size_t n = 0;

        while (r->options.argv[n])
                n++;
        char **argv = calloc(n + 4, sizeof *argv);
        if (!argv)
                return err_set(err, -ENOMEM, "could not make the argument list");
        argv[0] = (char *)(uintptr_t) "stockade-guest";
        argv[1] = (char *)(uintptr_t)r->limits.cwd;
        argv[2] = (char *)(uintptr_t)(r->cell.tty ? "tty" : "-");
        memcpy(argv + 3, r->options.argv, n * sizeof *argv);
        *ret = argv;
        return 0;
}

/* A hard limit of 0 on cores cannot be raised to the 1 that stops a handler of the host's (see compile-confine.c). */
static int check_core_handler(struct err *err) {
        struct rlimit limit;
        char pattern[2] = "";

        if (getrlimit(RLIMIT_CORE, &limit) < 0 || limit.rlim_max > 0)
                return 0;
        limit = (struct rlimit){1, 1};
        if (setrlimit(RLIMIT_CORE, &limit) == 0 ||
            fd_read_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) < 0)
                return 0;
        if (pattern[0] != '|' && pattern[0] != '@')
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "a crash inside would be handed to the host's core handler");
        return err_hint(err,
                        "this shell has a hard limit of 0 on cores: start from one without it ('ulimit -H -c' says)");
}

int start_run(struct run *r, struct err *err) {
        int ends[2];
        char **argv = NULL, **env = NULL;

        int result = check_core_handler(err);
        if (result == 0 && r->limits.overlay)
                result = changes_prepare(r, err);
        if (result == 0 && r->limits.overlay) {
                struct stat st;

                r->lower = open_exact(r->limits.overlay, O_RDONLY | O_DIRECTORY);
                if (r->lower < 0 || fstat(r->lower, &st) < 0)
                        return err_set(err, r->lower < 0 ? r->lower : -errno, "cannot open '%s'", r->limits.overlay);
                r->cell.overlay_dev = st.st_dev;
                r->cell.overlay_ino = st.st_ino;
        }
        if (result == 0)
                result = check_submounts(r, err);
        if (result == 0)
                result = relay_prepare(r, err);
        if (result == 0)
                skeleton_get(r);
        if (result == 0)
                result = prepare_ids(r, err);
        if (result == 0)
                result = network_prepare(r, err);
        if (result == 0)
                result = keeper_start(r, err); /* before anything that would be left behind */
        if (result == 0 && r->network.trust)
                result = network_start(r, err); /* works while we do: its authority has to be inside */
        if (result == 0)
                result = make_cgroup(r, err);
        if (result == 0)
                result = prepare_namespaces(r, err);
        if (result == 0)
                result = make_arguments(r, &argv, err);
        if (result == 0)
                result = make_environment(r, &env, err);
        if (result == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                result = err_set(err, -errno, "could not make a socket pair");
        if (result == 0)
                result = learn_prepare(r, err);
        if (result == 0)
                result = network_settle(r, err);
        if (result < 0)
                return result;

        r->report = ends[0];
        r->cell.report = ends[1];
        r->cell.report_outside = ends[0];
        r->cell.plan = &r->plan;
        r->cell.overlay = r->limits.overlay != NULL;
        r->cell.cgroup = &r->cgroup;
        r->cell.argv = argv;
        r->cell.envp = env;
        (void)clock_gettime(CLOCK_REALTIME, &r->start);
        r->outcome.start_ms = (uint64_t)r->start.tv_sec * 1000 + (uint64_t)r->start.tv_nsec / 1000000;
        result = cell_start(&r->cell, &r->pid, &r->pidfd, err);
        if (result == 0 && !r->network.trust)
                result = network_start(r, err); /* while the command starts: what it asks for waits in the sockets */
        fd_close(&r->cell.report);
        learn_started(r);
        for (int i = 0; i < 3; i++)
                if (r->cell.stdio[i] > 2) /* our copies of the sandbox's ends: their readers wait for the last to go */
                        fd_close(&r->cell.stdio[i]);
        for (size_t i = 0; i < ELEMENTSOF(r->cell.authority); i++)
                fd_close(&r->cell.authority[i]);
        fd_close(&r->cell.user_ns);
        for (size_t i = 0; i < r->cell.owner_count; i++)
                fd_close(&r->cell.owners[i].user_ns);
        return result;
}

void start_cleanup(struct run *r) {
        if (r->pid > 0) {
                (void)kill(r->pid, SIGKILL); /* not reaped yet */
                while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        network_end(r); /* before others are reaped: a number that was reaped may be somebody else's */
        learn_end(r);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ; /* helpers of namespaces */
        relay_terminal_restore(r);
        relay_flags_restore(r);
        if (!keeper_done(r))
                (void)cgroup_destroy(&r->cgroup);
        if (r->plan_bytes)
                (void)munmap(r->plan_bytes, r->plan_size);
        options_free(&r->options);
}
