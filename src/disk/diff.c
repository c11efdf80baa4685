/* The walk of upper against lower.
 *
 * Directories wait on a stack and are opened by path from the root, one at a time: neither the depth of the tree nor
 * the number of descriptors grows with what the sandbox made. How lower shows through is a state of the directory:
 *
 *   MERGED   upper and lower are one: lower's names count unless upper has a whiteout or an entry
 *   HIDDEN   an opaque directory, or below one: lower's names that upper does not have are gone
 *   FRESH    lower has no such directory
 *   GONE     upper has no such directory: all of lower's is removed
 *
 * Whiteouts are character devices 0:0, or (in a directory marked "x") empty files with the whiteout attribute. */
#include "disk/diff.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/knockout.h"
#include "disk/copy.h"
#include "disk/risk.h"
#include "disk/tree.h"

enum sight { MERGED, HIDDEN, FRESH, GONE };

struct pending {
        char *path;
        enum sight sight;
        size_t depth;
        bool below_mount;
};

struct walk {
        int upper, lower;
        const struct diff_options *o;
        struct diff d;
        size_t room;
        struct pending *stack;
        size_t waiting, stack_room;
        size_t path_bytes, max_entries, max_depth, max_path_bytes;
        struct err *err;
};

/* One directory while its names are looked at. */
struct place {
        const struct pending *dir;
        int upper, lower; /* lower is -EBADF where it does not exist */
        mode_t mode;      /* of the upper directory */
        bool xwhiteouts;
        bool lower_touched; /* names came or went in lower after the run began */
        enum sight sight;
};

static void walk_free(struct walk *w) {
        diff_free(&w->d);
        for (size_t i = 0; i < w->waiting; i++)
                free(w->stack[i].path);
        free(w->stack);
}

void diff_free(struct diff *d) {
        for (size_t i = 0; i < d->count; i++)
                free(d->entry[i].path);
        free(d->entry);
        *d = (struct diff){0};
}

