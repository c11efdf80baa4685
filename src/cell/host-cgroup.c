/* Probes: limits. Each is asked of cgroup_create alone, for this user, exactly as a sandbox would ask for it; its own
 * words say what is wrong. */
#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"
#include "cell/host-probe.h"

/* Creates and removes a cgroup with these limits. */
static int try_limits(const struct cgroup_limits *limits, struct cgroup *ret, struct err *err) {
        struct cgroup c = CGROUP_INIT;
        char id[64];

        (void)snprintf(id, sizeof id, "d0c0000%09x", (unsigned)getpid());
        int r = cgroup_create(&c, id, limits, NULL, 0, err);
        if (r < 0)
                return r;
        if (ret)
                *ret = c; /* the caller destroys it */
        else
                (void)cgroup_destroy(&c);
        return 0;
}

/* Takes the reason out of "KEY cannot be enforced: REASON" and the remedy out of "REMEDY, or do without: ...". */
static void judge_limit(struct host_fact *f, int r, const struct err *err, const char *detail, const char *cost) {
        static const char middle[] = " cannot be enforced: ", tail[] = ", or do without";

        if (r == 0) {
                host_say(f, FACT_OK, "%s", detail);
                return;
        }
        const char *cause = strstr(err->text, middle), *end = strstr(err->hint, tail);
        host_say(f, FACT_MISSING, "%s", cause ? cause + strlen(middle) : err->text);
        host_cost(f, "%s", cost);
        host_fix(f, "%.*s", end ? (int)(end - err->hint) : (int)strlen(err->hint), err->hint);
}

static void probe_version(struct host_fact *f) {
        _cleanup_cgroup_place_ struct cgroup_place p = {0};
        struct err err = {0};
        bool v1 = false;

        if (cgroup_place_find(&p, &err) < 0) {
                host_say(f, FACT_MISSING, "%s", err.text);
                host_cost(f, "no limit can be enforced");
                return;
        }
        for (size_t k = 0; k < CGROUP_CONTROLLERS; k++)
                v1 |= p.v1[k] >= 0;
        host_say(f, v1 ? FACT_LIMITED : FACT_OK, "%s",
                 !v1         ? "v2"
                 : p.v2 >= 0 ? "hybrid: controllers on v1, a v2 tree beside them"
                             : "v1");
        if (v1) {
                host_cost(f, "limits.disk_write is refused for writable disks");
                host_fix(f, "boot with systemd.unified_cgroup_hierarchy=1 (or cgroup_no_v1=all)");
        }
}

static void probe_memory(struct host_fact *f) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        limits.memory = 64 << 20;
        judge_limit(f, try_limits(&limits, NULL, &err), &err, "limits.memory", "limits.memory is refused");
}

static void probe_swap(struct host_fact *f) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct cgroup c = CGROUP_INIT;
        struct sysinfo info;
        struct err err = {0};

        limits.memory = 64 << 20;
        int r = try_limits(&limits, &c, &err);
        bool v2 = r == 0 && c.home[CGROUP_MEMORY] == c.into;
        bool limited = r == 0 && faccessat(c.home[CGROUP_MEMORY],
                                           v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes", F_OK, 0) == 0;
        (void)cgroup_destroy(&c);
        if (limited)
                host_say(f, FACT_OK, "swapping is off inside");
        else if (sysinfo(&info) == 0 && info.totalswap == 0)
                host_say(f, FACT_OK, "this host has no swap");
        else {
                host_say(f, FACT_MISSING, "this host has swap and it cannot be limited");
                host_cost(f, "limits.memory is refused");
                host_fix(f, "boot with swapaccount=1, or turn swap off with 'swapoff -a'");
        }
}

static void probe_processes(struct host_fact *f) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        limits.processes = 10;
        judge_limit(f, try_limits(&limits, NULL, &err), &err, "limits.processes", "limits.processes is refused");
}

static void probe_cpus(struct host_fact *f) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        limits.cpus = 500;
        judge_limit(f, try_limits(&limits, NULL, &err), &err, "limits.cpus", "limits.cpus is refused");
}

static void probe_cpu_usage(struct host_fact *f) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        limits.need_cpu_usage = true;
        judge_limit(f, try_limits(&limits, NULL, &err), &err, "budget.cpu", "budget.cpu is refused");
}

/* Tried on the disk that /usr is on. */
static void probe_disk(struct host_fact *f, bool writes) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct err err = {0};

        _cleanup_fd_ int usr = open("/usr", O_PATH | O_CLOEXEC);
        if (usr < 0 || cgroup_limits_add(&limits, usr, writes) < 0 || limits.device_count == 0) {
                host_say(f, FACT_OK, "/usr is not on a disk: nothing to throttle");
                return;
        }
        if (writes)
                limits.disk_write = 1 << 20;
        else
                limits.disk_read = 1 << 20;
        judge_limit(f, try_limits(&limits, NULL, &err), &err, writes ? "limits.disk_write" : "limits.disk_read",
                    writes ? "limits.disk_write is refused where a disk is writable" : "limits.disk_read is refused");
        if (f->state == FACT_MISSING && writes)
                f->state = FACT_LIMITED;
}

static void probe_disk_read(struct host_fact *f) {
        probe_disk(f, false);
}

static void probe_disk_write(struct host_fact *f) {
        probe_disk(f, true);
}

static void probe_kill(struct host_fact *f) {
        struct cgroup_limits limits = CGROUP_LIMITS_NONE;
        struct cgroup c = CGROUP_INIT;
        struct err err = {0};

        int r = try_limits(&limits, &c, &err);
        if (r == 0 && c.into >= 0 && faccessat(c.into, "cgroup.kill", W_OK, 0) == 0)
                host_say(f, FACT_OK, "a sandbox is born in its cgroup and killed as a whole");
        else if (r == 0 && (c.into >= 0 || c.task_count > 0)) {
                host_say(f, FACT_LIMITED, c.into >= 0 ? "no cgroup.kill" : "no v2 cgroup for this user");
                host_cost(f, "a sandbox is killed process by process: slower, still complete");
                if (c.into >= 0)
                        host_fix(f, "a kernel of 5.14 or newer");
        } else {
                host_say(f, FACT_LIMITED, "no cgroup for this user");
                host_cost(f, "a sandbox is killed through its PID 1 only");
                host_fix(f, "as root: stockade setup --user %u", geteuid());
        }
        (void)cgroup_destroy(&c);
}

const struct host_probe host_cgroup_probes[] = {
        {"cgroups", probe_version, true},
        {"memory", probe_memory, true},
        {"swap limit", probe_swap, true},
        {"processes", probe_processes, true},
        {"cpu share", probe_cpus, true},
        {"cpu time", probe_cpu_usage, false},
        {"disk reads", probe_disk_read, false},
        {"disk writes", probe_disk_write, false},
        {"kill", probe_kill, false},
        {NULL, NULL, false},
};
