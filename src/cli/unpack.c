/* A tar stream from a sandbox as a folder of the host. The stream is hostile: see pack.h for what always holds.
 *
 * Names are opened part by part below the folder with openat2 (beneath, no links), so that neither the archive nor
 * somebody who changes the folder meanwhile can lead us out. Folders get their final modes at the end, since one may be
 * read-only. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/text.h"
#include "cli/pack.h"

enum { DEPTH_MAX = 256, FOLDERS_MAX = 1 << 20 };

struct folder {
        char *name;
        mode_t mode;
        struct timespec mtime;
};

struct unpack {
        int dir;
        struct unpack_options options;
        struct unpack_count count;
        struct pax_reader reader;
        mode_t umask;
        int file; /* being written, or -EBADF: contents go nowhere */
        struct timespec mtime;
        mode_t mode;
        struct folder *folders; /* modes to be set at the end */
        size_t folder_count, folder_room;
        char name[PAX_NAME_SIZE]; /* of the member, plain */
        bool ended;
};

static int failed(struct err *err, int code, const char *what, const char *name) {
        char inert[256];

        text_escape(inert, sizeof inert, name);
        (void)err_set(err, code, "could not %s '%s'", what, inert);
        return code == -EEXIST ? err_hint(err, "--force replaces what is there") : code;
}

mode_t unpack_umask(void) {
        mode_t mask = umask(0);

        (void)umask(mask);
        return mask;
}

int unpack_begin(struct unpack **ret, int dir, const struct unpack_options *o, struct err *err) {
        struct unpack *u = calloc(1, sizeof *u);

        if (!u)
                return err_set(err, -ENOMEM, "cannot unpack");
        u->dir = dir;
        u->options = *o;
        u->file = -EBADF;
        u->umask = unpack_umask();
        *ret = u;
        return 0;
}

void unpack_free(struct unpack *u) {
        if (!u)
                return;
        fd_close(&u->file);
        for (size_t i = 0; i < u->folder_count; i++)
                free(u->folders[i].name);
        free(u->folders);
        free(u);
}

/* --- places below the folder ---------------------------------------------------------------------------------- */

