/* What a starting cell, the guest of `stockade run` and the program of a box say to whoever started them: one packet
 * per report on a SOCK_SEQPACKET pair. The sender may be hostile: every field is checked by the receiver. */
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
        REPORT_BOX_FAILED,      /* error: a driver could not start its box; struct report_words follows in the packet */
};

struct report {
        uint32_t kind;
        uint32_t step;
        int32_t error;
        uint32_t status;
        uint32_t fds; /* bit 0: pty master, 1: upper directory, 2: mount namespace; the other descriptors are watched
                         places in plan order */
};

#define REPORT_WORDS_SIZE 401

/* NUL-terminated, printable, the rest zeros: report_words_check. */
struct report_words {
        char text[REPORT_WORDS_SIZE], hint[REPORT_WORDS_SIZE];
};

/* 0, or -EBADMSG. */
int report_words_check(const struct report_words *w);

/* Cuts what does not fit, and puts '?' for what does not belong. */
void report_words_set(struct report_words *w, const char *text, const char *hint);
