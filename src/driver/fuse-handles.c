/* See fuse-handles.h: an array, chains through it by hash, and a chain of what is free. */
#include "driver/fuse-handles.h"

#include "base/fd.h"

static uint32_t hash_of(uint64_t file) {
        return (uint32_t)((file * 0x9e3779b97f4a7c15U) >> 40) % FUSE_HANDLES_HASHES;
}

void fuse_handles_begin(struct fuse_handles *h) {
        memset(h->hashes, 0, sizeof h->hashes);
        h->free = h->used = 0;
}

void fuse_handles_end(struct fuse_handles *h) {
        for (uint32_t i = 0; i < h->used; i++)
                fd_close(&h->all[i].fd);
        fuse_handles_begin(h);
}

int fuse_handles_again(struct fuse_handles *h, uint64_t file, int flags) {
        uint32_t number = h->hashes[hash_of(file)];

        while (number && (h->all[number - 1].file != file || h->all[number - 1].flags != flags))
                number = h->all[number - 1].next;
        if (!number || h->all[number - 1].count == UINT32_MAX)
                return -ENOENT;
        h->all[number - 1].count++;
        return (int)number;
}

int fuse_handles_add(struct fuse_handles *h, uint64_t file, int flags, int fd) {
        uint32_t number = h->free, *first = &h->hashes[hash_of(file)];

        if (number)
                h->free = h->all[number - 1].next;
        else if (h->used < FUSE_HANDLES_MAX)
                number = ++h->used;
        else
                return -ENFILE;
        h->all[number - 1] = (struct fuse_handle){.fd = fd, .count = 1, .next = *first, .flags = flags, .file = file};
        *first = number;
        return (int)number;
}

int fuse_handles_find(const struct fuse_handles *h, uint64_t number) {
        return number >= 1 && number <= h->used && h->all[number - 1].fd >= 0 ? h->all[number - 1].fd : -EBADF;
}

int fuse_handles_drop(struct fuse_handles *h, uint64_t number) {
        if (fuse_handles_find(h, number) < 0)
                return -EBADF;
        struct fuse_handle *one = &h->all[number - 1];
        if (--one->count > 0)
                return 0;
        uint32_t *link = &h->hashes[hash_of(one->file)];
        while (*link != number)
                link = &h->all[*link - 1].next;
        *link = one->next;
        fd_close(&one->fd);
        one->next = h->free;
        h->free = (uint32_t)number;
        return 0;
}
