/* Starts and ends the judge's daemon; daemon.h is the contract.
 *
 * Three processes have a part in it. The supervisor prepares; the judge, in its world, starts the daemon; the
 * undertaker, which the keys of a terminal do not reach, waits on a pipe for the supervisor's end and then has the
 * daemon end with all sandboxes. It finds the daemon by its socket, and by the number that the daemon's process wrote
 * before anything else. What is shown to sandboxes is in a tmpfs of the world's own mount namespace: the set-user-ID
 * copy of the attacker is never where other users of the host could execute it. */
#include "verify/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "verify/judge.h"
#include "verify/launch-private.h"

#define STEM "/var/tmp/stockade-verify-" /* as the sweep of what judges left knows it: STEM, user, number */

enum { UP_MS = 60000, END_MS = 20000, STEP_MS = 20, NOBODY = 65534, CONF_MAX = 64 << 10 };

/* --- before the world --- */

static int make_folder(struct daemon *d, struct err *err) {
        uint64_t number;
        char path[sizeof d->folder + 16];

        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
                return err_set(err, -errno, "could not choose a name");
        (void)snprintf(d->folder, sizeof d->folder, STEM "%u-%016llx", geteuid(), (unsigned long long)number);
        if (mkdir(d->folder, 0755) < 0 || chmod(d->folder, 0755) < 0) {
                int r = err_set(err, -errno, "could not make '%s'", d->folder);
                d->folder[0] = '\0';
                return r;
        }
        d->manifest = world_files_manifest(d->folder, err);
        if (d->manifest < 0)
                return d->manifest;
        (void)snprintf(path, sizeof path, "%s/shown", d->folder);
        if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
                return err_set(err, -errno, "could not make '%s'", path);
        (void)snprintf(d->socket, sizeof d->socket, "%s/state/run/operator.sock", d->folder);
        (void)snprintf(d->probe, sizeof d->probe, "%s/shown/probe", d->folder);
        return 0;
}

/* What the host's daemon shows, and what the judge shows; and of the host's configuration what is about this driver. */
static void make_conf(const struct judge *j, const char *usual, struct buf *ret) {
        char prefix[32];

        (void)snprintf(prefix, sizeof prefix, "%s_", j->options.driver);
        buf_printf(ret, "listen = none\npool = 0\ndrivers = %s\nceiling_whole_tree = yes\n", j->options.driver);
        for (const char *line = usual; line && *line;) {
                size_t n = strcspn(line, "\n");

                if (str_starts(line, "ceiling_read = "))
                        buf_printf(ret, "%.*s %s/shown\n", (int)n, line, j->daemon.folder);
                else if (str_starts(line, prefix))
                        buf_printf(ret, "%.*s\n", (int)n, line);
                line += n + (line[n] == '\n');
        }
}

static int write_conf(const struct judge *j, struct err *err) {
        const char *const argv[] = {j->launcher, "up", "--print-config", NULL};
        const struct daemon *d = &j->daemon;
        _cleanup_buf_ struct buf usual = {.max = CONF_MAX}, conf = {0};
        char path[sizeof d->folder + 16];

        int r = ask_program(argv, &usual, err);
        if (r < 0)
                return err_prefix(err, r, "no daemon can be started");
        make_conf(j, usual.data, &conf);
        (void)snprintf(path, sizeof path, "%s/conf", d->folder);
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        r = fd < 0 ? -errno : buf_ok(&conf) ? fd_write_full(fd, conf.data, conf.size) : -ENOMEM;
        return r < 0 ? err_set(err, r, "could not write '%s'", path) : 0;
}

/* --- the undertaker --- */

