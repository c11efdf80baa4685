/* The host looks at a process of a running sandbox through /proc: what it is confined by, as the kernel says it, not as
 * we configured it and not as anybody inside says. The same look at the judge's own process says the opposite.
 *
 * One sandbox is looked at, once, for all rows. Nothing is changed. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/scene.h"

enum { NAMESPACES = 7 };

static const char *const namespaces[NAMESPACES] = {"pid", "mnt", "net", "ipc", "uts", "cgroup", "user"};

struct look {
        pid_t pid, init;
        uid_t init_owner; /* of the files in /proc of PID 1 there */
        char status[4096], init_status[4096], limits[4096], uid_map[512];
        ino_t ns[NAMESPACES];
        struct stat root;
        char descriptors[1024]; /* "0 -> pipe:[1]; …" */
        size_t descriptor_count;
        char *mounts;
        char disk[32]; /* the device of its own disk; "" if it has none. To be asked while it runs */
        bool leaks;    /* a canary in the environment of it, of PID 1, or in their arguments */
        char memory[64], processes[64], quota[64], period[64];
        pid_t session;
        ino_t session_pidns;
        bool sees_canary; /* a file of the host is at its own path in its tree */
};

static struct look inside, self;
static char problem[256]; /* why there is no look */
static bool looked;

/* The number behind this word of a status text. */
static unsigned long long field(const char *text, const char *name, int base) {
        const char *at = strstr(text, name);

        return at ? strtoull(at + strlen(name), NULL, base) : ULLONG_MAX;
}

static ino_t namespace_of(pid_t pid, const char *name) {
        char path[64];
        struct stat st;

        (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name);
        return stat(path, &st) == 0 ? st.st_ino : 0;
}

static bool read_of(pid_t pid, const char *name, char *buf, size_t size) {
        char path[64];

        (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
        buf[0] = '\0';
        return fd_read_at(AT_FDCWD, path, buf, size) >= 0;
}

/* PID 1 of its namespace: up the line of parents until the innermost number is 1. */
static pid_t init_of(pid_t pid) {
        char status[4096];

        for (int i = 0; i < 32 && pid > 0 && read_of(pid, "status", status, sizeof status); i++) {
                char *at = strstr(status, "NSpid:"), *end = at ? strchr(at, '\n') : NULL;

                if (!end)
                        return 0;
                *end = '\0';
                if (str_eq(strrchr(at, '\t') + 1, "1"))
                        return pid;
                *end = '\n';
                pid = (pid_t)field(status, "PPid:", 10);
        }
        return 0;
}

static void look_at_descriptors(struct look *l) {
        char path[64], name[PATH_MAX], target[200];
        size_t used = 0;

        (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)l->pid);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                if (e->d_name[0] == '.' || (l->pid == getpid() && strtol(e->d_name, NULL, 10) == dirfd(dir)))
                        continue;
                (void)snprintf(name, sizeof name, "%s/%s", path, e->d_name);
                ssize_t n = readlink(name, target, sizeof target - 1);
                target[n > 0 ? n : 0] = '\0';
                l->descriptor_count++;
                int w = snprintf(l->descriptors + used, sizeof l->descriptors - used, "%s%s -> %s", used ? "; " : "",
                                 e->d_name, target);
                used += w > 0 && used + (size_t)w < sizeof l->descriptors ? (size_t)w : 0;
        }
        if (dir)
                (void)closedir(dir);
}

static bool has_canary(const struct judge *j, pid_t pid) {
        static const char *const names[] = {"environ", "cmdline"};
        char text[65536], path[64];

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, names[i]);
                _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? 0 : fd_read_full(fd, text, sizeof text);
                if (n > 0 && world_leaked(&j->world, text, (size_t)n) >= 0)
                        return true;
        }
        return false;
}

static void look_at_session(struct look *l) {
        char stat_text[1024];
        int session = 0;

        if (!read_of(l->pid, "stat", stat_text, sizeof stat_text))
                return;
        const char *at = strrchr(stat_text, ')');
        if (at && sscanf(at, ") %*c %*d %*d %d", &session) == 1)
                l->session = session;
        l->session_pidns = session > 0 ? namespace_of(session, "pid") : 0;
}

