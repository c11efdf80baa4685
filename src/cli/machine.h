/* `stockade image microvm`: what virtual machines boot. */
#pragma once

#include "base/err.h"

/* Makes it from an installed kernel, in the folder where the driver looks for it (microvm_image of stockade.conf, or
 * /var/lib/stockade/microvm); needs root. release: the kernel's, or
 * NULL for the newest cloud kernel. Returns 0 and the folder, or an error. */
int machine_image(const char *release, char ret_folder[4096], struct err *err);
