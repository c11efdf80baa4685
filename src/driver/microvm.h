/* What the microvm driver's start and probe share. */
#pragma once

#include "base/err.h"

#define MICROVM_ACCEL "accel" /* in the image's folder: "kvm" where a probe has booted a kernel with it */

/* Are QEMU and its file server there? */
int microvm_programs(struct err *err);

int microvm_probe(void); /* prints the object of docs/protocol/driver.md; an exit status */
