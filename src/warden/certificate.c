/* The certificate of the API, read here because the operator may open no file that is not its own, and sent to it: to
 * every operator when it starts, and again when one of the files has changed. So a renewed certificate is taken up
 * without an end to anything.
 *
 * Nothing is parsed here. What cannot be read costs TLS, and so the API, and not the sandboxes: the operator is told
 * why, and says so in `health`. The key is never kept: it goes from its file into a sealed one in memory, which is
 * closed when it was sent. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "warden/warden.h"
#include "wire/certificate.h"
#include "wire/packet.h"

#define LOOK_MS 10000

static const char *path_of(const struct warden *w, size_t i) {
        return i == 0 ? w->conf.certificate : w->conf.certificate_key;
}

/* What changes when a file does, or when its name leads to another one. */
static void look_at(const struct warden *w, struct certificate_look ret[CERTIFICATE_FDS]) {
        struct stat st;

        memset(ret, 0, CERTIFICATE_FDS * sizeof *ret);
        for (size_t i = 0; i < CERTIFICATE_FDS; i++)
                if (stat(path_of(w, i), &st) == 0) {
                        ret[i].numbers[0] = st.st_dev;
                        ret[i].numbers[1] = st.st_ino;
                        ret[i].numbers[2] = (uint64_t)st.st_size;
                        ret[i].numbers[3] = (uint64_t)st.st_ctim.tv_sec;
                        ret[i].numbers[4] = (uint64_t)st.st_ctim.tv_nsec;
                }
}

static int keep(const char *path, const char *bytes, size_t size, struct err *err) {
        _cleanup_fd_ int fd = memfd_create("certificate", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || write(fd, bytes, size) != (ssize_t)size ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                return err_set(err, -errno, "could not keep '%s' in memory", path);
        return TAKE_FD(fd);
}

static int read_file(const char *path, bool secret, struct err *err) {
        static char bytes[CERTIFICATE_FILE_MAX + 1]; /* one at a time; wiped */
        struct stat st;
        size_t size = 0;
        ssize_t n = 1;

        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0) {
                (void)err_set(err, -errno, "cannot open '%s'", path);
                return err_hint(err, "see 'certificate' and 'certificate_key' in stockade.conf(5)");
        }
        if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (secret ? 077 : 022))) {
                (void)err_set(err, ERR_REFUSED, "'%s' is refused: others could %s it", path,
                              secret ? "read or write" : "write");
                return err_hint(err, "it has to belong to whoever runs the daemon: chmod %s", secret ? "0600" : "0644");
        }
        while (n > 0 && size < sizeof bytes) {
                n = read(fd, bytes + size, sizeof bytes - size);
                size += n > 0 ? (size_t)n : 0;
        }
        int r = n < 0 ? err_set(err, -errno, "cannot read '%s'", path)
                : size > CERTIFICATE_FILE_MAX
                        ? err_set(err, ERR_LIMIT, "'%s' has more than %u bytes", path, CERTIFICATE_FILE_MAX)
                        : keep(path, bytes, size, err);
        explicit_bzero(bytes, sizeof bytes);
        return r < 0 ? err_hint(err, "see 'certificate' and 'certificate_key' in stockade.conf(5)") : r;
}

static int say(int link, const struct err *err) {
        char text[CERTIFICATE_SAY_MAX];
        int n = snprintf(text, sizeof text, "%.500s%c%.400s", err->text, 0, err->hint);

        return packet_send(link, &(struct iovec){text, (size_t)n + 1}, 1, NULL, 0);
}

/* As far as the socket takes it: an operator that does not read is started again for other reasons. */
static void send_pair(struct warden *w, int link) {
        int fds[CERTIFICATE_FDS] = {-EBADF, -EBADF}, r = 0;
        struct err err = {0};

        look_at(w, w->certificate.looked);
        if (!w->conf.certificate_key[0]) {
                r = err_set(&err, ERR_REFUSED, "there is a certificate and no key");
                (void)err_hint(&err, "set certificate_key in stockade.conf");
        }
        for (size_t i = 0; r >= 0 && i < CERTIFICATE_FDS; i++)
                r = fds[i] = read_file(path_of(w, i), i == 1, &err);
        r = r < 0 ? say(link, &err) : packet_send(link, &(struct iovec){(char[]){'+'}, 1}, 1, fds, CERTIFICATE_FDS);
        packet_close(fds, CERTIFICATE_FDS);
        if (r < 0) { /* at the next look again */
                memset(w->certificate.looked, 0xff, sizeof w->certificate.looked);
                log_line(LOG_LEVEL_ERROR, NULL, "the operator could not be given the certificate: %s", err_name(r));
        }
}

static void look(struct loop_timer *t) {
        struct warden *w = LOOP_OWNER(t, struct warden, certificate.timer);
        struct certificate_look now[CERTIFICATE_FDS];

        look_at(w, now);
        if (w->certificate.link >= 0 && memcmp(now, w->certificate.looked, sizeof now) != 0)
                send_pair(w, w->certificate.link);
        loop_timer_set(w->loop, t, loop_now(w->loop) + LOOK_MS);
}

int certificate_link(struct warden *w) {
        int ends[2];

        fd_close(&w->certificate.link);
        if (!w->conf.certificate[0] || w->door_count == 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return -EBADF;
        w->certificate.link = high_fd(ends[0]);
        w->certificate.timer.fire = look;
        loop_timer_set(w->loop, &w->certificate.timer, loop_now(w->loop) + LOOK_MS);
        send_pair(w, w->certificate.link);
        return ends[1];
}
