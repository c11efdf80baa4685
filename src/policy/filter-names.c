/* Made into a program at build time: prints the calls that any profile may allow as a profile of Docker's, as C. The
 * engine puts it below everything that a container's first process does, which is more than code inside may do later:
 * it joins namespaces and confines itself. */
#include <stdio.h>

#include "policy/syscalls.h"

/* What src/driver/inside.c needs and the table does not have. */
static const char *const first[] = {"setns",     "unshare", "setgroups", "setresgid",
                                    "setresuid", "capset",  "seccomp",   "pidfd_open"};

/* Calls of 32-bit programs are refused with an error by the filter above, and must not be the end of whoever tries. */
#define ARCHITECTURES                                                                                                  \
        "\\\"archMap\\\":[{\\\"architecture\\\":\\\"SCMP_ARCH_X86_64\\\",\\\"subArchitectures\\\":[\\\"SCMP_ARCH_"     \
        "X86\\\","                                                                                                     \
        "\\\"SCMP_ARCH_X32\\\"]},{\\\"architecture\\\":\\\"SCMP_ARCH_AARCH64\\\",\\\"subArchitectures\\\":["           \
        "\\\"SCMP_ARCH_ARM\\\"]}],"

static bool is_refused(const struct syscall_entry *e) {
        return !e->rule && e->action != SYSCALL_ALLOW;
}

static void name(const char *text, bool *comma) {
        (void)printf("%s\n        \"\\\"%s\\\"", *comma ? ",\"" : "", text);
        *comma = true;
}

int main(void) {
        struct syscalls_walk walk = {0};
        struct syscall_entry e;
        struct err err = {0};
        bool comma = false;
        int r;

        (void)printf("#include \"driver/profile.h\"\n\nconst char profile_text[] =\n"
                     "        \"{\\\"defaultAction\\\":\\\"SCMP_ACT_ERRNO\\\"," ARCHITECTURES
                     "\\\"syscalls\\\":[{\\\"action\\\":"
                     "\\\"SCMP_ACT_ALLOW\\\",\\\"names\\\":[\"");
        while ((r = syscalls_next(&walk, &e, &err)) > 0)
                if (!is_refused(&e))
                        name(e.name, &comma);
        for (size_t i = 0; i < ELEMENTSOF(first); i++)
                name(first[i], &comma);
        (void)printf("\"\n        \"]}]}\";\n");
        if (r < 0)
                err_print(&err);
        return r < 0;
}
