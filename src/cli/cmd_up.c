/* `stockade up`, `down`, `health`: the daemon itself.
 *
 * up starts stockaded and waits until its socket answers; in the foreground it then stays until the daemon ends, with
 * --detach it leaves it running. Sandboxes are nobody's children: they outlive both. down asks the daemon to end, and
 * waits until it has. */
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/fd.h"
#include "base/json-read.h"
#include "base/paths.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/tell.h"

#define SYSTEM_STATE "/var/lib/stockade"
#define SYSTEM_RUN   "/run/stockade"
#define LOG_NAME     "daemon.log"
#define CONFIG_NAME  "stockade.conf"

enum { UP_MS = 20000, DOWN_MS = 60000, STEP_MS = 20, USUAL_PORT = 7070, NEAR_PORTS = 32 };

struct options {
        struct args_common common;
        const char *state, *config;
        bool detach, print_config, stop;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option up_options[] = {
        {"state", 0, "DIR", "where it keeps everything", ARGS_TEXT, AT(state), NULL, WHAT_FILE},
        {"config", 'c', "FILE", "its configuration, see stockade.conf(5)", ARGS_TEXT, AT(config), NULL, WHAT_FILE},
        {"detach", 'd', NULL, "leave it running in the background", ARGS_FLAG, AT(detach)},
        {"print-config", 0, NULL, "print the configuration that would be in force, and end", ARGS_FLAG,
         AT(print_config)},
};

const struct args_verb up_verb = {
        .name = "up",
        .words = "",
        .summary = "start the daemon",
        .about = "Starts the daemon and says where it listens; it needs no installation and no configuration. As root "
                 "it "
                 "offers everything; as an ordinary user sandboxes run as that user, without disks and images.\n\n"
                 "Everything is kept in one folder: --state, else $STOCKADE_STATE, else ./.stockade if it is there, "
                 "else "
                 "/var/lib/stockade for root and ~/.local/state/stockade for others.\n\n"
                 "The configuration is --config, else stockade.conf in that folder if it was named, else the one of "
                 "the host or the user, see stockade.conf(5). Where there is none, one is written into the folder: it "
                 "opens the web app on this machine alone, and the link that is printed signs you in.",
        .flags = ARGS_LOCAL,
        .options = up_options,
        .count = ELEMENTSOF(up_options),
};

static const struct args_option down_options[] = {
        {"stop-sandboxes", 0, NULL, "stop the sandboxes first; otherwise they go on", ARGS_FLAG, AT(stop)},
};

const struct args_verb down_verb = {
        .name = "down",
        .words = "",
        .summary = "end the daemon",
        .about = "Ends the daemon and waits until it has ended. Sandboxes go on, and the next 'stockade up' takes them "
                 "over, "
                 "unless --stop-sandboxes ends them too.",
        .options = down_options,
        .count = ELEMENTSOF(down_options),
};

const struct args_verb health_verb = {
        .name = "health",
        .words = "",
        .summary = "say whether the daemon and its parts are well",
        .about = "Ends with 0 if all is well, with 1 if not.",
        .flags = ARGS_JSON,
};

/* --- where ---------------------------------------------------------------------------------------------------- */

struct where {
        char state[PATH_MAX], run[PATH_MAX], socket[PATH_MAX], log[PATH_MAX];
        bool named; /* the folder: not the usual one */
        char config[PATH_MAX];
        bool config_is_own; /* in the state folder: made if it is not there */
};

static int absolute(const char *path, char *ret, struct err *err) {
        char cwd[PATH_MAX] = "";
        int n = path[0] == '/' || getcwd(cwd, sizeof cwd)
                        ? snprintf(ret, PATH_MAX, "%s%s%s", path[0] == '/' ? "" : cwd, path[0] == '/' ? "" : "/", path)
                        : -1;
        return n < 0 || n >= PATH_MAX ? err_set(err, -ENAMETOOLONG, "cannot use the folder '%.200s'", path) : 0;
}

static int find_state(const struct options *o, struct where *w, struct err *err) {
        const char *named = o->state ? o->state : getenv("STOCKADE_STATE");
        struct stat st;

        w->named = true;
        if (named && named[0])
                return absolute(named, w->state, err);
        if (stat(".stockade", &st) == 0 && S_ISDIR(st.st_mode))
                return absolute(".stockade", w->state, err);
        w->named = false;
        int r = paths_state_name("", false, w->state, sizeof w->state);
        if (r < 0) {
                (void)err_set(err, r, "cannot tell where to keep the state");
                return err_hint(err, "name a folder: stockade up --state DIR");
        }
        w->state[strlen(w->state) - 1] = '\0'; /* the slash before the empty name */
        return 0;
}

/* Where the usual folder's configuration is, if there is one; "" otherwise. */
static void find_usual_config(struct where *w) {
        const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

        if (geteuid() == 0)
                (void)snprintf(w->config, sizeof w->config, "/etc/stockade/stockade.conf");
        else if (xdg && xdg[0] == '/')
                (void)snprintf(w->config, sizeof w->config, "%s/stockade/stockade.conf", xdg);
        else if (home && home[0] == '/')
                (void)snprintf(w->config, sizeof w->config, "%s/.config/stockade/stockade.conf", home);
        if (access(w->config, F_OK) < 0)
                w->config[0] = '\0';
}

/* The one that is in a folder that was named, else the usual one, else one that is made in the folder. */
static int find_config(const struct options *o, struct where *w, struct err *err) {
        char own[PATH_MAX];
        struct stat st;

        if (o->config)
                return absolute(o->config, w->config, err);
        int n = snprintf(own, sizeof own, "%s/" CONFIG_NAME, w->state);
        if (n >= PATH_MAX)
                return err_set(err, -ENAMETOOLONG, "cannot use the folder '%.200s'", w->state);
        if (!w->named || lstat(own, &st) < 0)
                find_usual_config(w);
        if (!w->config[0]) {
                w->config_is_own = true;
                memcpy(w->config, own, sizeof own);
        }
        return 0;
}

static int find(const struct options *o, struct where *w, struct err *err) {
        int r = find_state(o, w, err);

        if (r == 0)
                r = find_config(o, w, err);
        if (r < 0)
                return r;
        /* the system's own daemon has its socket where everybody looks for it */
        int n = str_eq(w->state, SYSTEM_STATE) ? snprintf(w->run, sizeof w->run, SYSTEM_RUN)
                                               : snprintf(w->run, sizeof w->run, "%s/run", w->state);
        int m = snprintf(w->socket, sizeof w->socket, "%s/" LOCAL_SOCKET, w->run);
        int k = snprintf(w->log, sizeof w->log, "%s/" LOG_NAME, w->state);
        if (n >= PATH_MAX || m >= (int)sizeof((struct talk *)0)->socket || k >= PATH_MAX) {
                (void)err_set(err, -ENAMETOOLONG, "cannot put a socket into '%.200s'", w->run);
                return err_hint(err, "a socket's name has fewer than 108 bytes: choose a shorter folder");
        }
        return 0;
}

/* --- the configuration ---------------------------------------------------------------------------------------- */

static void print_line(void *data, const char *text) {
        (void)data;
        (void)puts(text);
}

/* A port of this machine's loopback: the usual one or one near it, which no outgoing connection has by chance when the
 * daemon comes up again; where all are taken, any. */
static unsigned free_port(void) {
        for (unsigned i = 0; i <= NEAR_PORTS; i++) {
                struct sockaddr_in at = {.sin_family = AF_INET,
                                         .sin_port = htons(i < NEAR_PORTS ? (uint16_t)(USUAL_PORT + i) : 0),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
                socklen_t size = sizeof at;
                int one = 1;
                _cleanup_fd_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

                (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
                if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0 &&
                    getsockname(fd, (struct sockaddr *)&at, &size) == 0)
                        return ntohs(at.sin_port);
        }
        return USUAL_PORT; /* the daemon will say what is wrong with it */
}

/* With the web app on this machine alone, unless there is one already. The folder is the daemon's to judge; here it
 * only has to be one that nobody else can put links into. */
static int make_own_config(struct where *w, struct err *err) {
        char text[256];
        struct stat st, there;

        (void)paths_make_parents(w->state);
        (void)mkdir(w->state, 0700);
        _cleanup_fd_ int dir = open(w->state, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir < 0 || fstat(dir, &st) < 0)
                return err_set(err, -errno, "cannot use the folder '%s'", w->state);
        if (fstatat(dir, CONFIG_NAME, &there, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        if (errno != ENOENT)
                return err_set(err, -errno, "cannot look at '%s'", w->config);
        if (st.st_uid != geteuid() || (st.st_mode & 022)) {
                (void)err_set(err, ERR_REFUSED, "'%s' is not ours alone", w->state);
                return err_hint(err, "others could change what the daemon keeps: name another folder with --state");
        }
        int n = snprintf(
                text, sizeof text,
                "# Made by 'stockade up': the web app and the API, on this machine alone. See stockade.conf(5)."
                "\nlisten = 127.0.0.1:%u\n",
                free_port());
        int r = fd_replace_file(dir, CONFIG_NAME, 0600, text, (size_t)n);
        return r < 0 ? err_set(err, r, "cannot write '%s'", w->config) : 0;
}

static int print_config(const struct where *w, struct err *err) {
        static struct conf c;
        bool none = w->config_is_own && access(w->config, F_OK) < 0;
        int r = conf_load(none ? NULL : w->config, &c, err);

        if (r == 0)
                conf_print(&c, print_line, NULL);
        return r;
}

/* --- starting ------------------------------------------------------------------------------------------------- */

/* Whether somebody answers at the socket; the answer stays in t. */
static bool ping(const char *socket, struct talk *t, const char **ret) {
        const struct args_common o = {.socket = socket};
        _cleanup_request_ struct talk_request q;
        struct err err;

        talk_close(t);
        t->patience = 2000;
        talk_begin(&q, "ping");
        return talk_ask(t, &o, &q, ret, &err) == 0;
}

static void to_background(struct where *w) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), log = -1;

        (void)setsid();
        (void)paths_make_parents(w->state);
        (void)mkdir(w->state, 0700); /* what is not ours is refused by the daemon */
        log = open(w->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(log >= 0 ? log : null, STDOUT_FILENO);
        (void)dup2(log >= 0 ? log : null, STDERR_FILENO);
}

static pid_t start(struct where *w, bool detach, struct err *err) {
        char program[PATH_MAX];
        const char *argv[] = {program, "--state", w->state, "--run", w->run, "--config", w->config, NULL};

        int r = paths_helper("stockaded", program, sizeof program, err);
        if (r < 0)
                return r;
        (void)fflush(NULL);
        pid_t pid = fork();
        if (pid < 0)
                return err_set(err, -errno, "could not start the daemon");
        if (pid == 0) {
                sigset_t none;

                (void)sigemptyset(&none);
                if (detach)
                        to_background(w);
                (void)sigprocmask(SIG_SETMASK, &none, NULL);
                (void)execv(program, (char *const *)(uintptr_t)argv);
                (void)dprintf(STDERR_FILENO, "stockade: cannot execute '%s': %s\n", program, strerror(errno));
                _exit(EXIT_FAILED);
        }
        return pid;
}

/* The end of the daemon's log, for somebody who wonders why it did not start. */
static void show_log(const struct where *w, off_t from) {
        char text[4096];
        _cleanup_fd_ int fd = open(w->log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text, from);

        if (n > 0)
                (void)write(STDERR_FILENO, text, (size_t)n);
}

static off_t log_size(const struct where *w) {
        struct stat st;

        return stat(w->log, &st) == 0 ? st.st_size : 0;
}

static void say_where(const struct where *w, const char *answer, bool detach) {
        const struct args_common none = {0};
        char mode[32], place[PATH_MAX];
        uint64_t sandboxes = tell_number(answer, "sandboxes");
        bool usual = false;
        struct stat own, other;

        /* will others find it without being told? */
        for (size_t i = 0; talk_place(&none, i, place, sizeof place) && !usual; i++)
                if (place[0] && stat(place, &other) == 0 && stat(w->socket, &own) == 0) {
                        usual = other.st_ino == own.st_ino && other.st_dev == own.st_dev;
                        break;
                }
        (void)printf("stockade is up (%s); its state is in %s\n", tell_text(mode, sizeof mode, answer, "mode"),
                     w->state);
        if (sandboxes != UINT64_MAX && sandboxes > 0)
                (void)printf("  %llu sandboxes were there already: stockade list\n", (unsigned long long)sandboxes);
        if (!usual)
                (void)printf("  first:  export STOCKADE_SOCKET=%s\n", w->socket);
        (void)printf("  try:    stockade create --name first --profile medium\n"
                     "          stockade exec first -- id\n"
                     "          stockade shell first\n"
                     "  end:    %s\n",
                     detach ? "stockade down (sandboxes go on; --stop-sandboxes ends them too)"
                            : "Ctrl-C, or stockade down (sandboxes go on; --stop-sandboxes ends them too)");
        if (detach)
                (void)printf("  log:    %s\n", w->log);
        (void)fflush(stdout);
}

/* Where the API is, with a link that signs whoever started this in, once. False: there is none. */
static bool say_sign_in(const char *socket) {
        const struct args_common o = {.socket = socket};
        _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = 2000};
        _cleanup_request_ struct talk_request q;
        const char *answer;
        char url[512] = "";
        struct err err;

        talk_begin(&q, "sign-in");
        if (talk_ask(&t, &o, &q, &answer, &err) < 0 || !tell_text(url, sizeof url, answer, "url")[0])
                return false;
        (void)printf("  web:    %s\n          (signs you in, once, within ten minutes)\n", url);
        (void)fflush(stdout);
        return true;
}

/* Until the socket answers, the daemon ends, or it takes too long. 0, or what became of it. */
static int wait_up(const struct where *w, pid_t pid, int signals, struct talk *t, const char **answer,
                   struct err *err) {
        uint64_t until = tell_clock() + UP_MS;
        struct signalfd_siginfo info;
        int status;

        while (tell_clock() < until) {
                struct pollfd p = {.fd = signals, .events = POLLIN};

                if (ping(w->socket, t, answer))
                        return 0;
                if (waitpid(pid, &status, WNOHANG) == pid) {
                        (void)err_set(err, ERR_REFUSED, "the daemon did not start");
                        return err_hint(err, "its own words are above; 'stockade doctor' says what this host can do");
                }
                if (poll(&p, 1, STEP_MS) > 0 && read(signals, &info, sizeof info) == (ssize_t)sizeof info &&
                    info.ssi_signo != SIGCHLD) {
                        (void)kill(pid, SIGTERM);
                        return err_set(err, -EINTR, "told to end before the daemon was up");
                }
        }
        (void)kill(pid, SIGTERM);
        return err_set(err, -ETIMEDOUT, "the daemon runs, but does not answer at '%s'", w->socket);
}

/* In the foreground: until the daemon ends. Signals that we get are for it; from the terminal's keys it has them
 * itself. */
static int stay(pid_t pid, int signals) {
        struct signalfd_siginfo info;
        int status = 0;

        while (waitpid(pid, &status, WNOHANG) != pid)
                if (read(signals, &info, sizeof info) == (ssize_t)sizeof info && info.ssi_signo != SIGCHLD &&
                    info.ssi_code != SI_KERNEL)
                        (void)kill(pid, SIGTERM);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int block_signals(void) {
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGHUP);
        (void)sigaddset(&set, SIGQUIT);
        (void)sigaddset(&set, SIGCHLD);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        return signalfd(-1, &set, SFD_CLOEXEC);
}

int cmd_up(int argc, char **argv) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        static struct where w;
        static struct conf c;
        struct options o = {0};
        struct err err = {0};
        const char *answer;
        int status;

        if (!client_begin(&up_verb, &argc, argv, &o, &status))
                return status;
        int r = find(&o, &w, &err);
        if (r == 0 && o.print_config) {
                r = print_config(&w, &err);
                return r < 0 ? talk_failed(NULL, &o.common, &err) : 0;
        }
        if (r == 0 && ping(w.socket, &t, &answer)) {
                (void)printf("stockade is up already; its socket is %s\n", w.socket);
                talk_close(&t);
                (void)say_sign_in(w.socket);
                return 0;
        }
        if (r == 0 && w.config_is_own)
                r = make_own_config(&w, &err);
        if (r == 0) /* wrong words are better said here than in a log */
                r = conf_load(w.config, &c, &err);
        if (r < 0)
                return talk_failed(NULL, &o.common, &err);
        _cleanup_fd_ int signals = block_signals();
        off_t logged = log_size(&w);
        pid_t pid = start(&w, o.detach, &err);
        r = pid < 0 ? pid : wait_up(&w, pid, signals, &t, &answer, &err);
        if (r < 0) {
                if (o.detach)
                        show_log(&w, logged);
                return talk_failed(NULL, &o.common, &err);
        }
        say_where(&w, answer, o.detach);
        talk_close(&t);
        if (!say_sign_in(w.socket) && c.listen.count > 0) {
                (void)printf("  web:    not open: the log says why ('listen' in %s)\n", w.config);
                (void)fflush(stdout);
        }
        return o.detach ? 0 : stay(pid, signals);
}

/* --- ending --------------------------------------------------------------------------------------------------- */

/* Nobody but us or root can have written what it says: it may lie in a folder of somebody who wants root to end a
 * process for him. */
static bool trusted(char *path, const struct stat *lock) {
        struct stat folder;

        *strrchr(path, '/') = '\0';
        if (lstat(path, &folder) < 0)
                return false;
        return (lock->st_uid == geteuid() || lock->st_uid == 0) && !(lock->st_mode & 022) &&
               (folder.st_uid == geteuid() || folder.st_uid == 0) && !(folder.st_mode & 022);
}

/* Whether that process is a daemon of ours and has a lock on that file, as the kernel knows it. */
static bool holds(long pid, ino_t file) {
        char path[64], exe[PATH_MAX], line[256];
        bool found = false;

        if (pid <= 1 || pid > INT_MAX)
                return false;
        (void)snprintf(path, sizeof path, "/proc/%ld/exe", pid);
        ssize_t n = readlink(path, exe, sizeof exe - 1);
        if (n < 0)
                return false;
        exe[n] = '\0';
        const char *name = strrchr(exe, '/');
        if (!name || !str_starts(name, "/stockaded"))
                return false;
        FILE *locks = fopen("/proc/locks", "re");
        while (locks && !found && fgets(line, sizeof line, locks)) {
                unsigned long long inode = 0;
                long holder = 0;

                found = sscanf(line, "%*s FLOCK %*s %*s %ld %*x:%*x:%llu", &holder, &inode) == 2 && holder == pid &&
                        inode == file;
        }
        if (locks)
                (void)fclose(locks);
        return found;
}

/* Who has the lock beside this socket: 1 somebody, with the daemon's pid if it is beyond doubt (0: not), 0 nobody. */
static int locked(const char *socket, pid_t *ret_pid) {
        char path[PATH_MAX], text[32] = "";
        const char *slash = strrchr(socket, '/');
        struct stat st;
        long text_pid;

        *ret_pid = 0;
        (void)snprintf(path, sizeof path, "%.*s/lock", slash ? (int)(slash - socket) : 1, slash ? socket : ".");
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -EINVAL;
        if (flock(fd, LOCK_SH | LOCK_NB) == 0)
                return 0;
        if (trusted(path, &st) && pread(fd, text, sizeof text - 1, 0) > 0 &&
            holds(text_pid = strtol(text, NULL, 10), st.st_ino))
                *ret_pid = (pid_t)text_pid;
        return 1;
}

/* Waits until nobody holds the lock, or, where we may not look at it, until nobody answers. */
static int wait_down(const char *socket, struct err *err) {
        uint64_t until = tell_clock() + DOWN_MS;
        pid_t pid;

        while (tell_clock() < until) {
                _cleanup_talk_ struct talk t = {.fd = -EBADF};
                const char *answer;
                int r = locked(socket, &pid);

                if (r == 0 || (r < 0 && !ping(socket, &t, &answer)))
                        return 0;
                (void)poll(NULL, 0, STEP_MS);
        }
        return err_set(err, -ETIMEDOUT, "the daemon was told to end, and has not");
}

/* No answer, but somebody has the lock: it hangs, or is starting. */
static int end_by_signal(const struct options *o, char *socket, size_t size, struct err *err) {
        pid_t pid = 0;

        for (size_t i = 0; talk_place(&o->common, i, socket, size); i++)
                if (socket[0] && locked(socket, &pid) > 0) {
                        if (pid <= 1) {
                                (void)err_set(err, ERR_REFUSED,
                                              "somebody has the lock beside '%s', but it is not certain who", socket);
                                return err_hint(err, "if it is a daemon of yours, end it by a signal");
                        }
                        if (kill(pid, SIGTERM) < 0)
                                return err_set(err, -errno,
                                               "the daemon (process %d) does not answer, and cannot be ended",
                                               (int)pid);
                        return 1;
                }
        return 0;
}

int cmd_down(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = DOWN_MS};
        struct options o = {0};
        struct err err = {0};
        const char *answer;
        char socket[sizeof t.socket];
        int status;

