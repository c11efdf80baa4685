/* virtiofsd: which one this host has. */
#pragma once

#include <limits.h>

#include "base/err.h"

/* The path of QEMU's own virtiofsd. Where there is another program of that name alone, the sentence says so. */
int vm_fs_find(char ret[PATH_MAX], struct err *err);
