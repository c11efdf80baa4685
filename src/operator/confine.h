/* The operator's own cell: its state folder, the folders of profiles (to read), the sockets that it was given, and
 * nothing else. No capability, no way to get one, no program, no new socket, no other process.
 *
 * Every step is done or the operator does not start; a kernel without Landlock is the one exception: there the user id
 * and the list of calls have to do, and the log says so. */
#pragma once

#include "base/err.h"

/* state is the folder that may be written; profiles are read. */
int confine(int state, struct err *err);

/* confine-calls.c: the last step. */
int confine_calls(void);