        if (!client_begin(&down_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "down");
        if (o.stop)
                json_bool(&q.json, "stop", true);
        int r = talk_ask(&t, &o.common, &q, &answer, &err);
        memcpy(socket, t.socket, sizeof socket);
        if (r == -ENOENT) {
                r = end_by_signal(&o, socket, sizeof socket, &err);
                if (r == 0) {
                        (void)puts("no daemon is running");
                        return 0;
                }
        }
        if (r >= 0)
                r = wait_down(socket, &err);
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        (void)puts("stockade is down");
        if (str_starts(socket, "/run/stockade/"))
                (void)puts("the service stays down until 'systemctl start stockade', or the next boot");
        return 0;
}

/* --- health --------------------------------------------------------------------------------------------------- */

int cmd_health(int argc, char **argv) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF, .patience = 10000};
        struct options o = {0};
        struct err err = {0};
        struct json_walk w;
        const char *answer;
        char key[64], text[512];
        bool ok = false, good;
        int status;

        if (!client_begin(&health_verb, &argc, argv, &o, &status))
                return status;
        talk_begin(&q, "health");
        if (talk_ask(&t, &o.common, &q, &answer, &err) < 0)
                return talk_failed(&t, &o.common, &err);
        (void)json_find_bool(answer, "ok", &ok);
        if (o.common.json)
                talk_print(answer);
        else if (json_walk_begin(&w, answer, ""))
                while (json_walk_next(&w)) {
                        if (!json_walk_key(&w, key, sizeof key) || str_eq(key, "ok"))
                                continue;
                        if (str_eq(key, "incomplete")) {
                                if (json_find_bool(w.value, "", &good) && good)
                                        (void)puts("store      some of it could not be read; the log says what");
                                continue;
                        }
                        if (json_find_bool(w.value, "", &good))
                                (void)printf("%-10s %s\n", key, good ? "well" : "NOT WELL");
                        else if (!strchr("[{", json_find_kind(w.value, "")))
                                (void)printf("%-10s %s\n", key, tell_text(text, sizeof text, w.value, ""));
                }
        if (!o.common.json)
                (void)puts(ok ? "all is well" : "something is wrong");
        return ok ? 0 : EXIT_FOUND;
}
