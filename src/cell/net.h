/* OP_NETWORK: the network namespace of a sandbox whose only way out is its gate.
 *
 * There is nothing in it but the loopback device. Every address is routed to it (a local default route), so that a
 * packet to anywhere arrives where it was sent from; a fixed set of rules sends every TCP connection that does not stay
 * inside to one socket and every DNS question to another. Those sockets are made here, inside, and handed out: whoever
 * holds them is the gate. No packet ever leaves, whatever the rules say: with no gate there is no network.
 *
 * net_step runs in the cell's process between clone and exec: no allocation, no lock, no log. The parts of it are apart
 * so that `stockade doctor` can try them. */
#pragma once

#include "cell/cell.h"
#include "wire/gate.h"

#define NET_SOCKETS (GATE_TAP + 1) /* GATE_TCP to GATE_TAP */
#define NET_FDS     (GATE_DENIALS + 1)

/* GATE_TAP is a netlink socket that gets a message of nfnetlink_log (NFULNL_MSG_PACKET, the packet from its IP header
 * on in NFULA_PAYLOAD) for what goes nowhere. */
#define NET_TAP_GROUP 1
#define NET_TAP_BYTES 64 /* of each packet */

/* All of it. c->report gets REPORT_NETWORK; no descriptor of it stays here. */
int net_step(struct cell_context *c, const struct plan_step *s);

/* The loopback device: up, with the sandbox's own addresses and the routes. Without IPv6 in this kernel: IPv4 alone. */
int net_routes(void);

/* The rules. -EPROTONOSUPPORT: the kernel lacks a part of nftables that they are made of. */
int net_rules(void);

/* The rules for a sandbox with a box, whose packets come in over a link (driver/link.h) instead of from here. */
int net_gateway_rules(void);

/* The sockets, in the order of enum gate_fd, not blocking. On failure none is open. */
int net_sockets(int ret[NET_SOCKETS]);

/* What the gate says to the sandbox: a small file system at the path, read-only there. Returns a descriptor of its file
 * `denials` that can be written to. */
int net_files(const struct cell_context *c, const char *path, bool trust);
