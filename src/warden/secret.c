/* The secrets that the operator makes its keys from: for sessions, and for the secrets of sandboxes that it keeps. It
 * may not read files that are not its own, so it gets them in a file in memory: no name, and no copy on a disk.
 *
 * The first is the current one: of session_secret_file, or of our environment, or one of our own, which is made at the
 * first start and lies in the state folder. Behind it come those of session_secret_previous; our own too where there is
 * one and another is current, since what was sealed before that was configured has to open still.
 *
 * They are read again whenever an operator is started. What cannot be read then leaves the former ones in place.
 *
 * Must never: print one, or give one to anybody else whom we start. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "warden/warden.h"

#define LEAST    32
#define MOST     1024
#define PREVIOUS 6 /* files of session_secret_previous that are taken */
#define OWN_NAME "session.secret"

/* As the operator reads it: of each the number of its bytes, 16 bits, little endian, and the bytes. */
struct secrets {
        uint8_t bytes[(2 + PREVIOUS) * (2 + MOST)];
        size_t size;
};

static bool has(const struct secrets *s, const char *bytes, size_t size) {
        for (size_t at = 0; at < s->size;) {
                size_t n = s->bytes[at] | (size_t)s->bytes[at + 1] << 8;

                if (n == size && memcmp(s->bytes + at + 2, bytes, n) == 0)
                        return true;
                at += 2 + n;
        }
        return false;
}

/* What the operator would refuse must not reach it: it would have no key at all. */
static int add(struct secrets *s, const char *name, const char *bytes, size_t size, struct err *err) {
        int r = 0;

        if (size < LEAST || size > MOST)
                r = err_set(err, ERR_REFUSED, "the session secret of '%s' has %s%zu bytes: %d to %d are right", name,
                            size > MOST ? "more than " : "", MIN(size, (size_t)MOST), LEAST, MOST);
        else if (text_is_guessable(bytes, size))
                r = err_set(err, ERR_REFUSED, "the session secret of '%s' is easy to guess", name);
        if (r < 0)
                return err_hint(err, "make one with: openssl rand -hex 32");
        if (has(s, bytes, size))
                return 0;
        if (s->size + 2 + size > sizeof s->bytes)
                return err_set(err, ERR_LIMIT, "there are more than %d session secrets", 2 + PREVIOUS);
        s->bytes[s->size++] = (uint8_t)size;
        s->bytes[s->size++] = (uint8_t)(size >> 8);
        memcpy(s->bytes + s->size, bytes, size);
        s->size += size;
        return 0;
}

static int add_file(struct secrets *s, int fd, const char *name, struct err *err) {
        char bytes[MOST + 2];
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0) {
                (void)err_set(err, -errno, "cannot open the session secret '%s'", name);
                return err_hint(err, "see session_secret_file and session_secret_previous in stockade.conf");
        }
        if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 077)) {
                (void)err_set(err, ERR_REFUSED, "'%s' is refused: others could read or write it", name);
                return err_hint(err, "it belongs to whoever runs the daemon, with mode 0600");
        }
        ssize_t n = read(fd, bytes, sizeof bytes - 1);
        if (n < 0)
                return err_set(err, -errno, "cannot read '%s'", name);
        while (n > 0 && strchr("\r\n", bytes[n - 1]))
                n--;
        int r = add(s, name, bytes, (size_t)n, err);
        explicit_bzero(bytes, sizeof bytes);
        return r;
}

static int add_path(struct secrets *s, const char *path, struct err *err) {
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        return add_file(s, fd, path, err);
}

/* --- our own --------------------------------------------------------------------------------------------------------
 */

