/* The bytes of a journal and its moves from state to state.
 *
 * A file is a header, the workspace's path, the operations and a BLAKE2b-256 of all that; numbers are the machine's
 * own, since a journal never leaves its host. It is whole before it is called "staging": a damaged one is refused and
 * left for a person, never guessed at. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "disk/journal.h"
#include "disk/tree.h"

static const char magic[8] = {'S', 'T', 'K', 'J', 'R', 'N', 'L', '1'};
static const size_t file_max = (size_t)1 << 30;

struct header {
        char magic[8];
        char id[32];
        uint64_t root_ino;
        uint64_t count;
        uint64_t root_length;
};

struct record {
        uint64_t ino, size;
        int64_t mtime_seconds;
        uint32_t mtime_nanoseconds, old_mode;
        uint32_t kind, n, mode, path_length;
};
static_assert(sizeof(struct header) == 64 && sizeof(struct record) == 48, "no padding goes to disk");

static const char *const suffixes[] = {
        [JOURNAL_NONE] = NULL,
        [JOURNAL_NEW] = ".new",
        [JOURNAL_STAGING] = ".staging",
        [JOURNAL_COMMITTED] = ".committed",
};
static_assert(ELEMENTSOF(suffixes) == JOURNAL_COMMITTED + 1, "every state has a name");

static void file_name(const struct journal *j, enum journal_state state, char name[64]) {
        (void)snprintf(name, 64, "apply-%s%s", j->id, suffixes[state]);
}

void journal_pack(const struct journal *j, struct buf *out) {
        struct header h = {.root_ino = j->root_ino, .count = j->count, .root_length = strlen(j->root)};
        struct hash hash;
        uint8_t sum[HASH_SIZE];

        memcpy(h.magic, magic, sizeof magic);
        memcpy(h.id, j->id, sizeof h.id);
        buf_add(out, &h, sizeof h);
        buf_str(out, j->root);
        for (size_t i = 0; i < j->count; i++) {
                const struct journal_op *op = &j->op[i];
                struct record r = {
                        .ino = op->old.ino,
                        .size = op->old.size,
                        .mtime_seconds = op->old.mtime.tv_sec,
                        .mtime_nanoseconds = (uint32_t)op->old.mtime.tv_nsec,
                        .old_mode = op->old.mode,
                        .kind = (uint32_t)op->kind,
                        .n = op->n,
                        .mode = op->mode,
                        .path_length = (uint32_t)strlen(op->path),
                };
                buf_add(out, &r, sizeof r);
                buf_str(out, op->path);
        }
        if (!buf_ok(out))
                return;
        hash_init(&hash);
        hash_add(&hash, out->data, out->size);
        hash_done(&hash, sum);
        buf_add(out, sum, sizeof sum);
}

static int move_to(struct journal *j, int state_dir, enum journal_state state) {
        char from[64], to[64];

        file_name(j, j->state, from);
        file_name(j, state, to);
        if (renameat(state_dir, from, state_dir, to) < 0)
                return -errno;
        j->state = state;
        _cleanup_fd_ int dir = openat(state_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return dir < 0 || fsync(dir) < 0 ? -errno : 0;
}

/* Another run that looks for what a crash left may take a new journal for that before we have locked it, and remove it:
 * then we make it again. */
