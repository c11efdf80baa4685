/* What the program of every box does around its driver (docs/protocol/driver.md): it is PID 1 of the sandbox's pid
 * namespace and real root when it begins. It waits until the sandbox is written down, lets the driver start the box,
 * waits for the guest to connect, says that it serves, and carries bytes between guest.sock and the guest until the box
 * ends. Before the first of these bytes it has given up everything that it was.
 *
 * A driver is three functions and a main that calls keeper_main. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "wire/plan.h"

/* What a driver starts its box from. All of it goes away when start returns. */
struct keeper_task {
        const char *id;        /* of the sandbox: 16 hexadecimal digits */
        uint32_t id_base;      /* first of its CELL_ID_RANGE host ids */
        const char *guest;     /* path of the guest's program inside the tree */
        struct plan plan;      /* checked */
        int tree;              /* O_PATH of the tree's root, a mount of this mount namespace with others below it */
        int folder;            /* the sandbox's folder on the host */
        const uint8_t *secret; /* BOX_SECRET_SIZE bytes, for the guest alone */

        /* from the plan */
        uid_t uid; /* inside: on the host, where the driver maps ids so, id_base + uid */
        gid_t gid;
        const char *cwd;
        char *const *env; /* of the guest */
        bool networked;   /* it has an OP_NETWORK: the gate's sockets are in this network namespace */
};

/* A box that was started. */
struct keeper_box {
        pid_t pid;     /* a child of ours: its end is the box's; 0: it is no child, and there is: */
        int end;       /* a pidfd of it */
        pid_t aids[2]; /* other children, without which the box is none: their end is its own too; 0: none */
        int line;      /* of a machine whose guest serves already (vm-carry.h); 0: none, and there is: */
        int door;      /* a listening Unix socket that the guest dials (keeper_listen) */
        bool secret;   /* the guest was given the task's on its standard input: nobody else is taken for it */
        int words;     /* what the box says on its standard error, a pipe's end; -EBADF: nothing */
};

struct keeper_driver {
        int (*probe)(void); /* prints what docs/protocol/driver.md says; an exit status */
        /* Returns 0, or an error whose text and hint reach whoever asked for the sandbox. Descriptors that it leaves
         * open must close at exec. */
        int (*start)(const struct keeper_task *t, struct keeper_box *ret, struct err *err);
        /* Removes what a keeper that was killed left outside the sandbox's namespaces and folder; 0 if there is
         * nothing. NULL: there never is. */
        int (*destroy)(const char *id, struct err *err);
};

int keeper_main(const struct keeper_driver *d, int argc, char **argv);

/* What root's configuration has for this driver, as NAME=VALUE; ends with NULL. */
char *const *keeper_options(void);

/* A Unix socket that listens at a name in a folder; everybody who can reach it may connect. Not blocking. */
int keeper_listen(int folder, const char *name, struct err *err);
