/* The one link of a box: its way to the gate, and to nothing else.
 *
 * The near end is in the network namespace that we are in, where OP_NETWORK made the gate's sockets and rules
 * (cell/net.h); what comes in there is led to them. The far end is the box's: it has WARD_FAR_V4 and WARD_FAR_V6, and a
 * default route to WARD_NEAR_V4 and WARD_NEAR_V6 (wire/gate.h). No other addresses of the box are answered. What is
 * made here goes with the namespaces. A sandbox without a network has no link at all. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

enum {
        LINK_HEADERS = 1 << 0, /* tap: each frame has a struct virtio_net_hdr before it */
        LINK_KEEP = 1 << 1,    /* tap: it stays when its descriptor is closed, and can be opened by its name */
};

/* A network namespace with nothing in it, for a far end: a descriptor. Whoever is to be in it joins by setns. */
int link_namespace(struct err *err);

/* A pair of devices: `near` here, and `far` in the network namespace that the descriptor is of, with addresses, routes
 * and loopback there. Nothing of IPv6 is an error where the far namespace has none. */
int link_veth(const char *near, const char *far, int namespace, struct err *err);

/* Addresses, routes and loopback of a far end that is there: for whom they were taken away since. */
int link_far(const char *far, int namespace, struct err *err);

/* A tap: a descriptor for Ethernet frames from and to the box, not blocking, close-on-exec. The box configures itself.
 * owner: who may open it by its name, with LINK_KEEP; (uid_t)-1: root alone. */
int link_tap(const char *name, unsigned flags, uid_t owner, struct err *err);

/* A tap for whoever opens it by its name and not by a descriptor: link_tap_lend makes it in a network namespace with
 * nothing else in it, for its owner; when it is open there, link_tap_take moves it here, and it is as link_tap's.
 * Frames have headers. Who opened it stays where nothing but loopback is. */
int link_tap_lend(const char *name, uid_t owner, int namespace, struct err *err);
int link_tap_take(const char *name, int namespace, struct err *err);
