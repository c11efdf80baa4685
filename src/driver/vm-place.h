/* Where QEMU and virtiofsd run: a file tree with themselves, their libraries and what they are given, and nothing else;
 * namespaces of their own without a network; no capabilities over the host; no more descriptors than they need.
 *
 * A machine that breaks out of QEMU is in there, as one of the sandbox's own ids, under QEMU's own filter. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

#define PLACE_FD_FIRST 3 /* the given descriptors have numbers from here on */
#define PLACE_FDS_MAX  8

struct place {
        const char *const *shows; /* host paths that appear as they are, read-only; those that the host lacks do not */
        size_t show_count;
        const char *folder; /* of the host, read-only at folder_at; NULL: none */
        const char *folder_at;
        int tree; /* a mount that is not attached, at tree_at; -EBADF: none */
        const char *tree_at;
        bool proc; /* a /proc of its own pid namespace */
        bool kvm;  /* /dev/kvm */

        uid_t id;    /* host id, user and group, */
        int user_ns; /* or: root of this namespace, whose capabilities it has; -EBADF: none */

        int fds[PLACE_FDS_MAX]; /* in the order of their numbers */
        size_t fd_count;
        int errors; /* its standard error; -EBADF: nowhere */
};

/* How many descriptors a program there can have. */
unsigned place_files_max(void);

/* Starts a program there. It dies with the thread that started it. An error says what could not be made. */
int place_start(const struct place *p, char *const argv[], pid_t *ret_pid, int *ret_pidfd, struct err *err);
