/* Walking a directory tree that somebody else wrote.
 *
 * Every path here is relative to a descriptor and made of plain names. No link is followed, no mount point is crossed,
 * and nothing leads above the descriptor, however the tree changes meanwhile. Paths may be longer than PATH_MAX. */
#pragma once

#include <sys/stat.h>

#include "base/fd.h"

/* Opens path below root; "" is root itself. O_CLOEXEC and O_NOFOLLOW are added. Returns a descriptor, -ELOOP for a
 * link in the way, -EXDEV for a mount point, or another -errno. */
int tree_open(int root, const char *path, int flags);

/* The same for a tree of our own scratch space, where the sandbox may have taken our read permission away: given back
 * (to the last component, for its owner) and tried once more. */
int tree_open_scratch(int root, const char *path, int flags);

/* Opens the directory that holds path, for the *at calls; *ret_name is the last component, inside path. */
int tree_open_parent(int root, const char *path, const char **ret_name);

/* What name (one component) below dir is. A link is described, not followed; a mount point is -EXDEV. */
int tree_stat(int dir, const char *name, struct stat *ret);

/* The names in a directory, sorted by bytes, without "." and "..". More than max is ERR_LIMIT. */
struct tree_names {
        char **name;
        size_t count;
};
int tree_list(int dir, size_t max, struct tree_names *ret);
void tree_names_free(struct tree_names *names);
bool tree_names_has(const struct tree_names *names, const char *name);

/* Removes name below dir and all that is in it. Only for what we made ourselves: permissions are forced. */
int tree_remove(int dir, const char *name);

/* "a" and "b" to "a/b", "" and "b" to "b". NULL when there is no memory. */
char *tree_join(const char *dir, const char *name);

/* Order of a walk: a directory stands right before what is in it. */
int tree_compare(const char *a, const char *b);

/* Whether path is below dir (not dir itself). */
bool tree_is_below(const char *path, const char *dir);
