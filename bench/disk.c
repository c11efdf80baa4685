/* What disks cost: made, mounted, sealed with a new one on top, forked, rolled back, cloned; with little on them and
 * with much. As root:
 *
 *   bench/disk [--rounds N] [--state FOLDER] [--check]
 *
 * The state folder should be on the file system that disks will be on. Sizes take turns in every round, so that all
 * have the same weather. --check: ends with 1 if sealing, forking or rolling back depends on how much is on the disk.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "disk/tree.h"
#include "disk/volume-internal.h"

#define BASE (0x40000000U + 6999U * 65536U)
#define MIB  ((uint64_t)1 << 20)
#define GIB  ((uint64_t)1 << 30)

enum {
        ROUNDS_MAX = 1000,
        STEADY = 15 /* tenths: a step is flat if the largest costs no more than this much of the smallest */
};

static const uint64_t sizes[] = {MIB, 64 * MIB, GIB, 4 * GIB};
enum { SIZES = ELEMENTSOF(sizes) };

enum step { MAKE, READY, MOUNT, ORDER, UNMOUNT, DROP, SEAL, FORK, ROLLBACK, CLONE, STEPS };
static const struct {
        const char *name, *what;
        bool flat;
} steps[] = {
        [MAKE] = {"make", "a blank disk, copied", false},
        [READY] = {"take", "a blank disk that was ready", false},
        [MOUNT] = {"mount", "the new disk", false},
        [ORDER] = {"order", "writes to it, from then on", false},
        [UNMOUNT] = {"unmount", "it again, with 1 MiB to be put on the host's disk", false},
        [DROP] = {"drop", "a disk that is small on the host", false},
        [SEAL] = {"seal", "a new disk on top of this one, both mounted", true},
        [FORK] = {"fork", "another new disk on the same layer, mounted", true},
        [ROLLBACK] = {"rollback", "the top disk, this large, dropped; a new one mounted", true},
        [CLONE] = {"clone", "the whole disk copied, as for a snapshot of a running sandbox", false},
};
static_assert(ELEMENTSOF(steps) == STEPS, "every step has a name");

static struct samples times[STEPS][SIZES];
static struct volumes *v;
static int ns = -EBADF;
static struct err err;

static _noreturn_ void die(const char *what) {
        (void)fprintf(stderr, "bench/disk: %s: %s\n", what, err.text[0] ? err.text : strerror(errno));
        exit(125);
}

static void took(enum step s, size_t size, uint64_t since) {
        times[s][size].ns[times[s][size].count++] = measure_now() - since;
}

static int make_ns(void) {
        char path[64], map[64];
        int ready[2], fd = -EBADF;
        char c = 'n';

        if (pipe2(ready, O_CLOEXEC) < 0)
                die("pipe");
        pid_t pid = fork();
        if (pid == 0) {
                c = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
                (void)!write(ready[1], &c, 1);
                (void)pause();
                _exit(0);
        }
        if (pid > 0 && read(ready[0], &c, 1) == 1 && c == 'y') {
                (void)snprintf(map, sizeof map, "0 %u 65536\n", BASE);
                (void)snprintf(path, sizeof path, "/proc/%d", pid);
                _cleanup_fd_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (fd_write_at(proc, "uid_map", map) == 0 && fd_write_at(proc, "gid_map", map) == 0)
                        fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
                (void)kill(pid, SIGKILL);
                (void)waitpid(pid, NULL, 0);
        }
        if (fd < 0)
                die("user namespace");
        return fd;
}

static const char *id_of(char *buf, char kind, size_t size, size_t round) {
        (void)snprintf(buf, VOLUME_ID_SIZE, "%c%07x%08x", kind, (unsigned)size & 0xfffffffU, (unsigned)round);
        return buf;
}

static void make(const char *id, uint64_t size) {
        if (volume_make(v, id, size, 100000, &err) < 0)
                die("make");
}

static int mount_on(const char *disk, const char *layer) {
        const char *const layers[] = {layer};
        struct volume_view view = {disk, layers, layer ? 1 : 0, NULL, BASE, ns};
        int m;

        if (volume_mount(v, &view, &m, &err) < 0)
                die("mount");
        return m;
}

