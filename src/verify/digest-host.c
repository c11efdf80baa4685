/* The parts of a digest that the kernel lists: mounts, processes and their namespaces, settings, keys, ipc, network,
 * descriptors, loop devices, identity.
 *
 * On a machine that lives, much changes by itself. Each part therefore says what it leaves out and why; everything else
 * that differs between two digests was done by somebody below the judge, or to the host as a whole. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/digest-parts.h"

enum { SANDBOX_UID_FIRST = 0x40000000 }; /* host ids of sandboxes that root starts begin here */

static bool is_sandbox(uid_t uid) {
        return geteuid() == 0 && uid >= SANDBOX_UID_FIRST;
}

/* Calls line(b, text, data) for each line of a file below a cap; a file that may not be read has none. */
static int each_line(const char *path, void (*line)(struct buf *b, char *text, void *data), struct buf *b, void *data,
                     struct err *err) {
        _cleanup_free_ char *text = NULL;

        int r = fd_read_file(AT_FDCWD, path, 16 << 20, false, &text, NULL, NULL);
        if (r == ERR_LIMIT || r == -ENOMEM)
                return err_set(err, r, "cannot read '%s'", path);
        if (r < 0)
                return 0;
        for (char *start = text, *next; *start; start = next) {
                next = start + strcspn(start, "\n");
                if (*next)
                        *next++ = '\0';
                line(b, start, data);
        }
        return 0;
}

/* --- mounts */

/* Without the ids of the mount and of its parent: they count up. "id parent device root point options …" */
static void mount_line(struct buf *b, char *text, void *data) {
        const char *rest = text;

        for (int i = 0; i < 2 && rest; i++)
                rest = strchr(rest + (i > 0), ' ');
        if (rest)
                parts_line(b, "%s%s", (const char *)data, rest + 1);
}

static int mounts(const struct parts_scope *s, struct buf *b, struct err *err) {
        int r = each_line("/proc/self/mountinfo", mount_line, b, (void *)(uintptr_t) "", err);

        if (r == 0 && s->host)
                r = each_line("/proc/1/mountinfo", mount_line, b, (void *)(uintptr_t) "init: ", err);
        return r;
}

/* --- processes and namespaces */

static int compare_pids(const void *a, const void *b) {
        pid_t x = ((const struct parts_process *)a)->pid, y = ((const struct parts_process *)b)->pid;

        return (x > y) - (x < y);
}

