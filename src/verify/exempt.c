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

static const struct row {
        const char *check;
        uint32_t drivers;
        const char *why;
} rows[] = {
        {"workspace-poison", BOXES, WORKSPACE},
        {"workspace-discard", BOXES, WORKSPACE},
        {"workspace-symlink", BOXES, WORKSPACE},
        {"workspace-special", BOXES, WORKSPACE},
        {"message-escapes", BOXES, "it begins with the launcher's list of changes in a workspace, which is native's"},
        {"share-clean", BOXES, SHARE},
        {"own-folders", BOXES, SHARE},
        {"limit-missing", BOXES, "its control is --accept-missing, and the daemon starts nothing weaker than asked"},
        {"gate-live", BOXES, "the daemon follows no file: `stockade policy` changes the rules of a sandbox"},

        {"seen-root", KERNELS, UNSEEN},
        {"seen-mounts", KERNELS, UNSEEN},
        {"seen-descriptors", KERNELS, UNSEEN},
        {"seen-environment", KERNELS, UNSEEN},
        {"seen-seccomp", KERNELS, UNSEEN},
        {"seen-nnp", KERNELS, UNSEEN},
        {"seen-caps", KERNELS, UNSEEN},
        {"seen-ids", KERNELS, UNSEEN},
        {"seen-namespaces", KERNELS, UNSEEN},
        {"seen-init", KERNELS, UNSEEN},
        {"seen-session", KERNELS, UNSEEN},
        {"seen-cgroup", KERNELS, UNSEEN},
        {"seen-limits", KERNELS, UNSEEN},
};

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
        int d = exempt_driver(driver);

        for (size_t i = 0; d >= 0 && i < ELEMENTSOF(rows); i++)
                if (rows[i].drivers & 1u << d && str_eq(rows[i].check, check))
                        return rows[i].why;
        return NULL;
}

int exempt_check(struct err *err) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (!check_find(rows[i].check, NULL))
                        return err_set(err, ERR_CORRUPT, "the table of exemptions names '%s', which is no check",
                                       rows[i].check);
        return 0;
}
