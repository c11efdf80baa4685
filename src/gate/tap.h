/* Packets that went nowhere: neither TCP nor DNS. Read for the record only; nothing is ever answered. */
#pragma once

#include "gate/ward.h"

void tap_init(void);
unsigned tap_waiting(struct ward *w); /* reads what is there, a bounded number; how many there were */
