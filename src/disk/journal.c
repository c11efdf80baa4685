/* Carrying out a journal, and taking it back.
 *
 * Everything is relative to the workspace's descriptor and follows no link. An operation that was done already is
 * recognised and not done twice: a staged name that is gone was placed, a target that is gone was removed. */
#include "disk/journal.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "disk/tree.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

void journal_free(struct journal *j) {
        for (size_t i = 0; i < j->count; i++)
                free(j->op[i].path);
        free(j->op);
        free(j->root);
        fd_close(&j->file);
        *j = (struct journal){.file = -EBADF};
}

int journal_init(struct journal *j, int root, const char *root_path) {
        unsigned char id[16];
        struct stat st;

        if (fstat(root, &st) < 0)
                return -errno;
        if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
                return -EIO;
        *j = (struct journal){.file = -EBADF, .root_ino = st.st_ino, .root = strdup(root_path)};
        for (size_t i = 0; i < sizeof id; i++)
                (void)snprintf(j->id + 2 * i, 3, "%02x", id[i]);
        return j->root ? 0 : -ENOMEM;
}

int journal_add(struct journal *j, const struct journal_op *op) {
        if (j->count == j->room) {
                size_t more = j->room ? 2 * j->room : 64;
                struct journal_op *bigger = reallocarray(j->op, more, sizeof *bigger);
                if (!bigger)
                        return -ENOMEM;
                j->op = bigger;
                j->room = more;
        }
        j->op[j->count] = *op;
        j->op[j->count].path = strdup(op->path);
        if (!j->op[j->count].path)
                return -ENOMEM;
        j->count++;
        return 0;
}

static void stage_name(const struct journal *j, uint32_t n, char name[64]) {
        (void)snprintf(name, 64, ".stockade-%s-%u", j->id, (unsigned)n);
}

char *journal_stage_path(const struct journal *j, const char *path, uint32_t n) {
        const char *slash = strrchr(path, '/');
        char name[64];

        stage_name(j, n, name);
        if (!slash)
                return strdup(name);
        _cleanup_free_ char *dir = strndup(path, (size_t)(slash - path));
        return dir ? tree_join(dir, name) : NULL;
}

int journal_sync(int root) {
        _cleanup_fd_ int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 || syncfs(fd) < 0 ? -errno : 0;
}

static int check_at(int dir, const char *name, const struct diff_old *old, unsigned strict) {
        struct stat st;

        int r = tree_stat(dir, name, &st);
        if (r == -ENOENT)
                return old->mode == 0 ? 0 : -ESTALE;
        if (r < 0)
                return r;
        if (old->mode == 0 || st.st_ino != old->ino || (st.st_mode & S_IFMT) != (old->mode & S_IFMT))
                return -ESTALE;
        if ((strict & JOURNAL_SAME_MODE) && st.st_mode != old->mode)
                return -ESTALE;
        if (S_ISDIR(st.st_mode) ? !(strict & JOURNAL_SAME_NAMES) : false)
                return 0;
        bool same = st.st_mtim.tv_sec == old->mtime.tv_sec && st.st_mtim.tv_nsec == old->mtime.tv_nsec &&
                    (S_ISDIR(st.st_mode) || (uint64_t)st.st_size == old->size);
        return same ? 0 : -ESTALE;
}

int journal_check(int root, const char *path, const struct diff_old *old, unsigned strict) {
        const char *name;
        _cleanup_fd_ int parent = tree_open_parent(root, path, &name);

        if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP)
                return -ESTALE;
        return parent < 0 ? parent : check_at(parent, name, old, strict);
}

