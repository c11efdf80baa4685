/* Reads the kernel's answers to the probe's system calls from outside, so that a refusal is not the probe's word.
 *
 * A process of its own traces the probe: it sees which attempt is running (the probe names it to descriptor -1 before
 * it begins) and with which error each system call of it returned. It changes nothing, neither registers nor memory.
 * Where tracing is not permitted there is no witness, and the report says that the errors are the probe's. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct witness {
        pid_t pid;              /* of the tracing process; 0: none */
        struct testimony *seen; /* shared with it */
};

/* Begins to trace this process, which must be waiting, and everything that it starts. */
int witness_begin(struct witness *w, pid_t probe, struct err *err);
/* Waits until everything traced is gone, at most ms. */
void witness_end(struct witness *w, unsigned ms);
/* Did a system call of this attempt return this error? Which one it was first, by name or number. */
bool witness_saw(const struct witness *w, const char *attempt, int error, char *call, size_t size);
void witness_free(struct witness *w);
