/* What the drivers with machines share on the host. */
#pragma once

#include <limits.h>

#include "base/err.h"

/* The folder with what machines boot: what stockade.conf says (microvm_image), or else `microvm` beside our programs,
 * or in /var/lib/stockade. */
int vm_host_image(char ret[PATH_MAX], struct err *err);

/* Puts the first that a machine's programs complained, from a pipe that does not block, after the sentence that there
 * is: one that ends makes others complain after it. Returns the sentence's code. */
int vm_host_quote(int words, struct err *err);

/* A /proc of our own pid namespace: the host's shows other processes under our numbers. */
int vm_host_proc(struct err *err);