/* The disk that a daemon made for this sandbox: a file of its own, behind a loop device. */
static bool is_own_disk(const char *source) {
        char path[128], file[PATH_MAX];
        size_t digits = str_starts(source, "/dev/loop") ? strspn(source + 9, "0123456789") : 0;

        if (digits == 0 || source[9 + digits] != '\0')
                return false;
        (void)snprintf(path, sizeof path, "/sys/block/%.20s/loop/backing_file", source + 5);
        return fd_read_at(AT_FDCWD, path, file, sizeof file) >= 0 && digest_is_disk(file);
}

static void look_at_disk(struct look *l) {
        for (const char *line = l->mounts; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                const char *right = strstr(line, " - ");
                char source[32];

                if (right && sscanf(right, " - %*s %31s", source) == 1 && is_own_disk(source))
                        memcpy(l->disk, source, sizeof l->disk);
        }
}

/* environment_of: whose environment must not be inside; for ourselves that of a launcher shows what would be. */
static void look_at(const struct judge *j, pid_t pid, pid_t environment_of, struct look *l) {
        char path[PATH_MAX];
        size_t size = 0;
        struct stat st;

        *l = (struct look){.pid = pid, .init = init_of(pid)};
        (void)read_of(pid, "status", l->status, sizeof l->status);
        (void)read_of(pid, "limits", l->limits, sizeof l->limits);
        (void)read_of(pid, "uid_map", l->uid_map, sizeof l->uid_map);
        for (size_t i = 0; i < NAMESPACES; i++)
                l->ns[i] = namespace_of(pid, namespaces[i]);
        (void)snprintf(path, sizeof path, "/proc/%d/root/.", (int)pid);
        if (stat(path, &l->root) < 0)
                l->root.st_ino = 0;
        (void)snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, j->world.paths[CANARY_TMP]);
        l->sees_canary = j->world.paths[CANARY_TMP][0] && access(path, F_OK) == 0;
        look_at_descriptors(l);
        (void)snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)pid);
        if (fd_read_file(AT_FDCWD, path, 4 << 20, false, &l->mounts, &size, NULL) < 0)
                l->mounts = NULL;
        look_at_disk(l);
        l->leaks = has_canary(j, environment_of);
        if (l->init > 0) {
                (void)read_of(l->init, "status", l->init_status, sizeof l->init_status);
                (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)l->init);
                l->init_owner = stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
                l->leaks = l->leaks || (pid != getpid() && has_canary(j, l->init));
        }
        (void)scene_cgroup(pid, "memory", "memory.max", "memory.limit_in_bytes", l->memory, sizeof l->memory);
        (void)scene_cgroup(pid, "pids", "pids.max", "pids.max", l->processes, sizeof l->processes);
        (void)scene_cgroup(pid, "cpu", "cpu.max", "cpu.cfs_quota_us", l->quota, sizeof l->quota);
        (void)scene_cgroup(pid, "cpu", "cpu.max", "cpu.cfs_period_us", l->period, sizeof l->period);
        look_at_session(l);
}

/* The shell inside: of all processes that carry the mark, the youngest whose second word is "-c". */
static pid_t find_shell(const char *mark) {
        pid_t pids[SCENE_PIDS], found = 0;
        size_t count = scene_find(mark, pids, ELEMENTSOF(pids));
        char words[256];

        for (size_t i = 0; i < count; i++) {
                char path[64];

                (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pids[i]);
                _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? -1 : fd_read_full(fd, words, sizeof words - 1);
                if (n <= 0)
                        continue;
                words[n] = '\0';
                if (str_eq(words + MIN(strlen(words) + 1, (size_t)n), "-c"))
                        found = MAX(found, pids[i]);
        }
        return found;
}

