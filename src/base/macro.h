/* Small things that every file uses: cleanup attributes, sizes, moves. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/banned.h"

#define _cleanup_(fn)       __attribute__((cleanup(fn)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _noreturn_          __attribute__((noreturn))
#define _unused_            __attribute__((unused))

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

/* Hand over a descriptor or pointer: the variable no longer owns it, its cleanup does nothing. */
#define TAKE_FD(fd)                                                                                                    \
        ({                                                                                                             \
                int _fd = (fd);                                                                                        \
                (fd) = -EBADF;                                                                                         \
                _fd;                                                                                                   \
        })
#define TAKE_PTR(p)                                                                                                    \
        ({                                                                                                             \
                __typeof__(p) _p = (p);                                                                                \
                (p) = NULL;                                                                                            \
                _p;                                                                                                    \
        })

static inline void free_cleanup(void *p) {
        free(*(void **)p);
}
#define _cleanup_free_ _cleanup_(free_cleanup)

static inline bool str_eq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}

static inline bool str_starts(const char *s, const char *prefix) {
        return strncmp(s, prefix, strlen(prefix)) == 0;
}
