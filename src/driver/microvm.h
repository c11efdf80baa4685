/* What the microvm driver's start and probe share. */
#pragma once

#include <limits.h>

#include "base/err.h"

#define MICROVM_ACCEL "accel" /* in the image's folder: "kvm" where a probe has booted a kernel with it */

/* The folder with what machines boot: `microvm` beside our programs, or in /var/lib/stockade. */
int microvm_image(char ret[PATH_MAX], struct err *err);

/* Are QEMU and its file server there? */
int microvm_programs(struct err *err);

int microvm_probe(void); /* prints the object of docs/protocol/driver.md; an exit status */
