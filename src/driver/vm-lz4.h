/* The one format in which a kernel's image holds its kernel that we read: LZ4 as the kernel's own build writes it. */
#pragma once

#include "base/buf.h"

/* Unpacks a legacy LZ4 stream (its magic first, then blocks with their size) into out, up to out->max. The input is
 * not trusted. ERR_CORRUPT, ERR_LIMIT. */
int vm_lz4_unpack(const uint8_t *bytes, size_t size, struct buf *out, struct err *err);

/* Does the stream begin here? */
bool vm_lz4_begins(const uint8_t *bytes, size_t size);
