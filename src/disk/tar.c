/* A small pax writer: a ustar header per member, and an extended header before it for what ustar cannot say. */
#include "disk/tar.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "disk/copy.h"
#include "disk/tree.h"

enum { BLOCK = 512, CHUNK = 128 * 1024, EXTENTS_MAX = 1 << 22 };

/* The classic header, as POSIX lays it out. */
struct ustar {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
        char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(struct ustar) == BLOCK, "a header is one block");

struct member {
        const char *name;
        const char *link; /* target, or NULL */
        char type;
        mode_t mode;
        uint64_t size; /* bytes that follow in the archive */
        struct timespec mtime;
        uid_t uid;
        gid_t gid;
};

struct extent {
        uint64_t start, length;
};

struct extents {
        struct extent *at;
        size_t count, room;
        uint64_t bytes;
};

static void octal(char *field, size_t size, uint64_t value) {
        uint64_t max = ((uint64_t)1 << (3 * (size - 1))) - 1;

        (void)snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)MIN(value, max));
}

static void fill(char *field, size_t size, const char *text) {
        memcpy(field, text, MIN(size, strlen(text)));
}

static int write_header(int out, const struct member *m) {
        struct ustar h = {.type = m->type};
        unsigned sum = 0;

        fill(h.name, sizeof h.name, m->name);
        octal(h.mode, sizeof h.mode, m->mode & 01777);
        octal(h.uid, sizeof h.uid, m->uid);
        octal(h.gid, sizeof h.gid, m->gid);
        octal(h.size, sizeof h.size, m->size);
        octal(h.mtime, sizeof h.mtime, m->mtime.tv_sec < 0 ? 0 : (uint64_t)m->mtime.tv_sec);
        if (m->link)
                fill(h.link, sizeof h.link, m->link);
        memcpy(h.magic, "ustar", 6);
        memcpy(h.version, "00", 2);
        memset(h.sum, ' ', sizeof h.sum);
        for (size_t i = 0; i < sizeof h; i++)
                sum += ((const unsigned char *)&h)[i];
        octal(h.sum, 7, sum);
        return fd_write_full(out, &h, sizeof h);
}

