/* A file or a folder as an archive, made while it is sent: folders before what is in them, files, links; sockets, fifos
 * and devices are left out and counted. Names are relative to the folder; a single file goes by its own name. A file
 * that shrinks while it is read is filled up with zeros, one that grows is cut: the archive stays whole. */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/pax.h"
#include "guest/files.h"
#include "guest/walk.h"

#define TAR_ONCE   GUEST_DATA_MAX /* bytes of one step */
#define ENTRY_ONCE 256            /* entries of one step that yield nothing */

struct archiving {
        struct request request;
        struct walk walk;
        bool walking; /* there are more entries */
        bool ended;   /* the archive's end was put */
        struct buf head;
        size_t head_start; /* what of head was sent */
        int fd;            /* of the file whose contents are next, or -EBADF */
        uint64_t left;     /* of it */
        size_t padding;    /* zeros that follow */
};

static void put_member(struct archiving *t, const char *name, const struct stat *st, char type, const char *link) {
        const struct pax_member m = {
                .name = name,
                .link = link,
                .type = type,
                .mode = st->st_mode & 01777,
                .size = type == '0' ? (uint64_t)st->st_size : 0,
                .mtime = st->st_mtim.tv_sec,
                .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                .uid = st->st_uid,
                .gid = st->st_gid,
        };

        pax_put(&t->head, &m);
        t->request.entries++;
}

/* One entry, of which st says what it was a moment ago. What cannot be read ends the archive. */
static int put_entry(struct archiving *t, int dir, const char *name, const char *path, const struct stat *st) {
        char text[GUEST_PATH_MAX + 1];
        struct stat now;

        if (strlen(path) + 2 > PAX_NAME_SIZE)
                return -ENAMETOOLONG;
        if (S_ISDIR(st->st_mode)) {
                (void)snprintf(text, sizeof text, "%s/", path);
                put_member(t, text, st, '5', NULL);
                return walk_enter(&t->walk);
        }
        if (S_ISLNK(st->st_mode)) {
                ssize_t n = readlinkat(dir, name, text, GUEST_PATH_MAX - 1);
                if (n < 0)
                        return -errno;
                text[n] = '\0';
                put_member(t, path, st, '2', text);
                return 0;
        }
        if (!S_ISREG(st->st_mode)) {
                t->request.skipped++;
                return 0;
        }
        t->fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (t->fd < 0)
                return -errno;
        if (fstat(t->fd, &now) < 0)
                return -errno;
        if (!S_ISREG(now.st_mode))
                return -ESTALE;
        put_member(t, path, &now, '0', NULL);
        t->left = (uint64_t)now.st_size;
        t->padding = pax_padding(t->left);
        return 0;
}

static int tar_out_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct archiving *t = (struct archiving *)r;
        _cleanup_fd_ int dir = -EBADF;
        char name[NAME_MAX + 1];
        struct stat st;

        t->fd = -EBADF;
        int fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
                int error = walk_begin(&t->walk, fd);
                if (error < 0)
                        return error;
                t->walking = true;
                request_wake(g, r);
                return 0;
        }
        if (errno != ENOTDIR)
                return -errno;
        int error = files_parent(m->path, name, &dir);
        if (error < 0)
                return error;
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
                return -EINVAL;
        error = put_entry(t, dir, name, name, &st);
        if (error == 0)
                request_wake(g, r);
        return error;
}

/* The next entry's head, or the archive's end. 1 if there was something to do, 0 if all is said, or -errno. */
static int advance(struct archiving *t) {
        static const char zeros[PAX_END_SIZE];
        int item = t->walking ? walk_next(&t->walk) : WALK_END;

        if (item == WALK_ENTRY) {
                int error = put_entry(t, walk_dir(&t->walk), t->walk.name, t->walk.path.data, &t->walk.st);
                if (error == -ENOENT || error == -ESRCH) { /* gone meanwhile */
                        t->request.skipped++;
                        error = 0;
                }
                return error < 0 ? error : 1;
        }
        if (item != WALK_END)
                return item < 0 ? item : 1;
        if (t->ended)
                return 0;
        t->walking = false;
        t->ended = true;
        buf_add(&t->head, zeros, sizeof zeros);
        return 1;
}

static ssize_t fill_contents(struct archiving *t, uint8_t *to, size_t room) {
        size_t size = (size_t)MIN(t->left, (uint64_t)room);
        ssize_t n = fd_read_full(t->fd, to, size);

        if (n < 0)
                return n;
        memset(to + n, 0, size - (size_t)n);
        t->left -= size;
        if (t->left == 0)
                fd_close(&t->fd);
        return (ssize_t)size;
}

/* Fills the piece with what comes next: its size, 0 at the end, or -errno. */
static ssize_t fill(struct archiving *t, uint8_t *to, size_t room) {
        size_t used = 0;

        for (unsigned entries = 0; used < room && entries < ENTRY_ONCE;) {
                if (t->head_start < t->head.size) {
                        size_t n = MIN(room - used, t->head.size - t->head_start);
                        memcpy(to + used, t->head.data + t->head_start, n);
                        used += n;
                        t->head_start += n;
                } else if (t->left > 0) {
                        ssize_t n = fill_contents(t, to + used, room - used);
                        if (n < 0)
                                return n;
                        used += (size_t)n;
                } else if (t->padding > 0) {
                        size_t n = MIN(room - used, t->padding);
                        memset(to + used, 0, n);
                        used += n;
                        t->padding -= n;
                } else {
                        fd_close(&t->fd); /* an empty file */
                        t->head.size = t->head_start = 0;
                        int r = advance(t);
                        if (r < 0 || !buf_ok(&t->head))
                                return r < 0 ? r : -ENOMEM;
                        if (r == 0)
                                break;
                        entries++;
                }
        }
        return (ssize_t)used;
}

static void tar_out_step(struct guest *g, struct request *r) {
        struct archiving *t = (struct archiving *)r;
        size_t room = MIN((size_t)TAR_ONCE, request_window(r));

        if (room == 0) {
                r->ready = false;
                return;
        }
        ssize_t n = fill(t, g->scratch, room);
        if (n < 0)
                return request_end(g, r, (int)n, "cannot pack '%s'", t->walk.path.data ? t->walk.path.data : "");
        if (n > 0)
                request_send(g, r, g->scratch, (size_t)n);
        else if (t->ended)
                request_end(g, r, 0, NULL);
}

static void tar_out_free(struct guest *g, struct request *r) {
        struct archiving *t = (struct archiving *)r;

        (void)g;
        walk_end(&t->walk);
        buf_free(&t->head);
        fd_close(&t->fd);
}
const struct request_kind tar_out_kind = {
        .size = sizeof(struct archiving), .begin = tar_out_begin, .step = tar_out_step, .free = tar_out_free};
