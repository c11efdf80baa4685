/* Files and folders that a machine has opened. Numbers are the machine's to say: one that is none is no handle.
 *
 * Whoever opens the same file in the same way gets the same handle, counted once more, so that a library which hundreds
 * of processes have mapped is one descriptor. Nothing is kept in one that differs between them: every access says
 * where, and what is appended is said by each write. */
#pragma once

#include <stdint.h>

#define FUSE_HANDLES_MAX    4096U
#define FUSE_HANDLES_HASHES 1024U

struct fuse_handle {
        int fd;         /* negative: free */
        uint32_t count; /* how often it was opened */
        uint32_t next;  /* with the same hash, or the next one that is free; 0: none */
        int flags;      /* that it was opened with */
        uint64_t file;  /* what it is a handle of: the caller's number */
};

struct fuse_handles {
        struct fuse_handle all[FUSE_HANDLES_MAX]; /* the first is number 1 */
        uint32_t hashes[FUSE_HANDLES_HASHES];
        uint32_t free, used;
};

void fuse_handles_begin(struct fuse_handles *h);
void fuse_handles_end(struct fuse_handles *h);

/* The handle of what is open already, counted once more: its number, from 1 on, or -ENOENT. */
int fuse_handles_again(struct fuse_handles *h, uint64_t file, int flags);
/* Takes the descriptor over: its number, or -ENFILE, and then it is still the caller's. */
int fuse_handles_add(struct fuse_handles *h, uint64_t file, int flags, int fd);
int fuse_handles_find(const struct fuse_handles *h, uint64_t number); /* the descriptor, or -EBADF */
int fuse_handles_drop(struct fuse_handles *h, uint64_t number);       /* once less; the last closes it */
