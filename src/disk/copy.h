/* File contents: compared and copied with their holes, so that a huge sparse file costs what it holds. */
#pragma once

#include "base/fd.h"

/* The next stretch of data at or after offset: *ret_start to *ret_end, both size when only a hole is left. A file
 * system that knows no holes has one stretch. */
int copy_next_data(int fd, uint64_t offset, uint64_t size, uint64_t *ret_start, uint64_t *ret_end);

/* 1 when the first size bytes of both are the same, 0 when not, -errno. */
int copy_equal(int a, int b, uint64_t size);

/* Makes out, an empty file, hold the first size bytes of in; holes stay holes. -EIO when in is shorter. */
int copy_sparse(int in, int out, uint64_t size);
