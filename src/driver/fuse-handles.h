/* Files and folders that a machine has opened. Numbers are the machine's to say: one that is none is no handle. */
#pragma once

#include <stdint.h>

#define FUSE_HANDLES_MAX 4096U

struct fuse_handles {
        int fds[FUSE_HANDLES_MAX];       /* negative: free */
        uint32_t next[FUSE_HANDLES_MAX]; /* of those that are free */
        uint32_t free, used;
};

void fuse_handles_begin(struct fuse_handles *h);
void fuse_handles_end(struct fuse_handles *h);

/* Takes the descriptor over: its number, from 1 on, or -ENFILE, and then it is still the caller's. */
int fuse_handles_add(struct fuse_handles *h, int fd);
int fuse_handles_find(const struct fuse_handles *h, uint64_t number); /* the descriptor, or -EBADF */
int fuse_handles_drop(struct fuse_handles *h, uint64_t number);       /* closes it */
