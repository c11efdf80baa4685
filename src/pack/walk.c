/* The stack of folders and the table of names. */
#include "pack/walk.h"

#include <limits.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { LIST_MAX = 64 << 10, VALUE_MAX = 64 << 10 };

int walk_push(struct walk *w, const char *path) {
        if (w->count == w->room) {
                size_t more = w->room ? 2 * w->room : 64;
                char **bigger = reallocarray(w->path, more, sizeof *bigger);
                if (!bigger)
                        return -ENOMEM;
                w->path = bigger;
                w->room = more;
        }
        w->path[w->count] = strdup(path);
        if (!w->path[w->count])
                return -ENOMEM;
        w->count++;
        return 0;
}

char *walk_pop(struct walk *w) {
        return w->count > 0 ? w->path[--w->count] : NULL;
}

void walk_free(struct walk *w) {
        for (size_t i = 0; i < w->count; i++)
                free(w->path[i]);
        free(w->path);
        *w = (struct walk){0};
}

int walk_push_names(struct walk *w, const char *dir, char *const *names, size_t count) {
        for (size_t i = count; i-- > 0;) {
                _cleanup_free_ char *path = tree_join(dir, names[i]);
                int r = path ? walk_push(w, path) : -ENOMEM;
                if (r < 0)
                        return r;
        }
        return 0;
}

struct name {
        dev_t dev;
        ino_t ino;
        char *path; /* NULL: free */
};

static struct name *slot_of(struct name *at, size_t room, dev_t dev, ino_t ino) {
        uint64_t hash = ((uint64_t)ino * 0x9e3779b97f4a7c15U) ^ (uint64_t)dev;
        size_t i = (size_t)(hash >> 20) & (room - 1);

        while (at[i].path && (at[i].ino != ino || at[i].dev != dev))
                i = (i + 1) & (room - 1);
        return &at[i];
}

static int grow(struct names *n) {
        size_t room = n->room ? 2 * n->room : 256;
        struct name *at = calloc(room, sizeof *at);

        if (!at)
                return -ENOMEM;
        for (size_t i = 0; i < n->room; i++)
                if (n->at[i].path)
                        *slot_of(at, room, n->at[i].dev, n->at[i].ino) = n->at[i];
        free(n->at);
        n->at = at;
        n->room = room;
        return 0;
}

int names_first(struct names *n, const struct stat *st, const char *path, const char **ret) {
        *ret = NULL;
        if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
                return 0;
        if (2 * (n->count + 1) > n->room && grow(n) < 0)
                return -ENOMEM;
        struct name *slot = slot_of(n->at, n->room, st->st_dev, st->st_ino);
        if (slot->path) {
                *ret = slot->path;
                return 0;
        }
        *slot = (struct name){st->st_dev, st->st_ino, strdup(path)};
        if (!slot->path)
                return -ENOMEM;
        n->count++;
        return 0;
}

void names_free(struct names *n) {
        for (size_t i = 0; i < n->room; i++)
                free(n->at[i].path);
        free(n->at);
        *n = (struct names){0};
}

int walk_attributes(int fd, int (*fn)(void *data, const char *name, const void *value, size_t size), void *data) {
        static char list[LIST_MAX], value[VALUE_MAX];
        ssize_t n = flistxattr(fd, list, sizeof list);

        if (n < 0)
                return errno == ENOTSUP ? 0 : -errno;
        for (const char *name = list; name < list + n; name += strlen(name) + 1) {
                if (!str_starts(name, "user."))
                        continue;
                ssize_t size = fgetxattr(fd, name, value, sizeof value);
                if (size < 0 && errno == ENODATA)
                        continue;
                int r = size < 0 ? -errno : fn(data, name, value, (size_t)size);
                if (r < 0)
                        return r;
        }
        return 0;
}

int walk_link(int dir, const char *name, char **ret) {
        char text[PATH_MAX];
        ssize_t n = readlinkat(dir, name, text, sizeof text - 1);

        if (n < 0)
                return -errno;
        text[n] = '\0';
        *ret = strdup(text);
        return *ret ? 0 : -ENOMEM;
}
