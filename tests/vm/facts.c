/* What the test guest must be, tried from inside it: a static program, built on the host, run by `selftest`.
 *
 * Each line is `ok NAME` or `not ok NAME: what was seen`; the exit status says whether all were ok. It tries what the
 * kernel does, never what a file claims, wherever a trial is possible.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

#define SCOPE         "/sys/fs/cgroup/facts.scope"
#define CGROUP2_MAGIC 0x63677270
#define TESTER        1000

static int failures;

static void check(bool good, const char *name, long seen) {
        if (good)
                (void)printf("ok %s\n", name);
        else
                (void)printf("not ok %s: %ld, errno %s\n", name, seen, strerror(errno));
        failures += !good;
}

static bool put(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

        if (fd >= 0)
                (void)close(fd);
        return good;
}

/* Whether a small file has this text in it. */
static bool has(const char *path, const char *text) {
        char data[4096] = "";
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof data - 1);

        if (fd >= 0)
                (void)close(fd);
        return n > 0 && strstr(data, text) != NULL;
}

/* A child that is born in SCOPE; 0 in the child. */
static pid_t born_in_scope(void) {
        int dir = open(SCOPE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (__u64)dir};
        pid_t pid = dir < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);

        if (dir >= 0)
                (void)close(dir);
        return pid;
}

static int wait_status(pid_t pid) {
        int status = -1;

        if (pid > 0)
                (void)waitpid(pid, &status, 0);
        return status;
}

static void check_kernel(void) {
        struct utsname name;
        struct statfs fs;
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);

        (void)uname(&name);
        check(strncmp(name.release, "6.1.", 4) == 0, "kernel 6.1", 0);
        check(abi == 2, "landlock abi 2", abi);
        check(statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_MAGIC, "cgroup v2 at /sys/fs/cgroup", 0);
        for (size_t i = 0; i < 4; i++) {
                static const char *const names[] = {"cpu", "io", "memory", "pids"};

                check(has("/sys/fs/cgroup/cgroup.subtree_control", names[i]), names[i], 0);
        }
        (void)mkdir("/tmp/v1", 0755);
        check(mount("v1", "/tmp/v1", "cgroup", 0, "net_cls") < 0, "no cgroup v1", 0);
        check(sysconf(_SC_NPROCESSORS_ONLN) >= 1, "processors", 0);
        check(time(NULL) > 1700000000, "clock set", (long)time(NULL));
}

/* A cgroup that was killed once kills whoever is born in it by CLONE_INTO_CGROUP later (6.1.190 and 6.18 compare its
 * count of kills with the parent's): each check has a new one. */
static void new_scope(void) {
        (void)rmdir(SCOPE);
        check(mkdir(SCOPE, 0755) == 0, "cgroup made", 0);
}

static void check_kill(void) {
        pid_t pid = born_in_scope();
        char proc[64];
        int status;

        if (pid == 0)
                for (;;)
                        (void)pause();
        (void)snprintf(proc, sizeof proc, "/proc/%d/cgroup", (int)pid);
        check(pid > 0 && has(proc, "0::/facts.scope"), "clone into cgroup", pid);
        check(put(SCOPE "/cgroup.kill", "1"), "cgroup.kill written", 0);
        status = wait_status(pid);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "cgroup.kill kills", status);
}

static void check_limits(void) {
        const size_t size = 96 << 20;
        int status;
        pid_t pid;

        check(put(SCOPE "/memory.max", "33554432") && put(SCOPE "/pids.max", "4"), "limits set", 0);
        pid = born_in_scope();
        if (pid == 0) {
                char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                memset(p, 1, size);
                _exit(0);
        }
        status = wait_status(pid);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "memory.max kills", status);
        check(has(SCOPE "/memory.events", "oom_kill 1"), "memory.events counts", 0);
        pid = born_in_scope();
        if (pid == 0) {
                for (int i = 0; i < 8; i++) {
                        pid_t more = fork();

                        if (more < 0)
                                _exit(i == 3 && errno == EAGAIN ? 0 : 1);
                        if (more == 0)
                                for (;;)
                                        (void)pause();
                }
                _exit(2);
        }
        status = wait_status(pid);
        check(status == 0, "pids.max refuses the fifth process", status);
        check(put(SCOPE "/cgroup.kill", "1"), "scope emptied", 0);
}

/* As an ordinary user: a user namespace of one's own, and an overlay mounted and written in it. */
static int overlay_as_user(void) {
        static const char *const folders[] = {"/tmp/facts/l", "/tmp/facts/u", "/tmp/facts/w", "/tmp/facts/m"};
        int fd;

        if (setgid(TESTER) < 0 || setuid(TESTER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 || mkdir("/tmp/facts", 0755) < 0)
                return 1;
        for (size_t i = 0; i < 4; i++)
                if (mkdir(folders[i], 0755) < 0)
                        return 2;
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return 3;
        if (!put("/proc/self/setgroups", "deny") || !put("/proc/self/uid_map", "0 1000 1") ||
            !put("/proc/self/gid_map", "0 1000 1"))
                return 4;
        if (mount("overlay", folders[3], "overlay", 0,
                  "lowerdir=/tmp/facts/l,upperdir=/tmp/facts/u,workdir=/tmp/facts/w,userxattr") < 0)
                return 5;
        fd = open("/tmp/facts/m/new", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0 || access("/tmp/facts/u/new", F_OK) < 0)
                return 6;
        return 0;
}

static void check_user(void) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(overlay_as_user());
        status = wait_status(pid);
        check(status == 0, "overlay in a user namespace", WEXITSTATUS(status));
}

int main(void) {
        (void)setvbuf(stdout, NULL, _IONBF, 0);
        check_kernel();
        new_scope();
        check_kill();
        new_scope();
        check_limits();
        check_user();
        return failures != 0;
}
