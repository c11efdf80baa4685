/* Runs the probes and gives them what they share. Holds no state; leaves nothing behind: whatever a probe makes lives
 * in a child's namespaces and goes with it. */
#include "cell/host.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/host-probe.h"

static const struct {
        const char *group;
        const struct host_probe *probes;
} groups[] = {
        {"kernel", host_kernel_probes},   {"files", host_mount_probes},   {"confinement", host_guard_probes},
        {"network", host_network_probes}, {"limits", host_cgroup_probes}, {"drivers", host_driver_probes},
};

size_t host_probe(struct host_fact *facts, size_t room) {
        size_t count = 0;

        for (size_t g = 0; g < ELEMENTSOF(groups); g++)
                for (const struct host_probe *p = groups[g].probes; p->name && count < room; p++) {
                        struct host_fact *f = &facts[count++];
                        *f = (struct host_fact){
                                .name = p->name, .group = groups[g].group, .needed_for_low = p->needed_for_low};
                        p->run(f);
                }
        return count;
}

bool host_runs_low(const struct host_fact *facts, size_t count) {
        for (size_t i = 0; i < count; i++)
                if (facts[i].needed_for_low && facts[i].state == FACT_MISSING)
                        return false;
        return true;
}

int host_try(int (*attempt)(void *argument), void *argument) {
        (void)fflush(NULL);
        pid_t pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)signal(SIGALRM, SIG_DFL);
                (void)alarm(20);
                int r = attempt(argument);
                _exit(r < 0 && r > -250 ? -r : r < 0 ? EIO : 0);
        }

        int status;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        if (WIFSIGNALED(status))
                return WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -EIO;
        return -WEXITSTATUS(status);
}

int host_map_self(unsigned uid, unsigned gid) {
        char text[32];

        (void)fd_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
        (void)snprintf(text, sizeof text, "0 %u 1", uid);
        int r = fd_write_at(AT_FDCWD, "/proc/self/uid_map", text);
        if (r < 0)
                return r;
        (void)snprintf(text, sizeof text, "0 %u 1", gid);
        return fd_write_at(AT_FDCWD, "/proc/self/gid_map", text);
}

int host_unshare(int flags) {
        unsigned uid = geteuid(), gid = getegid();

        if (uid != 0)
                flags |= CLONE_NEWUSER;
        if (unshare(flags) < 0)
                return -errno;
        if (flags & CLONE_NEWUSER) {
                int r = host_map_self(uid, gid);
                if (r < 0)
                        return r;
        }
        if (flags & CLONE_NEWNS && syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        return 0;
}

void host_say(struct host_fact *f, enum host_state state, const char *format, ...) {
        va_list args;

        f->state = state;
        va_start(args, format);
        (void)vsnprintf(f->detail, sizeof f->detail, format, args);
        va_end(args);
}

void host_cost(struct host_fact *f, const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(f->cost, sizeof f->cost, format, args);
        va_end(args);
}

void host_fix(struct host_fact *f, const char *format, ...) {
        va_list args;

        va_start(args, format);
        (void)vsnprintf(f->fix, sizeof f->fix, format, args);
        va_end(args);
}

void host_judge(struct host_fact *f, int r, const char *detail, const char *cost, const char *fix) {
        if (r >= 0) {
                host_say(f, FACT_OK, "%s", detail);
                return;
        }
        host_say(f, FACT_MISSING, "%s", r == -ENOSYS ? "not in this kernel" : err_name(r));
        host_cost(f, "%s", cost);
        host_fix(f, "%s", fix);
}

long host_sysctl(const char *path) {
        char text[32], *end;

        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return -1;
        long value = strtol(text, &end, 10);
        return end == text ? -1 : value;
}
