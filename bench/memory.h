/* Private memory of what stays outside while a command runs: the launcher and the keeper. */
#pragma once

#include "base/err.h"

struct memory {
        unsigned processes;
        uint64_t private_kib; /* Private_Clean + Private_Dirty */
};

/* Runs `stockade run --profile low -- /usr/bin/sleep`, waits until sleep runs, adds up, ends it. */
int memory_measure(const char *stockade, struct memory *ret, struct err *err);
