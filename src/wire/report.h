/* What a starting cell and the guest of `stockade run` say to the launcher: one fixed-size packet per report on a
 * SOCK_SEQPACKET pair. The sender may be hostile: every field is a number that the receiver checks. */
#pragma once

#include "base/macro.h"

#define REPORT_FD 3 /* the guest's end */

/* The value that a signal to the guest carries when it is meant for the command's process group, not the command alone.
 */
#define REPORT_TO_GROUP 1

enum report_kind {
        REPORT_STEP_FAILED = 1, /* step, error */
        REPORT_TREE,            /* the tree is built; descriptors come along, see fds */
        REPORT_EXEC_FAILED,     /* error: the command could not be executed */
        REPORT_EXITED,          /* status: the command's wait status */
        REPORT_NETWORK,         /* the sockets that everything leads to: GATE_TCP to GATE_DENIALS of wire/gate.h */
        REPORT_LEARN,           /* to the watcher of --learn, never to the launcher: the listener of its filter */
        REPORT_SERVING,         /* the guest of a sandbox that lives accepts connections; nothing follows */
};

struct report {
        uint32_t kind;
        uint32_t step;
        int32_t error;
        uint32_t status;
        uint32_t fds; /* bit 0: pty master, 1: upper directory, 2: mount namespace; the other descriptors are watched
                         places in plan order */
};
