/* A state folder of its own for tests of disks, and people inside: processes with the ids of a sandbox. For root. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"
#include "disk/tree.h"
#include "disk/volume-internal.h"

#define BASE_A (0x40000000U + 7000U * 65536U)
#define BASE_B (0x40000000U + 7001U * 65536U)
#define MIB    ((uint64_t)1 << 20)

static struct err err; /* of the last call */

struct world {
        char path[64];
        int state;
        struct volumes *v;
        int ns_a, ns_b; /* 65,536 ids from BASE_A and BASE_B */
        unsigned fds;
};

static inline unsigned count_fds(void) {
        struct tree_names names = {0};
        unsigned n = 0;
        _cleanup_fd_ int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (tree_list(dir, 10000, &names) == 0)
                n = (unsigned)names.count;
        tree_names_free(&names);
        return n;
}

static inline int user_ns(uint32_t base) {
        char path[64], map[64];
        int ready[2], fd = -1;

        if (pipe2(ready, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                char c = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
                (void)!write(ready[1], &c, 1);
                (void)pause();
                _exit(0);
        }
        char c = 'n';
        (void)!read(ready[0], &c, 1);
        (void)close(ready[0]);
        (void)close(ready[1]);
        if (c == 'y') {
                (void)snprintf(map, sizeof map, "0 %u 65536\n", base);
                (void)snprintf(path, sizeof path, "/proc/%d", pid);
                _cleanup_fd_ int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (fd_write_at(proc, "uid_map", map) == 0 && fd_write_at(proc, "gid_map", map) == 0)
                        fd = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
        }
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return fd;
}

/* Whether the kernel's list of loop devices names our folder: something would be left. Waits a moment for what is just
 * going. */
static inline unsigned loops_of(const struct world *w) {
        unsigned found = 0;

        for (unsigned tries = 0; tries < 100; tries++) {
                struct tree_names names = {0};
                _cleanup_fd_ int dir = open("/sys/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                char path[300], text[300];

                found = 0;
                if (tree_list(dir, 100000, &names) == 0)
                        for (size_t i = 0; i < names.count; i++) {
                                (void)snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", names.name[i]);
                                if (fd_read_at(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, w->path))
                                        found++;
                        }
                tree_names_free(&names);
                if (found == 0)
                        break;
                (void)usleep(10000);
        }
        return found;
}

/* Runs a shell inside: in a directory, with these ids of the user namespace (-EBADF: the host's). Its exit status. */
static inline int sh(int ns, unsigned id, int dir, const char *command) {
        int status;

        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                char *const argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command, NULL};
                char *const envp[] = {(char *)"PATH=/usr/bin:/bin:/usr/sbin:/sbin", (char *)"LC_ALL=C", NULL};

                if (ns >= 0 && (setns(ns, CLONE_NEWUSER) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0))
                        _exit(126);
                int null = open("/dev/null", O_RDWR);
                if (!getenv("TEST_VERBOSE"))
                        (void)dup2(null, 2);
                if (fchdir(dir) < 0)
                        _exit(126);
                (void)execve("/bin/sh", argv, envp);
                _exit(127);
        }
        if (waitpid(pid, &status, 0) < 0)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* As the user of sandbox A. */
#define USER_A(w, dir, command) sh((w)->ns_a, 1000, dir, command)
#define USER_B(w, dir, command) sh((w)->ns_b, 1000, dir, command)
#define ROOT_A(w, dir, command) sh((w)->ns_a, 0, dir, command)

/* old: as on a kernel before 6.15. */
static inline bool world_open(struct world *w, bool old) {
        *w = (struct world){.path = "/tmp/stockade-volume-XXXXXX", .state = -EBADF, .ns_a = -EBADF, .ns_b = -EBADF};
        if (geteuid() != 0) {
                (void)printf("# skipped: disks need root\n");
                return false;
        }
        w->fds = count_fds();
        if (!mkdtemp(w->path))
                return false;
        w->state = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->ns_a = user_ns(BASE_A);
        w->ns_b = user_ns(BASE_B);
        int r = volumes_open(&w->v, w->state, &err);
        CHECK(r == 0 && w->ns_a >= 0 && w->ns_b >= 0);
        if (r < 0)
                (void)printf("# %s\n", err.text);
        else if (old)
                w->v->detached = false;
        return r == 0;
}

static inline void world_close(struct world *w) {
        if (w->state < 0)
                return;
        volumes_close(w->v);
        CHECK(loops_of(w) == 0);
        fd_close(&w->state);
        fd_close(&w->ns_a);
        fd_close(&w->ns_b);
        _cleanup_fd_ int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(tree_remove(tmp, w->path + 5) == 0);
        fd_close(&tmp);
        CHECK(count_fds() == w->fds);
}

/* Says what went wrong, since a number alone helps nobody. */
#define GOOD(call)                                                                                                     \
        do {                                                                                                           \
                err = (struct err){0};                                                                                 \
                int _r = (call);                                                                                       \
                CHECK(_r == 0);                                                                                        \
                if (_r != 0)                                                                                           \
                        (void)printf("# %d: %s (%s)\n", _r, err.text, err.hint);                                       \
        } while (0)

/* A view of sandbox A: the top and its layers, newest first, ended by NULL. */
static inline int view(struct world *w, const char *image, bool readonly, int *ret, struct err *e, const char *disk,
                       const char *const *layers) {
        struct volume_view at = {disk, layers, 0, image, BASE_A, w->ns_a};

        while (layers && layers[at.layer_count])
                at.layer_count++;
        return readonly ? volume_mount_readonly(w->v, &at, ret, e) : volume_mount(w->v, &at, ret, e);
}
#define LAYERS(...) ((const char *const[]){__VA_ARGS__, NULL})
