/* From the start of the cell to its end: streams, signals, reports, and the limits that are watched from outside. One
 * thread, one poll; nothing here blocks on the sandbox. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/knockout.h"
#include "cli/relay.h"

enum { PATIENCE_US = 2000000 };

struct loop {
        struct run *run;
        struct flow flows[3]; /* input, output, errors */
        int signals;
        uint64_t start_us, deadline_us, sample_us, sample_step_us;
        uint64_t patience_us; /* of a run that we ended: until then the reader may take what is still in our hands */
        bool abandoned;       /* told to end while output was still to be written */
        bool dead;            /* PID 1 of the sandbox is gone */
        bool failed;          /* a step of the plan failed */
        bool tree_seen;       /* the tree's descriptors came */
        bool exit_seen;       /* the guest said how the command ended */
        struct report failure;
        bool no_gate; /* what the gate was to do cannot be done */
        struct err gate_error;
};

static uint64_t now_us(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void send_signal(const struct run *r, int number, siginfo_t *info) {
        if (kernel_pidfd_send_signal(r->pidfd, number, info) == -ENOSYS)
                (void)kill(r->pid, number); /* not reaped yet, so the number is still its own */
}

static void kill_all(struct loop *l, enum run_reason reason) {
        struct run *r = l->run;

        l->deadline_us = l->sample_us = UINT64_MAX; /* once is enough; what is left is to wait for the end */
        l->patience_us = now_us() + PATIENCE_US;
        if (r->outcome.reason == REASON_EXITED)
                r->outcome.reason = reason;
        if (cgroup_kill(&r->cgroup) < 0)
                send_signal(r, SIGKILL, NULL);
}

static void connect_flow(struct flow *f, int in, int out, bool owns_out) {
        struct stat st;

        *f = (struct flow){.in = in, .out = out, .owns_out = owns_out};
        if (fstat(out, &st) < 0)
                return;
        f->regular_out = S_ISREG(st.st_mode);
        if (out <= STDERR_FILENO && S_ISCHR(st.st_mode) && isatty(out)) {
                /* a stopped terminal would hold us up: through a description of our own a write does not wait */
                char path[32];
                (void)snprintf(path, sizeof path, "/proc/self/fd/%d", out);
                int own = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
                if (own >= 0) {
                        f->out = own;
                        f->owns_out = true;
                }
        }
}

static void copy_size(struct run *r) {
        struct winsize size;

        if (r->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
                (void)ioctl(r->master, TIOCSWINSZ, &size);
}

static void go_raw(struct run *r) {
        struct termios raw = r->terminal;

        if (!isatty(STDIN_FILENO))
                return;
        cfmakeraw(&raw);
        if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0)
                r->raw = true;
}

static void take_tree(struct loop *l, const struct report *m, int *fds, size_t count) {
        struct run *r = l->run;
        size_t n = 0;

        if ((m->fds & 1) && n < count) {
                r->master = fds[n++];
                (void)fcntl(r->master, F_SETFL, O_RDWR | O_NONBLOCK);
                copy_size(r);
                go_raw(r);
                connect_flow(&l->flows[0], STDIN_FILENO, r->master, false);
                connect_flow(&l->flows[1], r->master, STDOUT_FILENO, false);
                if (r->limits.output != UINT64_MAX)
                        l->flows[1].count = &r->outcome.output_bytes;
        }
        if ((m->fds & 2) && n < count)
                r->upper = fds[n++];
        if ((m->fds & 4) && n < count) {
                keeper_hold(r, fds[n]);
                (void)close(fds[n++]);
        }
        while (n < count && r->watched_count < CELL_WATCH_MAX)
                r->watched[r->watched_count++] = fds[n++];
        while (n < count)
                (void)close(fds[n++]);
}

static void take_reports(struct loop *l) {
        struct run *r = l->run;
        struct report m;
        int fds[CELL_REPORT_FDS];
        size_t count;

        for (;;) {
                int result = cell_receive(r->report, &m, NULL, fds, &count);
                if (result == -EAGAIN)
                        return;
                if (result <= 0) {
                        fd_close(&r->report);
                        return;
                }
                switch (m.kind) {
                case REPORT_STEP_FAILED:
                        if (!l->exit_seen) {
                                l->failed = true;
                                l->failure = m;
                        }
                        break;
                case REPORT_TREE:
                        if (!l->tree_seen && !l->exit_seen) {
                                l->tree_seen = true;
                                take_tree(l, &m, fds, count);
                                count = 0;
                        }
                        break;
                case REPORT_NETWORK:
                        if (!l->exit_seen) {
                                network_give(r, fds, count);
                                count = 0;
                        }
                        break;
                case REPORT_EXEC_FAILED:
                        r->outcome.exec_error = m.error < 0 && m.error > -4096 ? m.error : -EIO;
                        break;
                case REPORT_EXITED:
                        l->exit_seen = true;
                        r->outcome.have_wait_status = true;
                        r->outcome.wait_status = (int)m.status;
                        break;
                default:
                        break; /* not a word that we know; the sender is not trusted */
                }
                while (count > 0)
                        (void)close(fds[--count]);
        }
}

static void take_signals(struct loop *l) {
        struct signalfd_siginfo info;

        while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
                int n = (int)info.ssi_signo;

                if (n == SIGCHLD)
                        continue;
                if (n == SIGWINCH) {
                        copy_size(l->run);
                        continue;
                }
                if (l->dead) { /* only a reader who does not read keeps us: who wants us to end does not want to wait
                                  for it */
                        l->abandoned = l->abandoned || n == SIGINT || n == SIGTERM || n == SIGHUP || n == SIGQUIT;
                        continue;
                }
                /* from the terminal's keys it is for the whole foreground group, as it would be without us */
                siginfo_t to_group = {.si_signo = n, .si_code = SI_QUEUE, .si_value = {.sival_int = REPORT_TO_GROUP}};
                send_signal(l->run, n, info.ssi_code == SI_KERNEL ? &to_group : NULL);
        }
}

