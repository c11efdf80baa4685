/* Connections over a line that has none: what goes between the keeper and a guest in a microVM.
 *
 * A virtual machine's serial port is one pair of byte streams for as long as the machine lives. Bytes of a connection
 * that has ended may still be in it, in both directions, when the next one begins. So everything on it is in frames,
 * and each frame says of which connection it is: what is not of the present one is dropped. Connections are numbered
 * from 1; only the keeper's side begins one, and a newer one ends the older.
 *
 * Neither side ever waits for its own end before it reads the line: of each connection no more than CARRY_WINDOW bytes
 * are under way that the other end has not taken (CARRY_TOOK says what it took). A peer that takes nothing holds up its
 * own connection, and not the next.
 *
 * A frame: kind, connection, size of what follows; 32 bits each, little-endian. Both sides read the other as hostile.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CARRY_HEAD   12U
#define CARRY_PIECE  (16U * 1024) /* bytes of one CARRY_DATA */
#define CARRY_WINDOW (64U * 1024)
#define CARRY_TEXT   400U

enum carry_kind {
        CARRY_UP = 1, /* from the machine, first of all: it has booted */
        CARRY_PLAN,   /* to the machine, once: the plan */
        CARRY_READY,  /* from the machine, once: its guest serves */
        CARRY_FAILED, /* from the machine: a sentence; then it is gone */
        CARRY_OPEN,   /* to the machine: a connection begins */
        CARRY_DATA,
        CARRY_TOOK,  /* 32 bits: how many more bytes of data the other end has taken */
        CARRY_CLOSE, /* the connection has ended; what was sent before is still delivered */
        CARRY_FRESH, /* to the machine, once, before the plan: struct carry_fresh */
};

/* What a machine cannot know by itself. Numbers as the processor has them: both run on the same one. */
struct carry_fresh {
        uint64_t seconds, nanoseconds; /* since 1970 */
        uint8_t seed[64];              /* of the machine's random numbers */
};

struct carry_ring {
        uint8_t bytes[CARRY_WINDOW];
        size_t first, used;
};

struct carry {
        int line;
        /* The keeper's side: whoever connects here begins a connection, in the place of the one before. Negative: this
         * is the machine's side, which for each connection asks for one to the guest. */
        int listener;
        int (*dial)(void);

        /* carry's own, from carry_begin on */
        int end; /* of the present connection */
        uint32_t number;
        bool ending;     /* no more comes: closed when all is delivered */
        uint32_t credit; /* bytes of data that the other side has room for */
        uint32_t took;   /* to be told */
        struct carry_ring deliver;
        uint8_t in[CARRY_HEAD + CARRY_PIECE];
        size_t in_size;
        uint8_t out[4 * (CARRY_HEAD + CARRY_PIECE)];
        size_t out_first, out_size;
};

#define CARRY_POLLS 3

/* Turns: what to poll for, and what came of it. carry_answer returns 0, 1 when the line has ended, -EPROTO when the
 * other side breaks the protocol, or another -errno; after any but 0 there is nothing more to carry. */
int carry_begin(struct carry *c);
void carry_ask(const struct carry *c, struct pollfd polls[CARRY_POLLS]);
int carry_answer(struct carry *c, const struct pollfd polls[CARRY_POLLS]);

/* Carries until the line has ended or `gone` (a pidfd, say; negative: none) can be read: 0, or -errno. */
int carry_run(struct carry *c, int gone);

/* For what comes before: a whole frame, blocking. carry_read takes up to size bytes and returns how many there were;
 * -EMSGSIZE if there are more, -EPIPE when the line has ended. */
int carry_write(int line, enum carry_kind kind, const void *bytes, size_t size);
int carry_read(int line, enum carry_kind *ret_kind, void *bytes, size_t size);
