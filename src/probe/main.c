/* stockade-probe: tries to get out of a sandbox, one attempt per name, and prints one line of JSON for each.
 *
 *     stockade-probe NAME[,NAME…] KEY=VALUE…  these attempts
 *     stockade-probe all-quick KEY=VALUE…     every attempt that is quick, each in a process of its own
 *     stockade-probe list                     the names, with their groups and flags
 *
 * It attacks what it runs on. Outside a sandbox of the judge's it tries nothing, or, as a positive control, only what
 * is harmless: guard.c says how that is known. Besides, each attempt that could harm has a ceiling and an alarm, so
 * that a hole would show without hurting. What is tried and what it means is the judge's to say (src/verify). */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errno-name.h"
#include "base/fd.h"
#include "base/json.h"
#include "probe/probe.h"

enum { ATTEMPT_SECONDS = 20 /* or seconds=N, where an emulated processor is given more */, WITNESS_MS = 30000 };

static const struct group {
        const char *name;
        const struct attempt *attempts;
} groups[] = {
        {"files", files_attempts},
        {"files", trees_attempts},
        {"files", setid_attempts},
        {"network", network_attempts},
        {"processes", processes_attempts},
        {"processes", syscalls_attempts},
        {"files", places_attempts},
        {"network", options_attempts},
        {"processes", identity_attempts},
        {"processes", rare_attempts},
        {"exhaustion", exhaustion_attempts},
        {"exhaustion", exhaustion_more_attempts},
        {"persistence", persistence_attempts},
        {"network", gate_attempts},
        {"network", gate_dns_attempts},
        {"network", gate_http_attempts},
        {"network", gate_hold_attempts},
};

static char **facts;
static const char *current = "";

const char *probe_name(void) {
        return current;
}

const char *probe_fact(const char *key) {
        size_t n = strlen(key);

        for (char **f = facts; f && *f; f++)
                if (strncmp(*f, key, n) == 0 && (*f)[n] == '=')
                        return *f + n + 1;
        return NULL;
}

unsigned long probe_number(const char *key, unsigned long otherwise) {
        const char *text = probe_fact(key);

        return text ? strtoul(text, NULL, 10) : otherwise;
}

_printf_(2, 0) static void say(struct result *r, const char *format, va_list args) {
        size_t used = strlen(r->evidence);

        if (used > 0 && used + 3 < sizeof r->evidence) {
                memcpy(r->evidence + used, "; ", 3);
                used += 2;
        }
        (void)vsnprintf(r->evidence + used, sizeof r->evidence - used, format, args);
}

void probe_note(struct result *r, const char *format, ...) {
        va_list args;

        va_start(args, format);
        say(r, format, args);
        va_end(args);
}

void probe_done(struct result *r, const char *format, ...) {
        va_list args;

        r->outcome = DONE;
        va_start(args, format);
        say(r, format, args);
        va_end(args);
}

void probe_refused(struct result *r, int error, const char *format, ...) {
        va_list args;

        r->outcome = REFUSED;
        r->error = error;
        va_start(args, format);
        say(r, format, args);
        va_end(args);
}

void probe_call(struct result *r, long value) {
        int error = errno;

        if (value >= 0)
                probe_done(r, "returned %ld", value);
        else
                probe_refused(r, error, "%s", strerror(error));
}

void probe_answer(struct result *r, long value) {
        errno = value < 0 ? (int)-value : 0;
        probe_call(r, value < 0 ? -1 : value);
}

void probe_gate(struct result *r, long value) {
        int error = errno;

        if (value < 0 && (error == EPERM || error == ENOSYS))
                probe_refused(r, error, "%s", strerror(error));
        else if (value < 0)
                probe_done(r, "reached the kernel: %s", strerror(error));
        else
                probe_done(r, "returned %ld", value);
}

int probe_open(const char *path, int flags) {
        int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        if (fd < 0)
                return -errno;
        (void)close(fd);
        return 0;
}

void probe_read(struct result *r, const char *path) {
        char text[200];
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

        if (fd < 0) {
                probe_refused(r, errno, "%s: %s", path, strerror(errno));
                return;
        }
        ssize_t n = read(fd, text, sizeof text - 1);
        if (n < 0)
                probe_refused(r, errno, "%s: %s", path, strerror(errno));
        else {
                text[n] = '\0';
                probe_done(r, "%s: %s", path, text);
        }
}

const char *probe_folder(void) {
        const char *folder = probe_fact("folder");

        return folder ? folder : "/tmp";
}

