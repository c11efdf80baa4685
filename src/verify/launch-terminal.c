/* Talking with what was launched: a terminal of its own, what is typed, what is read.
 *
 * Our ends never block, and every wait has an end. What comes out is kept up to a cap; the rest is read, counted and
 * dropped, so that a flood neither fills our memory nor stops the one that pours it. */
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/launch-private.h"

enum { PROMPT_US = 100 * 1000 }; /* so long a line may be without an end */

uint64_t launch_clock(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int launch_terminal(int *ret_ours, int *ret_theirs, struct err *err) {
        struct winsize size = {.ws_row = 24, .ws_col = 80};
        int unlocked = 0;
        _cleanup_fd_ int ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), theirs = -EBADF;

        if (ours < 0)
                return err_set(err, -errno, "could not open a terminal, /dev/ptmx");
        if (ioctl(ours, TIOCSPTLCK, &unlocked) < 0 || ioctl(ours, TIOCSWINSZ, &size) < 0)
                return err_set(err, -errno, "could not set up a terminal");
        theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (theirs < 0)
                return err_set(err, -errno, "could not open the other end of a terminal");
        *ret_ours = TAKE_FD(ours);
        *ret_theirs = TAKE_FD(theirs);
        return 0;
}

/* One read. Its end, also when a terminal has lost its other side, closes the descriptor. */
static void take(struct running *r, int *fd, struct buf *to) {
        char bytes[64 << 10];
        ssize_t n = read(*fd, bytes, sizeof bytes);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                fd_close(fd);
                return;
        }
        size_t kept = MIN((size_t)n, to->max - to->size);
        buf_add(to, bytes, kept);
        if (!buf_ok(to)) { /* out of memory: nothing more is kept */
                to->max = to->size;
                to->failed = false;
                kept = 0;
        }
        r->dropped += (size_t)n - kept;
}

static size_t untyped(const struct running *r) {
        return r->launch->input ? strlen(r->launch->input) - r->typed : 0;
}

static void type(struct running *r) {
        ssize_t n = write(r->in, r->launch->input + r->typed, untyped(r));

        if (n > 0)
                r->typed += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
                fd_close(&r->in); /* nobody reads it */
}

bool launch_step(struct running *r, uint64_t until_us) {
        enum { END, OUT, ERR, IN };
        struct pollfd p[] = {
                [END] = {.fd = r->ended ? -EBADF : r->pidfd, .events = POLLIN},
                [OUT] = {.fd = r->out, .events = POLLIN},
                [ERR] = {.fd = r->err, .events = POLLIN},
                [IN] = {.fd = untyped(r) > 0 ? r->in : -EBADF, .events = POLLOUT},
        };
        uint64_t now = launch_clock();

        if (now >= until_us)
                return false;
        if (poll(p, ELEMENTSOF(p), (int)MIN((until_us - now + 999) / 1000, 60000)) <= 0)
                return true; /* the time may be over: the next step will say so */
        if (p[OUT].revents)
                take(r, &r->out, &r->seen);
        if (p[ERR].revents)
                take(r, &r->err, &r->errors);
        if (p[IN].revents)
                type(r);
        if (p[END].revents) {
                r->ended = true;
                r->end_us = launch_clock();
        }
        return true;
}

/* The line that begins with these words, from a place where a line begins; NULL if there is none. */
static const char *find_line(const char *text, const char *end, const char *words) {
        size_t n = strlen(words);

        while (text) {
                while (text < end && *text == '\r')
                        text++;
                if ((size_t)(end - text) >= n && memcmp(text, words, n) == 0)
                        return text;
                text = memchr(text, '\n', (size_t)(end - text));
                text += text != NULL;
        }
        return NULL;
}

bool launch_expect(struct running *r, const char *words, unsigned ms) {
        uint64_t until = launch_clock() + (uint64_t)ms * 1000;
        bool found = false;

        for (bool more = true;; more = r->out >= 0 && launch_step(r, until)) {
                const char *text = r->seen.data, *end = text ? text + r->seen.size : NULL;
                const char *line = text ? find_line(text + r->expected, end, words) : NULL;
                const char *newline = line ? memchr(line, '\n', (size_t)(end - line)) : NULL;

                if (newline || (line && !more)) {
                        r->expected = newline ? (size_t)(newline + 1 - text) : r->seen.size;
                        return true;
                }
                if (!more)
                        return false;
                if (line && !found) {
                        found = true;
                        until = MIN(until, launch_clock() + PROMPT_US);
                }
        }
}
