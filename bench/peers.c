/* Command lines and the OCI bundle for the other programs. Started with posix_spawn and an argument vector, never
 * through a shell. The temporary directory is world-readable: a container's mapped root has to walk through it. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "bench/peers.h"
#include "bench/tree.h"

extern char **environ;

/* Namespaces, ids, limits and masks as the floor has them. The filter denies a few calls: runc compiles it each time.
 */
static const char peers_config[] =
        "{\"ociVersion\":\"1.0.2\",\"hostname\":\"sandbox\",\"root\":{\"path\":\"%s\",\"readonly\":true},"
        "\"process\":{\"terminal\":false,\"user\":{\"uid\":1000,\"gid\":1000},\"cwd\":\"/\",\"noNewPrivileges\":true,"
        "\"args\":[\"/usr/bin/true\"],\"env\":[\"PATH=/usr/bin:/bin\"],\"capabilities\":{}},"
        "\"mounts\":["
        "{\"destination\":\"/usr\",\"type\":\"bind\",\"source\":\"/"
        "usr\",\"options\":[\"bind\",\"ro\",\"nosuid\",\"nodev\"]},"
        "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
        "{\"destination\":\"/"
        "dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\",\"mode=755\",\"size=64k\"]},"
        "{\"destination\":\"/dev/pts\",\"type\":\"devpts\",\"source\":\"devpts\","
        "\"options\":[\"nosuid\",\"noexec\",\"newinstance\",\"ptmxmode=0666\",\"mode=0620\"]},"
        "{\"destination\":\"/tmp\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
        "\"options\":[\"nosuid\",\"nodev\",\"size=64m\",\"nr_inodes=8192\",\"mode=1777\"]}],"
        "\"linux\":{\"cgroupsPath\":\"/bench-runc-%d\","
        "\"uidMappings\":[{\"containerID\":0,\"hostID\":1000000,\"size\":65536}],"
        "\"gidMappings\":[{\"containerID\":0,\"hostID\":1000000,\"size\":65536}],"
        "\"namespaces\":[{\"type\":\"user\"},{\"type\":\"pid\"},{\"type\":\"mount\"},{\"type\":\"network\"},{\"type\":"
        "\"ipc\"},"
        "{\"type\":\"uts\"},{\"type\":\"cgroup\"}],"
        "\"resources\":{\"memory\":{\"limit\":268435456,\"swap\":"
        "268435456},"
        "\"pids\":{\"limit\":64},\"cpu\":{\"quota\":100000,\"period\":100000}},"
        "\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"SCMP_ARCH_X86_64\"],"
        "\"syscalls\":[{\"names\":[\"bpf\",\"kexec_load\",\"mount\",\"umount2\",\"ptrace\",\"reboot\",\"swapon\","
        "\"unshare\"],"
        "\"action\":\"SCMP_ACT_ERRNO\"}]},"
        "\"maskedPaths\":[\"/proc/keys\",\"/proc/timer_list\",\"/proc/kcore\",\"/proc/sched_debug\"],"
        "\"readonlyPaths\":[\"/proc/sys\",\"/proc/bus\",\"/proc/fs\",\"/proc/irq\",\"/proc/sysrq-trigger\"]}}\n";

static void peers_skip(struct peer *p, const char *reason) {
        p->program[0] = '\0';
        (void)snprintf(p->skip, sizeof(p->skip), "%s", reason);
}

