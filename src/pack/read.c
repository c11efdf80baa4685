/* One entry of a tree: what it is, what is in it, or its bytes.
 *
 * The question comes through a descriptor, since a path may have any byte: "stat SKIP\n", "list SKIP\n" or
 * "read SKIP OFFSET LENGTH\n", and then the path, to the end. Its first SKIP bytes are where the tree is for whoever
 * asks, and are shown but not looked at. Answers to the first two are lines of JSON, one for each entry, as those of
 * the guest are told; to the third, bytes.
 *
 * No link is followed, neither at the end of the path nor on the way. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "pack/walk.h"

enum { QUESTION_MAX = 8192, ENTRIES_MAX = 100000, FLUSH_AT = 1 << 16, CHUNK = 1 << 16 };

struct question {
        char text[QUESTION_MAX + 1];
        char what[8];
        unsigned long long skip, offset, length;
        const char *path, *below; /* whole, and from the tree on: "" is the tree itself */
};

static int ask(int fd, struct question *q, struct err *err) {
        ssize_t n = fd_read_full(fd, q->text, sizeof q->text);
        char *end = n > 0 && n <= QUESTION_MAX ? memchr(q->text, '\n', (size_t)n) : NULL;

        if (!end || memchr(q->text, '\0', (size_t)n))
                return err_set(err, ERR_INPUT, "this is no question");
        *end = '\0';
        q->text[n] = '\0';
        q->path = q->below = end + 1;
        int found = sscanf(q->text, "%7s %19llu %19llu %19llu", q->what, &q->skip, &q->offset, &q->length);
        if (found != (str_eq(q->what, "read") ? 4 : 2) || q->skip > strlen(q->path))
                return err_set(err, ERR_INPUT, "this is no question");
        q->below += q->skip;
        q->below += *q->below == '/';
        return 0;
}

static int trouble(struct err *err, int r, const char *path) {
        char shown[200];

        if (r == -ELOOP)
                return err_set(err, r, "there is a link on the way to '%s'", pack_shown(path, shown));
        return err_set(err, r, "cannot read '%s'", pack_shown(path, shown));
}

struct telling {
        struct buf out;
        int fd;
        struct tally *t;
};

static int flush(struct telling *t) {
        int r = buf_ok(&t->out) ? fd_write_full(t->fd, t->out.data, t->out.size) : -ENOMEM;

        t->t->bytes += t->out.size;
        t->out.size = 0;
        return r;
}

static const char *kind_of(mode_t mode) {
        static const struct {
                mode_t type;
                const char *name;
        } kinds[] = {{S_IFREG, "file"},    {S_IFDIR, "folder"}, {S_IFLNK, "link"},  {S_IFIFO, "pipe"},
                     {S_IFSOCK, "socket"}, {S_IFCHR, "device"}, {S_IFBLK, "device"}};

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if ((mode & S_IFMT) == kinds[i].type)
                        return kinds[i].name;
        return "other";
}

static int tell(struct telling *t, const char *shown, const struct stat *st, const char *target) {
        struct json j = {.out = &t->out};
        int64_t seconds = st->st_mtim.tv_sec;

        json_open(&j, NULL, '{');
        json_str(&j, "name", shown);
        json_str(&j, "kind", kind_of(st->st_mode));
        json_u64(&j, "size", (uint64_t)st->st_size);
        json_u64(&j, "mode", st->st_mode & 07777);
        json_u64(&j, "mtime_ms", seconds < 0 ? 0 : (uint64_t)seconds * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000);
        json_u64(&j, "uid", st->st_uid);
        json_u64(&j, "gid", st->st_gid);
        if (target)
                json_str(&j, "target", target);
        json_close(&j, '}');
        buf_str(&t->out, "\n");
        t->t->entries++;
        return t->out.size >= FLUSH_AT ? flush(t) : 0;
}

static int tell_name(struct telling *t, int dir, const char *name, const char *shown) {
        _cleanup_free_ char *target = NULL;
        struct stat st;
        int r = tree_stat(dir, name, &st);

        if (r == 0 && S_ISLNK(st.st_mode))
                r = walk_link(dir, name, &target);
        return r < 0 ? r : tell(t, shown, &st, target);
}

static int stat_entry(struct telling *t, int tree, const struct question *q) {
        const char *name;
        struct stat st;

        if (!q->below[0])
                return fstat(tree, &st) < 0 ? -errno : tell(t, q->path, &st, NULL);
        _cleanup_fd_ int dir = tree_open_parent(tree, q->below, &name);
        return dir < 0 ? dir : tell_name(t, dir, name, q->path);
}

static int list_entries(struct telling *t, int tree, const struct question *q) {
        _cleanup_(tree_names_free) struct tree_names names = {0};
        _cleanup_fd_ int dir = tree_open(tree, q->below, O_RDONLY | O_DIRECTORY);
        int r = dir < 0 ? dir : tree_list(dir, ENTRIES_MAX, &names);

        for (size_t i = 0; r == 0 && i < names.count; i++) {
                r = tell_name(t, dir, names.name[i], names.name[i]);
                if (r == -ENOENT)
                        r = 0;
        }
        return r;
}

static int read_bytes(int tree, int out, const struct question *q, struct tally *t) {
        static char chunk[CHUNK];
        uint64_t left = q->length, at = q->offset;
        struct stat st;
        _cleanup_fd_ int fd = tree_open(tree, q->below, O_RDONLY | O_NONBLOCK | O_NOCTTY);

        if (fd < 0 || fstat(fd, &st) < 0)
                return fd < 0 ? fd : -errno;
        if (!S_ISREG(st.st_mode))
                return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        for (ssize_t n; left > 0; left -= (uint64_t)n, at += (uint64_t)n) {
                n = pread(fd, chunk, (size_t)MIN(left, (uint64_t)sizeof chunk), (off_t)at);
                if (n < 0 && errno == EINTR)
                        n = 0;
                else if (n <= 0)
                        return n < 0 ? -errno : 0;
                int r = fd_write_full(out, chunk, (size_t)n);
                if (r < 0)
                        return r;
                t->bytes += (uint64_t)n;
        }
        return 0;
}

int read_tree(int tree, int question, int out, struct tally *t, struct err *err) {
        struct telling telling = {.out = {.max = FLUSH_AT + (1 << 20)}, .fd = out, .t = t};
        static struct question q;
        int r = ask(question, &q, err);

        if (r < 0)
                return r;
        if (str_eq(q.what, "read"))
                r = read_bytes(tree, out, &q, t);
        else if (str_eq(q.what, "list"))
                r = list_entries(&telling, tree, &q);
        else if (str_eq(q.what, "stat"))
                r = stat_entry(&telling, tree, &q);
        else
                r = ERR_INPUT;
        if (r == 0 && telling.out.size > 0)
                r = flush(&telling);
        buf_free(&telling.out);
        return r == ERR_LIMIT ? err_set(err, r, "there are more than %d entries", ENTRIES_MAX)
               : r < 0        ? trouble(err, r, q.path)
                              : 0;
}
