/* Taking connections from a ward's listening sockets. */
#pragma once

#include "gate/ward.h"

void accept_init(void);
/* Takes what is waiting on this socket (GATE_TCP or GATE_PROXY), a bounded number. */
void accept_waiting(struct ward *w, enum gate_fd which);
