/* The limits: which files say them, on v1 and on v2, and what else has to be true for them to hold.
 *
 * A limit holds when its apply returned 0: nothing here rounds a limit up or takes a partial one for success. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "cell/cgroup-make.h"

#ifndef MQUEUE_MAGIC
#define MQUEUE_MAGIC 0x19800202
#endif
#ifndef DEVPTS_SUPER_MAGIC
#define DEVPTS_SUPER_MAGIC 0x1cd1
#endif

/* File systems whose bytes never meet a disk. */
static bool is_memory(long type) {
        static const long types[] = {TMPFS_MAGIC,        RAMFS_MAGIC,  PROC_SUPER_MAGIC,   SYSFS_MAGIC,
                                     DEVPTS_SUPER_MAGIC, MQUEUE_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC};

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (types[i] == type)
                        return true;
        return false;
}

int cgroup_limits_add(struct cgroup_limits *limits, int fd, bool writable) {
        struct stat st;
        struct statfs fs;

        if (fstat(fd, &st) < 0)
                return -errno;
        unsigned major = major(st.st_dev), minor = minor(st.st_dev);
        if (major == 0) {
                if (fstatfs(fd, &fs) < 0)
                        return -errno;
                if (is_memory((long)fs.f_type))
                        return 0;
        }
        for (size_t i = 0; i < limits->device_count; i++)
                if (limits->devices[i].major == major && limits->devices[i].minor == minor) {
                        limits->devices[i].writable |= writable;
                        return 0;
                }
        if (limits->device_count == CGROUP_DEVICES)
                return -E2BIG;
        limits->devices[limits->device_count++] = (struct cgroup_device){
                .major = major, .minor = minor, .writable = writable, .opaque = major == 0};
        return 0;
}

static bool on_v2(const struct cgroup_make *m, enum cgroup_controller k) {
        return m->c->home[k] >= 0 && m->c->home[k] == m->c->into;
}

/* Writes one control file of controller k's leaf. On v2 the files appear once the controllers are passed down, which
 * an earlier sandbox usually has done: so write first and pass down only when that fails. */
static int write_limit(struct cgroup_make *m, enum cgroup_controller k, const char *file, const char *text) {
        int dir = m->c->home[k];
        if (dir < 0)
                return m->why[k] < 0 ? m->why[k] : -ENOENT;

        int r = fd_write_at(dir, file, text);
        if (r == -ENOENT && on_v2(m, k)) {
                if (!m->enabled) {
                        cgroup_leaf_enable(m);
                        r = fd_write_at(dir, file, text);
                }
                if (r == -ENOENT && m->why[k] < 0)
                        r = m->why[k];
        }
        if (r == -ENOENT || r == -ENODEV)
                return cgroup_leaf_gone(dir) ? -ENODEV : r == -ENODEV ? -ENXIO : r;
        return r;
}

static int write_number(struct cgroup_make *m, enum cgroup_controller k, const char *file, uint64_t value) {
        char text[32];

        (void)snprintf(text, sizeof text, "%" PRIu64, value);
        return write_limit(m, k, file, text);
}

/* The number in a file of an ancestor, which may be negative: "no limit". */
static bool read_signed(int dir, const char *path, int64_t *ret) {
        char text[32], *end;

        if (fd_read_at(dir, path, text, sizeof text) <= 0)
                return false;
        *ret = strtoll(text, &end, 10);
        return end != text;
}

/* v1 takes no share above that of a cgroup further up. Then that smaller one already holds for us, if it is there. */
static bool parent_is_stricter(int dir, uint64_t cpus) {
        char up[64] = "";

        for (size_t depth = 1; depth <= 16; depth++) {
                char quota_path[128], period_path[128];
                int64_t quota, period;
                memcpy(up + 3 * (depth - 1), "../", 4);
                (void)snprintf(quota_path, sizeof quota_path, "%scpu.cfs_quota_us", up);
                (void)snprintf(period_path, sizeof period_path, "%scpu.cfs_period_us", up);
                if (!read_signed(dir, quota_path, &quota) || !read_signed(dir, period_path, &period))
                        return false;
                if (quota > 0 && period > 0)
                        return (uint64_t)quota * 1000 <= cpus * (uint64_t)period;
        }
        return false;
}

/* A share of the processors is a quota per period. The kernel takes no quota below 1 ms, so small shares get a longer
 * period. */
static int apply_cpus(struct cgroup_make *m) {
        uint64_t cpus = MIN(m->limits->cpus, UINT64_C(1000000000));
        uint64_t period = cpus < 10 ? 1000000 : 100000, quota = MAX(cpus * period / 1000, UINT64_C(1000));

        if (on_v2(m, CGROUP_CPU)) {
                char text[64];
                (void)snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64, quota, period);
                return write_limit(m, CGROUP_CPU, "cpu.max", text);
        }
        int r = period == 100000 ? 0 : write_number(m, CGROUP_CPU, "cpu.cfs_period_us", period);
        if (r == 0)
                r = write_number(m, CGROUP_CPU, "cpu.cfs_quota_us", quota);
        return r == -EINVAL && parent_is_stricter(m->c->home[CGROUP_CPU], cpus) ? 0 : r;
}

static bool host_has_swap(void) {
        struct sysinfo info;

        return sysinfo(&info) < 0 || info.totalswap > 0;
}