/* The daemon's process, if it ever was; -EBADF: it is gone. */
static int find_daemon(const struct daemon *d) {
        char path[sizeof d->folder + 16], text[32] = "";

        (void)snprintf(path, sizeof path, "%s/pid", d->folder);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return -EBADF;
        int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(text, NULL, 10), 0);
        char words[4096] = "";
        (void)snprintf(path, sizeof path, "/proc/%.12s/cmdline", text);
        ssize_t n = pidfd < 0 ? 0 : fd_read_at(AT_FDCWD, path, words, sizeof words);
        if (n > 0 && memmem(words, (size_t)n, d->folder, strlen(d->folder)))
                return pidfd;
        fd_close(&pidfd);
        return -EBADF;
}

static bool ends_within(int pidfd, int ms) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};

        return poll(&p, 1, ms) > 0;
}

/* `stockade down --stop-sandboxes`, to its end. */
static void ask_to_end(const struct judge *j) {
        const char *const argv[] = {j->launcher, "down", "--stop-sandboxes", NULL};
        pid_t pid = fork();

        if (pid == 0) {
                (void)setenv("STOCKADE_SOCKET", j->daemon.socket, 1);
                (void)execv(argv[0], (char *const *)(uintptr_t)argv);
                _exit(127);
        }
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

_noreturn_ static void undertake(const struct judge *j, int pipe) {
        char byte;

        while (read(pipe, &byte, 1) < 0 && errno == EINTR)
                ;
        _cleanup_fd_ int pidfd = find_daemon(&j->daemon);
        if (pidfd >= 0) {
                ask_to_end(j);
                if (!ends_within(pidfd, END_MS))
                        (void)kernel_pidfd_send_signal(pidfd, SIGTERM, NULL);
                if (!ends_within(pidfd, END_MS))
                        (void)kernel_pidfd_send_signal(pidfd, SIGKILL, NULL);
        }
        world_remove_tree(j->daemon.folder);
        _exit(0);
}

static int start_undertaker(struct judge *j, struct err *err) {
        struct daemon *d = &j->daemon;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        d->undertaker_pid = fork();
        if (d->undertaker_pid == 0) {
                sigset_t all;

                (void)close(ends[1]);
                (void)setsid();
                (void)sigfillset(&all);
                (void)sigprocmask(SIG_SETMASK, &all, NULL);
                int null = open("/dev/null", O_RDWR | O_CLOEXEC);
                for (int i = 0; i < 3; i++)
                        (void)dup2(null, i);
                undertake(j, ends[0]);
        }
        (void)close(ends[0]);
        d->undertaker = ends[1];
        return d->undertaker_pid < 0 ? err_set(err, -errno, "could not start who ends the daemon") : 0;
}

int daemon_prepare(struct judge *j, struct err *err) {
        struct daemon *d = &j->daemon;

        *d = (struct daemon){.manifest = -EBADF, .undertaker = -EBADF};
        if (geteuid() != 0) {
                (void)err_set(err, ERR_REFUSED, "sandboxes of driver %s need a daemon that is root", j->options.driver);
                return err_hint(err, "as root: stockade verify --driver %s", j->options.driver);
        }
        int r = make_folder(d, err);
        if (r == 0)
                r = write_conf(j, err);
        if (r == 0)
                r = start_undertaker(j, err);
        if (r < 0 && d->folder[0])
                world_remove_tree(d->folder);
        return r;
}

void daemon_end(struct judge *j) {
        struct daemon *d = &j->daemon;

        if (d->undertaker_pid <= 0)
                return;
        fd_close(&d->undertaker);
        while (waitpid(d->undertaker_pid, NULL, 0) < 0 && errno == EINTR)
                ;
        d->undertaker_pid = 0;
}

/* --- in the world --- */

/* The attacker and its set-user-ID copy, for sandboxes and nobody else. */
static int show_files(struct judge *j, struct err *err) {
        struct daemon *d = &j->daemon;
        char place[sizeof d->folder + 16], setid[sizeof d->setid];

        (void)snprintf(place, sizeof place, "%s/shown", d->folder);
        (void)snprintf(setid, sizeof setid, "%s/setid", place);
        if (mount("tmpfs", place, "tmpfs", MS_NODEV, "mode=0755,size=64m") < 0)
                return err_set(err, -errno, "could not mount a tmpfs at '%s'", place);
        int r = world_copy_file(j->probe, d->probe, 0, 0755);
        if (r < 0)
                return err_set(err, r, "could not copy the attacker to '%s'", d->probe);
        if (j->world.setid[0] && world_copy_file(j->probe, setid, NOBODY, 04755) == 0)
                memcpy(d->setid, setid, sizeof setid);
        return 0;
}

/* In the child: nothing of the judge's but its environment for launches. */
_noreturn_ static void become_daemon(const struct daemon *d, const char *const argv[], char **env, int log) {
        char path[sizeof d->folder + 16], number[16];
        sigset_t none;

        (void)snprintf(path, sizeof path, "%s/pid", d->folder);
        int n = snprintf(number, sizeof number, "%d", (int)getpid());
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || null < 0 || write(fd, number, (size_t)n) != n)
                _exit(127);
        (void)setsid();
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(log, STDOUT_FILENO);
        (void)dup2(log, STDERR_FILENO);
        (void)kernel_close_range(3, ~0U, 0);
        (void)execve(argv[0], (char *const *)(uintptr_t)argv, env);
        _exit(127);
}

