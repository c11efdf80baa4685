/* Files, archives, ports and processes inside a sandbox, over its guest. */
#pragma once

#include "operator/call.h"
#include "wire/guest.h"

/* The verbs put, get, tar-in, tar-out, ls, stat, mkdir, mv, rm, watch, connect, processes: c->verb says which. */
void files_begin(struct call *c, enum guest_kind kind);
/* The verb sockets: what is listened on inside, as the kernel tells programs there. It is not in the ledger and does
 * not keep a sandbox from being idle, since a page asks it again and again. */
void files_sockets(struct call *c);