/* Looks name up in the usual folders, as execvp would. */
static bool peers_find(struct peer *p, const char *name) {
        static const char *const folders[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"};
        for (size_t i = 0; i < ELEMENTSOF(folders); i++) {
                (void)snprintf(p->program, sizeof(p->program), "%s/%s", folders[i], name);
                if (access(p->program, X_OK) == 0)
                        return true;
        }
        peers_skip(p, "not installed");
        return false;
}

static void peers_set_argv(struct peer *p, const char *const *argv, size_t count) {
        assert(count < PEERS_ARGS);
        for (size_t i = 0; i < count; i++)
                p->argv[i] = argv[i];
        p->argv[count] = NULL;
}
#define PEERS_ARGV(peer, ...)                                                                                          \
        peers_set_argv(peer, (const char *const[]){__VA_ARGS__}, ELEMENTSOF(((const char *const[]){__VA_ARGS__})))

int peers_spawn(const char *program, const char *const *argv, pid_t *ret_pid) {
        pid_t pid = -1;
        int r = posix_spawn(&pid, program, NULL, NULL, (char *const *)(uintptr_t)argv, environ);
        if (r != 0)
                return -r;
        *ret_pid = pid;
        return 0;
}

int peers_run(const char *program, const char *const *argv) {
        pid_t pid = -1;
        int status = 0;
        int r = peers_spawn(program, argv, &pid);
        if (r < 0)
                return r;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void peers_add(struct peer *peer, const char *option, const char *from, const char *to) {
        size_t n = 0;

        while (peer->argv[n])
                n++;
        assert(n + 3 < PEERS_ARGS);
        peer->argv[n++] = option;
        if (from)
                peer->argv[n++] = from;
        peer->argv[n++] = to;
        peer->argv[n] = NULL;
}

/* The mounts that `stockade run --profile low --plan` lists, one by one, where this host has them. */
static void peers_bwrap(struct peers *p, struct peer *peer) {
        static const char *const etc[] = {"/etc/alternatives", "/etc/chromium.d", "/etc/fonts", "/etc/java-17-openjdk",
                                          "/etc/ssl/certs"};
        static const char *const masks[] = {"/proc/cmdline", "/proc/interrupts", "/proc/kallsyms", "/proc/keys",
                                            "/proc/modules"};
        static const char *const mask_dirs[] = {"/proc/acpi", "/proc/asound", "/proc/scsi"};

        if (!peers_find(peer, "bwrap"))
                return;
        PEERS_ARGV(peer, "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid",
                   "1000", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
                   "--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
                   "--ro-bind", p->etc, "/etc", "--proc", "/proc", "--dev", "/dev", "--size", "67108864", "--tmpfs",
                   "/tmp", "--size", "16777216", "--tmpfs", "/dev/shm", "--dir", "/run", "--ro-bind", "/usr/bin/true",
                   "/run/guest");
        for (size_t i = 0; i < ELEMENTSOF(etc); i++)
                if (access(etc[i], F_OK) == 0)
                        peers_add(peer, "--ro-bind", etc[i], etc[i]);
        for (size_t i = 0; i < ELEMENTSOF(masks); i++)
                if (access(masks[i], F_OK) == 0)
                        peers_add(peer, "--ro-bind", "/dev/null", masks[i]);
        for (size_t i = 0; i < ELEMENTSOF(mask_dirs); i++)
                if (access(mask_dirs[i], F_OK) == 0)
                        peers_add(peer, "--tmpfs", NULL, mask_dirs[i]);
        peers_add(peer, "--chdir", "/tmp", "/usr/bin/true");
}

static int peers_runc(struct peers *p, struct peer *peer, struct err *err) {
        if (!peers_find(peer, "runc"))
                return 0;
        _cleanup_buf_ struct buf config = {0};
        if (mkdir(p->bundle, 0755) < 0)
                return err_set(err, -errno, "cannot make the runc bundle '%s'", p->bundle);
        _cleanup_fd_ int dir = open(p->bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        buf_printf(&config, peers_config, p->root, (int)getpid());
        int r = dir < 0           ? -errno
                : buf_ok(&config) ? fd_replace_file(dir, "config.json", 0644, config.data, config.size)
                                  : -ENOMEM;
        if (r < 0)
                return err_set(err, r, "cannot write config.json into '%s'", p->bundle);
        PEERS_ARGV(peer, "runc", "--root", p->state, "run", "--bundle", p->bundle, "stockade-bench");
        return 0;
}

static void peers_docker(struct peer *peer, const char *image) {
        if (!peers_find(peer, "docker"))
                return;
        int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(null, STDERR_FILENO); /* the client's own complaint becomes our reason */
        int daemon = peers_run(peer->program, (const char *const[]){"docker", "version", "--format", "x", NULL});
        int there = peers_run(peer->program, (const char *const[]){"docker", "image", "inspect", image, NULL});
        (void)dup2(saved, STDERR_FILENO);
        fd_close(&saved);
        fd_close(&null);
        if (daemon != 0)
                peers_skip(peer, "no Docker daemon answers");
        else if (there != 0)
                peers_skip(peer, "its image is not on this machine (name one with --image)");
        else
                PEERS_ARGV(peer, "docker", "run", "--rm", "--pull", "never", "--network", "none", "--read-only",
                           "--tmpfs", "/tmp:size=64m", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
                           "--memory", "256m", "--pids-limit", "64", "--cpus", "1", image, "/usr/bin/true");
}

static void peers_stockade(struct peer *peer, const char *stockade) {
        if (strlen(stockade) >= sizeof(peer->program) || access(stockade, X_OK) < 0) {
                (void)snprintf(peer->skip, sizeof(peer->skip), "no program at '%.200s' (build it, or --stockade PATH)",
                               stockade);
                return;
        }
        (void)snprintf(peer->program, sizeof(peer->program), "%s", stockade);
        PEERS_ARGV(peer, "stockade", "run", "--profile", "low", "--", "/usr/bin/true");
}

static int peers_make_tree(struct peers *p, struct err *err) {
        static const char pattern[] = "/tmp/stockade-bench-XXXXXX";
        memcpy(p->dir, pattern, sizeof(pattern));
        if (!mkdtemp(p->dir)) {
                p->dir[0] = '\0';
                return err_set(err, -errno, "cannot make a temporary directory in /tmp");
        }
        (void)snprintf(p->root, sizeof(p->root), "%s/root", p->dir);
        (void)snprintf(p->etc, sizeof(p->etc), "%s/etc", p->root);
        (void)snprintf(p->bundle, sizeof(p->bundle), "%s/bundle", p->dir);
        (void)snprintf(p->state, sizeof(p->state), "%s/state", p->dir);
        if (chmod(p->dir, 0755) < 0 || mkdir(p->root, 0755) < 0)
                return err_set(err, -errno, "cannot make '%s'", p->root);
        _cleanup_fd_ int root = open(p->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = root < 0 ? -errno : tree_fill(root);
        return r < 0 ? err_set(err, r, "cannot fill '%s'", p->root) : 0;
}

int peers_open(struct peers *p, const char *stockade, const char *image, struct err *err) {
        static const char *const names[PEERS] = {"bare", "stockade", "bwrap", "runc", "docker", "runsc"};
        *p = (struct peers){0};
        for (size_t i = 0; i < PEERS; i++)
                p->peer[i].name = names[i];
        int r = peers_make_tree(p, err);
        if (r < 0)
                return r;
        (void)snprintf(p->peer[PEER_BARE].program, sizeof(p->peer[PEER_BARE].program), "/usr/bin/true");
        PEERS_ARGV(&p->peer[PEER_BARE], "true");
        peers_stockade(&p->peer[PEER_STOCKADE], stockade);
        peers_bwrap(p, &p->peer[PEER_BWRAP]);
        peers_docker(&p->peer[PEER_DOCKER], image);
        if (peers_find(&p->peer[PEER_RUNSC], "runsc"))
                PEERS_ARGV(&p->peer[PEER_RUNSC], "runsc", "--network=none", "--ignore-cgroups", "do", "/usr/bin/true");
        return peers_runc(p, &p->peer[PEER_RUNC], err);
}

void peers_close(struct peers *p) {
        if (p->dir[0] != '\0')
                (void)tree_remove(AT_FDCWD, p->dir);
        p->dir[0] = '\0';
}