/* "pid (name) state parent …": the name may have blanks and brackets in it. */
static bool read_process(const char *pid, struct parts_process *ret) {
        char path[64], text[1024];
        int parent;

        (void)snprintf(path, sizeof path, "/proc/%s/stat", pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return false;
        char *open = strchr(text, '('), *close = strrchr(text, ')');
        if (!open || !close || close < open || sscanf(close + 1, " %c %d", &ret->state, &parent) != 2)
                return false;
        *close = '\0';
        (void)snprintf(ret->name, sizeof ret->name, "%s", open + 1);
        ret->pid = (pid_t)strtol(pid, NULL, 10);
        ret->parent = parent;
        return true;
}

static const struct parts_process *find_process(const struct parts_scope *s, pid_t pid) {
        struct parts_process key = {.pid = pid};

        return bsearch(&key, s->processes, s->process_count, sizeof key, compare_pids);
}

/* Up the chain of parents: the judge makes it his, one of the judge's own on the way takes it out again. */
static bool descends(const struct parts_scope *s, const struct parts_process *p) {
        pid_t judge = getpid();

        if (p->pid == judge)
                return false;
        for (unsigned steps = 0; p && steps < 1000; steps++, p = find_process(s, p->parent)) {
                for (const int *own = s->ours; own && *own; own++)
                        if (p->pid == *own)
                                return false;
                if (p->pid == judge)
                        return true;
        }
        return false;
}

int parts_processes(struct parts_scope *s, struct err *err) {
        DIR *d = opendir("/proc");
        size_t room = 0;

        if (!d)
                return err_set(err, -errno, "cannot list /proc");
        for (struct dirent *e; (e = readdir(d));) {
                struct parts_process p = {0};

                if (e->d_name[0] < '1' || e->d_name[0] > '9' || !read_process(e->d_name, &p))
                        continue;
                if (s->process_count == room) {
                        room = room ? 2 * room : 512;
                        struct parts_process *more = room <= 2 * PARTS_PROCESSES_MAX
                                                             ? reallocarray(s->processes, room, sizeof *more)
                                                             : NULL;
                        if (!more) {
                                (void)closedir(d);
                                return err_set(err, ERR_LIMIT, "too many processes to look at");
                        }
                        s->processes = more;
                }
                s->processes[s->process_count++] = p;
        }
        (void)closedir(d);
        if (s->process_count == 0)
                return err_set(err, ERR_CORRUPT, "/proc shows no processes");
        qsort(s->processes, s->process_count, sizeof *s->processes, compare_pids);
        for (size_t i = 0; i < s->process_count; i++)
                s->processes[i].below = descends(s, &s->processes[i]);
        return 0;
}

bool parts_is_below(const struct parts_scope *s, pid_t pid) {
        const struct parts_process *known = find_process(s, pid);
        struct parts_process p = {0};
        char name[16];

        (void)snprintf(name, sizeof name, "%d", pid);
        return known ? known->below : read_process(name, &p) && descends(s, &p);
}

/* The name of the file that a process was started from. */
static const char *program_of(pid_t pid, char exe[PATH_MAX]) {
        char path[64];

        (void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
        ssize_t n = readlink(path, exe, PATH_MAX - 1);
        exe[n > 0 ? n : 0] = '\0';
        char *deleted = strstr(exe, " (deleted)"), *name = strrchr(exe, '/');
        if (deleted)
                *deleted = '\0';
        return name ? name + 1 : "";
}

/* One of our programs; not this one. */
static bool is_ours(pid_t pid) {
        static const char *const programs[] = {"stockade", "stockade-policy", "stockade-guest", "stockade-gate",
                                               "stockade-probe"};
        char exe[PATH_MAX];
        const char *name = program_of(pid, exe);

        for (size_t i = 0; i < ELEMENTSOF(programs); i++)
                if (str_eq(name, programs[i]))
                        return true;
        return false;
}

/* The gate of a daemon: it comes when a sandbox with a network does, and goes when it has had nothing to do. */
static bool is_daemons_gate(const struct parts_process *p) {
        char exe[PATH_MAX];

        return str_eq(p->name, "stockade-gate") && str_eq(program_of(p->pid, exe), "stockade-gate") &&
               str_eq(program_of(p->parent, exe), "stockaded");
}

/* Running, sleeping and waiting are one state: they alternate. */
static const char *state_word(char state) {
        return state == 'Z' || state == 'X' ? "dead" : state == 'T' || state == 't' ? "stopped" : "alive";
}

static int processes(const struct parts_scope *s, struct buf *b) {
        for (size_t i = 0; i < s->process_count; i++) {
                const struct parts_process *p = &s->processes[i];

                if (s->host ? is_ours(p->pid) : p->below && !is_daemons_gate(p))
                        parts_line(b, "%d %s %s", p->pid, p->name, state_word(p->state));
        }
        return 0;
}

static const char *const namespace_names[] = {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"};

static void namespaces_of(pid_t pid, struct buf *b) {
        for (size_t i = 0; i < ELEMENTSOF(namespace_names); i++) {
                char path[64], mine[64], target[64], own[64];

                (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, namespace_names[i]);
                (void)snprintf(mine, sizeof mine, "/proc/self/ns/%s", namespace_names[i]);
                ssize_t n = readlink(path, target, sizeof target - 1), m = readlink(mine, own, sizeof own - 1);
                target[n > 0 ? n : 0] = own[m > 0 ? m : 0] = '\0';
                if (n > 0 && !str_eq(target, own)) /* the judge's own are no news */
                        parts_line(b, "%s", target);
        }
}

static void namespace_mount(struct buf *b, char *text, void *data) {
        char root[256];

        (void)data;
        if (strstr(text, " - nsfs ") && sscanf(text, "%*s %*s %*s %255s", root) == 1)
                parts_line(b, "mounted %s", root);
}

static int namespaces(const struct parts_scope *s, struct buf *b, struct err *err) {
        for (size_t i = 0; i < s->process_count; i++)
                if (s->host || (s->processes[i].below && !is_daemons_gate(&s->processes[i])))
                        namespaces_of(s->processes[i].pid, b);
        return each_line("/proc/self/mountinfo", namespace_mount, b, NULL, err);
}

/* --- settings */

/* Files below /proc/sys that the kernel itself writes, or that answer differently each time. A name that ends with a
 * slash is a folder, one that begins with '*' a file of this name in any folder. */
static const struct {
        const char *path, *why;
} restless[] = {
        {"/proc/sys/fs/aio-nr", "counts requests"},
        {"/proc/sys/fs/dentry-state", "counts cached names"},
        {"/proc/sys/fs/file-nr", "counts open files"},
        {"/proc/sys/fs/inode-nr", "counts cached inodes"},
        {"/proc/sys/fs/inode-state", "counts cached inodes"},
        {"/proc/sys/fs/quota/", "counts what quotas did"},
        {"/proc/sys/kernel/hung_task_detect_count", "counts"},
        {"/proc/sys/kernel/ns_last_pid", "the last process id"},
        {"/proc/sys/kernel/perf_cpu_time_max_percent", "the kernel lowers it when samples take long"},
        {"/proc/sys/kernel/perf_event_max_sample_rate", "the kernel lowers it when samples take long"},
        {"/proc/sys/kernel/pty/nr", "counts terminals"},
        {"/proc/sys/kernel/random/", "entropy, and numbers that are new at each look"},
        {"/proc/sys/kernel/sched_domain/", "follows the load"},
        {"/proc/sys/vm/stat_refresh", "to look at it is to do something"},
        {"/proc/sys/kernel/tainted", "whoever loads a module sets it"},
        {"*nf_conntrack_count", "counts connections"},
        {"*max_newidle_lb_cost", "measured by the scheduler"},
};

static bool is_restless(const char *path) {
        const char *name = strrchr(path, '/');

        for (size_t i = 0; i < ELEMENTSOF(restless); i++) {
                const char *p = restless[i].path;
                size_t n = strlen(p);

                if (p[0] == '*' ? name && str_eq(name + 1, p + 1)
                                : str_eq(path, p) || (p[n - 1] == '/' && strncmp(path, p, n) == 0))
                        return true;
        }
        return false;
}

static bool visit_setting(struct parts_tree *t, int dir, const char *name, const char *path, const struct stat *st) {
        char value[4096];

        if (S_ISDIR(st->st_mode))
                return true;
        if (S_ISREG(st->st_mode) && (st->st_mode & 0444) && !is_restless(path) &&
            fd_read_at(dir, name, value, sizeof value) >= 0)
                parts_line(t->out, "%s %04o %s", path, st->st_mode & 07777, value);
        return false;
}

static int settings(struct buf *b, struct err *err) {
        struct parts_tree t = {.out = b, .across = true, .visit = visit_setting};

        return parts_walk(&t, "/proc/sys", err);
}

/* --- keys and ipc */

static long key_control(int operation, long key, void *data, size_t size) {
        return syscall(SYS_keyctl, operation, key, data, size);
}

/* A key as "type;uid;gid;perm;description", and what a keyring has in it. Keyrings of users are shared by all that a
 * user runs: they are named, not looked into. */
static void key_lines(struct buf *b, long key, unsigned depth) {
        char what[512] = "";
        int32_t below[256];

        if (key_control(KEYCTL_DESCRIBE, key, what, sizeof what - 1) <= 0)
                return;
        parts_line(b, "%*skey %ld %s", (int)depth, "", depth > 0 ? key : 0, what);
        if (!str_starts(what, "keyring;") || strstr(what, ";_uid") || depth >= 4)
                return;
        long size = key_control(KEYCTL_READ, key, below, sizeof below);
        for (long i = 0; i < MIN(size, (long)sizeof below) / (long)sizeof below[0]; i++)
                key_lines(b, below[i], depth + 1);
}

/* "serial flags usage timeout perm uid gid type description: summary" of keys that sandboxes own. Keyrings of sessions,
 * processes and threads live and die with processes, which are a part of their own. */
static void sandbox_key(struct buf *b, char *text, void *data) {
        char serial[16], type[32];
        unsigned uid;
        int at = 0;

        (void)data;
        if (sscanf(text, "%15s %*s %*s %*s %*s %u %*s %31s %n", serial, &uid, type, &at) != 3 || at == 0)
                return;
        const char *what = text + at;
        bool passing = str_eq(type, "keyring") && what[0] == '_';
        if (is_sandbox(uid) && !passing)
                parts_line(b, "of a sandbox: %s %u %s %s", serial, uid, type, what);
}

/* What is below the judge's own session keyring, which it has by itself or shares with its shell. Other keys of the
 * host belong to other sessions and change with them. */
static int keys(struct buf *b, struct err *err) {
        key_lines(b, KEY_SPEC_SESSION_KEYRING, 0);
        return each_line("/proc/keys", sandbox_key, b, NULL, err);
}

/* shm, msg and sem begin with key, id and permissions. Who used it last and when is left out. */
static void ipc_line(struct buf *b, char *text, void *data) {
        long key, id;
        unsigned perms;

        if (sscanf(text, "%ld %ld %o", &key, &id, &perms) == 3)
                parts_line(b, "%s key=%ld id=%ld %04o", (const char *)data, key, id, perms);
}

/* Of shared memory and queues with names only what a sandbox's id owns: the caller's other programs use them too. Where
 * these folders are the judge's own, it may watch them as files. */
static bool visit_shared(struct parts_tree *t, int dir, const char *name, const char *path, const struct stat *st) {
        (void)dir;
        (void)name;
        if (is_sandbox(st->st_uid))
                parts_line(t->out, "%s %06o %u:%u %lld", path, st->st_mode, st->st_uid, st->st_gid,
                           S_ISREG(st->st_mode) ? (long long)st->st_size : 0LL);
        return true;
}

static int ipc(struct buf *b, struct err *err) {
        struct parts_tree t = {.out = b, .visit = visit_shared};

        int r = each_line("/proc/sysvipc/shm", ipc_line, b, (void *)(uintptr_t) "shm", err);
        if (r == 0)
                r = each_line("/proc/sysvipc/msg", ipc_line, b, (void *)(uintptr_t) "msg", err);
        if (r == 0)
                r = each_line("/proc/sysvipc/sem", ipc_line, b, (void *)(uintptr_t) "sem", err);
        if (r == 0)
                r = parts_walk(&t, "/dev/shm", err);
        return r < 0 ? r : parts_walk(&t, "/dev/mqueue", err);
}

/* --- network, of the judge's own namespace */

/* Counters of use are left out of routes. */
static void route_line(struct buf *b, char *text, void *data) {
        char name[32], to[16], via[16], flags[16], metric[16], mask[16];

        (void)data;
        if (sscanf(text, "%31s %15s %15s %15s %*s %*s %15s %15s", name, to, via, flags, metric, mask) == 6)
                parts_line(b, "route %s %s/%s via %s flags %s metric %s", name, to, mask, via, flags, metric);
}

static void route6_line(struct buf *b, char *text, void *data) {
        char to[40], length[8], via[40], metric[16], name[32];

        (void)data;
        if (sscanf(text, "%39s %7s %*s %*s %39s %15s %*s %*s %*s %31s", to, length, via, metric, name) == 5)
                parts_line(b, "route6 %s %s/%s via %s metric %s", name, to, length, via, metric);
}

static void address6_line(struct buf *b, char *text, void *data) {
        char address[40], length[8], name[32];

        (void)data;
        if (sscanf(text, "%39s %*s %7s %*s %*s %31s", address, length, name) == 3)
                parts_line(b, "address6 %s %s/%s", name, address, length);
}

static void tree_line(struct buf *b, char *text, void *data) {
        parts_line(b, "%s %s", (const char *)data, text + strspn(text, " "));
}

static void interfaces(struct buf *b) {
        struct if_nameindex *all = if_nameindex();
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        for (const struct if_nameindex *i = all; i && i->if_name; i++) {
                struct ifreq flags = {0}, mtu = {0};

                (void)snprintf(flags.ifr_name, sizeof flags.ifr_name, "%s", i->if_name);
                (void)snprintf(mtu.ifr_name, sizeof mtu.ifr_name, "%s", i->if_name);
                (void)ioctl(fd, SIOCGIFFLAGS, &flags);
                (void)ioctl(fd, SIOCGIFMTU, &mtu);
                parts_line(b, "interface %u %s flags %x mtu %d", i->if_index, i->if_name,
                           (unsigned)(unsigned short)flags.ifr_flags, mtu.ifr_mtu);
        }
        if (all)
                if_freenameindex(all);
}

/* One answer to a question that has no attributes: an attribute of it as a number. */
static bool nft_number(int fd, uint16_t question, uint16_t attribute, uint32_t *ret) {
        struct {
                struct nlmsghdr header;
                struct nfgenmsg family;
        } ask = {.header = {.nlmsg_len = sizeof ask, .nlmsg_type = question, .nlmsg_flags = NLM_F_REQUEST}};
        _Alignas(struct nlmsghdr) char answer[8192];

        if (send(fd, &ask, sizeof ask, 0) != (ssize_t)sizeof ask)
                return false;
        ssize_t n = recv(fd, answer, sizeof answer, 0);
        struct nlmsghdr header;
        if (n < (ssize_t)sizeof ask || (size_t)n < sizeof header)
                return false;
        memcpy(&header, answer, sizeof header);
        if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_len > (size_t)n)
                return false;
        for (size_t at = sizeof ask; at + sizeof(struct nlattr) <= header.nlmsg_len;) {
                struct nlattr a;

                memcpy(&a, answer + at, sizeof a);
                if (a.nla_len < sizeof a || at + a.nla_len > header.nlmsg_len)
                        return false;
                if ((a.nla_type & NLA_TYPE_MASK) == attribute && a.nla_len >= sizeof a + sizeof *ret) {
                        memcpy(ret, answer + at + sizeof a, sizeof *ret);
                        return true;
                }
                at += NLMSG_ALIGN(a.nla_len);
        }
        return false;
}

/* The kernel counts every change to any table, chain, set or rule of a network namespace: one number stands for all of
 * them. Only a judge that may change rules may ask. */
static void nft(struct buf *b) {
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
        struct timeval second = {.tv_sec = 1};
        uint32_t generation;

        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) == 0 &&
            nft_number(fd, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, NFTA_GEN_ID, &generation))
                parts_line(b, "nft generation %u", ntohl(generation));
}

