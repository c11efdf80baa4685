/* The filter below every plan's: made at build time by src/policy/filter-array.c, from the same table as plans are. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

extern const struct sock_filter base_filter[];
extern const size_t base_filter_size; /* bytes */
