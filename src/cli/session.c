/* One poll over the socket, the caller's streams and signals. */
#include "cli/session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/tell.h"
#include "cli/terminal.h"

enum { SEND_LOW = 64 * 1024, CHUNK = 32 * 1024 };

/* Asked to end twice within the first time, we leave after the second if what runs there has not ended by then. */
enum { AGAIN_MS = 5000, GRACE_MS = 1000 };

/* As ssh has it: a tilde at the beginning of a line is held back, and with a full stop behind it leaves. */
enum { ELSEWHERE, LINE_BEGINS, TILDE };

/* --- what goes in --------------------------------------------------------------------------------------------- */

static void put(struct session *s, enum local_kind kind, const void *data, size_t size) {
        if (s->sent == s->send.size)
                s->sent = s->send.size = 0;
        local_put(&s->send, kind, data, size);
}

static void put_size(struct session *s) {
        uint64_t rows, columns;
        char text[64];

        if (!s->tty || !terminal_size(&rows, &columns))
                return;
        int n = snprintf(text, sizeof text, "{\"resize\":[%llu,%llu]}", (unsigned long long)rows,
                         (unsigned long long)columns);
        put(s, LOCAL_CONTROL, text, (size_t)n);
}

static void put_signal(struct session *s, int number) {
        char text[32];
        int n = snprintf(text, sizeof text, "{\"signal\":%d}", number);

        put(s, LOCAL_CONTROL, text, (size_t)n);
}

static void leave(struct session *s) {
        static const char text[] = "{\"detach\":true}";

        s->leaving = true;
        put(s, LOCAL_CONTROL, text, sizeof text - 1);
}

/* Keys: all of them go in but the two that leave. */
static void put_keys(struct session *s, const char *keys, size_t size) {
        char bytes[CHUNK + 1];
        size_t n = 0;

        for (size_t i = 0; i < size; i++) {
                if (s->keys == TILDE && keys[i] == '.') {
                        leave(s);
                        break;
                }
                if (s->keys == TILDE)
                        bytes[n++] = '~';
                if (s->keys == LINE_BEGINS && keys[i] == '~') {
                        s->keys = TILDE;
                        continue;
                }
                s->keys = keys[i] == '\r' || keys[i] == '\n' ? LINE_BEGINS : ELSEWHERE;
                bytes[n++] = keys[i];
        }
        if (n > 0)
                put(s, LOCAL_INPUT, bytes, n);
        s->in_bytes += n;
}

static void read_input(struct session *s) {
        char bytes[CHUNK];
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) { /* a terminal whose other end is gone says EIO */
                s->input_ended = true;
                put(s, LOCAL_FINISH, NULL, 0);
        } else if (s->tty && !s->stays && terminal_is(STDIN_FILENO))
                put_keys(s, bytes, (size_t)n);
        else {
                put(s, LOCAL_INPUT, bytes, (size_t)n);
                s->in_bytes += (uint64_t)n;
        }
}

static int write_socket(struct session *s) {
        ssize_t n = send(s->talk->fd, s->send.data + s->sent, s->send.size - s->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n < 0) /* it may have answered and closed: what it said last is still to be read */
                s->sent = s->send.size = 0;
        else
                s->sent += (size_t)n;
        return n < 0 ? -errno : 0;
}

/* --- what comes out ------------------------------------------------------------------------------------------- */

static void broke(struct session *s) {
        /* whoever read our output is gone: so is the reader of the command's */
        if (s->pending_fd == s->out)
                s->out_broken = true;
        else
                s->err_broken = true;
        s->pending = NULL;
        if (s->forward && !s->leaving)
                put_signal(s, SIGPIPE);
}

static void write_pending(struct session *s) {
        struct stat st;
        bool regular = fstat(s->pending_fd, &st) == 0 && S_ISREG(st.st_mode);
        /* a pipe that poll calls ready takes this much without waiting */
        ssize_t n = write(s->pending_fd, s->pending, regular ? s->pending_size : MIN(s->pending_size, (size_t)4096));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < 0) {
                broke(s);
                return;
        }
        s->pending += n;
        s->pending_size -= (size_t)n;
        if (s->pending_size == 0)
                s->pending = NULL;
}

/* 1: go on with the next frame, 0: nothing more at the moment. */
static int take_frame(struct session *s, struct err *err) {
        struct talk_frame f;
        int r = talk_take(s->talk, &f, err);

        if (r <= 0)
                return r;
        bool to_out = f.kind == LOCAL_OUTPUT;
        switch (f.kind) {
        case LOCAL_OUTPUT:
        case LOCAL_ERRORS:
                *(to_out ? &s->out_bytes : &s->err_bytes) += f.size;
                if (f.size > 0 && !(to_out ? s->out_broken : s->err_broken)) {
                        s->pending = f.data;
                        s->pending_size = f.size;
                        s->pending_fd = to_out ? s->out : s->err;
                }
                return 1;
        case LOCAL_EVENT:
                if (s->event)
                        s->event(s->data, f.data);
                return 1;
        case LOCAL_ANSWER:
                s->answered = true;
                return 0;
        case LOCAL_FINISH:
        case LOCAL_REQUEST:
        case LOCAL_INPUT:
        case LOCAL_CONTROL:
        default:
                return 1;
        }
}

