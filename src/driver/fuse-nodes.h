/* The files that a machine's kernel remembers: a number for each, and a descriptor that leads to it and cannot read it.
 *
 * A node is what a name led to when it was looked up, link or not: nothing is ever followed, and there is no way from a
 * node to what is above it. The same file seen through two mounts is two nodes, because the mounts may allow different
 * things. Numbers are the machine's to say: one that is none is no node. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#define FUSE_NODES_MAX 60000U

struct fuse_node {
        int fd; /* O_PATH; negative: this number is nobody's */
        mode_t type;
        uint32_t generation;
        uint32_t next;  /* with the same hash, or the next one that is free; 0: none */
        uint64_t count; /* how often it was told */
        uint64_t device, inode, mount;
};

struct fuse_nodes {
        uint32_t most; /* nodes that there may be: each is a descriptor */
        struct fuse_node *nodes;
        uint32_t *hashes;
        uint32_t used;  /* nodes were ever used: 1 to used */
        uint32_t free;  /* the first of those that are free again */
        uint32_t total; /* of those that are not */
};

/* root: a descriptor of the tree's top, taken over on success; it has the number 1 (FUSE_ROOT_ID) for good. */
int fuse_nodes_begin(struct fuse_nodes *n, int root, uint32_t most);
void fuse_nodes_end(struct fuse_nodes *n);

/* NULL: there is no such node. */
const struct fuse_node *fuse_nodes_find(const struct fuse_nodes *n, uint64_t number);

/* What a name in a folder leads to, counted once more: its number, or -errno. The name is one part of a path. */
int64_t fuse_nodes_look(struct fuse_nodes *n, int folder, const char *name, struct stat *ret);

/* It was told so often less. */
void fuse_nodes_forget(struct fuse_nodes *n, uint64_t number, uint64_t count);