static int create_locked(struct journal *j, int state_dir) {
        struct stat made, there;
        char name[64];

        file_name(j, JOURNAL_NEW, name);
        for (int attempt = 0; attempt < 64; attempt++) {
                j->file = openat(state_dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
                if (j->file < 0 || flock(j->file, LOCK_EX) < 0 || fstat(j->file, &made) < 0)
                        return -errno;
                if (fstatat(state_dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == made.st_ino)
                        return 0;
                fd_close(&j->file);
        }
        return -EBUSY;
}

int journal_write(struct journal *j, int state_dir) {
        _cleanup_buf_ struct buf bytes = {.max = file_max};

        journal_pack(j, &bytes);
        if (!buf_ok(&bytes))
                return -ENOMEM;
        int r = create_locked(j, state_dir);
        if (r < 0)
                return r;
        j->state = JOURNAL_NEW;
        r = fd_write_full(j->file, bytes.data, bytes.size);
        if (r == 0 && fsync(j->file) < 0)
                r = -errno;
        return r < 0 ? r : move_to(j, state_dir, JOURNAL_STAGING);
}

int journal_commit(struct journal *j, int state_dir) {
        assert(j->state == JOURNAL_STAGING);
        return move_to(j, state_dir, JOURNAL_COMMITTED);
}

int journal_end(struct journal *j, int state_dir) {
        char name[64];

        if (j->state == JOURNAL_NONE)
                return 0;
        file_name(j, j->state, name);
        if (unlinkat(state_dir, name, 0) < 0)
                return -errno;
        j->state = JOURNAL_NONE;
        return 0;
}

/* What is left to read of a journal. */
struct rest {
        const char *data;
        size_t size;
};

static bool take(struct rest *in, void *to, size_t size) {
        if (in->size < size)
                return false;
        memcpy(to, in->data, size);
        in->data += size;
        in->size -= size;
        return true;
}

static char *take_text(struct rest *in, uint64_t length) {
        if (length == 0 || in->size < length || memchr(in->data, '\0', length))
                return NULL;
        char *text = strndup(in->data, length);
        in->data += length;
        in->size -= length;
        return text;
}

static bool sum_is_right(const char *data, size_t size) {
        struct hash hash;
        uint8_t sum[HASH_SIZE];

        if (size < HASH_SIZE)
                return false;
        hash_init(&hash);
        hash_add(&hash, data, size - HASH_SIZE);
        hash_done(&hash, sum);
        return memcmp(sum, data + size - HASH_SIZE, HASH_SIZE) == 0;
}

int journal_unpack(struct journal *j, const char *data, size_t size) {
        struct header h;

        if (!sum_is_right(data, size))
                return ERR_CORRUPT;
        struct rest in = {data, size - HASH_SIZE};
        if (!take(&in, &h, sizeof h) || memcmp(h.magic, magic, sizeof magic) != 0 ||
            memcmp(h.id, j->id, sizeof h.id) != 0)
                return ERR_CORRUPT;
        j->root_ino = h.root_ino;
        j->root = take_text(&in, h.root_length);
        if (!j->root || j->root[0] != '/')
                return ERR_CORRUPT;
        for (uint64_t i = 0; i < h.count; i++) {
                struct record r;

                if (!take(&in, &r, sizeof r) || r.kind > JOURNAL_MODE || (r.mode & ~01777u & ~02000u))
                        return ERR_CORRUPT;
                _cleanup_free_ char *path = take_text(&in, r.path_length);
                if (!path)
                        return ERR_CORRUPT;
                struct journal_op op = {
                        .kind = (enum journal_kind)r.kind,
                        .n = r.n,
                        .mode = r.mode,
                        .old = {.ino = r.ino,
                                .size = r.size,
                                .mtime = {.tv_sec = (time_t)r.mtime_seconds, .tv_nsec = r.mtime_nanoseconds},
                                .mode = r.old_mode},
                        .path = path,
                };
                int added = journal_add(j, &op);
                if (added < 0)
                        return added;
        }
        return in.size == 0 ? 0 : ERR_CORRUPT;
}

static bool parse_name(const char *name, struct journal *j) {
        if (!str_starts(name, "apply-") || strspn(name + 6, "0123456789abcdef") != 32)
                return false;
        memcpy(j->id, name + 6, 32);
        j->id[32] = '\0';
        for (enum journal_state s = JOURNAL_NEW; s <= JOURNAL_COMMITTED; s++)
                if (str_eq(name + 38, suffixes[s]))
                        j->state = s;
        return j->state != JOURNAL_NONE;
}

/* Opens and locks; the file must be ours alone, or whoever wrote it would act with our rights. */
static int take_over(int state_dir, const char *name, int *ret, struct stat *st, struct err *err) {
        struct stat now;
        _cleanup_fd_ int fd = openat(state_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd < 0)
                return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return -errno;
        if (fstat(fd, st) < 0 || fstatat(state_dir, name, &now, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (now.st_ino != st->st_ino)
                return -ENOENT;
        if (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || (st->st_mode & 022))
                return err_set(err, ERR_REFUSED, "journal '%s' could have been written by somebody else", name);
        *ret = TAKE_FD(fd);
        return 0;
}

int journal_load(int state_dir, const char *name, struct journal *ret, struct err *err) {
        _cleanup_(journal_free) struct journal j = {.file = -EBADF};
        struct stat st;

        if (!parse_name(name, &j))
                return err_set(err, ERR_INPUT, "'%s' is not the name of a journal", name);
        int r = take_over(state_dir, name, &j.file, &st, err);
        if (r < 0)
                return r;
        if (j.state != JOURNAL_NEW) {
                if (st.st_size < 0 || (uint64_t)st.st_size > file_max)
                        return err_set(err, ERR_CORRUPT, "journal '%s' is too large", name);
                _cleanup_free_ char *data = malloc((size_t)st.st_size + 1);
                if (!data)
                        return err_set(err, -ENOMEM, "cannot read journal '%s'", name);
                ssize_t n = fd_read_full(j.file, data, (size_t)st.st_size);
                if (n < 0)
                        return err_set(err, (int)n, "cannot read journal '%s'", name);
                r = journal_unpack(&j, data, (size_t)n);
                if (r < 0)
                        return err_set(err, r, "journal '%s' is damaged", name);
        }
        *ret = j;
        j = (struct journal){.file = -EBADF};
        return 0;
}