/* Fills both looks, once. */
static bool look(struct judge *j, struct finding *f) {
        static const char *const limits[] = {"--memory", "192MiB",  "--processes", "48", "--cpus",
                                             "0.5",      "--files", "200",         NULL};
        struct running r = {0};
        char mark[SCENE_MARK];
        _cleanup_fd_ int leak = looked ? -EBADF : open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (!looked) {
                looked = true;
                scene_mark(j, mark);
                const struct launch l = {
                        .where = LAUNCH_INSIDE,
                        .options = launch_has_options(j) ? limits : NULL,
                        .argv = WORDS("/bin/sh", "-c", "echo here; while :; do sleep 9; done", mark),
                        .leak = leak > 0 ? leak : 0,
                };
                if (!scene_start(j, f, &l, &r))
                        (void)snprintf(problem, sizeof problem, "the sandbox could not be started");
                else if (!launch_expect(&r, "here", 8000))
                        (void)snprintf(problem, sizeof problem, "it did not come up");
                else {
                        pid_t pid = find_shell(mark);

                        if (pid > 0)
                                look_at(j, pid, pid, &inside);
                        else
                                (void)snprintf(problem, sizeof problem, "the host does not see its process");
                        look_at(j, getpid(), r.pid, &self);
                }
                if (r.pid > 0)
                        launch_kill(&r);
                scene_end(mark);
        }
        if (problem[0])
                finding_untried(f, "%s", problem);
        return !problem[0];
}

/* --- what must hold ------------------------------------------------------------------------------------------------
 */

static bool seccomp(const struct judge *j, const struct look *l, char *words, size_t size) {
        unsigned long long mode = field(l->status, "\nSeccomp:", 10);

        (void)j;
        (void)snprintf(words, size, "Seccomp: %llu", mode);
        return mode == 2;
}

static bool no_new_privileges(const struct judge *j, const struct look *l, char *words, size_t size) {
        (void)j;
        (void)snprintf(words, size, "NoNewPrivs: %llu", field(l->status, "\nNoNewPrivs:", 10));
        return field(l->status, "\nNoNewPrivs:", 10) == 1;
}

