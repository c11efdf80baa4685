/* Reading archives that anybody made, with libarchive, and writing what is in them with target.c.
 *
 * Held against caps as it goes: entries, bytes, the size of a single file, and how much came out of how little. A name
 * is made plain first; absolute ones and those with ".." are refused, not repaired. */
#include "pack/unpack.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/pax.h"

/* Anything may become this many bytes; beyond, a byte of archive may become so many. */
#define RATIO_FREE  (256ULL << 20)
#define RATIO_MAX   200U
#define SPARSE_MAX  (16ULL << 40) /* apparent size of a file: what ext4 can have */
#define BLOCK       4096U
#define XATTR_TOTAL (64U << 10) /* bytes of one entry's attributes */

void unpack_reader_end(struct archive **a) {
        if (*a)
                (void)archive_read_free(*a);
        *a = NULL;
}

int unpack_reader(struct archive **ret, struct err *err) {
        _cleanup_reader_ struct archive *a = archive_read_new();

        /* no lrzip, grzip, lzop: libarchive would start programs for them */
        if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK ||
            archive_read_support_filter_gzip(a) != ARCHIVE_OK || archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
            archive_read_support_filter_xz(a) != ARCHIVE_OK || archive_read_support_filter_lzma(a) != ARCHIVE_OK ||
            archive_read_support_filter_zstd(a) != ARCHIVE_OK || archive_read_support_filter_lz4(a) != ARCHIVE_OK ||
            archive_read_support_filter_compress(a) != ARCHIVE_OK)
                return err_set(err, -ENOMEM, "libarchive lacks a format that is needed");
        *ret = TAKE_PTR(a);
        return 0;
}

int unpack_trouble(struct archive *a, const char *what, struct err *err) {
        const char *said = archive_error_string(a);
        int number = archive_errno(a);

        /* what the kernel says about our own descriptors is not the archive's fault */
        if (number == EIO || number == ENOMEM)
                return err_set(err, -number, "%s", what);
        return err_set(err, ERR_INPUT, "%s: %.300s", what, said ? said : "not a tar archive");
}

/* What came out of the decompressor is compared with what went in, whether it is used or passed over. */
static int check_growth(const struct unpack *u, struct archive *a, struct err *err) {
        uint64_t in = (uint64_t)MAX(archive_filter_bytes(a, -1), 0), out = (uint64_t)MAX(archive_filter_bytes(a, 0), 0);

        if (u->tally->bytes > u->caps->bytes)
                return err_set(err, ERR_LIMIT, "the archive holds more than %llu bytes",
                               (unsigned long long)u->caps->bytes);
        if (out > RATIO_FREE && (out - RATIO_FREE) / RATIO_MAX > in)
                return err_set(err, ERR_LIMIT, "the archive grows to more than %u times its size", RATIO_MAX);
        return 0;
}

/* libarchive passes over what nobody read by itself, in one go; in a compressed archive that can take for ever. */
static int pass_over(const struct unpack *u, struct archive *a, struct err *err) {
        const void *data;
        size_t length;
        int64_t offset;
        int r = 0;

        if (archive_file_count(a) == 0 || archive_filter_code(a, 0) == ARCHIVE_FILTER_NONE)
                return 0;
        while (r == 0 && archive_read_data_block(a, &data, &length, &offset) == ARCHIVE_OK)
                r = check_growth(u, a, err);
        return r; /* what is wrong with it shows at the next header */
}

int unpack_next(struct unpack *u, struct archive *a, struct archive_entry **ret, struct err *err) {
        int r = pass_over(u, a, err);

        if (r < 0)
                return r;
        r = archive_read_next_header(a, ret);
        if (r == ARCHIVE_EOF)
                return 0;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN) /* a warning: a name is not in our alphabet; its bytes are there */
                return unpack_trouble(a, "the archive is broken", err);
        if (++u->tally->entries > u->caps->entries)
                return err_set(err, ERR_LIMIT, "the archive has more than %llu entries",
                               (unsigned long long)u->caps->entries);
        r = check_growth(u, a, err);
        return r < 0 ? r : 1;
}

