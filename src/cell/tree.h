/* What other files of the cell build in the tree with. Private to the cell; see tree.c for what always holds. */
#pragma once

#include "cell/cell.h"

/* A path inside, links not followed: an O_PATH descriptor or -errno. */
int tree_inside(const struct cell_context *c, const char *path);

/* A tmpfs that is not attached yet, owned by the user inside or by nobody that is mapped. */
int tree_tmpfs(const struct cell_context *c, uint64_t size, uint64_t inodes, uint64_t mode, bool owned,
               unsigned attributes);

/* Attaches a mount at a path inside, which is made if it is not there. */
int tree_attach(const struct cell_context *c, int mount, const char *path, bool directory);
