/* Processes of bench/gate: starting them, asking them over pipes, looking at their memory, ending them by pid. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/gate.h"

#define CREW_ANSWER_MS 60000

extern char **environ;

static _noreturn_ void crew_exec(const char *const *argv, int in, int out) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (in >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
                (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
}

int gate_hire(struct gate_hand *h, const char *const *argv, bool answers, struct err *err) {
        int in[2] = {-EBADF, -EBADF}, out[2] = {-EBADF, -EBADF};

        *h = (struct gate_hand){.to = -EBADF};
        if (answers && (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0))
                return err_set(err, -errno, "cannot make pipes");
        if (!answers)
                in[0] = out[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
        h->pid = fork();
        if (h->pid == 0)
                crew_exec(argv, in[0], out[1]);
        int e = -errno;
        if (in[0] == out[1])
                out[1] = -EBADF;
        fd_close(&in[0]);
        fd_close(&out[1]);
        if (h->pid < 0)
                return err_set(err, e, "could not start '%s'", argv[0]);
        h->to = in[1];
        h->from = answers ? fdopen(out[0], "re") : NULL;
        return answers && !h->from ? err_set(err, -ENOMEM, "cannot read from '%s'", argv[0]) : 0;
}

int gate_hear(struct gate_hand *h, uint64_t ret[2], struct err *err) {
        char line[512];
        struct pollfd p = {.fd = fileno(h->from), .events = POLLIN};

        /* one question, one answer: nothing is left in the stream's buffer */
        if (poll(&p, 1, CREW_ANSWER_MS) <= 0)
                return err_set(err, -ETIME, "no answer within %d s", CREW_ANSWER_MS / 1000);
        if (!fgets(line, sizeof(line), h->from))
                return err_set(err, -EPIPE, "it ended without an answer");
        line[strcspn(line, "\n")] = '\0';
        if (!str_starts(line, "ok "))
                return err_set(err, ERR_REFUSED, "%s", line);
        char *end = line + 3;
        ret[0] = strtoull(end, &end, 10);
        ret[1] = strtoull(end, &end, 10);
        return 0;
}

int gate_ask(struct gate_hand *h, uint64_t ret[2], struct err *err, const char *order, ...) {
        char line[512];
        va_list args;

        va_start(args, order);
        int n = vsnprintf(line, sizeof(line) - 1, order, args);
        va_end(args);
        line[n++] = '\n';
        int r = fd_write_full(h->to, line, (size_t)n);
        return r < 0 ? err_set(err, r, "could not be asked") : gate_hear(h, ret, err);
}

/* Its standard input ends: clients and sandboxes go by themselves. What has none, or stays, is ended. */
void gate_dismiss(struct gate_hand *h) {
        if (h->pid <= 0)
                return;
        if (h->to < 0)
                (void)kill(h->pid, SIGTERM);
        fd_close(&h->to);
        for (unsigned i = 0; i < 500 && waitpid(h->pid, NULL, WNOHANG) == 0; i++) {
                (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
                if (i == 300)
                        (void)kill(h->pid, SIGKILL);
        }
        if (h->from)
                (void)fclose(h->from);
        *h = (struct gate_hand){.to = -EBADF};
}

static uint64_t crew_field(const char *text, const char *name) {
        const char *at = strstr(text, name);

        return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Calls back for every process with this name. */
static void crew_each(const char *name, void (*found)(pid_t pid, const char *status, void *data), void *data) {
        DIR *proc = opendir("/proc");

        for (struct dirent *e; proc && (e = readdir(proc));) {
                char path[300], text[2048], first[64];

                if (e->d_name[0] < '1' || e->d_name[0] > '9')
                        continue;
                (void)snprintf(path, sizeof(path), "/proc/%s/status", e->d_name);
                (void)snprintf(first, sizeof(first), "Name:\t%s\n", name);
                if (fd_read_at(AT_FDCWD, path, text, sizeof(text)) > 0 && str_starts(text, first))
                        found((pid_t)strtol(e->d_name, NULL, 10), text, data);
        }
        if (proc)
                (void)closedir(proc);
}

static void crew_is_between(pid_t pid, const char *status, void *data) {
        struct gate_hand *launcher = data;

        if (crew_field(status, "PPid:") == (uint64_t)launcher->pid)
                launcher->between = pid;
}

int gate_find(struct gate_hand *launcher, struct err *err) {
        launcher->between = 0;
        crew_each("stockade-gate", crew_is_between, launcher);
        return launcher->between > 0 ? 0 : err_set(err, -ESRCH, "its gate was not found");
}

int gate_memory_of(const struct gate_hand *h, struct gate_memory *ret, struct err *err) {
        char path[64], text[2048];

        (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)h->between);
        if (h->between <= 0 || fd_read_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
                return err_set(err, -ESRCH, "the memory of a gate could not be read");
        *ret = (struct gate_memory){crew_field(text, "\nRss:"), crew_field(text, "\nPss:")};
        return 0;
}

uint64_t gate_work_of(const struct gate_hand *h) {
        struct timespec t = {0};
        clockid_t clock;

        if (h->between <= 0 || clock_getcpuclockid(h->between, &clock) != 0 || clock_gettime(clock, &t) < 0)
                return 0;
        return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* Sessions compete with each other before processes do, and every sandbox is a session of its own. */
static void crew_first(pid_t pid, const char *status, void *data) {
        char path[64], file[4096] = "";

        (void)status;
        (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
        if (readlink(path, file, sizeof(file) - 1) < 0 || !str_eq(file, data))
                return;
        (void)snprintf(path, sizeof(path), "/proc/%d/autogroup", (int)pid);
        (void)fd_write_at(AT_FDCWD, path, "-20");
}

void gate_hurry(const char *load) {
        (void)fd_write_at(AT_FDCWD, "/proc/self/autogroup", "-20");
        crew_each("load", crew_first, (void *)(uintptr_t)load);
}

int gate_time(const char *const *argv, uint64_t *ret_speak, uint64_t *ret_gone, struct err *err) {
        int out[2], status = 0;
        char byte[64];
        pid_t pid = -1;
        posix_spawn_file_actions_t files;

        if (pipe2(out, O_CLOEXEC) < 0)
                return err_set(err, -errno, "cannot make a pipe");
        (void)posix_spawn_file_actions_init(&files);
        (void)posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
        uint64_t begin = measure_now();
        int r = posix_spawn(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ);
        (void)close(out[1]);
        (void)posix_spawn_file_actions_destroy(&files);
        ssize_t n = r == 0 ? read(out[0], byte, sizeof(byte)) : 0;
        uint64_t speak = measure_now();
        if (r == 0 && waitpid(pid, &status, 0) != pid)
                r = errno;
        uint64_t gone = measure_now();
        (void)close(out[0]);
        if (r != 0 || n <= 0 || status != 0)
                return err_set(err, r ? -r : ERR_REFUSED, "'%s' ended with %d", argv[0], status);
        *ret_speak = speak - begin;
        *ret_gone = gone - begin;
        return 0;
}
