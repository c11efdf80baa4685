/* Answering a ward's DNS questions, over UDP and TCP. Nothing here asks anybody: an allowed name gets the synthetic
 * address that stands for it, everything else is refused. */
#pragma once

#include "gate/ward.h"

void names_init(void);
void names_prepare(int fd);         /* a ward's UDP socket: it must tell which address it was asked at */
void names_waiting(struct ward *w); /* deals with the datagrams that are there, a bounded number */
void names_accept(struct ward *w);
void names_end_all(struct ward *w); /* closes the ward's DNS connections */
