/* Staging, committing and recovering.
 *
 * Before the commit only names of ours (.stockade-ID-N) come into the directory; a new directory is staged whole, so
 * that one rename brings it with all that is in it. After the commit only renames, unlinks and chmods are left. */
#include "disk/apply.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/knockout.h"
#include "disk/copy.h"
#include "disk/journal.h"
#include "disk/tree.h"

struct apply {
        const struct diff *d;
        const struct apply_decision *v;
        const struct apply_options *o;
        int upper, lower;
        size_t *above; /* nearest entry above each */
        char **staged; /* of new directories: where they are built, below lower */
        struct journal j;
        struct err *err;
};

static void apply_free(struct apply *a) {
        for (size_t i = 0; a->staged && i < a->d->count; i++)
                free(a->staged[i]);
        free(a->staged);
        free(a->above);
        journal_free(&a->j);
}

static void step(const struct apply *a) {
        if (a->o->step)
                a->o->step(a->o->data);
}

static bool is_chosen(const struct apply *a, size_t i) {
        return a->v->verdict[i] == APPLY_YES;
}

/* Whether the change brings something that has to be staged. */
static bool brings(const struct diff_entry *e) {
        return e->kind == DIFF_ADDED || e->kind == DIFF_CHANGED || e->kind == DIFF_TYPE;
}

static bool in_new_dir(const struct apply *a, size_t i) {
        size_t up = a->above[i];

        return up != SIZE_MAX && brings(&a->d->entry[up]) && S_ISDIR(a->d->entry[up].mode);
}

/* A rename cannot put a directory in the place of a file, or a file in the place of a directory. */
static bool needs_removal(const struct diff_entry *e) {
        return e->kind == DIFF_REMOVED || (e->kind == DIFF_TYPE && (S_ISDIR(e->mode) || S_ISDIR(e->old.mode)));
}

static int plan_removal(struct apply *a, size_t i) {
        const struct diff_entry *e = &a->d->entry[i];

        return journal_add(&a->j, &(struct journal_op){
                                          .kind = S_ISDIR(e->old.mode) ? JOURNAL_RMDIR : JOURNAL_REMOVE,
                                          .n = e->kind == DIFF_TYPE ? (uint32_t)i : UINT32_MAX,
                                          .old = e->old,
                                          .path = e->path,
                                  });
}

/* Writes down all operations, in an order that works: removals from the leaves up, then new things, then modes. */
static int plan(struct apply *a) {
        const struct diff *d = a->d;
        int r = 0;

        for (size_t i = d->count; r == 0 && i-- > 0;)
                if (is_chosen(a, i) && needs_removal(&d->entry[i]))
                        r = plan_removal(a, i);
        for (size_t i = 0; r == 0 && i < d->count; i++) {
                const struct diff_entry *e = &d->entry[i];
                struct journal_op op = {.kind = JOURNAL_PLACE, .n = (uint32_t)i, .path = e->path};

                if (!is_chosen(a, i) || !brings(e) || in_new_dir(a, i))
                        continue;
                if (!needs_removal(e))
                        op.old = e->old;
                r = journal_add(&a->j, &op);
        }
        for (size_t i = 0; r == 0 && i < d->count; i++) {
                const struct diff_entry *e = &d->entry[i];
                struct journal_op op = {.kind = JOURNAL_MODE, .n = UINT32_MAX, .old = e->old, .path = e->path};

                op.mode = e->mode & (S_ISDIR(e->mode) ? 03777 : 0777);
                if (is_chosen(a, i) && e->kind == DIFF_MODE)
                        r = journal_add(&a->j, &op);
        }
        return r;
}

struct owner {
        uid_t uid;
        gid_t gid;
};

