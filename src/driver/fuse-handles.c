/* See fuse-handles.h. */
#include "driver/fuse-handles.h"

#include "base/fd.h"

void fuse_handles_begin(struct fuse_handles *h) {
        h->free = h->used = 0;
}

void fuse_handles_end(struct fuse_handles *h) {
        for (uint32_t i = 0; i < h->used; i++)
                fd_close(&h->fds[i]);
        fuse_handles_begin(h);
}

int fuse_handles_add(struct fuse_handles *h, int fd) {
        uint32_t number = h->free;

        if (number)
                h->free = h->next[number - 1];
        else if (h->used < FUSE_HANDLES_MAX)
                number = ++h->used;
        else
                return -ENFILE;
        h->fds[number - 1] = fd;
        return (int)number;
}

int fuse_handles_find(const struct fuse_handles *h, uint64_t number) {
        return number >= 1 && number <= h->used && h->fds[number - 1] >= 0 ? h->fds[number - 1] : -EBADF;
}

int fuse_handles_drop(struct fuse_handles *h, uint64_t number) {
        if (fuse_handles_find(h, number) < 0)
                return -EBADF;
        fd_close(&h->fds[number - 1]);
        h->next[number - 1] = h->free;
        h->free = (uint32_t)number;
        return 0;
}
