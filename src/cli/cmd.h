/* The subcommands. Each gets its own arguments, argv[0] being its name, and returns the process's exit status. */
#pragma once

#include "base/err.h"

enum {
        EXIT_FOUND = 1,    /* the command worked and its answer is "no" */
        EXIT_FAILED = 125, /* wrong use, refused, or Stockade failed */
};

int cmd_profile(int argc, char **argv);
int cmd_compile(int argc, char **argv);
int cmd_learn(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_setup(int argc, char **argv);
