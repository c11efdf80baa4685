/* Leaves of runs, freezing, and killing in passes: what a daemon does with a sandbox's cgroups while it lives. Nothing
 * here waits longer than a fifth of a second: the daemon has one loop. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/cgroup-make.h"
#include "cell/cgroup-nest.h"

#define RUN_PREFIX "run-"
#define FREEZE_MS  200

static int open_leaf(int parent, const char *name, bool make) {
        if (make && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        return dir < 0 ? -errno : dir;
}

static int open_v1(const struct cgroup *sandbox, int k, bool make, struct cgroup *leaf) {
        for (int other = 0; other < k; other++)
                if (cgroup_is_for_runs(other) && sandbox->home[other] == sandbox->home[k]) {
                        leaf->home[k] = leaf->home[other];
                        return 0;
                }
        int dir = open_leaf(sandbox->home[k], leaf->name, make);
        if (dir < 0)
                return dir;
        leaf->leaves[leaf->task_count++] = leaf->home[k] = dir;
        return 0;
}

int cgroup_run_open(const struct cgroup *sandbox, uint32_t run, bool make, struct cgroup *ret) {
        struct cgroup leaf = CGROUP_INIT;
        int r = 0;
        bool any = false;

        (void)snprintf(leaf.name, sizeof leaf.name, RUN_PREFIX "%" PRIu32, run);
        for (int k = 0; r == 0 && k < CGROUP_CONTROLLERS; k++)
                if (cgroup_is_for_runs(k) && sandbox->home[k] >= 0 && sandbox->home[k] != sandbox->into) {
                        r = open_v1(sandbox, k, make, &leaf);
                        if (r == -ENOENT && !make)
                                r = 0; /* half of it may be removed already */
                        any = true;
                }
        if (r == 0 && any && leaf.task_count == 0)
                r = -ENOENT;
        if (r == 0 && !any && sandbox->into >= 0) {
                leaf.into = open_leaf(sandbox->into, leaf.name, make);
                r = leaf.into < 0 ? leaf.into : 0;
                leaf.home[CGROUP_MEMORY] = leaf.home[CGROUP_PIDS] = leaf.home[CGROUP_CPU] = leaf.into;
        }
        if (r < 0) {
                if (make)
                        (void)cgroup_run_remove(sandbox, &leaf);
                cgroup_close(&leaf);
                return r;
        }
        *ret = leaf;
        return 0;
}

/* --- entering --- */

/* A process is moved with the powers of whoever opened the file, and its number is looked up where the writer is. So a
 * file that leaves our hands is opened by somebody who has none: the user inside, without capabilities. v1 then lets
 * the writer move processes of that user alone; v2 those that are below the sandbox's cgroup already, because there,
 * and not above, `cgroup.procs` is the user's.
 *
 * It is our own process that becomes this somebody, for the opening alone: no thread is there to notice, and our real
 * and saved ids stay, so that nobody can send us a signal meanwhile. */
struct powers {
        struct __user_cap_data_struct caps[2];
        uid_t uid;
        gid_t gid;
        int dumpable;
};

static int set_caps(const struct __user_cap_data_struct caps[static 2]) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

        return syscall(SYS_capset, &header, caps) < 0 ? -errno : 0;
}

static int learn(struct powers *ret) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

        *ret = (struct powers){.uid = geteuid(), .gid = getegid(), .dumpable = prctl(PR_GET_DUMPABLE)};
        return syscall(SYS_capget, &header, ret->caps) < 0 ? -errno : 0;
}

static int give_up(uid_t user, const struct powers *old) {
        struct powers none = *old;

        for (size_t i = 0; i < ELEMENTSOF(none.caps); i++)
                none.caps[i].effective = 0;
        if (syscall(SYS_setresgid, -1, user, -1) < 0 || syscall(SYS_setresuid, -1, user, -1) < 0)
                return -errno;
        return set_caps(none.caps);
}

/* To go on as somebody else would be worse than to end. */
static void take_back(const struct powers *old) {
        if (syscall(SYS_setresuid, -1, old->uid, -1) < 0 || syscall(SYS_setresgid, -1, old->gid, -1) < 0 ||
            set_caps(old->caps) < 0)
                abort();
        if (old->dumpable == 1)
                (void)prctl(PR_SET_DUMPABLE, 1);
}

