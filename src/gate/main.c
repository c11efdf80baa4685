/* stockade-gate: the only way out of a sandbox. Started by whoever runs sandboxes, with a control socket as descriptor
 * 3; everything from outside that it ever reads, it reads after it has locked itself in. */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/knockout.h"
#include "gate/accept.h"
#include "gate/confine.h"
#include "gate/control.h"
#include "gate/flow.h"
#include "gate/names.h"
#include "gate/own.h"
#include "gate/tap.h"

static bool parse_id(const char *text, uint32_t *ret) {
        char *end;

        errno = 0;
        unsigned long v = strtoul(text, &end, 10);
        if (errno || *end || text[0] < '0' || text[0] > '9' || v == 0 || v >= UINT32_MAX)
                return false;
        *ret = (uint32_t)v;
        return true;
}

static int read_options(int argc, char **argv, struct confine *c, bool *ret_tls, struct err *err) {
        static const struct option options[] = {
                {"uid", required_argument, NULL, 'u'},
                {"gid", required_argument, NULL, 'g'},
                {"tls", no_argument, NULL, 't'},
                {NULL, 0, NULL, 0},
        };
        int o;

        opterr = 0;
        while ((o = getopt_long(argc, argv, "", options, NULL)) >= 0) {
                if (o == 't')
                        *ret_tls = true;
                else if ((o != 'u' && o != 'g') || !parse_id(optarg, o == 'u' ? &c->uid : &c->gid))
                        return err_set(err, ERR_INPUT,
                                       "usage: stockade-gate [--uid N --gid N] [--tls], with a socket as descriptor 3");
        }
        if (optind < argc)
                return err_set(err, ERR_INPUT, "stockade-gate takes no arguments");
        if (geteuid() == 0 && (!c->uid || !c->gid))
                return err_set(err, ERR_REFUSED, "a gate does not run as root: --uid and --gid are missing");
        return 0;
}

/* Descriptors that others left open are closed, the limit of our own is raised. */
static int prepare(struct err *err) {
        struct rlimit limit;
        struct tm tm;
        time_t zero = 0;

        if (syscall(SYS_close_range, GATE_FD + 1, ~0U, 0) < 0)
                return err_set(err, -errno, "cannot close other descriptors");
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return err_set(err, -errno, "cannot read the limit of open files");
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                return err_set(err, -errno, "cannot raise the limit of open files");
        if (fcntl(GATE_FD, F_SETFD, FD_CLOEXEC) < 0)
                return err_set(err, -errno, "descriptor %d is not the control socket", GATE_FD);
        /* what a terminal sends is meant for the command; our end is that of the control socket */
        static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTSTP};
        for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
                (void)signal(ignored[i], SIG_IGN);
        (void)gmtime_r(&zero, &tm); /* reads the time zone's file once, while there is one */
        return 0;
}

static int start(int argc, char **argv, struct err *err) {
        struct confine c = {0};
        bool tls = false;
        int r;

        if ((r = read_options(argc, argv, &c, &tls, err)) < 0 || (r = prepare(err)) < 0 ||
            (r = control_init(err)) < 0 || (r = loop_init(err)) < 0 || (r = resolve_init(err)) < 0 ||
            (r = own_init(err)) < 0 || (tls && (r = tls_load(err)) < 0) || (r = flow_init(err)) < 0 ||
            (r = pool_init(err)) < 0)
                return r;
        accept_init();
        names_init();
        tap_init();
        /* what is to be said is said on the control socket: the caller's stderr may be a file that can be rewritten */
        if (dup2(STDIN_FILENO, STDERR_FILENO) < 0)
                return err_set(err, -errno, "cannot let go of standard error");
        if ((r = confine(&c, err)) < 0)
                return r;
        return control_listen(err);
}

int main(int argc, char **argv) {
        struct err err = {0};

        knockout_read();
        if (start(argc, argv, &err) < 0)
                control_fail(&err);
        struct gate_message ready = {.kind = GATE_READY};
        (void)control_send(&ready);
        loop_run();
}
