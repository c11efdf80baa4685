/* Reads back what a sandbox used. A number that this host does not have stays CGROUP_UNSET; none is ever guessed. */
#include <inttypes.h>

#include "base/fd.h"
#include "cell/cgroup.h"

static uint64_t read_number(int dir, const char *file) {
        char text[64], *end;

        if (dir < 0 || fd_read_at(dir, file, text, sizeof text) <= 0)
                return CGROUP_UNSET;
        errno = 0;
        uint64_t value = strtoull(text, &end, 10);
        return end == text || errno != 0 ? CGROUP_UNSET : value;
}

/* The number after "key " at the start of a line. */
static uint64_t find_key(const char *text, const char *key) {
        size_t size = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, size) == 0 && line[size] == ' ')
                        return strtoull(line + size + 1, NULL, 10);
        }
        return CGROUP_UNSET;
}

static uint64_t read_key(int dir, const char *file, const char *key) {
        char text[4096];

        return dir >= 0 && fd_read_at(dir, file, text, sizeof text) > 0 ? find_key(text, key) : CGROUP_UNSET;
}

/* The sum of the numbers that follow word, over all devices. An empty file is zero bytes. */
static uint64_t read_sum(int dir, const char *file, const char *word) {
        char text[8192];
        uint64_t sum = 0;

        if (dir < 0 || fd_read_at(dir, file, text, sizeof text) < 0)
                return CGROUP_UNSET;
        for (const char *s = text; (s = strstr(s, word));) {
                s += strlen(word);
                sum += strtoull(s, NULL, 10);
        }
        return sum;
}

static uint64_t divide(uint64_t value, uint64_t by) {
        return value == CGROUP_UNSET ? value : value / by;
}

int cgroup_cpu_usage(const struct cgroup *c, uint64_t *ret_us) {
        uint64_t us = read_key(c->into, "cpu.stat", "usage_usec");

        if (us == CGROUP_UNSET)
                us = divide(read_number(c->home[CGROUP_CPUACCT], "cpuacct.usage"), 1000);
        if (us == CGROUP_UNSET)
                return -ENODATA;
        *ret_us = us;
        return 0;
}

int cgroup_refusals(const struct cgroup *c, struct cgroup_usage *ret) {
        int memory = c->home[CGROUP_MEMORY];
        bool v2 = memory >= 0 && memory == c->into;

        memset(ret, 0xff, sizeof *ret); /* CGROUP_UNSET in every field */
        ret->fork_refusals = read_key(c->home[CGROUP_PIDS], "pids.events", "max");
        ret->oom_kills = read_key(memory, v2 ? "memory.events" : "memory.oom_control", "oom_kill");
        return 0;
}

int cgroup_usage(const struct cgroup *c, struct cgroup_usage *ret) {
        int cpu = c->home[CGROUP_CPU], memory = c->home[CGROUP_MEMORY], pids = c->home[CGROUP_PIDS];
        int io = c->home[CGROUP_IO];
        struct cgroup_usage u = {.cpu_us = CGROUP_UNSET,
                                 .processes_now = read_number(pids, "pids.current"),
                                 .processes_peak = read_number(pids, "pids.peak"),
                                 .fork_refusals = read_key(pids, "pids.events", "max")};

        (void)cgroup_cpu_usage(c, &u.cpu_us);
        if (memory >= 0 && memory == c->into) {
                u.memory_now = read_number(memory, "memory.current");
                u.memory_peak = read_number(memory, "memory.peak");
                u.oom_kills = read_key(memory, "memory.events", "oom_kill");
        } else {
                u.memory_now = read_number(memory, "memory.usage_in_bytes");
                u.memory_peak = read_number(memory, "memory.max_usage_in_bytes");
                u.oom_kills = read_key(memory, "memory.oom_control", "oom_kill");
        }
        if (io >= 0 && io == c->into) {
                u.read_bytes = read_sum(io, "io.stat", " rbytes=");
                u.write_bytes = read_sum(io, "io.stat", " wbytes=");
        } else {
                u.read_bytes = read_sum(io, "blkio.throttle.io_service_bytes", " Read ");
                u.write_bytes = read_sum(io, "blkio.throttle.io_service_bytes", " Write ");
        }
        u.throttled_us = cpu >= 0 && cpu == c->into ? read_key(cpu, "cpu.stat", "throttled_usec")
                                                    : divide(read_key(cpu, "cpu.stat", "throttled_time"), 1000);
        *ret = u;
        return 0;
}
