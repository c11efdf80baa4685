/* Prepared roots. The files, links and mount points that every sandbox of one plan starts with are the same each time;
 * they are made once in a folder of the cache and then bound read-only as the root.
 *
 * The name is a hash of what the plan was made from and of what was looked up on the host for it (which optional paths
 * exist, where links point), so a change makes a new skeleton. A run holds a shared lock on its own; old ones are
 * removed only under an exclusive lock: removing a directory that a sandbox has something mounted on would unmount it.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run.h"

#define SKELETONS_MAX 64
#define NAME_SIZE     40

/* Everything of the host that tree_skeleton would look at. */
static bool hash_host(const struct run *r, char ret[NAME_SIZE]) {
        struct plan_walk walk = {0};
        struct plan_step s;
        struct hash h;
        uint8_t digest[HASH_SIZE];
        char text[HASH_TEXT_SIZE], target[PATH_MAX];
        bool usable = false;

        hash_init(&h);
        /* one per boot: nothing is synced, so what a power failure left is not to be trusted */
        if (fd_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", target, sizeof target) > 0)
                hash_add_str(&h, target);
        hash_add_str(&h, r->plan_key);
        hash_add(&h, r->plan.policy_hash, HASH_SIZE);
        while (plan_next(&r->plan, &walk, &s)) {
                struct stat st;

                usable = usable || s.op == OP_ROOT_TMPFS;
                if (s.op == OP_LIKE_HOST) {
                        ssize_t n = readlink(s.text[0], target, sizeof target - 1);
                        target[n > 0 ? n : 0] = '\0';
                        hash_add_str(&h, target);
                        if (n > 0)
                                continue;
                }
                if (s.op == OP_COPY && stat(s.text[0], &st) == 0) {
                        hash_add(&h, &st.st_ino, sizeof st.st_ino);
                        hash_add(&h, &st.st_size, sizeof st.st_size);
                        hash_add(&h, &st.st_mtim, sizeof st.st_mtim);
                        hash_add(&h, &st.st_ctim, sizeof st.st_ctim);
                }
                if ((s.op == OP_BIND && (s.flags & STEP_OPTIONAL)) || s.op == OP_LIKE_HOST) {
                        uint32_t type = stat(s.text[0], &st) == 0 ? st.st_mode & S_IFMT : 0;
                        hash_add(&h, &type, sizeof type);
                }
        }
        hash_done(&h, digest);
        hash_text(digest, text);
        (void)snprintf(ret, NAME_SIZE, "%.32s", text);
        return usable;
}

/* Removes a folder of ours. Skeletons are a few levels deep; nothing but us writes there. */
static void remove_tree(int parent, const char *name, unsigned depth) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *d = fd >= 0 && depth < 64 ? fdopendir(fd) : NULL;
        struct dirent *e;

        if (!d) {
                if (fd >= 0)
                        (void)close(fd);
                (void)unlinkat(parent, name, fd >= 0 ? AT_REMOVEDIR : 0);
                return;
        }
        while ((e = readdir(d))) {
                if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
                        continue;
                if (unlinkat(dirfd(d), e->d_name, 0) < 0)
                        remove_tree(dirfd(d), e->d_name, depth + 1);
        }
        (void)closedir(d);
        (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* The oldest in the cache that is not in keep; false if there is none. Counts what is there. */
static bool oldest(DIR *d, const char *keep, char ret[NAME_SIZE], unsigned *ret_count) {
        struct timespec when = {0};
        struct dirent *e;
        bool found = false;

        *ret_count = 0;
        rewinddir(d);
        while ((e = readdir(d))) {
                struct stat st;

                if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                ++*ret_count;
                if (strlen(e->d_name) >= NAME_SIZE || str_eq(e->d_name, keep))
                        continue;
                if (!found || st.st_mtim.tv_sec < when.tv_sec ||
                    (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec < when.tv_nsec)) {
                        found = true;
                        when = st.st_mtim;
                        memcpy(ret, e->d_name, strlen(e->d_name) + 1);
                }
        }
        return found;
}

/* Too many: the oldest go if nobody uses them, and so does what a killed launcher left half made. In order of age, so
 * that a few plans in turn do not push each other out. */
static void prune(int cache) {
        int copy = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
        char name[NAME_SIZE] = "", busy[NAME_SIZE] = "";
        unsigned count;

        if (!d) {
                fd_close(&copy);
                return;
        }
        for (unsigned tries = 0; tries < 4 && oldest(d, busy, name, &count) && count >= SKELETONS_MAX; tries++) {
                char old[NAME_SIZE];
                (void)snprintf(old, sizeof old, "old-%.28s", name);
                _cleanup_fd_ int fd = openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                /* under another name first: whoever looks for it finds all of it or nothing */
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                    (str_starts(name, "old-") || renameat(cache, name, cache, old) == 0))
                        remove_tree(cache, str_starts(name, "old-") ? name : old, 0);
                else
                        memcpy(busy, name, sizeof busy);
        }
        (void)closedir(d);
}

static int make(const struct run *r, int cache, const char *name) {
        char temporary[NAME_SIZE];

        prune(cache);
        (void)snprintf(temporary, sizeof temporary, "new-%.30s", r->id);
        if (mkdirat(cache, temporary, 0755) < 0)
                return -errno;
        _cleanup_fd_ int fd = openat(cache, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int result = fd < 0 || flock(fd, LOCK_SH) < 0 || fchmod(fd, 0755) < 0 ? -errno : tree_skeleton(&r->plan, fd);
        if (result == 0 && renameat(cache, temporary, cache, name) < 0)
                result = -errno;
        if (result < 0)
                remove_tree(cache, temporary, 0);
        return result;
}

static int open_locked(int cache, const char *name) {
        _cleanup_fd_ int fd = openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return -errno;
        /* whoever removes it holds the lock until it is gone; then our descriptor is of a folder without a name */
        if (flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0)
                return -errno;
        return st.st_nlink > 0 ? TAKE_FD(fd) : -ENOENT;
}

void skeleton_get(struct run *r) {
        char name[NAME_SIZE], base[PATH_MAX];
        mode_t mask;
        struct err ignored;

        if (!hash_host(r, name))
                return;
        _cleanup_fd_ int cache = paths_state_dir("trees", true, &ignored);
        if (cache < 0 || paths_state_name("trees", true, base, sizeof base) < 0)
                return;
        int fd = open_locked(cache, name);
        if (fd == -ENOENT) {
                mask = umask(022);
                int result = make(r, cache, name);
                (void)umask(mask);
                if (result < 0 && result != -EEXIST && result != -ENOTEMPTY)
                        return;
                fd = open_locked(cache, name);
        }
        if (fd < 0)
                return;
        int n = snprintf(r->skeleton, sizeof r->skeleton, "%s/%s", base, name);
        if (n < 0 || (size_t)n >= sizeof r->skeleton) {
                (void)close(fd);
                return;
        }
        r->skeleton_lock = fd;
        r->cell.skeleton = r->skeleton;
}
