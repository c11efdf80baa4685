/* Finds the plan for a command line: in the cache, or by asking stockade-policy, which knows YAML and seccomp and is
 * too large to start on every run.
 *
 * The key is a hash of everything that the compiler is told, of the environment that profiles are searched with, and of
 * the compiler itself; an entry names the files it was made from with hashes of their bytes, and those that must not
 * exist. All of it is compared at every run, so a changed profile is never served from the cache. The cache belongs to
 * the caller alone; an entry that does not read well is made anew. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/paths.h"
#include "cli/plan_file.h"
#include "cli/run.h"

#define CACHE_ENTRIES_MAX 512
#define SOURCE_MAX        (256 * 1024)

/* The compiler's command line. Strings are borrowed or made by asprintf and live as long as the process. */
struct arguments {
        const char *items[12 + 9 * RUN_LIST_MAX];
        size_t count;
        bool failed;
};

static void push(struct arguments *a, const char *word) {
        if (!word || a->count >= ELEMENTSOF(a->items) - 1)
                a->failed = true;
        else
                a->items[a->count++] = word;
}

static void push_pair(struct arguments *a, const char *option, const char *value) {
        push(a, option);
        push(a, value);
}

static int make_arguments(const struct run_options *o, const char *guest, struct arguments *a, struct err *err) {
        static char cwd[PATH_MAX];

        push(a, "stockade-policy");
        push(a, "compile");
        push_pair(a, "--profile", o->profile);
        push_pair(a, "--guest", guest);
        if (geteuid() != 0)
                push(a, "--rootless");
        if (o->learn)
                push(a, "--gate"); /* to see which names are wanted */
        for (size_t i = 0; i < o->set_count; i++)
                push_pair(a, "--set", o->set[i]);
        for (size_t i = 0; i < o->allow_count; i++)
                push_pair(a, "--allow", o->allow[i]);
        for (size_t i = 0; i < o->share_count; i++) {
                push(a, o->shares[i].writable ? "--rw" : "--ro");
                push(a, o->shares[i].source);
                push(a, o->shares[i].path);
        }
        if (o->workspace)
                push_pair(a, "--workspace", o->workspace);
        if (o->root)
                push_pair(a, "--root", o->root);
        if (o->cwd)
                push_pair(a, "--cwd", o->cwd);
        else if ((o->share_count > 0 || o->workspace) && getcwd(cwd, sizeof cwd) && cwd[0] == '/')
                push_pair(a, "--cwd", cwd); /* only where something of the host is shared can it matter */
        if (o->workspace && !o->cwd && !(str_starts(cwd, o->workspace)))
                push_pair(a, "--cwd", o->workspace);
        for (size_t i = 0; i < o->accept_count; i++)
                push_pair(a, "--accept-missing", o->accept[i]);
        if (a->failed)
                return err_set(err, ERR_INPUT, "too many options");
        a->items[a->count] = NULL;
        return 0;
}