static bool capabilities(const struct judge *j, const struct look *l, char *words, size_t size) {
        static const char *const sets[] = {"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};
        bool none = true;
        size_t used = 0;

        (void)j;
        for (size_t i = 0; i < ELEMENTSOF(sets); i++) {
                unsigned long long set = field(l->status, sets[i], 16);
                int n = snprintf(words + used, size - used, "%s%s %llx", used ? ", " : "", sets[i] + 1, set);

                used += n > 0 && used + (size_t)n < size ? (size_t)n : 0;
                none = none && set == 0;
        }
        return none;
}

static bool ids(const struct judge *j, const struct look *l, char *words, size_t size) {
        unsigned long first, outside, count, uid = (unsigned long)field(l->status, "\nUid:", 10);
        bool good = l->uid_map[0] != '\0' && l->ns[6] != self.ns[6];
        const char *line = l->uid_map;

        while (line && *line) {
                good = good && sscanf(line, "%lu %lu %lu", &first, &outside, &count) == 3 && outside != 0;
                line = strchr(line, '\n');
                line += line != NULL;
        }
        (void)snprintf(words, size, "it is id %lu here, its map is%s", uid, l->uid_map);
        return good && (j->uid != 0 || uid != 0);
}

static bool own_namespaces(const struct judge *j, const struct look *l, char *words, size_t size) {
        bool own = true;
        size_t used = 0;

        (void)j;
        words[0] = '\0';
        for (size_t i = 0; i < NAMESPACES; i++)
                if (l->ns[i] == 0 || l->ns[i] == namespace_of(getpid(), namespaces[i])) {
                        int n = snprintf(words + used, size - used, "%s %s",
                                         used ? "," : "shared with the host:", namespaces[i]);
                        used += n > 0 && used + (size_t)n < size ? (size_t)n : 0;
                        own = false;
                }
        if (own)
                (void)snprintf(words, size, "its own: pid, mnt, net, ipc, uts, cgroup, user");
        return own;
}

/* Ours has what was asked for; of another maker's only that there is a limit. */
static bool cgroup(const struct judge *j, const struct look *l, char *words, size_t size) {
        unsigned long long memory = strtoull(l->memory, NULL, 10), processes = strtoull(l->processes, NULL, 10);
        long long quota = strtoll(l->quota, NULL, 10), period = strtoll(l->period, NULL, 10);
        const char *behind = strchr(l->period, ' '); /* cpu.max has both */

        if (behind)
                period = strtoll(behind, NULL, 10);
        (void)snprintf(words, size, "memory %s, processes %s, cpu %s of %lld", l->memory[0] ? l->memory : "?",
                       l->processes[0] ? l->processes : "?", l->quota[0] ? l->quota : "?", period);
        if (l->memory[0] < '0' || l->memory[0] > '9' || l->processes[0] < '0' || l->processes[0] > '9' || quota <= 0)
                return false;
        if (!launch_has_options(j))
                return memory < 1ULL << 50;
        return memory == 192ULL << 20 && processes == 48 && quota * 2 == period;
}

static bool root(const struct judge *j, const struct look *l, char *words, size_t size) {
        struct stat host;

        if (l->root.st_ino == 0 || stat("/", &host) < 0) {
                (void)snprintf(words, size, "its root cannot be looked at");
                return false;
        }
        bool own = l->root.st_dev != host.st_dev || l->root.st_ino != host.st_ino;
        (void)snprintf(words, size, "%s%s", own ? "its root is another one" : "its root is the host's",
                       l->sees_canary ? ", and a file of the host's /tmp is in it" : "");
        return own && (!l->sees_canary || j->profile.shows_host);
}

/* Three streams, none of them a file of the host. */
static bool descriptors(const struct judge *j, const struct look *l, char *words, size_t size) {
        bool host = false;

        (void)j;
        for (const char *at = l->descriptors; (at = strstr(at, " -> /")); at += 4)
                host = host || (strncmp(at + 4, "/dev/null", 9) != 0 && strncmp(at + 4, "/dev/pts/", 9) != 0);
        (void)snprintf(words, size, "%s", l->descriptors);
        return l->descriptor_count > 0 && l->descriptor_count <= 3 && !host;
}

/* The hard limit of this line, ULLONG_MAX for "unlimited". */
static unsigned long long hard_limit(const struct look *l, const char *name) {
        const char *at = strstr(l->limits, name);
        char soft[32], hard[32];

        if (!at || sscanf(at + strlen(name), "%31s %31s", soft, hard) != 2 || hard[0] < '0' || hard[0] > '9')
                return ULLONG_MAX;
        return strtoull(hard, NULL, 10);
}

static bool limits(const struct judge *j, const struct look *l, char *words, size_t size) {
        unsigned long long core = hard_limit(l, "Max core file size"), files = hard_limit(l, "Max open files"),
                           locked = hard_limit(l, "Max locked memory"), queued = hard_limit(l, "Max pending signals");

        (void)snprintf(words, size, "core %llu, open files %llu, locked memory %llu, pending signals %llu", core, files,
                       locked, queued);
        return core <= 1 && locked <= 8 << 20 && queued <= 1024 &&
               (launch_has_options(j) ? files == 200 : files <= 65536);
}

/* Files in /proc of a process that cannot be looked into do not belong to its own id. */
static bool init_closed(const struct judge *j, const struct look *l, char *words, size_t size) {
        unsigned long uid = (unsigned long)field(l->init_status, "\nUid:", 10);
        char status[4096];
        pid_t looked_at = l->init;
        uid_t owner = l->init_owner;

        (void)j;
        if (l->pid == getpid()) { /* our own stands for an ordinary process */
                struct stat st;

                looked_at = getpid();
                owner = stat("/proc/self/environ", &st) == 0 ? st.st_uid : (uid_t)-1;
                (void)read_of(looked_at, "status", status, sizeof status);
                uid = (unsigned long)field(status, "\nUid:", 10);
        }
        if (looked_at == 0) {
                (void)snprintf(words, size, "it has no PID 1 of its own");
                return false;
        }
        (void)snprintf(words, size, "it runs as id %lu, its files in /proc belong to %lu", uid, (unsigned long)owner);
        return owner != (uid_t)-1 && owner != uid;
}

static bool has_option(const char *options, const char *word) {
        size_t n = strlen(word);

        for (const char *at = options; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
                if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
                        return true;
        return false;
}

/* Is what is mounted one of the host's devices, and nothing but it? It may be a mask, too. nodev would make it useless.
 * Whatever kind of file system the host has its devices on. */
static bool is_device(const char *mounted) {
        char path[PATH_MAX + 8];
        struct stat st;

        (void)snprintf(path, sizeof path, "/dev%s", mounted);
        return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

/* Every mount nosuid and, devices aside, nodev; writable only what is memory, a disk or a view of its own. */
static bool mounts(const struct judge *j, const struct look *l, char *words, size_t size) {
        static const char *const own[] = {"tmpfs", "devpts", "mqueue", "overlay"};
        unsigned count = 0, bad = 0;

        (void)j;
        (void)snprintf(words, size, "its mounts cannot be looked at");
        for (const char *line = l->mounts; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
                char mounted[PATH_MAX], where[PATH_MAX], options[256], type[32], source[256];
                const char *right = strstr(line, " - "), *why = NULL;
                bool mine = false;

                if (!right || sscanf(line, "%*s %*s %*s %4095s %4095s %255s", mounted, where, options) != 3 ||
                    sscanf(right, " - %31s %255s", type, source) != 2)
                        continue;
                count++;
                for (size_t i = 0; i < ELEMENTSOF(own); i++)
                        mine = mine || str_eq(type, own[i]);
                mine = mine || (l->disk[0] && str_eq(source, l->disk));
                if (!has_option(options, "nosuid"))
                        why = "is not nosuid";
                else if (!has_option(options, "nodev") && !is_device(mounted) && !str_eq(type, "devpts"))
                        why = "is not nodev";
                else if (has_option(options, "rw") && !mine)
                        why = "is writable";
                if (why && bad++ == 0)
                        (void)snprintf(words, size, "%.150s (%s) %s", where, type, why);
        }
        size_t used = strlen(words);
        if (bad > 1)
                (void)snprintf(words + used, size - used, ", and %u more", bad - 1);
        else if (bad == 0 && count > 0)
                (void)snprintf(words, size, "%u mounts: nosuid, nodev but for devices, none of the host's writable",
                               count);
        return count > 0 && bad == 0;
}

static bool session(const struct judge *j, const struct look *l, char *words, size_t size) {
        bool own = l->session_pidns != 0 && l->session_pidns != namespace_of(getpid(), "pid");

        (void)j;
        (void)snprintf(words, size, "its session is led by process %d, %s", (int)l->session,
                       own ? "which is inside" : "which is the host's");
        return own;
}

static bool environment(const struct judge *j, const struct look *l, char *words, size_t size) {
        (void)j;
        (void)snprintf(words, size, "%s",
                       l->leaks ? "a canary is in environment or arguments"
                                : "no canary in environment and arguments, nor in those of PID 1");
        return !l->leaks;
}

static const struct {
        const char *name;
        bool (*holds)(const struct judge *j, const struct look *l, char *words, size_t size);
} rows[] = {
        {"seen-seccomp", seccomp},
        {"seen-nnp", no_new_privileges},
        {"seen-caps", capabilities},
        {"seen-ids", ids},
        {"seen-namespaces", own_namespaces},
        {"seen-cgroup", cgroup},
        {"seen-root", root},
        {"seen-descriptors", descriptors},
        {"seen-limits", limits},
        {"seen-init", init_closed},
        {"seen-mounts", mounts},
        {"seen-session", session},
        {"seen-environment", environment},
};

void scene_inspect(struct judge *j, const struct check *c, struct finding *f) {
        char words[400];

        if (!look(j, f))
                return;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (!str_eq(rows[i].name, c->name))
                        continue;
                if (rows[i].holds(j, &inside, words, sizeof words))
                        finding_promised(f, "%s", words);
                else
                        finding_open(f, "%s", words);
                bool free = !rows[i].holds(j, &self, words, sizeof words);
                finding_control(f, free, "the judge's own process: %.200s", words);
        }
}
