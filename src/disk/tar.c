/* What is different, as an archive (base/pax.h): its members, holes left out, and lists of what was removed. */
#include "disk/tar.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/pax.h"
#include "disk/copy.h"
#include "disk/tree.h"

enum { CHUNK = 128 * 1024, EXTENTS_MAX = 1 << 22 };

struct extent {
        uint64_t start, length;
};

struct extents {
        struct extent *at;
        size_t count, room;
        uint64_t bytes;
};

static int write_padding(int out, uint64_t size) {
        static const char zeros[PAX_BLOCK];

        return fd_write_full(out, zeros, pax_padding(size));
}

static int write_member(int out, const struct pax_member *m) {
        _cleanup_buf_ struct buf b = {.max = (size_t)1 << 24};

        pax_put(&b, m);
        return buf_ok(&b) ? fd_write_full(out, b.data, b.size) : -ENOMEM;
}

static int copy_range(int in, int out, uint64_t start, uint64_t length, char *chunk) {
        while (length > 0) {
                ssize_t n = pread(in, chunk, (size_t)MIN((uint64_t)CHUNK, length), (off_t)start);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                int r = fd_write_full(out, chunk, (size_t)n);
                if (r < 0)
                        return r;
                start += (uint64_t)n;
                length -= (uint64_t)n;
        }
        return 0;
}

static void extents_free(struct extents *x) {
        free(x->at);
}

static int extents_find(int fd, uint64_t size, struct extents *x) {
        uint64_t start, end;

        for (uint64_t offset = 0; offset < size; offset = end) {
                int r = copy_next_data(fd, offset, size, &start, &end);
                if (r < 0)
                        return r;
                if (end <= offset)
                        return -EIO;
                if (start == end)
                        continue;
                if (x->count == x->room) {
                        size_t more = x->room ? 2 * x->room : 16;
                        struct extent *bigger = x->room >= EXTENTS_MAX ? NULL
                                                                       : reallocarray(x->at, more, sizeof *bigger);
                        if (!bigger)
                                return -ENOMEM;
                        x->at = bigger;
                        x->room = more;
                }
                x->at[x->count++] = (struct extent){start, end - start};
                x->bytes += end - start;
        }
        return 0;
}

/* GNU's sparse format 1.0: the map of the data stands before the data, in decimal lines, padded to a block. */
static int write_sparse(int in, int out, struct pax_member *m, uint64_t size, const struct extents *x, char *chunk) {
        _cleanup_buf_ struct buf map = {.max = (size_t)1 << 28}, records = {.max = (size_t)1 << 24};
        char number[24];

        buf_printf(&map, "%zu\n", x->count + 1);
        for (size_t i = 0; i < x->count; i++)
                buf_printf(&map, "%llu\n%llu\n", (unsigned long long)x->at[i].start,
                           (unsigned long long)x->at[i].length);
        buf_printf(&map, "%llu\n0\n", (unsigned long long)size);
        buf_add(&map, (const char[PAX_BLOCK]){0}, pax_padding(map.size));
        pax_record(&records, "GNU.sparse.major", "1");
        pax_record(&records, "GNU.sparse.minor", "0");
        pax_record(&records, "GNU.sparse.name", m->name);
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)size);
        pax_record(&records, "GNU.sparse.realsize", number);
        if (!buf_ok(&map) || !buf_ok(&records))
                return -ENOMEM;
        m->size = map.size + x->bytes;
        m->records = &records;
        int r = write_member(out, m);
        if (r == 0)
                r = fd_write_full(out, map.data, map.size);
        for (size_t i = 0; r == 0 && i < x->count; i++)
                r = copy_range(in, out, x->at[i].start, x->at[i].length, chunk);
        return r < 0 ? r : write_padding(out, m->size);
}

static int write_file(const struct diff_entry *e, int upper, int out, struct pax_member *m, char *chunk) {
        _cleanup_(extents_free) struct extents x = {0};
        struct stat st;
        _cleanup_fd_ int in = tree_open_scratch(upper, e->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

        if (in < 0)
                return in;
        if (fstat(in, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size)
                return -ESTALE;
        if (e->data < e->size) {
                int r = extents_find(in, e->size, &x);
                if (r < 0)
                        return r;
                if (x.bytes < e->size)
                        return write_sparse(in, out, m, e->size, &x, chunk);
        }
        m->size = e->size;
        int r = write_member(out, m);
        if (r == 0)
                r = copy_range(in, out, 0, e->size, chunk);
        return r < 0 ? r : write_padding(out, e->size);
}

static int write_entry(const struct diff *d, const struct diff_entry *e, int upper, int out, char *chunk) {
        struct pax_member m = {
                .name = e->path,
                .mode = e->mode & 01777,
                .mtime = e->mtime.tv_sec,
                .mtime_ns = (uint32_t)e->mtime.tv_nsec,
                .uid = d->uid,
                .gid = d->gid,
                .type = '0',
        };
        _cleanup_free_ char *text = NULL;

        if (S_ISREG(e->mode))
                return write_file(e, upper, out, &m, chunk);
        if (S_ISLNK(e->mode)) {
                int r = diff_read_link(upper, e->path, &text);
                if (r < 0)
                        return r;
                m.type = '2';
                m.mode = 0777;
                m.link = text;
                return write_member(out, &m);
        }
        assert(S_ISDIR(e->mode));
        text = tree_join(e->path, "");
        if (!text)
                return -ENOMEM;
        m.type = '5';
        m.name = text;
        return write_member(out, &m);
}

static bool is_skipped(const struct diff_entry *e) {
        return e->mode != 0 && !S_ISREG(e->mode) && !S_ISDIR(e->mode) && !S_ISLNK(e->mode);
}

/* A member of ours: the paths of the removed entries, or of those that are left out. */
static int write_list(const struct diff *d, const char *name, bool removed, int out) {
        _cleanup_buf_ struct buf list = {.max = (size_t)1 << 30};

        for (size_t i = 0; i < d->count; i++)
                if (removed ? d->entry[i].mode == 0 : is_skipped(&d->entry[i]))
                        buf_add(&list, d->entry[i].path, strlen(d->entry[i].path) + 1);
        if (!buf_ok(&list))
                return -ENOMEM;
        struct pax_member m = {
                .name = name, .type = '0', .mode = 0644, .size = list.size, .uid = d->uid, .gid = d->gid};
        int r = write_member(out, &m);
        if (r == 0 && list.size > 0)
                r = fd_write_full(out, list.data, list.size);
        return r < 0 ? r : write_padding(out, list.size);
}

int tar_write(const struct diff *d, int upper, int out, struct err *err) {
        static const char end[PAX_END_SIZE];
        _cleanup_free_ char *chunk = malloc(CHUNK);

        if (!chunk)
                return err_set(err, -ENOMEM, "cannot write the archive");
        int r = write_list(d, ".stockade/removed", true, out);
        if (r == 0)
                r = write_list(d, ".stockade/skipped", false, out);
        if (r < 0)
                return err_set(err, r, "could not write the archive");
        for (size_t i = 0; i < d->count; i++) {
                const struct diff_entry *e = &d->entry[i];

                if (e->mode == 0 || is_skipped(e))
                        continue;
                r = write_entry(d, e, upper, out, chunk);
                if (r < 0)
                        return err_set(err, r, "could not write '%.200s' to the archive", e->path);
        }
        r = fd_write_full(out, end, sizeof end);
        return r < 0 ? err_set(err, r, "could not write the archive") : 0;
}
