/* Taking connections from a ward's listening sockets. */
#pragma once

#include "gate/ward.h"

void accept_init(void);
/* Takes what is waiting on this socket (GATE_TCP or GATE_PROXY), a bounded number; how many there were. */
unsigned accept_waiting(struct ward *w, enum gate_fd which);
/* Where a client wanted to go before it was redirected to us. 0 or -errno. */
int accept_destination(int fd, struct address *ret, uint16_t *ret_port);
