/* The one table of what is not tried under which driver, and why. A row takes a check away from the report's count, so
 * it needs a reason that a reader can follow: "it does not pass" is none. */
#include "verify/exempt.h"

#include "verify/check.h"

#define D(name) (1u << JUDGED_##name)
#define BOXES   (D(DOCKER) | D(GVISOR) | D(MICROVM) | D(FIRECRACKER)) /* all of the daemon's but native */
#define KERNELS (D(GVISOR) | D(MICROVM) | D(FIRECRACKER))             /* those with a kernel of their own */

#define WORKSPACE "a sandbox of the daemon has no --workspace: no folder of the host is copied in, and none is changed"
#define SHARE     "no folder of the host can be shared as writable with a sandbox of the daemon"
#define UNSEEN                                                                                                         \
        "processes inside are its own kernel's and are none of the host's: the host cannot look at one. What they "    \
        "can "                                                                                                         \
        "do is tried by the other checks"

#define OWN    "it asks the box's own kernel, and the host's has no part in the answer"
#define COUNTS "the box's own kernel counts these, in memory that is the box's: the host and its neighbours lose none"

enum kind {
        ALL,    /* it is not tried */
        WITHIN, /* it is tried, and that it works is no hole while the host sees nothing of it */
};

static const struct row {
        const char *check;
        uint32_t drivers;
        enum kind kind;
        const char *why;
} rows[] = {
        {"workspace-poison", BOXES, ALL, WORKSPACE},
        {"workspace-discard", BOXES, ALL, WORKSPACE},
        {"workspace-symlink", BOXES, ALL, WORKSPACE},
        {"workspace-special", BOXES, ALL, WORKSPACE},
        {"message-escapes", BOXES, ALL, "it begins with the launcher's list of changes in a workspace, native's alone"},
        {"share-clean", BOXES, ALL, SHARE},
        {"own-folders", BOXES, ALL, SHARE},
        {"limit-missing", BOXES, ALL,
         "its control is --accept-missing, and the daemon starts nothing weaker than asked"},
        {"gate-live", BOXES, ALL, "the daemon follows no file: `stockade policy` changes the rules of a sandbox"},
        {"lock-root", BOXES, WITHIN, "the tree is this sandbox's own: nobody else waits for a lock on it"},

        {"seen-root", KERNELS, ALL, UNSEEN},
        {"seen-mounts", KERNELS, ALL, UNSEEN},
        {"seen-descriptors", KERNELS, ALL, UNSEEN},
        {"seen-environment", KERNELS, ALL, UNSEEN},
        {"seen-seccomp", KERNELS, ALL, UNSEEN},
        {"seen-nnp", KERNELS, ALL, UNSEEN},
        {"seen-caps", KERNELS, ALL, UNSEEN},
        {"seen-ids", KERNELS, ALL, UNSEEN},
        {"seen-namespaces", KERNELS, ALL, UNSEEN},
        {"seen-init", KERNELS, ALL, UNSEEN},
        {"seen-session", KERNELS, ALL, UNSEEN},
        {"seen-cgroup", KERNELS, ALL, UNSEEN},
        {"seen-limits", KERNELS, ALL, UNSEEN},
        {"limit-files", KERNELS, ALL,
         "descriptors are the box's own kernel's, and the host cannot count them: descriptor-bomb tries the limit"},
        {"sibling-process", KERNELS, ALL, "a process in a box has no number on the host by which it could be tried"},
        {"sibling-file", KERNELS, ALL,
         "its control goes through the host's /proc, where no process of a box is: find-sibling shows both sides"},
        {"epoll-bomb", KERNELS, ALL,
         "its limit is less than the box's own kernel needs: memory-bomb and page-table-bomb try the same one"},

        {"kernel-info", KERNELS, WITHIN, OWN},
        {"block-map", KERNELS, WITHIN, OWN},
        {"random-pool", KERNELS, WITHIN, OWN},
        {"keep-capabilities", KERNELS, WITHIN, OWN},
        {"socket-options", KERNELS, WITHIN,
         "the network stack is the box's own: what leaves it is led to the gate by rules outside"},
        {"raise-priority", KERNELS, WITHIN,
         "the box's own kernel orders its own processes: the host schedules the box"},
        {"terminal-bomb", KERNELS, WITHIN, COUNTS},
        {"inotify-bomb", KERNELS, WITHIN, COUNTS},
        {"timer-bomb", KERNELS, WITHIN, COUNTS},
        {"queue-bomb", KERNELS, WITHIN, COUNTS},

        {"init-environ", D(GVISOR), WITHIN,
         "gVisor shows them to the same user. PID 1 is our guest, with the command's own environment; its memory and "
         "descriptors are tried by init-memory and steal-descriptor"},
        {"init-descriptor", D(GVISOR), WITHIN,
         "gVisor lists PID 1's descriptors to the same user; that one can be taken is tried by steal-descriptor"},
        {"mount-flags", D(GVISOR), WITHIN,
         "gVisor does not show nosuid and nodev; what they are for is tried by setid-program, mknod-block, mknod-char"},
        {"kill-init", D(GVISOR), WITHIN,
         "gVisor does not shield PID 1 from its own user: who ends it ends the sandbox that he is in, and no other"},
};

/* The row of this kind, or NULL. */
static const char *find(const char *driver, const char *check, enum kind kind) {
        int d = exempt_driver(driver);

        for (size_t i = 0; d >= 0 && i < ELEMENTSOF(rows); i++)
                if (rows[i].kind == kind && rows[i].drivers & 1u << d && str_eq(rows[i].check, check))
                        return rows[i].why;
        return NULL;
}

int exempt_driver(const char *name) {
        static const char *const names[JUDGED_COUNT] = {
                [JUDGED_NATIVE] = "native",   [JUDGED_DOCKER] = "docker",           [JUDGED_GVISOR] = "gvisor",
                [JUDGED_MICROVM] = "microvm", [JUDGED_FIRECRACKER] = "firecracker",
        };

        for (int i = 0; i < JUDGED_COUNT; i++)
                if (str_eq(names[i], name))
                        return i;
        return -ENOENT;
}

const char *exempt_why(const char *driver, const char *check) {
        return find(driver, check, ALL);
}

const char *exempt_within(const char *driver, const char *check) {
        return find(driver, check, WITHIN);
}

int exempt_check(struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (!check_find(rows[i].check, NULL))
                        return err_set(err, ERR_CORRUPT, "the table of exemptions names '%s', which is no check",
                                       rows[i].check);
        return 0;
}
