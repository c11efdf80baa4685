/* Attempts to leave something for the next run, and to find what another left. mark=NAME is what is left and sought. */
#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

enum { SIBLING_SECONDS = 900 };

static const char *const places[] = {"/tmp", "/dev/shm", "/home/agent", "/var/tmp", "/run", "/usr/local/bin", "/etc"};

static const char *mark(void) {
        return probe_fact("mark") ? probe_fact("mark") : "stockade-probe-mark";
}

static int abstract_socket(bool listening) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", mark());
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && (listening ? bind(fd, (struct sockaddr *)&a, size) || listen(fd, 1)
                                  : connect(fd, (struct sockaddr *)&a, size)))
                return -errno;
        return fd;
}

/* Everything that might outlive us. */
static void leave(struct result *r) {
        char path[PATH_MAX];
        unsigned left = 0;
        int id;

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                (void)snprintf(path, sizeof path, "%s/%s", places[i], mark());
                int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                if (fd >= 0) {
                        left++;
                        probe_note(r, "%s", path);
                        (void)close(fd);
                }
        }
        id = shmget((key_t)probe_number("mark-key", 4711), 4096, IPC_CREAT | 0666);
        left += id >= 0;
        id = msgget((key_t)probe_number("mark-key", 4711), IPC_CREAT | 0666);
        left += id >= 0;
        left += syscall(SYS_mq_open, mark(), O_CREAT | O_RDWR, 0666, NULL) >= 0;
        left += syscall(SYS_add_key, "user", mark(), "x", 1, KEY_SPEC_USER_KEYRING) >= 0;
        left += abstract_socket(true) >= 0;
        probe_done(r, "%u things left", left);
}

/* What a run before this one left. */
static void find(struct result *r) {
        char path[PATH_MAX];
        unsigned seen = 0;

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                (void)snprintf(path, sizeof path, "%s/%s", places[i], mark());
                if (access(path, F_OK) == 0) {
                        seen++;
                        probe_note(r, "%s", path);
                }
        }
        if (shmget((key_t)probe_number("mark-key", 4711), 0, 0) >= 0) {
                seen++;
                probe_note(r, "shared memory");
        }
        if (msgget((key_t)probe_number("mark-key", 4711), 0) >= 0) {
                seen++;
                probe_note(r, "message queue");
        }
        if (syscall(SYS_mq_open, mark(), O_RDONLY, 0, NULL) >= 0) {
                seen++;
                probe_note(r, "POSIX queue");
        }
        if (syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", mark(), 0) >= 0) {
                seen++;
                probe_note(r, "key");
        }
        if (abstract_socket(false) >= 0) {
                seen++;
                probe_note(r, "abstract socket");
        }
        if (seen)
                probe_done(r, "%u things found", seen);
        else
                probe_refused(r, ENOENT, "nothing");
}

/* A daemon: two forks, a session of its own, no streams, deaf to signals. */
static void daemonise(struct result *r) {
        if (fork() == 0) {
                (void)setsid();
                if (fork() > 0)
                        _exit(0);
                (void)alarm(0);
                for (int n = 1; n < NSIG; n++)
                        (void)signal(n, SIG_IGN);
                for (int fd = 0; fd < 64; fd++)
                        (void)close(fd);
                (void)abstract_socket(true);
                probe_wait_for_end();
        }
        (void)usleep(50000);
        probe_done(r, "started");
}

/* Tells the judge that it is there, then waits to be ended: a run that is somewhere in its middle. */
static void stay(struct result *r) {
        (void)r;
        (void)alarm(0);
        for (int i = 0; i < 3; i++)
                if (fork() == 0)
                        break;
        (void)fd_write_full(STDOUT_FILENO, "here\n", 5);
        probe_wait_for_end();
}

/* The other sandbox: keeps a secret of its own in /tmp, says that it is there, and waits. Harmless. */
static void sibling(struct result *r) {
        const char *secret = probe_fact("sibling-token"), *path = probe_fact("sibling-file");
        _cleanup_fd_ int fd = open(path ? path : "/tmp/sibling", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

        if (fd < 0 || !secret || fd_write_full(fd, secret, strlen(secret)) < 0) {
                probe_note(r, "cannot keep a secret here: %s", strerror(errno));
                return;
        }
        (void)alarm(SIBLING_SECONDS); /* a judge that was killed does not leave it for ever */
        (void)fd_write_full(STDOUT_FILENO, "here\n", 5);
        for (;;)
                (void)sleep(100);
}

const struct attempt persistence_attempts[] = {
        {"leave", leave, GUARDED}, {"find", find, 0},       {"daemonise", daemonise, 0},
        {"stay", stay, 0},         {"sibling", sibling, 0}, {0},
};