static int make_key(const struct arguments *a, const char *compiler, char ret[HASH_TEXT_SIZE], struct err *err) {
        static const char *const searched[] = {"STOCKADE_PROFILES", "XDG_CONFIG_HOME", "HOME"};
        struct stat st;
        struct hash h;
        uint8_t digest[HASH_SIZE];
        char self[160];

        if (stat(compiler, &st) < 0)
                return err_set(err, -errno, "cannot stat '%s'", compiler);
        hash_init(&h);
        (void)snprintf(self, sizeof self, "%s %llu %llu %lld %lld.%09ld", STOCKADE_VERSION,
                       (unsigned long long)st.st_dev, (unsigned long long)st.st_ino, (long long)st.st_size,
                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        hash_add_str(&h, self);
        for (size_t i = 0; i < ELEMENTSOF(searched); i++)
                hash_add_str(&h, getenv(searched[i]) ? getenv(searched[i]) : "");
        for (size_t i = 0; i < a->count; i++)
                hash_add_str(&h, a->items[i]);
        if (strchr(a->items[3], '/') || strstr(a->items[3], ".yaml")) {
                char cwd[PATH_MAX]; /* a profile by relative path */
                hash_add_str(&h, getcwd(cwd, sizeof cwd) ? cwd : "");
        }
        hash_done(&h, digest);
        hash_text(digest, ret);
        return 0;
}

/* A profile that was found by its name may not be a link; one that was named by its path may. */
static bool source_unchanged(const struct plan_source *s, const char *profile) {
        bool by_path = str_eq(s->path, profile);
        struct hash h;
        uint8_t digest[HASH_SIZE];
        char *data;
        size_t size;

        if (str_starts(s->path, "builtin:"))
                return true; /* part of the compiler, which is part of the key */
        if (s->absent)
                return access(s->path, F_OK) < 0;
        if (fd_read_file(AT_FDCWD, s->path, SOURCE_MAX, !by_path, &data, &size, NULL) < 0)
                return false;
        hash_init(&h);
        hash_add(&h, data, size);
        hash_done(&h, digest);
        free(data);
        return memcmp(digest, s->hash, HASH_SIZE) == 0;
}

/* Reads a plan file; fresh says whether its sources were just read and need no second look. */
static int unpack(struct run *r, const void *bytes, size_t size, bool fresh, struct err *err) {
        struct plan_source source;
        struct plan_file f;

        int result = plan_file_open(&f, bytes, size, err);
        if (result < 0)
                return result;
        while (!fresh && plan_file_next(&f, &source))
                if (!source_unchanged(&source, r->options.profile))
                        return err_set(err, -ESTALE, "'%s' has changed", source.path);
        return plan_check(f.plan, f.plan_size, &r->plan, err);
}

/* Is this path, or a folder on the way to it, in something that the command may write? Links on the way count, so every
 * part is looked at. */
static const char *writable_above(const struct run_options *o, const char *path) {
        char part[PATH_MAX];
        size_t n = strlen(path);

        if (n >= sizeof part)
                return path;
        memcpy(part, path, n + 1);
        for (;;) {
                _cleanup_free_ char *real = realpath(part, NULL);

                for (size_t i = 0; real && i < o->share_count; i++) {
                        const char *share = o->shares[i].source;
                        size_t length = strlen(share);

                        if (o->shares[i].writable && strncmp(real, share, length) == 0 &&
                            (real[length] == '/' || real[length] == '\0'))
                                return share;
                }
                char *slash = strrchr(part, '/');
                if (!slash || slash == part)
                        return NULL;
                *slash = '\0';
        }
}

/* With --live, what a profile says becomes the rules of the command that runs. It must not be the command that says it:
 * neither in a file that was read nor in one that was looked for. */
int plan_cache_guard(const struct run *r, struct err *err) {
        struct plan_source source;
        struct plan_file f;

        if (!r->options.live)
                return 0;
        int result = plan_file_open(&f, r->plan_bytes, r->plan_size, err);
        if (result < 0)
                return result;
        while (plan_file_next(&f, &source)) {
                const char *path = source.path;
                char full[PATH_MAX], cwd[PATH_MAX];

                if (str_starts(path, "builtin:"))
                        continue;
                if (snprintf(full, sizeof full, "%s%s%s",
                             path[0] == '/'            ? ""
                             : getcwd(cwd, sizeof cwd) ? cwd
                                                       : "",
                             path[0] == '/' ? "" : "/", path) >= (int)sizeof full)
                        return err_set(err, ERR_LIMIT, "the path of a profile is too long");
                const char *share = writable_above(&r->options, full);
                if (share) {
                        (void)err_set(err, ERR_REFUSED,
                                      "--live: the command could write its own rules: '%s' is in '%s'", path, share);
                        return err_hint(err, "keep the profile outside of what --rw shares, or use --workspace");
                }
        }
        return 0;
}

/* Did anything that the latest plan was made from change since? */
bool plan_cache_changed(const struct run *r) {
        const void *bytes = r->live_bytes ? r->live_bytes : r->plan_bytes;
        struct plan_source source;
        struct plan_file f;

        if (plan_file_open(&f, bytes, r->live_bytes ? r->live_size : r->plan_size, NULL) < 0)
                return true;
        while (plan_file_next(&f, &source))
                if (!source_unchanged(&source, r->options.profile))
                        return true;
        return false;
}

void plan_cache_free(struct run *r) {
        if (r->plan_bytes)
                (void)munmap(r->plan_bytes, r->plan_size);
        r->plan_bytes = NULL;
}

/* From now on changes are looked for since this plan. */
void plan_cache_follow(struct run *r, struct run *latest) {
        if (r->live_bytes)
                (void)munmap(r->live_bytes, r->live_size);
        r->live_bytes = TAKE_PTR(latest->plan_bytes);
        r->live_size = latest->plan_size;
}

/* The plan goes into a sealed memfd: from here on nobody changes it, not even us. */
static int seal(struct run *r, const void *bytes, size_t size, struct err *err) {
        _cleanup_fd_ int fd = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return err_set(err, -errno, "could not make a memory file for the plan");
        int w = fd_write_full(fd, bytes, size);
        if (w < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return err_set(err, w < 0 ? w : -errno, "could not seal the plan");
        void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
        if (map == MAP_FAILED)
                return err_set(err, -errno, "could not map the plan");
        if (r->plan_bytes)
                (void)munmap(r->plan_bytes, r->plan_size);
        r->plan_bytes = map;
        r->plan_size = size;
        return 0;
}

/* What the compiler said on standard error: "stockade: sentence", perhaps a line with a hint. */
static int take_error(int fd, const char *compiler, int status, struct err *err) {
        char text[2048];
        ssize_t n = fd_read_full(fd, text, sizeof text - 1);

        text[n > 0 ? n : 0] = '\0';
        char *line = text, *hint = strstr(text, "\n  hint: ");
        if (!str_starts(line, "stockade: "))
                return err_set(err, ERR_REFUSED, "'%s' ended with status 0x%x", compiler, (unsigned)status);
        line += strlen("stockade: ");
        line[strcspn(line, "\n")] = '\0';
        (void)err_set(err, ERR_REFUSED, "%.500s", line);
        if (hint) {
                hint += strlen("\n  hint: ");
                hint[strcspn(hint, "\n")] = '\0';
                (void)err_hint(err, "%.500s", hint);
        }
        return ERR_REFUSED;
}

/* Runs the compiler: a plan on its standard output, or one sentence on standard error. */
static int compile(const char *compiler, const struct arguments *a, char **ret, size_t *ret_size, struct err *err) {
        _cleanup_free_ char *data = malloc(PLAN_FILE_MAX + 1);
        _cleanup_fd_ int out = -EBADF, errors = -EBADF;
        int ends[2], error_ends[2], status;

        if (!data)
                return err_set(err, -ENOMEM, "could not compile the profile");
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        out = ends[0];
        if (pipe2(error_ends, O_CLOEXEC) < 0) {
                (void)close(ends[1]);
                return err_set(err, -errno, "could not make a pipe");
        }
        errors = error_ends[0];
        pid_t pid = fork();
        if (pid == 0) {
                (void)dup2(ends[1], STDOUT_FILENO);
                (void)dup2(error_ends[1], STDERR_FILENO);
                (void)execv(compiler, (char *const *)(uintptr_t)a->items);
                _exit(127);
        }
        int fork_error = errno;
        (void)close(ends[1]);
        (void)close(error_ends[1]);
        if (pid < 0)
                return err_set(err, -fork_error, "could not start '%s'", compiler);
        ssize_t n = fd_read_full(out, data, PLAN_FILE_MAX + 1);
        fd_close(&out); /* one that would say more than we take ends here */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return take_error(errors, compiler, status, err);
        if (n <= 0 || n > PLAN_FILE_MAX)
                return err_set(err, ERR_CORRUPT, "'%s' did not write a plan", compiler);
        *ret = TAKE_PTR(data);
        *ret_size = (size_t)n;
        return 0;
}

/* An entry has no name before it is whole: a launcher that is killed meanwhile leaves nothing. */
static int write_entry(int cache, const char *key, const char *data, size_t size) {
        char path[32];
        _cleanup_fd_ int fd = openat(cache, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

        if (fd < 0)
                return fd_replace_file(cache, key, 0600, data, size); /* a file system without such files */
        int result = fd_write_full(fd, data, size);
        if (result < 0)
                return result;
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (linkat(AT_FDCWD, path, cache, key, AT_SYMLINK_FOLLOW) == 0)
                return 0;
        if (errno == EEXIST) /* an entry that no longer holds */
                (void)unlinkat(cache, key, 0);
        return linkat(AT_FDCWD, path, cache, key, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* Keeps an entry. A cache that cannot be written costs time, nothing else. A full one is emptied. */
static void store(int cache, const char *key, const char *data, size_t size) {
        unsigned entries = 0;
        int copy = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy >= 0 ? fdopendir(copy) : NULL;

        if (d) {
                while (readdir(d))
                        entries++;
                if (entries > CACHE_ENTRIES_MAX) {
                        struct dirent *e;
                        rewinddir(d);
                        while ((e = readdir(d)))
                                (void)unlinkat(cache, e->d_name, 0);
                }
                (void)closedir(d);
        } else if (copy >= 0)
                (void)close(copy);
        (void)write_entry(cache, key, data, size);
}

static void read_limits(struct run *r) {
        struct run_limits l = {.cpus = UINT64_MAX,
                               .memory = UINT64_MAX,
                               .processes = UINT64_MAX,
                               .disk_read = UINT64_MAX,
                               .disk_write = UINT64_MAX,
                               .output = UINT64_MAX,
                               .wall = UINT64_MAX,
                               .cpu_time = UINT64_MAX};
        const struct {
                const char *key;
                uint64_t *value;
        } keys[] = {{"limits.cpus", &l.cpus},
                    {"limits.memory", &l.memory},
                    {"limits.processes", &l.processes},
                    {"limits.disk_read", &l.disk_read},
                    {"limits.disk_write", &l.disk_write},
                    {"limits.output", &l.output},
                    {"time.run", &l.wall},
                    {"budget.cpu", &l.cpu_time}};
        struct plan_walk walk = {0};
        struct plan_step s;

        while (plan_next(&r->plan, &walk, &s)) {
                if (s.op == OP_PROFILE)
                        l.profile = s.text[0];
                else if (s.op == OP_CWD)
                        l.cwd = s.text[0];
                else if (s.op == OP_USER) {
                        l.uid = s.number[0];
                        l.gid = s.number[1];
                } else if (s.op == OP_OVERLAY)
                        l.overlay = s.text[0];
                if (s.op == OP_LIMIT)
                        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                                if (str_eq(keys[i].key, s.text[0]))
                                        *keys[i].value = s.number[0];
                if ((s.flags & STEP_WATCH) && l.watched_count < CELL_WATCH_MAX)
                        l.watched[l.watched_count++] = s.op == OP_OVERLAY        ? s.text[1]
                                                       : s.op == OP_ROOT_OVERLAY ? "/"
                                                                                 : s.text[0];
        }
        r->limits = l;
}

int plan_cache_get(struct run *r, struct err *err) {
        char guest[PATH_MAX], compiler[PATH_MAX], key[HASH_TEXT_SIZE];
        struct arguments a = {0};
        struct err ignored;
        _cleanup_free_ char *data = NULL;
        size_t size;

        int result = paths_helper("stockade-guest", guest, sizeof guest, err);
        if (result == 0)
                result = paths_helper("stockade-policy", compiler, sizeof compiler, err);
        if (result == 0)
                result = make_arguments(&r->options, guest, &a, err);
        if (result == 0)
                result = make_key(&a, compiler, key, err);
        if (result < 0)
                return result;

        _cleanup_fd_ int cache = paths_state_dir("plans", true, &ignored);
        if (cache < 0 || fd_read_file(cache, key, PLAN_FILE_MAX, true, &data, &size, &ignored) < 0 ||
            seal(r, data, size, &ignored) < 0 || unpack(r, r->plan_bytes, size, false, &ignored) < 0) {
                free(TAKE_PTR(data));
                result = compile(compiler, &a, &data, &size, err);
                if (result == 0)
                        result = seal(r, data, size, err);
                if (result == 0)
                        result = unpack(r, r->plan_bytes, size, true, err);
                if (result < 0)
                        return result;
                if (cache >= 0)
                        store(cache, key, data, size);
        }
        memcpy(r->plan_key, key, sizeof key);
        read_limits(r);
        return 0;
}