/* The last line of its log: what it has to say about its end. */
static void last_words(const char *path, char *ret, size_t size) {
        _cleanup_free_ char *text = NULL;
        size_t length = 0;

        ret[0] = '\0';
        if (fd_read_file(AT_FDCWD, path, 1 << 20, false, &text, &length, NULL) < 0)
                return;
        while (length > 0 && text[length - 1] == '\n')
                text[--length] = '\0';
        const char *line = strrchr(text, '\n');
        (void)snprintf(ret, size, "%.300s", line ? line + 1 : text);
}

static bool answers(const struct judge *j) {
        const char *const argv[] = {j->launcher, "health", "--socket", j->daemon.socket, NULL};
        _cleanup_buf_ struct buf said = {.max = CONF_MAX};
        struct stat st;

        return stat(j->daemon.socket, &st) == 0 && ask_program(argv, &said, NULL) == 0;
}

static int wait_until_up(const struct judge *j, const char *log, struct err *err) {
        char said[320];

        for (int waited = 0; waited < UP_MS; waited += STEP_MS) {
                if (answers(j))
                        return 0;
                if (waitpid(j->daemon.pid, NULL, WNOHANG) != 0)
                        break;
                (void)poll(NULL, 0, STEP_MS);
        }
        last_words(log, said, sizeof said);
        (void)err_set(err, ERR_REFUSED, "the daemon for driver %s does not come up%s%s", j->options.driver,
                      said[0] ? ": " : "", said);
        return err_hint(err, "'stockade doctor' says what this driver needs here");
}

int daemon_start(struct judge *j, struct err *err) {
        struct daemon *d = &j->daemon;
        char state[sizeof d->folder + 16], conf[sizeof d->folder + 16], log[sizeof d->folder + 16];
        const char *const argv[] = {j->launcher, "up", "--state", state, "--config", conf, NULL};
        const struct launch none = {0};
        _cleanup_words_ struct words env = {0};

        (void)snprintf(state, sizeof state, "%s/state", d->folder);
        (void)snprintf(conf, sizeof conf, "%s/conf", d->folder);
        (void)snprintf(log, sizeof log, "%s/log", d->folder);
        int r = show_files(j, err);
        if (r == 0)
                r = launch_environment(j, &none, &env, err);
        if (r < 0)
                return r;
        _cleanup_fd_ int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (out < 0)
                return err_set(err, -errno, "could not make '%s'", log);
        d->pid = fork();
        if (d->pid == 0)
                become_daemon(d, argv, env.list, out);
        if (d->pid < 0)
                return err_set(err, -errno, "could not start a daemon");
        return wait_until_up(j, log, err);
}
