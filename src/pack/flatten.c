/* Makes one tree the same as another, by changing no more than differs.
 *
 * The target of a flattened chain is a new disk over the same image: what is as the image has it stays there, and what
 * was removed becomes a whiteout by being removed. The target of a copy is empty. Files that are the same file by
 * several names stay so. */
#include <fcntl.h>
#include <unistd.h>

#include "disk/copy.h"
#include "pack/same.h"
#include "pack/target.h"

struct flattening {
        struct target *target;
        const struct caps *caps;
        struct names names;
        struct tally *t;
        struct err *err;
};

static struct target_meta meta_of(const struct stat *st) {
        return (struct target_meta){st->st_mode, st->st_uid, st->st_gid, st->st_mtim};
}

static int set_attribute(void *data, const char *name, const void *value, size_t size) {
        return target_attribute(*(int *)data, name, value, size);
}

static int trouble(struct flattening *f, int r, const char *path) {
        char shown[200];

        return err_set(f->err, r, "cannot copy '%s'", pack_shown(path, shown));
}

static int count(struct flattening *f, uint64_t bytes) {
        f->t->bytes += bytes;
        if (++f->t->entries > f->caps->entries || f->t->bytes > f->caps->bytes)
                return err_set(f->err, ERR_LIMIT, "the tree holds more than may be copied");
        return 0;
}

static int copy_file(struct flattening *f, const struct pair *p) {
        struct target_meta m;
        struct stat st;
        _cleanup_fd_ int in = tree_open(p->dir[1], p->name, O_RDONLY | O_NONBLOCK | O_NOCTTY), out = -EBADF;

        if (in < 0 || fstat(in, &st) < 0)
                return trouble(f, in < 0 ? in : -errno, p->path);
        m = meta_of(&st);
        int r = count(f, (uint64_t)st.st_blocks * 512);
        if (r < 0)
                return r;
        out = target_file(f->target, p->path, f->err);
        if (out < 0)
                return out;
        r = copy_sparse(in, out, (uint64_t)st.st_size);
        if (r == 0)
                r = walk_attributes(in, set_attribute, &out);
        return r < 0 ? trouble(f, r, p->path) : target_done(out, p->path, &m, f->err);
}

static int copy_folder(struct flattening *f, const struct pair *p) {
        struct target_meta m = meta_of(&p->st[1]);
        _cleanup_fd_ int in = tree_open(p->dir[1], p->name, O_RDONLY | O_DIRECTORY), out = -EBADF;

        int r = count(f, 0);
        if (r < 0)
                return r;
        if (in < 0)
                return trouble(f, in, p->path);
        out = target_folder(f->target, p->path, &m, f->err);
        if (out < 0)
                return out;
        r = walk_attributes(in, set_attribute, &out);
        return r < 0 ? trouble(f, r, p->path) : SAME_INTO;
}

static int copy(struct flattening *f, const struct pair *p) {
        const struct stat *st = &p->st[1];
        struct target_meta m = meta_of(st);
        _cleanup_free_ char *to = NULL;
        const char *first;

        if (S_ISDIR(st->st_mode))
                return copy_folder(f, p);
        int r = names_first(&f->names, st, p->path, &first);
        if (r < 0)
                return trouble(f, r, p->path);
        if (first) {
                r = count(f, 0);
                return r < 0 ? r : target_same(f->target, p->path, first, f->err);
        }
        if (S_ISREG(st->st_mode))
                return copy_file(f, p);
        r = count(f, 0);
        if (r < 0)
                return r;
        if (S_ISLNK(st->st_mode)) {
                r = walk_link(p->dir[1], p->name, &to);
                return r < 0 ? trouble(f, r, p->path) : target_link(f->target, p->path, to, &m, f->err);
        }
        if (S_ISFIFO(st->st_mode))
                return target_fifo(f->target, p->path, &m, f->err);
        f->t->skipped++; /* devices and sockets: nobody can use what is left of them */
        return 0;
}

static bool untouched(const struct pair *p) {
        return p->st[0].st_mtim.tv_sec == p->st[1].st_mtim.tv_sec &&
               p->st[0].st_mtim.tv_nsec == p->st[1].st_mtim.tv_nsec;
}

/* p->st[0] is the target's, p->st[1] the source's. */
static int one(void *data, const struct pair *p) {
        struct flattening *f = data;

        if (p->st[1].st_mode == 0)
                return target_remove(f->target, p->path, f->err);
        if (p->st[0].st_mode == 0)
                return copy(f, p);
        if (S_ISDIR(p->st[0].st_mode) && S_ISDIR(p->st[1].st_mode))
                return same_dress(p) && untouched(p) ? SAME_INTO : copy_folder(f, p);
        /* files with several names are copied whole: which of them the target has together is not looked at */
        int same = p->st[1].st_nlink > 1 ? 0 : same_content(p);
        if (same < 0)
                return trouble(f, same, p->path);
        return same && same_dress(p) && untouched(p) ? SAME_PASS : copy(f, p);
}

int flatten_tree(int tree, int target, const struct caps *caps, struct tally *t, struct err *err) {
        struct flattening f = {.caps = caps, .t = t, .err = err};
        struct stat st;

        int r = target_open(&f.target, target, err);
        if (r == 0)
                r = same_walk(target, tree, one, &f, err);
        if (r == 0 && fstat(tree, &st) < 0)
                r = err_set(err, -errno, "cannot read the tree");
        if (r == 0) {
                struct target_meta m = meta_of(&st);
                int root = target_folder(f.target, "", &m, err);
                if (root >= 0)
                        (void)close(root);
                r = MIN(root, 0);
        }
        if (r == 0)
                r = target_close(f.target, err);
        target_free(f.target);
        names_free(&f.names);
        return r;
}