static int take_frames(struct session *s, struct err *err) {
        int r = 1;

        while (r > 0 && !s->pending && !s->answered)
                r = take_frame(s, err);
        return MIN(r, 0);
}

/* --- signals -------------------------------------------------------------------------------------------------- */

/* It was passed on; what it went to may not end of it, or may not have got it. */
static void passed_on(struct session *s, int number) {
        if (number != SIGINT && number != SIGTERM)
                return;
        uint64_t now = tell_clock();
        if (s->asked == number && now - s->asked_at < AGAIN_MS && s->leave_at == 0)
                s->leave_at = now + GRACE_MS;
        if (s->leave_at == 0)
                s->asked = number;
        s->asked_at = now;
}

/* Milliseconds until we leave by ourselves; -1: we do not. */
static int patience(const struct session *s) {
        uint64_t now = tell_clock();

        return s->leave_at == 0 ? -1 : now >= s->leave_at ? 0 : (int)(s->leave_at - now);
}

static int take_signal(struct session *s) {
        struct signalfd_siginfo info;

        if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
                return 0;
        int n = (int)info.ssi_signo;
        if (n == SIGWINCH)
                put_size(s);
        else if (n == SIGCONT) {
                terminal_again();
                put_size(s);
        } else if (s->tty && n == SIGHUP) { /* the window was closed: what runs there goes on */
                s->signal = n;
                leave(s);
        } else if (s->forward && !s->leaving) {
                put_signal(s, n);
                passed_on(s, n);
        } else
                s->signal = n;
        return n;
}

int session_open(struct session *s, struct err *err) {
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGPIPE};
        sigset_t set;

        s->send.max = LOCAL_FRAME_MAX + SEND_LOW + 4096;
        (void)sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                (void)sigaddset(&set, numbers[i]);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)sigdelset(&set, SIGPIPE);
        s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s->signals < 0)
                return err_set(err, -errno, "could not receive signals");
        return s->tty && s->input ? terminal_raw(err) : 0;
}

void session_close(struct session *s) {
        terminal_restore();
        fd_close(&s->signals);
        buf_free(&s->send);
}

bool session_pause(struct session *s, int ms) {
        struct pollfd p = {.fd = s->signals, .events = POLLIN};

        s->leaving = true; /* nobody is there to forward a signal to */
        if (poll(&p, 1, ms) > 0)
                (void)take_signal(s);
        s->leaving = false;
        return s->signal == 0;
}

/* --- the loop ------------------------------------------------------------------------------------------------- */

static int turn(struct session *s, struct err *err) {
        bool wants_input = s->input && !s->input_ended && !s->leaving && s->send.size - s->sent < SEND_LOW;
        struct pollfd p[] = {
                {.fd = s->signals, .events = POLLIN},
                {.fd = s->talk->fd,
                 .events = (short)((s->pending ? 0 : POLLIN) | (s->sent < s->send.size ? POLLOUT : 0))},
                {.fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN},
                {.fd = s->pending ? s->pending_fd : -1, .events = POLLOUT},
        };

        if (poll(p, ELEMENTSOF(p), patience(s)) < 0)
                return errno == EINTR ? 0 : err_set(err, -errno, "could not wait");
        if (p[0].revents)
                (void)take_signal(s);
        if (p[3].revents)
                write_pending(s);
        if (p[2].revents)
                read_input(s);
        if (p[1].revents & POLLOUT)
                (void)write_socket(s);
        if (!buf_ok(&s->send))
                return err_set(err, -ENOMEM, "could not send");
        /* what has come is looked at first: behind it may be the end of the connection */
        int r = take_frames(s, err);
        if (r < 0 || s->pending || s->answered || !(p[1].revents & (POLLIN | POLLHUP | POLLERR)))
                return r;
        r = talk_fill(s->talk);
        if (r < 0)
                return r == -EPIPE ? -EPIPE : err_set(err, r, "the connection to the daemon broke");
        return take_frames(s, err);
}

int session_run(struct session *s, struct err *err) {
        s->answered = s->leaving = false;
        s->keys = LINE_BEGINS;
        s->pending = NULL;
        s->sent = s->send.size = 0;
        s->send.failed = false;
        put_size(s);
        if (s->input_ended)
                put(s, LOCAL_FINISH, NULL, 0);
        while (!s->answered) {
                int r = turn(s, err);

                if (r == -EPIPE)
                        return s->leaving ? SESSION_DETACHED : SESSION_LOST;
                if (r < 0)
                        return r;
                if (s->leaving && s->sent == s->send.size && !s->pending)
                        return SESSION_DETACHED;
                if (s->signal != 0 && !s->leaving)
                        return SESSION_ABANDONED;
                if (!s->answered && patience(s) == 0) {
                        s->signal = s->asked;
                        leave(s);
                        (void)write_socket(s); /* whether it is taken or not: the end of the connection says the same */
                        return SESSION_DETACHED;
                }
        }
        return s->leaving ? SESSION_DETACHED : SESSION_ANSWERED;
}