/* Places that are full, and processor time: the kernel tells nobody, so we look, seldom and ever more seldom. */
static void sample(struct loop *l, uint64_t now) {
        struct run *r = l->run;
        uint64_t used;

        if (r->report >= 0)
                take_reports(l);
        for (size_t i = 0; i < r->watched_count; i++) {
                struct statfs s;
                if (fstatfs(r->watched[i], &s) == 0 && s.f_blocks > 0 && (s.f_bavail == 0 || s.f_ffree == 0))
                        r->outcome.place_full[i] = true;
        }
        if (r->options.live && !l->dead)
                network_reload(r);
        l->sample_step_us = MIN(l->sample_step_us * 2, (uint64_t)1000000);
        l->sample_us = now + l->sample_step_us;
        if (r->limits.cpu_time != UINT64_MAX && cgroup_cpu_usage(&r->cgroup, &used) == 0) {
                uint64_t budget = r->limits.cpu_time * 1000;
                uint64_t cpus = r->limits.cpus != UINT64_MAX ? MAX(r->limits.cpus, (uint64_t)1)
                                                             : 1000 * (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);

                if (used >= budget && !l->dead)
                        kill_all(l, REASON_BUDGET);
                else /* not before it can be used up */
                        l->sample_us = MIN(l->sample_us, now + MAX((budget - used) * 1000 / cpus, (uint64_t)1000));
        }
}

static int poll_timeout(const struct loop *l, uint64_t now) {
        uint64_t next = MIN(l->deadline_us, l->sample_us);

        if (l->dead)
                return 50;
        if (next <= now)
                return 0;
        return (int)MIN((next - now + 999) / 1000, (uint64_t)60000);
}

static bool finished(const struct loop *l) {
        return l->dead && (l->abandoned || (flow_idle(&l->flows[1]) && flow_idle(&l->flows[2])));
}

