/* The conversation with whoever runs this gate, over wire/gate.h. End of file means that they are gone: so are we. */
#pragma once

#include "wire/gate.h"

int control_init(struct err *err);
int control_listen(struct err *err); /* requests are carried out from now on: after confinement */
/* 0 or -errno. An event that does not fit now is the caller's to send again; other messages wait a second for room,
 * and so do events while a ward is flushed. */
int control_send(const struct gate_message *m);
int control_send_with(const struct gate_message *m, const int *fds, size_t count);
_noreturn_ void control_fail(const struct err *err); /* says why the gate cannot start, and ends it */
