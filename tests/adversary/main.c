/* stockade-probe: tries to get out of a sandbox, one attempt per name, and prints one line of JSON for each.
 *
 *     stockade-probe NAME [KEY=VALUE…]      one attempt
 *     stockade-probe all-quick [KEY=VALUE…] every attempt that is quick, each in a process of its own
 *     stockade-probe list                   the names
 *
 * The rule for attempts that could harm a machine: they run only if the judge gave the inode of the host's pid
 * namespace (host-pidns=N) and ours is another one, if /proc/self/uid_map maps nobody here to id 0 outside, and if
 * host root's privileges are not ours. Whatever cannot be read is taken as "no". Besides, each of them has a ceiling
 * and an alarm, so that a hole would show without hurting. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "probe.h"

enum { ATTEMPT_SECONDS = 20 };

static const struct group {
        const char *name;
        const struct attempt *attempts;
} groups[] = {
        {"files", files_attempts},           {"files", trees_attempts},
        {"files", setid_attempts},           {"network", network_attempts},
        {"processes", processes_attempts},   {"processes", syscalls_attempts},
        {"exhaustion", exhaustion_attempts}, {"persistence", persistence_attempts},
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

/* Does any line of the map reach id 0 outside? */
static bool maps_host_root(void) {
        char text[1024], *line = text;
        ssize_t n = fd_read_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text);

        if (n <= 0)
                return true;
        while (line && *line) {
                unsigned long inside, outside, count;

                if (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) != 3 || outside == 0)
                        return true;
                line = strchr(line, '\n');
                line += line != NULL;
        }
        return false;
}

bool probe_own_init(void) {
        struct stat st;
        unsigned long host = probe_number("host-pidns", 0);

        return host != 0 && stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != host;
}

const char *probe_guard(void) {
        struct stat st;
        unsigned long host = probe_number("host-pidns", 0);

        if (host == 0)
                return "the judge did not say which pid namespace is the host's";
        if (stat("/proc/self/ns/pid", &st) < 0)
                return "cannot tell which pid namespace this is";
        if (st.st_ino == host)
                return "this is the host's pid namespace";
        if (maps_host_root())
                return "id 0 of the host is mapped here, or it cannot be told";
        return NULL;
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

static const char *error_name(int error, char *buf, size_t size) {
#define E(e)                                                                                                           \
        { e, #e }
        static const struct {
                int error;
                const char *name;
        } names[] = {
                E(EPERM),        E(ENOENT),          E(ESRCH),           E(EIO),          E(ENXIO),
                E(EBADF),        E(ECHILD),          E(EAGAIN),          E(ENOMEM),       E(EACCES),
                E(EFAULT),       E(EBUSY),           E(EEXIST),          E(EXDEV),        E(ENODEV),
                E(ENOTDIR),      E(EISDIR),          E(EINVAL),          E(ENFILE),       E(EMFILE),
                E(ENOTTY),       E(ETXTBSY),         E(EFBIG),           E(ENOSPC),       E(EROFS),
                E(EMLINK),       E(ENAMETOOLONG),    E(ENOSYS),          E(ELOOP),        E(EOVERFLOW),
                E(EAFNOSUPPORT), E(EPROTONOSUPPORT), E(ESOCKTNOSUPPORT), E(ENOPROTOOPT),  E(EOPNOTSUPP),
                E(ENETUNREACH),  E(EADDRNOTAVAIL),   E(ECONNREFUSED),    E(ETIMEDOUT),    E(EHOSTUNREACH),
                E(ENOKEY),       E(ENODATA),         E(ENOTSOCK),        E(ETOOMANYREFS), E(ENOTCONN),
                E(EDQUOT),       E(EINPROGRESS),     E(ENETDOWN),
        };
#undef E
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (names[i].error == error)
                        return names[i].name;
        (void)snprintf(buf, size, "%d", error);
        return buf;
}

static void print(const char *group, const struct attempt *a, const struct result *r, const char *outcome) {
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};
        char number[16];

        json_open(&j, NULL, '{');
        json_str(&j, "name", a->name);
        json_str(&j, "group", group);
        json_str(&j, "tries", a->tries);
        json_str(&j, "result", outcome);
        json_str(&j, "errno", r->error ? error_name(r->error, number, sizeof number) : NULL);
        json_str(&j, "evidence", r->evidence);
        json_close(&j, '}');
        buf_str(&out, "\n");
        if (buf_ok(&out))
                (void)fd_write_full(STDOUT_FILENO, out.data, out.size);
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
        pid_t pid = fork();
        if (pid == 0) {
                (void)alarm(ATTEMPT_SECONDS);
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
        if (WIFSIGNALED(status)) {
                probe_note(shared, "ended by signal %d", WTERMSIG(status));
                print(group, a, shared, "killed");
        } else
                print(group, a, shared, outcomes[shared->outcome]);
}

int main(int argc, char **argv) {
        if (argc < 2) {
                (void)fputs("usage: stockade-probe list | all-quick | NAME [KEY=VALUE…]\n", stderr);
                return 2;
        }
        if (str_eq(argv[1], "am-root")) /* what a set-user-ID copy of this program is asked */
                return geteuid() != getuid() ? 0 : 1;
        bool list = str_eq(argv[1], "list"), all = str_eq(argv[1], "all-quick"), found = list || all;
        struct result *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        facts = argv + 2;
        (void)signal(SIGUSR1, SIG_IGN); /* what attempts send to everybody */
        if (shared == MAP_FAILED)
                return 2;
        for (size_t i = 0; i < ELEMENTSOF(groups); i++)
                for (const struct attempt *a = groups[i].attempts; a->name; a++) {
                        if (list)
                                (void)printf("%-12s %-24s %s\n", groups[i].name, a->name, a->tries);
                        else if (all ? (a->flags & QUICK) != 0 : str_eq(a->name, argv[1])) {
                                found = true;
                                try(groups[i].name, a, shared);
                        }
                }
        if (!found)
                (void)fprintf(stderr, "stockade-probe: unknown attempt '%.60s'\n", argv[1]);
        return found ? 0 : 2;
}