static void one_turn(struct loop *l) {
        struct run *r = l->run;
        struct pollfd p[10];
        size_t n = 0, first[3], took[3];

        p[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
        p[n++] = (struct pollfd){.fd = l->dead ? -1 : r->pidfd, .events = POLLIN};
        /* without a terminal or a network nothing in a report is urgent: it is read with the samples and at the end */
        bool urgent = (r->cell.tty && r->master < 0) || (r->network.control >= 0 && !r->network.given);
        p[n++] = (struct pollfd){.fd = urgent ? r->report : -1, .events = POLLIN};
        p[n++] = (struct pollfd){.fd = r->audit, .events = POLLIN};
        p[n++] = (struct pollfd){.fd = r->network.control, .events = POLLIN};
        for (size_t i = 0; i < 3; i++) {
                first[i] = n;
                n += took[i] = l->dead && i == 0 ? 0 : flow_poll(&l->flows[i], p + n);
        }
        uint64_t now = now_us();
        if (poll(p, n, poll_timeout(l, now)) < 0)
                return;
        now = now_us();
        if (p[0].revents)
                take_signals(l);
        if (p[2].revents)
                take_reports(l);
        if (p[3].revents)
                audit_read(r->audit, r->pid, &r->outcome);
        if (p[4].revents && !l->no_gate && network_read(r, &l->gate_error) < 0) {
                l->no_gate = true;
                if (!l->dead)
                        kill_all(l, REASON_FAILED);
        }
        for (size_t i = 0; i < 3; i++) {
                uint64_t left = r->limits.output - MIN(r->outcome.output_bytes, r->limits.output);

                if (l->dead && took[i] > 0 && p[first[i]].revents == 0 && (p[first[i]].events & POLLIN))
                        flow_end(&l->flows[i]); /* nobody is left to write: what is in the pipe is all */
                else if (flow_move(&l->flows[i], p + first[i], took[i], left) > 0) {
                        r->outcome.output_cut = true;
                        kill_all(l, REASON_OUTPUT);
                }
        }
        if (l->dead && now >= l->patience_us && !finished(l))
                l->abandoned = r->outcome.output_cut = r->outcome.output_lost =
                        true; /* a limit that a reader can suspend is none */
        if (p[1].revents && !l->dead) {
                l->dead = true;
                if (r->report >= 0)
                        take_reports(l);
                if (r->master >= 0) { /* what is still in the terminal's buffer is read; EIO or EAGAIN ends it */
                        (void)fcntl(r->master, F_SETFL, O_RDWR | O_NONBLOCK);
                }
        }
        if (!l->dead && now >= l->deadline_us)
                kill_all(l, REASON_TIMEOUT);
        if (!l->dead && now >= l->sample_us)
                sample(l, now);
}

static int open_signals(void) {
        static const int numbers[] = {SIGINT,   SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                                      SIGWINCH, SIGCHLD, SIGALRM, SIGCONT, SIGTSTP, SIGPIPE};
        sigset_t set;

        (void)sigemptyset(&set);
        for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
                (void)sigaddset(&set, numbers[i]);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        (void)sigdelset(&set, SIGPIPE);
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

int loop_run(struct run *r, struct err *err) {
        static struct loop l; /* its buffers are too large for the stack and cost nothing until they are used */

        if (knockout_off(KNOCKOUT_LAUNCHER))
                r->limits.output = r->limits.cpu_time = UINT64_MAX;
        l = (struct loop){.run = r, .deadline_us = UINT64_MAX, .sample_step_us = 50000, .patience_us = UINT64_MAX};
        l.signals = open_signals();
        if (l.signals < 0)
                return err_set(err, l.signals, "could not receive signals");
        connect_flow(&l.flows[0], r->to_stdin >= 0 ? STDIN_FILENO : -EBADF, r->to_stdin, true);
        for (int i = 1; i < 3; i++) {
                connect_flow(&l.flows[i], r->from[i], i, false);
                if (r->limits.output != UINT64_MAX)
                        l.flows[i].count = &r->outcome.output_bytes;
        }
        l.start_us = now_us();
        l.sample_us = l.start_us + l.sample_step_us;
        if (r->limits.wall != UINT64_MAX && r->limits.wall < UINT64_MAX / 2000 && !knockout_off(KNOCKOUT_LAUNCHER))
                l.deadline_us = l.start_us + r->limits.wall * 1000;
        r->audit = audit_open();

        while (!finished(&l))
                one_turn(&l);

        sample(&l, now_us());
        int status = 0;
        while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
                ;
        r->pid = 0;
        r->outcome.wall_us = now_us() - l.start_us;
        network_finish(r);
        if (r->audit >= 0)
                audit_read(r->audit, r->pid, &r->outcome);
        relay_terminal_restore(r);
        if (l.failed)
                return cell_explain(&r->plan, &l.failure, err);
        if (l.no_gate) {
                *err = l.gate_error;
                return err->code;
        }
        return 0;
}
