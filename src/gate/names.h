/* Answering a ward's DNS questions, over UDP and TCP. Nothing here asks anybody: an allowed name gets the synthetic
 * address that stands for it, everything else is refused. */
#pragma once

#include "gate/ward.h"

void names_init(void);
void names_prepare(int fd); /* a ward's UDP socket: it must tell which address it was asked at */
/* Deal with the datagrams and connections that are there, a bounded number; how many there were. */
unsigned names_waiting(struct ward *w);
unsigned names_accept(struct ward *w);
void names_catch_up(struct ward *w); /* looks at what was said on connections, without waiting for epoll */
void names_end_all(struct ward *w);  /* closes the ward's DNS connections */
