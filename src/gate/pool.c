/* A stack of free buffers. Those that held much are given back to the kernel, so that a burst does not stay. */
#include "gate/pool.h"

#include <sys/mman.h>

#define WARM  32 /* free buffers that keep their pages */
#define SHARE 8  /* so many times what is left for the others may be one owner's */

static uint8_t *memory;
static uint16_t free_list[POOL_COUNT];
static size_t free_count;

int pool_init(struct err *err) {
        void *p = mmap(NULL, (size_t)POOL_COUNT * POOL_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
                return err_set(err, -errno, "cannot make room for buffers");
        memory = p;
        /* what passes may be secret */
        (void)madvise(memory, (size_t)POOL_COUNT * POOL_SIZE, MADV_DONTDUMP);
        for (size_t i = 0; i < POOL_COUNT; i++)
                free_list[i] = (uint16_t)(POOL_COUNT - 1 - i);
        free_count = POOL_COUNT;
        return 0;
}

bool pool_plenty(void) {
        return free_count > POOL_COUNT / 2;
}

uint8_t *pool_take(void) {
        return free_count > 0 ? memory + (size_t)free_list[--free_count] * POOL_SIZE : NULL;
}

/* May an owner of so many have one more? */
static bool may_have(uint32_t used) {
        return used < SHARE * free_count;
}

void pool_give(uint8_t *buffer, size_t used) {
        size_t index = (size_t)(buffer - memory) / POOL_SIZE;

        assert(index < POOL_COUNT && free_count < POOL_COUNT);
        if (POOL_COUNT - free_count > WARM)
                (void)madvise(buffer, POOL_SIZE, MADV_DONTNEED);
        else
                explicit_bzero(buffer, used);
        free_list[free_count++] = (uint16_t)index;
}

int pool_keep(struct pool_hold *h, const void *bytes, size_t size) {
        assert(!h->data && size <= POOL_SIZE);
        if (size == 0)
                return 0;
        if (h->owner && !may_have(*h->owner))
                return -ENOBUFS;
        h->data = pool_take();
        if (!h->data)
                return -ENOBUFS;
        if (h->owner)
                ++*h->owner;
        memcpy(h->data, bytes, size);
        h->at = 0;
        h->end = (uint32_t)size;
        return 0;
}

void pool_used(struct pool_hold *h, size_t size) {
        assert(size <= pool_held(h));
        h->at += (uint32_t)size;
        if (h->at == h->end)
                pool_drop(h);
}

void pool_drop(struct pool_hold *h) {
        if (h->data) {
                pool_give(h->data, h->end);
                if (h->owner)
                        --*h->owner;
        }
        *h = (struct pool_hold){.owner = h->owner};
}
