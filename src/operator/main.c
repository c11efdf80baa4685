/* stockade-operator: started by the warden, with the descriptors that operator.h names. It locks itself in, opens its
 * ledger and its store, says hello, takes over what is there, and serves until the warden says that it is enough or is
 * gone. It executes nothing and starts no process. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/kernel.h"
#include "base/log.h"
#include "operator/confine.h"
#include "operator/gate-link.h"
#include "operator/server.h"
#include "operator/sick.h"
#include "operator/ssh-door.h"
#include "operator/warden-link.h"

#define END_MS 5000 /* a disk that does not answer may not hold up the end for longer */

static struct core self = {.local = OPERATOR_LOCAL_FD,
                           .state = OPERATOR_STATE_FD,
                           .secret = -EBADF,
                           .front = &api_front,
                           .ssh_front = &ssh_front,
                           .ssh_link = -EBADF,
                           .tls_link = -EBADF};

/* --- the end --- */

static struct durable last;
static struct loop_timer patience;

static void stop_now(struct loop_timer *t) {
        (void)t;
        log_line(LOG_LEVEL_WARNING, NULL, "the disk does not answer: ending all the same");
        loop_stop(self.loop);
}

static void all_durable(struct durable *d, int error) {
        (void)d;
        if (error < 0)
                log_line(LOG_LEVEL_ERROR, NULL, "the end could not be recorded: %s", err_name(error));
        loop_stop(self.loop);
}

void operator_end(struct core *o) {
        if (o->ended)
                return;
        o->ended = o->draining = true;
        server_drain(o);
        int64_t seq = ledger_append(o->ledger, LEDGER_DAEMON_END, "", "operator", "{}");
        last = (struct durable){.seq = seq > 0 ? (uint64_t)seq : 0, .done = all_durable};
        patience.fire = stop_now;
        loop_timer_set(o->loop, &patience, loop_now(o->loop) + END_MS);
        durable_wait(o, &last);
}

/* --- the beginning --- */

static int prepare(struct core *o, struct err *err) {
        static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTSTP};
        enum log_level level = LOG_LEVEL_INFO;
        struct stat st;

        log_open("operator", level);
        (void)umask(077);
        for (size_t i = 0; i < ELEMENTSOF(ignored); i++) /* a terminal's keys are for the warden */
                (void)signal(ignored[i], SIG_IGN);
        (void)mallopt(M_ARENA_MAX, 2); /* one for the loop, one for both writers */
        (void)mallopt(M_TRIM_THRESHOLD, 256 * 1024);
        for (int fd = OPERATOR_WARDEN_FD; fd <= OPERATOR_CONF_FD; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
                        (void)err_set(err, -errno, "descriptor %d is missing", fd);
                        return err_hint(err, "stockade-operator is started by stockaded: use 'stockade up'");
                }
        if (fcntl(OPERATOR_SECRET_FD, F_SETFD, FD_CLOEXEC) == 0)
                o->secret = OPERATOR_SECRET_FD;
        for (int fd = OPERATOR_LISTEN_FD; o->door_count < OPERATOR_LISTEN_MAX; fd++) {
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        break;
                o->doors[o->door_count++] = fd;
        }
        if (fcntl(OPERATOR_SSH_FD, F_SETFD, FD_CLOEXEC) == 0)
                o->ssh_link = OPERATOR_SSH_FD;
        if (fcntl(OPERATOR_TLS_FD, F_SETFD, FD_CLOEXEC) == 0)
                o->tls_link = OPERATOR_TLS_FD;
        (void)kernel_close_range(OPERATOR_TLS_FD + 1, ~0U, 0);
        int r = conf_load_fd(OPERATOR_CONF_FD, "stockade.conf", &o->conf, err);
        (void)close(OPERATOR_CONF_FD);
        if (r < 0)
                return r;
        if (log_level_parse(o->conf.log_level, &level))
                log_open("operator", level);
        if (fstat(o->state, &st) < 0 || !S_ISDIR(st.st_mode) || fchdir(o->state) < 0)
                return err_set(err, -ENOTDIR, "descriptor %d is not the operator's folder", o->state);
        o->own_uid = geteuid();
        return loop_create(&o->loop, err);
}