static struct target_meta meta_of(struct archive_entry *e) {
        int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);

        return (struct target_meta){
                .mode = archive_entry_perm(e),
                .uid = uid < 0 ? UINT64_MAX : (uint64_t)uid,
                .gid = gid < 0 ? UINT64_MAX : (uint64_t)gid,
                .mtime = {.tv_sec = archive_entry_mtime(e),
                          .tv_nsec = (long)MIN((unsigned long)archive_entry_mtime_nsec(e), 999999999UL)},
        };
}

static int attributes(struct archive_entry *e, int fd) {
        const char *name;
        const void *value;
        size_t size, total = 0;
        int r = 0;

        (void)archive_entry_xattr_reset(e);
        while (r == 0 && archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
                total += size;
                if (total > XATTR_TOTAL || !name)
                        return -E2BIG;
                r = target_attribute(fd, name, value, size);
        }
        return r;
}

static int write_at(int fd, const char *data, size_t size, uint64_t offset) {
        while (size > 0) {
                ssize_t n = pwrite(fd, data, size, (off_t)offset);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                data += n;
                size -= (size_t)n;
                offset += (uint64_t)n;
        }
        return 0;
}

/* Data comes in stretches with offsets; what is between them is a hole. Blocks are counted, not bytes: many small
 * stretches cannot cost more than they say. */
static int contents(struct unpack *u, struct archive *a, int fd, uint64_t size, const char *path, struct err *err) {
        char shown[200];
        const void *data;
        size_t length;
        int64_t offset;
        uint64_t after = 0; /* the block behind the last that was counted */
        int r;

        while ((r = archive_read_data_block(a, &data, &length, &offset)) == ARCHIVE_OK) {
                if (length == 0)
                        continue;
                if (offset < 0 || (uint64_t)offset > size || length > size - (uint64_t)offset)
                        return err_set(err, ERR_INPUT, "'%s' has more in it than it says", pack_shown(path, shown));
                uint64_t first = MAX((uint64_t)offset / BLOCK, after),
                         end = ((uint64_t)offset + length - 1) / BLOCK + 1;
                u->tally->bytes += (MAX(end, first) - first) * BLOCK;
                after = MAX(end, after);
                int e = check_growth(u, a, err);
                if (e < 0)
                        return e;
                e = write_at(fd, data, length, (uint64_t)offset);
                if (e < 0)
                        return err_set(err, e, "cannot write '%s'", pack_shown(path, shown));
        }
        if (r != ARCHIVE_EOF)
                return unpack_trouble(a, "the archive is broken", err);
        return ftruncate(fd, (off_t)size) < 0 ? err_set(err, -errno, "cannot write '%s'", pack_shown(path, shown)) : 0;
}

static int file(struct unpack *u, struct archive *a, struct archive_entry *e, const char *path, struct err *err) {
        struct target_meta m = meta_of(e);
        int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : 0;
        char shown[200];

        if (size < 0 || (uint64_t)size > SPARSE_MAX)
                return err_set(err, ERR_LIMIT, "'%s' says that it is larger than a file can be",
                               pack_shown(path, shown));
        _cleanup_fd_ int fd = target_file(u->target, path, err);
        if (fd < 0)
                return fd;
        int r = contents(u, a, fd, (uint64_t)size, path, err);
        if (r < 0)
                return r;
        r = attributes(e, fd);
        if (r < 0)
                return err_set(err, r, "cannot set the attributes of '%s'", pack_shown(path, shown));
        return target_done(fd, path, &m, err);
}

static int folder(struct unpack *u, struct archive_entry *e, const char *path, struct err *err) {
        struct target_meta m = meta_of(e);
        char shown[200];
        _cleanup_fd_ int fd = target_folder(u->target, path, &m, err);

        if (fd < 0)
                return fd;
        int r = attributes(e, fd);
        return r < 0 ? err_set(err, r, "cannot set the attributes of '%s'", pack_shown(path, shown)) : 0;
}

