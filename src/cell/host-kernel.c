/* Probes: the kernel itself, namespaces, user namespaces for this user, ids, process handles. */
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "cell/host-probe.h"

static void probe_kernel(struct host_fact *f) {
        struct utsname name;
        unsigned major = 0, minor = 0;

        if (uname(&name) < 0) {
                host_say(f, FACT_MISSING, "%s", err_name(-errno));
                return;
        }
        char *end = name.release;
        major = (unsigned)strtoul(end, &end, 10);
        if (*end == '.')
                minor = (unsigned)strtoul(end + 1, NULL, 10);
        host_say(f, FACT_OK, "Linux %s %s, %s", name.release, name.machine,
                 geteuid() == 0 ? "as root" : "as an ordinary user");
        if (major < 5 || (major == 5 && minor < 19)) { /* Landlock ABI 2 */
                f->state = FACT_LIMITED;
                host_cost(f, "older than the oldest kernel that every tier runs on (5.19)");
                host_fix(f, "use Debian 12's kernel or a newer one");
        }
}

/* A user namespace is of use only if its root can do something: some hosts grant one without its capabilities. */
static int try_user(void *argument) {
        unsigned uid = geteuid(), gid = getegid();

        (void)argument;
        if (unshare(CLONE_NEWUSER) < 0)
                return -errno;
        int r = host_map_self(uid, gid);
        if (r < 0)
                return r;
        return unshare(CLONE_NEWNS | CLONE_NEWUTS) < 0 || sethostname("probe", 5) < 0 ? -errno : 0;
}

static void probe_user(struct host_fact *f) {
        int r = host_try(try_user, NULL);

        if (r == 0) {
                host_say(f, FACT_OK, "can be made, and their root can act");
                return;
        }
        host_say(f, FACT_MISSING, "refused: %s", err_name(r));
        host_cost(f, geteuid() == 0 ? "no sandbox can start: everyone inside would be the host's root"
                                    : "no sandbox can start without root");
        if (host_sysctl("/proc/sys/kernel/unprivileged_userns_clone") == 0 && geteuid() != 0)
                host_fix(f, "as root: sysctl -w kernel.unprivileged_userns_clone=1");
        else if (host_sysctl("/proc/sys/user/max_user_namespaces") == 0)
                host_fix(f, "as root: sysctl -w user.max_user_namespaces=10000");
        else if (host_sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1 && geteuid() != 0)
                host_fix(f, "as root: stockade setup --user %u (installs an AppArmor profile)", geteuid());
        else
                host_fix(f, "a kernel with CONFIG_USER_NS; in a container: allow unshare in its seccomp profile");
}

static int try_namespace(void *argument) {
        int r = host_unshare(*(int *)argument);
        if (r < 0 || *(int *)argument != CLONE_NEWPID)
                return r;
        pid_t pid = fork();
        if (pid == 0)
                _exit(getpid() == 1 ? 0 : 1);
        int status = -1;
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -EIO;
}

static void probe_namespaces(struct host_fact *f) {
        static const struct {
                const char *name;
                int flag;
        } kinds[] = {{"pid", CLONE_NEWPID}, {"mount", CLONE_NEWNS},      {"network", CLONE_NEWNET},
                     {"ipc", CLONE_NEWIPC}, {"host name", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}};
        char good[100] = "", bad[100] = "";
        int first = 0;

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                int flag = kinds[i].flag;
                int r = host_try(try_namespace, &flag);
                char *list = r == 0 ? good : bad;
                size_t used = strlen(list);
                (void)snprintf(list + used, sizeof good - used, "%s%s", used ? ", " : "", kinds[i].name);
                if (r < 0 && first == 0)
                        first = r;
        }
        if (first == 0) {
                host_say(f, FACT_OK, "%s", good);
                return;
        }
        host_say(f, FACT_MISSING, "refused: %s (%s)", bad, err_name(first));
        host_cost(f, "no sandbox can start");
        host_fix(f, first == -ENOSPC ? "raise the limits in /proc/sys/user/max_*_namespaces"
                                     : "a kernel with all of CONFIG_*_NS; in a container: allow unshare and mount");
}

/* Without them: one id inside. */
static void probe_subids(struct host_fact *f) {
        char who[32];
        _cleanup_free_ char *text = NULL;

        if (geteuid() == 0) {
                host_say(f, FACT_OK, "root takes ids of its own range for every sandbox");
                return;
        }
        const char *name = getenv("USER");
        (void)snprintf(who, sizeof who, "%u", geteuid());
        if (fd_read_file(AT_FDCWD, "/etc/subuid", 1 << 20, false, &text, NULL, NULL) == 0)
                for (char *line = text; line; line = strchr(line, '\n')) {
                        line += *line == '\n';
                        size_t size = strcspn(line, ":\n");
                        if (line[size] == ':' && ((size == strlen(who) && strncmp(line, who, size) == 0) ||
                                                  (name && size == strlen(name) && strncmp(line, name, size) == 0))) {
                                host_say(f, FACT_OK, "%.*s", (int)strcspn(line, "\n"), line);
                                return;
                        }
                }
        host_say(f, FACT_LIMITED, "none for user %u in /etc/subuid", geteuid());
        host_cost(f, "a single id inside: user.root: namespaced does not work");
        host_fix(f, "as root: stockade setup --user %u", geteuid());
}

static int try_clone3(void *argument) {
        int pidfd = -1;
        struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (__u64)(uintptr_t)&pidfd, .exit_signal = SIGCHLD};

        (void)argument;
        pid_t pid = kernel_clone3(&args);
        if (pid < 0)
                return pid;
        if (pid == 0)
                for (;;)
                        (void)pause();
        int r = kernel_pidfd_send_signal(pidfd, SIGKILL, NULL);
        siginfo_t info;
        if (r == 0 && waitid((idtype_t)3 /* P_PIDFD */, (id_t)pidfd, &info, WEXITED) < 0)
                r = -errno;
        return r;
}

static void probe_clone3(struct host_fact *f) {
        host_judge(f, host_try(try_clone3, NULL), "processes are made, signalled and waited for by descriptor",
                   "slower starts: processes are moved into their cgroup instead of born there",
                   "a kernel of 5.7 or newer; in a container: allow clone3 and pidfd_* in its seccomp profile");
        if (f->state == FACT_MISSING)
                f->state = FACT_LIMITED;
}

const struct host_probe host_kernel_probes[] = {
        {"kernel", probe_kernel, true},         {"namespaces", probe_namespaces, true},
        {"user namespaces", probe_user, true},  {"subordinate ids", probe_subids, false},
        {"clone3, pidfd", probe_clone3, false}, {NULL, NULL, false},
};
