/* The caller's streams. What is passed in as it is, is byte-exact and costs nothing, but it is more than a stream of
 * bytes: a file can be truncated, written elsewhere and, by its owner, opened to all the world through the descriptor
 * alone; a pipe's owner can open its other end; a terminal can be typed into; a socket can carry descriptors. So
 * without root, where the sandbox's id is the caller's own, a pipe of ours stands in for everything but /dev/null. With
 * root nobody inside owns anything outside: pipes go in, and files that are open for reading alone. */
#include "cli/relay.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/knockout.h"

/* A pipe without a name: one with a name is a file, with an owner and a mode. */
static bool is_pipe(int fd, const struct stat *st) {
        struct statfs fs;

        return S_ISFIFO(st->st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

static bool is_null_device(const struct stat *st) {
        return S_ISCHR(st->st_mode) && major(st->st_rdev) == 1 && minor(st->st_rdev) == 3;
}

static int check_stream(int fd, struct stat *st, struct err *err) {
        int flags = fcntl(fd, F_GETFL);
        if (fstat(fd, st) < 0 || flags < 0)
                return err_set(err, -errno, "cannot look at descriptor %d", fd);
        if ((S_ISDIR(st->st_mode) || (flags & O_PATH)) && !knockout_off(KNOCKOUT_STREAMS)) {
                (void)err_set(err, ERR_INPUT, "standard stream %d is a directory", fd);
                return err_hint(err, "it would be a way out of the sandbox: redirect it from a file or /dev/null");
        }
        return 0;
}

static int use_pipe(struct run *r, int fd, struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        if (fd == 0) {
                r->cell.stdio[0] = ends[0];
                r->to_stdin = ends[1];
                (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
        } else {
                r->cell.stdio[fd] = ends[1];
                r->from[fd] = ends[0];
                (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        }
        return 0;
}

/* Whether the sandbox may have the caller's own descriptor. */
static bool is_plain(const struct run *r, int fd, const struct stat *st) {
        if (is_null_device(st) || knockout_off(KNOCKOUT_STREAMS))
                return true;
        if (geteuid() != 0 || (fd > 0 && r->limits.output != UINT64_MAX))
                return false;
        return is_pipe(fd, st) || (fd == 0 && S_ISREG(st->st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
}

int relay_prepare(struct run *r, struct err *err) {
        struct stat st[3];
        bool tty[3];

        for (int i = 0; i < 3; i++) {
                int result = check_stream(i, &st[i], err);
                if (result < 0)
                        return result;
                tty[i] = S_ISCHR(st[i].st_mode) && isatty(i);
                r->flags[i] = fcntl(i, F_GETFL);
        }
        r->cell.tty = r->options.tty == TTY_YES || (r->options.tty == TTY_AUTO && tty[0] && tty[1]);
        if (knockout_off(KNOCKOUT_STREAMS))
                r->cell.tty = false;
        if (r->cell.tty && tty[0])
                (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &r->cell.size);
        if (r->cell.tty && tty[0] && tcgetattr(STDIN_FILENO, &r->terminal) < 0)
                return err_set(err, -errno, "cannot read the terminal's settings");
        /* with a terminal inside, errors that go elsewhere still do */
        for (int i = r->cell.tty ? (tty[2] ? 3 : 2) : 0; i < 3; i++) {
                r->cell.stdio[i] = i;
                if (is_plain(r, i, &st[i]))
                        continue;
                int result = use_pipe(r, i, err);
                if (result < 0)
                        return result;
        }
        return 0;
}

/* What the command did to flags that it shared with the caller is undone. */
void relay_flags_restore(const struct run *r) {
        for (int i = 0; i < 3; i++)
                if (r->cell.stdio[i] == i && fcntl(i, F_GETFL) != r->flags[i])
                        (void)fcntl(i, F_SETFL, r->flags[i]);
}

void relay_terminal_restore(struct run *r) {
        if (r->raw)
                (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &r->terminal);
        r->raw = false;
}

size_t flow_poll(const struct flow *f, struct pollfd *p) {
        if (f->start < f->end && f->out >= 0) {
                *p = (struct pollfd){.fd = f->out, .events = POLLOUT};
                return 1;
        }
        if (f->in >= 0) {
                *p = (struct pollfd){.fd = f->in, .events = POLLIN};
                return 1;
        }
        return 0;
}

void flow_end(struct flow *f) {
        f->in = -EBADF;
        if (f->start == f->end && f->owns_out)
                fd_close(&f->out);
}

/* The reader of our output is gone: so is the reader of the command's. */
static void flow_break(struct flow *f) {
        f->start = f->end = 0;
        if (f->in > 2)
                fd_close(&f->in);
        f->in = -EBADF;
        if (f->owns_out)
                fd_close(&f->out);
        f->out = -EBADF;
}

static int flow_read(struct flow *f, uint64_t left) {
        ssize_t n = read(f->in, f->data, sizeof f->data);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) { /* a terminal whose last user left says EIO */
                flow_end(f);
                return 0;
        }
        f->start = 0;
        f->end = (size_t)n;
        if (!f->count)
                return 0;
        bool over = (uint64_t)n > left;
        if (over)
                f->end = (size_t)left;
        *f->count += f->end;
        return over;
}

int flow_move(struct flow *f, const struct pollfd *p, size_t count, uint64_t left) {
        for (size_t i = 0; i < count; i++) {
                if (p[i].revents == 0)
                        continue;
                if (p[i].events & POLLIN)
                        return flow_read(f, left);
                /* a ready pipe takes this much without blocking */
                size_t n = MIN(f->end - f->start, f->regular_out ? sizeof f->data : (size_t)4096);
                ssize_t done = write(f->out, f->data + f->start, n);

                if (done < 0 && errno != EAGAIN && errno != EINTR) {
                        flow_break(f);
                        return 0;
                }
                f->start += done > 0 ? (size_t)done : 0;
                if (f->start == f->end && f->in < 0 && f->owns_out)
                        fd_close(&f->out);
        }
        return 0;
}