/* A file that is open with O_PATH, for writing. */
static int open_again(int file) {
        char path[32];

        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int open_all(const int *files, int count, int *ret) {
        int opened = 0, r = 0;

        while (r >= 0 && opened < count) {
                r = open_again(files[opened]);
                if (r >= 0)
                        ret[opened++] = r;
        }
        while (r < 0 && opened > 0)
                (void)close(ret[--opened]);
        return MIN(r, 0);
}

static int open_as(uid_t user, const int *files, int count, int *ret) {
        struct powers old;

        if (user == 0 || user == (uid_t)-1)
                return -EINVAL;
        int r = learn(&old);
        if (r < 0)
                return r;
        r = give_up(user, &old);
        if (r == 0)
                r = open_all(files, count, ret);
        take_back(&old);
        return r;
}

int cgroup_run_files(const struct cgroup *sandbox, const struct cgroup *leaf, const struct cgroup_owner *owner,
                     int ret[CGROUP_RUN_FILES]) {
        int files[CGROUP_RUN_FILES], count = 0, r = 0;

        for (size_t i = 0; r == 0 && i < leaf->task_count + (leaf->into >= 0); i++) {
                bool v1 = i < leaf->task_count;

                int fd = openat(v1 ? leaf->leaves[i] : leaf->into, v1 ? "tasks" : "cgroup.procs",
                                O_PATH | O_CLOEXEC | O_NOFOLLOW);
                if (fd < 0 || (owner && fchownat(fd, "", owner->user, (gid_t)-1, AT_EMPTY_PATH) < 0))
                        r = -errno;
                if (fd >= 0)
                        files[count++] = fd;
        }
        if (r == 0 && owner && leaf->into >= 0 &&
            fchownat(sandbox->into, "cgroup.procs", owner->user, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
                r = -errno;
        if (r == 0)
                r = owner ? open_as(owner->user, files, count, ret) : open_all(files, count, ret);
        for (int i = 0; i < count; i++)
                (void)close(files[i]);
        return r < 0 ? r : count;
}

/* --- strangers --- */

/* By the owner of its directory, which is right for most; by its status where that says root, as it does for all who
 * may not be looked into. */
static bool is_of(pid_t pid, const struct cgroup_owner *owner) {
        char path[32], text[1024];
        struct stat st;

        (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
        if (stat(path, &st) < 0)
                return true; /* it is gone */
        if (st.st_uid - owner->first < owner->count)
                return true;
        (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
                return true;
        const char *line = strstr(text, "\nUid:");
        return line && (uid_t)strtoul(line + 5, NULL, 10) - owner->first < owner->count;
}

/* To where the nest is; on v2, where processes may not be there, to our own leaf in it. */
static int put_out(int dir, bool v2, pid_t pid) {
        char text[16];

        (void)snprintf(text, sizeof text, "%d", (int)pid);
        int r = fd_write_at(dir, "../../../cgroup.procs", text);
        if (r < 0 && r != -ESRCH && v2)
                r = fd_write_at(dir, "../../" CGROUP_LAUNCHER "/cgroup.procs", text);
        return r == -ESRCH ? 0 : r;
}

static int evict(int dir, bool v2, const struct cgroup_owner *owner) {
        int copy = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC | O_NOFOLLOW), found = 0, r = 0;
        FILE *f = copy < 0 ? NULL : fdopen(copy, "re");
        char line[32];

        if (!f) {
                fd_close(&copy);
                return 0;
        }
        while (r == 0 && fgets(line, sizeof line, f)) {
                pid_t pid = (pid_t)strtol(line, NULL, 10);

                if (pid <= 0 || is_of(pid, owner))
                        continue;
                r = put_out(dir, v2, pid);
                found++;
        }
        (void)fclose(f);
        return r < 0 ? r : found;
}

int cgroup_run_evict(const struct cgroup *leaf, const struct cgroup_owner *owner) {
        int found = leaf->into >= 0 ? evict(leaf->into, true, owner) : 0;

        for (size_t i = 0; found >= 0 && i < leaf->task_count; i++) {
                int n = evict(leaf->leaves[i], false, owner);
                found = n < 0 ? n : MAX(found, n);
        }
        return found;
}

/* --- the end of one, and all of them --- */

int cgroup_run_remove(const struct cgroup *sandbox, const struct cgroup *leaf) {
        /* what is busy in one hierarchy is busy in all: those that come after stay, and with them their counters */
        for (int k = 0; k < CGROUP_CONTROLLERS; k++)
                if (cgroup_is_for_runs(k) && sandbox->home[k] >= 0 &&
                    unlinkat(sandbox->home[k], leaf->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                        return -errno;
        if (leaf->into >= 0 && unlinkat(sandbox->into, leaf->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return -errno;
        return 0;
}

int cgroup_run_each(const struct cgroup *sandbox, void (*fn)(void *data, uint32_t run), void *data) {
        int home = sandbox->home[CGROUP_PIDS] >= 0 ? sandbox->home[CGROUP_PIDS] : sandbox->into;
        int copy = home < 0 ? -EBADF : openat(home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *e;

        if (!d) {
                fd_close(&copy);
                return home < 0 ? 0 : -errno;
        }
        while ((e = readdir(d))) {
                char *end;
                unsigned long run;

                if (e->d_type != DT_DIR || !str_starts(e->d_name, RUN_PREFIX))
                        continue;
                run = strtoul(e->d_name + sizeof RUN_PREFIX - 1, &end, 10);
                if (*end == '\0' && run > 0 && run <= UINT32_MAX)
                        fn(data, (uint32_t)run);
        }
        (void)closedir(d);
        return 0;
}

static void pause_us(long us) {
        (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* "frozen 0" or "frozen 1" in cgroup.events. */
static bool reads_frozen(int into) {
        char text[256];

        return fd_read_at(into, "cgroup.events", text, sizeof text) > 0 && strstr(text, "frozen 1") != NULL;
}

bool cgroup_is_frozen(const struct cgroup *c) {
        char text[8];

        return c->into >= 0 && fd_read_at(c->into, "cgroup.freeze", text, sizeof text) > 0 && text[0] == '1';
}

int cgroup_freeze(const struct cgroup *c, bool on) {
        if (c->into < 0)
                return -EOPNOTSUPP;
        int r = fd_write_at(c->into, "cgroup.freeze", on ? "1" : "0");
        if (r < 0 || !on)
                return r == -ENOENT ? -EOPNOTSUPP : r;
        for (int us = 0; us < FREEZE_MS * 1000; us += 200) {
                if (reads_frozen(c->into))
                        return 0;
                pause_us(200);
        }
        (void)fd_write_at(c->into, "cgroup.freeze", "0");
        return -EBUSY;
}

bool cgroup_has(const struct cgroup *c, const char *id, pid_t pid) {
        char path[48], text[8192], name[CGROUP_NAME_SIZE];

        if (c->into < 0 && c->task_count == 0)
                return true;
        (void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
        (void)snprintf(name, sizeof name, "/" CGROUP_PREFIX "%.16s", id);
        return fd_read_at(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, name) != NULL;
}
