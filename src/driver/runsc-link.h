/* The far end of a box's link in the hands of a sentry, which has a network stack of its own: for runsc-parts.h. */
#pragma once

#include "base/buf.h"

/* The question that gives a sentry its devices: loopback, and with `link` the device of that name here, whose addresses
 * (link.h) are the sentry's from now on and nobody else's. *ret_fd: a socket to go with the question, or -EBADF. */
int runsc_link_question(const char *link, struct buf *question, int *ret_fd);
