/* A lane is a channel of a connection: a shell, a command, an sftp subsystem or a forwarded port. Bytes go both ways
 * between the client and the operator; whichever is slow holds up the other, and no channel holds up another. */
#pragma once

#include <libssh/callbacks.h>
#include <poll.h>

#include "ssh/door.h"

struct session;

enum lane_kind { LANE_NONE, LANE_RUN, LANE_SFTP, LANE_PORT }; /* NONE: nothing was asked for yet */

struct lane {
        struct session *session;
        ssh_channel ssh; /* NULL: this place is free */
        struct ssh_channel_callbacks_struct callbacks;
        enum lane_kind kind;
        bool tty;
        uint16_t rows, cols;
        char term[64];
        struct buf env; /* NAME NUL value NUL … */
        unsigned env_count;
        struct door_stream stream; /* RUN, PORT */
        struct door_frame frame;   /* bytes that the client has not taken yet, from `given` on */
        size_t given;
        int sftp;       /* SFTP: a socket to its process */
        uint8_t *piece; /* from that socket, for the client */
        size_t piece_size, piece_at;
        uint8_t *rest; /* from the client, for that socket */
        size_t rest_size, rest_at;
        bool opened;   /* a port: somebody listens there */
        bool finished; /* the client sends no more, and the other side was told */
        bool told;     /* the client was told that no more comes */
        bool over;     /* both sides are done: to be closed */
        bool more;     /* there is more to do than was done in this turn */
        bool refused;  /* libssh took nothing though there was room: keys are being exchanged */
};

int lane_open(struct session *s, ssh_channel ssh, struct lane **ret); /* a place for it; -EMFILE: none is free */
int lane_port(struct lane *c, unsigned port);                         /* it is a forwarded port */
void lane_close(struct lane *c);

/* What is to be waited for (at most one descriptor; 0 or 1), and doing what can be done now. */
bool lane_ready(const struct lane *c); /* there is something to do now, whatever a descriptor says */
size_t lane_poll(struct lane *c, struct pollfd *ret);
void lane_pump(struct lane *c);
