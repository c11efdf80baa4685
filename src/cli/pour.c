/* Files and archives through a request. */
#include "cli/pour.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { CHUNK = 128 * 1024 };

int pour_open(const char *name, int *ret, struct err *err) {
        int fd = str_eq(name, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                   : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        struct stat st;

        if (fd < 0)
                return err_set(err, -errno, "cannot open '%s'", name);
        if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode)) {
                (void)close(fd);
                return err_set(err, ERR_INPUT, "'%s' is a folder", name);
        }
        *ret = fd;
        return 0;
}

/* --- in ------------------------------------------------------------------------------------------------------- */

void pour_begin(struct pour *p, struct talk *t, bool json) {
        *p = (struct pour){.talk = t};
        tell_progress_begin(&p->progress, "sent", json);
}

/* Frames that came meanwhile: an answer ends it, anything else is passed over. */
static int look(struct pour *p, struct err *err) {
        struct pollfd fd = {.fd = p->talk->fd, .events = POLLIN};
        struct talk_frame f;
        int r;

        if (poll(&fd, 1, 0) <= 0)
                return 0;
        r = talk_fill(p->talk);
        if (r < 0 && r != -EPIPE)
                return err_set(err, r, "the connection to the daemon broke");
        while ((r = talk_take(p->talk, &f, err)) > 0)
                if (f.kind == LOCAL_ANSWER) {
                        p->answered = true;
                        return -ECANCELED;
                }
        return r;
}

int pour_give(struct pour *p, const void *data, size_t size, struct err *err) {
        const char *bytes = data;

        while (size > 0) {
                size_t n = MIN(size, (size_t)LOCAL_FRAME_MAX);
                int r = p->answered ? -ECANCELED : look(p, err);

                if (r == 0) {
                        r = talk_send(p->talk, LOCAL_INPUT, bytes, n, err);
                        if (r == -EPIPE || r == -ECONNRESET) /* it closed: what it said last is there to be read */
                                r = look(p, err) == -ECANCELED ? -ECANCELED : r;
                }
                if (r < 0)
                        return r;
                bytes += n;
                size -= n;
                p->bytes += n;
                tell_progress(&p->progress, p->bytes);
        }
        return 0;
}

int pour_end(struct pour *p, const char **ret, struct err *err) {
        struct err ignored;

        if (!p->answered) /* one that has answered does not listen */
                (void)talk_send(p->talk, LOCAL_FINISH, NULL, 0, &ignored);
        int r = p->answered ? talk_result(p->talk, ret, err) : talk_wait(p->talk, ret, NULL, NULL, err);
        tell_progress_end(&p->progress);
        return r;
}

int pour_in(struct talk *t, int in, bool json, const char **ret, struct err *err) {
        _cleanup_free_ char *chunk = malloc(CHUNK);
        struct pour p;

        if (!chunk)
                return err_set(err, -ENOMEM, "cannot send");
        pour_begin(&p, t, json);
        for (;;) {
                ssize_t n = read(in, chunk, CHUNK);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        tell_progress_end(&p.progress);
                        return err_set(err, -errno, "could not read what is to be sent");
                }
                int r = n > 0 ? pour_give(&p, chunk, (size_t)n, err) : 0;
                if (n == 0 || r == -ECANCELED)
                        return pour_end(&p, ret, err);
                if (r < 0) {
                        tell_progress_end(&p.progress);
                        return r;
                }
        }
}

/* --- out ------------------------------------------------------------------------------------------------------ */

