/* Facts about the host: what kind of machine, kernel and settings a report is about, and which programs were tried.
 *
 * For readers of a report, who compare two of them or ask why they differ. Nothing is decided by them. What cannot be
 * read is said to be unknown, never guessed. */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/kernel.h"
#include "base/paths.h"
#include "base/text.h"
#include "verify/report.h"

enum { FACTS_FILE_MAX = 1 << 20, FACTS_PROGRAM_MAX = 256 << 20 };

static void add(struct judge *j, const char *name, const char *format, ...) _printf_(3, 4);
static void add(struct judge *j, const char *name, const char *format, ...) {
        char text[1024];
        va_list args;
        size_t i = 0;

        while (i < ELEMENTSOF(j->host) && j->host[i].name[0])
                i++;
        if (i >= ELEMENTSOF(j->host))
                return;
        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);
        (void)snprintf(j->host[i].name, sizeof j->host[i].name, "%s", name);
        text_escape(j->host[i].value, sizeof j->host[i].value, text);
}

/* The first line of a small file, "" if there is none. */
static const char *line_of(const char *path, char *buf, size_t size) {
        if (fd_read_at(AT_FDCWD, path, buf, size) < 0)
                buf[0] = '\0';
        buf[strcspn(buf, "\n")] = '\0';
        for (size_t n = strlen(buf); n > 0 && buf[n - 1] == ' '; n--)
                buf[n - 1] = '\0';
        return buf;
}

static void fact_kernel(struct judge *j) {
        struct utsname name;

        if (uname(&name) < 0) {
                add(j, "kernel", "unknown");
                return;
        }
        add(j, "kernel", "%s %s", name.sysname, name.release);
        add(j, "architecture", "%s", name.machine);
}

/* PRETTY_NAME="…" of os-release. */
static void fact_distribution(struct judge *j) {
        _cleanup_free_ char *text = NULL;
        const char *key = "PRETTY_NAME=";

        if (fd_read_file(AT_FDCWD, "/etc/os-release", FACTS_FILE_MAX, false, &text, NULL, NULL) < 0 &&
            fd_read_file(AT_FDCWD, "/usr/lib/os-release", FACTS_FILE_MAX, false, &text, NULL, NULL) < 0) {
                add(j, "distribution", "unknown");
                return;
        }
        for (char *line = text, *next; line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                if (!str_starts(line, key))
                        continue;
                char *value = line + strlen(key);
                size_t n = strlen(value);
                if (n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0]) {
                        value[n - 1] = '\0';
                        value++;
                }
                add(j, "distribution", "%s", value);
                return;
        }
        add(j, "distribution", "unknown");
}

static void fact_machine(struct judge *j) {
        struct sysinfo info;
        long processors = sysconf(_SC_NPROCESSORS_ONLN);

        add(j, "processors", "%ld", processors);
        if (sysinfo(&info) < 0)
                return;
        uint64_t mib = (uint64_t)info.totalram * info.mem_unit >> 20;
        if (mib >= 10240)
                add(j, "memory", "%llu GiB", (unsigned long long)((mib + 512) / 1024));
        else
                add(j, "memory", "%llu MiB", (unsigned long long)mib);
        add(j, "uptime", "%ld d %ld h %ld min", info.uptime / 86400, info.uptime % 86400 / 3600,
            info.uptime % 3600 / 60);
}

static void fact_cgroups(struct judge *j) {
        struct statfs top, unified;

        if (statfs("/sys/fs/cgroup", &top) < 0)
                add(j, "cgroups", "none at /sys/fs/cgroup");
        else if (top.f_type == CGROUP2_SUPER_MAGIC)
                add(j, "cgroups", "v2");
        else if (statfs("/sys/fs/cgroup/unified", &unified) == 0 && unified.f_type == CGROUP2_SUPER_MAGIC)
                add(j, "cgroups", "hybrid: v1 with v2 beside it");
        else
                add(j, "cgroups", "v1");
}

static void fact_landlock(struct judge *j) {
        int abi = kernel_landlock_abi();

        if (abi > 0)
                add(j, "Landlock", "ABI %d", abi);
        else
                add(j, "Landlock", "%s", abi == -EOPNOTSUPP ? "switched off at boot" : "not in this kernel");
}

/* Tried, because several settings of several distributions decide it. */
static bool may_unshare_user(void) {
        pid_t pid = fork();
        int status = -1;

        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return status == 0;
}

static void fact_user_namespaces(struct judge *j) {
        char max[32], restricted[32];

        (void)line_of("/proc/sys/user/max_user_namespaces", max, sizeof max);
        (void)line_of("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", restricted, sizeof restricted);
        add(j, "user namespaces", "%s, at most %s%s",
            may_unshare_user() ? "may be made by this user" : "may not be made by this user", max[0] ? max : "unknown",
            str_eq(restricted, "1") ? ", restricted by AppArmor" : "");
}

