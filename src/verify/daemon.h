/* The judge's own daemon: sandboxes of drivers other than native are a daemon's, and this one lives in the judge's
 * world, offers that driver alone, and ends with the judge. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct judge;

struct daemon {
        char folder[64]; /* "": there is none. Its state, configuration and log, and the manifest of the sweep */
        char socket[96]; /* where it answers */
        char probe[96];  /* where the attacker is, outside and inside */
        char setid[96];  /* its set-user-ID copy; "": none */
        int manifest;    /* locked as long as somebody needs the folder */
        int undertaker;  /* our end of the pipe that it waits on */
        pid_t undertaker_pid, pid;
};

/* Outside of the world, before it is made: the folder, and a process that ends the daemon and removes the folder when
 * whoever calls this has ended, however that was. */
int daemon_prepare(struct judge *j, struct err *err);
/* In the world: starts it and waits until it answers. */
int daemon_start(struct judge *j, struct err *err);
/* Where daemon_prepare was called: returns when all of it is gone. */
void daemon_end(struct judge *j);
