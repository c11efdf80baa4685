/* Prepared roots: see the header. Nothing is synced: a name holds for one boot. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cell.h"
#include "cell/skeleton.h"

#define NAME_SIZE SKELETON_NAME_SIZE

struct keep {
        bool (*says)(void *data, const char *name);
        void *data;
};

/* Everything of the host that tree_skeleton would look at. */
static bool hash_host(const char *key, const struct plan *plan, char ret[NAME_SIZE]) {
        struct plan_walk walk = {0};
        struct plan_step s;
        struct hash h;
        uint8_t digest[HASH_SIZE];
        char text[HASH_TEXT_SIZE], target[PATH_MAX];
        bool usable = false, owned = false;

        hash_init(&h);
        /* one per boot: nothing is synced, so what a power failure left is not to be trusted */
        if (fd_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", target, sizeof target) > 0)
                hash_add_str(&h, target);
        hash_add_str(&h, key);
        hash_add(&h, plan->policy_hash, HASH_SIZE);
        while (plan_next(plan, &walk, &s)) {
                struct stat st;

                usable = usable || s.op == OP_ROOT_TMPFS;
                owned = owned || (s.op == OP_DIR && (s.flags & STEP_OWNED)); /* by another id each time */
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
        return usable && !owned;
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

/* The oldest that may go; false if there is none. Counts what is there. */
static bool oldest(DIR *d, const char *busy, const struct keep *keep, char ret[NAME_SIZE], unsigned *ret_count) {
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
                if (strlen(e->d_name) >= NAME_SIZE || str_eq(e->d_name, busy) ||
                    (keep->says && keep->says(keep->data, e->d_name)))
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

/* Half made or half removed, and nobody holds a lock on it: launcher and keeper were killed. One that was made a moment
 * ago and is not locked yet may go too; its maker then does without. */
static void remove_abandoned(DIR *d) {
        struct dirent *e;

        while ((e = readdir(d))) {
                if (!str_starts(e->d_name, "new-") && !str_starts(e->d_name, "old-"))
                        continue;
                _cleanup_fd_ int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        remove_tree(dirfd(d), e->d_name, 0);
        }
}

/* Too many: the oldest go if nobody uses them, in order of age, so that a few plans in turn do not push each other out.
 */
static void prune(int cache, const struct keep *keep) {
        int copy = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
        char name[NAME_SIZE] = "", busy[NAME_SIZE] = "";
        unsigned count;

        if (!d) {
                fd_close(&copy);
                return;
        }
        remove_abandoned(d);
        for (unsigned tries = 0; tries < 4 && oldest(d, busy, keep, name, &count) && count >= SKELETONS_MAX; tries++) {
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

static void temporary_name(const char *id, char ret[NAME_SIZE]) {
        (void)snprintf(ret, NAME_SIZE, "new-%.30s", id);
}

void skeleton_forget(int cache, const char *id) {
        char temporary[NAME_SIZE];

        temporary_name(id, temporary);
        if (faccessat(cache, temporary, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                remove_tree(cache, temporary, 0);
        /* it may also have been killed while it removed an old one */
        int copy = openat(cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        if (!d) {
                fd_close(&copy);
                return;
        }
        remove_abandoned(d);
        (void)closedir(d);
}

static int make(int cache, const char *id, const struct plan *plan, const struct cell_base *base,
                const struct keep *keep, const char *name) {
        char temporary[NAME_SIZE];

        prune(cache, keep);
        temporary_name(id, temporary);
        if (mkdirat(cache, temporary, 0755) < 0)
                return -errno;
        _cleanup_fd_ int fd = openat(cache, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int result = fd < 0 || flock(fd, LOCK_SH) < 0 || fchmod(fd, 0755) < 0 ? -errno : tree_skeleton(plan, base, fd);
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

int skeleton_get(int cache, const char *key, const char *id, const struct plan *plan, const struct cell_base *base,
                 bool (*says)(void *data, const char *name), void *data, char ret_name[SKELETON_NAME_SIZE]) {
        struct keep keep = {says, data};
        char name[NAME_SIZE];

        if (!hash_host(key, plan, name))
                return -EOPNOTSUPP;
        int fd = open_locked(cache, name);
        if (fd == -ENOENT) {
                mode_t mask = umask(022);
                int result = make(cache, id, plan, base, &keep, name);
                (void)umask(mask);
                if (result < 0 && result != -EEXIST && result != -ENOTEMPTY)
                        return result;
                fd = open_locked(cache, name);
        }
        if (fd >= 0)
                memcpy(ret_name, name, sizeof name);
        return fd;
}
