/* stockaded: the warden's beginning and end. See warden.h. */
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/knockout.h"
#include "base/log.h"
#include "base/paths.h"
#include "cell/ids.h"
#include "warden/warden.h"

static const char usage_text[] =
        "Usage: stockaded [--state DIR] [--run DIR] [--config FILE]\n"
        "The warden: starts sandboxes for the operator, which it starts. 'stockade up' starts it.\n\n"
        "  --state DIR      where disks, records and the operator's files are kept\n"
        "  --run DIR        where the sockets are (default: run/ in the state folder)\n"
        "  --config FILE    stockade.conf\n"
        "  --operator FILE  another program as the operator\n"
        "  --boxes DIR      where the programs of drivers are\n"
        "  --help, --version\n";

static struct warden warden;

/* 0: go on; 1: end well; below: end badly. */
static int parse(struct warden *w, int argc, char **argv, struct err *err) {
        static const struct option options[] = {
                {"state", required_argument, NULL, 's'},  {"run", required_argument, NULL, 'r'},
                {"config", required_argument, NULL, 'c'}, {"operator", required_argument, NULL, 'o'},
                {"boxes", required_argument, NULL, 'b'},  {"help", no_argument, NULL, 'h'},
                {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0}};
        const struct {
                int letter;
                char *path;
        } paths[] = {{'s', w->state_path}, {'r', w->run_path}, {'c', w->config_path}};
        int o;

        while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
                for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                        if (paths[i].letter == o && snprintf(paths[i].path, PATH_MAX, "%s", optarg) >= PATH_MAX)
                                return err_set(err, ERR_INPUT, "a path has more than %d bytes", PATH_MAX - 1);
                if (o == 'o')
                        w->operator_program = optarg;
                if (o == 'b')
                        w->boxes = optarg;
                if (o == 'h')
                        (void)fputs(usage_text, stdout);
                if (o == 'V')
                        (void)puts("stockaded " STOCKADE_VERSION KNOCKOUT_VERSION);
                if (o == 'h' || o == 'V')
                        return 1;
                if (o == '?')
                        return err_set(err, ERR_INPUT, "'stockaded --help' shows what there is");
        }
        if (optind < argc)
                return err_set(err, ERR_INPUT, "'%s' is more than is understood", argv[optind]);
        if (!w->state_path[0]) {
                int r = paths_state_name("", false, w->state_path, PATH_MAX);
                if (r < 0)
                        return err_set(err, r, "cannot tell where to keep things: --state is needed");
        }
        return 0;
}

/* Three descriptors are taken, whatever we were started with: nothing of ours ever has one of their numbers. */
static void fill_streams(void) {
        int fd;

        do
                fd = open("/dev/null", O_RDWR);
        while (fd >= 0 && fd <= 2);
        if (fd > 2)
                (void)close(fd);
}

static void raise_descriptors(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &limit);
        }
}

/* --- signals --- */

static struct loop_watch signals;

static void signalled(struct loop_watch *watch, uint32_t events) {
        struct signalfd_siginfo info;

        (void)events;
        while (read(watch->fd, &info, sizeof info) == (ssize_t)sizeof info)
                if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
                        operator_end(&warden, false);
}

/* Children are waited for by whoever started them, each through its own descriptor. */
static int watch_signals(struct warden *w, struct err *err) {
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGINT);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return err_set(err, -errno, "cannot block signals");
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGHUP, SIG_IGN); /* the terminal we were started from may go */
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return err_set(err, -errno, "cannot make a descriptor for signals");
        signals.ready = signalled;
        int r = loop_watch(w->loop, &signals, fd, EPOLLIN);
        return r < 0 ? err_set(err, r, "cannot watch for signals") : 0;
}

static int open_all(struct warden *w, struct err *err) {
        enum log_level level = LOG_LEVEL_INFO;

        int r = conf_load(w->config_path[0] ? w->config_path : NULL, &w->conf, err);
        if (r == 0) {
                (void)log_level_parse(w->conf.log_level, &level);
                log_open("warden", level);
                r = state_open(w, err);
        }
        if (r == 0)
                r = loop_create(&w->loop, err);
        if (r == 0)
                r = watch_signals(w, err);
        if (r == 0)
                r = ceiling_open(&w->ceiling, &w->conf, w->state_path, w->run_path, err);
        if (r == 0 && !w->rootless) {
                w->ids = ids_open(err);
                r = MIN(w->ids, 0);
        }
        if (r == 0 && !w->rootless)
                r = volumes_open(&w->volumes, w->state, err);
        if (r == 0)
                r = adopt_all(w, err);
        if (r == 0)
                r = state_listen(w, err);
        if (r == 0) {
                listen_open(w);
                ssh_open(w);
        }
        return r;
}

static void init(struct warden *w) {
        w->rootless = geteuid() != 0;
        w->state = w->run = w->sandboxes = w->trees = w->lock = -EBADF;
        w->ids = w->link = w->listener = w->operator_pidfd = w->operator_lock = w->certificate.link = -EBADF;
}

int main(int argc, char **argv) {
        struct warden *w = &warden;
        struct err err = {0};

        fill_streams();
        (void)umask(022);
        knockout_read();
        init(w);
        int r = parse(w, argc, argv, &err);
        if (r > 0)
                return 0;
#ifdef STOCKADE_TEST_BUILD
        knockout_say();
#endif
        raise_descriptors();
        if (!w->rootless)
                (void)setgroups(0, NULL); /* whatever we do for root, we do not do for somebody's group */
        if (r == 0)
                r = open_all(w, &err);
        if (r < 0) {
                err_print(&err);
                return 1;
        }
        if (!w->rootless)
                disks_reclaim(w);
        state_watch_space(w);
        operator_start(w);
        ssh_start(w);
        r = loop_run(w->loop);
        if (r < 0) {
                log_line(LOG_LEVEL_ERROR, NULL, "the loop broke: %s", err_name(r));
                return 1;
        }
        volumes_close(w->volumes);
        return 0;
}
