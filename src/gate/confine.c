/* Locking ourselves in, step by step. Each step has a name that its failure is reported with. */
#include "gate/confine.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lockdown.h"

#define PLACE "/usr" /* exists everywhere, and is covered in a mount namespace of our own only */

static int result(long r) {
        return r < 0 ? -errno : 0;
}

static int step_namespaces(const struct confine *c) {
        int flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;

        (void)c;
        if (geteuid() != 0)
                flags |= CLONE_NEWUSER;
        return result(unshare(flags));
}

static int step_root(const struct confine *c) {
        unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

        (void)c;
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", PLACE, "tmpfs", flags, "mode=0555,size=4k,nr_inodes=1") < 0 || chdir(PLACE) < 0 ||
            syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                return -errno;
        return result(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL));
}

static int step_bounding(const struct confine *c) {
        (void)c;
        return lockdown_bounding();
}

static int step_ids(const struct confine *c) {
        if (!c->uid)
                return geteuid() == 0 ? -EPERM : 0;
        if (setgroups(0, NULL) < 0 || setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0)
                return -errno;
        return 0;
}

static int step_capabilities(const struct confine *c) {
        (void)c;
        return lockdown_capabilities();
}

static int step_no_new_privileges(const struct confine *c) {
        (void)c;
        return lockdown_no_new_privileges();
}

/* Changing ids clears the parent-death signal and the dumpable flag's meaning, so both come after it. */
static int step_process(const struct confine *c) {
        static const struct rlimit file = {8 << 20, 8 << 20}; /* of an authority's files, and of denials */

        (void)c;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || setrlimit(RLIMIT_FSIZE, &file) < 0)
                return -errno;
        return lockdown_private();
}

static int step_landlock(const struct confine *c) {
        static const struct lockdown_place connect_alone = {-EBADF, LOCKDOWN_CONNECT};

        (void)c;
        return MIN(lockdown_files(&connect_alone, 1), 0);
}

static const struct {
        int (*step)(const struct confine *c);
        const char *name;
} steps[] = {
        {step_namespaces, "make namespaces of its own"},
        {step_root, "change to an empty root"},
        {step_bounding, "empty the bounding set of capabilities"},
        {step_ids, "become an unprivileged user"},
        {step_capabilities, "give up capabilities"},
        {step_no_new_privileges, "refuse new privileges"},
        {step_process, "keep others from looking into it"},
        {step_landlock, "give up every right to files"},
};

int confine(const struct confine *c, struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                int r = steps[i].step(c);

                if (r < 0)
                        return err_set(err, r, "the gate cannot confine itself: could not %s", steps[i].name);
        }
        return confine_calls(err);
}
