/* Names of error numbers, as programmers know them. */
#pragma once

#include "base/err.h"

/* "EPERM"; the number in buf where it has no name here. */
const char *errno_name(int error, char *buf, size_t size);
/* The number of "EPERM", 0 if there is none of this name. */
int errno_find(const char *name);
