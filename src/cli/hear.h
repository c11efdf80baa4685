/* Runs a program of ours for what it prints, and not longer than it may. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct hear {
        const char *const *argv; /* argv[0] is its path */
        unsigned ms;             /* how long it may take */
        int signal;              /* what it gets then; SIGKILL follows a minute later where it is another */
        char complaint[2048];    /* the beginning of what it said on standard error */
        int status;              /* its exit status; -1: it was ended */
};

/* False: it could not be started, or its time was over. */
bool hear_program(struct hear *h, struct buf *ret, struct err *err);
