/* The parts of a digest that are trees: files in watched folders, device nodes, cgroups.
 *
 * Names are looked up below descriptors and links are never followed, so nothing that a sandbox left behind leads out
 * of the folder that is watched. Only plain files are opened, none is waited for, and none is changed. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "verify/digest-parts.h"

enum {
        HASHED_MAX = 1 << 20, /* larger files count by size and time */
        SETTLED_MS = 1500,    /* a killed launcher's keeper needs half a second to remove its groups */
};

static int walk(struct parts_tree *t, int fd, const char *path, unsigned depth, struct err *err);

static int walk_entry(struct parts_tree *t, int dir, const char *name, const char *above, unsigned depth,
                      struct err *err) {
        char path[PATH_MAX];
        struct stat st;

        int n = snprintf(path, sizeof path, "%s/%s", str_eq(above, "/") ? "" : above, name);
        if (n < 0 || (size_t)n >= sizeof path || depth > PARTS_DEPTH_MAX)
                return err_set(err, ERR_LIMIT, "folders in folders below '%.200s' are too deep", above);
        if (++t->entries > PARTS_ENTRIES_MAX)
                return err_set(err, ERR_LIMIT, "more than %d entries, the last in '%.200s'", PARTS_ENTRIES_MAX, above);
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0; /* gone by now */
        if (!t->visit(t, dir, name, path, &st) || !S_ISDIR(st.st_mode) || (!t->across && st.st_dev != t->device))
                return 0;
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? 0 : walk(t, fd, path, depth, err);
}

/* Everything below fd, which it closes. */
static int walk(struct parts_tree *t, int fd, const char *path, unsigned depth, struct err *err) {
        DIR *d = fdopendir(fd);
        int r = 0;

        if (!d) {
                r = err_set(err, -errno, "cannot list '%.200s'", path);
                (void)close(fd);
                return r;
        }
        for (struct dirent *e; r == 0 && (e = readdir(d));)
                if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, "..") && (!t->folders || e->d_type == DT_DIR))
                        r = walk_entry(t, dirfd(d), e->d_name, path, depth + 1, err);
        (void)closedir(d);
        return r;
}

