/* What there is to read about this host: what the doctor finds, the latest report of `stockade verify`, and what probes
 * of the declared drivers say.
 *
 * The operator says which paper and nothing else: no path, no argument, no descriptor of his is used. A child of ours
 * gets it. It runs `stockade doctor --json` as whoever started us would, or copies a file that has to be ours alone
 * from the one folder where the judge leaves it, and is done within bounds of time and bytes. Nobody here looks into
 * what it says: it goes to the operator in a memory file that cannot be changed any more. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/paths.h"
#include "warden/warden.h"

#define DOCTOR_MS 30000 /* he takes a second on a host that has nothing else to do */
#define END_MS    2000  /* for whoever was told to end */
#define PROBE_MAX 16384 /* bytes of what one driver says */
#define SEALS     (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* All of it up to its end, within this time, and no more than a paper has. Returns how many bytes it was. */
static ssize_t copy(int from, int to, unsigned ms, const char *what, struct err *err) {
        static char block[64 * 1024];
        const uint64_t until = now_ms() + ms;
        size_t all = 0;

        for (;;) {
                struct pollfd p = {.fd = from, .events = POLLIN};
                uint64_t now = now_ms();

                if (now >= until || poll(&p, 1, (int)(until - now)) == 0) {
                        (void)err_set(err, -ETIMEDOUT, "%s did not come to an end within %u seconds", what, ms / 1000);
                        return err_hint(err, "try again when this host is less busy, or run it there by hand");
                }
                ssize_t n = read(from, block, sizeof block);
                if (n == 0)
                        return (ssize_t)all;
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_set(err, -errno, "cannot read %s", what);
                all += (size_t)n;
                if (all > WARDEN_PAPER_MAX) {
                        (void)err_set(err, ERR_LIMIT, "%s has more than %u bytes", what, WARDEN_PAPER_MAX);
                        return err_hint(err, "run it on the host by hand, and look at what it says");
                }
                int r = fd_write_full(to, block, (size_t)n);
                if (r < 0)
                        return err_set(err, r, "could not keep %s", what);
        }
}

/* --- programs of ours that look at this host --- */

_noreturn_ static void become(const char *program, char *const argv[], int out, pid_t parent) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        /* not killed: told, so that what it started is cleared away */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
                _exit(127);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)signal(SIGHUP, SIG_DFL);
        (void)fd_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "0"); /* the warden is spared; it need not be */
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || chdir("/") < 0)
                _exit(127);
        (void)execve(program, argv, environ);
        _exit(127);
}

/* It has closed its output, or was not listened to any longer. */
static int end_program(pid_t pid, bool heard) {
        uint64_t until = now_ms() + END_MS;
        int status = 0;

        if (!heard)
                (void)kill(pid, SIGTERM);
        while (waitpid(pid, &status, WNOHANG) == 0) {
                if (now_ms() >= until)
                        (void)kill(pid, SIGKILL);
                (void)poll(NULL, 0, 5);
        }
        return status;
}

/* What it prints within this time. ret_status: how it ended. */
static ssize_t ask_program(const char *program, char *const argv[], unsigned ms, const char *what, int to,
                           int *ret_status, struct err *err) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, -errno, "could not make a pipe");
        pid_t self = getpid(), pid = fork();
        if (pid == 0)
                become(program, argv, ends[1], self);
        int error = errno;
        _cleanup_fd_ int said = ends[0];
        (void)close(ends[1]);
        if (pid < 0)
                return err_set(err, -error, "could not start '%s'", program);
        ssize_t n = copy(said, to, ms, what, err);
        *ret_status = end_program(pid, n >= 0);
        return n;
}

static ssize_t ask_doctor(int to, struct err *err) {
        char *argv[] = {(char *)(uintptr_t) "stockade", (char *)(uintptr_t) "doctor", (char *)(uintptr_t) "--json",
                        NULL};
        char program[PATH_MAX];
        int status = 0;

        int r = paths_helper("stockade", program, sizeof program, err);
        if (r < 0)
                return r;
        ssize_t n = ask_program(program, argv, DOCTOR_MS, "what 'stockade doctor' says", to, &status, err);
        if (n < 0)
                return n;
        if (n == 0 || !WIFEXITED(status) || WEXITSTATUS(status) > 1) { /* 1: no sandbox can run here, and he says why */
                (void)err_set(err, ERR_CORRUPT, "'stockade doctor' failed (status 0x%x)", (unsigned)status);
                return err_hint(err, "run 'stockade doctor' on the host");
        }
        return n;
}

/* --- drivers --- */

/* One that says nothing is one that is not there. The words are ours: nothing in them needs an escape. */
static ssize_t not_there(const char *driver, const char *why, int to) {
        char text[512];
        int n = snprintf(text, sizeof text,
                         "{\"driver\": \"%s\", \"offered\": false, \"version\": \"\", \"why\": \"%s\", "
                         "\"fix\": \"'stockade doctor' says what it needs\", \"guarantees\": {}}",
                         driver, why);

        return fd_write_full(to, text, (size_t)n) < 0 ? -EIO : n;
}

