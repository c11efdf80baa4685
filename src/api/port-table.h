/* Ports that are listened on, in the text of /proc/net/tcp or tcp6. */
#pragma once

#include "base/macro.h"

#define PORT_TABLE_MAX 128

/* Adds those that are not there yet, in order; what does not fit is left out. */
void port_table_read(const char *text, size_t size, uint16_t ports[PORT_TABLE_MAX], size_t *count);
