/* A tree as a tar archive, compressed with zstd: the same bytes for the same tree.
 *
 * Everything is there that unpack.c would make again: files with their holes and hard links, folders, links, fifos;
 * modes without set-id bits, ids, times, users' extended attributes. Sockets, devices and names that are longer than a
 * tar can have are left out and counted. A file that changes while it is read keeps the size that it was said to have.
 */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pax.h"
#include "disk/copy.h"
#include "pack/squeeze.h"
#include "pack/walk.h"

enum { CHUNK = 1 << 18, HOLE = 1 << 28, SPARSE_MIN = 1 << 16, SPARSE_MAX = 1 << 20 };

struct packing {
        int tree;
        struct archive *a;
        struct squeeze *squeeze;
        int failed; /* of the last write, -errno */
        struct archive_entry *e;
        struct names names;
        struct walk walk;
        char *chunk;
        const char *hole; /* zeros that take no memory */
        struct tally *t;
        struct err *err;
};

static int trouble(struct packing *p, int r, const char *path) {
        char shown[200];

        return err_set(p->err, r, "cannot pack '%s'", pack_shown(path, shown));
}

static int out_trouble(struct packing *p) {
        return err_set(p->err, p->failed < 0 ? p->failed : -EIO, "cannot write the archive");
}

static int header(struct packing *p, const char *path, const struct stat *st) {
        archive_entry_clear(p->e);
        archive_entry_copy_pathname(p->e, path[0] ? path : ".");
        archive_entry_set_mode(p->e, (st->st_mode & S_IFMT) | (st->st_mode & (S_ISDIR(st->st_mode) ? 01777 : 0777)));
        archive_entry_set_uid(p->e, st->st_uid);
        archive_entry_set_gid(p->e, st->st_gid);
        archive_entry_set_mtime(p->e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
        archive_entry_set_size(p->e, 0);
        return 0;
}

static int write_header(struct packing *p) {
        int r = archive_write_header(p->a, p->e);

        p->t->entries++;
        /* a warning: the name is not in any alphabet; its bytes are written */
        return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : out_trouble(p);
}

static int add_attribute(void *data, const char *name, const void *value, size_t size) {
        archive_entry_xattr_add_entry(((struct packing *)data)->e, name, value, size);
        return 0;
}

static int put(struct packing *p, const char *data, size_t size) {
        while (size > 0) {
                la_ssize_t n = archive_write_data(p->a, data, size);
                if (n <= 0)
                        return out_trouble(p);
                data += n;
                size -= (size_t)n;
        }
        return 0;
}

static int put_hole(struct packing *p, uint64_t size) {
        int r = 0;

        for (; r == 0 && size > 0; size -= MIN(size, (uint64_t)HOLE))
                r = put(p, p->hole, (size_t)MIN(size, (uint64_t)HOLE));
        return r;
}

static int put_data(struct packing *p, int fd, uint64_t offset, uint64_t end, const char *path) {
        while (offset < end) {
                ssize_t n = pread(fd, p->chunk, (size_t)MIN((uint64_t)CHUNK, end - offset), (off_t)offset);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return trouble(p, -errno, path);
                if (n == 0) /* it became shorter meanwhile */
                        return put_hole(p, end - offset);
                int r = put(p, p->chunk, (size_t)n);
                if (r < 0)
                        return r;
                offset += (uint64_t)n;
                p->t->bytes += (uint64_t)n;
        }
        return 0;
}

/* Tells the archive where the data is. A file with more stretches than this is written as it appears. */
static int add_holes(struct packing *p, int fd, uint64_t size, bool *ret_sparse) {
        uint64_t start, end, found = 0;

        *ret_sparse = false;
        for (uint64_t offset = 0; offset < size; offset = end) {
                int r = copy_next_data(fd, offset, size, &start, &end);
                if (r < 0)
                        return r;
                if (end <= offset)
                        return -EIO;
                *ret_sparse |= start > offset;
                if (start < end && ++found <= SPARSE_MAX)
                        archive_entry_sparse_add_entry(p->e, (la_int64_t)start, (la_int64_t)(end - start));
        }
        if (found == 0 && *ret_sparse) /* nothing but a hole: say where it ends */
                archive_entry_sparse_add_entry(p->e, (la_int64_t)size, 0);
        if (!*ret_sparse || found > SPARSE_MAX) {
                archive_entry_sparse_clear(p->e);
                *ret_sparse = false;
        }
        return 0;
}

/* With holes: what libarchive was told about is read, the rest is passed over. Found again, since it is the same file.
 */
static int put_sparse(struct packing *p, int fd, uint64_t size, const char *path) {
        la_int64_t start, length;
        uint64_t at = 0;
        int r = 0;

        (void)archive_entry_sparse_reset(p->e);
        while (r == 0 && archive_entry_sparse_next(p->e, &start, &length) == ARCHIVE_OK) {
                r = put_hole(p, (uint64_t)start - at);
                if (r == 0)
                        r = put_data(p, fd, (uint64_t)start, (uint64_t)(start + length), path);
                at = (uint64_t)(start + length);
        }
        return r < 0 ? r : put_hole(p, size - at);
}

static int pack_file(struct packing *p, int dir, const char *name, const char *path, const struct stat *seen) {
        const char *first;
        struct stat st;
        bool sparse = false;

        int r = names_first(&p->names, seen, path, &first);
        if (r < 0)
                return trouble(p, r, path);
        if (first) {
                (void)header(p, path, seen);
                archive_entry_set_hardlink(p->e, first);
                return write_header(p);
        }
        _cleanup_fd_ int fd = tree_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return trouble(p, fd < 0 ? fd : -errno, path);
        if (!S_ISREG(st.st_mode))
                return trouble(p, -ESTALE, path);
        uint64_t size = (uint64_t)st.st_size;
        (void)header(p, path, &st);
        archive_entry_set_size(p->e, st.st_size);
        r = walk_attributes(fd, add_attribute, p);
        if (r == 0 && size >= SPARSE_MIN && (uint64_t)st.st_blocks * 512 < size)
                r = add_holes(p, fd, size, &sparse);
        if (r < 0)
                return trouble(p, r, path);
        r = write_header(p);
        if (r == 0)
                r = sparse ? put_sparse(p, fd, size, path) : put_data(p, fd, 0, size, path);
        return r == 0 && archive_write_finish_entry(p->a) != ARCHIVE_OK ? out_trouble(p) : r;
}

static int pack_link(struct packing *p, int dir, const char *name, const char *path, const struct stat *st) {
        _cleanup_free_ char *to = NULL;
        const char *first;

        int r = walk_link(dir, name, &to);
        if (r == 0)
                r = names_first(&p->names, st, path, &first);
        if (r < 0)
                return trouble(p, r, path);
        (void)header(p, path, st);
        if (first)
                archive_entry_set_hardlink(p->e, first);
        else
                archive_entry_copy_symlink(p->e, to);
        return write_header(p);
}

static int pack_folder(struct packing *p, int dir, const char *path) {
        struct stat st;

        if (fstat(dir, &st) < 0)
                return trouble(p, -errno, path);
        (void)header(p, path, &st);
        int r = walk_attributes(dir, add_attribute, p);
        return r < 0 ? trouble(p, r, path) : write_header(p);
}

/* Everything of a folder but its folders, whose names are left in *names, in order. */
static int pack_names(struct packing *p, int dir, const char *at, struct tree_names *names) {
        size_t folders = 0;

        for (size_t i = 0; i < names->count; i++) {
                _cleanup_free_ char *path = tree_join(at, names->name[i]);
                const char *name = names->name[i];
                struct stat st;

                if (!path)
                        return trouble(p, -ENOMEM, at);
                int r = tree_stat(dir, name, &st);
                if (r == -ENOENT)
                        continue;
                if (r < 0)
                        return trouble(p, r, path);
                if (strlen(path) >= PAX_NAME_SIZE - 2) /* with all that is below it */
                        p->t->skipped++;
                else if (S_ISDIR(st.st_mode)) {
                        char *swap = names->name[folders];
                        names->name[folders++] = names->name[i];
                        names->name[i] = swap;
                } else if (S_ISREG(st.st_mode))
                        r = pack_file(p, dir, name, path, &st);
                else if (S_ISLNK(st.st_mode))
                        r = pack_link(p, dir, name, path, &st);
                else if (S_ISFIFO(st.st_mode)) {
                        (void)header(p, path, &st);
                        r = write_header(p);
                } else
                        p->t->skipped++;
                if (r < 0)
                        return r;
        }
        int r = walk_push_names(&p->walk, at, names->name, folders);
        return r < 0 ? trouble(p, r, at) : 0;
}

static int pack_all(struct packing *p) {
        int r = walk_push(&p->walk, "");

        while (r == 0) {
                _cleanup_free_ char *at = walk_pop(&p->walk);
                _cleanup_(tree_names_free) struct tree_names names = {0};
                if (!at)
                        return 0;
                _cleanup_fd_ int dir = tree_open(p->tree, at, O_RDONLY | O_DIRECTORY);
                if (dir == -ENOENT)
                        continue;
                r = dir < 0 ? dir : tree_list(dir, WALK_NAMES_MAX, &names);
                if (r < 0)
                        return trouble(p, r, at);
                r = pack_folder(p, dir, at);
                if (r == 0)
                        r = pack_names(p, dir, at, &names);
        }
        return r < 0 && !p->err->text[0] ? trouble(p, r, "") : r;
}

static la_ssize_t write_out(struct archive *a, void *data, const void *bytes, size_t size) {
        struct packing *p = data;

        p->failed = squeeze_put(p->squeeze, bytes, size);
        if (p->failed < 0)
                archive_set_error(a, -p->failed, "%s", "cannot write");
        return p->failed < 0 ? -1 : (la_ssize_t)size;
}

static int open_writer(struct packing *p, int out) {
        p->a = archive_write_new();
        p->e = archive_entry_new();
        if (!p->a || !p->e || archive_write_set_format_pax(p->a) != ARCHIVE_OK ||
            archive_write_set_bytes_per_block(p->a, CHUNK) != ARCHIVE_OK ||
            archive_write_set_bytes_in_last_block(p->a, 1) != ARCHIVE_OK || squeeze_open(&p->squeeze, out) < 0 ||
            archive_write_open(p->a, p, NULL, write_out, NULL) != ARCHIVE_OK)
                return err_set(p->err, -ENOMEM, "libarchive cannot write tar");
        return 0;
}

int pack_tree(int tree, int out, struct tally *t, struct err *err) {
        struct packing p = {.tree = tree, .t = t, .err = err, .chunk = malloc(CHUNK)};

        p.hole = mmap(NULL, HOLE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int r = !p.chunk || p.hole == MAP_FAILED ? err_set(err, -ENOMEM, "cannot pack the tree") : open_writer(&p, out);
        if (r == 0)
                r = pack_all(&p);
        if (r == 0 && (archive_write_close(p.a) != ARCHIVE_OK || (p.failed = squeeze_end(p.squeeze)) < 0))
                r = out_trouble(&p);
        if (p.a) {
                if (r < 0) /* half an archive must not look like a whole one */
                        (void)archive_write_fail(p.a);
                (void)archive_write_free(p.a);
        }
        archive_entry_free(p.e);
        squeeze_free(p.squeeze);
        names_free(&p.names);
        walk_free(&p.walk);
        free(p.chunk);
        return r;
}
