/* See fuse-nodes.h: an array, chains through it by hash, and a chain of what is free. */
#include "driver/fuse-nodes.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/kernel.h"

#define HASHES 65536U

static uint32_t hash_of(uint64_t device, uint64_t inode, uint64_t mount) {
        return (uint32_t)((inode * 0x9e3779b97f4a7c15U ^ device * 31 ^ mount * 131) >> 40) % HASHES;
}

int fuse_nodes_begin(struct fuse_nodes *n, int root, uint32_t most) {
        struct stat st;

        if (fstat(root, &st) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        *n = (struct fuse_nodes){.most = MIN(most, FUSE_NODES_MAX),
                                 .nodes = calloc(FUSE_NODES_MAX + 1, sizeof *n->nodes),
                                 .hashes = calloc(HASHES, sizeof *n->hashes),
                                 .used = FUSE_ROOT_ID};
        if (!n->nodes || !n->hashes) {
                fuse_nodes_end(n);
                return -ENOMEM;
        }
        n->nodes[0].fd = -EBADF;
        n->nodes[FUSE_ROOT_ID] = (struct fuse_node){.fd = root, .type = S_IFDIR, .count = 1}; /* in no chain */
        return 0;
}

void fuse_nodes_end(struct fuse_nodes *n) {
        for (uint32_t i = 1; n->nodes && i <= n->used; i++)
                fd_close(&n->nodes[i].fd);
        free(n->nodes);
        free(n->hashes);
        *n = (struct fuse_nodes){0};
}

const struct fuse_node *fuse_nodes_find(const struct fuse_nodes *n, uint64_t number) {
        return number >= 1 && number <= n->used && n->nodes[number].fd >= 0 ? &n->nodes[number] : NULL;
}

static uint32_t find_same(const struct fuse_nodes *n, const struct fuse_node *wanted, uint32_t hash) {
        uint32_t i = n->hashes[hash];

        while (i && (n->nodes[i].inode != wanted->inode || n->nodes[i].device != wanted->device ||
                     n->nodes[i].mount != wanted->mount))
                i = n->nodes[i].next;
        return i;
}

static uint32_t take_free(struct fuse_nodes *n) {
        uint32_t i = n->free;

        if (n->total >= n->most)
                return 0;
        if (i)
                n->free = n->nodes[i].next;
        else if (n->used < FUSE_NODES_MAX)
                i = ++n->used;
        return i;
}

int64_t fuse_nodes_look(struct fuse_nodes *n, int folder, const char *name, struct stat *ret) {
        _cleanup_fd_ int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct fuse_node found = {0};

        if (fd < 0 || fstat(fd, ret) < 0)
                return -errno;
        int r = kernel_mount_number(fd, &found.mount);
        if (r < 0)
                return r;
        found.device = ret->st_dev;
        found.inode = ret->st_ino;
        found.type = ret->st_mode & S_IFMT;
        uint32_t hash = hash_of(found.device, found.inode, found.mount), i = find_same(n, &found, hash);
        if (i) {
                n->nodes[i].count++;
                return i;
        }
        i = take_free(n);
        if (!i)
                return -ENFILE;
        found.fd = TAKE_FD(fd);
        found.count = 1;
        found.generation = n->nodes[i].generation + 1;
        found.next = n->hashes[hash];
        n->hashes[hash] = i;
        n->nodes[i] = found;
        n->total++;
        return i;
}

static void remove_node(struct fuse_nodes *n, uint32_t i) {
        struct fuse_node *node = &n->nodes[i];
        uint32_t *link = &n->hashes[hash_of(node->device, node->inode, node->mount)];

        while (*link != i)
                link = &n->nodes[*link].next;
        *link = node->next;
        fd_close(&node->fd);
        node->next = n->free;
        n->free = i;
        n->total--;
}

void fuse_nodes_forget(struct fuse_nodes *n, uint64_t number, uint64_t count) {
        if (number == FUSE_ROOT_ID || !fuse_nodes_find(n, number))
                return;
        struct fuse_node *node = &n->nodes[number];
        node->count -= MIN(node->count, count);
        if (node->count == 0)
                remove_node(n, (uint32_t)number);
}