static int network(struct buf *b, struct err *err) {
        static const struct {
                const char *path;
                void (*line)(struct buf *b, char *text, void *data);
                const char *word;
        } lists[] = {
                {"/proc/net/route", route_line, ""},
                {"/proc/net/ipv6_route", route6_line, ""},
                {"/proc/net/if_inet6", address6_line, ""},
                {"/proc/net/fib_trie", tree_line, "addresses"},
                {"/proc/net/ip_tables_names", tree_line, "iptables"},
                {"/proc/net/ip6_tables_names", tree_line, "ip6tables"},
        };
        int r = 0;

        interfaces(b);
        nft(b);
        for (size_t i = 0; i < ELEMENTSOF(lists) && r == 0; i++)
                r = each_line(lists[i].path, lists[i].line, b, (void *)(uintptr_t)lists[i].word, err);
        return r;
}

/* --- descriptors, loop devices, identity */

static int descriptors(struct buf *b, struct err *err) {
        DIR *d = opendir("/proc/self/fd");

        if (!d)
                return err_set(err, -errno, "cannot list /proc/self/fd");
        for (struct dirent *e; (e = readdir(d));) {
                char target[PATH_MAX];
                ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);

                if (n < 0 || strtol(e->d_name, NULL, 10) == dirfd(d))
                        continue;
                target[n] = '\0';
                parts_line(b, "%s %s", e->d_name, target);
        }
        (void)closedir(d);
        return 0;
}

