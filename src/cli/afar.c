/* Starting stockade-remote. It gets a URL as a word and a socket as its standard input, and no secret of any kind: what
 * was signed in with is its own to read. Its life is that of the socket. */
#include "cli/afar.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"

#define PROGRAM "stockade-remote"

enum { LOOK_MS = 100 };

const char *afar_server(const struct args_common *o) {
        const char *named = o->server ? o->server : getenv("STOCKADE_SERVER");

        return !o->socket && named && named[0] ? named : NULL;
}

static pid_t start(const char *server, int socket, struct err *err) {
        char program[PATH_MAX];
        const char *argv[] = {PROGRAM, "connect", server, NULL};
        int r = paths_helper(PROGRAM, program, sizeof program, err);

        if (r < 0)
                return r;
        (void)fflush(NULL);
        pid_t pid = fork();
        if (pid < 0)
                return err_set(err, -errno, "could not start " PROGRAM);
        if (pid > 0)
                return pid;
        sigset_t none;
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void)sigemptyset(&none);
        (void)setpgid(0, 0); /* keys that end us are for the far end, or for us: it ends with the socket */
        if (null >= 0 && dup2(socket, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0) {
                (void)sigprocmask(SIG_SETMASK, &none, NULL);
                (void)execv(program, (char *const *)(uintptr_t)argv);
        }
        _exit(1);
}

/* Somebody told us to end, with a signal that a session keeps for itself. */
static bool told_to_end(void) {
        sigset_t waiting;

        return sigpending(&waiting) == 0 && (sigismember(&waiting, SIGINT) > 0 || sigismember(&waiting, SIGTERM) > 0 ||
                                             sigismember(&waiting, SIGHUP) > 0);
}

/* Its first byte: whether there is a connection. */
static int hear(struct talk *t, char *ret, struct err *err) {
        for (;;) {
                struct pollfd p = {.fd = t->fd, .events = POLLIN};
                ssize_t n = poll(&p, 1, LOOK_MS) > 0 ? recv(t->fd, ret, 1, MSG_DONTWAIT) : -2;

                if (n == 1)
                        return 0;
                if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR))
                        return err_set(err, -ECONNABORTED, PROGRAM " ended without a word");
                if (told_to_end())
                        return err_set(err, -EINTR, "told to end before there was a connection");
                if (t->go_on && !t->go_on(t->go_on_data))
                        return err_set(err, -ETIMEDOUT, "there was no connection in time");
        }
}

/* Why not. */
static int refused(struct talk *t, struct err *err) {
        struct talk_frame f;
        const char *result;
        char code[sizeof t->code];
        int r = talk_next(t, &f, err);

        if (r == 0)
                r = talk_result(t, &result, err);
        memcpy(code, t->code, sizeof code);
        talk_close(t);
        memcpy(t->code, code, sizeof code);
        return str_eq(code, "no_session") ? -EKEYREJECTED : r < 0 ? r : -ECONNREFUSED;
}

int afar_connect(struct talk *t, const char *server, struct err *err) {
        char said = 'n';
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return err_set(err, -errno, "could not make a socket pair");
        _cleanup_fd_ int theirs = ends[1];
        t->fd = ends[0];
        pid_t pid = start(server, theirs, err);
        fd_close(&theirs);
        t->helper = MAX(pid, (pid_t)0);
        int r = pid < 0 ? (int)pid : hear(t, &said, err);
        if (r == 0 && said == 'y')
                return 0;
        if (r == 0)
                return refused(t, err);
        if (t->helper > 0) /* it may be waiting for somebody who never answers */
                (void)kill(t->helper, SIGTERM);
        talk_close(t);
        return r;
}

void afar_end(pid_t *helper) {
        if (*helper > 0)
                while (waitpid(*helper, NULL, 0) < 0 && errno == EINTR)
                        ;
        *helper = 0;
}

int afar_become(const char *verb, char *const *words, struct err *err) {
        char program[PATH_MAX];
        const char *argv[24] = {PROGRAM, verb};
        size_t n = 2;
        int r = paths_helper(PROGRAM, program, sizeof program, err);

        if (r < 0)
                return r;
        for (; *words && n + 1 < ELEMENTSOF(argv); words++)
                argv[n++] = *words;
        (void)fflush(NULL);
        (void)execv(program, (char *const *)(uintptr_t)argv);
        return err_set(err, -errno, "cannot execute '%s'", program);
}
