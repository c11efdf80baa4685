/* The guest's one connection to the operator: frames in, frames out, descriptors that come along.
 *
 * A newer connection takes the place of the older, whose requests end. A peer that breaks the protocol loses its
 * connection, and nothing else happens. Nobody closes it in the middle of a turn: link_break marks it, and it is closed
 * before the next frame is read. */
#pragma once

#include "base/loop.h"
#include "wire/guest.h"

struct guest;

struct link {
        struct loop_watch watch;
        int fd;           /* -EBADF: nobody is there */
        bool greeted;     /* its HELLO came */
        uint32_t version; /* that it says it has */
        bool broken;      /* to be closed */
        bool deaf;        /* takes nothing any more: read to its end, then it is broken */
        struct buf out;   /* what was said and not taken yet, from out_start on */
        size_t out_start;
        uint8_t *in;
        size_t in_size;
        int fds[2 * GUEST_FDS_MAX]; /* came along, not claimed yet */
        size_t fd_count;
};

static inline bool link_is_up(const struct link *l) {
        return l->fd >= 0 && !l->broken;
}

void link_init(struct link *l);
void link_take(struct guest *g, int fd); /* a new connection; the old one ends */
void link_break(struct guest *g);
void link_close(struct guest *g);

/* True when a source may say a piece more. */
bool link_has_room(const struct link *l);

/* Says one frame; nothing if nobody is there. Answers are always accepted: a peer that does not take them is not read
 * from any more. */
void link_say(struct guest *g, const struct guest_message *m);

/* Sends what is there, reads on if it was held up. */
void link_flush(struct guest *g);

/* The first count descriptors that came along. 0, or -EBADMSG if there are not as many. They are the caller's then. */
int link_claim_fds(struct link *l, int *fds, size_t count);

void link_tidy(struct link *l); /* gives memory back if nothing is under way */
