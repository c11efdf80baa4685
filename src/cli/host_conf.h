/* What the daemon that root runs on this host has for a configuration: boxes are its alone. */
#pragma once

#include "base/conf.h"

/* Read once; the defaults, if there is no file, or none that can be read. */
const struct conf *host_conf(void);