int parts_walk(struct parts_tree *t, const char *top, struct err *err) {
        struct stat st;
        int fd = open(top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return 0;
        if (fstat(fd, &st) < 0) {
                (void)close(fd);
                return 0;
        }
        t->device = st.st_dev;
        return walk(t, fd, top, 0, err);
}

static char kind(mode_t mode) {
        switch (mode & S_IFMT) {
        case S_IFREG:
                return 'f';
        case S_IFDIR:
                return 'd';
        case S_IFLNK:
                return 'l';
        case S_IFCHR:
                return 'c';
        case S_IFBLK:
                return 'b';
        case S_IFIFO:
                return 'p';
        case S_IFSOCK:
                return 's';
        default:
                return '?';
        }
}

static void read_target(int dir, const char *name, char *ret, size_t size) {
        ssize_t n = readlinkat(dir, name, ret, size - 1);
        ret[n > 0 ? n : 0] = '\0';
}

/* The hash of a plain file's bytes; "unread" where we may not, "changing" if it is not what it was a moment ago. */
static void hash_file(int dir, const char *name, const struct stat *st, char ret[HASH_TEXT_SIZE]) {
        struct hash h;
        struct stat now;
        uint8_t bytes[HASH_SIZE];
        char block[16384];
        ssize_t n = 0;
        size_t all = 0;

        (void)snprintf(ret, HASH_TEXT_SIZE, "unread");
        _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return;
        (void)snprintf(ret, HASH_TEXT_SIZE, "changing");
        if (fstat(fd, &now) < 0 || now.st_ino != st->st_ino || now.st_dev != st->st_dev || !S_ISREG(now.st_mode))
                return;
        hash_init(&h);
        while (all <= HASHED_MAX && (n = read(fd, block, sizeof block)) > 0) {
                hash_add(&h, block, (size_t)n);
                all += (size_t)n;
        }
        if (n != 0)
                return;
        hash_done(&h, bytes);
        hash_text(bytes, ret);
}

/* Which ranges of ids are taken: daemons on this host write it while they work. That it is there counts. */
static bool is_daemons_own(const char *path) {
        return str_eq(path, "/run/stockade/ids");
}

static bool visit_file(struct parts_tree *t, int dir, const char *name, const char *path, const struct stat *st) {
        char more[PATH_MAX] = "";

        if (is_daemons_own(path)) {
                parts_line(t->out, "%s %c %04o %u:%u", path, kind(st->st_mode), st->st_mode & 07777, st->st_uid,
                           st->st_gid);
                return true;
        }
        if (S_ISREG(st->st_mode) && st->st_size <= HASHED_MAX)
                hash_file(dir, name, st, more);
        else if (S_ISREG(st->st_mode))
                (void)snprintf(more, sizeof more, "%lld.%09ld", (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
        else if (S_ISLNK(st->st_mode))
                read_target(dir, name, more, sizeof more);
        else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
                (void)snprintf(more, sizeof more, "%u:%u", major(st->st_rdev), minor(st->st_rdev));
        parts_line(t->out, "%s %c %04o %u:%u links=%lu size=%lld %s", path, kind(st->st_mode), st->st_mode & 07777,
                   st->st_uid, st->st_gid, S_ISDIR(st->st_mode) ? 0UL : (unsigned long)st->st_nlink,
                   S_ISREG(st->st_mode) ? (long long)st->st_size : 0LL, more);
        return true;
}

int parts_files(const struct parts_scope *s, struct buf *b, struct err *err) {
        struct parts_tree t = {.out = b, .visit = visit_file};
        int r = 0;

        for (const char *const *top = s->watched; top && *top && r == 0; top++) {
                struct stat st;

                if (lstat(*top, &st) == 0)
                        (void)visit_file(&t, AT_FDCWD, *top, *top, &st);
                r = parts_walk(&t, *top, err);
        }
        return r;
}

static bool visit_device(struct parts_tree *t, int dir, const char *name, const char *path, const struct stat *st) {
        char target[PATH_MAX] = "";

        if (S_ISLNK(st->st_mode))
                read_target(dir, name, target, sizeof target);
        parts_line(t->out, "%s %c %04o %u:%u %u:%u %s", path, kind(st->st_mode), st->st_mode & 07777, st->st_uid,
                   st->st_gid, major(st->st_rdev), minor(st->st_rdev), target);
        return true;
}

/* Terminals, shared memory and message queues are mounts of their own below /dev and not looked into: terminals come
 * and go with people, the others are in the part about ipc. */
int parts_devices(struct buf *b, struct err *err) {
        struct parts_tree t = {.out = b, .visit = visit_device};

        return parts_walk(&t, "/dev", err);
}

/* --- cgroups */

struct groups {
        const struct parts_scope *scope;
        char own[PATH_MAX]; /* the judge's own group in this hierarchy; "" if it is the root */
        const char *point;  /* where the hierarchy is mounted */
};

/* Who holds the lock on a leaf: its launcher does while it lives. 0: nobody. */
static pid_t lock_holder(const struct stat *st) {
        _cleanup_free_ char *text = NULL;
        char file[64];
        pid_t holder = 0;

        if (fd_read_file(AT_FDCWD, "/proc/locks", 4 << 20, false, &text, NULL, NULL) < 0)
                return 0;
        (void)snprintf(file, sizeof file, " %02x:%02x:%llu ", major(st->st_dev), minor(st->st_dev),
                       (unsigned long long)st->st_ino);
        char *at = strstr(text, file);
        if (!at)
                return 0;
        while (at > text && at[-1] != '\n')
                at--;
        return sscanf(at, "%*s FLOCK %*s %*s %d", &holder) == 1 ? holder : 0;
}

static int64_t age_ms(const struct stat *st) {
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (now.tv_sec - st->st_ctim.tv_sec) * 1000 + (now.tv_nsec - st->st_ctim.tv_nsec) / 1000000;
}

/* How long ago this process took its first digest. What is older was not made by what it has watched since. */
static int64_t watch_ms(void) {
        static struct stat first;

        if (first.st_ctim.tv_sec == 0)
                (void)clock_gettime(CLOCK_REALTIME, &first.st_ctim);
        return age_ms(&first);
}

static bool has_processes(int dir, const char *name, char *text, size_t size) {
        char path[NAME_MAX + 16];

        (void)snprintf(path, sizeof path, "%s/cgroup.procs", name);
        return fd_read_at(dir, path, text, size) > 0;
}

/* A leaf without processes: one that is about to get some, or about to be removed by its keeper, is not left behind. Is
 * it still so when it is old enough to tell? */
static bool is_left(int dir, const char *name, const struct stat *st) {
        char text[64];
        struct stat now = *st;

        while (age_ms(&now) < SETTLED_MS) {
                (void)nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
                if (fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || lock_holder(&now) > 0 ||
                    has_processes(dir, name, text, sizeof text))
                        return false;
        }
        return fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Is one of these processes below the judge? */
static bool has_ours(const struct groups *g, const char *text) {
        const char *p = text;

        for (char *end; *p; p = end) {
                long pid = strtol(p, &end, 10);
                if (end == p)
                        break;
                if (pid > 0 && parts_is_below(g->scope, (pid_t)pid))
                        return true;
        }
        return false;
}

/* Somebody else's sandbox: its processes are not below the judge, or, where it has none, its launcher is not, or it is
 * older than the judge's first look. The group of a run that is to come has no processes yet; it is in the sandbox's.
 */
static bool is_strangers(const struct groups *g, int dir, const char *name, const struct stat *st) {
        bool run = str_starts(name, "run-");
        char text[4096];

        if (g->scope->host)
                return false;
        if (has_processes(dir, name, text, sizeof text) || (run && has_processes(dir, ".", text, sizeof text)))
                return !has_ours(g, text);
        if (!run && !str_starts(name, "stockade-"))
                return false;
        pid_t holder = lock_holder(st);
        if (holder > 0 && (kill(holder, 0) == 0 || errno == EPERM))
                return !parts_is_below(g->scope, holder);
        return age_ms(st) > watch_ms() || !is_left(dir, name, st);
}

/* Is this where the launcher makes groups for this caller: below the judge's own (beside nothing but leaves, where that
 * is the root), or in the folder of ours that setup or root's launcher made? For the whole host: anywhere. */
static bool is_place(const struct groups *g, const char *name, const char *path) {
        char delegated[48];
        const char *ours = strstr(path, "/stockade");

        if (g->scope->host)
                return ours && (ours[9] == '\0' || ours[9] == '/' || ours[9] == '-');
        (void)snprintf(delegated, sizeof delegated, "/stockade/%u", geteuid());
        if (strstr(path, geteuid() == 0 ? "/stockade/stockade-" : delegated))
                return true;
        if (g->own[0] == '\0')
                return str_starts(name, "stockade-") && strlen(path) == strlen(g->point) + 1 + strlen(name);
        return str_starts(path, g->own) && path[strlen(g->own)] == '/';
}

/* The groups that `stockade setup`, the launcher and a daemon make once and keep ("launcher", "shell", "stockaded-…")
 * do not count. */
static bool visit_group(struct parts_tree *t, int dir, const char *name, const char *path, const struct stat *st) {
        const struct groups *g = t->data;

        if (is_place(g, name, path) && !str_eq(name, "launcher") && !str_eq(name, "shell") &&
            !str_starts(name, "stockaded-") && !is_strangers(g, dir, name, st))
                parts_line(t->out, "%s", path);
        return true;
}

/* Where the judge is in the hierarchy of a mount: below its point. v1 is known by one of its controllers. */
static void find_own(const char *point, const char *root, bool v2, const char *super, char ret[PATH_MAX]) {
        char text[8192];

        ret[0] = '\0';
        if (fd_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
                return;
        for (char *line = text, *next; line && *line; line = next) {
                char *list = strchr(line, ':'), *own = list ? strchr(++list, ':') : NULL;
                char pattern[80], all[512];

                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                if (!own || own[1] != '/' || (next && own > next))
                        continue;
                *own++ = '\0';
                list[strcspn(list, ",")] = '\0'; /* its first controller is enough to know it by */
                (void)snprintf(pattern, sizeof pattern, ",%.70s,", list);
                (void)snprintf(all, sizeof all, ",%.500s,", super);
                if (v2 ? list[0] != '\0' : list[0] == '\0' || !strstr(all, pattern))
                        continue;
                size_t n = str_eq(root, "/") ? 0 : strlen(root);
                if (strncmp(own, root, n) == 0 && own[n] == '/' && own[n + 1] != '\0' && !strstr(own, "/.."))
                        (void)snprintf(ret, PATH_MAX, "%s%s", point, own + n);
                return;
        }
}

int parts_cgroups(const struct parts_scope *s, struct buf *b, struct err *err) {
        _cleanup_free_ char *text = NULL;
        char seen[32][16], point[PATH_MAX], root[PATH_MAX], device[16], type[32], super[512];
        struct groups g = {.scope = s};
        size_t count = 0;

        (void)watch_ms(); /* the first look is now */
        int r = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, false, &text, NULL, err);

        for (char *line = text, *next; r == 0 && line && *line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                const char *right = strstr(line, " - cgroup");
                bool known = false;
                if (!right || sscanf(line, "%*s %*s %15s %4095s %4095s", device, root, point) != 3 ||
                    sscanf(right, " - %31s %*s %511s", type, super) != 2)
                        continue;
                for (size_t i = 0; i < count; i++) /* the same hierarchy may be mounted more than once */
                        known |= str_eq(seen[i], device);
                if (known || count >= ELEMENTSOF(seen))
                        continue;
                memcpy(seen[count++], device, sizeof device);
                find_own(point, root, str_eq(type, "cgroup2"), super, g.own);
                g.point = point;
                struct parts_tree t = {.out = b, .folders = true, .visit = visit_group, .data = &g};
                r = parts_walk(&t, point, err);
        }
        return r;
}