static void fact_yama(struct judge *j) {
        static const char *const words[] = {"0: any process of the same user", "1: only by an ancestor",
                                            "2: only with CAP_SYS_PTRACE", "3: nobody"};
        char scope[32];

        (void)line_of("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
        if (scope[0] >= '0' && scope[0] <= '3' && scope[1] == '\0')
                add(j, "ptrace scope", "%s", words[scope[0] - '0']);
        else
                add(j, "ptrace scope", "%s", scope[0] ? scope : "no Yama");
}

static void fact_core(struct judge *j) {
        char pattern[256];

        if (line_of("/proc/sys/kernel/core_pattern", pattern, sizeof pattern)[0] == '\0')
                add(j, "core dumps", "none are written");
        else if (pattern[0] == '|')
                add(j, "core dumps", "handed to a program: %.*s", (int)strcspn(pattern + 1, " "), pattern + 1);
        else
                add(j, "core dumps", "a file %s: %s", pattern[0] == '/' ? "at a fixed place" : "where the process is",
                    pattern);
}

static void fact_security_modules(struct judge *j) {
        char list[256], confined[256], mode[16];

        if (line_of("/sys/kernel/security/lsm", list, sizeof list)[0] == '\0') {
                char apparmor[8];
                (void)line_of("/sys/module/apparmor/parameters/enabled", apparmor, sizeof apparmor);
                (void)snprintf(list, sizeof list, "%s",
                               apparmor[0] == 'Y'                     ? "apparmor"
                               : access("/sys/fs/selinux", F_OK) == 0 ? "selinux"
                                                                      : "the list cannot be read");
        }
        (void)line_of("/proc/self/attr/current", confined, sizeof confined);
        (void)line_of("/sys/fs/selinux/enforce", mode, sizeof mode);
        add(j, "security modules", "%s%s%s%s", list, confined[0] ? "; this process: " : "", confined,
            mode[0] == '0' ? "; SELinux permissive" : "");
}

/* A hint only: nobody has to tell the truth here. */
static void fact_virtual(struct judge *j) {
        char vendor[64], product[64], hypervisor[64], container[64];
        _cleanup_free_ char *cpu = NULL;
        bool flagged = fd_read_file(AT_FDCWD, "/proc/cpuinfo", 4 * FACTS_FILE_MAX, false, &cpu, NULL, NULL) == 0 &&
                       strstr(cpu, " hypervisor");

        (void)line_of("/sys/class/dmi/id/sys_vendor", vendor, sizeof vendor);
        (void)line_of("/sys/class/dmi/id/product_name", product, sizeof product);
        (void)line_of("/sys/hypervisor/type", hypervisor, sizeof hypervisor);
        (void)line_of("/run/systemd/container", container, sizeof container);
        if (!container[0] && access("/.dockerenv", F_OK) == 0)
                (void)snprintf(container, sizeof container, "docker");
        const char *kind = flagged || hypervisor[0] ? "a virtual machine" : "no sign of a virtual machine";
        add(j, "virtualisation", "%s%s%s%s%s%s%s%s", kind, hypervisor[0] ? " on " : "", hypervisor,
            vendor[0] ? " by " : "", vendor, product[0] ? ", " : "", product, container[0] ? ", in a container" : "");
}

/* b2sum -l 256 FILE prints the same. */
static void fact_program(struct judge *j, const char *name, const char *path) {
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        uint8_t sum[HASH_SIZE];
        char text[HASH_TEXT_SIZE], part[16384];
        struct hash state;
        size_t all = 0;

        if (fd < 0) {
                add(j, name, "cannot be read: %s", err_name(-errno));
                return;
        }
        hash_init(&state);
        for (;;) {
                ssize_t n = fd_read_full(fd, part, sizeof part);
                if (n < 0 || all > FACTS_PROGRAM_MAX) {
                        add(j, name, "cannot be read: %s", n < 0 ? err_name((int)n) : "it is too large");
                        return;
                }
                if (n == 0)
                        break;
                hash_add(&state, part, (size_t)n);
                all += (size_t)n;
        }
        hash_done(&state, sum);
        hash_text(sum, text);
        add(j, name, "BLAKE2b-256 %s", text);
}

static void fact_helper(struct judge *j, const char *name) {
        char path[PATH_MAX];

        if (paths_helper(name, path, sizeof path, NULL) == 0)
                fact_program(j, name, path);
        else
                add(j, name, "not found");
}

void facts_host(struct judge *j) {
        memset(j->host, 0, sizeof j->host);
        fact_kernel(j);
        fact_distribution(j);
        fact_machine(j);
        fact_virtual(j);
        fact_cgroups(j);
        fact_landlock(j);
        fact_user_namespaces(j);
        fact_security_modules(j);
        fact_yama(j);
        fact_core(j);
        if (j->options.against == NULL) {
                fact_program(j, "stockade", j->launcher);
                fact_helper(j, "stockade-policy");
                fact_helper(j, "stockade-guest");
                fact_helper(j, "stockade-gate");
        }
        fact_program(j, "stockade-probe", j->probe);
        fact_program(j, "stockade-verify", "/proc/self/exe");
}
