/* The operator's end of its conversation with the warden: requests with serial numbers, a callback for each answer. */
#pragma once

#include "operator/operator.h"
#include "wire/warden.h"

/* fds are the callback's to take (set taken ones to -EBADF; the others are closed after it returns). Items of
 * WARDEN_LIST come through the same callback with kind WARDEN_ITEM before the WARDEN_ANSWER.
 *
 * When the warden goes away the operator ends at once, and nothing is called back: nothing works without it, and what
 * was half done is found by the next operator, as after any other death. */
typedef void warden_done(void *data, const struct warden_message *answer, int *fds, size_t fd_count);

int warden_link_open(struct core *o, int fd, struct err *err);
void warden_link_close(struct core *o); /* calls nothing back */

/* Sends (or queues, when the socket is full) a request; serial is filled in. fds stay the caller's and are copied if
 * the request has to wait. Returns 0, -EINVAL or -ENOMEM; done is called exactly once, and never before this returned,
 * unless warden_forget. */
int warden_call(struct core *o, struct warden_message *request, const int *fds, size_t fd_count, warden_done *done,
                void *data);
void warden_forget(struct core *o, void *data);  /* no callback with this data any more */
unsigned warden_under_way(const struct core *o); /* requests that are not answered: descriptors may come with each */

/* What the warden says unasked (WARDEN_GONE, WARDEN_GATE_GONE, WARDEN_PRESSURE, WARDEN_END) goes to these. NULL for
 * gate_gone is gate_link_gone, NULL for end is operator_end. */
void warden_link_handlers(struct core *o, void (*gone)(struct core *o, const struct warden_message *m),
                          void (*gate_gone)(struct core *o, uint32_t slot), void (*pressure)(struct core *o, bool low),
                          void (*end)(struct core *o));
