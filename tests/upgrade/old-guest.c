/* The guest protocol of version 1 as it was first released (docs/protocol/guest.md), written down by hand: a guest of
 * an old build, which an operator of today has to go on working with. It uses none of our files on purpose, and is not
 * to be changed when the protocol grows.
 *
 * It does the least that a guest of version 1 did: runs with pipes, signals, input, output with windows, attaching
 * after a new connection. Every request about files and ports is answered by an error. VERSION and FEATURES are what it
 * says of itself. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION 1U
#endif
#ifndef FEATURES
#define FEATURES 0U
#endif

enum { HEAD = 16, PAYLOAD_MAX = 262144, WINDOW = 65536, RUNS = 64, KEPT = 1 << 20, DESCRIPTORS = 8 };
enum {
        HELLO = 1,
        CREDIT = 3,
        EXEC = 16,
        INPUT,
        INPUT_END,
        SIGNAL,
        RESIZE,
        ATTACH,
        FORGET,
        LIST_RUNS,
        STAT = 32,
        CANCEL = 46
};
enum { STARTED = 64, OUTPUT = 65, EXITED = 66, RUN = 67, END = 72 };

struct stream {
        int fd; /* -1: at its end */
        uint8_t *kept;
        uint64_t end, sent, credit;
        bool attached;
};

struct run {
        uint32_t number; /* 0: free */
        pid_t pid;
        int in;
        bool ended, told, with_input;
        int status, error;
        uint64_t taken;
        struct stream out[2];
};

static struct run runs[RUNS];
static int peer = -1;
static uint8_t frame[HEAD + PAYLOAD_MAX];

/* --- writing -------------------------------------------------------------------------------------------------- */

static uint8_t message[HEAD + 4096 + WINDOW];
static size_t used;

static void number(uint64_t value, size_t size) {
        for (size_t i = 0; i < size; i++)
                message[used++] = (uint8_t)(value >> (8 * i));
}

static void begin(uint16_t kind, uint32_t channel, uint32_t flags) {
        used = 4;
        number(kind, 2);
        number(0, 2);
        number(channel, 4);
        number(flags, 4);
}

static void text(const char *s) {
        number(strlen(s), 4);
        memcpy(message + used, s, strlen(s) + 1);
        used += strlen(s) + 1;
}

static void say(void) {
        size_t size = used - HEAD, done = 0, whole = used;

        used = 0;
        number(size, 4);
        while (peer >= 0 && done < whole) {
                ssize_t n = send(peer, message + done, whole - done, MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        (void)close(peer);
                        peer = -1;
                        return;
                }
                done += (size_t)n;
        }
}

static void say_end(uint32_t request, int error, const char *why) {
        begin(END, request, 0);
        number((uint32_t)error, 4);
        for (int i = 0; i < 4; i++)
                number(0, 8);
        text(why);
        say();
}

/* --- runs ----------------------------------------------------------------------------------------------------- */

static struct run *find(uint32_t run) {
        for (size_t i = 0; i < RUNS; i++)
                if (runs[i].number == run && run != 0)
                        return &runs[i];
        return NULL;
}

static void say_exited(struct run *r) {
        bool over = r->ended && r->out[0].fd < 0 && r->out[1].fd < 0;
        bool all = r->out[0].attached && r->out[1].attached && r->out[0].sent == r->out[0].end &&
                   r->out[1].sent == r->out[1].end;

        if (!over || !all || r->told || peer < 0)
                return;
        r->told = true;
        begin(EXITED, r->number, 0);
        number((uint32_t)r->status, 4);
        number((uint32_t)r->error, 4);
        for (int i = 0; i < 3; i++)
                number(0, 8);
        number(r->out[0].end, 8);
        number(r->out[1].end, 8);
        number(0, 8);
        text(r->error ? "it could not be executed" : "");
        say();
}

static void say_output(struct run *r, uint32_t which) {
        struct stream *s = &r->out[which];

        while (peer >= 0 && s->attached && s->sent < s->end && s->sent < s->credit + WINDOW) {
                uint64_t n = s->end - s->sent, room = s->credit + WINDOW - s->sent;

                n = n > room ? room : n;
                n = n > 32768 ? 32768 : n;
                begin(OUTPUT, r->number, 0);
                number(which, 4);
                number(s->sent, 8);
                memcpy(message + used, s->kept + s->sent, (size_t)n);
                used += (size_t)n;
                s->sent += n;
                say();
        }
}

