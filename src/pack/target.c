/* Writing a tree by descriptor. The folder that was written to last is kept open: neighbours mostly come together. */
#include "pack/target.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "disk/tree.h"

enum { NOBODY = 65534, ID_MAX = 65535, NAMES_MAX = 1 << 24 };

struct folder_time {
        char *path;
        struct timespec mtime;
};

struct target {
        int root;
        char *last; /* path of the folder that is open */
        int last_fd;
        struct folder_time *times;
        size_t count, room;
};

int target_open(struct target **ret, int root, struct err *err) {
        struct target *t = malloc(sizeof *t);

        if (!t)
                return err_set(err, -ENOMEM, "cannot write the tree");
        *t = (struct target){.root = root, .last_fd = -EBADF};
        *ret = t;
        return 0;
}

static void forget(struct target *t) {
        free(t->last);
        t->last = NULL;
        fd_close(&t->last_fd);
}

void target_free(struct target *t) {
        if (!t)
                return;
        forget(t);
        for (size_t i = 0; i < t->count; i++)
                free(t->times[i].path);
        free(t->times);
        free(t);
}

static int failed(struct err *err, int r, const char *path) {
        char shown[200];

        if (r == -ELOOP || r == -ENOTDIR)
                return err_set(err, ERR_INPUT, "'%s' leads through a link or a file", pack_shown(path, shown));
        if (r == -EXDEV)
                return err_set(err, ERR_INPUT, "'%s' leads out of the tree", pack_shown(path, shown));
        return err_set(err, r, "cannot write '%s'", pack_shown(path, shown));
}

/* One folder of a path, made if it is not there. */
static int step_into(int dir, const char *name) {
        int fd = tree_open(dir, name, O_RDONLY | O_DIRECTORY);

        if (fd != -ENOENT)
                return fd;
        if (mkdirat(dir, name, 0755) < 0)
                return -errno;
        return tree_open(dir, name, O_RDONLY | O_DIRECTORY);
}

/* The folder that path is in, made with all above it if it is not there; stays open, and the target's. */
static int parent_of(struct target *t, const char *path, const char **ret_name) {
        const char *slash = strrchr(path, '/');
        size_t length = slash ? (size_t)(slash - path) : 0;

        *ret_name = slash ? slash + 1 : path;
        if (t->last && strlen(t->last) == length && memcmp(t->last, path, length) == 0)
                return t->last_fd;
        forget(t);
        char *dir = strndup(path, length);
        if (!dir)
                return -ENOMEM;
        int fd = tree_open(t->root, dir, O_RDONLY | O_DIRECTORY);
        if (fd == -ENOENT) {
                fd = tree_open(t->root, "", O_RDONLY | O_DIRECTORY);
                for (char *at = dir; fd >= 0 && at;) {
                        char *end = strchr(at, '/');
                        if (end)
                                *end = '\0';
                        int next = step_into(fd, at);
                        (void)close(fd);
                        fd = next;
                        if (end)
                                *end = '/';
                        at = end ? end + 1 : NULL;
                }
        }
        if (fd < 0) {
                free(dir);
                return fd;
        }
        t->last = dir;
        t->last_fd = fd;
        return fd;
}

/* Takes away what is in the way. */
static int clear(struct target *t, int dir, const char *name) {
        if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        /* the folder that we have open may be below this one */
        _cleanup_fd_ int keep = fcntl(dir, F_DUPFD_CLOEXEC, 3);
        if (keep < 0)
                return -errno;
        forget(t);
        return tree_remove(keep, name);
}

static uid_t id_of(uint64_t id) {
        return (uid_t)(id > ID_MAX ? NOBODY : id);
}

