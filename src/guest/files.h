/* What several requests about files need. */
#pragma once

#include <sys/stat.h>

#include "guest/request.h"

/* Opens the folder that holds path's last part, following links on the way, and says where that part begins. -EINVAL
 * for a path whose last part names no file of its own ("/", "..", "."). Slashes at the end are cut off, in name
 * (NAME_MAX + 1 bytes). */
int files_parent(const char *path, char *name, int *ret_dir);

/* Makes a folder and those on the way to it that are missing. 0 or -errno. */
int files_make_parents(const char *path, mode_t mode);

uint64_t files_time_ms(const struct stat *st); /* when its contents changed, since 1970 */

/* Says what name in dir is, not following it. */
int files_say_entry(struct guest *g, struct request *r, int dir, const char *name, const char *shown);

/* 0, -EEXIST if something is there that is not to be replaced, or -errno. */
int files_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace);
