/* Memory that comes straight from the kernel, costs nothing until it is touched, and goes back when it is given up: for
 * rings and buffers, which are large while they work and nothing while they rest. */
#pragma once

#include <sys/mman.h>

#include "base/macro.h"

static inline void *memory_map(size_t size) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

static inline void memory_unmap(void *p, size_t size) {
        if (p)
                (void)munmap(p, size);
}

/* Gives the pages back; the addresses stay, and read as zero. */
static inline void memory_rest(void *p, size_t size) {
        if (p)
                (void)madvise(p, size, MADV_DONTNEED);
}
