/* What flows between the guest and a run: outputs, each a ring with absolute offsets, and an input.
 *
 * An output is read while its ring has room. On a pipe, room comes from the operator's credit. A terminal's ring keeps
 * what was confirmed until the room is needed, and while nobody is attached it gives up its oldest bytes for new ones.
 */
#pragma once

#include "base/loop.h"
#include "guest/ring.h"
#include "wire/guest.h"

struct guest;
struct run;

struct stream {
        struct guest *guest;
        struct run *run;
        struct loop_watch watch;
        int fd; /* -EBADF: at its end */
        enum guest_stream kind;
        struct ring ring;
        uint64_t sent, credit; /* on this connection */
        bool attached;
        bool drained; /* everything that was written before the run's end was read */
};

void stream_open(struct stream *s, struct guest *g, struct run *r, int fd, enum guest_stream kind);
void stream_close(struct stream *s);
void stream_read(struct stream *s); /* what is there, as far as there is room; watches for more */
void stream_attach(struct stream *s, uint64_t offset);
void stream_detach(struct stream *s);
int stream_credit(struct stream *s, uint64_t offset); /* 0, or -EBADMSG for what was never sent */
bool stream_pump(struct stream *s);                   /* says a piece; true if there is more to say */
bool stream_is_told(const struct stream *s);          /* everything that was read was sent */

struct input {
        struct guest *guest;
        struct run *run;
        struct loop_watch watch;
        int fd; /* -EBADF: closed */
        struct ring ring;
        uint64_t received, taken, thanks; /* bytes: came, used (or dropped), confirmed */
        bool end_wanted;
        bool terminal;
};

void input_open(struct input *i, struct guest *g, struct run *r, int fd, bool terminal);
void input_close(struct input *i);
int input_add(struct input *i, const uint8_t *data, size_t size); /* 0, or -EBADMSG beyond the window */
void input_end(struct input *i);
void input_settle(struct input *i); /* closes it if nobody can read it any more */