static int write_padding(int out, uint64_t size) {
        static const char zeros[BLOCK];

        return fd_write_full(out, zeros, (BLOCK - size % BLOCK) % BLOCK);
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static void pax_record(struct buf *b, const char *key, const char *value) {
        size_t body = strlen(key) + strlen(value) + 3, length = body, before;

        do {
                char digits[24];
                before = length;
                length = body + (size_t)snprintf(digits, sizeof digits, "%zu", before);
        } while (length != before);
        buf_printf(b, "%zu ", length);
        buf_str(b, key);
        buf_str(b, "=");
        buf_str(b, value);
        buf_str(b, "\n");
}

static void pax_number(struct buf *b, const char *key, uint64_t value) {
        char text[24];

        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        pax_record(b, key, text);
}

static void pax_time(struct buf *b, struct timespec t) {
        char text[48];
        /* -1.5 s is kept as -2 s and half a second on */
        bool before = t.tv_sec < 0 && t.tv_nsec > 0;
        long long seconds = (long long)t.tv_sec + before;

        (void)snprintf(text, sizeof text, "%s%lld.%09ld", before && seconds == 0 ? "-" : "", seconds,
                       before ? 1000000000 - t.tv_nsec : t.tv_nsec);
        pax_record(b, "mtime", text);
}

static bool is_utf8(const char *s) {
        for (const unsigned char *p = (const unsigned char *)s; *p;) {
                size_t n = text_utf8_length(p);
                if (n == 0)
                        return false;
                p += n;
        }
        return true;
}

/* The extended header, with the records in b already and what this member needs. */
static int write_pax(int out, const struct member *m, struct buf *b) {
        struct member header = {.name = "./PaxHeaders/member", .type = 'x', .mode = 0644};
        _cleanup_buf_ struct buf all = {.max = (size_t)1 << 24};
        bool long_name = strlen(m->name) > sizeof((struct ustar *)0)->name;
        bool long_link = m->link && strlen(m->link) > sizeof((struct ustar *)0)->link;

        if ((long_name && !is_utf8(m->name)) || (long_link && !is_utf8(m->link)))
                pax_record(&all, "hdrcharset", "BINARY");
        if (long_name)
                pax_record(&all, "path", m->name);
        if (long_link)
                pax_record(&all, "linkpath", m->link);
        if (m->size > 077777777777)
                pax_number(&all, "size", m->size);
        if (m->uid > 07777777)
                pax_number(&all, "uid", m->uid);
        if (m->gid > 07777777)
                pax_number(&all, "gid", m->gid);
        if (m->mtime.tv_nsec != 0 || m->mtime.tv_sec < 0 || m->mtime.tv_sec > 077777777777)
                pax_time(&all, m->mtime);
        if (b && b->size > 0)
                buf_add(&all, b->data, b->size);
        if (!buf_ok(&all) || (b && !buf_ok(b)))
                return -ENOMEM;
        if (all.size == 0)
                return 0;
        header.size = all.size;
        int r = write_header(out, &header);
        if (r == 0)
                r = fd_write_full(out, all.data, all.size);
        return r < 0 ? r : write_padding(out, all.size);
}

static int write_member(int out, const struct member *m, struct buf *records) {
        int r = write_pax(out, m, records);

        return r < 0 ? r : write_header(out, m);
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
static int write_sparse(int in, int out, struct member *m, uint64_t size, const struct extents *x, char *chunk) {
        _cleanup_buf_ struct buf map = {.max = (size_t)1 << 28}, records = {.max = (size_t)1 << 24};

        buf_printf(&map, "%zu\n", x->count + 1);
        for (size_t i = 0; i < x->count; i++)
                buf_printf(&map, "%llu\n%llu\n", (unsigned long long)x->at[i].start,
                           (unsigned long long)x->at[i].length);
        buf_printf(&map, "%llu\n0\n", (unsigned long long)size);
        if (map.size % BLOCK != 0)
                buf_add(&map, (const char[BLOCK]){0}, BLOCK - map.size % BLOCK);
        pax_record(&records, "GNU.sparse.major", "1");
        pax_record(&records, "GNU.sparse.minor", "0");
        pax_record(&records, "GNU.sparse.name", m->name);
        pax_number(&records, "GNU.sparse.realsize", size);
        if (!buf_ok(&map) || !buf_ok(&records))
                return -ENOMEM;
        m->size = map.size + x->bytes;
        int r = write_member(out, m, &records);
        if (r == 0)
                r = fd_write_full(out, map.data, map.size);
        for (size_t i = 0; r == 0 && i < x->count; i++)
                r = copy_range(in, out, x->at[i].start, x->at[i].length, chunk);
        return r < 0 ? r : write_padding(out, m->size);
}

static int write_file(const struct diff_entry *e, int upper, int out, struct member *m, char *chunk) {
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
        int r = write_member(out, m, NULL);
        if (r == 0)
                r = copy_range(in, out, 0, e->size, chunk);
        return r < 0 ? r : write_padding(out, e->size);
}

static int write_entry(const struct diff *d, const struct diff_entry *e, int upper, int out, char *chunk) {
        struct member m = {
                .name = e->path, .mode = e->mode, .mtime = e->mtime, .uid = d->uid, .gid = d->gid, .type = '0'};
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
                return write_member(out, &m, NULL);
        }
        assert(S_ISDIR(e->mode));
        text = tree_join(e->path, "");
        if (!text)
                return -ENOMEM;
        m.type = '5';
        m.name = text;
        return write_member(out, &m, NULL);
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
        struct member m = {.name = name, .type = '0', .mode = 0644, .size = list.size, .uid = d->uid, .gid = d->gid};
        int r = write_member(out, &m, NULL);
        if (r == 0 && list.size > 0)
                r = fd_write_full(out, list.data, list.size);
        return r < 0 ? r : write_padding(out, list.size);
}

int tar_write(const struct diff *d, int upper, int out, struct err *err) {
        static const char end[2 * BLOCK];
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
