/* Functions that have no safe use here. Calling one is a compile error.
 *
 * Included through macro.h, so every file gets it. snprintf, memcpy with a checked length, buf_* and fd_* replace
 * them; processes are started with an argument vector, never through a shell. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fortified libc headers define some of them as macros */
#undef alloca
#undef sprintf
#undef strcat
#undef strcpy
#undef strncat
#undef strncpy
#undef vsprintf
#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf gets strtok system popen tmpnam tempnam mktemp
#pragma GCC poison atoi atol atoll alloca readdir_r