int pour_create(struct pour_file *f, const char *path, mode_t mode, bool replace, struct err *err) {
        char copy[2][PATH_MAX];

        *f = (struct pour_file){.fd = -EBADF, .folder = -EBADF, .replace = replace, .mode = mode};
        if (str_eq(path, "-")) {
                if (isatty(STDOUT_FILENO)) {
                        (void)err_set(err, ERR_INPUT, "the bytes would go to the terminal");
                        return err_hint(err, "name a file, or pass them on to another program");
                }
                f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
                return f->fd < 0 ? err_set(err, -errno, "cannot use standard output") : 0;
        }
        if (strlen(path) >= sizeof copy[0])
                return err_set(err, -ENAMETOOLONG, "cannot write '%.200s'", path);
        memcpy(copy[0], path, strlen(path) + 1);
        memcpy(copy[1], path, strlen(path) + 1);
        const char *name = basename(copy[0]), *folder = dirname(copy[1]);
        if (strlen(name) >= sizeof f->name)
                return err_set(err, -ENAMETOOLONG, "cannot write '%.200s'", path);
        memcpy(f->name, name, strlen(name) + 1);
        (void)snprintf(f->temporary, sizeof f->temporary, ".stockade-%ld-%.200s", (long)getpid(), name);
        f->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (f->folder < 0)
                return err_set(err, -errno, "cannot open '%s'", folder);
        struct stat st;
        if (fstatat(f->folder, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (!replace || !S_ISREG(st.st_mode))) {
                pour_discard(f);
                (void)err_set(err, -EEXIST, "cannot write '%s'", path);
                return S_ISREG(st.st_mode) ? err_hint(err, "--force replaces it") : -EEXIST;
        }
        /* without a name nothing is left when we are killed; not every file system has that */
        f->fd = openat(f->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        f->named = f->fd < 0;
        if (f->named)
                f->fd = openat(f->folder, f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (f->fd < 0) {
                int r = -errno;
                pour_discard(f);
                return err_set(err, r, "cannot write to '%s'", folder);
        }
        return 0;
}

/* Gives the file its name. Never over one that is there, unless that was asked for: then it takes its place at once. */
static int put_in_place(struct pour_file *f) {
        char self[32];

        (void)snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
        if (fchmod(f->fd, f->mode) < 0)
                return -errno;
        if (!f->named) {
                const char *name = f->replace ? f->temporary : f->name;
                if (linkat(AT_FDCWD, self, f->folder, name, AT_SYMLINK_FOLLOW) < 0)
                        return -errno;
                f->named = f->replace;
                if (!f->replace)
                        return 0;
        }
        if (f->replace ? renameat(f->folder, f->temporary, f->folder, f->name) < 0
                       : linkat(f->folder, f->temporary, f->folder, f->name, 0) < 0)
                return -errno;
        f->named = !f->replace; /* a second name is still to be taken away */
        return 0;
}

int pour_keep(struct pour_file *f, struct err *err) {
        int r = f->folder >= 0 ? put_in_place(f) : 0;

        pour_discard(f);
        return r < 0 ? err_set(err, r, "could not put '%s' in its place", f->name) : 0;
}

void pour_discard(struct pour_file *f) {
        if (f->folder >= 0 && f->named)
                (void)unlinkat(f->folder, f->temporary, 0);
        f->named = false;
        fd_close(&f->fd);
        fd_close(&f->folder);
}

int pour_out(struct talk *t, struct pour_file *f, uint64_t limit, bool json, const char **ret, struct err *err) {
        struct tell_progress progress;
        struct talk_frame frame;
        uint64_t bytes = 0;
        int r;

        tell_progress_begin(&progress, "received", json);
        while ((r = talk_next(t, &frame, err)) > 0) {
                if (frame.kind != LOCAL_OUTPUT)
                        continue;
                if (frame.size > limit - bytes) {
                        (void)err_set(err, ERR_LIMIT, "'%s' would be larger than the limit", f->name);
                        r = err_hint(err, "--limit SIZE says how much may come");
                        break;
                }
                r = fd_write_full(f->fd, frame.data, frame.size);
                if (r < 0) {
                        (void)err_set(err, r, "could not write '%s'", f->name);
                        break;
                }
                bytes += frame.size;
                tell_progress(&progress, bytes);
        }
        tell_progress_end(&progress);
        return r < 0 ? r : talk_result(t, ret, err);
}

int pour_save(struct talk *t, const struct args_common *o, struct talk_request *q, const char *path, bool replace,
              const char **ret, struct err *err) {
        struct pour_file file = {.fd = -EBADF};

        int r = pour_create(&file, path ? path : "-", 0600, replace, err);
        if (r == 0)
                r = talk_go(t, o, q, err);
        if (r == 0)
                r = pour_out(t, &file, UINT64_MAX, o->json, ret, err);
        if (r == 0)
                r = pour_keep(&file, err);
        if (r < 0)
                pour_discard(&file);
        else if (o->json && path) /* otherwise standard output is the file's */
                talk_print(*ret);
        return r;
}
