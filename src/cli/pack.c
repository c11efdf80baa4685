/* A folder of the host as a tar stream. The walk holds one descriptor per level and follows no link. */
#include "cli/pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "disk/tree.h"

enum { CHUNK = 128 * 1024, DEPTH_MAX = 256, NAMES_MAX = 1 << 20 };

/* A file with several names, which an archive has once. */
struct twin {
        dev_t dev;
        ino_t ino;
        char *name;
};

struct pack {
        unsigned flags;
        pack_give give;
        void *data;
        struct pack_count *count;
        struct err *err;
        char *chunk;
        struct twin *twins; /* a hash table by inode, never more than half full */
        size_t twin_count, twin_room;
};

static int failed(struct pack *p, int code, const char *what, const char *name) {
        char inert[256];

        text_escape(inert, sizeof inert, name);
        return err_set(p->err, code, "could not %s '%s'", what, inert);
}

static int give_zeros(struct pack *p, uint64_t size) {
        static const char zeros[4096];
        int r = 0;

        while (r == 0 && size > 0) {
                size_t n = (size_t)MIN(size, (uint64_t)sizeof zeros);
                r = p->give(p->data, zeros, n, p->err);
                size -= n;
        }
        return r;
}

static int give_header(struct pack *p, const struct pax_member *m) {
        _cleanup_buf_ struct buf b = {0};

        pax_put(&b, m);
        if (!buf_ok(&b))
                return failed(p, -ENOMEM, "pack", m->name);
        p->count->entries++;
        return p->give(p->data, b.data, b.size, p->err);
}

/* --- names of one file ---------------------------------------------------------------------------------------- */

static size_t twin_place(const struct pack *p, const struct stat *st) {
        size_t i = (size_t)(st->st_ino * 0x9e3779b97f4a7c15ULL >> 20) & (p->twin_room - 1);

        while (p->twins[i].name && (p->twins[i].ino != st->st_ino || p->twins[i].dev != st->st_dev))
                i = (i + 1) & (p->twin_room - 1);
        return i;
}

static int twin_grow(struct pack *p) {
        size_t old_room = p->twin_room;
        struct twin *old = p->twins;

        p->twin_room = old_room ? 2 * old_room : 64;
        p->twins = calloc(p->twin_room, sizeof *p->twins);
        if (!p->twins) {
                p->twins = old;
                p->twin_room = old_room;
                return -ENOMEM;
        }
        for (size_t i = 0; i < old_room; i++)
                if (old[i].name) {
                        struct stat st = {.st_dev = old[i].dev, .st_ino = old[i].ino};
                        p->twins[twin_place(p, &st)] = old[i];
                }
        free(old);
        return 0;
}

/* The first name of this file, if it was packed before; otherwise it is remembered under this one. */
static int twin_find(struct pack *p, const struct stat *st, const char *name, const char **ret) {
        *ret = NULL;
        if (st->st_nlink < 2)
                return 0;
        if (2 * (p->twin_count + 1) > p->twin_room) {
                int r = twin_grow(p);
                if (r < 0)
                        return failed(p, r, "pack", name);
        }
        struct twin *t = &p->twins[twin_place(p, st)];
        if (t->name) {
                *ret = t->name;
                return 0;
        }
        *t = (struct twin){.dev = st->st_dev, .ino = st->st_ino, .name = strdup(name)};
        p->twin_count++;
        return t->name ? 0 : failed(p, -ENOMEM, "pack", name);
}

/* --- one entry ------------------------------------------------------------------------------------------------ */

static struct pax_member member_of(const struct pack *p, const struct stat *st, const char *name, char type) {
        bool ids = p->flags & PACK_IDS;

        return (struct pax_member){.name = name,
                                   .type = type,
                                   .mode = st->st_mode & (ids ? 07777 : 0777),
                                   .mtime = st->st_mtim.tv_sec,
                                   .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                                   .uid = ids ? st->st_uid : 0,
                                   .gid = ids ? st->st_gid : 0};
}