/* Whole under its name, or not there: whoever kills us leaves no half of one. */
static int make_own(struct warden *w, struct err *err) {
        static const char name[] = OWN_NAME ".new";
        uint8_t chance[LEAST];
        char text[2 * LEAST + 1];

        (void)unlinkat(w->state, name, 0);
        _cleanup_fd_ int fd = openat(w->state, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return err_set(err, -errno, "cannot make '%s/" OWN_NAME "'", w->state_path);
        if (getrandom(chance, sizeof chance, 0) != (ssize_t)sizeof chance)
                return err_set(err, -EIO, "the kernel gives no random bytes");
        for (size_t i = 0; i < sizeof chance; i++)
                (void)snprintf(text + 2 * i, 3, "%02x", chance[i]);
        bool whole = write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && fsync(fd) == 0 &&
                     renameat(w->state, name, w->state, OWN_NAME) == 0 && fsync(w->state) == 0;
        explicit_bzero(chance, sizeof chance);
        explicit_bzero(text, sizeof text);
        return whole ? 0 : err_set(err, -EIO, "could not write '%s/" OWN_NAME "'", w->state_path);
}

static int add_own(struct warden *w, struct secrets *s, bool make, struct err *err) {
        _cleanup_fd_ int fd = openat(w->state, OWN_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT) {
                int r = make ? make_own(w, err) : 0;
                if (!make || r < 0)
                        return r;
                fd = openat(w->state, OWN_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        }
        return add_file(s, fd, OWN_NAME, err);
}

/* --- all of them ----------------------------------------------------------------------------------------------------
 */

/* Of the environment, which is looked at once: nobody whom we start has it by accident. "": none. */
static const char *from_environment(bool *ret_given) {
        static char kept[MOST + 2];
        static bool given;
        char *value = getenv("SESSION_AUTH_SECRET");

        if (value) {
                given = true;
                (void)snprintf(kept, sizeof kept, "%s", value);
                explicit_bzero(value, strlen(value));
                (void)unsetenv("SESSION_AUTH_SECRET");
        }
        *ret_given = given;
        return kept;
}

/* One that is not the current one and is no good costs what only it opens, and nothing else. */
static void complain(const char *name, const struct err *why) {
        log_err(LOG_LEVEL_ERROR, NULL, why);
        log_line(LOG_LEVEL_WARNING, NULL,
                 "'%s' is left out: sessions, capabilities and stored secrets that only it opens are refused; put the "
                 "former secret there, or take it out of session_secret_previous when nothing needs it any more, and "
                 "start the daemon again",
                 name);
}

static int gather(struct warden *w, const struct conf *c, struct secrets *s, bool *ret_own, struct err *err) {
        bool given;
        const char *value = from_environment(&given);
        int r;

        *ret_own = false;
        if (c->session_secret_file[0])
                r = add_path(s, c->session_secret_file, err);
        else if (given)
                r = add(s, "SESSION_AUTH_SECRET", value, strlen(value), err);
        else {
                *ret_own = true;
                r = add_own(w, s, true, err);
        }
        if (r < 0)
                return r;
        for (size_t i = 0; i < c->session_secret_previous.count; i++) {
                const char *name = c->session_secret_previous.items[i];
                struct err why = {0};

                r = i < PREVIOUS ? add_path(s, name, &why)
                                 : err_set(&why, ERR_LIMIT, "session_secret_previous: more than %d files", PREVIOUS);
                if (r < 0)
                        complain(name, &why);
        }
        struct err why = {0};
        if (!*ret_own && add_own(w, s, false, &why) < 0)
                complain(OWN_NAME, &why);
        return 0;
}

static int keep(const struct secrets *s, struct err *err) {
        _cleanup_fd_ int fd = memfd_create("session-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || write(fd, s->bytes, s->size) != (ssize_t)s->size ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return err_set(err, -errno, "could not keep the session secrets");
        return TAKE_FD(fd);
}

static int read_all(struct warden *w, const struct conf *c, bool *ret_own, struct err *err) {
        static struct secrets s;

        s.size = 0;
        int r = gather(w, c, &s, ret_own, err);
        if (r == 0)
                r = keep(&s, err);
        explicit_bzero(&s, sizeof s);
        return r;
}

int secret_open(struct warden *w, bool outside, struct err *err) {
        bool own;

        w->secret = read_all(w, &w->conf, &own, err);
        if (w->secret < 0 || !own || !outside)
                return MIN(w->secret, 0);
        (void)err_set(err, ERR_REFUSED, "others than this host can connect, and there is no session secret");
        return err_hint(err, "set session_secret_file in stockade.conf, or SESSION_AUTH_SECRET in the environment");
}

void secret_again(struct warden *w) {
        static struct conf c;
        struct err err = {0};
        bool own;

        int r = conf_load(w->config_path[0] ? w->config_path : NULL, &c, &err);
        if (r == 0)
                r = read_all(w, &c, &own, &err);
        if (r >= 0 && own && w->outside && w->door_count > 0) {
                (void)close(r);
                r = err_set(&err, ERR_REFUSED, "others than this host can connect, and there is no session secret");
        }
        if (r < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &err);
                log_line(LOG_LEVEL_WARNING, NULL, "the former session secrets stay in use");
                return;
        }
        fd_close(&w->secret);
        w->secret = r;
}