static void unmount(const char *id, int m) {
        (void)close(m);
        while (volume_busy(v, id) == 1)
                (void)usleep(100);
}

static void drop(const char *id) {
        if (volume_drop(v, id, &err) < 0)
                die("drop");
}

/* Writes as the sandbox's user, and waits until it is on the host's disk: what is measured is not write-back. */
static void fill(int m, uint64_t bytes) {
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                static char block[1 << 20];
                if (setns(ns, CLONE_NEWUSER) < 0 || setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
                        _exit(1);
                for (uint64_t done = 0, file = 0; done < bytes; file++) {
                        char name[32];
                        (void)snprintf(name, sizeof name, "f%llu", (unsigned long long)file);
                        int fd = openat(m, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
                        for (unsigned i = 0; fd >= 0 && i < 16 && done < bytes; i++) {
                                memset(block, (int)(file + i + 1), sizeof block);
                                if (write(fd, block, sizeof block) != sizeof block)
                                        _exit(1);
                                done += sizeof block;
                        }
                        if (fd < 0 || close(fd) < 0)
                                _exit(1);
                }
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
                die("fill");
}

static void small_round(size_t round) {
        char id[VOLUME_ID_SIZE];

        (void)id_of(id, 'a', 0, round);
        uint64_t t = measure_now();
        make(id, GIB);
        took(MAKE, 0, t);
        t = measure_now();
        int m = mount_on(id, NULL);
        took(MOUNT, 0, t);
        t = measure_now();
        if (volume_order(v, id, &err) < 0)
                die("order");
        took(ORDER, 0, t);
        fill(m, MIB);
        t = measure_now();
        unmount(id, m);
        took(UNMOUNT, 0, t);
        t = measure_now();
        drop(id);
        took(DROP, 0, t);

        if (volume_prepare(v, GIB, 100000, 1, &err) < 0)
                die("prepare");
        t = measure_now();
        make(id, GIB);
        took(READY, 0, t);
        drop(id);
}

/* Puts back what was just dropped, so that the next round has the same large disk. */
static void restore(const char *id) {
        struct tree_names names = {0};

        if (tree_list(v->trash, 1000, &names) < 0)
                die("trash");
        for (size_t i = 0; i < names.count; i++)
                if (strncmp(names.name[i], id, VOLUME_ID_SIZE - 1) == 0)
                        (void)renameat(v->trash, names.name[i], v->disks, id);
        tree_names_free(&names);
}

static void large_round(size_t size, size_t round, bool clones) {
        char bottom[VOLUME_ID_SIZE], large[VOLUME_ID_SIZE], top[VOLUME_ID_SIZE], fork[VOLUME_ID_SIZE],
                copy[VOLUME_ID_SIZE];

        (void)id_of(bottom, 'b', size, 0);
        (void)id_of(large, 'c', size, 0);
        (void)id_of(top, 'd', size, round);
        (void)id_of(fork, 'e', size, round);
        (void)id_of(copy, 'f', size, round);
        /* not sealed yet, as the first time */
        _cleanup_volume_ struct volume d = {.folder = -EBADF, .image = -EBADF};
        if (volume_open(v, bottom, &d, &err) < 0 || fchmod(d.image, 0600) < 0)
                die("open");
        volume_end(&d);

        uint64_t t = measure_now();
        make(top, 5 * GIB);
        int m = mount_on(top, bottom);
        took(SEAL, size, t);
        t = measure_now();
        make(fork, 5 * GIB);
        int n = mount_on(fork, bottom);
        took(FORK, size, t);
        unmount(top, m);
        unmount(fork, n);
        drop(top);
        drop(fork);

        t = measure_now();
        drop(large);
        make(top, 5 * GIB);
        m = mount_on(top, bottom);
        took(ROLLBACK, size, t);
        unmount(top, m);
        drop(top);
        restore(large);

        if (!clones)
                return;
        t = measure_now();
        if (volume_clone(v, bottom, copy, &err) < 0)
                die("clone");
        took(CLONE, size, t);
        drop(copy);
        if (volume_reclaim(v, &err) < 0)
                die("reclaim");
}

static void prepare(size_t size) {
        char bottom[VOLUME_ID_SIZE], large[VOLUME_ID_SIZE];

        (void)id_of(bottom, 'b', size, 0);
        (void)id_of(large, 'c', size, 0);
        make(bottom, 5 * GIB);
        int m = mount_on(bottom, NULL);
        fill(m, sizes[size]);
        unmount(bottom, m);
        if (volume_clone(v, bottom, large, &err) < 0)
                die("clone");
}

static const char *size_name(char *buf, size_t room, uint64_t bytes) {
        (void)snprintf(buf, room, "%llu %s", (unsigned long long)(bytes >= GIB ? bytes / GIB : bytes / MIB),
                       bytes >= GIB ? "GiB" : "MiB");
        return buf;
}

static bool report(void) {
        bool good = true;

        (void)printf("%-10s %-8s %9s %9s %9s %7s\n", "step", "used", "p50 ms", "p95 ms", "min ms", "ratio");
        for (size_t s = 0; s < STEPS; s++) {
                uint64_t first = 0;

                for (size_t i = 0; i < SIZES; i++) {
                        char name[32] = "";
                        if (times[s][i].count == 0)
                                continue;
                        struct summary r = measure_summary(&times[s][i]);
                        first = first ? first : r.p50;
                        bool bad = steps[s].flat && r.p50 * 10 > first * STEADY;
                        good &= !bad;
                        (void)printf("%-10s %-8s %9.3f %9.3f %9.3f %6.2fx%s\n", steps[s].name,
                                     s <= DROP ? "" : size_name(name, sizeof name, sizes[i]), (double)r.p50 / 1e6,
                                     (double)r.p95 / 1e6, (double)r.min / 1e6, (double)r.p50 / (double)first,
                                     bad ? "  depends on size" : "");
                }
        }
        for (size_t s = 0; s < STEPS; s++)
                (void)printf("%s%s: %s", s ? "; " : "", steps[s].name, steps[s].what);
        (void)printf(".\n");
        return good;
}

int main(int argc, char **argv) {
        size_t rounds = 15;
        char folder[64] = "/var/tmp/stockade-bench-XXXXXX";
        const char *state = NULL;
        bool check = false;

        for (int i = 1; i < argc; i++) {
                if (str_eq(argv[i], "--check"))
                        check = true;
                else if (str_eq(argv[i], "--rounds") && i + 1 < argc)
                        rounds = strtoul(argv[++i], NULL, 10);
                else if (str_eq(argv[i], "--state") && i + 1 < argc)
                        state = argv[++i];
                else {
                        (void)fprintf(stderr, "usage: disk [--rounds N] [--state FOLDER] [--check]\n");
                        return 2;
                }
        }
        rounds = rounds == 0 ? 1 : MIN(rounds, (size_t)ROUNDS_MAX);
        if (geteuid() != 0 || (!state && !(state = mkdtemp(folder)))) {
                (void)fprintf(stderr, "bench/disk: disks need root and a folder\n");
                return 125;
        }
        int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ns = make_ns();
        if (fd < 0 || volumes_open(&v, fd, &err) < 0)
                die(state);
        for (size_t s = 0; s < STEPS; s++)
                for (size_t i = 0; i < SIZES; i++)
                        if (!(times[s][i].ns = calloc(rounds, sizeof(uint64_t))))
                                die("memory");
        for (size_t i = 0; i < SIZES; i++)
                prepare(i);
        sync();
        small_round(ROUNDS_MAX); /* the templates are there now, and everything is warm */
        for (size_t s = 0; s < STEPS; s++)
                times[s][0].count = 0;
        for (size_t r = 0; r < rounds; r++) {
                small_round(r);
                for (size_t i = 0; i < SIZES; i++)
                        large_round(i, r, r < 3);
        }
        bool good = report();
        volumes_close(v);
        (void)close(fd);
        if (state == folder) {
                _cleanup_fd_ int parent = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                (void)tree_remove(parent, folder + strlen("/var/tmp/"));
        }
        return check && !good;
}
