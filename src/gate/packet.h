/* A packet that a sandbox sent into nowhere, as the kernel's log shows it (nfnetlink_log): whereto, and by what.
 * Everything in it is the sandbox's own writing. */
#pragma once

#include "base/address.h"

struct packet {
        struct address to;
        uint8_t protocol;
        uint16_t port; /* 0: none, or not in the first fragment */
};

/* False: there is no packet in this message, or it is too short to say. Extension headers are not followed. */
bool packet_read(const uint8_t *message, size_t size, struct packet *ret);
