/* Which host paths are within the ceiling. Between ceiling*.c. */
#pragma once

#include "warden/ceiling.h"

bool ceiling_path_below(const char *path, const char *parent); /* path is parent or inside it */
bool ceiling_path_readable(const struct ceiling *c, const char *path);
bool ceiling_path_writable(const struct ceiling *c, const char *path);
bool ceiling_path_device(const struct ceiling *c, const char *path);
