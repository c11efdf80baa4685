/* Loop devices: a file as a block device, for as long as somebody has it mounted.
 *
 * Always holds: every device is made with LO_FLAGS_AUTOCLEAR, so that it goes with its last user, whoever dies; an open
 * descriptor keeps it from going. Devices are never removed (that takes 50 ms each), only reused. A number that was
 * kept means nothing until the kernel says that this very file is behind it. */
#pragma once

#include <sys/stat.h>

#include "base/fd.h"

#define LOOPDEV_PATH_SIZE 32

/* Puts file, opened for writing unless readonly, behind a free device and returns a descriptor of the device. The
 * number is told to `note` before anybody can use the device, so that it can be found again. 0 or more, or -errno. */
int loopdev_attach(int control, int file, bool readonly, int (*note)(void *data, unsigned number), void *data,
                   unsigned *ret_number);

/* A descriptor of this device if this file is behind it, -ENXIO if not (any more), or -errno. *ret_readonly: nothing
 * can be written to it. */
int loopdev_open(unsigned number, const struct stat *file, bool *ret_readonly);

const char *loopdev_path(unsigned number, char buf[LOOPDEV_PATH_SIZE]);