static int dress(int dir, const char *name, const struct target_meta *m) {
        const struct timespec times[2] = {m->mtime, m->mtime};

        if (fchownat(dir, name, id_of(m->uid), id_of(m->gid), AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int remember(struct target *t, const char *path, struct timespec mtime) {
        if (t->count == t->room) {
                size_t more = t->room ? 2 * t->room : 64;
                struct folder_time *bigger = reallocarray(t->times, more, sizeof *bigger);
                if (!bigger)
                        return -ENOMEM;
                t->times = bigger;
                t->room = more;
        }
        char *copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        t->times[t->count++] = (struct folder_time){copy, mtime};
        return 0;
}

static int folder(struct target *t, const char *path, const struct target_meta *m) {
        _cleanup_fd_ int fd = -EBADF;

        if (path[0] == '\0')
                fd = tree_open(t->root, "", O_RDONLY | O_DIRECTORY);
        else {
                const char *name;
                int dir = parent_of(t, path, &name);
                if (dir < 0)
                        return dir;
                if (mkdirat(dir, name, 0700) < 0) {
                        if (errno != EEXIST)
                                return -errno;
                        struct stat st;
                        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                                return -errno;
                        if (!S_ISDIR(st.st_mode) && (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, 0700) < 0))
                                return -errno;
                }
                fd = tree_open(dir, name, O_RDONLY | O_DIRECTORY);
        }
        if (fd < 0)
                return fd;
        if (fchown(fd, id_of(m->uid), id_of(m->gid)) < 0 || fchmod(fd, m->mode & 01777) < 0)
                return -errno;
        int r = remember(t, path, m->mtime);
        return r < 0 ? r : TAKE_FD(fd);
}

int target_folder(struct target *t, const char *path, const struct target_meta *m, struct err *err) {
        int r = folder(t, path, m);

        return r < 0 ? failed(err, r, path) : r;
}

int target_link(struct target *t, const char *path, const char *to, const struct target_meta *m, struct err *err) {
        const char *name;
        int dir = parent_of(t, path, &name), r = MIN(dir, 0);

        if (r == 0 && symlinkat(to, dir, name) < 0) {
                r = errno == EEXIST ? clear(t, dir, name) : -errno;
                if (r == 0) {
                        dir = parent_of(t, path, &name);
                        r = dir < 0 ? dir : symlinkat(to, dir, name) < 0 ? -errno : 0;
                }
        }
        if (r == 0)
                r = dress(dir, name, m);
        return r < 0 ? failed(err, r, path) : 0;
}

int target_same(struct target *t, const char *path, const char *other, struct err *err) {
        const char *from, *name;
        struct stat st;
        _cleanup_fd_ int old = tree_open_parent(t->root, other, &from);

        if (old < 0)
                return failed(err, old, other);
        if (fstatat(old, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return failed(err, -errno, other);
        if (S_ISDIR(st.st_mode))
                return failed(err, -EISDIR, other);
        if (str_eq(path, other))
                return 0;
        int dir = parent_of(t, path, &name), r = MIN(dir, 0);
        if (r == 0 && linkat(old, from, dir, name, 0) < 0) {
                r = errno == EEXIST ? clear(t, dir, name) : -errno;
                if (r == 0) {
                        dir = parent_of(t, path, &name);
                        r = dir < 0 ? dir : linkat(old, from, dir, name, 0) < 0 ? -errno : 0;
                }
        }
        return r < 0 ? failed(err, r, path) : 0;
}

int target_fifo(struct target *t, const char *path, const struct target_meta *m, struct err *err) {
        const char *name;
        int dir = parent_of(t, path, &name), r = MIN(dir, 0);

        if (r == 0)
                r = clear(t, dir, name);
        if (r == 0) {
                dir = parent_of(t, path, &name);
                r = dir < 0 ? dir : mkfifoat(dir, name, 0600) < 0 ? -errno : 0;
        }
        if (r == 0 && fchmodat(dir, name, m->mode & 0777, 0) < 0)
                r = -errno;
        if (r == 0)
                r = dress(dir, name, m);
        return r < 0 ? failed(err, r, path) : 0;
}

int target_file(struct target *t, const char *path, struct err *err) {
        const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        const char *name;
        int dir = parent_of(t, path, &name);

        if (dir < 0)
                return failed(err, dir, path);
        int fd = openat(dir, name, flags, 0600);
        if (fd < 0 && errno == EEXIST) {
                int r = clear(t, dir, name);
                if (r < 0)
                        return failed(err, r, path);
                dir = parent_of(t, path, &name);
                if (dir < 0)
                        return failed(err, dir, path);
                fd = openat(dir, name, flags, 0600);
        }
        return fd < 0 ? failed(err, -errno, path) : fd;
}

int target_done(int fd, const char *path, const struct target_meta *m, struct err *err) {
        const struct timespec times[2] = {m->mtime, m->mtime};

        if (fchown(fd, id_of(m->uid), id_of(m->gid)) < 0 || fchmod(fd, m->mode & 0777) < 0 || futimens(fd, times) < 0)
                return failed(err, -errno, path);
        return 0;
}

int target_attribute(int fd, const char *name, const void *value, size_t size) {
        if (!str_starts(name, "user.") || str_starts(name, "user.overlay."))
                return 0;
        return fsetxattr(fd, name, value, size, 0) < 0 && errno != ENOTSUP ? -errno : 0;
}

int target_remove(struct target *t, const char *path, struct err *err) {
        const char *name;
        _cleanup_fd_ int dir = tree_open_parent(t->root, path, &name);
        int r = dir == -ENOENT ? 0 : dir < 0 ? dir : clear(t, dir, name);

        return r < 0 ? failed(err, r, path) : 0;
}

int target_empty(struct target *t, const char *path, struct err *err) {
        struct tree_names names = {0};
        _cleanup_fd_ int dir = tree_open(t->root, path, O_RDONLY | O_DIRECTORY);

        if (dir == -ENOENT || dir == -ENOTDIR || dir == -ELOOP)
                return 0; /* nothing below it is of a layer before */
        forget(t);
        int r = dir < 0 ? dir : tree_list(dir, NAMES_MAX, &names);
        for (size_t i = 0; r == 0 && i < names.count; i++)
                r = clear(t, dir, names.name[i]);
        tree_names_free(&names);
        return r < 0 ? failed(err, r, path) : 0;
}

int target_close(struct target *t, struct err *err) {
        forget(t);
        for (size_t i = 0; i < t->count; i++) { /* the last word about a folder counts */
                const struct timespec times[2] = {t->times[i].mtime, t->times[i].mtime};
                _cleanup_fd_ int fd = tree_open(t->root, t->times[i].path, O_RDONLY | O_DIRECTORY);

                if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                        continue; /* it did not stay a folder */
                if (fd < 0 || futimens(fd, times) < 0)
                        return failed(err, fd < 0 ? fd : -errno, t->times[i].path);
        }
        return 0;
}