/* As many bytes as were announced, whatever the file does meanwhile. */
static int give_contents(struct pack *p, int fd, uint64_t size, const char *name) {
        uint64_t left = size;

        while (left > 0) {
                ssize_t n = read(fd, p->chunk, (size_t)MIN(left, (uint64_t)CHUNK));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return failed(p, -errno, "read", name);
                if (n == 0) {
                        p->count->changed++;
                        break;
                }
                int r = p->give(p->data, p->chunk, (size_t)n, p->err);
                if (r < 0)
                        return r;
                left -= (uint64_t)n;
        }
        p->count->bytes += size;
        return give_zeros(p, left + pax_padding(size));
}

static int pack_file(struct pack *p, int dir, const char *entry, const char *name) {
        struct stat st;
        const char *twin;
        _cleanup_fd_ int fd = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0)
                return failed(p, -errno, "open", name);
        if (!S_ISREG(st.st_mode))
                return failed(p, -ESTALE, "pack", name);
        int r = twin_find(p, &st, name, &twin);
        if (r < 0)
                return r;
        struct pax_member m = member_of(p, &st, name, twin ? '1' : '0');
        m.link = twin;
        m.size = twin ? 0 : (uint64_t)st.st_size;
        r = give_header(p, &m);
        return r < 0 || twin ? r : give_contents(p, fd, m.size, name);
}

static int pack_link(struct pack *p, int dir, const char *entry, const char *name, const struct stat *st) {
        char target[PAX_NAME_SIZE];
        ssize_t n = readlinkat(dir, entry, target, sizeof target - 1);

        if (n < 0 || (size_t)n >= sizeof target - 1)
                return failed(p, n < 0 ? -errno : -ENAMETOOLONG, "read the link", name);
        target[n] = '\0';
        struct pax_member m = member_of(p, st, name, '2');
        m.mode = 0777;
        m.link = target;
        return give_header(p, &m);
}

static int pack_below(struct pack *p, int dir, const char *name, unsigned depth);

static int pack_dir(struct pack *p, int dir, const char *entry, const char *name, unsigned depth) {
        struct stat st;
        _cleanup_fd_ int fd = openat(dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0)
                return failed(p, -errno, "open", name);
        if (depth >= DEPTH_MAX)
                return failed(p, -ELOOP, "go deeper than", name);
        _cleanup_free_ char *slashed = tree_join(name, "");
        if (!slashed)
                return failed(p, -ENOMEM, "pack", name);
        struct pax_member m = member_of(p, &st, slashed, '5');
        int r = give_header(p, &m);
        return r < 0 ? r : pack_below(p, fd, name, depth + 1);
}

static int pack_entry(struct pack *p, int dir, const char *entry, const char *name, unsigned depth) {
        struct stat st;

        if (fstatat(dir, entry, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : failed(p, -errno, "look at", name); /* gone since it was listed */
        if (S_ISDIR(st.st_mode))
                return pack_dir(p, dir, entry, name, depth);
        if (S_ISREG(st.st_mode))
                return pack_file(p, dir, entry, name);
        if (S_ISLNK(st.st_mode))
                return pack_link(p, dir, entry, name, &st);
        p->count->special++;
        text_escape(p->count->example, sizeof p->count->example, name);
        return 0;
}

static int pack_below(struct pack *p, int dir, const char *name, unsigned depth) {
        struct tree_names names = {0};
        int r = tree_list(dir, NAMES_MAX, &names);

        if (r < 0)
                return failed(p, r, "list", name);
        for (size_t i = 0; r == 0 && i < names.count; i++) {
                _cleanup_free_ char *path = tree_join(name, names.name[i]);
                r = path ? pack_entry(p, dir, names.name[i], path, depth) : failed(p, -ENOMEM, "pack", name);
        }
        tree_names_free(&names);
        return r;
}

int pack_folder(int dir, const char *prefix, unsigned flags, pack_give give, void *data, struct pack_count *count,
                struct err *err) {
        _cleanup_free_ char *chunk = malloc(CHUNK);
        struct pack p = {.flags = flags, .give = give, .data = data, .count = count, .err = err, .chunk = chunk};

        *count = (struct pack_count){0};
        if (!chunk)
                return err_set(err, -ENOMEM, "cannot pack");
        int r = pack_dir(&p, dir, ".", prefix, 0);
        if (r == 0)
                r = give_zeros(&p, PAX_END_SIZE);
        for (size_t i = 0; i < p.twin_room; i++)
                free(p.twins[i].name);
        free(p.twins);
        return r;
}
