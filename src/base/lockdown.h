/* A process of ours gives up what it does not need. Each step is done whole or fails with -errno, and none can be taken
 * back. For programs that confine themselves; what a sandbox loses is in its plan (src/cell).
 *
 * Order: capabilities and bounding set first, then lockdown_private, then Landlock, then calls, as the last. Before
 * threads: steps are for the calling thread and those that it starts. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

int lockdown_bounding(void); /* no capability can come back by executing; needs CAP_SETPCAP, or that there is none */
int lockdown_capabilities(void);
int lockdown_keep_capabilities(uint64_t mask); /* exactly these stay (1ULL << CAP_CHOWN | …), and cannot be inherited */
int lockdown_no_new_privileges(void);
int lockdown_private(void); /* nobody but root looks into it, and it leaves no core */

/* Landlock: every right that this kernel knows is taken, and those to these folders are given back. 0; 1: this kernel
 * has no Landlock; -errno. TCP and abstract Unix sockets and signals go too, where the kernel can. */
enum lockdown_right {
        LOCKDOWN_READ,
        LOCKDOWN_WRITE,   /* files and folders */
        LOCKDOWN_TREE,    /* links and fifos too */
        LOCKDOWN_CONNECT, /* no folder: TCP, to wherever */
};
struct lockdown_place {
        int dir; /* O_PATH will do */
        enum lockdown_right right;
};
int lockdown_files(const struct lockdown_place *places, size_t count);

/* Seccomp: these calls and no others. Refused ones fail with EPERM, because libraries try this and that, and live
 * without it. */
enum lockdown_test {
        LOCKDOWN_ANY_OF,  /* the argument is one of the values */
        LOCKDOWN_NONE_OF, /* none of the bits of values[0] is set */
        LOCKDOWN_ALL_OF,  /* all of them are */
        LOCKDOWN_ABSENT,  /* always ENOSYS: libraries then take their other way */
};
struct lockdown_call {
        int call;
        unsigned argument; /* its lower 32 bits are looked at */
        enum lockdown_test test;
        uint32_t values[12];
        size_t count;
        bool more; /* the next row is of the same call, and has to hold too */
};
int lockdown_calls(const int *plain, size_t plain_count, const struct lockdown_call *tested, size_t tested_count);
