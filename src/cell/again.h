/* The sockets of a sandbox's network once more, for somebody who was not there when they were made.
 *
 * A child of ours enters the sandbox's namespaces, makes them, and hands them over. The rules and routes inside are
 * still in force; only the ports have to be free, so whoever had the first ones must be gone. That is not waited for:
 * who asks, asks again. */
#pragma once

#include "cell/net.h"

/* pidfd of the sandbox's PID 1; tree: the path of the sandbox's tree in its mount namespace. ret: GATE_TCP to
 * GATE_DENIALS. -EADDRINUSE: somebody still has the first ones. Without root the file of denials cannot be opened
 * again; then that one leads nowhere. */
int again_network(int pidfd, bool rootless, const char *tree, int ret[NET_FDS]);
