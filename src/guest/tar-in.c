/* An archive from outside, unpacked below a folder while it comes: files, folders, symbolic links, and second names of
 * files below the same folder. Devices, fifos and anything else end it.
 *
 * Nothing is written outside the folder: names are relative and plain, the way to each is walked part by part without
 * following a link, and what is in a file's place is removed, never written through. Set-id bits are dropped; all is
 * owned by us. What was unpacked before an error stays. */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/pax.h"
#include "guest/files.h"
#include "guest/memory.h"

#define ENTRIES_MAX 2000000U
#define DEPTH_MAX   256 /* parts of a name */

struct unpacking {
        struct request request;
        int root;
        int fd; /* of the file that is being written, or -EBADF */
        bool ended;
        struct timespec time; /* of it */
        uint32_t mode;
        struct pax_reader *reader;
        char path[PAX_NAME_SIZE]; /* of the member, plain; for the sentence too */
};

/* The folder that a plain path's last part is in, made where it is missing; *ret_name is that part. */
static int enter(int root, const char *path, bool make, const char **ret_name, int *ret_dir) {
        _cleanup_fd_ int dir = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char part[NAME_MAX + 1];
        const char *slash;

        if (dir < 0)
                return -errno;
        for (unsigned depth = 0; (slash = strchr(path, '/')); path = slash + 1) {
                size_t n = (size_t)(slash - path);

                if (n > NAME_MAX || depth++ >= DEPTH_MAX)
                        return -ENAMETOOLONG;
                memcpy(part, path, n);
                part[n] = '\0';
                if (make && mkdirat(dir, part, 0755) < 0 && errno != EEXIST)
                        return -errno;
                int next = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return -errno; /* ENOTDIR for a link, too */
                fd_close(&dir);
                dir = next;
        }
        if (strlen(path) > NAME_MAX)
                return -ENAMETOOLONG;
        *ret_name = path;
        *ret_dir = TAKE_FD(dir);
        return 0;
}

static int make_folder(int dir, const char *name, uint32_t mode) {
        struct stat st;

        /* writable for us, whatever it says: its files are still to come */
        if (mkdirat(dir, name, (mode & 0777) | 0700) == 0)
                return 0;
        if (errno != EEXIST)
                return -errno;
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

static int make_file(struct unpacking *t, int dir, const char *name, const struct pax_member *m) {
        t->fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (t->fd < 0)
                return -errno;
        t->mode = m->mode & 0777;
        t->time = (struct timespec){.tv_sec = m->mtime, .tv_nsec = m->mtime_ns};
        return 0;
}

/* Another name of a file that was unpacked before, or lies below the same folder. */
static int make_name(struct unpacking *t, int dir, const char *name, const char *target) {
        _cleanup_fd_ int from = -EBADF;
        char plain[PAX_NAME_SIZE];
        const char *last;
        struct stat st;

        int error = pax_plain(target, plain);
        if (error == 0 && plain[0] == '\0')
                error = -EBADMSG;
        if (error == 0)
                error = enter(t->root, plain, false, &last, &from);
        if (error < 0)
                return error;
        if (fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        return linkat(from, last, dir, name, 0) < 0 ? -errno : 0;
}

static int make_member(struct unpacking *t, const struct pax_member *m) {
        _cleanup_fd_ int dir = -EBADF;
        const char *name;

        t->path[0] = '\0';
        int error = pax_plain(m->name, t->path);
        if (error < 0 || t->path[0] == '\0') { /* the folder itself */
                (void)snprintf(t->path, sizeof t->path, "%s", m->name);
                return error < 0 || m->type == '5' ? error : -EBADMSG;
        }
        if (t->request.entries++ >= ENTRIES_MAX)
                return -EFBIG;
        error = enter(t->root, t->path, true, &name, &dir);
        if (error < 0)
                return error;
        if (m->type == '5')
                return make_folder(dir, name, m->mode);
        if (m->type != '0' && m->type != '1' && m->type != '2')
                return -EOPNOTSUPP;
        if (m->type != '1' && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
                return -errno;
        if (m->type == '2')
                return symlinkat(m->link, dir, name) < 0 ? -errno : 0;
        if (m->type == '0')
                return make_file(t, dir, name, m);
        error = make_name(t, dir, name, m->link);
        if (error != -EEXIST)
                return error;
        /* not removed before, since it may be its own target */
        char own[PAX_NAME_SIZE];
        if (pax_plain(m->link, own) == 0 && str_eq(own, t->path))
                return 0;
        return unlinkat(dir, name, 0) < 0 ? -errno : make_name(t, dir, name, m->link);
}

static int close_file(struct unpacking *t) {
        const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, t->time};

        if (t->fd < 0)
                return 0;
        int error = fchmod(t->fd, t->mode) < 0 ? -errno : 0;
        (void)futimens(t->fd, times); /* a time that the file system cannot hold is not worth a failure */
        fd_close(&t->fd);
        return error;
}

static int take_item(struct unpacking *t, int item) {
        const struct pax_reader *p = t->reader;

        switch (item) {
        case PAX_MEMBER:
                return make_member(t, &p->member);
        case PAX_DATA:
                return t->fd < 0 ? -EBADMSG : fd_write_full(t->fd, p->data, p->size);
        case PAX_DONE:
                return close_file(t);
        case PAX_END:
                t->ended = true;
                return 0;
        default:
                return item;
        }
}

static int tar_in_begin(struct guest *g, struct request *r, const struct guest_message *m) {
        struct unpacking *t = (struct unpacking *)r;

        (void)g;
        t->fd = -EBADF;
        t->root = open(m->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (t->root < 0)
                return -errno;
        t->reader = memory_map(sizeof *t->reader);
        return t->reader ? 0 : -ENOMEM;
}

static void fail(struct guest *g, struct unpacking *t, int error) {
        const char *what = error == -EOPNOTSUPP                      ? " (a kind of file that is not taken)"
                           : error == -ENOTDIR || error == -ELOOP    ? " (the way there is not made of folders)"
                           : error == -EBADMSG && t->reader->entries ? " (not a plain name below the folder, or broken)"
                                                                     : "";

        request_end(g, &t->request, error, "cannot unpack '%s'%s", t->path, what);
}

static int tar_in_data(struct guest *g, struct request *r, const uint8_t *bytes, size_t size) {
        struct unpacking *t = (struct unpacking *)r;
        const size_t all = size;

        while (size > 0 && !t->ended) {
                int item = pax_next(t->reader, &bytes, &size);
                if (item == PAX_MORE)
                        break;
                int error = item < 0 ? item : take_item(t, item);
                if (error < 0) {
                        fail(g, t, error);
                        return 0;
                }
        }
        request_took(g, r, all);
        return 0;
}

static void tar_in_finish(struct guest *g, struct request *r) {
        struct unpacking *t = (struct unpacking *)r;

        if (!t->ended)
                return request_end(g, r, -EBADMSG, "the archive ends before its end");
        request_end(g, r, 0, NULL);
}

static void tar_in_free(struct guest *g, struct request *r) {
        struct unpacking *t = (struct unpacking *)r;

        (void)g;
        fd_close(&t->root);
        fd_close(&t->fd);
        memory_unmap(t->reader, sizeof *t->reader);
}
const struct request_kind tar_in_kind = {.size = sizeof(struct unpacking),
                                         .begin = tar_in_begin,
                                         .data = tar_in_data,
                                         .finish = tar_in_finish,
                                         .free = tar_in_free};
