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

#include "base/knockout.h"
#include "cell/ids.h"
#include "cell/prepare.h"
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

/* Root: a range of host ids that no other running sandbox has. */
static int take_ids(struct run *r, struct err *err) {
        uint32_t slot;
        _cleanup_fd_ int fd = ids_open(err);

        int result = fd < 0 ? fd : ids_take(fd, false, &slot, err);
        if (result < 0)
                return result;
        r->cell.id_base = CELL_ID_FIRST + slot * CELL_ID_RANGE;
        r->id_lock = TAKE_FD(fd);
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
        if (knockout_off(KNOCKOUT_IDS))
                c->tree_uid = c->tree_gid = 0;
        return 0;
}

static int make_cgroup(struct run *r, struct err *err) {
        struct cgroup_limits l = CGROUP_LIMITS_NONE;

        if (knockout_off(KNOCKOUT_CGROUP))
                return cgroup_create(&r->cgroup, r->id, &l, NULL, 0, err);
        l.cpus = r->limits.cpus;
        l.memory = r->limits.memory;
        l.processes = r->limits.processes;
        l.disk_read = r->limits.disk_read;
        l.disk_write = r->limits.disk_write;
        l.want_cpu_usage = true;
        l.need_cpu_usage = r->limits.cpu_time != UINT64_MAX;
        int result = prepare_devices(&r->plan, &l, err);
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
        for (size_t i = 0; knockout_off(KNOCKOUT_ENV) && environ[i]; i++)
                room++;
        env = calloc(room, sizeof *env);
        if (!env)
                return err_set(err, -ENOMEM, "could not make the environment");
        for (size_t i = 0; knockout_off(KNOCKOUT_ENV) && environ[i]; i++)
                env[count++] = environ[i];
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
        *ret = knockout_environment(TAKE_PTR(env));
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
        bool tty = r->cell.tty || (knockout_off(KNOCKOUT_STREAMS) && isatty(STDIN_FILENO));
        argv[2] = (char *)(uintptr_t)(tty ? "tty" : "-");
        memcpy(argv + 3, r->options.argv, n * sizeof *argv);
        *ret = argv;
        return 0;
}

int start_run(struct run *r, struct err *err) {
        int ends[2];
        char **argv = NULL, **env = NULL;

        int result = prepare_core_handler(err);
        if (result == 0 && r->limits.overlay)
                result = changes_prepare(r, err);
        if (result == 0 && r->limits.overlay) {
                struct stat st;

                r->lower = prepare_open_exact(r->limits.overlay, O_RDONLY | O_DIRECTORY);
                if (r->lower < 0 || fstat(r->lower, &st) < 0)
                        return err_set(err, r->lower < 0 ? r->lower : -errno, "cannot open '%s'", r->limits.overlay);
                r->cell.overlay_dev = st.st_dev;
                r->cell.overlay_ino = st.st_ino;
        }
        if (result == 0)
                result = prepare_submounts(&r->plan, err);
        if (result == 0)
                result = relay_prepare(r, err);
        if (result == 0)
                result = prepare_ids(r, err);
        if (result == 0)
                result = network_prepare(r, err);
        if (result == 0)
                result = keeper_start(r, err); /* before anything that would be left behind */
        if (result == 0)
                run_skeleton_get(r);
        if (knockout_off(KNOCKOUT_MOUNTS))
                r->cell.skeleton = NULL;
        if (knockout_off(KNOCKOUT_LAUNCHER))
                fd_close(&r->skeleton_lock);
        if (result == 0 && r->network.trust)
                result = network_start(r, err); /* works while we do: its authority has to be inside */
        if (result == 0)
                result = make_cgroup(r, err);
        if (result == 0)
                result = prepare_namespaces(&r->cell, &r->plan,
                                            err); /* after the keeper: no helper is copied into it */
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
        prepare_done(&r->cell);
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
