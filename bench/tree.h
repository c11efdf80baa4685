/* The small root tree that every row of the bench runs in: mount points, links, ten things in /etc. */
#pragma once

#include "base/macro.h"

/* The devices that are bound into /dev, and their mount points in the tree. */
extern const char *const tree_devices[6];

/* Fills the empty directory root. Allocates nothing, so it may run between clone and exec. Returns 0 or -errno. */
int tree_fill(int root);

/* Removes what is below dir/name and name itself. For the bench's own temporary directory; follows no links. */
int tree_remove(int dir, const char *name);
