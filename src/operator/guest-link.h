/* One connection to one sandbox's guest, from the operator's side: frames out with back-pressure, frames in checked,
 * runs and requests told apart. A guest that breaks the protocol loses its connection, and its sandbox is told so
 * (`broken`); it is asked again after a moment by whoever owns the link, never in a busy loop.
 *
 * Callbacks come from the loop, never from inside a call of these functions; each may call any of them,
 * guest_link_close too. */
#pragma once

#include "operator/operator.h"
#include "wire/guest.h"

struct guest_link;

#define GUEST_LINK_UNSTARTED 32 /* their descriptors are under way, of which a user has not many */

struct guest_link_events {
        void (*hello)(void *data);
        void (*started)(void *data, uint32_t run, int pid);
        /* Bytes of a run's output, in order and without gaps, except that the first ones after guest_link_attach may
         * begin later than asked for (a terminal that forgot). They are the callback's now, whatever it returns: true
         * says that they are dealt with, and credit for them is given; false, that credit waits for guest_link_take.
         * So at most GUEST_WINDOW bytes per stream ever wait on our side. */
        bool (*output)(void *data, uint32_t run, enum guest_stream stream, uint64_t offset, const uint8_t *bytes,
                       size_t size);
        void (*exited)(void *data, const struct guest_message *m); /* m->channel is the run */
        void (*room)(void *data, uint32_t run); /* input that guest_link_input did not take fits again; run 0: so does
                                                   an EXEC; or NULL */
        void (*broken)(void *data, const char *why); /* the link is closed already; requests have ended */
};

/* Takes fd in any case. */
int guest_link_open(struct core *o, int fd, const struct guest_link_events *events, void *data, struct guest_link **ret,
                    struct err *err);
/* Requests that are under way end with -ECONNRESET, before it returns. */
void guest_link_close(struct guest_link *g);

/* Starts a run; its output comes from the first byte on. fds are copied. 0, -EAGAIN when too much is queued for this
 * guest already or GUEST_LINK_UNSTARTED runs have not begun yet (`room` of run 0 follows), -EINVAL for what no guest
 * would accept, or -EPIPE. */
int guest_link_exec(struct guest_link *g, const struct guest_message *exec, const char *const *argv,
                    const char *const *envp, const int *fds, size_t fd_count);

/* Another connection started this run: be told of its output from these offsets on (UINT64_MAX: not of that stream),
 * and of its end. To be called when its GUEST_RUN comes, from that callback, or its end may be missed. Calling it again
 * sends a stream again from there, as far as the guest still has it. */
int guest_link_attach(struct guest_link *g, const struct guest_message *run, const uint64_t offsets[GUEST_STREAMS]);

/* How many of these bytes were taken for the run's input (fewer than size: the rest after `room`), or -errno. */
ssize_t guest_link_input(struct guest_link *g, uint32_t run, const void *data, size_t size);
/* INPUT_END and FORGET, which always fit, SIGNAL and RESIZE. 0, -EAGAIN, -EINVAL or -EPIPE. */
int guest_link_send(struct guest_link *g, const struct guest_message *m);
/* Everything before offset has been dealt with. */
void guest_link_take(struct guest_link *g, uint32_t run, enum guest_stream stream, uint64_t offset);
bool guest_link_has_room(const struct guest_link *g);

/* Requests: files, archives, ports, lists. The struct is the caller's and stays until `end`, or guest_link_cancel. */
struct guest_request {
        uint32_t channel; /* set by guest_link_ask; 0: not under way */
        struct guest_link *link;
        void (*item)(struct guest_request *r, const struct guest_message *m); /* ENTRY, RUN, CHANGE, PROCESS, OPENED,
                                                                                 and FINISH of CONNECT; may be NULL */
        bool (*data)(struct guest_request *r, const uint8_t *bytes, size_t size); /* false: they are taken, but no more
                                                                                     until _more; may be NULL */
        void (*room)(struct guest_request *r);                                    /* DATA can be sent again; or NULL */
        void (*end)(struct guest_request *r, const struct guest_message *m);      /* exactly once; m->error */
};
/* m->channel is filled in. 0, -EAGAIN (GUEST_REQUESTS_MAX are under way, or too much is queued), -EOPNOTSUPP (its
 * version does not have it), -EINVAL or -EPIPE; then nothing is called. */
int guest_link_ask(struct guest_link *g, struct guest_request *r, struct guest_message *m);
ssize_t guest_link_data(struct guest_request *r, const void *data,
                        size_t size); /* bytes taken, maybe none, or -errno */
int guest_link_finish(struct guest_request *r);
void guest_link_cancel(struct guest_request *r); /* nothing is called for it any more, and the struct is free */
void guest_link_more(struct guest_request *r);   /* there is room again for `data` */