/* Disks that are kept ready have no name yet when their device is made, and the kernel goes by that. */
static bool is_blank_disk(const char *file) {
        static const char deleted[] = " (deleted)";
        const char *at = strstr(file, "/blank/");
        size_t n = strlen(file);

        return at && strstr(at, "/#") && n > sizeof deleted && str_eq(file + n - (sizeof deleted - 1), deleted);
}

bool digest_is_disk(const char *file) {
        static const char end[] = "/disk.img";
        size_t n = strlen(file), tail = sizeof end - 1 + 16;

        if (is_blank_disk(file))
                return true;
        return n > tail + 7 && str_eq(file + n - (sizeof end - 1), end) &&
               strncmp(file + n - tail - 7, "/disks/", 7) == 0 && strspn(file + n - tail, "0123456789abcdef") == 16;
}

static void loops(struct buf *b) {
        DIR *d = opendir("/sys/block");

        for (struct dirent *e; d && (e = readdir(d));) {
                char path[NAME_MAX + 32], file[PATH_MAX];

                (void)snprintf(path, sizeof path, "%s/loop/backing_file", e->d_name);
                if (str_starts(e->d_name, "loop") && fd_read_at(dirfd(d), path, file, sizeof file) >= 0 &&
                    !digest_is_disk(file))
                        parts_line(b, "%s %s", e->d_name, file);
        }
        if (d)
                (void)closedir(d);
}