/* Gives what we just made to its owner. fd may be O_PATH. What is not ours by now is somebody's trick. */
static int give(int fd, mode_t type, struct owner owner) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return -errno;
        if ((st.st_mode & S_IFMT) != type || st.st_uid != geteuid() || (type != S_IFDIR && st.st_nlink != 1))
                return -ESTALE;
        if (st.st_uid == owner.uid && st.st_gid == owner.gid)
                return 0;
        return fchownat(fd, "", owner.uid, owner.gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int stage_file(struct apply *a, const struct diff_entry *e, int parent, const char *name, struct owner owner) {
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, e->mtime};
        struct stat st;
        _cleanup_fd_ int in = tree_open_scratch(a->upper, e->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

        if (in < 0)
                return in;
        if (fstat(in, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size)
                return -ESTALE;
        _cleanup_fd_ int out = openat(parent, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (out < 0)
                return -errno;
        int r = copy_sparse(in, out, e->size);
        if (r == 0)
                r = give(out, S_IFREG, owner);
        mode_t bits = knockout_off(KNOCKOUT_LAUNCHER) ? 07777 : 0777;
        if (r == 0 && (fchmod(out, e->mode & bits) < 0 || futimens(out, times) < 0))
                r = -errno;
        return r;
}

static int stage_link(struct apply *a, const struct diff_entry *e, int parent, const char *name, struct owner owner) {
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, e->mtime};
        _cleanup_free_ char *target = NULL;

        int r = diff_read_link(a->upper, e->path, &target);
        if (r < 0)
                return r;
        if (symlinkat(target, parent, name) < 0)
                return -errno;
        _cleanup_fd_ int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = give(fd, S_IFLNK, owner);
        if (r == 0 && utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        return r;
}

static int stage_dir(int parent, const char *name, struct owner owner) {
        if (mkdirat(parent, name, 0700) < 0)
                return -errno;
        _cleanup_fd_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : give(fd, S_IFDIR, owner);
}

static char *staged_path(const struct apply *a, size_t i) {
        const char *path = a->d->entry[i].path, *slash = strrchr(path, '/');

        if (!in_new_dir(a, i))
                return journal_stage_path(&a->j, path, (uint32_t)i);
        return tree_join(a->staged[a->above[i]], slash ? slash + 1 : path);
}

static int stage_entry(struct apply *a, size_t i) {
        const struct diff_entry *e = &a->d->entry[i];
        _cleanup_free_ char *path = staged_path(a, i);
        const char *name;
        struct stat st;

        if (!path)
                return -ENOMEM;
        _cleanup_fd_ int parent = tree_open_parent(a->lower, path, &name);
        if (parent < 0)
                return parent;
        if (fstat(parent, &st) < 0)
                return -errno;
        struct owner owner = {st.st_uid, st.st_gid};
        if (e->old.mode != 0)
                owner = (struct owner){e->old.uid, e->old.gid};
        switch (e->mode & S_IFMT) {
        case S_IFREG:
                return stage_file(a, e, parent, name, owner);
        case S_IFLNK:
                return stage_link(a, e, parent, name, owner);
        case S_IFDIR: {
                int r = stage_dir(parent, name, owner);
                if (r == 0)
                        a->staged[i] = TAKE_PTR(path);
                return r;
        }
        default:
                return ERR_REFUSED; /* apply_check does not choose anything else */
        }
}

/* Modes and times of new directories, once all that is in them is there. */
static int finish_dir(struct apply *a, size_t i) {
        const struct diff_entry *e = &a->d->entry[i];
        struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, e->mtime};
        struct stat st;
        _cleanup_fd_ int fd = tree_open(a->lower, a->staged[i], O_RDONLY | O_DIRECTORY);

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || futimens(fd, times) < 0 || fchmod(fd, (e->mode & 01777) | (st.st_mode & S_ISGID)) < 0)
                return -errno;
        return 0;
}

static int check_space(const struct apply *a) {
        struct statvfs fs;
        uint64_t need = 0;

        for (size_t i = 0; i < a->d->count; i++)
                if (is_chosen(a, i) && __builtin_add_overflow(need, a->d->entry[i].data, &need))
                        return err_set(a->err, ERR_LIMIT, "the changes are too large");
        if (fstatvfs(a->lower, &fs) < 0)
                return err_set(a->err, -errno, "cannot see how much space '%s' has", a->o->root);
        uint64_t room = (geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * (uint64_t)fs.f_frsize;
        if (need <= room)
                return 0;
        (void)err_set(a->err, -ENOSPC, "the changes need %llu bytes beside what '%s' holds", (unsigned long long)need,
                      a->o->root);
        (void)err_hint(a->err, "make room, or keep the changes in a file elsewhere");
        return -ENOSPC;
}

static int stage_all(struct apply *a) {
        for (size_t i = 0; i < a->d->count; i++) {
                if (!is_chosen(a, i) || !brings(&a->d->entry[i]))
                        continue;
                step(a);
                int r = stage_entry(a, i);
                if (r < 0)
                        return err_set(a->err, r, "could not prepare the change of '%.200s'", a->d->entry[i].path);
        }
        for (size_t i = a->d->count; i-- > 0;) {
                int r = a->staged[i] ? finish_dir(a, i) : 0;
                if (r < 0)
                        return err_set(a->err, r, "could not prepare the change of '%.200s'", a->d->entry[i].path);
        }
        step(a);
        int r = journal_sync(a->lower);
        return r < 0 ? err_set(a->err, r, "could not write the changes to disk") : 0;
}

/* The last look before the commit: what will be replaced or removed is still what was shown. */
static int look_again(struct apply *a) {
        for (size_t i = 0; i < a->j.count; i++) {
                const struct journal_op *op = &a->j.op[i];
                unsigned strict = JOURNAL_SAME_MODE | (op->kind == JOURNAL_MODE ? 0 : JOURNAL_SAME_NAMES);

                if (op->kind == JOURNAL_PLACE && needs_removal(&a->d->entry[op->n]))
                        continue; /* its removal is in the list, with what is there now */
                int r = journal_check(a->lower, op->path, &op->old, strict);
                if (r == -ESTALE) {
                        (void)err_set(a->err, ERR_REFUSED, "'%.200s' changed outside the sandbox", op->path);
                        (void)err_hint(a->err, "nothing was applied; compare again");
                        return ERR_REFUSED;
                }
                if (r < 0)
                        return err_set(a->err, r, "could not check '%.200s'", op->path);
        }
        return 0;
}

static int stage_and_commit(struct apply *a, int state_dir) {
        int r = journal_write(&a->j, state_dir);
        if (r < 0)
                return err_set(a->err, r, "could not write a journal to Stockade's state directory");
        r = stage_all(a);
        if (r == 0) {
                step(a);
                r = look_again(a);
        }
        if (r < 0)
                return r;
        r = journal_commit(&a->j, state_dir);
        if (r < 0 && a->j.state != JOURNAL_COMMITTED)
                return err_set(a->err, r, "could not commit the journal in Stockade's state directory");
        return 0;
}

/* One apply at a time in a directory. */
static int lock_root(int lower, int *ret) {
        _cleanup_fd_ int fd = openat(lower, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}

static int prepare(struct apply *a) {
        assert(a->v->count == a->d->count && a->d->count < UINT32_MAX && a->o->root && a->o->root[0] == '/');
        int r = journal_init(&a->j, a->lower, a->o->root);
        a->above = calloc(a->d->count + 1, sizeof *a->above);
        a->staged = calloc(a->d->count + 1, sizeof *a->staged);
        if (r == 0 && (!a->above || !a->staged))
                r = -ENOMEM;
        for (size_t i = 0; r == 0 && i < a->d->count; i++)
                a->above[i] = diff_above(a->d, a->above, i);
        if (r == 0)
                r = plan(a);
        return r < 0 ? err_set(a->err, r, "could not plan the changes of '%s'", a->o->root) : 0;
}

int apply_run(const struct diff *d, const struct apply_decision *v, int upper, int lower, int state_dir,
              const struct apply_options *o, struct err *err) {
        _cleanup_(apply_free) struct apply a = {
                .d = d, .v = v, .o = o, .upper = upper, .lower = lower, .j = {.file = -EBADF}, .err = err};
        _cleanup_fd_ int lock = -EBADF;

        int r = lock_root(lower, &lock);
        if (r == -EWOULDBLOCK)
                return err_set(err, r, "another apply works on '%s'", o->root);
        if (r < 0)
                return err_set(err, r, "cannot lock '%s'", o->root);
        r = prepare(&a);
        if (r < 0 || a.j.count == 0)
                return r;
        r = check_space(&a);
        if (r < 0)
                return r;
        r = stage_and_commit(&a, state_dir);
        if (r < 0) {
                /* a journal stays only when the staged names could not be removed: recovery tries again */
                if (journal_undo(&a.j, lower, NULL) == 0)
                        (void)journal_end(&a.j, state_dir);
                return r;
        }
        r = journal_execute(&a.j, lower, o->step, o->data, err);
        if (r < 0)
                return r;
        step(&a);
        r = journal_end(&a.j, state_dir);
        return r < 0 ? err_set(err, r, "the changes are applied, but their journal could not be removed") : 0;
}

static int open_root(const struct journal *j, int *ret, int *ret_lock) {
        struct stat st;
        _cleanup_fd_ int fd = open(j->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (st.st_ino != j->root_ino)
                return -ENOENT;
        int r = lock_root(fd, ret_lock);
        if (r == 0)
                *ret = TAKE_FD(fd);
        return r;
}

static int recover_one(int state_dir, const char *name, struct apply_recovery *ret, struct err *err) {
        _cleanup_(journal_free) struct journal j = {.file = -EBADF};
        _cleanup_fd_ int root = -EBADF, lock = -EBADF;

        int r = journal_load(state_dir, name, &j, err);
        if (r == -ENOENT || r == -EWOULDBLOCK) {
                ret->busy += r == -EWOULDBLOCK;
                return 0;
        }
        if (r < 0)
                return r;
        if (j.state != JOURNAL_NEW) {
                r = open_root(&j, &root, &lock);
                if (r == -EWOULDBLOCK) {
                        ret->busy++;
                        return 0;
                }
                if (r < 0 && (r != -ENOENT || j.state == JOURNAL_COMMITTED)) {
                        (void)err_set(err, r, "cannot finish the changes of '%s'", j.root);
                        (void)err_hint(err,
                                       "put the directory back, or give the changes up: remove '%s' from "
                                       "Stockade's state directory",
                                       name);
                        return r;
                }
        }
        bool committed = j.state == JOURNAL_COMMITTED;
        if (root >= 0)
                r = committed ? journal_execute(&j, root, NULL, NULL, err) : journal_undo(&j, root, err);
        else
                r = 0; /* nothing was staged, or the directory is gone with what was */
        if (r < 0)
                return r;
        r = journal_end(&j, state_dir);
        if (r < 0)
                return err_set(err, r, "could not remove journal '%s'", name);
        ret->finished += committed;
        ret->undone += !committed;
        return 0;
}

int apply_recover(int state_dir, struct apply_recovery *ret, struct err *err) {
        _cleanup_(tree_names_free) struct tree_names names = {0};
        struct apply_recovery done = {0};
        int first = 0;

        int r = tree_list(state_dir, 100000, &names);
        if (r < 0)
                return err_set(err, r, "cannot list Stockade's state directory");
        for (size_t i = 0; i < names.count; i++) {
                if (!str_starts(names.name[i], "apply-"))
                        continue;
                r = recover_one(state_dir, names.name[i], &done, first == 0 ? err : NULL);
                if (r < 0 && first == 0)
                        first = r;
        }
        if (ret)
                *ret = done;
        return first;
}