static int open_below(int dir, const char *path, uint64_t flags) {
        return kernel_openat2(dir, path, flags | O_CLOEXEC | O_NOFOLLOW, 0,
                              RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Opens the folder that path is in, making what is missing on the way; *ret_name is its last part. One part after
 * another: each is opened below the one before, and none can be a link. */
static int open_parent(const struct unpack *u, const char *path, const char **ret_name) {
        _cleanup_fd_ int at = open_below(u->dir, ".", O_PATH | O_DIRECTORY);
        const char *slash;

        for (size_t depth = 0; at >= 0 && (slash = strchr(path, '/')); depth++) {
                _cleanup_free_ char *part = strndup(path, (size_t)(slash - path));

                if (!part)
                        return -ENOMEM;
                if (depth >= DEPTH_MAX)
                        return -ENAMETOOLONG;
                int next = open_below(at, part, O_PATH | O_DIRECTORY);
                if (next == -ENOENT) {
                        if (mkdirat(at, part, 0777) < 0 && errno != EEXIST)
                                return -errno;
                        next = open_below(at, part, O_PATH | O_DIRECTORY);
                }
                fd_close(&at);
                at = next;
                path = slash + 1;
        }
        *ret_name = path;
        int r = at;
        at = -EBADF;
        return r;
}

/* Takes away what is there, if it may and is no folder: what is unpacked is a new file, whatever the old one was linked
 * to. */
static int clear(const struct unpack *u, int parent, const char *name) {
        struct stat st;

        if (!u->options.replace)
                return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? -EEXIST : 0;
        return unlinkat(parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* --- members -------------------------------------------------------------------------------------------------- */

static void leave_out(struct unpack *u, uint64_t *counter) {
        (*counter)++;
        text_escape(u->count.example, sizeof u->count.example, u->name);
}

/* A folder that is new gets its mode and time at the end; one that was there keeps what it has. */
static int remember_folder(struct unpack *u, const struct pax_member *m) {
        if (u->folder_count == u->folder_room) {
                size_t room = u->folder_room ? 2 * u->folder_room : 64;
                struct folder *more = room > FOLDERS_MAX ? NULL : reallocarray(u->folders, room, sizeof *more);
                if (!more)
                        return -ENOMEM;
                u->folders = more;
                u->folder_room = room;
        }
        char *name = strdup(u->name);
        if (!name)
                return -ENOMEM;
        u->folders[u->folder_count++] = (struct folder){
                .name = name, .mode = m->mode & 0777, .mtime = {.tv_sec = m->mtime, .tv_nsec = m->mtime_ns}};
        return 0;
}

static int make_folder(struct unpack *u, const struct pax_member *m, struct err *err) {
        const char *name;
        struct stat st;

        if (!u->name[0])
                return 0; /* the folder itself is the caller's */
        _cleanup_fd_ int parent = open_parent(u, u->name, &name);
        int r = parent < 0 ? parent : 0;
        if (r == 0 && mkdirat(parent, name, 0700) == 0)
                r = remember_folder(u, m);
        else if (r == 0 && errno == EEXIST && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                r = S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
        else if (r == 0)
                r = -errno;
        return r < 0 ? failed(err, r, "make the folder", u->name) : 0;
}

static int make_file(struct unpack *u, const struct pax_member *m, struct err *err) {
        const char *name;
        _cleanup_fd_ int parent = open_parent(u, u->name, &name);

        int r = parent < 0 ? parent : clear(u, parent, name);
        if (r < 0)
                return failed(err, r, u->options.replace ? "replace" : "make", u->name);
        u->file = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (u->file < 0)
                return failed(err, -errno, "make", u->name);
        u->mode = m->mode & 0777 & ~u->umask;
        u->mtime = (struct timespec){.tv_sec = m->mtime, .tv_nsec = m->mtime_ns};
        return 0;
}

/* Whether a link's target, as it is written, stays in the folder: relative, no higher than the folder, and nothing goes
 * up again behind a name, which could be a link itself. */
static bool stays_inside(const char *name, const char *target) {
        size_t depth = 0;
        bool named = false;

        if (target[0] == '/' || target[0] == '\0')
                return false;
        for (const char *p = name; (p = strchr(p, '/')); p++)
                depth++;
        while (*target) {
                size_t n = strcspn(target, "/");

                if (n == 2 && target[0] == '.' && target[1] == '.') {
                        if (named || depth == 0)
                                return false;
                        depth--;
                } else if (n > 0 && !(n == 1 && target[0] == '.'))
                        named = true;
                target += n + (target[n] == '/');
        }
        return true;
}

static int make_link(struct unpack *u, const struct pax_member *m, struct err *err) {
        const char *name;

        if (!u->options.any_link && !stays_inside(u->name, m->link)) {
                leave_out(u, &u->count.links);
                return 0;
        }
        _cleanup_fd_ int parent = open_parent(u, u->name, &name);
        int r = parent < 0 ? parent : clear(u, parent, name);
        if (r == 0 && symlinkat(m->link, parent, name) < 0)
                r = -errno;
        return r < 0 ? failed(err, r, "make the link", u->name) : 0;
}

/* Another name of a file that the archive had before. */
static int make_twin(struct unpack *u, const struct pax_member *m, struct err *err) {
        char target[PAX_NAME_SIZE];
        const char *name, *first;
        struct stat st;

        if (pax_plain(m->link, target) < 0 || !target[0])
                return failed(err, -EBADMSG, "unpack", u->name);
        _cleanup_fd_ int parent = open_parent(u, u->name, &name);
        _cleanup_fd_ int other = open_parent(u, target, &first);
        int r = parent < 0 ? parent : other < 0 ? other : 0;
        if (r == 0 && (fstatat(other, first, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)))
                r = -EBADMSG;
        if (r == 0 && str_eq(target, u->name))
                return 0;
        if (r == 0)
                r = clear(u, parent, name);
        if (r == 0 && linkat(other, first, parent, name, 0) < 0)
                r = -errno;
        return r < 0 ? failed(err, r, "make", u->name) : 0;
}

static int take_member(struct unpack *u, struct err *err) {
        const struct pax_member *m = &u->reader.member;

        if (pax_plain(m->name, u->name) < 0) {
                char inert[256];
                text_escape(inert, sizeof inert, m->name);
                return err_set(err, ERR_REFUSED, "the archive has the name '%s', which leads out of its folder", inert);
        }
        if (++u->count.entries > u->options.max_entries)
                return err_set(err, ERR_LIMIT, "there are more than %llu files",
                               (unsigned long long)u->options.max_entries);
        if (u->reader.bytes > u->options.max_bytes) {
                (void)err_set(err, ERR_LIMIT, "the files are larger than the limit");
                return err_hint(err, "--limit SIZE says how much may come");
        }
        if (!u->name[0] && m->type != '5')
                return err_set(err, ERR_REFUSED, "the archive has a member without a name");
        switch (m->type) {
        case '0':
                return make_file(u, m, err);
        case '1':
                return make_twin(u, m, err);
        case '2':
                return make_link(u, m, err);
        case '5':
                return make_folder(u, m, err);
        default:
                leave_out(u, &u->count.special);
                return 0;
        }
}

static int finish_file(struct unpack *u, struct err *err) {
        const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, u->mtime};
        int r = 0;

        if (u->file < 0)
                return 0;
        if (fchmod(u->file, u->mode) < 0)
                r = -errno;
        (void)futimens(u->file, times);
        fd_close(&u->file);
        return r < 0 ? failed(err, r, "finish", u->name) : 0;
}

int unpack_take(struct unpack *u, const void *bytes, size_t size, struct err *err) {
        const uint8_t *p = bytes;

        while (!u->ended) {
                int r = 0, item = pax_next(&u->reader, &p, &size);

                switch (item) {
                case PAX_MORE:
                        return 0;
                case PAX_MEMBER:
                        r = take_member(u, err);
                        break;
                case PAX_DATA:
                        u->count.bytes += u->reader.size;
                        r = u->file >= 0 ? fd_write_full(u->file, u->reader.data, u->reader.size) : 0;
                        if (r < 0)
                                (void)failed(err, r, "write", u->name);
                        break;
                case PAX_DONE:
                        r = finish_file(u, err);
                        break;
                case PAX_END:
                        u->ended = true;
                        break;
                default:
                        r = err_set(err, ERR_CORRUPT, "the sandbox sent something that is no archive");
                        break;
                }
                if (r < 0)
                        return r;
        }
        return 0; /* what follows the end is padding */
}

int unpack_end(struct unpack *u, struct unpack_count *ret, struct err *err) {
        *ret = u->count;
        if (!u->ended)
                return err_set(err, ERR_CORRUPT, "the archive was cut: not everything came");
        /* the last first: what is below a folder changes its times */
        for (size_t i = u->folder_count; i-- > 0;) {
                const struct folder *f = &u->folders[i];
                const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, f->mtime};
                _cleanup_fd_ int fd = open_below(u->dir, f->name, O_RDONLY | O_DIRECTORY);

                if (fd < 0)
                        continue; /* replaced by a later member, or changed by somebody else */
                (void)futimens(fd, times);
                if (fchmod(fd, f->mode & ~u->umask) < 0)
                        return failed(err, -errno, "finish", f->name);
        }
        return 0;
}