static int64_t clock_offset(void) {
        struct timespec wall, up;

        (void)clock_gettime(CLOCK_REALTIME, &wall);
        (void)clock_gettime(CLOCK_BOOTTIME, &up);
        return wall.tv_sec - up.tv_sec;
}

/* The clock as its offset from the one that nobody can set, in minutes since this process first looked: a clock that is
 * disciplined moves by less, one that was set by more. */
static void identity(struct buf *b) {
        static int64_t first;
        struct utsname u;
        char pattern[512];

        if (first == 0)
                first = clock_offset();
        parts_line(b, "clock off by %lld min", (long long)((clock_offset() - first) / 60));
        if (uname(&u) == 0)
                parts_line(b, "name %s domain %s", u.nodename, u.domainname);
        if (fd_read_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern) >= 0)
                parts_line(b, "core_pattern %s", pattern);
}

int parts_take(enum digest_part part, const struct parts_scope *s, struct buf *b, struct err *err) {
        switch (part) {
        case DIGEST_MOUNTS:
                return mounts(s, b, err);
        case DIGEST_NAMESPACES:
                return namespaces(s, b, err);
        case DIGEST_CGROUPS:
                return parts_cgroups(s, b, err);
        case DIGEST_PROCESSES:
                return processes(s, b);
        case DIGEST_SETTINGS:
                return settings(b, err);
        case DIGEST_KEYS:
                return keys(b, err);
        case DIGEST_IPC:
                return ipc(b, err);
        case DIGEST_DEVICES:
                return parts_devices(b, err);
        case DIGEST_NETWORK:
                return network(b, err);
        case DIGEST_FILES:
                return parts_files(s, b, err);
        case DIGEST_DESCRIPTORS:
                return descriptors(b, err);
        case DIGEST_LOOPS:
                loops(b);
                return 0;
        case DIGEST_IDENTITY:
                identity(b);
                return 0;
        case DIGEST_COUNT:
        default:
                return err_set(err, -EINVAL, "there is no such part");
        }
}

