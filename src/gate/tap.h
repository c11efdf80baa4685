/* Packets that went nowhere: neither TCP nor DNS. Read for the record only; nothing is ever answered. */
#pragma once

#include "gate/ward.h"

void tap_init(void);
void tap_waiting(struct ward *w); /* reads what is there, a bounded number */
