/* Walking. The way is a stack of open folders, so that a folder that is moved meanwhile leads nowhere else; every step
 * down is without links. */
#include "guest/walk.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

static int push(struct walk *w, int fd) {
        _cleanup_fd_ int own = fd;

        if (w->depth >= WALK_DEPTH_MAX)
                return -ELOOP;
        if (w->depth == w->room) {
                size_t room = w->room ? 2 * w->room : 8;
                struct walk_level *levels = reallocarray(w->levels, room, sizeof *levels);

                if (!levels)
                        return -ENOMEM;
                w->levels = levels;
                w->room = room;
        }
        DIR *dir = fdopendir(own);
        if (!dir)
                return -errno;
        (void)TAKE_FD(own);
        w->levels[w->depth++] = (struct walk_level){dir, w->path.size};
        return 0;
}

int walk_begin(struct walk *w, int fd) {
        *w = (struct walk){.path = {.max = 1 << 16}, .name = ""};
        buf_str(&w->path, "");
        if (!buf_ok(&w->path)) {
                fd_close(&fd);
                return -ENOMEM;
        }
        return push(w, fd);
}

static void cut(struct walk *w, size_t length) {
        w->path.size = length;
        w->path.data[length] = '\0';
}

int walk_dir(const struct walk *w) {
        return dirfd(w->levels[w->depth - 1].dir);
}

int walk_next(struct walk *w) {
        for (;;) {
                struct walk_level *level = &w->levels[w->depth - 1];

                cut(w, level->length);
                errno = 0;
                struct dirent *e = readdir(level->dir);
                if (!e) {
                        if (errno)
                                return -errno;
                        if (w->depth == 1)
                                return WALK_END;
                        (void)closedir(level->dir);
                        w->depth--;
                        size_t above = w->levels[w->depth - 1].length;
                        w->name = w->path.data + above + (above > 0);
                        return WALK_LEFT;
                }
                if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
                        continue;
                if (level->length > 0)
                        buf_str(&w->path, "/");
                size_t start = w->path.size;
                buf_str(&w->path, e->d_name);
                if (!buf_ok(&w->path))
                        return -ENAMETOOLONG;
                w->name = w->path.data + start;
                if (fstatat(dirfd(level->dir), w->name, &w->st, AT_SYMLINK_NOFOLLOW) == 0)
                        return WALK_ENTRY;
                if (errno != ENOENT) /* gone meanwhile */
                        return -errno;
        }
}

int walk_enter(struct walk *w) {
        int fd = openat(walk_dir(w), w->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : push(w, fd);
}

void walk_end(struct walk *w) {
        while (w->depth > 0)
                (void)closedir(w->levels[--w->depth].dir);
        free(w->levels);
        w->levels = NULL;
        buf_free(&w->path);
}
