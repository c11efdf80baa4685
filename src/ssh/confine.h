/* Our own cell. The listener may accept, fork and wait; a connection's process, and those of its sftp subsystems, may
 * use the sockets that they have, make socket pairs, and fork. Nobody opens a file, connects to anything, executes
 * anything or looks at another process. */
#pragma once

#include "base/err.h"

int confine_listener(struct err *err);
int confine_connection(void); /* further: no more connections */
