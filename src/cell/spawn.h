/* Starts a program of ours beside a sandbox: the gate, the operator, whoever packs and unpacks. It gets the descriptors
 * that it is given, from 3 on, standard error, and nothing else of ours; a process group of its own; and, if we are
 * root, ids of its own before its first instruction. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

#define SPAWN_FDS_MAX 12
#define SPAWN_GATE_FIRST                                                                                               \
        1610612736U /* 0x60000000: host ids of gates that root starts, beyond every sandbox's range                    \
                     */

struct spawn_how {
        const char *program;
        char *const *argv;
        char *const *env;
        const int *fds; /* become 3, 4, …; -EBADF: that number stays closed */
        size_t fd_count;
        bool drop; /* root: becomes uid and gid, with no other groups */
        uid_t uid;
        gid_t gid;
        bool deaf; /* begins with every signal blocked: the terminal's keys are for others */
        bool tied; /* dies with us */
};

/* ret_pidfd may be NULL. A program that could not be executed is an error here. */
int spawn_start(const struct spawn_how *how, pid_t *ret_pid, int *ret_pidfd, struct err *err);

/* A gate, with our end of its control socket, not blocking. id: its own host id; 0: ours. tls: rules may ask for TLS to
 * be opened. */
int spawn_gate(uid_t id, bool tls, pid_t *ret_pid, int *ret_pidfd, int *ret_control, struct err *err);
