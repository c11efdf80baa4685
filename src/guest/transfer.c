/* Reading a file in ranges, and writing one whole: the new contents go to a temporary file beside the target, which
 * takes the target's name when all has come. Nobody sees half a file; what does not come to an end leaves nothing
 * behind. A link at the target's place is replaced, not followed. Whoever changes what he has read says what that was:
 * it is looked at once more right before its name is taken. */
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/files.h"

#define READ_ONCE GUEST_DATA_MAX /* of one step */

struct reading {
        struct request request;
        int fd;
        uint64_t at, left;
};

static int read_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct reading *t = (struct reading *)r;
        struct stat st;

        /* without waiting: a fifo that nobody writes to would hold us for ever */
        t->fd = open(m->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (t->fd < 0)
                return -errno;
        if (fstat(t->fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        t->at = m->offset;
        t->left = m->length;
        request_wake(g, r);
        return 0;
}

static void read_step(struct guest *g, struct request *r) {
        struct reading *t = (struct reading *)r;
        size_t size = (size_t)MIN(MIN((uint64_t)READ_ONCE, (uint64_t)request_window(r)), t->left);

        if (t->left == 0)
                return request_end(g, r, 0, NULL);
        if (size == 0) {
                r->ready = false;
                return;
        }
        ssize_t n = pread(t->fd, g->scratch, size, (off_t)t->at);
        if (n < 0 && errno == EINTR)
                return;
        if (n <= 0)
                return request_end(g, r, n < 0 ? -errno : 0, "could not read on");
        request_send(g, r, g->scratch, (size_t)n);
        t->at += (uint64_t)n;
        t->left -= (uint64_t)n;
}

static void read_free(struct guest *g, struct request *r) {
        (void)g;
        fd_close(&((struct reading *)r)->fd);
}
const struct request_kind read_kind = {
        .size = sizeof(struct reading), .begin = read_begin, .step = read_step, .free = read_free};

struct writing {
        struct request request;
        int dir, fd;
        char name[NAME_MAX + 1];
        char temporary[32]; /* "": there is none */
        bool conditional;   /* what is replaced has to be this */
        uint64_t size, time_ms, inode;
};

static int open_temporary(struct writing *t) {
        uint64_t random;

        if (getrandom(&random, sizeof random, 0) != sizeof random)
                return -EIO;
        (void)snprintf(t->temporary, sizeof t->temporary, ".stockade-%016llx", (unsigned long long)random);
        t->fd = openat(t->dir, t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (t->fd < 0) {
                int error = -errno;
                t->temporary[0] = '\0';
                return error;
        }
        return 0;
}

/* The mode that is asked for; without one, that of the file whose place is taken. */
static int set_mode(const struct writing *t, uint32_t mode) {
        struct stat st;

        if (mode == 0)
                mode = fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)
                               ? st.st_mode & 0777
                               : 0644;
        return fchmod(t->fd, mode) < 0 ? -errno : 0;
}

static int write_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct writing *t = (struct writing *)r;
        struct stat st;

        (void)g;
        t->dir = t->fd = -EBADF;
        if (m->path[strlen(m->path) - 1] == '/')
                return -EISDIR;
        int error = files_parent(m->path, t->name, &t->dir);
        if (error == -ENOENT && r->flags & GUEST_PARENTS) {
                char parent[GUEST_PATH_MAX];

                memcpy(parent, m->path, strlen(m->path) + 1);
                *strrchr(parent, '/') = '\0';
                error = files_make_parents(parent, 0755);
                if (error == 0)
                        error = files_parent(m->path, t->name, &t->dir);
        }
        if (error < 0)
                return error;
        if (fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                if (r->flags & GUEST_NO_REPLACE)
                        return -EEXIST;
                if (S_ISDIR(st.st_mode))
                        return -EISDIR;
        }
        error = open_temporary(t);
        return error < 0 ? error : set_mode(t, m->mode);
}

/* Whether what is there is what they have read. */
static int compare(const struct writing *t) {
        struct stat st;

        if (!t->conditional)
                return 0;
        if (fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? -ESTALE : -errno;
        return S_ISREG(st.st_mode) && (uint64_t)st.st_size == t->size && files_time_ms(&st) == t->time_ms &&
                               st.st_ino == t->inode
                       ? 0
                       : -ESTALE;
}

/* Before anything is sent, so that nobody sends it for nothing. */
static int write_if_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct writing *t = (struct writing *)r;
        int error = write_begin(g, r, m);

        t->conditional = true;
        t->size = m->size;
        t->time_ms = m->time_ms;
        t->inode = m->inode;
        return error < 0 ? error : compare(t);
}

static int write_data(struct guest *g, struct request *r, const uint8_t *bytes, size_t size) {
        struct writing *t = (struct writing *)r;
        int error = fd_write_full(t->fd, bytes, size);

        if (error == 0)
                request_took(g, r, size);
        return error;
}

/* Not every file system can rename without replacing; those have links, which never replace. */
static int take_name(struct writing *t, bool replace) {
        int error = files_rename(t->dir, t->temporary, t->dir, t->name, replace);

        if (replace || error != -EINVAL)
                return error;
        if (linkat(t->dir, t->temporary, t->dir, t->name, 0) < 0)
                return -errno;
        (void)unlinkat(t->dir, t->temporary, 0);
        return 0;
}

static void write_finish(struct guest *g, struct request *r) {
        struct writing *t = (struct writing *)r;
        struct guest_message end = {.kind = GUEST_END, .numbers = {r->taken}};
        struct stat st;
        int error = compare(t);

        if (error == 0)
                error = take_name(t, !(r->flags & GUEST_NO_REPLACE));
        if (error < 0)
                return request_end(g, r, error, "cannot put '%s' in its place", t->name);
        t->temporary[0] = '\0';
        if (g->link.version >= 3 && fstat(t->fd, &st) == 0) {
                end.numbers[GUEST_WRITE_TIME] = files_time_ms(&st);
                end.numbers[GUEST_WRITE_INODE] = st.st_ino;
        }
        request_end_with(g, r, &end);
}

static void write_free(struct guest *g, struct request *r) {
        struct writing *t = (struct writing *)r;

        (void)g;
        if (t->temporary[0])
                (void)unlinkat(t->dir, t->temporary, 0);
        fd_close(&t->fd);
        fd_close(&t->dir);
}
const struct request_kind write_kind = {.size = sizeof(struct writing),
                                        .begin = write_begin,
                                        .data = write_data,
                                        .finish = write_finish,
                                        .free = write_free};
const struct request_kind write_if_kind = {.size = sizeof(struct writing),
                                           .begin = write_if_begin,
                                           .data = write_data,
                                           .finish = write_finish,
                                           .free = write_free};