/* A name as it is used in the tree; "" is the tree itself. */
static int plain(const char *name, char path[PAX_NAME_SIZE], struct err *err) {
        char shown[200];

        if (!name)
                return err_set(err, ERR_INPUT, "the archive has an entry without a name");
        if (strlen(name) >= PAX_NAME_SIZE)
                return err_set(err, ERR_LIMIT, "the archive has a name of more than %d bytes", PAX_NAME_SIZE - 1);
        if (pax_plain(name, path) < 0)
                return err_set(err, ERR_INPUT, "the archive has a name that leads out of it: '%s'",
                               pack_shown(name, shown));
        for (const char *part = path; *part;) {
                size_t n = strcspn(part, "/");
                if (n > 255)
                        return err_set(err, ERR_LIMIT, "the archive has a name of more than 255 bytes in '%s'",
                                       pack_shown(name, shown));
                part += n + (part[n] == '/');
        }
        return 0;
}

static int write_entry(struct unpack *u, struct archive *a, struct archive_entry *e, const char *path,
                       struct err *err) {
        struct target_meta m = meta_of(e);
        const char *to = archive_entry_symlink(e), *same = archive_entry_hardlink(e);
        char other[PAX_NAME_SIZE], shown[200];

        if (same) {
                int r = plain(same, other, err);
                return r < 0 ? r : target_same(u->target, path, other, err);
        }
        switch (archive_entry_filetype(e)) {
        case AE_IFDIR:
                return folder(u, e, path, err);
        case AE_IFREG:
                return path[0] ? file(u, a, e, path, err)
                               : err_set(err, ERR_INPUT, "the archive has a file in the place of its root");
        case AE_IFLNK:
                if (!to || !to[0] || strlen(to) >= PAX_NAME_SIZE || !path[0])
                        return err_set(err, ERR_INPUT, "the link '%s' has no target", pack_shown(path, shown));
                return target_link(u->target, path, to, &m, err);
        case AE_IFIFO:
                return path[0] ? target_fifo(u->target, path, &m, err) : 0;
        default: /* devices and sockets; a sandbox has its own */
                u->tally->skipped++;
                return 0;
        }
}

/* What a layer's ".wh.NAME" takes away; its own "..wh..opq" empties the folder. */
static int whiteout(struct unpack *u, char *path, struct err *err) {
        char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, shown[200];

        if (str_eq(name, ".wh..wh..opq")) {
                *(slash ? slash : path) = '\0';
                return target_empty(u->target, path, err);
        }
        if (str_starts(name, ".wh..wh.")) /* bookkeeping of an older file system */
                return 0;
        const char *what = name + strlen(".wh.");
        if (!what[0] || str_eq(what, ".") || str_eq(what, ".."))
                return err_set(err, ERR_INPUT, "the layer takes away what cannot be: '%s'", pack_shown(path, shown));
        memmove(name, what, strlen(what) + 1);
        return target_remove(u->target, path, err);
}

int unpack_entries(struct unpack *u, struct archive *a, enum unpack_pass pass, struct err *err) {
        struct archive_entry *e;
        char path[PAX_NAME_SIZE];
        int r;

        while ((r = unpack_next(u, a, &e, err)) > 0) {
                r = plain(archive_entry_pathname(e), path, err);
                if (r < 0)
                        return r;
                const char *slash = strrchr(path, '/');
                bool out = pass != UNPACK_ALL && str_starts(slash ? slash + 1 : path, ".wh.");
                if (pass == UNPACK_WHITEOUTS)
                        r = out ? whiteout(u, path, err) : 0;
                else if (!out)
                        r = write_entry(u, a, e, path, err);
                if (r < 0)
                        return r;
        }
        return r;
}

int unpack_tree(int archive, int target, const struct caps *caps, struct tally *t, struct err *err) {
        struct unpack u = {.caps = caps, .tally = t};
        _cleanup_reader_ struct archive *a = NULL;

        int r = target_open(&u.target, target, err);
        if (r == 0)
                r = unpack_reader(&a, err);
        if (r == 0 && archive_read_open_fd(a, archive, 1 << 16) != ARCHIVE_OK)
                r = unpack_trouble(a, "cannot read the archive", err);
        if (r == 0)
                r = unpack_entries(&u, a, UNPACK_ALL, err);
        if (r == 0)
                r = target_close(u.target, err);
        target_free(u.target);
        (void)snprintf(t->text, sizeof t->text, "a tar archive");
        return r;
}