static void say_run(uint32_t request, const struct run *r) {
        begin(RUN, request, (r->with_input ? 2U : 0U) | (r->ended ? 32U : 0U));
        number(r->number, 4);
        number((uint32_t)(r->ended ? r->status : (int)r->pid), 4);
        number((uint32_t)r->error, 4);
        number(r->taken, 8);
        number(r->taken, 8);
        for (int i = 0; i < 3 + 3; i++)
                number(0, 8); /* usage, and the oldest bytes */
        number(r->out[0].end, 8);
        number(r->out[1].end, 8);
        number(0, 8);
        say();
}

static uint64_t read_number(const uint8_t **p, size_t size) {
        uint64_t value = 0;

        for (size_t i = 0; i < size; i++)
                value |= (uint64_t)(*p)[i] << (8 * i);
        *p += size;
        return value;
}

static char *read_text(const uint8_t **p) {
        uint64_t size = read_number(p, 4);
        const uint8_t *at = *p;

        *p += size + 1;
        return (char *)(uintptr_t)at;
}

static void child(char **argv, char **envp, const char *cwd, const int *fds, size_t count, int in, int out, int err) {
        const char *path = "/usr/local/bin:/usr/bin:/bin";
        char name[4096];

        for (size_t i = 0; i < count; i++)
                if (write(fds[i], "0", 1) != 1)
                        _exit(126);
        (void)setsid();
        if ((cwd[0] && chdir(cwd) < 0) || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
                _exit(126);
        for (int fd = 3; fd < 256; fd++)
                (void)close(fd);
        for (char **e = envp; *e; e++)
                if (strncmp(*e, "PATH=", 5) == 0)
                        path = *e + 5;
        if (strchr(argv[0], '/'))
                (void)execve(argv[0], argv, envp);
        else
                while (*path) {
                        size_t n = strcspn(path, ":");
                        (void)snprintf(name, sizeof name, "%.*s/%s", (int)n, path, argv[0]);
                        (void)execve(name, argv, envp);
                        path += n + (path[n] == ':');
                }
        _exit(127);
}

static void start(uint32_t run, uint32_t flags, const uint8_t *p, const int *fds, size_t count) {
        static char *argv[1025], *envp[1025];
        struct run *r = NULL;
        int in[2], out[2], err[2];

        for (size_t i = 0; i < RUNS && !r; i++)
                if (runs[i].number == 0)
                        r = &runs[i];
        (void)read_number(&p, 2); /* rows, columns, how many descriptors */
        (void)read_number(&p, 2);
        (void)read_number(&p, 4);
        const char *cwd = read_text(&p);
        uint64_t argc = read_number(&p, 4), envc = read_number(&p, 4);
        for (uint64_t i = 0; i < argc; i++)
                argv[i] = read_text(&p);
        for (uint64_t i = 0; i < envc; i++)
                envp[i] = read_text(&p);
        argv[argc] = envp[envc] = NULL;
        if (!r || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
                exit(1);
        *r = (struct run){.number = run, .in = in[1], .with_input = flags & 2};
        r->out[0] = (struct stream){.fd = out[0], .kept = malloc(KEPT), .attached = true};
        r->out[1] = (struct stream){.fd = err[0], .kept = malloc(KEPT), .attached = true};
        r->pid = fork();
        if (r->pid == 0)
                child(argv, envp, cwd, fds, count, in[0], out[1], err[1]);
        (void)close(in[0]);
        (void)close(out[1]);
        (void)close(err[1]);
        if (!r->with_input) {
                (void)close(r->in);
                r->in = -1;
        }
        begin(STARTED, run, 0);
        number((uint32_t)r->pid, 4);
        say();
}

static void take_input(struct run *r, const uint8_t *bytes, size_t size) {
        if (r->in >= 0 && write(r->in, bytes, size) < 0) {
                (void)close(r->in);
                r->in = -1;
        }
        r->taken += size;
        begin(CREDIT, r->number, 0);
        number(3, 4);
        number(r->taken, 8);
        say();
}

/* --- frames --------------------------------------------------------------------------------------------------- */

static void take(uint16_t kind, uint32_t channel, uint32_t flags, const uint8_t *p, size_t size, const int *fds,
                 size_t count) {
        struct run *r = find(channel);
        uint64_t which, offset;

        if (kind == EXEC)
                start(channel, flags, p, fds, count);
        else if (kind == LIST_RUNS) {
                for (size_t i = 0; i < RUNS; i++)
                        if (runs[i].number)
                                say_run(channel, &runs[i]);
                say_end(channel, 0, "");
        } else if (kind >= STAT && kind < CANCEL && kind != 45)
                say_end(channel, -EOPNOTSUPP, "this guest is too old for that");
        else if (!r)
                return;
        else if (kind == INPUT)
                take_input(r, p, size);
        else if (kind == INPUT_END && r->in >= 0) {
                (void)close(r->in);
                r->in = -1;
        } else if (kind == SIGNAL && !r->ended)
                (void)kill(flags & 16 ? -r->pid : r->pid, (int)read_number(&p, 4));
        else if (kind == FORGET && r->ended) {
                free(r->out[0].kept);
                free(r->out[1].kept);
                *r = (struct run){0};
        } else if (kind == CREDIT || kind == ATTACH) {
                which = read_number(&p, 4);
                offset = read_number(&p, 8);
                if (which > 1)
                        return;
                if (kind == ATTACH) {
                        r->out[which].attached = true;
                        r->out[which].sent = offset < r->out[which].end ? offset : r->out[which].end;
                }
                r->out[which].credit = offset;
        }
}

static bool read_exactly(uint8_t *to, size_t size, int *fds, size_t *count) {
        while (size > 0) {
                char control[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
                struct iovec part = {to, size};
                struct msghdr h = {
                        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
                ssize_t n = recvmsg(peer, &h, MSG_CMSG_CLOEXEC);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return false;
                const struct cmsghdr *c = CMSG_FIRSTHDR(&h);
                if (c && c->cmsg_type == SCM_RIGHTS) {
                        *count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                        memcpy(fds, CMSG_DATA(c), *count * sizeof(int));
                }
                to += n;
                size -= (size_t)n;
        }
        return true;
}

static void take_frame(void) {
        const uint8_t *p = frame;
        int fds[DESCRIPTORS];
        size_t count = 0;

        if (!read_exactly(frame, HEAD, fds, &count)) {
                (void)close(peer);
                peer = -1;
                return;
        }
        uint32_t size = (uint32_t)read_number(&p, 4);
        uint16_t kind = (uint16_t)read_number(&p, 2);
        (void)read_number(&p, 2);
        uint32_t channel = (uint32_t)read_number(&p, 4), flags = (uint32_t)read_number(&p, 4);
        if (size <= PAYLOAD_MAX && read_exactly(frame + HEAD, size, fds, &count))
                take(kind, channel, flags, frame + HEAD, size, fds, count);
        for (size_t i = 0; i < count; i++)
                (void)close(fds[i]);
}

static void take_connection(void) {
        int fd = accept4(4, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
                return;
        if (peer >= 0)
                (void)close(peer);
        peer = fd;
        for (size_t i = 0; i < RUNS; i++)
                runs[i].out[0].attached = runs[i].out[1].attached = runs[i].told = false;
        begin(HELLO, 0, 0);
        number(VERSION, 4);
        number(FEATURES, 4);
        say();
}

static void take_output(struct stream *s) {
        ssize_t n = s->end < KEPT ? read(s->fd, s->kept + s->end, (size_t)(KEPT - s->end)) : 0;

        if (n > 0) {
                s->end += (uint64_t)n;
                return;
        }
        (void)close(s->fd);
        s->fd = -1;
}

static void reap(void) {
        int status;

        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
                for (size_t i = 0; i < RUNS; i++)
                        if (runs[i].number && runs[i].pid == pid) {
                                runs[i].ended = true;
                                runs[i].status = status;
                        }
}

int main(void) {
        const uint32_t serving[5] = {7};
        char byte;

        if (read(3, &byte, 1) != 1)
                return 0;
        (void)send(3, serving, sizeof serving, MSG_NOSIGNAL);
        (void)close(3);
        (void)fcntl(4, F_SETFL, O_NONBLOCK);
        (void)signal(SIGPIPE, SIG_IGN);
        for (;;) {
                struct pollfd p[2 + 2 * RUNS];
                size_t n = 0;

                p[n++] = (struct pollfd){.fd = 4, .events = POLLIN};
                p[n++] = (struct pollfd){.fd = peer, .events = POLLIN};
                for (size_t i = 0; i < RUNS; i++)
                        for (size_t k = 0; k < 2; k++)
                                p[n++] = (struct pollfd){.fd = runs[i].number ? runs[i].out[k].fd : -1,
                                                         .events = POLLIN};
                (void)poll(p, n, 20);
                reap();
                for (size_t i = 0; i < RUNS; i++)
                        for (size_t k = 0; k < 2; k++)
                                if (p[2 + 2 * i + k].revents && runs[i].number && runs[i].out[k].fd >= 0)
                                        take_output(&runs[i].out[k]);
                if (p[0].revents)
                        take_connection();
                else if (p[1].revents)
                        take_frame();
                for (size_t i = 0; i < RUNS; i++)
                        if (runs[i].number) {
                                say_output(&runs[i], 0);
                                say_output(&runs[i], 1);
                                say_exited(&runs[i]);
                        }
        }
}
