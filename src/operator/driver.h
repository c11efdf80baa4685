/* Which driver runs a sandbox: what the policy needs, what the client asks for, what the operator declared in
 * stockade.conf, and what probes of this host found (docs/protocol/driver.md). */
#pragma once

#include "operator/frozen.h"
#include "wire/driver.h"

#define DRIVER_WHY 160

struct call;

/* The first that will do: the one asked for, then those of isolation.prefer, then those of stockade.conf, in their
 * order. ret_why says in words which of these it was. -EAGAIN: this host's drivers are still being looked at.
 * ERR_UNENFORCED: none will do; the sentence names the nearest one. */
int driver_choose(struct core *o, const struct frozen *f, const char *asked, enum driver *ret, char ret_why[DRIVER_WHY],
                  struct err *err);

/* Runs the call's verb again when it is known what this host offers. */
void driver_wait(struct call *c, void (*verb)(struct call *c));

/* The daemon began: look at all of them. */
void driver_look(struct core *o);

/* A start failed: whoever asks for this one waits until it was looked at again. */
void driver_doubt(struct core *o, enum driver d);

void driver_names(const struct core *o, struct json *j); /* those that are offered, into an array */
/* An array: every declared driver with what its probe said. */
void driver_json(const struct core *o, struct json *j, const char *key);