static bool is_staged(const struct journal *j, int parent, uint32_t n) {
        char name[64];
        struct stat st;

        stage_name(j, n, name);
        return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int do_remove(const struct journal *j, int root, const struct journal_op *op) {
        const char *name;
        struct stat st;
        _cleanup_fd_ int parent = tree_open_parent(root, op->path, &name);

        /* the directory went already, and perhaps something else stands there */
        if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP)
                return 0;
        if (parent < 0)
                return parent;
        int r = tree_stat(parent, name, &st);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (op->n != UINT32_MAX && !is_staged(j, parent, op->n))
                return 0; /* what stands here is the replacement */
        r = check_at(parent, name, &op->old, 0);
        if (r < 0)
                return r;
        return unlinkat(parent, name, op->kind == JOURNAL_RMDIR ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

static int do_place(const struct journal *j, int root, const struct journal_op *op) {
        const char *name;
        char staged[64];
        _cleanup_fd_ int parent = tree_open_parent(root, op->path, &name);

        if (parent < 0)
                return parent;
        if (!is_staged(j, parent, op->n))
                return 0;
        stage_name(j, op->n, staged);
        int r = check_at(parent, name, &(struct diff_old){0}, 0);
        bool absent = r == 0; /* expected, or moved away by a person after a crash: nothing can be overwritten */
        if (!absent)
                r = check_at(parent, name, &op->old, 0);
        if (r < 0)
                return r;
        if (absent) {
                if (syscall(SYS_renameat2, parent, staged, parent, name, RENAME_NOREPLACE) == 0)
                        return 0;
                if (errno != EINVAL && errno != ENOSYS) /* a file system that cannot promise it */
                        return errno == EEXIST ? -ESTALE : -errno;
        }
        return renameat(parent, staged, parent, name) < 0 ? -errno : 0;
}

static int do_mode(int root, const struct journal_op *op) {
        const char *name;
        _cleanup_fd_ int parent = tree_open_parent(root, op->path, &name);

        if (parent < 0)
                return parent;
        int r = check_at(parent, name, &(struct diff_old){0}, 0);
        if (r == 0)
                return 0; /* gone, and its mode with it */
        r = check_at(parent, name, &op->old, 0);
        if (r < 0)
                return r;
        return fchmodat(parent, name, op->mode, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int do_op(const struct journal *j, int root, const struct journal_op *op) {
        switch (op->kind) {
        case JOURNAL_REMOVE:
        case JOURNAL_RMDIR:
                return do_remove(j, root, op);
        case JOURNAL_PLACE:
                return do_place(j, root, op);
        case JOURNAL_MODE:
                return do_mode(root, op);
        default:
                return ERR_CORRUPT;
        }
}

int journal_execute(const struct journal *j, int root, void (*step)(void *data), void *data, struct err *err) {
        int first = 0;

        for (size_t i = 0; i < j->count; i++) {
                if (step)
                        step(data);
                int r = do_op(j, root, &j->op[i]);
                if (r == 0 || first < 0)
                        continue;
                first = r;
                if (r == -ESTALE)
                        (void)err_set(err, ERR_REFUSED, "'%.200s' changed while changes were being applied",
                                      j->op[i].path);
                else
                        (void)err_set(err, r, "could not apply the change of '%.200s'", j->op[i].path);
                (void)err_hint(err,
                               "the other changes are in place; move this one away and run stockade again to finish, "
                               "or remove apply-%s.committed from Stockade's state directory to give it up",
                               j->id);
        }
        if (first < 0)
                return first == -ESTALE ? ERR_REFUSED : first;
        int r = journal_sync(root);
        return r < 0 ? err_set(err, r, "could not write the changes to disk") : 0;
}

int journal_undo(const struct journal *j, int root, struct err *err) {
        int first = 0;

        for (size_t i = 0; i < j->count; i++) {
                const char *name;
                char staged[64];

                if (j->op[i].kind != JOURNAL_PLACE)
                        continue;
                _cleanup_fd_ int parent = tree_open_parent(root, j->op[i].path, &name);
                if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP)
                        continue;
                stage_name(j, j->op[i].n, staged);
                int r = parent < 0 ? parent : tree_remove(parent, staged);
                if (r < 0 && first == 0)
                        first = err_set(err, r, "could not remove '%s' beside '%.200s'", staged, j->op[i].path);
        }
        return first;
}
