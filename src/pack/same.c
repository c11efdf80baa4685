/* Two trees side by side. */
#include "pack/same.h"

#include <fcntl.h>
#include <unistd.h>

#include "disk/copy.h"

static bool same_time(struct timespec a, struct timespec b) {
        return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static int same_link(const struct pair *p) {
        _cleanup_free_ char *a = NULL, *b = NULL;

        int r = walk_link(p->dir[0], p->name, &a);
        if (r == 0)
                r = walk_link(p->dir[1], p->name, &b);
        return r < 0 ? r : str_eq(a, b);
}

int same_content(const struct pair *p) {
        const struct stat *a = &p->st[0], *b = &p->st[1];

        if ((a->st_mode & S_IFMT) != (b->st_mode & S_IFMT))
                return 0;
        if (S_ISLNK(a->st_mode))
                return same_link(p);
        if (S_ISCHR(a->st_mode) || S_ISBLK(a->st_mode))
                return a->st_rdev == b->st_rdev;
        if (!S_ISREG(a->st_mode))
                return 1;
        if (a->st_size != b->st_size)
                return 0;
        if (a->st_size == 0 || (same_time(a->st_mtim, b->st_mtim) && same_time(a->st_ctim, b->st_ctim)))
                return 1;
        _cleanup_fd_ int x = tree_open(p->dir[0], p->name, O_RDONLY | O_NONBLOCK | O_NOCTTY), y = -EBADF;
        if (x < 0)
                return x;
        y = tree_open(p->dir[1], p->name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (y < 0)
                return y;
        int r = copy_equal(x, y, (uint64_t)a->st_size);
        return r == -EIO ? 0 : r; /* it became shorter meanwhile: it was written to */
}

bool same_dress(const struct pair *p) {
        const struct stat *a = &p->st[0], *b = &p->st[1];

        return a->st_uid == b->st_uid && a->st_gid == b->st_gid &&
               (S_ISLNK(a->st_mode) || ((a->st_mode ^ b->st_mode) & 01777) == 0);
}

struct twins {
        struct walk walk;
        struct tree_names names[2];
        int dir[2];
        char **folders; /* of this one, to go into */
        size_t count;
};

static void twins_end(struct twins *t) {
        for (size_t i = 0; i < 2; i++) {
                tree_names_free(&t->names[i]);
                fd_close(&t->dir[i]);
        }
        free(TAKE_PTR(t->folders));
        t->count = 0;
}

/* A folder that one of the trees lacks is empty there. */
static int open_twin(int tree, const char *path, int *ret_dir, struct tree_names *ret_names) {
        int fd = tree_open(tree, path, O_RDONLY | O_DIRECTORY);

        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return 0;
        if (fd < 0)
                return fd;
        *ret_dir = fd;
        return tree_list(fd, WALK_NAMES_MAX, ret_names);
}

static int stat_twin(int dir, const char *name, struct stat *ret) {
        *ret = (struct stat){0};
        if (dir < 0)
                return 0;
        int r = tree_stat(dir, name, ret);
        if (r == -ENOENT)
                *ret = (struct stat){0};
        return r == -ENOENT ? 0 : r;
}

static int visit(struct twins *t, const char *at, char *name, int (*fn)(void *data, const struct pair *p), void *data) {
        _cleanup_free_ char *path = tree_join(at, name);
        struct pair p = {.path = path, .name = name, .dir = {t->dir[0], t->dir[1]}};

        if (!path)
                return -ENOMEM;
        int r = stat_twin(t->dir[0], name, &p.st[0]);
        if (r == 0)
                r = stat_twin(t->dir[1], name, &p.st[1]);
        if (r < 0 || (p.st[0].st_mode == 0 && p.st[1].st_mode == 0))
                return r;
        r = fn(data, &p);
        if (r == SAME_INTO)
                t->folders[t->count++] = name;
        return MIN(r, 0);
}

static int one_folder(struct twins *t, const char *at, int old, int new, int (*fn)(void *data, const struct pair *p),
                      void *data) {
        int r = open_twin(old, at, &t->dir[0], &t->names[0]);

        if (r == 0)
                r = open_twin(new, at, &t->dir[1], &t->names[1]);
        if (r < 0)
                return r;
        t->folders = calloc(t->names[0].count + t->names[1].count + 1, sizeof *t->folders);
        if (!t->folders)
                return -ENOMEM;
        for (size_t i = 0, k = 0; r == 0 && (i < t->names[0].count || k < t->names[1].count);) {
                int order = i >= t->names[0].count   ? 1
                            : k >= t->names[1].count ? -1
                                                     : strcmp(t->names[0].name[i], t->names[1].name[k]);
                r = visit(t, at, order <= 0 ? t->names[0].name[i] : t->names[1].name[k], fn, data);
                i += order <= 0;
                k += order >= 0;
        }
        return r < 0 ? r : walk_push_names(&t->walk, at, t->folders, t->count);
}

int same_walk(int old, int new, int (*fn)(void *data, const struct pair *p), void *data, struct err *err) {
        struct twins t = {.dir = {-EBADF, -EBADF}};
        char shown[200];

        int r = walk_push(&t.walk, "");
        for (char *at; r == 0 && (at = walk_pop(&t.walk)); free(at)) {
                r = one_folder(&t, at, old, new, fn, data);
                twins_end(&t);
                if (r < 0 && !err->text[0])
                        (void)err_set(err, r, "cannot compare '%s'", pack_shown(at, shown));
        }
        walk_free(&t.walk);
        return r;
}