static bool later(struct timespec a, struct timespec b) {
        return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static int limit(struct walk *w, const char *what, size_t max) {
        (void)err_set(w->err, ERR_LIMIT, "the workspace has more than %zu %s", max, what);
        (void)err_hint(w->err, "discard the changes, or run the command again so that it leaves less behind");
        return ERR_LIMIT;
}

static int trouble(struct walk *w, int code, const char *where, const char *path) {
        return err_set(w->err, code, "cannot compare '%.200s' in the %s", path[0] ? path : ".", where);
}

/* The value's first byte, 0 when the attribute is not there or empty. */
static char overlay_mark(const struct walk *w, int fd, const char *mark) {
        char name[64], value[8] = {0};

        (void)snprintf(name, sizeof name, "%s.overlay.%s", w->o->userxattr ? "user" : "trusted", mark);
        return fgetxattr(fd, name, value, sizeof value) > 0 ? value[0] : '\0';
}

static bool overlay_has(const struct walk *w, int fd, const char *mark) {
        char name[64];

        (void)snprintf(name, sizeof name, "%s.overlay.%s", w->o->userxattr ? "user" : "trusted", mark);
        return fgetxattr(fd, name, NULL, 0) >= 0;
}

static int push(struct walk *w, const char *path, enum sight sight, const struct pending *parent, bool mount) {
        size_t depth = parent->depth + 1;

        if (depth > w->max_depth)
                return limit(w, "nested directories", w->max_depth);
        if (w->waiting == w->stack_room) {
                size_t more = w->stack_room ? 2 * w->stack_room : 64;
                struct pending *bigger = reallocarray(w->stack, more, sizeof *bigger);
                if (!bigger)
                        return err_set(w->err, -ENOMEM, "cannot list the changes");
                w->stack = bigger;
                w->stack_room = more;
        }
        char *copy = strdup(path);
        if (!copy)
                return err_set(w->err, -ENOMEM, "cannot list the changes");
        w->stack[w->waiting++] = (struct pending){copy, sight, depth, mount};
        return 0;
}

static const char *risk_of(const struct walk *w, const char *path, const struct stat *new) {
        _cleanup_free_ char *target = NULL;

        if (S_ISDIR(new->st_mode) || knockout_off(KNOCKOUT_LAUNCHER))
                return NULL;
        const char *risk = risk_of_path(path, S_ISLNK(new->st_mode));
        if (!risk && S_ISLNK(new->st_mode) && diff_read_link(w->upper, path, &target) == 0)
                risk = risk_of_link(path, target);
        return risk;
}

static unsigned flags_of(const struct walk *w, const struct place *at, const struct stat *new, const struct stat *old) {
        unsigned flags = at->dir->below_mount ? DIFF_MOUNT : 0;
        mode_t known = old ? old->st_mode : 0;

        if (old && later(old->st_ctim, w->o->start))
                flags |= DIFF_CONFLICT;
        if (old && (S_ISCHR(old->st_mode) || S_ISBLK(old->st_mode)))
                flags |= DIFF_SPECIAL;
        if (new && !S_ISREG(new->st_mode) && !S_ISDIR(new->st_mode) && !S_ISLNK(new->st_mode))
                flags |= DIFF_SPECIAL;
        if (new &&S_ISDIR(new->st_mode)) /* a directory may inherit setgid from the one it is in */
                known |= at->mode & S_ISGID;
        else
                known = 0;
        if (new && !S_ISLNK(new->st_mode) && (new->st_mode & ~known &(S_ISUID | S_ISGID)))
                flags |= DIFF_SETID;
        return flags;
}

static int emit(struct walk *w, const struct place *at, const char *path, enum diff_kind kind, const struct stat *new,
                const struct stat *old, unsigned flags) {
        if (w->d.count >= w->max_entries)
                return limit(w, "changes", w->max_entries);
        w->path_bytes += strlen(path) + 1;
        if (w->path_bytes > w->max_path_bytes)
                return limit(w, "bytes of changed names", w->max_path_bytes);
        if (w->d.count == w->room) {
                size_t more = w->room ? 2 * w->room : 64;
                struct diff_entry *bigger = reallocarray(w->d.entry, more, sizeof *bigger);
                if (!bigger)
                        return err_set(w->err, -ENOMEM, "cannot list the changes");
                w->d.entry = bigger;
                w->room = more;
        }
        struct diff_entry e = {.path = strdup(path), .kind = kind, .flags = flags | flags_of(w, at, new, old)};
        if (!e.path)
                return err_set(w->err, -ENOMEM, "cannot list the changes");
        if (old) {
                e.old = (struct diff_old){old->st_ino, (uint64_t)old->st_size, old->st_mtim, old->st_mode, old->st_uid,
                                          old->st_gid};
                e.size = S_ISREG(old->st_mode) ? (uint64_t)old->st_size : 0;
        }
        if (new) {
                e.mode = new->st_mode;
                e.size = S_ISREG(new->st_mode) ? (uint64_t) new->st_size : 0;
                e.data = S_ISREG(new->st_mode) ? (uint64_t) new->st_blocks * 512 : 0;
                e.mtime = new->st_mtim;
                e.risk = risk_of(w, path, new);
        }
        w->d.entry[w->d.count++] = e;
        return 0;
}

/* A name that lower has and the view does not. */
static int gone(struct walk *w, const struct place *at, const char *name, const struct stat *old) {
        _cleanup_free_ char *path = tree_join(at->dir->path, name);

        if (!path)
                return err_set(w->err, -ENOMEM, "cannot list the changes");
        int r = emit(w, at, path, DIFF_REMOVED, NULL, old, 0);
        if (r == 0 && S_ISDIR(old->st_mode))
                r = push(w, path, GONE, at->dir, at->dir->below_mount);
        return r;
}

int diff_read_link(int root, const char *path, char **ret) {
        const char *name;
        _cleanup_fd_ int parent = tree_open_parent(root, path, &name);
        if (parent < 0)
                return parent;
        _cleanup_free_ char *target = malloc(PATH_MAX + 1);
        if (!target)
                return -ENOMEM;
        ssize_t n = readlinkat(parent, name, target, PATH_MAX);
        if (n < 0)
                return -errno;
        target[n] = '\0';
        *ret = TAKE_PTR(target);
        return 0;
}

static int no_content(struct walk *w, const char *path) {
        return err_set(w->err, ERR_CORRUPT, "upper layer holds no content for '%.200s' (metacopy)", path);
}

/* 1 when content or target are the same, 0 when not. Both exist and are of one type. */
static int same_content(struct walk *w, const char *path, const struct stat *new, const struct stat *old) {
        if (S_ISLNK(new->st_mode)) {
                _cleanup_free_ char *a = NULL, *b = NULL;
                int r = diff_read_link(w->upper, path, &a);
                if (r == 0)
                        r = diff_read_link(w->lower, path, &b);
                return r < 0 ? trouble(w, r, "workspace", path) : str_eq(a, b);
        }
        if (S_ISCHR(new->st_mode) || S_ISBLK(new->st_mode))
                return new->st_rdev == old->st_rdev;
        if (!S_ISREG(new->st_mode))
                return 1;

        _cleanup_fd_ int a = tree_open_scratch(w->upper, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (a < 0)
                return trouble(w, a, "upper layer", path);
        if (overlay_has(w, a, "metacopy"))
                return no_content(w, path);
        if (new->st_size != old->st_size)
                return 0;
        _cleanup_fd_ int b = tree_open(w->lower, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (b == -EACCES) /* ours to replace, but not to read: call it changed */
                return 0;
        if (b < 0)
                return trouble(w, b, "workspace", path);
        int r = copy_equal(a, b, (uint64_t) new->st_size);
        return r == -EIO ? 0 : r < 0 ? trouble(w, r, "workspace", path) : r;
}

/* Added, but it came from a file of lower that is no longer there: somebody removed it under the running command. A
 * file that the command itself renamed looks the same, so this counts only where lower's directory was touched. */
static unsigned lost_origin(struct walk *w, const struct place *at, const char *path, const struct stat *new) {
        if (!at->lower_touched || (!S_ISREG(new->st_mode) && !S_ISDIR(new->st_mode)))
                return 0;
        _cleanup_fd_ int fd = tree_open_scratch(w->upper, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        return fd >= 0 && overlay_has(w, fd, "origin") ? DIFF_CONFLICT : 0;
}

static int compare(struct walk *w, const struct place *at, const char *path, const struct stat *new,
                   const struct stat *old) {
        bool dir = S_ISDIR(new->st_mode);
        int r;

        if (!old) {
                if (S_ISREG(new->st_mode) && new->st_size > 0 && new->st_blocks == 0) {
                        _cleanup_fd_ int fd = tree_open_scratch(w->upper, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
                        if (fd >= 0 && overlay_has(w, fd, "metacopy"))
                                return no_content(w, path);
                }
                r = emit(w, at, path, DIFF_ADDED, new, NULL, lost_origin(w, at, path, new));
                return r == 0 && dir ? push(w, path, FRESH, at->dir, at->dir->below_mount) : r;
        }
        if ((new->st_mode &S_IFMT) != (old->st_mode & S_IFMT)) {
                r = emit(w, at, path, DIFF_TYPE, new, old, 0);
                if (r == 0 && dir)
                        r = push(w, path, FRESH, at->dir, at->dir->below_mount);
                if (r == 0 && S_ISDIR(old->st_mode))
                        r = push(w, path, GONE, at->dir, at->dir->below_mount);
                return r;
        }
        bool same_mode = S_ISLNK(new->st_mode) || (new->st_mode & 07777) == (old->st_mode & 07777);
        if (dir) {
                r = same_mode ? 0 : emit(w, at, path, DIFF_MODE, new, old, 0);
                return r == 0 ? push(w, path, at->sight, at->dir, at->dir->below_mount) : r;
        }
        r = same_content(w, path, new, old);
        if (r < 0 || (r == 1 && same_mode))
                return r < 0 ? r : 0;
        return emit(w, at, path, r == 1 ? DIFF_MODE : DIFF_CHANGED, new, old, 0);
}

static bool is_whiteout(const struct walk *w, const struct place *at, const char *name, const struct stat *st) {
        if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0))
                return true;
        if (!at->xwhiteouts || !S_ISREG(st->st_mode) || st->st_size != 0)
                return false;
        _cleanup_fd_ int fd = tree_open_scratch(at->upper, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        return fd >= 0 && overlay_has(w, fd, "whiteout");
}

/* What lower has under this name: 1 and *ret, 0 for nothing. A mount point is a thing that the sandbox did not see. */
static int look_below(struct walk *w, const struct place *at, const char *name, struct stat *ret, bool *ret_mount) {
        *ret_mount = false;
        if (at->lower < 0)
                return 0;
        int r = tree_stat(at->lower, name, ret);
        if (r == 0)
                return 1;
        *ret_mount = r == -EXDEV;
        return r == -ENOENT || r == -EXDEV ? 0 : trouble(w, r, "workspace", name);
}

static int look_at_name(struct walk *w, const struct place *at, const char *name) {
        _cleanup_free_ char *path = tree_join(at->dir->path, name);
        struct stat new, old;
        bool mount;

        if (!path)
                return err_set(w->err, -ENOMEM, "cannot list the changes");
        if (fstatat(at->upper, name, &new, AT_SYMLINK_NOFOLLOW) < 0)
                return trouble(w, -errno, "upper layer", path);
        int r = look_below(w, at, name, &old, &mount);
        if (r < 0)
                return r;
        bool there = r == 1;
        if (is_whiteout(w, at, name, &new))
                return there ? gone(w, at, name, &old) : 0;
        if (!mount)
                return compare(w, at, path, &new, there ? &old : NULL);

        struct pending covered = *at->dir;
        struct place below = *at;
        covered.below_mount = true;
        below.dir = &covered;
        return compare(w, &below, path, &new, NULL);
}

/* Names of lower that do not show through. */
static int look_at_lower(struct walk *w, const struct place *at, const struct tree_names *seen) {
        _cleanup_(tree_names_free) struct tree_names names = {0};
        struct stat old;

        int r = tree_list(at->lower, w->max_entries, &names);
        if (r == ERR_LIMIT)
                return limit(w, "changes", w->max_entries);
        if (r < 0)
                return trouble(w, r, "workspace", at->dir->path);
        for (size_t i = 0; i < names.count; i++) {
                bool mount;

                if (tree_names_has(seen, names.name[i]))
                        continue;
                r = look_below(w, at, names.name[i], &old, &mount);
                if (r == 1)
                        r = gone(w, at, names.name[i], &old);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Opens both sides of a directory and reads upper's marks. */
static int enter(struct walk *w, const struct pending *dir, struct place *at) {
        struct stat st;

        *at = (struct place){.dir = dir, .upper = -EBADF, .lower = -EBADF, .sight = dir->sight};
        if (dir->sight != GONE) {
                at->upper = tree_open_scratch(w->upper, dir->path, O_RDONLY | O_DIRECTORY);
                if (at->upper < 0 || fstat(at->upper, &st) < 0)
                        return trouble(w, at->upper < 0 ? at->upper : -errno, "upper layer", dir->path);
                at->mode = st.st_mode;
                char mark = overlay_mark(w, at->upper, "opaque");
                at->xwhiteouts = mark == 'x';
                if (mark == 'y' && at->sight == MERGED)
                        at->sight = HIDDEN;
                if (overlay_has(w, at->upper, "redirect"))
                        return err_set(w->err, ERR_CORRUPT, "upper layer redirects '%.200s' (redirect_dir)", dir->path);
        }
        if (dir->sight == FRESH)
                return 0;
        at->lower = tree_open(w->lower, dir->path, O_RDONLY | O_DIRECTORY);
        if (at->lower == -ENOENT) /* removed since its parent was read */
                return 0;
        if (at->lower < 0 || fstat(at->lower, &st) < 0)
                return trouble(w, at->lower < 0 ? at->lower : -errno, "workspace", dir->path);
        at->lower_touched = later(st.st_mtim, w->o->start);
        return 0;
}

static void place_leave(struct place *at) {
        fd_close(&at->upper);
        fd_close(&at->lower);
}

static int look_at_dir(struct walk *w, const struct pending *dir) {
        _cleanup_(tree_names_free) struct tree_names names = {0};
        _cleanup_(place_leave) struct place at;

        int r = enter(w, dir, &at);
        if (r == 0 && at.upper >= 0) {
                r = tree_list(at.upper, w->max_entries, &names);
                if (r < 0)
                        r = r == ERR_LIMIT ? limit(w, "changes", w->max_entries)
                                           : trouble(w, r, "upper layer", dir->path);
        }
        for (size_t i = 0; r == 0 && i < names.count; i++)
                r = look_at_name(w, &at, names.name[i]);
        if (r == 0 && at.lower >= 0 && (at.sight == HIDDEN || at.sight == GONE))
                r = look_at_lower(w, &at, &names);
        return r;
}

static int by_path(const void *a, const void *b) {
        return tree_compare(((const struct diff_entry *)a)->path, ((const struct diff_entry *)b)->path);
}

int diff_compute(int upper, int lower, const struct diff_options *o, struct diff *ret, struct err *err) {
        _cleanup_(walk_free) struct walk w = {
                .upper = upper,
                .lower = lower,
                .o = o,
                .max_entries = o->max_entries ? o->max_entries : 1000000,
                .max_depth = o->max_depth ? o->max_depth : 2000,
                .max_path_bytes = o->max_path_bytes ? o->max_path_bytes : (size_t)256 << 20,
                .err = err,
        };
        struct stat st;

        if (fstat(lower, &st) < 0)
                return err_set(err, -errno, "cannot stat the workspace");
        w.d.uid = st.st_uid;
        w.d.gid = st.st_gid;
        int r = push(&w, "", MERGED, &(struct pending){0}, false);
        while (r == 0 && w.waiting > 0) {
                struct pending dir = w.stack[--w.waiting];
                r = look_at_dir(&w, &dir);
                free(dir.path);
        }
        if (r < 0)
                return r;
        if (w.d.count > 0)
                qsort(w.d.entry, w.d.count, sizeof *w.d.entry, by_path);
        *ret = w.d;
        w.d = (struct diff){0};
        return 0;
}

size_t diff_above(const struct diff *d, const size_t *above, size_t i) {
        for (size_t up = i > 0 ? i - 1 : SIZE_MAX; up != SIZE_MAX; up = above[up])
                if (tree_is_below(d->entry[i].path, d->entry[up].path))
                        return up;
        return SIZE_MAX;
}
