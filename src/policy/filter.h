/* The seccomp filter of a sandbox: the table of system calls compiled to classic BPF.
 *
 * The program first refuses every architecture but the native one (and x32) with ENOSYS, then finds the call in a
 * balanced tree over ranges of numbers. Compiling the same options gives the same bytes. */
#pragma once

#include <linux/filter.h>

#include "base/buf.h"

/* What differs between sandboxes. */
struct filter_options {
        bool no_memfd;  /* with an exec allowlist: no memory that could be executed as a program */
        bool no_ptrace; /* low trust: processes inside cannot look into one another */
};

enum { FILTER_ROOM = 512 }; /* enough for every program that filter_compile makes */

/* Writes the program to out and returns the number of instructions, or a negative code with a sentence in err:
 * ERR_LIMIT if room is too small, ERR_CORRUPT if the table contradicts itself. */
int filter_compile(const struct filter_options *options, struct sock_filter *out, size_t room, struct err *err);

/* Appends the table as text, one call a line: group, name, what becomes of it. */
int filter_describe(const struct filter_options *options, struct buf *out);
