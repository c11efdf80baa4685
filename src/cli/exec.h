/* A command in a sandbox that runs, with the caller's streams: what `exec`, `shell` and `run --driver` share. */
#pragma once

#include "cli/args.h"

struct exec_options {
        struct args_common common;
        bool interactive, tty, detach;
        bool ends;  /* the sandbox ends with the caller: nothing can be left running in it */
        bool quiet; /* the exit status alone says how it ended */
        const char *cwd, *key;
        struct args_list env;
        uint64_t timeout;
};

/* To its end, unless it is detached; the exit status. */
int exec_command(const struct exec_options *o, const char *sandbox, const char *const *argv, size_t argc);
