/* Session files. */
#include "remote/keep.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/paths.h"

#define FOLDER   "remote"
#define FILE_MAX (160U << 10)

void keep_wipe(struct keep *k) {
        explicit_bzero(k, sizeof *k);
}

void keep_trust(const struct keep *k, struct trust *ret) {
        *ret = (struct trust){
                .ca = k->ca[0] ? k->ca : NULL, .insecure_http = k->insecure_http, .listener = k->listener};
}

/* Root's state is the system's; whoever signs in somewhere as root may still want a place of his own. */
static int open_named(const char *state, struct err *err) {
        char path[PATH_MAX];
        struct stat st;
        int n = snprintf(path, sizeof path, "%s/stockade/" FOLDER "/", state);

        if (n < 0 || (size_t)n >= sizeof path)
                return err_set(err, -ENAMETOOLONG, "cannot use XDG_STATE_HOME");
        int r = paths_make_parents(path);
        int fd = r < 0 ? r : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_set(err, r < 0 ? r : -errno, "cannot open '%s'", path);
        if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022))
                return fd;
        fd_close(&fd);
        return err_set(err, -EPERM, "'%s' belongs to somebody else or others can write to it", path);
}

int keep_folder(struct err *err) {
        const char *state = getenv("XDG_STATE_HOME");

        return geteuid() == 0 && state && state[0] == '/' ? open_named(state, err)
                                                          : paths_state_dir(FOLDER, false, err);
}

int keep_read_private(int dir, const char *name, size_t max, char **ret, size_t *ret_size, struct err *err) {
        _cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;

        if (fd < 0)
                return err_set(err, -errno, "cannot open '%.200s'", name);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return err_set(err, ERR_REFUSED, "'%.200s' is not a file", name);
        if (st.st_uid != geteuid() || (st.st_mode & 077)) {
                (void)err_set(err, ERR_REFUSED, "'%.200s' can be read or changed by others (its mode is %04o)", name,
                              (unsigned)st.st_mode & 07777);
                return err_hint(err, "somebody may know it by now: use a new one; what is right is 'chmod 600'");
        }
        if ((uint64_t)st.st_size > max)
                return err_set(err, ERR_LIMIT, "'%.200s' is larger than %zu bytes", name, max);
        _cleanup_free_ char *text = calloc(1, max + 1);
        if (!text)
                return err_set(err, -ENOMEM, "cannot read '%.200s'", name);
        ssize_t n = fd_read_full(fd, text, max);
        if (n < 0)
                return err_set(err, (int)n, "cannot read '%.200s'", name);
        *ret = TAKE_PTR(text);
        *ret_size = (size_t)n;
        return 0;
}

static int nobody(const struct url *u, struct err *err) {
        (void)err_set(err, ERR_REFUSED, "you are not signed in to '%s'", u->text);
        (void)err_hint(err, "stockade login --server %s", u->text);
        return -ENOENT;
}

int keep_read(const struct url *u, struct keep *ret, struct err *err) {
        char name[URL_TEXT + 16];
        static struct keep k;
        uint64_t listener = 0;
        char *text = NULL;
        size_t size = 0;

        keep_wipe(&k);
        _cleanup_fd_ int dir = keep_folder(err);
        if (dir < 0)
                return dir;
        url_file(u, name, sizeof name);
        int r = keep_read_private(dir, name, FILE_MAX, &text, &size, err);
        if (r < 0)
                return r == -ENOENT ? nobody(u, err) : r;
        bool good = json_check(text, size, NULL) == 0 && json_find_str(text, "token", k.token, sizeof k.token) &&
                    json_find_str(text, "owner", k.owner, sizeof k.owner) &&
                    json_find_u64(text, "expires_at_ms", &k.expires_ms) && k.token[0] &&
                    !k.token[strspn(k.token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")];
        if (good) {
                (void)json_find_str(text, "ca", k.ca, sizeof k.ca);
                (void)json_find_bool(text, "insecure_http", &k.insecure_http);
                k.listener = json_find_u64(text, "listener", &listener) && listener < UINT32_MAX ? (uid_t)listener : 0;
                *ret = k;
        }
        explicit_bzero(text, size);
        free(text);
        keep_wipe(&k);
        if (good)
                return 0;
        (void)err_set(err, ERR_CORRUPT, "what was kept of the sign-in to '%s' is damaged", u->text);
        return err_hint(err, "stockade login --server %s", u->text);
}

int keep_write(const struct url *u, const struct keep *k, struct err *err) {
        char name[URL_TEXT + 16];
        struct buf b = {0};
        struct json j = {.out = &b};

        _cleanup_fd_ int dir = keep_folder(err);
        if (dir < 0)
                return dir;
        url_file(u, name, sizeof name);
        json_open(&j, NULL, '{');
        json_str(&j, "server", u->text);
        json_str(&j, "owner", k->owner);
        json_u64(&j, "expires_at_ms", k->expires_ms);
        if (k->ca[0])
                json_str(&j, "ca", k->ca);
        json_bool(&j, "insecure_http", k->insecure_http);
        if (k->listener > 0)
                json_u64(&j, "listener", k->listener);
        json_str(&j, "token", k->token);
        json_close(&j, '}');
        int r = buf_ok(&b) ? fd_replace_file(dir, name, 0600, b.data, b.size) : -ENOMEM;
        if (b.data)
                explicit_bzero(b.data, b.room);
        buf_free(&b);
        return r < 0 ? err_set(err, r, "cannot keep the session of '%s'", u->text) : 0;
}

int keep_forget(const struct url *u, struct err *err) {
        char name[URL_TEXT + 16];

        _cleanup_fd_ int dir = keep_folder(err);
        if (dir < 0)
                return dir;
        url_file(u, name, sizeof name);
        return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? err_set(err, -errno, "cannot remove '%s'", name) : 0;
}
