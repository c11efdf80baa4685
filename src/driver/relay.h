/* Bytes between the operator and the guest of a box, both ways, with a bounded buffer for each.
 *
 * A connection from outside is paired with a connection of the guest's that was never used before: streams of two
 * operators never mix. A newer one from outside takes the place of the older; what had come from that one is passed on
 * as far as the guest takes it at once, then both ends are closed, and the guest dials again. Nothing is looked at.
 * Descriptors that come from outside (files of cgroup leaves, with an EXEC) go in with the bytes that they came with;
 * none comes out. A side that does not read holds up the other one's sender.
 *
 * With a secret, who dials from inside is only taken for the guest once it has said it. */
#pragma once

#include <poll.h>

#include "base/macro.h"
#include "wire/box.h"
#include "wire/guest.h"

#define RELAY_ROOM    (32 * 1024)
#define RELAY_WAITING 4
#define RELAY_POLLS   (4 + RELAY_WAITING)

struct relay_lane {
        uint8_t bytes[RELAY_ROOM];
        size_t start, end;
        int fds[GUEST_FDS_MAX]; /* to go with the next byte; nothing is read before they have gone */
        size_t fd_count;
        bool ended; /* its source has said its last */
        bool deaf;  /* nobody takes it any more: what comes is thrown away */
};

/* One that dialed and has not yet said the whole secret. */
struct relay_caller {
        int fd;
        size_t said;
        uint8_t words[BOX_SECRET_SIZE];
};

struct relay {
        int outer_door, inner_door; /* listening */
        int outer, inner;           /* connections; -EBADF: none */
        bool paired;
        bool met; /* the guest was there once */
        struct relay_lane in, out;
        const uint8_t *secret;                      /* NULL: whoever dials is the guest */
        struct relay_caller callers[RELAY_WAITING]; /* while there is no inner connection; the newest first */
};

void relay_init(struct relay *r, int outer_door, int inner_door, const uint8_t *secret);
void relay_ask(const struct relay *r, struct pollfd polls[RELAY_POLLS]);
void relay_answer(struct relay *r, const struct pollfd polls[RELAY_POLLS]);
