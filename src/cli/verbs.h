/* All verbs, in the order in which --help lists them. */
#pragma once

#include "cli/args.h"

struct verb {
        const char *name; /* NULL ends the table */
        int (*run)(int argc, char **argv);
        const char *help;
        const struct args_verb *args; /* NULL: the verb has a table of its own, or is another program's */
        const char *heading;          /* before this one, if it begins a part */
};

extern const struct verb verbs[];
const struct verb *verbs_find(const char *name);