int probe_scratch(char *path, size_t size, const char *stem) {
        (void)snprintf(path, size, "%s/probe-%s-%d", probe_folder(), stem, getpid());
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);

        return fd < 0 ? -errno : fd;
}

static void print(const char *group, const struct attempt *a, const struct result *r, const char *outcome) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        char number[16];

        json_open(&j, NULL, '{');
        json_str(&j, "name", a->name);
        json_str(&j, "group", group);
        json_str(&j, "result", outcome);
        json_str(&j, "errno", r->error ? errno_name(r->error, number, sizeof number) : NULL);
        json_str(&j, "evidence", r->evidence);
        json_close(&j, '}');
        buf_str(&out, "\n");
        if (buf_ok(&out))
                (void)fd_write_full(STDOUT_FILENO, out.data, out.size);
}

/* Tells the witness what comes next: it sees the call, which nobody else takes notice of. */
static void name_to_witness(const char *name) {
        char text[64];
        int n = snprintf(text, sizeof text, "attempt:%s", name);

        if (write(-1, text, (size_t)n) >= 0)
                abort();
}

/* Runs one attempt in a child, so that one that dies takes nobody with it. */
static void try(const char *group, const struct attempt *a, struct result *shared) {
        static const char *const outcomes[] = {[NOT_TRIED] = "not tried", [REFUSED] = "refused", [DONE] = "done"};
        int status = 0;

        *shared = (struct result){0};
        current = a->name;
        if (a->flags & GUARDED) {
                const char *why = probe_guard();

                if (why) {
                        probe_note(shared, "not inside a sandbox of the judge: %s", why);
                        print(group, a, shared, "guarded");
                        return;
                }
        }
        name_to_witness(a->name);
        pid_t pid = fork();
        if (pid == 0) {
                (void)alarm((unsigned)probe_number("seconds", ATTEMPT_SECONDS));
                a->run(shared);
                _exit(0);
        }
        if (pid < 0) {
                probe_note(shared, "fork: %s", strerror(errno));
                print(group, a, shared, "not tried");
                return;
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFSIGNALED(status) && shared->outcome != DONE) {
                probe_note(shared, "ended by signal %d", WTERMSIG(status));
                print(group, a, shared, "killed");
        } else
                print(group, a, shared, outcomes[shared->outcome]);
}

/* With witness=yes somebody outside reads the kernel's answers: says that it is ready, and waits until told to begin.
 */
static void wait_for_witness(void) {
        struct pollfd told = {.fd = STDIN_FILENO, .events = POLLIN};

        if (!probe_fact("witness"))
                return;
        (void)fd_write_full(STDOUT_FILENO, "ready\n", 6);
        (void)poll(&told, 1, WITNESS_MS); /* without one it goes on all the same */
}

/* Is name among the words of a list with commas? */
static bool listed(const char *list, const char *name) {
        size_t n = strlen(name);

        for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
                if (strncmp(at, name, n) == 0 && (at[n] == '\0' || at[n] == ','))
                        return true;
        return false;
}

int main(int argc, char **argv) {
        if (argc < 2) {
                (void)fputs("usage: stockade-probe list | all-quick KEY=VALUE… | NAME[,NAME…] KEY=VALUE…\n", stderr);
                return 2;
        }
        if (str_eq(argv[1], "am-root")) /* what a set-user-ID copy of this program is asked */
                return geteuid() != getuid() ? 0 : 1;
        bool list = str_eq(argv[1], "list"), all = str_eq(argv[1], "all-quick"), found = list || all;
        struct result *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        facts = argv + 2;
        if (!list && probe_refuses()) {
                (void)fprintf(stderr, "stockade-probe: nothing is tried here: %s\n", probe_refuses());
                return 2;
        }
        (void)signal(SIGUSR1, SIG_IGN); /* what attempts send to everybody */
        if (shared == MAP_FAILED)
                return 2;
        wait_for_witness();
        for (size_t i = 0; i < ELEMENTSOF(groups); i++)
                for (const struct attempt *a = groups[i].attempts; a->name; a++) {
                        if (list)
                                (void)printf("%-12s %-24s%s%s\n", groups[i].name, a->name,
                                             a->flags & QUICK ? " quick" : "", a->flags & GUARDED ? " guarded" : "");
                        else if (all ? (a->flags & QUICK) != 0 : listed(argv[1], a->name)) {
                                found = true;
                                try(groups[i].name, a, shared);
                        }
                }
        if (!found)
                (void)fprintf(stderr, "stockade-probe: unknown attempt '%.60s'\n", argv[1]);
        return found ? 0 : 2;
}
