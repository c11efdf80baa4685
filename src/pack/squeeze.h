/* Bytes through zstd to a descriptor, with a checksum over each frame: what was changed on its way is noticed when it
 * is unpacked. (libarchive's own zstd filter writes none.) */
#pragma once

#include "base/err.h"

struct squeeze;

int squeeze_open(struct squeeze **ret, int out);                   /* 0 or -errno; out stays the caller's */
int squeeze_put(struct squeeze *s, const void *data, size_t size); /* 0 or -errno */
int squeeze_end(struct squeeze *s);                                /* writes the end; 0 or -errno */
void squeeze_free(struct squeeze *s);
