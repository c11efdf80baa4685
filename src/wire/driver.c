/* Names of drivers and of what they promise. */
#include "wire/driver.h"

#include <errno.h>

static const char *const drivers[] = {
        [DRIVER_NATIVE] = "native",   [DRIVER_DOCKER] = "docker",           [DRIVER_GVISOR] = "gvisor",
        [DRIVER_MICROVM] = "microvm", [DRIVER_FIRECRACKER] = "firecracker",
};
static_assert(ELEMENTSOF(drivers) == DRIVER_COUNT, "every driver has a name");

static const char *const guarantees[] = {
        [GUARANTEE_PROCESS] = "process",
        [GUARANTEE_FILES] = "files",
        [GUARANTEE_QUOTA] = "quota",
        [GUARANTEE_NETWORK] = "network",
        [GUARANTEE_CPU] = "cpu",
        [GUARANTEE_MEMORY] = "memory",
        [GUARANTEE_IO] = "io",
        [GUARANTEE_PROCESSES] = "processes",
        [GUARANTEE_EXEC] = "exec",
        [GUARANTEE_SECRETS] = "secrets",
        [GUARANTEE_SNAPSHOTS] = "snapshots",
        [GUARANTEE_FREEZE] = "freeze",
};
static_assert(ELEMENTSOF(guarantees) == GUARANTEE_COUNT, "every guarantee has a name");

static int find(const char *const *names, size_t count, const char *name) {
        for (size_t i = 0; i < count; i++)
                if (str_eq(names[i], name))
                        return (int)i;
        return -ENOENT;
}

const char *driver_name(enum driver d) {
        return drivers[d];
}

int driver_find(const char *name) {
        return find(drivers, ELEMENTSOF(drivers), name);
}

const char *guarantee_name(enum guarantee g) {
        return guarantees[g];
}

int guarantee_find(const char *name) {
        return find(guarantees, ELEMENTSOF(guarantees), name);
}