/* --- counts */

static void count_group(struct buf *b, char *text, void *data) {
        unsigned long long groups;
        struct digest_counts *c = data;

        (void)b;
        if (sscanf(text, "%*s %*u %llu", &groups) == 1)
                c->cgroups += groups;
}

static void count_memory(struct buf *b, char *text, void *data) {
        struct digest_counts *c = data;
        const struct {
                const char *name;
                uint64_t *value;
        } rows[] = {{"Slab:", &c->slab_kib},
                    {"SUnreclaim:", &c->unreclaimable_kib},
                    {"KernelStack:", &c->stacks_kib},
                    {"Percpu:", &c->percpu_kib},
                    {"PageTables:", &c->tables_kib}};

        (void)b;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (str_starts(text, rows[i].name))
                        *rows[i].value = strtoull(text + strlen(rows[i].name), NULL, 10);
}

static void count_dying(struct buf *b, char *text, void *data) {
        static const char name[] = "nr_dying_descendants ";
        struct digest_counts *c = data;

        (void)b;
        if (str_starts(text, name))
                c->dying = strtoull(text + strlen(name), NULL, 10);
}

void digest_count(struct digest_counts *ret) {
        char text[128];

        *ret = (struct digest_counts){0};
        (void)each_line("/proc/cgroups", count_group, NULL, ret, NULL);
        (void)each_line("/proc/meminfo", count_memory, NULL, ret, NULL);
        (void)each_line("/sys/fs/cgroup/cgroup.stat", count_dying, NULL, ret, NULL);
        (void)each_line("/sys/fs/cgroup/unified/cgroup.stat", count_dying, NULL, ret, NULL);
        if (fd_read_at(AT_FDCWD, "/proc/sys/fs/file-nr", text, sizeof text) > 0)
                ret->files = strtoull(text, NULL, 10);
        if (fd_read_at(AT_FDCWD, "/proc/sys/fs/inode-nr", text, sizeof text) > 0)
                ret->inodes = strtoull(text, NULL, 10);
}