static int open_ledger(struct core *o, struct err *err) {
        const char *slow = getenv("STOCKADE_SLOW_FSYNC"); /* milliseconds, for tests */
        struct ledger_options options = {.slow_fsync_ms = slow ? (unsigned)strtoul(slow, NULL, 10) : 0};

        if (mkdirat(o->state, "ledger", 0700) < 0 && errno != EEXIST)
                return err_set(err, -errno, "could not make the ledger's folder");
        options.dir = openat(o->state, "ledger", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (options.dir < 0)
                return err_set(err, -errno, "could not open the ledger's folder");
        int r = ledger_open(&o->ledger, &options, err);
        (void)close(options.dir);
        return r;
}

static int record_start(struct core *o, struct err *err) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "version", STOCKADE_VERSION);
        json_bool(&j, "rootless", o->rootless);
        json_close(&j, '}');
        int64_t r = buf_ok(&b) ? ledger_append(o->ledger, LEDGER_DAEMON_START, "", "operator", b.data) : -ENOMEM;
        if (r < 0 && o->conf.require_recording)
                return err_set(err, (int)r, "the start could not be recorded");
        return 0;
}

static void hello(void *data, const struct warden_message *a, int *fds, size_t fd_count) {
        struct core *o = data;
        struct err err = {0};

        (void)fds;
        (void)fd_count;
        int r = a->error < 0 ? err_set(&err, a->error, "the warden refuses us: %s", a->text) : 0;
        if (r == 0 && a->version != WARDEN_VERSION)
                r = err_set(&err, -EPROTO, "the warden speaks version %u, and we speak %u", a->version, WARDEN_VERSION);
        if (r == 0) {
                o->rootless = a->flags & WARDEN_ROOTLESS;
                o->no_freeze = a->flags & WARDEN_NO_FREEZE;
                memcpy(o->facts, a->numbers, sizeof o->facts);
                (void)snprintf(o->guest, sizeof o->guest, "%s", a->text);
                r = record_start(o, &err);
        }
        if (r == 0)
                r = life_start(o, &err);
        if (r < 0) {
                log_err(LOG_LEVEL_ERROR, NULL, &err);
                o->failed = true;
                loop_stop(o->loop);
        }
}

static int begin(struct core *o, struct err *err) {
        struct warden_message m = {.kind = WARDEN_HELLO, .version = WARDEN_VERSION};
        int r;

        if ((r = prepare(o, err)) < 0 || (r = confine(o->state, err)) < 0 || (r = open_ledger(o, err)) < 0 ||
            (r = store_open(&o->store, ".", err)) < 0 || (r = durable_open(o, err)) < 0 ||
            (r = warden_link_open(o, OPERATOR_WARDEN_FD, err)) < 0)
                return r;
        r = warden_call(o, &m, NULL, 0, hello, o);
        return r < 0 ? err_set(err, r, "could not talk to the warden") : 0;
}

static void finish(struct core *o) {
        if (o->loop)
                loop_timer_clear(o->loop, &patience);
        server_close(o);
        if (o->registry)
                life_end(o);
        gate_link_close(o);
        durable_close(o);
        store_close(o->store);
        ledger_close(o->ledger);
        warden_link_close(o); /* last: the end of its socket is the end of us, for the warden */
        loop_destroy(o->loop);
}

int main(int argc, char **argv) {
        struct core *o = &self;
        struct err err = {0};

        if (argc == 2 && str_eq(argv[1], "--routes")) {
                o->front->print();
                return 0;
        }
        int r = begin(o, &err);

        if (r == 0) {
                r = loop_run(o->loop);
                if (r < 0)
                        (void)err_set(&err, r, "the loop ended");
        }
        if (r < 0)
                log_err(LOG_LEVEL_ERROR, NULL, &err);
        if (r < 0 && !o->server && o->loop)
                sick_answer(o->local, OPERATOR_WARDEN_FD, &err);
        finish(o);
        _exit(r < 0 || o->failed); /* what libraries do at the end is not worth a system call more in the list */
}