/* Whole in memory first: half of a probe would spoil what the others said. */
static ssize_t ask_driver(const struct warden *w, const char *driver, int to, struct err *err) {
        char program[PATH_MAX], text[PROBE_MAX];
        char *argv[2 + BOX_OPTIONS + 1] = {program, (char *)(uintptr_t) "probe"};
        int status = 0, d = driver_find(driver);
        struct box_options options;

        if (d < 0 || box_find(w, (enum driver)d, program, NULL) < 0)
                return not_there(driver, "its program is not installed", to);
        box_options(w, (enum driver)d, &options, argv + 2);
        _cleanup_fd_ int said = memfd_create("probe", MFD_CLOEXEC);
        if (said < 0)
                return err_set(err, -errno, "could not make a file in memory");
        ssize_t n = ask_program(program, argv, DRIVER_PROBE_MS, "what the probe of a driver says", said, &status, NULL);
        if (n <= 0 || n > PROBE_MAX || status != 0 || pread(said, text, (size_t)n, 0) != n)
                return not_there(driver, "its probe failed", to);
        return fd_write_full(to, text, (size_t)n) < 0 ? -EIO : n;
}

static ssize_t ask_drivers(const struct warden *w, int to, struct err *err) {
        static const char begin[] = "{\"drivers\": [", end[] = "]}\n";
        bool first = true;
        ssize_t n = fd_write_full(to, begin, strlen(begin));

        for (size_t i = 0; n >= 0 && i < w->conf.drivers.count; i++) {
                const char *driver = w->conf.drivers.items[i];

                if (str_eq(driver, driver_name(DRIVER_NATIVE)))
                        continue;
                n = first ? 0 : fd_write_full(to, ",", 1);
                if (n >= 0)
                        n = ask_driver(w, driver, to, err);
                first = false;
        }
        if (n >= 0)
                n = fd_write_full(to, end, strlen(end));
        return n < 0 ? err_set(err, (int)n, "could not keep what the drivers say") : lseek(to, 0, SEEK_END);
}

/* --- the judge's reports --- */

static int not_ours(const char *path, const char *name, struct err *err) {
        (void)err_set(err, ERR_REFUSED, "'%s%s%s' is not as 'stockade verify' leaves it: somebody else can write to it",
                      path, name[0] ? "/" : "", name);
        return err_hint(err, "remove it, and run 'stockade verify' again");
}

static int none_yet(struct err *err) {
        *err = (struct err){.code = -ENOENT, .text = "'stockade verify' has left no report on this host yet"};
        return err_hint(err, "run 'stockade verify' on the host, as the user who runs the daemon");
}

static ssize_t copy_report(const char *name, int to, struct err *err) {
        char path[PATH_MAX];
        struct stat st;

        int r = paths_state_name("verify", false, path, sizeof path);
        if (r < 0)
                return none_yet(err);
        _cleanup_fd_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0 && errno == ENOENT)
                return none_yet(err);
        if (folder < 0 || fstat(folder, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 022)
                return not_ours(path, "", err);
        /* a pipe or a device must not keep us */
        _cleanup_fd_ int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return none_yet(err);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
                return not_ours(path, name, err);
        return copy(fd, to, DOCTOR_MS, "the report of 'stockade verify'", err);
}

/* --- the request --- */

static int prepare(struct work_job *j, struct err *err) {
        j->out = memfd_create("paper", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return j->out < 0 ? err_set(err, -errno, "could not make a file in memory") : 0;
}

static int run(const struct work_job *j, struct work_result *ret, struct err *err) {
        ssize_t n;

        switch ((enum warden_paper)j->m.paper) {
        case WARDEN_PAPER_DOCTOR:
                n = ask_doctor(j->out, err);
                break;
        case WARDEN_PAPER_VERIFY:
                n = copy_report("latest.json", j->out, err);
                break;
        case WARDEN_PAPER_PAGE:
                n = copy_report("latest.html", j->out, err);
                break;
        case WARDEN_PAPER_DRIVERS:
                n = ask_drivers(j->w, j->out, err);
                break;
        case WARDEN_PAPER_COUNT:
        default:
                n = err_set(err, -EBADMSG, "there is no such paper");
        }
        if (n < 0)
                return (int)n;
        if (fcntl(j->out, F_ADD_SEALS, SEALS) < 0)
                return err_set(err, -errno, "could not seal a file in memory");
        ret->numbers[0] = (uint64_t)n;
        return 0;
}

int paper_request(struct request *q) {
        static const struct work_how how = {.prepare = prepare, .run = run, .lane = WORK_PAPERS};

        if (work_gets_paper(q->w, q->m->paper)) {
                (void)err_set(&q->err, -EBUSY, "it is being got already");
                return err_hint(&q->err, "try again in a moment");
        }
        return work_begin(q, &how);
}
