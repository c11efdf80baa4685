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

/* What a test build leaves out when layers are off (tree-knockout.c); in a release build nothing. */
#ifdef STOCKADE_TEST_BUILD
unsigned tree_knockout_flags(unsigned attributes);                       /* those that are set all the same */
bool tree_knockout_skips(const struct plan_step *s);                     /* this step is not done */
int tree_knockout_cover(const struct cell_context *c, const char *path); /* before path is made */
#else
static inline unsigned tree_knockout_flags(unsigned attributes) {
        return attributes;
}
static inline bool tree_knockout_skips(const struct plan_step *s) {
        (void)s;
        return false;
}
static inline int tree_knockout_cover(const struct cell_context *c, const char *path) {
        (void)c;
        (void)path;
        return 0;
}
#endif
