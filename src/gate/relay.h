/* Moving bytes between two sides that may say what they like. */
#pragma once

#include "gate/flow.h"

#define RELAY_CHUNK (256 * 1024) /* bytes per flow, way and turn: nobody waits long for the others */

extern uint8_t relay_scratch[RELAY_CHUNK]; /* shared by everything that moves bytes; valid within one step */

/* From the server to the client only, while it is not known what the client speaks. */
void relay_early(struct flow *f);