/* Memory means memory: what may be swapped out is not limited. Without swap on the host there is nothing to limit. */
static int apply_memory(struct cgroup_make *m) {
        bool v2 = on_v2(m, CGROUP_MEMORY);

        int r = write_number(m, CGROUP_MEMORY, v2 ? "memory.max" : "memory.limit_in_bytes", m->limits->memory);
        if (r < 0)
                return r;
        v2 = on_v2(m, CGROUP_MEMORY);
        r = v2 ? write_limit(m, CGROUP_MEMORY, "memory.swap.max", "0")
               : write_number(m, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", m->limits->memory);
        if (r < 0 && host_has_swap()) {
                (void)snprintf(m->cause, sizeof m->cause,
                               "this host has swap and its kernel does not limit it by cgroup");
                (void)snprintf(m->remedy, sizeof m->remedy,
                               "boot with swapaccount=1, or turn swap off with 'swapoff -a'");
                return r;
        }
        /* memory.oom.group stays off: v1 has no such thing, and one profile is to mean one thing */
        if (!v2) /* asking whether there is swap takes longer */
                (void)fd_write_at(m->c->home[CGROUP_MEMORY], "memory.swappiness", "0");
        return r == -ENOENT ? 0 : r;
}

static int apply_processes(struct cgroup_make *m) {
        return write_number(m, CGROUP_PIDS, "pids.max", MIN(m->limits->processes, UINT64_C(4194304)));
}

/* A partition's whole disk: only that can be throttled. Falls back to the device itself. */
static void whole_disk(const struct cgroup_device *device, char *ret, size_t size) {
        char path[96], parent[32];

        (void)snprintf(ret, size, "%u:%u", device->major, device->minor);
        (void)snprintf(path, sizeof path, "/sys/dev/block/%s/partition", ret);
        if (access(path, F_OK) < 0)
                return;
        (void)snprintf(path, sizeof path, "/sys/dev/block/%s/../dev", ret);
        if (fd_read_at(AT_FDCWD, path, parent, sizeof parent) > 0)
                (void)snprintf(ret, size, "%s", parent);
}

static int throttle(struct cgroup_make *m, const struct cgroup_device *device, bool writes, uint64_t rate) {
        if (device->opaque) {
                (void)snprintf(m->cause, sizeof m->cause, "file system %u:%u is not on one local disk", device->major,
                               device->minor);
                (void)snprintf(m->remedy, sizeof m->remedy,
                               "keep what the sandbox reads and writes on ext4, xfs or tmpfs");
                return -EOPNOTSUPP;
        }

        char disk[32], text[96];
        whole_disk(device, disk, sizeof disk);
        if (on_v2(m, CGROUP_IO)) {
                (void)snprintf(text, sizeof text, "%s %s=%" PRIu64, disk, writes ? "wbps" : "rbps", rate);
                return write_limit(m, CGROUP_IO, "io.max", text);
        }
        (void)snprintf(text, sizeof text, "%s %" PRIu64, disk, rate);
        return write_limit(m, CGROUP_IO, writes ? "blkio.throttle.write_bps_device" : "blkio.throttle.read_bps_device",
                           text);
}

static int apply_disk_read(struct cgroup_make *m) {
        int r = 0;

        for (size_t i = 0; i < m->limits->device_count && r == 0; i++)
                r = throttle(m, &m->limits->devices[i], false, m->limits->disk_read);
        return r;
}

static int apply_disk_write(struct cgroup_make *m) {
        int r = 0;

        /* ordinary writes reach the disk later, from kernel threads; only v2, with memory and io in one tree, knows
         * whose they were */
        if (m->place->v1[CGROUP_IO] >= 0 || m->place->v1[CGROUP_MEMORY] >= 0) {
                (void)snprintf(m->cause, sizeof m->cause, "cgroup v1 does not throttle buffered writes to a disk");
                (void)snprintf(
                        m->remedy, sizeof m->remedy,
                        "boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2), or let it write to tmpfs only");
                return -EOPNOTSUPP;
        }
        for (size_t i = 0; i < m->limits->device_count && r == 0; i++)
                if (m->limits->devices[i].writable)
                        r = throttle(m, &m->limits->devices[i], true, m->limits->disk_write);
        return r;
}

static int apply_cpu_usage(struct cgroup_make *m) {
        uint64_t us;

        if (cgroup_cpu_usage(m->c, &us) == 0)
                return 0;
        int r = m->place->v1[CGROUP_CPUACCT] >= 0 ? m->why[CGROUP_CPUACCT] : m->why_v2;
        return r < 0 ? r : -ENOENT;
}

static bool asks_cpus(const struct cgroup_limits *l) {
        return l->cpus != CGROUP_UNSET;
}
static bool asks_memory(const struct cgroup_limits *l) {
        return l->memory != CGROUP_UNSET;
}
static bool asks_processes(const struct cgroup_limits *l) {
        return l->processes != CGROUP_UNSET;
}
static bool asks_disk_read(const struct cgroup_limits *l) {
        return l->disk_read != CGROUP_UNSET && l->device_count > 0;
}
static bool asks_disk_write(const struct cgroup_limits *l) {
        bool writable = false;

        for (size_t i = 0; i < l->device_count; i++)
                writable |= l->devices[i].writable;
        return l->disk_write != CGROUP_UNSET && writable;
}
static bool asks_cpu_usage(const struct cgroup_limits *l) {
        return l->need_cpu_usage;
}

const struct cgroup_limit cgroup_limit_table[CGROUP_LIMITS] = {
        {"limits.memory", CGROUP_MEMORY, asks_memory, apply_memory},
        {"limits.processes", CGROUP_PIDS, asks_processes, apply_processes},
        {"limits.cpus", CGROUP_CPU, asks_cpus, apply_cpus},
        {"limits.disk_read", CGROUP_IO, asks_disk_read, apply_disk_read},
        {"limits.disk_write", CGROUP_IO, asks_disk_write, apply_disk_write},
        {"budget.cpu", CGROUP_CPUACCT, asks_cpu_usage, apply_cpu_usage},
};
