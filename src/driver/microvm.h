/* What the microvm driver's start and probe share. */
#pragma once

#include <limits.h>

#include "base/err.h"

#define MICROVM_ACCEL "accel" /* in the image's folder: "kvm" where a probe has booted a kernel with it */

/* Are QEMU and its file server there? The latter's path. */
int microvm_programs(char ret_fs[PATH_MAX], struct err *err);

/* What helps where a machine's kernel does not come up. */
int microvm_hint(struct err *err);

int microvm_probe(void); /* prints the object of docs/protocol/driver.md; an exit status */
