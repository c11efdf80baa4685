/* Where our own programs and folders are. */
#pragma once

#include "base/err.h"

/* A program of ours: beside this one, in the neighbouring folders of a build, or where it was installed. */
int paths_helper(const char *name, char *ret, size_t size, struct err *err);

/* A folder that keeps things from run to run, or (cache) things that can be made again. The one that opens it makes it
 * if needed and refuses one that others can write to. */
int paths_state_dir(const char *name, bool cache, struct err *err);
int paths_state_name(const char *name, bool cache, char *ret, size_t size);

/* The i-th of the folders whose contents decide what later sandboxes may do, "" where there is none; false past the
 * last. */
bool paths_own(size_t i, char *ret, size_t size);

/* Makes the folders above path, for everybody to enter; path is changed and put back. */
int paths_make_parents(char *path);
