/* Channels: what clients ask for in one, and how bytes go through it. */
#include "ssh/lane.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/kernel.h"
#include "base/text.h"
#include "ssh/session.h"
#include "ssh/sftp.h"

#define PIECE       (32U * 1024)
#define TURNS       16 /* pieces of one channel at a time */
#define ENV_MAX     32
#define ENV_SIZE    4096
#define FAILED      125 /* exit status of what could not be begun, as of our command line */
#define SIGNAL_BASE 128

static const struct {
        int number;
        const char *name;
} signals[] = {{SIGHUP, "HUP"},   {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},   {SIGABRT, "ABRT"},
               {SIGFPE, "FPE"},   {SIGKILL, "KILL"}, {SIGSEGV, "SEGV"}, {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"},
               {SIGTERM, "TERM"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};

/* --- what clients ask for --- */

static uint16_t extent(int n, uint16_t otherwise) {
        return n < 1 ? otherwise : (uint16_t)MIN(n, LOCAL_EXTENT_MAX);
}

static int on_pty(ssh_session ssh, ssh_channel channel, const char *term, int cols, int rows, int px, int py,
                  void *data) {
        struct lane *c = data;

        (void)ssh, (void)channel, (void)px, (void)py;
        if (c->kind != LANE_NONE || !text_is_utf8(term))
                return SSH_ERROR;
        c->tty = true;
        c->rows = extent(rows, 24);
        c->cols = extent(cols, 80);
        (void)snprintf(c->term, sizeof c->term, "%s", strlen(term) < sizeof c->term ? term : "xterm");
        return SSH_OK;
}

static void control(struct lane *c, const char *format, int a, int b) {
        char text[64];
        int n = b < 0 ? snprintf(text, sizeof text, "{\"%s\":%d}", format, a)
                      : snprintf(text, sizeof text, "{\"%s\":[%d,%d]}", format, a, b);

        if (c->kind == LANE_RUN && c->stream.fd >= 0 && door_room(&c->stream))
                (void)door_put(&c->stream, LOCAL_CONTROL, text, (size_t)n);
}

static int on_resize(ssh_session ssh, ssh_channel channel, int cols, int rows, int px, int py, void *data) {
        struct lane *c = data;

        (void)ssh, (void)channel, (void)px, (void)py;
        if (!c->tty)
                return SSH_ERROR;
        c->rows = extent(rows, c->rows);
        c->cols = extent(cols, c->cols);
        control(c, "resize", c->rows, c->cols);
        return SSH_OK;
}

static void on_signal(ssh_session ssh, ssh_channel channel, const char *name, void *data) {
        (void)ssh, (void)channel;
        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                if (str_eq(signals[i].name, name))
                        control(data, "signal", signals[i].number, -1);
}

/* LANG and LC_*, and nothing else: what a client may say of its own accord. */
static int on_env(ssh_session ssh, ssh_channel channel, const char *name, const char *value, void *data) {
        struct lane *c = data;
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";

        (void)ssh, (void)channel;
        bool ours = str_eq(name, "LANG") || (strncmp(name, "LC_", 3) == 0 && name[strspn(name, letters)] == '\0');
        if (!ours || c->kind != LANE_NONE || c->env_count == ENV_MAX || !text_is_utf8(value) ||
            c->env.size + strlen(name) + strlen(value) + 2 > ENV_SIZE)
                return SSH_ERROR;
        buf_add(&c->env, name, strlen(name) + 1);
        buf_add(&c->env, value, strlen(value) + 1);
        c->env_count++;
        return buf_ok(&c->env) ? SSH_OK : SSH_ERROR;
}

static void add_environment(const struct lane *c, struct door_request *q) {
        const char *at = c->env.data;

        json_open(&q->json, "env", '{');
        for (unsigned i = 0; i < c->env_count; i++) {
                const char *value = at + strlen(at) + 1;
                const char *again = value + strlen(value) + 1;
                bool repeated = false;

                for (unsigned k = i + 1; k < c->env_count; k++) { /* of two settings the later counts */
                        repeated |= str_eq(again, at);
                        again += strlen(again) + 1;
                        again += strlen(again) + 1;
                }
                if (!repeated)
                        json_str(&q->json, at, value);
                at = value + strlen(value) + 1;
        }
        if (c->tty && c->term[0])
                json_str(&q->json, "TERM", c->term);
        json_close(&q->json, '}');
}

/* A shell, or a command for one. */
static int begin_run(struct lane *c, const char *command) {
        static const char shell[] = "exec \"$(command -v bash || echo /bin/sh)\" -l";
        struct door_request q;

        if (c->kind != LANE_NONE || (command && !text_is_utf8(command)))
                return SSH_ERROR;
        door_begin(&q, &c->session->door, "exec");
        json_open(&q.json, "argv", '[');
        json_str(&q.json, NULL, "/bin/sh");
        json_str(&q.json, NULL, "-c");
        json_str(&q.json, NULL, command ? command : shell);
        json_close(&q.json, ']');
        add_environment(c, &q);
        json_bool(&q.json, "stdin", true);
        if (c->tty) {
                json_bool(&q.json, "tty", true);
                json_u64(&q.json, "rows", c->rows);
                json_u64(&q.json, "cols", c->cols);
        }
        if (door_go(&q, &c->stream) < 0)
                return SSH_ERROR;
        c->kind = LANE_RUN;
        session_note(c->session, command ? "exec" : "shell", command);
        return SSH_OK;
}

static int on_shell(ssh_session ssh, ssh_channel channel, void *data) {
        (void)ssh, (void)channel;
        return begin_run(data, NULL);
}

static int on_exec(ssh_session ssh, ssh_channel channel, const char *command, void *data) {
        (void)ssh, (void)channel;
        return begin_run(data, command);
}

/* A process of its own, which waits where it likes: it has its end of the socket, the link, and nothing else. */
static int on_subsystem(ssh_session ssh, ssh_channel channel, const char *name, void *data) {
        struct lane *c = data;
        int ends[2];

        (void)ssh, (void)channel;
        if (c->kind != LANE_NONE || !str_eq(name, "sftp") ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return SSH_ERROR;
        c->piece = malloc(PIECE);
        c->rest = malloc(PIECE);
        pid_t pid = c->piece && c->rest ? fork() : -1;
        if (pid == 0) {
                if (dup2(ends[1], STDIN_FILENO) < 0 || kernel_close_range(DOOR_LINK_FD + 1, ~0U, 0) < 0)
                        _exit(1);
                _exit(sftp_serve(STDIN_FILENO, &c->session->door) < 0);
        }
        (void)close(ends[1]);
        if (pid < 0) {
                (void)close(ends[0]);
                return SSH_ERROR;
        }
        c->sftp = ends[0];
        c->kind = LANE_SFTP;
        session_note(c->session, "sftp", NULL);
        return SSH_OK;
}

/* libssh takes packets in whenever it is called, for whichever channel they are: none may be forgotten until the next
 * one comes. What comes stays in its buffer. */
static int on_data(ssh_session ssh, ssh_channel channel, void *bytes, uint32_t size, int errors, void *data) {
        struct lane *c = data;

        (void)ssh, (void)channel, (void)bytes, (void)size, (void)errors;
        c->more = true;
        return 0;
}

static void on_end(ssh_session ssh, ssh_channel channel, void *data) {
        struct lane *c = data;

        (void)ssh, (void)channel;
        c->more = true;
}

int lane_port(struct lane *c, unsigned port) {
        struct door_request q;
        char text[32];

        door_begin(&q, &c->session->door, "connect");
        json_u64(&q.json, "port", port);
        int r = door_go(&q, &c->stream);
        if (r < 0)
                return r;
        c->kind = LANE_PORT;
        (void)snprintf(text, sizeof text, "localhost:%u", port);
        session_note(c->session, "forward", text);
        return 0;
}

int lane_open(struct session *s, ssh_channel ssh, struct lane **ret) {
        struct lane *c = s->channels;

        while (c < s->channels + SESSION_CHANNELS && c->ssh)
                c++;
        if (c == s->channels + SESSION_CHANNELS)
                return -EMFILE;
        *c = (struct lane){.session = s, .ssh = ssh, .stream.fd = -EBADF, .sftp = -EBADF};
        c->callbacks = (struct ssh_channel_callbacks_struct){
                .userdata = c,
                .channel_pty_request_function = on_pty,
                .channel_pty_window_change_function = on_resize,
                .channel_shell_request_function = on_shell,
                .channel_exec_request_function = on_exec,
                .channel_subsystem_request_function = on_subsystem,
                .channel_env_request_function = on_env,
                .channel_signal_function = on_signal,
                .channel_data_function = on_data,
                .channel_eof_function = on_end,
                .channel_close_function = on_end,
        };
        ssh_callbacks_init(&c->callbacks);
        if (ssh_set_channel_callbacks(ssh, &c->callbacks) != SSH_OK) {
                c->ssh = NULL;
                return -ENOMEM;
        }
        *ret = c;
        return 0;
}

/* What still runs hears that its terminal is gone. */
void lane_close(struct lane *c) {
        if (!c->over)
                control(c, "signal", SIGHUP, -1);
        if (c->stream.fd >= 0)
                (void)door_flush(&c->stream);
        door_close(&c->stream);
        fd_close(&c->sftp);
        buf_free(&c->env);
        free(c->piece);
        free(c->rest);
        if (ssh_channel_is_open(c->ssh)) {
                (void)ssh_channel_send_eof(c->ssh);
                (void)ssh_channel_close(c->ssh);
        }
        (void)ssh_remove_channel_callbacks(c->ssh, &c->callbacks);
        ssh_channel_free(c->ssh);
        *c = (struct lane){.stream.fd = -EBADF, .sftp = -EBADF};
}

/* --- bytes --- */

/* As many as the client's window takes, unless its socket is full already: what it does not read stays where it is. */
static ssize_t give(struct lane *c, const uint8_t *data, size_t size, bool errors) {
        size_t window = ssh_channel_window_size(c->ssh);
        uint32_t n = (uint32_t)MIN(MIN(size, window), (size_t)PIECE);

        if (n == 0 || (ssh_get_poll_flags(c->session->ssh) & SSH_WRITE_PENDING))
                return 0;
        int r = errors ? ssh_channel_write_stderr(c->ssh, data, n) : ssh_channel_write(c->ssh, data, n);
        c->refused = r == 0;
        return r < 0 ? -EPIPE : r;
}

static void end_run(struct lane *c, const struct door_frame *answer) {
        const char *text = (const char *)answer->data;
        char code[32], message[512], line[600];
        uint64_t status = FAILED, number = 0;
        const char *name = NULL;

        c->over = true;
        if (!door_good(answer, code, message)) {
                char shown[512];

                text_escape(shown, sizeof shown, message);
                int n = snprintf(line, sizeof line, "stockade: %s\r\n", shown);
                (void)ssh_channel_write_stderr(c->ssh, line, (uint32_t)MIN(n, (int)sizeof line - 1));
        } else if (json_find_u64(text, "result.signal", &number) && number > 0) {
                for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                        if ((uint64_t)signals[i].number == number)
                                name = signals[i].name;
                status = SIGNAL_BASE + number;
        } else
                (void)json_find_u64(text, "result.exit_code", &status);
        if (name)
                (void)ssh_channel_request_send_exit_signal(c->ssh, name, 0, "", "");
        else
                (void)ssh_channel_request_send_exit_status(c->ssh, (int)(status & 255));
}

static void take_frame(struct lane *c) {
        bool port = c->kind == LANE_PORT;

        c->given = 0;
        switch (c->frame.kind) {
        case LOCAL_OUTPUT:
        case LOCAL_ERRORS:
                return; /* its bytes are given from now on */
        case LOCAL_ANSWER:
                if (port)
                        c->over = true;
                else
                        end_run(c, &c->frame);
                break;
        case LOCAL_FINISH:
                if (port && !c->told)
                        (void)ssh_channel_send_eof(c->ssh);
                c->told = true;
                break;
        case LOCAL_EVENT:
                c->opened = true;
                c->more = true; /* what the client sent meanwhile can go now */
                break;
        case LOCAL_REQUEST:
        case LOCAL_INPUT:
        case LOCAL_CONTROL:
        default:
                c->over = true;
        }
        c->frame.size = 0;
}

/* From the operator to the client. */
static void pump_out(struct lane *c) {
        for (unsigned turn = 0; turn < TURNS && !c->over; turn++) {
                if (c->given < c->frame.size) {
                        ssize_t n = give(c, c->frame.data + c->given, c->frame.size - c->given,
                                         c->frame.kind == LOCAL_ERRORS);
                        if (n <= 0) {
                                c->over = n < 0;
                                return;
                        }
                        c->given += (size_t)n;
                        continue;
                }
                c->frame.size = c->given = 0;
                int r = door_next(&c->stream, &c->frame);
                if (r == 0 && (r = door_fill(&c->stream)) > 0)
                        r = door_next(&c->stream, &c->frame);
                if (r > 0)
                        take_frame(c);
                else if (r < 0)
                        c->over = true;
                else
                        return;
        }
        c->more = true;
}

/* From the client to the operator. */
static void pump_in(struct lane *c) {
        static uint8_t piece[PIECE];
        bool empty = false;

        for (unsigned turn = 0; turn < TURNS && !c->finished && !empty && door_room(&c->stream); turn++) {
                int n = ssh_channel_read_nonblocking(c->ssh, piece, sizeof piece, 0);

                if (n > 0 && door_put(&c->stream, LOCAL_INPUT, piece, (size_t)n) == 0)
                        continue;
                empty = true;
                c->over |= n > 0; /* no memory: what cannot be kept may not be missing in the middle */
                if (n == SSH_EOF || (n == 0 && ssh_channel_is_eof(c->ssh)) || n == SSH_ERROR) {
                        c->finished = true;
                        (void)door_put(&c->stream, LOCAL_FINISH, NULL, 0);
                }
        }
        if (door_waiting(&c->stream) && door_flush(&c->stream) < 0) { /* the answer, if there is one, says why */
                c->finished = true;
                c->stream.sent = c->stream.out.size = 0;
        }
        c->more |= !empty && !c->finished && door_room(&c->stream);
}

/* The same for a subsystem, whose bytes are its own. */
static void pump_sftp_out(struct lane *c) {
        for (unsigned turn = 0; turn < TURNS && !c->over; turn++) {
                if (c->piece_at == c->piece_size) {
                        ssize_t n = recv(c->sftp, c->piece, PIECE, MSG_DONTWAIT);

                        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                                return;
                        if (n <= 0) {
                                (void)ssh_channel_request_send_exit_status(c->ssh, 0);
                                c->over = true;
                                return;
                        }
                        c->piece_size = (size_t)n;
                        c->piece_at = 0;
                }
                ssize_t n = give(c, c->piece + c->piece_at, c->piece_size - c->piece_at, false);
                if (n <= 0) {
                        c->over = n < 0;
                        return;
                }
                c->piece_at += (size_t)n;
        }
        c->more = true;
}

static void pump_sftp_in(struct lane *c) {
        for (unsigned turn = 0; turn < TURNS && !c->finished; turn++) {
                if (c->rest_at == c->rest_size) {
                        int n = ssh_channel_read_nonblocking(c->ssh, c->rest, PIECE, 0);

                        if (n <= 0) {
                                c->finished = n < 0 || ssh_channel_is_eof(c->ssh);
                                if (c->finished)
                                        (void)shutdown(c->sftp, SHUT_WR);
                                return;
                        }
                        c->rest_size = (size_t)n;
                        c->rest_at = 0;
                }
                ssize_t n = send(c->sftp, c->rest + c->rest_at, c->rest_size - c->rest_at, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0) {
                        c->finished = errno != EAGAIN && errno != EINTR;
                        return;
                }
                c->rest_at += (size_t)n;
                c->more |= turn + 1 == TURNS;
        }
}

void lane_pump(struct lane *c) {
        if (ssh_channel_is_closed(c->ssh)) {
                lane_close(c);
                return;
        }
        c->more = c->refused = false;
        if (c->kind == LANE_SFTP) {
                pump_sftp_in(c);
                pump_sftp_out(c);
        } else if (c->kind != LANE_NONE) {
                if (c->kind == LANE_RUN || c->opened)
                        pump_in(c);
                pump_out(c);
        }
        if (c->over)
                lane_close(c);
}

static bool is_held(const struct lane *c) {
        return ssh_channel_window_size(c->ssh) == 0 || (ssh_get_poll_flags(c->session->ssh) & SSH_WRITE_PENDING) != 0;
}

/* The client's word that it takes more, or the end of what was being sent, may have been seen to while another channel
 * was pumped: no callback says so, and the socket has nothing left to say. */
bool lane_ready(const struct lane *c) {
        bool has = c->kind == LANE_SFTP ? c->piece_at < c->piece_size : c->given < c->frame.size;

        return c->more || (has && !c->refused && !is_held(c));
}

size_t lane_poll(struct lane *c, struct pollfd *ret) {
        bool held = is_held(c);

        if (c->kind == LANE_SFTP)
                *ret = (struct pollfd){.fd = c->sftp,
                                       .events = (short)((c->rest_at < c->rest_size ? POLLOUT : 0) |
                                                         (held && c->piece_at < c->piece_size ? 0 : POLLIN))};
        else if (c->kind != LANE_NONE)
                *ret = (struct pollfd){.fd = c->stream.fd,
                                       .events = (short)((door_waiting(&c->stream) ? POLLOUT : 0) |
                                                         (c->given < c->frame.size ? 0 : POLLIN))};
        else
                return 0;
        return ret->events ? 1 : 0;
}
